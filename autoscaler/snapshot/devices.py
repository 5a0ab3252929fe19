"""Pools of devices: those of one node, and those that several nodes reach."""

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

import msgspec

from autoscaler.objects.devices import Device, PoolRef, ResourceSlice
from cloudprovider.quoted import quoted

GPU_DRIVERS = frozenset(("gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com", "gaudi.intel.com"))
"""Drivers whose devices are the GPUs that a GPU label promises."""


class DevicePool(msgspec.Struct, frozen=True):
    """The known slices of the newest generation of a pool."""

    driver: str
    name: str
    slices: tuple[ResourceSlice, ...]

    @property
    def complete(self) -> bool:
        """Whether all slices are known; otherwise the driver has not published all of them yet."""
        return len(self.slices) == self.slices[0].spec.pool.resource_slice_count

    @property
    def fault(self) -> str | None:
        """Why nothing is allocated from it now; None: it is in order. Source: the scheduler's `buildPool`."""
        if not self.complete:
            return f"has {len(self.slices)} of its {self.slices[0].spec.pool.resource_slice_count} ResourceSlices"
        names = [device.name for device in self.devices()]
        if len(set(names)) < len(names):
            return "names a device twice"
        sets = [one for part in self.slices for one in part.spec.shared_counters]
        counters = {one.name: one.counters for one in sets}
        if len(counters) < len(sets):
            return "names a counter set twice"
        for use in (use for device in self.devices() for use in device.uses):
            if use.counter_set not in counters:
                return f"lacks counter set {quoted(use.counter_set)} that a device takes"
            if not use.counters.keys() <= counters[use.counter_set].keys():
                return f"lacks counters of set {quoted(use.counter_set)} that a device takes"
        return None

    @property
    def label(self) -> str:
        """`driver/pool`, for messages."""
        return f"{self.driver}/{self.name}"

    def devices(self) -> Iterator[Device]:
        """Yield the devices, slice by slice."""
        return (device for resource_slice in self.slices for device in resource_slice.spec.devices)


def pools_by_node(slices: Mapping[str, ResourceSlice]) -> Mapping[str, tuple[DevicePool, ...]]:
    """Return the pools of each node by node name, in the order of the slices; nodes without pools are absent."""
    pools = _pools(one for one in slices.values() if one.spec.node_name)
    by_node: dict[str, list[DevicePool]] = {}
    for pool in pools:
        by_node.setdefault(pool.slices[0].spec.node_name, []).append(pool)
    return {node: tuple(own) for node, own in by_node.items()}


def shared_pools(slices: Mapping[str, ResourceSlice]) -> tuple[DevicePool, ...]:
    """Return the pools that do not belong to one node, in the order of the slices."""
    return tuple(_pools(one for one in slices.values() if not one.spec.node_name))


def _pools(slices: Iterable[ResourceSlice]) -> list[DevicePool]:
    pools: dict[tuple[str, str, str], list[ResourceSlice]] = {}
    for resource_slice in slices:
        spec = resource_slice.spec
        same = pools.setdefault((spec.node_name, spec.driver, spec.pool.name), [])
        if same and same[0].spec.pool.generation < spec.pool.generation:
            same.clear()
        if not same or same[0].spec.pool.generation == spec.pool.generation:
            same.append(resource_slice)
    by_name = attrgetter("name")
    return [DevicePool(driver, name, tuple(sorted(same, key=by_name))) for (_, driver, name), same in pools.items()]


def described_pools(slices: Iterable[ResourceSlice], node: str) -> tuple[DevicePool, ...]:
    """Return the pools of a new node as a cloud describes them: all are the node's own, and complete."""
    parts: dict[tuple[str, str], list[ResourceSlice]] = {}
    for one in slices:
        parts.setdefault((one.spec.driver, one.spec.pool.name or node), []).append(one)
    made = []
    for (driver, name), same in parts.items():
        pool = PoolRef(name=name, resource_slice_count=len(same))
        specs = (msgspec.structs.replace(one.spec, pool=pool, node_name=node) for one in same)
        whole = (msgspec.structs.replace(one, spec=spec) for one, spec in zip(same, specs, strict=True))
        made.append(DevicePool(driver, name, tuple(whole)))
    return tuple(made)


def complete_pools(pools: tuple[DevicePool, ...]) -> dict[str, tuple[int, ...]]:
    """Return the number of devices in each complete pool, by driver, in ascending order."""
    sizes: dict[str, list[int]] = {}
    for pool in pools:
        if pool.complete:
            sizes.setdefault(pool.driver, []).append(sum(1 for _ in pool.devices()))
    return {driver: tuple(sorted(counts)) for driver, counts in sizes.items()}


def exposes_gpus(pools: tuple[DevicePool, ...]) -> bool:
    """Whether any device is a GPU; such a node need not offer GPUs as an extended resource."""
    return any(pool.driver in GPU_DRIVERS for pool in pools)
