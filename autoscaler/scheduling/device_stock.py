"""The devices that a node reaches, as claims choose among them."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from autoscaler.objects.devices import Device, DeviceAttribute, DeviceSelector, DeviceTaint
from autoscaler.objects.matching import selector_matches
from autoscaler.objects.node import Node
from autoscaler.objects.podspec import NodeSelector
from autoscaler.scheduling.cel import selector
from autoscaler.scheduling.cel_values import CelError, Domains, Quantity, Value, version
from autoscaler.snapshot.devices import DevicePool
from cloudprovider.quantity import parse_quantity
from cloudprovider.quoted import quoted

DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device."""
CounterId = tuple[str, str, str, str]
"""Driver, pool, counter set and name of a counter."""
Consumption = Sequence[tuple[CounterId, int]]
_LONGEST_REASON = 200
_FORBIDDING = ("NoSchedule", "NoExecute")


class OfferedDevice(msgspec.Struct, frozen=True, eq=False):
    """A device that may be allocated."""

    id: DeviceId
    attributes: Mapping[str, tuple[str, str | int | bool]]
    """Type and value by full name, `domain/name`."""
    taints: Sequence[DeviceTaint]
    """Those that forbid its allocation."""
    consumes: Consumption
    view: Mapping[str, Value]
    """What a selector sees."""


class Stock:
    """All devices that a node reaches."""

    def __init__(self, pools: Sequence[DevicePool], shared: Sequence[tuple[DevicePool, Sequence[Device]]] = ()) -> None:
        """Take the pools of the node, and those that other nodes reach too, with the devices that this node reaches."""
        self.faults: list[str] = []
        """Pools from which nothing is allocated now, and why."""
        self.offers: list[OfferedDevice] = []
        self.counters: dict[CounterId, int] = {}
        """What hardware has, counter by counter."""
        self.consumes: dict[DeviceId, Consumption] = {}
        """What each device takes of counters, also of those that the node does not reach."""
        self._verdicts: dict[tuple[str, ...], list[bool | str]] = {}
        for pool in pools:
            self._add(pool, pool.devices())
        for pool, devices in shared:
            self._add(pool, devices)
        self.ids = {offer.id: number for number, offer in enumerate(self.offers)}

    def _add(self, pool: DevicePool, devices: Iterable[Device]) -> None:
        if not pool.complete:
            there, wanted = len(pool.slices), pool.slices[0].spec.pool.resource_slice_count
            self.faults.append(f"pool {pool.label} has {there} of its {wanted} ResourceSlices")
            return
        names = [device.name for device in pool.devices()]
        if len(set(names)) < len(names):
            self.faults.append(f"pool {pool.label} names a device twice")
            return
        self.offers.extend(_offer(pool, device) for device in devices)
        for device in pool.devices():
            if device.uses:
                self.consumes[pool.driver, pool.name, device.name] = _consumption(pool, device)
        for part in pool.slices:
            for piece in part.spec.shared_counters:
                for name, counter in piece.counters.items():
                    self.counters[pool.driver, pool.name, piece.name, name] = counter.whole

    def verdicts(self, selectors: Sequence[DeviceSelector]) -> Sequence[bool | str]:
        """Return of each device whether it meets all selectors; a text says why that cannot be told."""
        if any(one.cel is None for one in selectors):
            return ["a selector is of a kind that is not known here"] * len(self.offers)
        texts = tuple(one.cel.expression for one in selectors if one.cel is not None)
        known = self._verdicts.get(texts)
        if known is None:
            known = self._verdicts[texts] = [_verdict(offer, texts) for offer in self.offers]
        return known


def _verdict(offer: OfferedDevice, texts: Iterable[str]) -> bool | str:
    for text in texts:
        try:
            if not selector(text)(offer.view):
                return False
        except CelError as error:
            return f"selector {quoted(text)}: {str(error)[:_LONGEST_REASON]}"
    return True


def reached(pool: DevicePool, node: Node) -> list[Device]:
    """Return the devices of a shared pool that a node reaches."""
    found: list[Device] = []
    for part in pool.slices:
        spec = part.spec
        if spec.per_device_node_selection:
            bodies = ((device, device.body) for device in spec.devices)
            found += (
                device for device, body in bodies if _on(node, body.node_name, body.node_selector, body.all_nodes)
            )
        elif _on(node, None, spec.node_selector, spec.all_nodes):
            found += spec.devices
    return found


def _on(node: Node, name: str | None, where: NodeSelector | None, everywhere: bool | None) -> bool:
    if name:
        return node.name == name
    return bool(everywhere) or (where is not None and selector_matches(where, node.labels, node.name))


def _offer(pool: DevicePool, device: Device) -> OfferedDevice:
    body = device.body
    attributes = {
        _full(name, pool.driver): typed for name, held in body.attributes.items() if (typed := _typed(held)) is not None
    }
    by_domain, capacity = Domains(), Domains()
    for name, (kind, value) in attributes.items():
        domain, _, short = name.partition("/")
        _entries(by_domain, domain)[short] = _seen(kind, value)
    for name, amount in body.capacity.items():
        domain, _, short = _full(name, pool.driver).partition("/")
        _entries(capacity, domain)[short] = Quantity(parse_quantity(str(amount.value)))
    return OfferedDevice(
        id=(pool.driver, pool.name, device.name),
        attributes=attributes,
        taints=[taint for taint in body.taints if taint.effect in _FORBIDDING],
        consumes=_consumption(pool, device),
        view={
            "driver": pool.driver,
            "attributes": by_domain,
            "capacity": capacity,
            "allowMultipleAllocations": bool(body.allow_multiple_allocations),
        },
    )


def _consumption(pool: DevicePool, device: Device) -> Consumption:
    return [
        ((pool.driver, pool.name, use.counter_set, name), counter.whole)
        for use in device.uses
        for name, counter in use.counters.items()
    ]


def _full(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _typed(held: DeviceAttribute) -> tuple[str, str | int | bool] | None:
    values = (("string", held.string), ("int", held.int_), ("bool", held.bool_), ("version", held.version))
    return next(((kind, value) for kind, value in values if value is not None), None)


def _entries(domains: Domains, domain: str) -> dict[str, Value]:
    known = domains.get(domain)
    if not isinstance(known, dict):
        known = domains[domain] = {}
    return known


def _seen(kind: str, value: str | int | bool) -> Value:
    if kind != "version":
        return value
    try:
        return version(value)
    except CelError:
        return value
