"""Follows a trial: which devices are taken on each of its nodes, and where claims that pods share are allocated."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from autoscaler.objects.matching import selector_matches
from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelector
from autoscaler.scheduling.device_allocation import Chosen, allocate
from autoscaler.scheduling.device_claims import ClassClaims, claims_of, extended_resources, owner_of
from autoscaler.scheduling.device_shares import NOTHING, DeviceId, Holding, held_by, together
from autoscaler.scheduling.device_stock import Stock, reached, taint_rules
from autoscaler.scheduling.device_wants import NoAllocation, Wanted
from autoscaler.snapshot.devices import DevicePool, pools_by_node, shared_pools
from autoscaler.snapshot.overlay import Positions, Trial

Verdict = Sequence[Chosen] | NoAllocation


class SharedClaim(msgspec.Struct):
    """A claim that pods name, as the trial has it."""

    devices: Holding | None = None
    """What it has got; None: it is not allocated."""
    seen: frozenset[DeviceId] = frozenset()
    """All of its devices, those for administrative access too."""
    position: int | None = None
    """The node whose own devices it has got in the trial."""
    selector: NodeSelector | None = None
    """The nodes that may use what it has got in the view."""
    in_view: bool = False
    """Whether it has what it has got in the view."""
    before: Holding | None = None
    """What it has got in the view; None: nothing."""
    users: int = 0
    homes: frozenset[int] = frozenset()
    """The nodes of the pods that use it in the view."""
    idle: bool = False
    """Whether it has devices in the view although nobody uses it."""


class HeldDevices(msgspec.Struct, frozen=True):
    """What one pod has got for claims of its own."""

    devices: Holding
    in_view: bool = False


class DeviceLedger:
    """Devices that are taken, by node; shared by all classes of a trial."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._related = trial.view.related
        slices = self._related.resource_slices
        self._local = pools_by_node(slices)
        self._shared_pools = shared_pools(slices)
        self._shared_names = {(pool.driver, pool.name) for pool in self._shared_pools}
        self._rules = taint_rules(self._related.device_taint_rules.values(), self._related.device_classes)
        self._extended = frozenset(extended_resources(self._related.device_classes))
        self._owned: dict[tuple[PodClass, tuple[str, ...]], tuple[Wanted, ...]] = {}
        self._stocks: dict[int, Stock] = {}
        self._template_stocks: dict[int, Stock] = {}
        self._alike: dict[tuple[int, tuple[tuple[int, ...], ...]], Stock] = {}
        self._claims: dict[PodClass, ClassClaims] = {}
        self._taken: dict[int, Holding] = {}
        self._shared_taken = NOTHING
        self.held: dict[tuple[PodClass, int], list[HeldDevices]] = {}
        """What pods have got for claims of their own, by class and node."""
        self._spare: dict[tuple[PodClass, int], list[Holding]] = {}
        """What pods of the view had got on nodes that they have left in the trial."""
        self.shared_claims: dict[str, SharedClaim] = {}
        self.has_shared_pools = bool(self._shared_pools)
        """Whether several nodes reach the same devices."""
        self.changed: list[int] = []
        """Nodes of whose own devices some were taken or given back, in order."""
        self.version = 0
        """Changes with everything that concerns several nodes."""
        self._read_view()
        moves = [move for move in trial.moves() if self.counts(move[0])]
        for arriving in (False, True):
            for cls, positions, counts in moves:
                chosen = (counts > 0) == arriving
                self.moved(cls, positions[chosen], counts[chosen])
        trial.watch(self)

    def _read_view(self) -> None:
        view = self._trial.view
        homes = {
            (pool.driver, pool.name): view.positions[node]
            for node, pools in self._local.items()
            if node in view.positions
            for pool in pools
        }
        own: dict[str, list[Holding]] = {}
        waiting = {pod.key for pod in view.pending if self.counts(pod.cls)}
        for key, claim in self._related.resource_claims.items():
            allocation, owner = claim.status.allocation, owner_of(claim)
            if not owner:
                self.shared_claims[key] = SharedClaim(users=len(claim.status.reserved_for))
            if allocation is None or owner in waiting:
                continue
            results = allocation.devices.results
            parts = [held_by(one) for one in results if not one.admin_access]
            for part in parts:
                self._take(part, homes.get(next(iter(part.used))[:2], -1))
            devices = together(parts)
            if owner:
                own.setdefault(owner, []).append(devices)
            else:
                shared = self.shared_claims[key]
                shared.devices = shared.before = devices
                shared.selector, shared.in_view = allocation.node_selector, True
                shared.seen = devices.used
        placed: dict[str, list[int]] = {}
        for cls, position, key in self._placed():
            self.held.setdefault((cls, position), []).append(HeldDevices(together(own.get(key, ())), in_view=True))
            for name in self.claims(cls).named:
                placed.setdefault(name, []).append(position)
        for name, shared in self.shared_claims.items():
            positions = placed.get(name, [])
            shared.homes = frozenset(positions)
            shared.users = max(len(positions), shared.users)
            shared.idle = shared.users == 0 and shared.devices is not None

    def _placed(self) -> Iterator[tuple[PodClass, int, str]]:
        """Yield class, position and key of the view's pods with claims."""
        view = self._trial.view
        claiming = np.array([self.counts(cls) for cls in view.classes], dtype=np.bool_)
        if not claiming.any():
            return
        for position in np.unique(view.pod_nodes[claiming[view.pod_classes]]).tolist():
            for pod in view.pods[position]:
                if self.counts(pod.cls):
                    yield pod.cls, position, pod.key

    def claims(self, cls: PodClass) -> ClassClaims:
        """Return the claims of a class."""
        known = self._claims.get(cls)
        if known is None:
            known = self._claims[cls] = claims_of(cls, self._related)
        return known

    def owned(self, cls: PodClass, position: int) -> tuple[Wanted, ...]:
        """Return the claims that every pod of a class gets on a node; the same object for the same claims."""
        claims = self.claims(cls)
        if not claims.extended:
            return claims.owned
        node = self._trial.node(position)
        key = cls, claims.delegated(node)
        if key not in self._owned:
            self._owned[key] = claims.owned_on(node)
        return self._owned[key]

    def stock(self, position: int) -> Stock:
        """Return the devices that a node reaches."""
        if position >= self._trial.base:
            kind = int(self._trial.kinds[position])
            known = self._template_stocks.get(kind)
            if known is None:
                pools = self._trial.templates[kind].pools
                known = self._template_stocks[kind] = self._made(pools, self._trial.node(position), fresh=True)
            return known
        known = self._stocks.get(position)
        if known is None:
            node = self._trial.view.nodes[position]
            known = self._stocks[position] = self._made(self._local.get(node.name, ()), node)
        return known

    def _made(self, pools: tuple[DevicePool, ...], node: Node, *, fresh: bool = False) -> Stock:
        shared = [(pool, devices) for pool in self._shared_pools if (devices := reached(pool, node))]
        if pools:
            return Stock(pools, shared, self._rules, fresh=fresh)
        key = (0, tuple(tuple(map(id, devices)) for _, devices in shared))
        known = self._alike.get(key)
        if known is None:
            known = self._alike[key] = Stock((), shared, self._rules)
        return known

    def taken(self, position: int) -> Holding:
        """Return what is taken of the node's own pools."""
        return self._taken.get(position, NOTHING)

    def everything_taken(self, position: int) -> Holding:
        """Return what is taken of the devices that the node reaches."""
        own = self.taken(position)
        return own + self._shared_taken if self._shared_taken else own

    def _is_free(self, holding: Holding, position: int) -> bool:
        return self.stock(position).admits(self.everything_taken(position), holding)

    def may_use(self, claim: SharedClaim, position: int) -> bool:
        """Whether a node may use what a claim has got."""
        if claim.in_view:
            return self._may_use_as_in_view(claim, position)
        ids = self.stock(position).ids
        return claim.position in (None, position) and all(device in ids for device in claim.seen)

    def _may_use_as_in_view(self, claim: SharedClaim, position: int) -> bool:
        if claim.selector is None:
            return True
        node = self._trial.node(position)
        return selector_matches(claim.selector, node.labels, node.name)

    def lacking(self, cls: PodClass) -> tuple[str, ...]:
        """Return the named claims of a class that are not allocated."""
        return tuple(key for key in self.claims(cls).named if self.shared_claims[key].devices is None)

    def find(self, cls: PodClass, position: int) -> Verdict:
        """Return devices for the claims of one more pod on a node: those that are named, then its own."""
        claims = self.claims(cls)
        wanted = list[Wanted]()
        for asked in (*(claims.wanted[key] for key in self.lacking(cls)), *self.owned(cls, position)):
            if isinstance(asked, NoAllocation):
                return asked
            wanted.append(asked)
        return allocate(self.stock(position), self.everything_taken(position), wanted)

    def granted(self, cls: PodClass, position: int) -> Sequence[tuple[str, Chosen]]:
        """Return what the claims of one more pod get on a node, each with its claim: the key of one that is named and
        not allocated yet, then the name of each that is made from a template, or `EXTENDED`.
        """
        found = self.find(cls, position)
        if isinstance(found, NoAllocation):
            return ()
        own = [wanted.claim for wanted in self.owned(cls, position)]
        return list(zip((*self.lacking(cls), *own), found, strict=True))

    def counts(self, cls: PodClass) -> bool:
        """Whether pods of the class have claims; see `overlay.Watcher`."""
        return bool(cls.resource_claims) or not self._extended.isdisjoint(cls.requests)

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Follow a placement; see `overlay.Watcher`."""
        if self.claims(cls).trouble is not None:
            return
        for position, count in zip(positions.tolist(), counts.tolist(), strict=True):
            for _ in range(abs(count)):
                if count > 0:
                    self._arrive(cls, position)
                else:
                    self._leave(cls, position)

    def _arrive(self, cls: PodClass, position: int) -> None:
        self._restore(cls, position)
        holding = self._as_before(cls, position)
        lacking = self.lacking(cls)
        if holding is None or lacking:
            found = self.find(cls, position)
            chosen = () if isinstance(found, NoAllocation) else found
            for key, got in zip(lacking, chosen, strict=False):
                self._allocate(self.shared_claims[key], got, position)
            if holding is None:
                own = chosen[len(lacking) :]
                holding = HeldDevices(together(got.taken for got in own))
        self._take(holding.devices, position)
        self.held.setdefault((cls, position), []).append(holding)
        for key in self.claims(cls).named:
            self.shared_claims[key].users += 1
            self.version += 1

    def _as_before(self, cls: PodClass, position: int) -> HeldDevices | None:
        """Return what a pod of the class had in the view on this node, if it is still free; None: nothing."""
        spare = self._spare.get((cls, position))
        if not spare or not self._is_free(spare[-1], position):
            return None
        return HeldDevices(spare.pop(), in_view=True)

    def _restore(self, cls: PodClass, position: int) -> None:
        """Give named claims back what they had in the view, where that is free and of use."""
        for key in self.claims(cls).named:
            claim = self.shared_claims[key]
            if claim.devices is not None or claim.before is None:
                continue
            suits = position in claim.homes or self._may_use_as_in_view(claim, position)
            if suits and self._is_free(claim.before, position):
                claim.devices, claim.in_view = claim.before, True
                self._take(claim.before, position)

    def _allocate(self, claim: SharedClaim, got: Chosen, position: int) -> None:
        claim.devices, claim.seen, claim.in_view = got.taken, got.seen, False
        local = any(device[:2] not in self._shared_names for device in got.seen)
        claim.position = position if local else None
        self._take(got.taken, position)

    def _leave(self, cls: PodClass, position: int) -> None:
        held = self.held.get((cls, position))
        if held:
            holding = held.pop()
            self._release(holding.devices, position)
            if holding.in_view:
                self._spare.setdefault((cls, position), []).append(holding.devices)
        for key in self.claims(cls).named:
            claim = self.shared_claims[key]
            claim.users -= 1
            self.version += 1
            if claim.users <= 0 and claim.devices is not None and not (claim.idle and claim.in_view):
                self._release(claim.devices, position)
                claim.devices, claim.position = None, None

    def _take(self, holding: Holding, position: int) -> None:
        self._change(holding, position, taking=True)

    def _release(self, holding: Holding, position: int) -> None:
        self._change(holding, position, taking=False)

    def _change(self, holding: Holding, position: int, *, taking: bool) -> None:
        if not holding:
            return
        shared = holding.of(self._shared_names) if self._shared_names else NOTHING
        if shared:
            self.version += 1
            self._shared_taken = self._shared_taken + shared if taking else self._shared_taken - shared
        if own := holding - shared:
            self.changed.append(position)
            there = self.taken(position)
            self._taken[position] = there + own if taking else there - own
