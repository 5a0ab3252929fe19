"""The backlog and the groups as figures: what pods ask for, what a node of each group holds and costs, what limits say.

Every amount is a dimension. A class of which filters allow only so many on a node, whatever its room (host ports, pods
that keep apart), gets a dimension of its own, of which a pod takes one. What depends on more than one node or on other
classes does not show in figures: such classes are entangled, and only the scheduler's filters can tell.
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
_MOST_PAIRS = 2000
"""Beyond so many pairs of classes that may get in each other's way, constrained classes count as entangled untried."""


class NodeOffer(msgspec.Struct, frozen=True):
    """Nodes of one group, as something to buy."""

    option: Option
    """What the group offers by itself."""
    price: float
    """Of one node for an hour."""
    unit: int
    """Nodes that come together: 1, or all that a group has room for where it grows at once."""
    most: int

    @property
    def group(self) -> str:
        """Id of the group."""
        return self.option.group.id


class PurchaseLimits(msgspec.Struct, frozen=True):
    """How many nodes of each good may be bought, alone and together."""

    most: Counts
    together: tuple[tuple[int, Counts], ...] = ()
    """What is left of each shared limit, and how much of it one node of each good takes."""

    def nodes(self, bought: Sequence[int], good: int) -> int:
        """Return how many more nodes of a good may be bought after those that are."""
        room = self.most[good] - bought[good]
        for left, each in self.together:
            if each[good]:
                rest = left - sum(one * count for one, count in zip(each, bought, strict=True))
                room = min(room, rest // each[good])
        return max(0, room)

    def after(self, bought: Sequence[int]) -> "PurchaseLimits":
        """Return what is left once so many nodes of each good are bought."""
        return PurchaseLimits(
            tuple(limit - count for limit, count in zip(self.most, bought, strict=True)),
            tuple(
                (left - sum(one * count for one, count in zip(each, bought, strict=True)), each)
                for left, each in self.together
            ),
        )


class PackingModel(msgspec.Struct, frozen=True):
    """The question in figures. Classes, goods, dimensions and standing nodes go by index."""

    goods: tuple[NodeOffer, ...]
    pods: tuple[PodGroup, ...]
    sizes: tuple[Counts, ...]
    """By class: what one pod takes of each dimension."""
    holds: tuple[Counts, ...]
    """By good: what a fresh node has of each dimension."""
    suits: tuple[frozenset[int], ...]
    """By good: classes that a fresh node takes."""
    means: PurchaseLimits
    entangled: frozenset[int] = frozenset()
    """Classes that figures do not say everything about."""
    standing: tuple[int, ...] = ()
    """Positions of nodes that are bought already."""
    standing_holds: tuple[Counts, ...] = ()
    standing_suits: tuple[frozenset[int], ...] = ()

    @property
    def demand(self) -> Counts:
        """Pods of each class."""
        return tuple(len(each.pods) for each in self.pods)

    @property
    def figures(self) -> range:
        """Every dimension."""
        return range(len(self.sizes[0])) if self.sizes else range(0)


def means_of(
    goods: Sequence[NodeOffer], situation: ScaleUpContext, needs: Mapping[str, Contribution]
) -> PurchaseLimits:
    """Return what the limits of groups and cluster leave."""
    together: list[tuple[int, Counts]] = []
    if situation.nodes_left is not None:
        together.append((situation.nodes_left, (1,) * len(goods)))
    if isinstance(situation.allowance, Allowance):
        taken = [dict(needs[good.group].shares()) for good in goods]
        for name, left in situation.allowance.left.items():
            known = left or 0
            # Groups that take what nobody can count are not among the goods; were one, it could not grow.
            each = tuple(known + 1 if one.get(name, 0) is None else one.get(name, 0) or 0 for one in taken)
            together.append((known, each))
    return PurchaseLimits(tuple(good.most for good in goods), tuple(together))


def measure(
    market: ExpansionOptions,
    situation: ScaleUpContext,
    goods: Sequence[NodeOffer],
    pods: Sequence[PodGroup],
    fitting: Fitting,
    means: PurchaseLimits,
    standing: Sequence[int] = (),
) -> PackingModel:
    """Take the measures of goods and pods; `standing` are positions of nodes already bought, the trial's last ones."""
    placer = market.placer
    window = slice(standing[0], standing[-1] + 1) if standing else slice(placer.trial.count, placer.trial.count)
    wanted = np.array([_padded(placer, each) for each in pods], dtype=np.int64)
    rows = np.flatnonzero(wanted.any(axis=0))
    free = placer.trial.free[rows][:, window].T
    holds: list[Counts] = []
    suits: list[frozenset[int]] = []
    bounds: list[dict[int, Bound]] = []
    entangled: set[int] = set()
    asked: set[tuple[int, int]] = set()
    for good in goods:
        with market.one_more(situation, good.group) as position:
            holds.append(_ints(placer.trial.free[rows, position]))
            suits.append(frozenset(at for at, each in enumerate(pods) if good.group in fitting.get(each.cls, ())))
            found = {
                at: placer.bound(pods[at].cls, window, position) for at in suits[-1] if placer.guards(pods[at].cls)
            }
            entangled.update(at for at, one in found.items() if one is None or one.total < UNBOUNDED)
            bounds.append({at: one for at, one in found.items() if one is not None})
            entangled.update(_in_the_way(placer, pods, suits[-1], position, asked))
    capped = sorted({at for each in bounds for at in each} - entangled)
    sizes = tuple((*_ints(one[rows]), *(int(at == other) for other in capped)) for at, one in enumerate(wanted))
    return PackingModel(
        goods=tuple(goods),
        pods=tuple(pods),
        sizes=sizes,
        holds=tuple(
            (*held, *(each[at].fresh if at in each else 0 for at in capped))
            for held, each in zip(holds, bounds, strict=True)
        ),
        suits=tuple(suits),
        means=means,
        entangled=frozenset(entangled),
        standing=tuple(standing),
        standing_holds=tuple(
            (*_ints(free[offset]), *(_present(bounds, at, offset) for at in capped)) for offset in range(len(standing))
        ),
        standing_suits=_takers(placer, pods, window),
    )


def _padded(placer: Placer, each: PodGroup) -> Sequence[int]:
    need = placer.need(each.cls)
    return [*need.tolist(), *[0] * (len(placer.trial.vocabulary.rows) - len(need))]


def _ints(amounts: Sequence[int]) -> Counts:
    return tuple(int(one) for one in amounts)


def _present(bounds: Sequence[Mapping[int, Bound]], at: int, offset: int) -> int:
    return max((int(each[at].present[offset]) for each in bounds if at in each), default=0)


def _takers(placer: Placer, pods: Sequence[PodGroup], window: slice) -> tuple[frozenset[int], ...]:
    masks = [placer.passing(each.cls, window) for each in pods]
    return tuple(
        frozenset(at for at, mask in enumerate(masks) if mask[offset]) for offset in range(window.stop - window.start)
    )


def _in_the_way(
    placer: Placer, pods: Sequence[PodGroup], suits: frozenset[int], position: int, asked: set[tuple[int, int]]
) -> set[int]:
    """Return constrained classes, and those they are about: a pod keeps another off its node, or opens or shuts others.

    Templates make no difference to that: pairs that were `asked` about before are passed over.
    """
    caring = sorted(at for at in suits if placer.may_guard(pods[at].cls))
    if len(caring) * len(suits) > _MOST_PAIRS:
        return set(caring)
    found: set[int] = set()
    for at in caring:
        guards = placer.guards(pods[at].cls)
        for other in sorted(suits - {at}):
            if (at, other) in asked:
                continue
            asked.update(((at, other), (other, at)) if other in caring else ((at, other),))
            cls = pods[other].cls
            heard = any(guard.felt_elsewhere(cls) for guard in guards)
            heard = heard or any(guard.felt_elsewhere(pods[at].cls) for guard in placer.guards(cls))
            if heard or _apart(placer, pods[at], pods[other], position):
                found.update((at, other))
    return found


def _apart(placer: Placer, one: PodGroup, other: PodGroup, position: int) -> bool:
    """Whether a pod keeps another off its node although there is room for both."""
    for first, second in ((one, other), (other, one)):
        with placer.trial.fork():
            placer.place(first.cls, position)
            need = placer.need(second.cls)
            roomy = bool(((placer.trial.free[: len(need), position] >= need) | (need <= 0)).all())
            if roomy and not placer.fits(second.cls, position):
                return True
    return False
