"""The decisions of a scenario run, in the form that `plan -o json` prints.

The fields up to `target_sizes` are the common format for comparing autoscalers: pods are `namespace/name`, lists are
sorted, and the wording is informative. `reasons` is our addition: the same facts with types, and the pods of a class
together.
"""

import msgspec

from autoscaler.observe.status import Advice, Headline, PodState
from autoscaler.ports import ExpanderAnswer
from autoscaler.reasons import (
    BlockingReason,
    Rejection,
    ReplacementHold,
    ReplacementStage,
    ReplacementTrigger,
    Skipped,
    UnremovableReason,
    Waiting,
)
from autoscaler.scenario.inference import InferredGroup


class AnswerPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts of an answer."""


class SizeChange(AnswerPart, frozen=True, kw_only=True):
    """The change of a group's target; negative if it was lowered."""

    group: str
    increase: int


class OptionForm(AnswerPart, frozen=True, kw_only=True, omit_defaults=True):
    """An option that the expander received."""

    group: str
    node_count: int
    pods: list[str]
    similar_groups: list[str] = []


class CloudDelete(AnswerPart, frozen=True, kw_only=True):
    """A machine whose deletion reached the cloud."""

    group: str
    id: str


class NotHelped(AnswerPart, frozen=True, kw_only=True, omit_defaults=True):
    """Messages about one pod, by group."""

    rejected: dict[str, list[str]] = {}
    skipped: dict[str, list[str]] = {}


class WaitingPods(AnswerPart, frozen=True, kw_only=True):
    """Pods that did not take part in the scale-up, and why."""

    reason: Waiting
    pods: list[str]
    owners: dict[str, int]
    """The number of these pods by controller; a pod without a controller has an entry of its own."""


class HelpedPods(AnswerPart, frozen=True, kw_only=True):
    """Pods of one class that get new nodes, and the groups of these nodes."""

    owner: str
    groups: list[str]
    pods: list[str]


class StuckPods(AnswerPart, frozen=True, kw_only=True, omit_defaults=True):
    """Pods of one class that no new node would take, and the reasons by group."""

    owner: str
    pods: list[str]
    rejected: dict[str, list[Rejection]]
    advice: Advice | None = None
    """Advice for the first pod."""


class HeldPods(AnswerPart, frozen=True, kw_only=True, omit_defaults=True):
    """Pods that need a node and get none now. The reason is a `PodVerdict`, or the result of the scale-up."""

    reason: str
    detail: str
    pods: list[str]
    owners: dict[str, int]
    """As for `WaitingPods`."""
    advice: Advice | None = None
    """Advice for the first pod."""


class StayingNode(AnswerPart, frozen=True, kw_only=True, omit_defaults=True):
    """Why a node stays."""

    reason: UnremovableReason
    detail: str = ""
    pod: str | None = None
    pod_reason: BlockingReason | None = None
    utilization: float | None = None
    time_left_s: float | None = None


class LeavingNode(AnswerPart, frozen=True, kw_only=True):
    """A node whose removal started in the run."""

    node: str
    group: str
    evicted_pods: list[str]


class UnneededNode(AnswerPart, frozen=True, kw_only=True, omit_defaults=True):
    """An unneeded node."""

    node: str
    group: str
    since: str
    """RFC 3339."""
    time_left_s: float | None = None
    """Seconds until the autoscaler may remove the node, if nothing changes; None if only budgets delay the removal."""
    utilization: float | None = None
    pods_to_move: list[str] = []


class Cost(AnswerPart, frozen=True, kw_only=True):
    """Cost of the groups' target sizes per hour, in the provider's currency."""

    per_hour_before: float
    per_hour_after: float
    """The cost after the actions of the run have taken effect."""
    unpriced_groups: list[str] = []
    """Groups without a price, which the cost excludes."""


class StatusForm(AnswerPart, frozen=True, kw_only=True):
    """A condition that the run set on an object."""

    kind: str
    object: str
    """`namespace/name`."""
    type: str
    status: str
    reason: str
    message: str


