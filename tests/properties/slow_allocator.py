"""The allocation of devices as plain definitions: the slow twin of `scheduling.device_allocation`.

It tries every device for every place in order, forwards and backwards, and checks all rules of a full allocation
anew each time.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from autoscaler.objects.devices import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaimSpec,
    DeviceRequest,
    RequestBody,
)
from autoscaler.snapshot.devices import DevicePool

Id = tuple[str, str, str]
Takes = Counter[tuple[Id, int]]
Requests = Sequence[tuple[int, DeviceRequest]]


class ForbiddenError(Exception):
    """The scheduler refuses the pod."""


class Got(NamedTuple):
    """A device that a request of a claim gets."""

    claim: int
    request: str
    body: RequestBody
    device: Id


class SlowNode:
    """A node's pools, the devices that are taken, and the shares of others with how much memory each has.

    Every class has the devices of the driver of its name. Amounts are whole numbers.
    """

    def __init__(self, pools: Sequence[DevicePool], taken: set[Id], shares: Sequence[tuple[Id, int]] = ()) -> None:
        self.pools = pools
        self.taken = taken
        self.shares = shares
        self.devices: dict[Id, Device] = {
            (pool.driver, pool.name, device.name): device
            for pool in pools
            if pool.fault is None
            for device in pool.devices()
        }

    def allocate(self, claims: Sequence[DeviceClaimSpec]) -> list[Takes] | None:
        """Return the devices that each claim takes, or None; each with its memory, 0 for whole ones."""
        requests = [(claim, request) for claim, spec in enumerate(claims) for request in spec.devices.requests]
        bodies = [body for _, request in requests for _, body in request.alternatives]
        if any(body.allocation_mode == "All" for body in bodies) and not all(pool.fault is None for pool in self.pools):
            return None
        try:
            return self._first(requests, claims)
        except ForbiddenError:
            return None

    def _first(self, requests: Requests, claims: Sequence[DeviceClaimSpec]) -> list[Takes] | None:
        for got in self._allocations([], requests, claims):
            taken: list[Takes] = [Counter() for _ in claims]
            for one in got:
                if not one.body.admin_access:
                    taken[one.claim][one.device, self._memory(one) if self._is_shared(one.device) else 0] += 1
            return taken
        return None

    def _allocations(
        self, got: list[Got], requests: Requests, claims: Sequence[DeviceClaimSpec]
    ) -> Iterator[list[Got]]:
        if not requests:
            yield got
            return
        (claim, request), *rest = requests
        for name, body in request.alternatives:
            for picked in self._picks(body):
                more = [*got, *(Got(claim, name, body, device) for device in picked)]
                if body.allocation_mode == "All":
                    self._check_all(more, len(got), claims)
                if self._is_allowed(more, claims):
                    yield from self._allocations(more, rest, claims)

    def _picks(self, body: RequestBody) -> Iterator[list[Id]]:
        """Yield the sets of devices that would be enough, whoever has them."""
        mine = [one for one in self.devices if one[0] == body.device_class_name]
        if body.allocation_mode == "All":
            able = [one for one in mine if self._has_memory([Got(0, "", body, one)])]
            if able:
                yield able
            return
        yield from self._chosen(mine, body.count)

    def _chosen(self, mine: list[Id], count: int) -> Iterator[list[Id]]:
        if count == 0:
            yield []
            return
        for at, one in enumerate(mine):
            for rest in self._chosen(mine[at + 1 :], count - 1):
                yield [one, *rest]

    def _is_allowed(self, got: list[Got], claims: Sequence[DeviceClaimSpec]) -> bool:
        return (
            self._are_free(got)
            and all(self._is_tolerated(one) for one in got)
            and self._have_counters(got)
            and self._has_memory(got)
            and all(self._are_constraints_kept(got, claim, spec) for claim, spec in enumerate(claims))
        )

    def _check_all(self, got: list[Got], start: int, claims: Sequence[DeviceClaimSpec]) -> None:
        """Raise where a device that could be had breaks a constraint: whoever wants all then gets nothing at all."""
        for end in range(start + 1, len(got) + 1):
            part = got[:end]
            if not (self._are_free(part) and self._is_tolerated(part[-1])):
                return
            if not (self._have_counters(part) and self._has_memory(part)):
                return
            if not all(self._are_constraints_kept(part, claim, spec) for claim, spec in enumerate(claims)):
                raise ForbiddenError

    def _are_free(self, got: list[Got]) -> bool:
        for at, one in enumerate(got):
            before = got[:at]
            if self._is_shared(one.device):
                if one.device in self.taken and not one.body.admin_access:
                    return False
            elif one.body.admin_access:
                if any((other.claim, other.device) == (one.claim, one.device) for other in before):
                    return False
            elif one.device in self.taken or any(other.device == one.device for other in before):
                return False
        return True

    def _is_tolerated(self, one: Got) -> bool:
        forbidding = [taint for taint in self.devices[one.device].body.taints if taint.effect == "NoSchedule"]
        return all(any(other.key == taint.key for other in one.body.tolerations) for taint in forbidding)

    def _have_counters(self, got: list[Got]) -> bool:
        for pool in self.pools:
            names = [one.name for part in pool.slices for one in part.spec.shared_counters]
            for name in names:
                there = sum(
                    one.counters["memory"].whole
                    for part in pool.slices
                    for one in part.spec.shared_counters
                    if one.name == name
                )
                users = {*self.taken, *(device for device, _ in self.shares), *(one.device for one in got)}
                used = sum(
                    use.counters["memory"].whole
                    for user in users
                    if user in self.devices and user[:2] == (pool.driver, pool.name)
                    for use in self.devices[user].body.consumes_counters
                    if use.counter_set == name
                )
                asks = any(
                    use.counter_set == name
                    for one in got
                    if one.device[:2] == (pool.driver, pool.name)
                    if one.device not in (device for device, _ in self.shares)
                    for use in self.devices[one.device].body.consumes_counters
                )
                if asks and used > there:
                    return False
        return True

    def _is_shared(self, device: Id) -> bool:
        return bool(self.devices[device].body.allow_multiple_allocations)

    def _has_memory(self, got: list[Got]) -> bool:
        for device in {one.device for one in got}:
            takers = [one for one in got if one.device == device]
            if any(self._asks_in_vain(one) for one in takers):
                return False
            capacity = self.devices[device].body.capacity.get("memory")
            if capacity is None:
                continue
            before = sum(amount for one, amount in self.shares if one == device)
            if self._is_shared(device):
                if before + sum(map(self._memory, takers)) > int(str(capacity.value)):
                    return False
            elif any(self._memory(one) > int(str(capacity.value)) for one in takers):
                return False
        return True

    def _wanted(self, one: Got) -> Mapping[str, str | int | float]:
        return {} if one.body.capacity is None else one.body.capacity.requests

    def _asks_in_vain(self, one: Got) -> bool:
        capacities = self.devices[one.device].body.capacity
        if any(name not in capacities for name in self._wanted(one)):
            return True
        return "memory" in capacities and self._memory(one) < 0

    def _memory(self, one: Got) -> int:
        """Return the memory that a request takes; -1: it may not."""
        capacity = self.devices[one.device].body.capacity.get("memory")
        if capacity is None:
            return 0
        wanted = self._wanted(one).get("memory")
        return granted(capacity, None if wanted is None else int(str(wanted)))

    def _are_constraints_kept(self, got: list[Got], claim: int, spec: DeviceClaimSpec) -> bool:
        for constraint in spec.devices.constraints:
            concerned = [
                one
                for one in got
                if one.claim == claim
                and (
                    not constraint.requests
                    or one.request in constraint.requests
                    or one.request.split("/")[0] in constraint.requests
                )
            ]
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            values = [self._attribute(one.device, name) for one in concerned]
            if None in values:
                return False
            sets = [_values(value) for value in values if value is not None]
            if constraint.match_attribute is not None and sets and not set.intersection(*sets):
                return False
            if constraint.match_attribute is None and len(set().union(*sets)) < sum(map(len, sets)):
                return False
        return True

    def _attribute(self, device: Id, name: str) -> DeviceAttribute | None:
        attributes = self.devices[device].body.attributes
        domain, _, short = name.partition("/")
        return attributes.get(name) or (attributes.get(short) if domain == device[0] else None)


def _values(attribute: DeviceAttribute) -> set[tuple[str, object]]:
    lists: set[tuple[str, object]] = {("int", one) for one in attribute.ints} | {
        ("string", one) for one in attribute.strings
    }
    if lists:
        return lists
    return {("int", attribute.int_)} if attribute.int_ is not None else {("string", attribute.string)}


def granted(capacity: DeviceCapacity, wanted: int | None) -> int:
    """Return what a request takes of a capacity of whole numbers; -1: it may not."""
    policy, size = capacity.request_policy, int(str(capacity.value))
    if policy is None:
        return size if wanted is None else wanted
    if wanted is None and policy.default is not None:
        return int(str(policy.default))
    wanted = size if wanted is None else wanted
    allowed = range(wanted, max(wanted, size) + 1)
    if policy.valid_range is not None:
        least, step = int(str(policy.valid_range.min)), int(str(policy.valid_range.step or 1))
        most = int(str(policy.valid_range.max or 10 * size))
        allowed = range(least, most + 1, step)
    found = [one for one in allowed if one >= wanted]
    if policy.valid_values:
        found = [int(str(one)) for one in policy.valid_values if int(str(one)) >= wanted]
    return found[0] if found else -1
