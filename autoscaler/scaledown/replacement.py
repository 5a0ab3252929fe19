"""Replacements of nodes as values: new nodes come first, then the pods move, then the old nodes are removed.

    Proposed → Bought → Ready → Draining → Done          any but Done → Abandoned, and the node rests

A replacement that needs nothing bought is Ready at once. `advance` is the whole life cycle as a function of what is
remembered, what a simulation of the move shows, and the time. What was bought for is written to the old nodes before
it is bought, so that a process that starts in the middle goes on where the one before it stopped.
"""

from collections.abc import Iterable, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.scaledown import ReplacementOptions as Options
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import (
    BlockingReason,
    ReplacementHold,
    ReplacementStage,
    ReplacementTrigger,
    UnremovableNode,
    UnremovableReason,
)
from autoscaler.scaledown.drift_memory import DriftMemory
from autoscaler.scaledown.plan import Removal
from autoscaler.snapshot.groups import Group

REQUESTED = "replacement.autoscaler/requested"
"""Annotation on a node, `true`: replace it."""
_MOST_BUYS = 3
"""Twice more after the first time, should other pods have taken the room, or the scheduler filled it otherwise."""
STAYED_S = 60.0
"""If a machine is still there so many seconds after it was to leave, the announcement counts no more."""
MAX_DOUBLINGS = 5
"""How often the rest doubles."""


WorkloadKey = frozenset[tuple[PodClass, int]]
"""How many pods of each class there are, those that come and go with nodes left out."""


class Purchase(msgspec.Struct, frozen=True):
    """Machines that one group was asked for."""

    group: str
    count: int


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """One or several nodes that go together once others have come."""

    trigger: ReplacementTrigger
    nodes: tuple[str, ...]
    began: Instant
    cause: str = ""
    """Details of the trigger, for people."""
    stage: ReplacementStage = ReplacementStage.PROPOSED
    bought: tuple[Purchase, ...] = ()
    buys: int = 0
    """How often something was bought."""
    places: Mapping[str, str] = {}
    """Where the plan puts pods, by uid: `place_on` or `place_on_new`. A hint that a restart forgets."""
    price_before: float | None = None
    """Per hour, of the old nodes; None where prices play no part."""
    price_after: float | None = None
    """Per hour, of the new ones."""
    disturbance: float | None = None
    """The weight of moving the pods, which the saving was weighed against; None where prices play no part."""
    hold: ReplacementHold | None = None
    detail: str = ""
    """For people; nothing parses it."""

    @property
    def id(self) -> str:
        """What it is called: the name of its first node."""
        return self.nodes[0]

    @property
    def saving(self) -> float | None:
        """What it saves per hour."""
        if self.price_before is None or self.price_after is None:
            return None
        return self.price_before - self.price_after

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.stage in (ReplacementStage.DONE, ReplacementStage.ABANDONED)


def place_on(node: str) -> str:
    """Return the place that a node of the cluster is."""
    return f"node/{node}"


def place_on_new(group: str, number: int) -> str:
    """Return the place that the nth new node of a group is, counted from 0."""
    return f"new/{group}/{number}"


class HeldBack(msgspec.Struct, frozen=True):
    """Why nodes must not be replaced now, although nothing on them keeps them."""

    hold: ReplacementHold
    detail: str = ""


class ReplacementForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replacement if it were made now, as simulated."""

    removals: tuple[Removal, ...] = ()
    """Old nodes that are still whole, each with the pods that would move."""
    leaving: tuple[str, ...] = ()
    """Old nodes whose removal has begun."""
    kept: UnremovableNode | None = None
    """The first thing that keeps an old node."""
    withdrawn: bool = False
    """Nobody asks for it any more."""
    held: HeldBack | None = None
    """Why it must not go on now."""
    grace_over: str = ""
    """Why people have to be told if a disruption budget keeps a node still; empty: not now."""
    leave_at: Instant | None = None
    """From this moment on the old nodes go although new nodes have not come; None: they wait for them."""
    deadline: Instant | None = None
    """The first moment at which a machine of an old node leaves by itself; None: none does."""
    short: Mapping[str, int] = {}
    """Machines without which a group would fall below its minimum."""
    unplaced: tuple[Pod, ...] = ()
    """Pods that fit neither on nodes there are nor on those on their way."""
    awaited: int = 0
    """Pods that count on nodes which are not ready yet."""
    arrived: bool = True
    """Whether what was bought has come, or is expected no more."""
    new: tuple[str, ...] = ()
    """New nodes that are there for it."""

    @property
    def lacks(self) -> bool:
        """Whether machines have to be bought."""
        return bool(self.unplaced or self.short)


class ReplacementBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """Why and until when no replacement of a node is tried."""

    until: Instant
    hold: ReplacementHold
    detail: str = ""
    failures: int = 0
    """How often its replacement was given up."""


class UnprovenConsolidation(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation that has yet to prove itself: nodes bought for its pods would undo what it saves."""

    id: str
    classes: frozenset[PodClass]
    """Of the pods that it moves."""
    workload: WorkloadKey
    """What ran when it began."""
    until: Instant | None = None
    """None: it is still in progress."""


class ConsolidationBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation did not last. No other is begun before `until`, nor for the same workload."""

    until: Instant
    failures: int
    workload: WorkloadKey


class ReplacementMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that outlives a pass, as far as replacements are concerned."""

    in_progress: tuple[Replacement, ...] = ()
    """Oldest first."""
    rests: Mapping[str, ReplacementBackoff] = {}
    """By node name; one that is over still counts failures."""
    first_seen: Mapping[str, Instant] = {}
    """Since when nodes have had what calls for their replacement, where the cluster does not tell."""
    consolidated: Instant | None = None
    """When cheaper nodes were last looked for."""
    fruitless: int | None = None
    """Hash of the input of the last search if it found nothing; None: it found something."""
    drift: DriftMemory = DriftMemory()
    cooling: Mapping[str, Instant] = {}
    """Until when groups cool down after a spot interruption, by group id."""
    settling: UnprovenConsolidation | None = None
    doubt: ConsolidationBackoff | None = None


def advance(replacement: Replacement, seen: ReplacementForecast, now: Instant, options: Options) -> Replacement:
    """Return the replacement one step on; one that lacks machines stays where it is, for the loop to buy them."""
    if not seen.removals and not seen.leaving and seen.kept is None:
        return staged(replacement, ReplacementStage.DONE)
    if seen.leaving or _already_going(seen):
        # What has begun is finished: its end comes back from the removal itself.
        return staged(replacement, ReplacementStage.DRAINING)
    if (given_up := _given_up(replacement, seen, now, options)) is not None:
        return given_up
    waiting = ReplacementStage.BOUGHT if replacement.bought else ReplacementStage.PROPOSED
    if (held := _held_back(seen)) is not None:
        return staged(replacement, waiting, held.hold, held.detail)
    if seen.lacks:
        if replacement.buys >= _MOST_BUYS:
            return staged(
                replacement,
                ReplacementStage.ABANDONED,
                ReplacementHold.NEVER_CAME,
                "its pods still have no place after what was bought",
            )
        return staged(replacement, waiting, ReplacementHold.NO_CAPACITY, _lacking(seen))
    if seen.awaited or not seen.arrived:
        return staged(replacement, waiting, ReplacementHold.NOT_READY, f"pods that wait for new nodes: {seen.awaited}")
    return staged(replacement, ReplacementStage.READY)


def _held_back(seen: ReplacementForecast) -> HeldBack | None:
    if seen.held is not None or seen.kept is None:
        return seen.held
    if seen.grace_over and seen.kept.pod_reason is BlockingReason.BUDGET:
        return HeldBack(ReplacementHold.GRACE_OVER, f"{words(seen.kept)}; {seen.grace_over}")
    return HeldBack(ReplacementHold.NODE_KEPT, words(seen.kept))


