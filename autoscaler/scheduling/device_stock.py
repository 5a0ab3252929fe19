"""The devices that a node reaches, as claims choose among them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from autoscaler.objects.devices import (
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceSelector,
    DeviceTaint,
    DeviceTaintRule,
)
from autoscaler.objects.matching import selector_matches
from autoscaler.objects.node import Node
from autoscaler.objects.podspec import NodeSelector
from autoscaler.scheduling.cel import selector
from autoscaler.scheduling.cel_values import CelError, Domains, Quantity, Value, version
from autoscaler.scheduling.device_shares import SHARES, DeviceAmount, DeviceId, Holding, ShareKey, read_capacity
from autoscaler.snapshot.devices import DevicePool
from cloudprovider.quantity import LARGEST, parse_quantity
from cloudprovider.quoted import quoted

CounterId = tuple[str, str, str, str]
"""Driver, pool, counter set and name of a counter."""
Consumption = Sequence[tuple[CounterId, int]]
AttributeSet = tuple[str, frozenset[str | int | bool]]
_LONGEST_REASON = 200
_FORBIDDING = ("NoSchedule", "NoExecute")


class TaintRule(msgspec.Struct, frozen=True):
    """A taint of devices that meet all conditions; a name of None is no condition."""

    taint: DeviceTaint
    driver: str | None
    pool: str | None
    device: str | None
    selectors: tuple[str, ...]

    def covers(self, device: DeviceId, view: Mapping[str, Value]) -> bool:
        """Whether a device gets the taint; one of which a selector cannot tell does not."""
        wanted = (self.driver, self.pool, self.device)
        if any(name is not None and name != own for name, own in zip(wanted, device, strict=True)):
            return False
        return _verdict(view, self.selectors) is True


class OfferedDevice(msgspec.Struct, frozen=True, eq=False):
    """A device that may be allocated."""

    id: DeviceId
    attributes: Mapping[str, AttributeSet]
    """Type and values by full name, `domain/name`."""
    taints: Sequence[DeviceTaint]
    """Those that forbid its allocation."""
    consumes: Consumption
    capacities: Mapping[str, DeviceAmount]
    """By the name that the driver writes."""
    shared: bool
    """Whether several claims may have shares of it."""
    view: Mapping[str, Value]
    """What a selector sees."""


class Stock:
    """All devices that a node reaches."""

    def __init__(
        self,
        pools: Sequence[DevicePool],
        shared: Sequence[tuple[DevicePool, Sequence[Device]]] = (),
        rules: Sequence[TaintRule] = (),
        *,
        fresh: bool = False,
    ) -> None:
        """Take the pools of the node, and those that other nodes reach too, with the devices that this node reaches.

        A node that is `fresh` does not exist: its pools have names of another's, which rules may mean.
        """
        self.faults: list[str] = []
        """Pools from which nothing is allocated now, and why."""
        self.offers: list[OfferedDevice] = []
        self.counters: dict[CounterId, int] = {}
        """What hardware has, counter by counter."""
        self.consumes: dict[DeviceId, Consumption] = {}
        """What each device takes of counters, also of those that the node does not reach."""
        self._verdicts: dict[tuple[str, ...], list[bool | str]] = {}
        local = [rule for rule in rules if rule.pool is None] if fresh else rules
        given = [*((pool, tuple(pool.devices()), local) for pool in pools), *((*one, rules) for one in shared)]
        for pool, devices, covering in sorted(given, key=lambda one: _turn(one[0])):
            self._add(pool, devices, covering)
        self.ids = {offer.id: number for number, offer in enumerate(self.offers)}

    def _add(self, pool: DevicePool, devices: Iterable[Device], rules: Sequence[TaintRule]) -> None:
        if (fault := pool.fault) is not None:
            self.faults.append(f"pool {pool.label} {fault}")
            return
        self.offers.extend(_offer(pool, device, rules) for device in devices)
        for device in pool.devices():
            if device.uses:
                self.consumes[pool.driver, pool.name, device.name] = _consumption(pool, device)
        for part in pool.slices:
            for piece in part.spec.shared_counters:
                for name, counter in piece.counters.items():
                    self.counters[pool.driver, pool.name, piece.name, name] = counter.whole

    def admits(self, taken: Holding, more: Holding) -> bool:
        """Whether `more` can be had beside what is taken."""
        if not more.devices.isdisjoint(taken.used) or not more.used.isdisjoint(taken.devices):
            return False
        both = taken + more
        if any(amount > self._value(key) for key, amount in (both.shares if more.shares else ())):
            return False
        asked = {counter for device in more.used for counter, _ in self.consumes.get(device, ())}
        if not asked:
            return True
        used = Counter[CounterId]()
        for device in both.used:
            used.update(dict(self.consumes.get(device, ())))
        return all(used[counter] <= self.counters.get(counter, used[counter]) for counter in asked)

    def times(self, taken: Holding, more: Holding) -> int | None:
        """Return how many times `more`, which fits and has shares alone, fits beside what is taken; None: any."""
        before = dict(taken.shares)
        left = [
            (self._value(key) - before.get(key, 0)) // amount
            for key, amount in more.shares
            if amount and key[1] != SHARES
        ]
        return min(left, default=None)

    def _value(self, key: ShareKey) -> Fraction:
        device, name = key
        capacity = None if device not in self.ids else self.offers[self.ids[device]].capacities.get(name)
        return Fraction(LARGEST) if capacity is None else capacity.value

    def verdicts(self, selectors: Sequence[DeviceSelector]) -> Sequence[bool | str]:
        """Return of each device whether it meets all selectors; a text says why that cannot be told."""
        if any(one.cel is None for one in selectors):
            return ["a selector is of a kind that is not known here"] * len(self.offers)
        texts = tuple(one.cel.expression for one in selectors if one.cel is not None)
        known = self._verdicts.get(texts)
        if known is None:
            known = self._verdicts[texts] = [_verdict(offer.view, texts) for offer in self.offers]
        return known


def _turn(pool: DevicePool) -> tuple[bool, str, str]:
    """Return when the scheduler takes its turn: by driver and name, those whose devices may fail to bind last."""
    conditional = any(device.body.binding_conditions for device in pool.devices())
    return conditional, pool.driver, pool.name


def _verdict(view: Mapping[str, Value], texts: Iterable[str]) -> bool | str:
    for text in texts:
        try:
            if not selector(text)(view):
                return False
        except CelError as error:
            return f"selector {quoted(text)}: {str(error)[:_LONGEST_REASON]}"
    return True


def taint_rules(rules: Iterable[DeviceTaintRule], classes: Mapping[str, DeviceClass]) -> Sequence[TaintRule]:
    """Return the taints that rules set; a rule without a selector, or of a kind that is not known here, sets none."""
    found = []
    for rule in rules:
        wanted = rule.spec.device_selector
        if wanted is None:
            continue
        selectors = list(wanted.selectors)
        if wanted.device_class_name is not None:
            device_class = classes.get(wanted.device_class_name)
            selectors += [DeviceSelector()] if device_class is None else device_class.spec.selectors
        texts = tuple(one.cel.expression for one in selectors if one.cel is not None)
        if len(texts) == len(selectors):
            found.append(TaintRule(rule.spec.taint, wanted.driver, wanted.pool, wanted.device, texts))
    return found


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


def _offer(pool: DevicePool, device: Device, rules: Iterable[TaintRule]) -> OfferedDevice:
    body, key = device.body, (pool.driver, pool.name, device.name)
    attributes = {
        _full(name, pool.driver): typed for name, held in body.attributes.items() if (typed := _typed(held)) is not None
    }
    by_domain, capacity = Domains(), Domains()
    for name, held in body.attributes.items():
        domain, _, short = _full(name, pool.driver).partition("/")
        if (seen := _seen(held)) is not None:
            _entries(by_domain, domain)[short] = seen
    for name, amount in body.capacity.items():
        domain, _, short = _full(name, pool.driver).partition("/")
        _entries(capacity, domain)[short] = Quantity(parse_quantity(str(amount.value)))
    shared = bool(body.allow_multiple_allocations)
    view: Mapping[str, Value] = {
        "driver": pool.driver,
        "attributes": by_domain,
        "capacity": capacity,
        "allowMultipleAllocations": shared,
    }
    taints = [*body.taints, *(rule.taint for rule in rules if rule.covers(key, view))]
    return OfferedDevice(
        id=key,
        attributes=attributes,
        taints=[taint for taint in taints if taint.effect in _FORBIDDING],
        consumes=_consumption(pool, device),
        capacities={name: read_capacity(given) for name, given in body.capacity.items()},
        shared=shared,
        view=view,
    )


def _consumption(pool: DevicePool, device: Device) -> Consumption:
    return [
        ((pool.driver, pool.name, use.counter_set, name), counter.whole)
        for use in device.uses
        for name, counter in use.counters.items()
    ]


def _full(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _typed(held: DeviceAttribute) -> AttributeSet | None:
    """Return type and values; a list that has entries comes before a single value."""
    lists: Sequence[tuple[str, Sequence[str | int | bool]]] = (
        ("int", held.ints),
        ("bool", held.bools),
        ("string", held.strings),
        ("version", held.versions),
    )
    singles = (("int", held.int_), ("bool", held.bool_), ("string", held.string), ("version", held.version))
    found = next(((kind, frozenset(values)) for kind, values in lists if values), None)
    return found or next(((kind, frozenset((value,))) for kind, value in singles if value is not None), None)


def _entries(domains: Domains, domain: str) -> dict[str, Value]:
    known = domains.get(domain)
    if not isinstance(known, dict):
        known = domains[domain] = {}
    return known


def _seen(held: DeviceAttribute) -> Value:
    """Return the value that a selector sees; None: the attribute has none."""
    for values in (held.ints, held.bools, held.strings):
        if values:
            return list(values)
    if held.versions:
        return [_release(one) for one in held.versions]
    if held.version is not None:
        return _release(held.version)
    return next((one for one in (held.int_, held.bool_, held.string) if one is not None), None)


def _release(text: str) -> Value:
    try:
        return version(text)
    except CelError:
        return text
