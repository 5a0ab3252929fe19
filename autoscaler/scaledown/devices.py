"""Computes how much of each node's devices is allocated (dynamic resource allocation).

Source of the rules: Cluster Autoscaler's `simulator/dynamicresources/utils`. Nodes without local pools of devices
cost nothing here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from autoscaler.objects.devices import CounterSet, Device, ResourceClaim
from autoscaler.scheduling.device_shares import DeviceId, Holding, held_by
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.devices import DevicePool, exposes_gpus, pools_by_node
from cloudprovider.quantity import parse_quantity


class DeviceUse(msgspec.Struct, frozen=True):
    """What a node's devices say of its use."""

    share: float
    """Of the pool that is used most, 0 to 1."""
    pool: str
    """That pool, `driver/pool`."""
    gpus: bool
    """Whether GPUs are among the devices."""
    unreadable: str = ""
    """Why `share` is unknown; empty where it is known."""


def device_uses(view: ClusterView) -> Mapping[int, DeviceUse]:
    """Return the use of every node that has pools of its own, by position."""
    slices = view.related.resource_slices
    if not slices:
        return {}
    pools = {view.positions[name]: own for name, own in pools_by_node(slices).items() if name in view.positions}
    allocated = _allocated(view, pools)
    return {position: _use(own, allocated) for position, own in pools.items()}


def _use(pools: tuple[DevicePool, ...], allocated: Mapping[tuple[str, str], Mapping[str, float]]) -> DeviceUse:
    gpus = exposes_gpus(pools)
    for pool in pools:
        if not pool.complete:
            there, wanted = len(pool.slices), pool.slices[0].spec.pool.resource_slice_count
            return DeviceUse(0.0, pool.label, gpus, f"pool {pool.label} has {there} of its {wanted} ResourceSlices")
    shares = [(pool_share(pool, allocated.get((pool.driver, pool.name), {})), pool.label) for pool in pools]
    share, label = max(shares, key=lambda pair: pair[0])
    return DeviceUse(share, label, gpus)


def _allocated(
    view: ClusterView, pools: Mapping[int, Sequence[DevicePool]]
) -> Mapping[tuple[str, str], Mapping[str, float]]:
    """Return how much of each device is allocated, above 0 to 1, by driver and pool.

    Only claims of pods that are on these nodes or have no node yet count: not those of pods that the view leaves out.
    """
    pods = [*(pod for position in pools for pod in view.pods[position]), *view.pending]
    uids = {pod.key: pod.uid for pod in pods}
    classes = {pod.cls for pod in pods}
    named = {f"{cls.namespace}/{ref.resource_claim_name}" for cls in classes for ref in cls.resource_claims}
    shared: dict[DeviceId, Holding] = defaultdict(Holding)
    allocated: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for key, claim in view.related.resource_claims.items():
        if claim.status.allocation is None or not (key in named or _is_used(claim, uids)):
            continue
        for result in claim.status.allocation.devices.results:
            if result.admin_access:
                continue
            if result.share_id is None:
                allocated[result.driver, result.pool][result.device] = 1.0
            else:
                shared[result.driver, result.pool, result.device] += held_by(result)
    devices = {
        (pool.driver, pool.name, device.name): device
        for own in pools.values()
        for pool in own
        for device in pool.devices()
    }
    for (driver, name, device), holding in shared.items():
        if (known := devices.get((driver, name, device))) is not None:
            allocated[driver, name].setdefault(device, _share(known, holding))
    return allocated


def _share(device: Device, holding: Holding) -> float:
    """Return how much of the scarcest capacity of a device its shares take; all of one that has no capacity."""
    sizes = {name: parse_quantity(str(capacity.value)) for name, capacity in device.body.capacity.items()}
    parts = [amount / sizes[name] for (_, name), amount in holding.shares if sizes.get(name)]
    return float(min(max(parts, default=1), 1))


def _is_used(claim: ResourceClaim, uids: Mapping[str, str]) -> bool:
    """Whether it is reserved for one of the pods, given by key and uid, or belongs to one."""
    users = [(consumer.name, consumer.uid) for consumer in claim.status.reserved_for if consumer.resource == "pods"]
    users += [(owner.name, owner.uid) for owner in claim.metadata.owner_references if owner.kind == "Pod"]
    for name, uid in users:
        known = uids.get(f"{claim.namespace}/{name}")
        if known is not None and (not uid or not known or uid == known):
            return True
    return False


def pool_share(pool: DevicePool, allocated: Mapping[str, float]) -> float:
    """Return how much of a complete pool is allocated, 0 to 1; `allocated` has each device's own share by name.

    Devices without shared counters are counted; one that claims share counts as much as its scarcest capacity.
    Of hardware that devices cut up among them, each piece, which is a counter set, counts as much as its scarcest
    counter is consumed. Where devices of both sorts are allocated, both shares count by how many devices and pieces
    there are; where only one sort is, its share alone does.
    """
    devices = list(pool.devices())
    whole = [device for device in devices if not device.uses]
    whole_taken = sum(allocated.get(device.name, 0) for device in whole)
    cut_taken = [device for device in devices if device.uses and device.name in allocated]
    whole_share = whole_taken / len(whole) if whole else 0.0
    if not cut_taken:
        return whole_share
    pieces = len({use.counter_set for device in devices for use in device.uses})
    cut_share = _consumed(pool, cut_taken) / pieces
    if not whole_taken:
        return cut_share
    return (cut_share * pieces + whole_share * len(whole)) / (pieces + len(whole))


def _consumed(pool: DevicePool, taken: Iterable[Device]) -> float:
    """Return how many pieces of hardware, in fractions, the taken devices use up."""
    consumed: dict[tuple[str, str], int] = defaultdict(int)
    for device in taken:
        for use in device.uses:
            for name, counter in use.counters.items():
                consumed[use.counter_set, name] += counter.whole
    sets: Iterable[CounterSet] = (counter_set for part in pool.slices for counter_set in part.spec.shared_counters)
    available: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for counter_set in sets:
        for name, counter in counter_set.counters.items():
            available[counter_set.name][name] += counter.whole
    return sum(
        max((consumed[piece, name] / total for name, total in counters.items() if total), default=0.0)
        for piece, counters in available.items()
    )
