"""The answers of `plan --explain` for a pod, a node or a node group, in the form that `-o json` prints."""

from enum import StrEnum

import msgspec

from autoscaler.explain.remedies.remedy import Remedy
from autoscaler.objects.pod import PodClass
from autoscaler.reasons import (
    BlockingReason,
    Rejection,
    ReplacementHold,
    ReplacementStage,
    ReplacementTrigger,
    Skip,
    UnremovableReason,
)
from autoscaler.scaleup.templates import TemplateSource

EXAMPLES = 3
"""How many nodes a set of equal ones names."""


class ExplanationPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts of an explanation; times are RFC 3339."""


class NodeSet(ExplanationPart, frozen=True, kw_only=True):
    """Nodes that reject a pod for the same reasons."""

    count: int
    upcoming: int
    """How many of them are upcoming."""
    examples: list[str]
    """Up to three names, nearest miss first."""
    rejections: list[Rejection]
    """Those of the first example; empty if these nodes accept the pod."""


class GroupFate(StrEnum):
    """The outcome of a node group for a pod."""

    GROWS = "Grows"
    """It grows, and the pod fits on its new nodes."""
    OFFERED = "Offered"
    """It could have helped, but other groups were chosen, or it failed to grow."""
    FITS = "Fits"
    """A new node would take the pod, but this pass offered none for it."""
    LEFT_OUT = "LeftOut"
    """It may not grow now; `skipped` says why."""
    REJECTS = "Rejects"
    """A new node would not take the pod; `rejections` say why."""


class LeftOut(ExplanationPart, frozen=True, kw_only=True):
    """Why a group may not grow."""

    reason: Skip
    message: str
    detail: str = ""


class GroupSet(ExplanationPart, frozen=True, kw_only=True):
    """Node groups with the same outcome for a pod, for the same reasons."""

    fate: GroupFate
    groups: list[str]
    """Nearest miss first."""
    skipped: LeftOut | None = None
    """Of the first group."""
    rejections: list[Rejection]
    """Rejections by a new node of the first group; empty if it accepts the pod or is unknown."""


class Score(ExplanationPart, frozen=True, kw_only=True):
    """One expander's rating of an offer."""

    expander: str
    score: float | None = None
    """Its figure for the offer: unused share (least-waste), pods (most-pods), nodes (least-nodes), score (price), price
    for each pod (cost), rank (priority); None where it has none."""
    kept: bool
    """Whether it kept the offer for the next expander."""


class Offer(ExplanationPart, frozen=True, kw_only=True):
    """An option that a group made in one round of the scale-up, and how the expanders rated it."""

    round: int
    group: str
    nodes: int
    pods: int
    similar_groups: list[str]
    scores: list[Score] = []
    """In the order of the chain, up to the expander that dropped the offer or had only one left."""
    chosen: bool


class PodExplanation(ExplanationPart, frozen=True, kw_only=True, tag_field="kind", tag="pod"):
    """Why a pod waits, or what was done for it."""

    target: str
    verdict: str
    """`Runs`, a `Waiting`, `Helped`, `NoGroupFits`, `AwaitsNextPass`, or the result of the scale-up."""
    message: str
    node: str | None = None
    """Where it runs, fits or is nominated to."""
    group: str | None = None
    """The group that grows for it."""
    scheduler_message: str = ""
    """What kube-scheduler says of a pod that fits no node of the cluster as it is; empty where some node takes it."""
    requests: dict[str, str] = {}
    nodes: list[NodeSet] = []
    """Nearest miss first. The pod itself takes no room."""
    groups: list[GroupSet] = []
    """Those that help first, then nearest miss first."""
    offers: list[Offer] = []
    """Options that would have helped it, round by round."""
    remedy: Remedy | None = None
    """The change that would reverse the decision; None if there is no obstacle."""
    alternatives: list[Remedy] = []
    """Other changes with the same effect."""