def _given_up(
    replacement: Replacement, seen: ReplacementForecast, now: Instant, options: Options
) -> Replacement | None:
    """Return the replacement abandoned if nothing asks for it any more, or if it took too long; otherwise None."""
    if seen.withdrawn:
        return staged(
            replacement, ReplacementStage.ABANDONED, ReplacementHold.WITHDRAWN, "nothing asks for it any more"
        )
    if seen.deadline is not None and now.mono > seen.deadline.mono + STAYED_S:
        return staged(
            replacement, ReplacementStage.ABANDONED, ReplacementHold.OUTLIVED, "the machine did not leave as announced"
        )
    if now.mono - replacement.began.mono > options.replacement_timeout_s:
        waited = "" if replacement.hold is None else f": {replacement.hold}, {replacement.detail}"
        return staged(
            replacement,
            ReplacementStage.ABANDONED,
            ReplacementHold.TIMED_OUT,
            f"not done in {options.replacement_timeout_s:g}s{waited}",
        )
    return None


def _already_going(seen: ReplacementForecast) -> bool:
    """Whether the machine is gone or going, and only its node is left."""
    kept = seen.kept
    return seen.deadline is not None and kept is not None and kept.reason is UnremovableReason.BEING_DELETED


def hurried(replacement: Replacement, seen: ReplacementForecast, now: Instant) -> Replacement:
    """Return the replacement without its wait for new nodes if its old nodes have to go now."""
    late = seen.leave_at is not None and now.mono >= seen.leave_at.mono
    waits = replacement.stage in (ReplacementStage.PROPOSED, ReplacementStage.BOUGHT)
    in_vain = replacement.hold in (ReplacementHold.NOT_BOUGHT, ReplacementHold.NEVER_CAME)
    late = late and (waits or in_vain) and seen.kept is None and seen.held is None
    return staged(replacement, ReplacementStage.READY) if late else replacement


def staged(
    replacement: Replacement, stage: ReplacementStage, hold: ReplacementHold | None = None, detail: str = ""
) -> Replacement:
    """Return the replacement at a stage."""
    return msgspec.structs.replace(replacement, stage=stage, hold=hold, detail=detail)


def bought(replacement: Replacement, purchases: Iterable[Purchase]) -> Replacement:
    """Return the replacement after machines were bought for it."""
    counts = {purchase.group: purchase.count for purchase in replacement.bought}
    for purchase in purchases:
        counts[purchase.group] = counts.get(purchase.group, 0) + purchase.count
    merged = tuple(Purchase(group, count) for group, count in counts.items())
    after = msgspec.structs.replace(replacement, bought=merged, buys=replacement.buys + 1)
    return staged(after, ReplacementStage.BOUGHT, ReplacementHold.NOT_READY, "new nodes are on their way")


def words(kept: UnremovableNode) -> str:
    """Return why a node stays, for people."""
    parts = (kept.node, kept.reason.value, kept.pod or "", kept.pod_reason or "", kept.detail)
    return " ".join(part for part in parts if part)


def _lacking(seen: ReplacementForecast) -> str:
    short = ", ".join(f"{group} lacks {count}" for group, count in seen.short.items())
    pods = f"pods without a place: {len(seen.unplaced)}" if seen.unplaced else ""
    return "; ".join(part for part in (pods, short) if part)


def next_backoff(
    rest: ReplacementBackoff | None, replacement: Replacement, now: Instant, options: Options
) -> ReplacementBackoff:
    """Return how long a node rests after its replacement was given up: twice as long each time."""
    failures = (0 if rest is None else rest.failures) + 1
    delay_s = options.replacement_retry_delay_s * 2 ** min(failures - 1, MAX_DOUBLINGS)
    return ReplacementBackoff(
        until=now.later(delay_s),
        hold=replacement.hold or ReplacementHold.TIMED_OUT,
        detail=replacement.detail,
        failures=failures,
    )


def due_age_s(group: Group, options: Options) -> float | None:
    """Return the age at which nodes of a group are replaced; None: never."""
    own = group.settings.max_node_age_s
    age_s = options.max_node_age_s if own is None else own
    return age_s if age_s > 0 else None


def requested(node: Node) -> bool:
    """Whether an operator requests the replacement of the node."""
    return node.annotations.get(REQUESTED) == "true"
