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
"""How many nodes of a set are named."""


class ExplanationPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts of an explanation; times are RFC 3339."""


class NodeSet(ExplanationPart, frozen=True, kw_only=True):
    """Nodes that reject a pod for the same reasons."""

    count: int
    upcoming: int
    """The number of upcoming nodes among them."""
    examples: list[str]
    """Up to three names, nearest miss first."""
    rejections: list[Rejection]
    """Why the first example rejects the pod; empty if these nodes accept the pod."""


class GroupFate(StrEnum):
    """The outcome of a node group for a pod."""

    GROWS = "Grows"
    """The group grows, and the pod fits on its new nodes."""
    OFFERED = "Offered"
    """The group could have helped, but the expander chose other groups, or the group failed to grow."""
    FITS = "Fits"
    """A new node would take the pod, but the pass made no offer of this group for the pod."""
    LEFT_OUT = "LeftOut"
    """The group may not grow now; `skipped` says why."""
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
    """The group that is the nearest miss comes first."""
    skipped: LeftOut | None = None
    """Why the first group may not grow."""
    rejections: list[Rejection]
    """Why a new node of the first group rejects the pod; empty if it accepts the pod or is unknown."""


class Score(ExplanationPart, frozen=True, kw_only=True):
    """One expander's rating of an offer."""

    expander: str
    score: float | None = None
    """The expander's figure for the offer: unused share (least-waste), pods (most-pods), nodes (least-nodes), score
    (price), price per pod (cost), rank (priority), points that a pod loses by its preferences (preferred). None if the
    expander has no figure for it.
    """
    kept: bool
    """Whether the expander kept the offer for the next expander."""
    why: str = ""
    """Why it preferred the offer."""


class Offer(ExplanationPart, frozen=True, kw_only=True):
    """An option that a group made in one round of the scale-up, and how the expanders rated it."""

    round: int
    group: str
    nodes: int
    pods: int
    similar_groups: list[str]
    scores: list[Score] = []
    """In the order of the expander chain. The list ends with the expander that dropped the offer or left only one."""
    chosen: bool


class PodExplanation(ExplanationPart, frozen=True, kw_only=True, tag_field="kind", tag="pod"):
    """Why a pod waits, or what the autoscaler did for it."""

    target: str
    verdict: str
    """`Runs`, a `Waiting`, `Helped`, `NoGroupFits`, `AwaitsNextPass`, or the result of the scale-up."""
    message: str
    node: str | None = None
    """The node on which the pod runs or fits, or to which it is nominated."""
    group: str | None = None
    """The group that grows for the pod."""
    scheduler_message: str = ""
    """What kube-scheduler says about a pod that fits no node of the cluster now; empty if a node takes the pod."""
    requests: dict[str, str] = {}
    nodes: list[NodeSet] = []
    """Nearest miss first. Room that the pod itself takes counts as free."""
    groups: list[GroupSet] = []
    """Groups that help come first, then the others, nearest miss first."""
    offers: list[Offer] = []
    """Options that would have helped the pod, in the order of the rounds."""
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
    """Why the replacement waits."""
    detail: str = ""
    left_s: float | None = None
    """Time until the autoscaler tries the replacement again."""
    price_before: float | None = None
    price_after: float | None = None
    """Price per hour; None if a price is unknown or nothing was bought."""


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
    """The stage of the node, as on the status page."""
    reason: UnremovableReason | None = None
    """Why the node stays; for an unneeded node, why it stays for now."""
    detail: str = ""
    pod: str | None = None
    """The pod that keeps the node."""
    pod_reason: BlockingReason | None = None
    utilization: float | None = None
    """Requested / allocatable, as scale-down counts them; None if scale-down did not count them."""
    unneeded_since: str | None = None
    time_left_s: float | None = None
    """Time until the reason ends by itself; None if time alone changes nothing."""
    pods_to_move: list[str] = []
    replacement: ExplainedReplacement | None = None
    scale_down_result: str = ""
    remedy: Remedy | None = None
    """What would let the autoscaler remove the node; None if the node is being removed."""
    alternatives: list[Remedy] = []


class Sizes(ExplanationPart, frozen=True, kw_only=True):
    """A group in numbers: its limits and target, its nodes by state, and its machines that are not nodes yet."""

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
    """Why, and until when, the autoscaler leaves a group alone."""

    until: str
    left_s: float
    code: str
    message: str


class RejectedPods(ExplanationPart, frozen=True, kw_only=True):
    """Pods of one class that a new node would reject."""

    owner: str
    count: int
    examples: list[str]
    rejections: list[Rejection]


class GroupVerdict(StrEnum):
    """The outcome of a scale-up for a group."""

    GROWS = "Grows"
    FAILED = "Failed"
    NOT_CHOSEN = "NotChosen"
    LEFT_OUT = "LeftOut"
    NO_POD_FITS = "NoPodFits"
    NOT_ASKED = "NotAsked"


class GroupExplanation(ExplanationPart, frozen=True, kw_only=True, tag_field="kind", tag="group"):
    """What a group offered in a pass, and the outcome."""

    target: str
    verdict: GroupVerdict
    message: str
    sizes: Sizes
    healthy: bool | None
    """None if the pass ended before it judged the group."""
    backoff: BackoffForm | None = None
    template_source: TemplateSource | None = None
    """None if nothing tells the autoscaler what a new node looks like."""
    template_fault: str = ""
    increase: int = 0
    """The number of machines that the pass requested successfully."""
    error: str = ""
    skipped: LeftOut | None = None
    offers: list[Offer] = []
    rivals: list[Offer] = []
    """Offers of other groups in the same rounds."""
    rejected: list[RejectedPods] = []
    remedy: Remedy | None = None
    """What would make the group grow; None if it grows, or if no pod needs it."""
    alternatives: list[Remedy] = []


class PlanExplanation(ExplanationPart, frozen=True, kw_only=True):
    """What one run of a scenario decided about each target, in the order of the question."""

    name: str
    run: int
    at: str
    explained: list[PodExplanation | NodeExplanation | GroupExplanation]


def owner_of(cls: PodClass) -> str:
    """Return kind and name of the pods' controller; empty if the pods have none."""
    return "" if cls.owner is None else f"{cls.owner.kind} {cls.namespace}/{cls.owner.name}"
