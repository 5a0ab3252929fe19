"""Claims for devices (dynamic resource allocation).

Requests for extended resources are claims too, where a class stands for the resource and the node does not offer it.

A claim that is allocated keeps its pods to the nodes from which its devices can be used. A claim that is not is
allocated as the scheduler would. A new node has the devices of its template. Pods that use a claim together go where
the first of them got the devices; a claim whose last user has left is allocated again. Source of the wording and the
rules: the scheduler's DynamicResources plug-in.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from autoscaler.objects.pod import PodClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import UNBOUNDED, Bound
from autoscaler.scheduling.device_allocation import allocate
from autoscaler.scheduling.device_claims import refusal
from autoscaler.scheduling.device_ledger import DeviceLedger
from autoscaler.scheduling.device_shares import Holding, together
from autoscaler.scheduling.device_stock import Stock
from autoscaler.scheduling.device_wants import NoAllocation, Wanted
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Trial

MAX_CONSUMERS = 256
"""How many pods may share a claim."""


class DeviceGuard:
    """Keeps a class off nodes where its claims cannot be met."""

    def __init__(self, cls: PodClass, trial: Trial, ledger: DeviceLedger) -> None:
        self._cls = cls
        self._trial = trial
        self._ledger = ledger
        self._claims = ledger.claims(cls)
        self._version = ledger.version
        self._mask: Mask | None = None
        self._advertised: dict[str, Mask] = {}
        self._read = 0
        """Entries of `ledger.changed` that the mask has taken in."""
        self._found: dict[tuple[int, int, Holding], NoAllocation | None] = {}
        self._room: dict[tuple[int, int, Holding], int] = {}

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        if self._claims.trouble is not None:
            return np.zeros(window.stop - window.start, dtype=np.bool_)
        base = self._trial.base
        known = self._of_view()[window.start : min(window.stop, base)]
        if window.stop <= base:
            return known & self._offered(window)
        added = [self._passes(position) for position in range(max(window.start, base), window.stop)]
        return np.concatenate([known, np.array(added, dtype=np.bool_)]) & self._offered(window)

    def _offered(self, window: slice) -> Mask:
        """Return the nodes that have enough left of the extended resources that they offer themselves."""
        mask = np.ones(window.stop - window.start, dtype=np.bool_)
        rows, free = self._trial.vocabulary.rows, self._trial.free
        for resource in self._claims.extended:
            if resource in rows:
                enough = free[rows[resource], window] >= self._cls.requests[resource]
                mask &= enough | ~self._offering(resource, window)
        return mask

    def _offering(self, resource: str, window: slice) -> Mask:
        """Return the nodes that offer an extended resource themselves."""
        base = self._trial.base
        known = self._advertised.get(resource)
        if known is None:
            nodes = self._trial.view.nodes
            known = np.array([node.allocatable.get(resource, 0) > 0 for node in nodes], dtype=np.bool_)
            self._advertised[resource] = known
        added = range(max(window.start, base), window.stop)
        nodes_added = [self._trial.node(position).allocatable.get(resource, 0) > 0 for position in added]
        return np.concatenate([known[window.start : min(window.stop, base)], np.array(nodes_added, dtype=np.bool_)])

    def _of_view(self) -> Mask:
        """Return the nodes of the view that pass; only those whose devices have changed are looked at again."""
        self._follow()
        base = self._trial.base
        if self._mask is None:
            self._mask = np.array([self._passes(position) for position in range(base)], dtype=np.bool_)
        else:
            for position in self._ledger.changed[self._read :]:
                if 0 <= position < base:
                    self._mask[position] = self._passes(position)
        self._read = len(self._ledger.changed)
        return self._mask

    def _follow(self) -> None:
        """Forget what is known where something has changed that concerns several nodes."""
        if self._version != self._ledger.version and (self._claims.named or self._ledger.has_shared_pools):
            self._version = self._ledger.version
            self._mask = None
            self._found.clear()
            self._room.clear()

    def _passes(self, position: int) -> bool:
        elsewhere = any(self._elsewhere(key, position) is not None for key in self._claims.named)
        return not elsewhere and self._lack(position) is None

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        if self._claims.trouble is not None:
            return self._claims.trouble
        for key in self._claims.named:
            if (rejection := self._elsewhere(key, position)) is not None:
                return rejection
        lack = self._lack(position)
        return None if lack is None else refusal(lack.detail)

    def _elsewhere(self, key: str, position: int) -> Rejection | None:
        """Return why a node cannot use what a named claim has got."""
        claim, name = self._ledger.shared_claims[key], key.partition("/")[2]
        if claim.users >= MAX_CONSUMERS:
            return refusal(f"claim {name} has all its users")
        if claim.devices is None or self._ledger.may_use(claim, position):
            return None
        detail = f"the devices of claim {name} cannot be used from there"
        return Rejection(NoFit.DEVICES, "resourceclaim not available on the node", detail)

    def _lack(self, position: int) -> NoAllocation | None:
        owned = self._ledger.owned(self._cls, position)
        if not owned and not self._ledger.lacking(self._cls):
            return None
        self._follow()
        key = (id(self._ledger.stock(position)), id(owned), self._ledger.taken(position))
        if key not in self._found:
            found = self._ledger.find(self._cls, position)
            self._found[key] = found if isinstance(found, NoAllocation) else None
        return self._found[key]

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """Whether pods of the class share a claim with these, or devices of several nodes; see `placement.Guard`."""
        if not self._ledger.counts(cls):
            return False
        shared = not set(self._claims.named).isdisjoint(self._ledger.claims(cls).named)
        return shared or self._ledger.has_shared_pools

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come, where each takes devices of its own node only, or none."""
        ledger, claims = self._ledger, self._claims
        if ledger.lacking(self._cls) or ((claims.owned or claims.extended) and ledger.has_shared_pools):
            return None
        room = [self._copies(position) for position in range(window.start, window.stop)]
        users = (ledger.shared_claims[key].users for key in claims.named)
        total = min((MAX_CONSUMERS - count for count in users), default=UNBOUNDED)
        return Bound(np.array(room, dtype=np.int64), self._copies(fresh), max(0, total))

    def _copies(self, position: int) -> int:
        """Return how many pods find devices on a node, one after the other."""
        if self.why(position) is not None:
            return 0
        stock, taken = self._ledger.stock(position), self._ledger.taken(position)
        owned = self._ledger.owned(self._cls, position)
        key = (id(stock), id(owned), taken)
        if key not in self._room:
            self._room[key] = _counted(stock, taken, owned)
        return min((self._room[key], *self._left(position)))

    def _left(self, position: int) -> Iterator[int]:
        """Yield how many pods find enough of each extended resource that a node offers itself."""
        rows, window = self._trial.vocabulary.rows, slice(position, position + 1)
        for resource in self._claims.extended:
            if resource in rows and self._offering(resource, window)[0]:
                yield int(self._trial.free[rows[resource], position]) // self._cls.requests[resource]


def _counted(stock: Stock, taken: Holding, wanted: Sequence[Wanted]) -> int:
    """Return how many pods get what they want, one after the other."""
    count = 0
    any_number = all(choice.count for claim in wanted for request in claim.requests for choice in request)
    while not isinstance(found := allocate(stock, taken, wanted), NoAllocation):
        gained, times = together(got.taken for got in found), 1
        if not gained.weighs:
            return UNBOUNDED
        if not gained.devices and any_number:
            # Whoever comes next takes the same as long as it is there: it is the first that there is.
            times = stock.times(taken, gained) or 1
        taken = taken + gained.repeated(times)
        count += times
    return count
