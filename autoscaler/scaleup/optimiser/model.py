"""The backlog and the groups as integers: the requests of pods, the capacity and price of nodes, the limits.

Every amount is a dimension. Where filters limit the pods of a class on a node, whatever room it has (host ports,
anti-affinity), the class gets a dimension of its own, of which each pod takes one. Integers cannot express what depends
on more than one node or on other classes: such classes are interdependent, and only the scheduler's filters decide.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from autoscaler.scaleup.context import ScaleUpContext
from autoscaler.scaleup.estimator import PodGroup
from autoscaler.scaleup.limits import Allowance
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.options import ExpansionOptions, Fitting
from autoscaler.scheduling.bounds import UNBOUNDED, Bound
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.contribution import Contribution

Counts = tuple[int, ...]
_MAX_PAIRS = 2000
"""With more pairs of classes than this, all constrained classes count as interdependent without a try."""


class NodeOffer(msgspec.Struct, frozen=True):
    """Nodes of one group that can be bought."""

    option: Option
    """What the group offers by itself."""
    price: float
    """Of one node for an hour."""
    unit: int
    """Nodes that come together: 1, or all that an atomic group has room for."""
    max_nodes: int

    @property
    def group(self) -> str:
        """Id of the group."""
        return self.option.group.id


class PurchaseLimits(msgspec.Struct, frozen=True):
    """How many nodes of each offer may be bought, alone and together."""

    max_nodes: Counts
    """By offer."""
    shared: tuple[tuple[int, Counts], ...] = ()
    """What is left of each shared limit, and how much of it one node of each offer takes."""

    def nodes_left(self, bought: Sequence[int], offer: int) -> int:
        """Return how many more nodes of an offer may be bought; `bought` has those of each offer."""
        room = self.max_nodes[offer] - bought[offer]
        for left, shares in self.shared:
            if shares[offer]:
                room = min(room, _left_after(left, shares, bought) // shares[offer])
        return max(0, room)

    def after(self, bought: Sequence[int]) -> "PurchaseLimits":
        """Return the limits once these nodes of each offer are bought."""
        return PurchaseLimits(
            tuple(limit - count for limit, count in zip(self.max_nodes, bought, strict=True)),
            tuple((_left_after(left, shares, bought), shares) for left, shares in self.shared),
        )


def _left_after(left: int, shares: Counts, bought: Sequence[int]) -> int:
    return left - sum(share * count for share, count in zip(shares, bought, strict=True))


class PackingModel(msgspec.Struct, frozen=True):
    """The problem in integers. Classes, offers, dimensions and open nodes are known by their index."""

    offers: tuple[NodeOffer, ...]
    pods: tuple[PodGroup, ...]
    requests: tuple[Counts, ...]
    """(classes, dimensions): what a pod takes."""
    capacity: tuple[Counts, ...]
    """(offers, dimensions): what a new node has."""
    accepts: tuple[frozenset[int], ...]
    """By offer: classes that a new node accepts."""
    limits: PurchaseLimits
    interdependent: frozenset[int] = frozenset()
    """Classes whose places depend on other classes or on more than one node."""
    open_nodes: tuple[int, ...] = ()
    """Positions of nodes that are bought already."""
    open_free: tuple[Counts, ...] = ()
    """(open nodes, dimensions): what they have left."""
    open_accepts: tuple[frozenset[int], ...] = ()
    """By open node: classes that it accepts."""

    @property
    def demand(self) -> Counts:
        """Pods of each class."""
        return tuple(len(group.pods) for group in self.pods)

    @property
    def dimensions(self) -> range:
        """Indices of the dimensions."""
        return range(len(self.requests[0])) if self.requests else range(0)


def purchase_limits(
    offers: Sequence[NodeOffer], situation: ScaleUpContext, needs: Mapping[str, Contribution]
) -> PurchaseLimits:
    """Return what the limits of groups and of the cluster leave; `needs`: what a node of each group takes of them."""
    shared: list[tuple[int, Counts]] = []
    if situation.nodes_left is not None:
        shared.append((situation.nodes_left, (1,) * len(offers)))
    if isinstance(situation.allowance, Allowance):
        taken = [dict(needs[offer.group].shares()) for offer in offers]
        for name, left in situation.allowance.left.items():
            known = left or 0
            # Groups that take an unknown amount are not among the offers; if one were, it could not grow.
            shares = tuple(known + 1 if node.get(name, 0) is None else node.get(name, 0) or 0 for node in taken)
            shared.append((known, shares))
    return PurchaseLimits(tuple(offer.max_nodes for offer in offers), tuple(shared))


def measure(
    options: ExpansionOptions,
    situation: ScaleUpContext,
    offers: Sequence[NodeOffer],
    pods: Sequence[PodGroup],
    fitting: Fitting,
    limits: PurchaseLimits,
    open_nodes: Sequence[int] = (),
) -> PackingModel:
    """Return the model of offers and pods; `open_nodes`: positions of nodes already bought, the trial's last ones."""
    placer = options.placer
    window = slice(open_nodes[0], open_nodes[-1] + 1) if open_nodes else slice(placer.trial.count, placer.trial.count)
    needs = np.array([_padded(placer, group) for group in pods], dtype=np.int64)
    rows = np.flatnonzero(needs.any(axis=0))
    free = placer.trial.free[rows][:, window].T
    capacity: list[Counts] = []
    accepts: list[frozenset[int]] = []
    bounds: list[dict[int, Bound]] = []
    interdependent: set[int] = set()
    compared: set[tuple[int, int]] = set()
    for offer in offers:
        with options.with_new_node(situation, offer.group) as position:
            capacity.append(_ints(placer.trial.free[rows, position]))
            accepted = frozenset(cls for cls, group in enumerate(pods) if offer.group in fitting.get(group.cls, ()))
            accepts.append(accepted)
            guarded = [cls for cls in accepted if placer.guards(pods[cls].cls)]
            known = {cls: placer.bound(pods[cls].cls, window, position) for cls in guarded}
            interdependent.update(cls for cls, bound in known.items() if bound is None or bound.total < UNBOUNDED)
            bounds.append({cls: bound for cls, bound in known.items() if bound is not None})
            interdependent.update(_interdependent(placer, pods, accepted, position, compared))
    capped = sorted({cls for by_class in bounds for cls in by_class} - interdependent)
    requests = tuple((*_ints(need[rows]), *(int(cls == other) for other in capped)) for cls, need in enumerate(needs))
    return PackingModel(
        offers=tuple(offers),
        pods=tuple(pods),
        requests=requests,
        capacity=tuple(
            (*amounts, *(by_class[cls].fresh if cls in by_class else 0 for cls in capped))
            for amounts, by_class in zip(capacity, bounds, strict=True)
        ),
        accepts=tuple(accepts),
        limits=limits,
        interdependent=frozenset(interdependent),
        open_nodes=tuple(open_nodes),
        open_free=tuple(
            (*_ints(free[offset]), *(_present(bounds, cls, offset) for cls in capped))
            for offset in range(len(open_nodes))
        ),
        open_accepts=_accepted(placer, pods, window),
    )