class ExplainedReplacement(ExplanationPart, frozen=True, kw_only=True):
    """The replacement that a node takes part in, or should take part in."""

    stage: ReplacementStage
    trigger: ReplacementTrigger | None = None
    nodes: list[str] = []
    """All nodes that are replaced together."""
    bought: dict[str, int] = {}
    """New nodes by group."""
    hold: ReplacementHold | None = None
    """Why it waits."""
    detail: str = ""
    left_s: float | None = None
    """Time until it is tried again."""
    price_before: float | None = None
    price_after: float | None = None
    """Per hour; None if a price is unknown or nothing was bought."""


class NodeVerdict(StrEnum):
    """Scale-down's verdict on a node."""

    REMOVED = "BeingRemoved"
    UNNEEDED = "Unneeded"
    STAYS = "Stays"
    NOT_JUDGED = "NotJudged"


class NodeExplanation(ExplanationPart, frozen=True, kw_only=True, tag_field="kind", tag="node"):
    """Why a node stays or is removed."""

    target: str
    verdict: NodeVerdict
    message: str
    group: str | None = None
    state: str = ""
    """Its stage, as on the status page."""
    reason: UnremovableReason | None = None
    """Why it stays; for unneeded nodes, why it stays for now."""
    detail: str = ""
    pod: str | None = None
    """The pod that keeps it."""
    pod_reason: BlockingReason | None = None
    utilization: float | None = None
    """Requested / allocatable as scale-down counts; None where it did not."""
    unneeded_since: str | None = None
    time_left_s: float | None = None
    """Until the reason no longer holds by itself; None where time alone changes nothing."""
    pods_to_move: list[str] = []
    replacement: ExplainedReplacement | None = None
    scale_down_result: str = ""
    remedy: Remedy | None = None
    """What would let it go; None where it goes."""
    alternatives: list[Remedy] = []


class Sizes(ExplanationPart, frozen=True, kw_only=True):
    """A group in numbers: its limits and target, nodes by state, and machines that are no nodes yet."""

    target: int
    min: int
    max: int
    ready: int
    not_started: int
    unready: int
    being_deleted: int
    unregistered: int
    upcoming: int


class BackoffForm(ExplanationPart, frozen=True, kw_only=True):
    """Why, and until when, a group is left alone."""

    until: str
    left_s: float
    code: str
    message: str


class RejectedPods(ExplanationPart, frozen=True, kw_only=True):
    """Pods of one class that a new node would not take."""

    owner: str
    count: int
    examples: list[str]
    rejections: list[Rejection]


class GroupVerdict(StrEnum):
    """What a scale-up makes of a group."""

    GROWS = "Grows"
    FAILED = "Failed"
    NOT_CHOSEN = "NotChosen"
    LEFT_OUT = "LeftOut"
    NO_POD_FITS = "NoPodFits"
    NOT_ASKED = "NotAsked"


class GroupExplanation(ExplanationPart, frozen=True, kw_only=True, tag_field="kind", tag="group"):
    """What a group could offer, and what became of it."""

    target: str
    verdict: GroupVerdict
    message: str
    sizes: Sizes
    healthy: bool | None
    """None: the pass ended before it was judged."""
    backoff: BackoffForm | None = None
    template_source: TemplateSource | None = None
    """None: nothing tells what a new node looks like."""
    template_fault: str = ""
    increase: int = 0
    """Machines that the pass asked for, with success."""
    error: str = ""
    skipped: LeftOut | None = None
    offers: list[Offer] = []
    rivals: list[Offer] = []
    """What other groups offered in the same rounds."""
    rejected: list[RejectedPods] = []
    remedy: Remedy | None = None
    """What would have it grow; None where it grows, or nobody needs it to."""
    alternatives: list[Remedy] = []


class PlanExplanation(ExplanationPart, frozen=True, kw_only=True):
    """What one run of a scenario meant for what was asked about, in the order asked."""

    name: str
    run: int
    at: str
    explained: list[PodExplanation | NodeExplanation | GroupExplanation]


def owner_of(cls: PodClass) -> str:
    """Return what to call the pods of a class: their controller, or nothing where there is none."""
    return "" if cls.owner is None else f"{cls.owner.kind} {cls.namespace}/{cls.owner.name}"
