"""The allocation of devices as plain definitions: the slow twin of `scheduling.device_allocation`.

It tries every device for every place in order, forwards and backwards, and checks all rules of a full allocation
anew each time.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autoscaler.objects.devices import Device, DeviceAttribute, DeviceClaimSpec, DeviceRequest, RequestBody
from autoscaler.snapshot.devices import DevicePool

Id = tuple[str, str, str]
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
    """A node's pools, and the devices that are taken. Every class has the devices of the driver of its name."""

    def __init__(self, pools: Sequence[DevicePool], taken: set[Id]) -> None:
        self.pools = pools
        self.taken = taken
        self.devices: dict[Id, Device] = {
            (pool.driver, pool.name, device.name): device
            for pool in pools
            if pool.complete
            for device in pool.devices()
        }

    def allocate(self, claims: Sequence[DeviceClaimSpec]) -> list[set[Id]] | None:
        """Return the devices that each claim takes, or None."""
        requests = [(claim, request) for claim, spec in enumerate(claims) for request in spec.devices.requests]
        bodies = [body for _, request in requests for _, body in request.alternatives]
        if any(body.allocation_mode == "All" for body in bodies) and not all(pool.complete for pool in self.pools):
            return None
        try:
            return self._first(requests, claims)
        except ForbiddenError:
            return None

    def _first(self, requests: Requests, claims: Sequence[DeviceClaimSpec]) -> list[set[Id]] | None:
        for got in self._allocations([], requests, claims):
            taken: list[set[Id]] = [set() for _ in claims]
            for one in got:
                if not one.body.admin_access:
                    taken[one.claim].add(one.device)
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
            if mine:
                yield mine
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
            and all(self._are_constraints_kept(got, claim, spec) for claim, spec in enumerate(claims))
        )

    def _check_all(self, got: list[Got], start: int, claims: Sequence[DeviceClaimSpec]) -> None:
        """Raise where a device that could be had breaks a constraint: whoever wants all then gets nothing at all."""
        for end in range(start + 1, len(got) + 1):
            part = got[:end]
            if not (self._are_free(part) and self._is_tolerated(part[-1]) and self._have_counters(part)):
                return
            if not all(self._are_constraints_kept(part, claim, spec) for claim, spec in enumerate(claims)):
                raise ForbiddenError

    def _are_free(self, got: list[Got]) -> bool:
        for at, one in enumerate(got):
            before = got[:at]
            if one.body.admin_access:
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
                users = [*self.taken, *(one.device for one in got)]
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
                    for use in self.devices[one.device].body.consumes_counters
                )
                if asks and used > there:
                    return False
        return True

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
            different = len({repr(value) for value in values})
            if constraint.match_attribute is not None and different > 1:
                return False
            if constraint.match_attribute is None and different < len(values):
                return False
        return True

    def _attribute(self, device: Id, name: str) -> DeviceAttribute | None:
        attributes = self.devices[device].body.attributes
        domain, _, short = name.partition("/")
        return attributes.get(name) or (attributes.get(short) if domain == device[0] else None)