class ReplacementAnswer(AnswerPart, frozen=True, kw_only=True, omit_defaults=True):
    """A replacement in progress, or one that ended in the run. Prices are per hour; unknown prices are absent."""

    nodes: list[str]
    trigger: ReplacementTrigger
    stage: ReplacementStage
    bought: dict[str, int] = {}
    hold: ReplacementHold | None = None
    detail: str = ""
    price_before: float | None = None
    price_after: float | None = None
    disturbance: float | None = None
    """The weight of moving the pods, which the saving was weighed against."""


class PreferredGroup(AnswerPart, frozen=True, kw_only=True):
    """A group that was chosen because pods prefer it to others that the expanders rated equally."""

    group: str
    why: str


class GangAnswer(AnswerPart, frozen=True, kw_only=True, omit_defaults=True):
    """A gang of pods that waits. Prices are per hour; unknown ones are absent."""

    gang: str
    wanted: int
    possible: int
    pending: int
    state: PodState
    detail: str
    nodes: dict[str, int] = {}
    """Nodes that are bought for it alone, by group."""
    node_price: float | None = None


class WaitingResize(AnswerPart, frozen=True, kw_only=True):
    """A pod whose resize in place waits because its node is full."""

    pod: str
    node: str
    lacks: dict[str, str] = {}
    """Quantities of which the node has too little, for all its pods together."""


class Reasons(AnswerPart, frozen=True, kw_only=True):
    """Typed reasons. Each pending pod is in exactly one of the first four lists."""

    waiting: list[WaitingPods] = []
    helped: list[HelpedPods] = []
    unschedulable: list[StuckPods] = []
    held: list[HeldPods] = []
    skipped_groups: list[Skipped] = []
    preferred: list[PreferredGroup] = []
    unneeded: list[UnneededNode] = []
    other_deletes: list[CloudDelete] = []
    """Machines whose deletion reached the cloud, except those of nodes that the run removes."""


class RunAnswer(AnswerPart, frozen=True, kw_only=True):
    """One run."""

    run: int
    at: str
    """RFC 3339."""
    end: str
    """Where the pass ended."""
    headline: Headline | None = None
    """What the pass means for the cluster, in a few sentences."""
    error: str = ""
    scale_up_error: str = ""
    pods_needing_scale_up: list[str] = []
    scale_up_options: list[OptionForm] = []
    chosen_option: str = ""
    scale_ups: list[SizeChange] = []
    target_decreases: list[SizeChange] = []
    scale_up_result: str = ""
    pods_triggered_scale_up: list[str] = []
    pods_remain_unschedulable: list[str] = []
    pods_await_evaluation: list[str] = []
    no_scale_up_reasons: dict[str, NotHelped] = {}
    unneeded_nodes: list[str] = []
    unremovable: dict[str, StayingNode] = {}
    scale_down_result: str = ""
    deleted_empty: list[LeavingNode] = []
    deleted_drain: list[LeavingNode] = []
    cloud_deletes: list[CloudDelete] = []
    replacements: list[ReplacementAnswer] = []
    deferred_resizes: list[WaitingResize] = []
    target_sizes: dict[str, int] = {}
    expander_answers: list[ExpanderAnswer] = []
    """Answers of the gRPC expander, in the form of the scenario file."""
    conditions_set: list[StatusForm] = []
    """Conditions of ProvisioningRequests and CapacityBuffers, in the order of the pass."""
    gangs: list[GangAnswer] = []
    """Gangs of pods too few of which have a node."""
    reasons: Reasons = Reasons()
    cost: Cost | None = None
    """None if no group has a price."""
    timings: dict[str, float] = {}
    """Seconds by phase; the only field that differs between runs of the same input."""


class PlanAnswer(AnswerPart, frozen=True, kw_only=True, omit_defaults=True):
    """All runs of a scenario."""

    name: str
    runs: list[RunAnswer]
    inferred_groups: list[InferredGroup] = []
    """Node groups that were inferred from nodes, if no file named them."""