def _padded(placer: Placer, group: PodGroup) -> Sequence[int]:
    need = placer.need(group.cls)
    return [*need.tolist(), *[0] * (len(placer.trial.vocabulary.rows) - len(need))]


def _ints(amounts: Sequence[int]) -> Counts:
    return tuple(int(amount) for amount in amounts)


def _present(bounds: Sequence[Mapping[int, Bound]], cls: int, offset: int) -> int:
    return max((int(by_class[cls].present[offset]) for by_class in bounds if cls in by_class), default=0)


def _accepted(placer: Placer, pods: Sequence[PodGroup], window: slice) -> tuple[frozenset[int], ...]:
    masks = [placer.passing(group.cls, window) for group in pods]
    return tuple(
        frozenset(cls for cls, mask in enumerate(masks) if mask[offset]) for offset in range(window.stop - window.start)
    )


def _interdependent(
    placer: Placer, pods: Sequence[PodGroup], accepted: frozenset[int], position: int, compared: set[tuple[int, int]]
) -> set[int]:
    """Return classes of which a pod changes which nodes pods of another class may use, and those other classes.

    Templates make no difference to that: pairs that were `compared` before are skipped.
    """
    constrained = sorted(cls for cls in accepted if placer.may_guard(pods[cls].cls))
    if len(constrained) * len(accepted) > _MAX_PAIRS:
        return set(constrained)
    classes: set[int] = set()
    for first in constrained:
        guards = placer.guards(pods[first].cls)
        for second in sorted(accepted - {first}):
            if (first, second) in compared:
                continue
            compared.update(((first, second), (second, first)) if second in constrained else ((first, second),))
            other = pods[second].cls
            affected = any(guard.affects_other_nodes(other) for guard in guards)
            affected = affected or any(guard.affects_other_nodes(pods[first].cls) for guard in placer.guards(other))
            if affected or _exclusive(placer, pods[first], pods[second], position):
                classes.update((first, second))
    return classes


def _exclusive(placer: Placer, group: PodGroup, other: PodGroup, position: int) -> bool:
    """Whether a pod keeps another off its node although there is room for both."""
    for first, second in ((group, other), (other, group)):
        with placer.trial.fork():
            placer.place(first.cls, position)
            need = placer.need(second.cls)
            roomy = bool(((placer.trial.free[: len(need), position] >= need) | (need <= 0)).all())
            if roomy and not placer.fits(second.cls, position):
                return True
    return False
