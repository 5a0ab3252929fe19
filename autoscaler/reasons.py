"""The typed reasons that logs, metrics, events, the status page and the docs share.

A member's value is Cluster Autoscaler's (or the scheduler's) own word where it has one.
"""

from enum import StrEnum

import msgspec


class NoFit(StrEnum):
    """What keeps a pod off a node: the scheduler's filters, in its order, then reasons of our own."""

    UNSCHEDULABLE = "NodeUnschedulable"
    NODE_NAME = "NodeName"
    TAINT = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    PORTS = "NodePorts"
    RESOURCES = "NodeResourcesFit"
    VOLUME_RESTRICTIONS = "VolumeRestrictions"
    VOLUME_LIMITS = "NodeVolumeLimits"
    VOLUME_BINDING = "VolumeBinding"
    VOLUME_ZONE = "VolumeZone"
    SPREAD = "PodTopologySpread"
    POD_AFFINITY = "InterPodAffinity"
    DEVICES = "DynamicResources"
    FEATURES = "NodeDeclaredFeatures"
    TOO_MUCH_WORK = "EvaluationWork"
    """No filter of the scheduler: the pod has so many constraints that none is asked."""
    ZONE_LATER = "ZoneComesLater"
    """No filter: the pod suits the group, but only in a zone in which the next node does not come."""
    ZONE_UNKNOWN = "ZoneNotKnown"
    """No filter: nothing tells in which zone a new node comes, and in some zones it would do."""


_NO_FILTERS = (NoFit.TOO_MUCH_WORK, NoFit.ZONE_LATER, NoFit.ZONE_UNKNOWN)
FILTERS = tuple(reason for reason in NoFit if reason not in _NO_FILTERS)
"""The filters that the scheduler has."""


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """One filter's verdict on one node. `message` is the scheduler's wording; `detail` has the figures."""

    reason: NoFit
    message: str
    detail: str = ""


class Skip(StrEnum):
    """Why a node group was not considered for a scale-up."""

    NOT_READY = "NotReadyForScaleUp"
    BACKED_OFF = "InBackoff"
    MAX_SIZE = "MaxNodeGroupSizeReached"
    LIMIT = "MaxResourceLimitReached"
    ATOMIC_LIMIT = "AtomicScaleUpExceedsNodeLimit"
    NO_TEMPLATE = "NoTemplate"
    PAUSED = "Paused"


class Skipped(msgspec.Struct, frozen=True):
    """A node group left out of a scale-up; `message` is Cluster Autoscaler's wording, `detail` has the figures."""

    group: str
    reason: Skip
    message: str
    detail: str = ""


class Lack(StrEnum):
    """What the nodes of a group lack compared with its template."""

    RESOURCE = "Resource"
    LABEL = "Label"
    TAINT = "Taint"


class ScaleUpResult(StrEnum):
    """The result of scale-up in a pass."""

    SUCCESSFUL = "Successful"
    ERROR = "Error"
    NO_OPTIONS = "NoOptionsAvailable"
    NOT_NEEDED = "NotNeeded"
    NOT_TRIED = "NotTried"
    IN_COOLDOWN = "InCooldown"
    LIMITED_BY_MAX_NODES_TOTAL = "LimitedByMaxNodesTotal"


class Waiting(StrEnum):
    """Why a pending pod does not take part in this pass."""

    TOO_YOUNG = "TooYoung"
    EXPENDABLE = "Expendable"
    DAEMONSET = "DaemonSetPod"
    FITS = "FitsOnExistingOrUpcomingNode"
    TERMINATING = "Terminating"
    NOT_JUDGED = "NotJudgedByScheduler"
    NOMINATED = "Nominated"
    GATED = "SchedulingGated"
    FOREIGN_SCHEDULER = "SchedulerNotAllowed"
    TAKES_HEADROOM = "TakesRoomOfPausePods"
    CONSUMES_REQUEST = "ConsumesProvisioningRequest"


class PodVerdict(StrEnum):
    """The outcome for a pod that needs a new node."""

    HELPED = "Helped"
    """Nodes were asked for, and it fits on them."""
    NO_GROUP_FITS = "NoGroupFits"
    """No group that may grow could take it; the reasons say why, group by group."""
    NEXT_PASS = "AwaitsNextPass"
    """Some group could take it, but another was chosen first, or fewer nodes than wanted were allowed."""
    NOT_CHOSEN = "NotChosenByExpander"
    """Some group could take it, and the expander wants none of them."""
    GANG_TOO_LARGE = "GangDoesNotFit"
    """All that may be bought is too little for its gang to start, so nothing is bought for it."""
    GANG_INCOMPLETE = "GangAwaitsPods"
    """Its gang cannot start before more of its pods exist and ask for a node."""


class RequestReason(StrEnum):
    """Why a ProvisioningRequest has a condition."""

    ACCEPTED = "Accepted"
    FOUND = "CapacityIsFound"
    PROVISIONED = "CapacityIsProvisioned"
    NOT_FOUND = "CapacityIsNotFound"
    NO_PODS = "FailedToCreatePods"
    NO_BOOKING = "FailedToBookCapacity"
    RESERVATION_EXPIRED = "CapacityReservationTimeExpired"
    CONSUMED = "CapacityBookingConsumed"
    EXPIRED = "Expired"


class BufferReason(StrEnum):
    """Why a CapacityBuffer has a condition."""

    RESOLVED = "AttributesSetSuccessfully"
    UNRESOLVED = "error"
    INJECTED = "FakePodsInjected"
    NOT_READY = "NotReadyForProvisioning"
    EMPTY = "BufferIsEmpty"
    NO_TEMPLATE = "FailedToGetPodTemplate"
    NO_PODS = "FailedToMakeFakePods"
    QUOTAS = "ResourceQuotasAllocated"


class Headcount(StrEnum):
    """What determines how many pause pods a pool has."""

    IDLE_COUNT = "IdleCount"
    SCALE_FACTOR = "ScaleFactor"
    SCALE_FACTOR_LIMIT = "ScaleFactorLimit"
    MAX_PODS = "MaxPods"
    COOL_DOWN = "CoolDown"
    NO_POLICY = "NoPolicy"


class LeadBasis(StrEnum):
    """What determines how long before a window its capacity is requested."""

    LEARNED = "Learned"
    CONFIGURED = "Configured"
    NOTHING_LEARNED = "NothingLearned"


class HeadroomTrouble(StrEnum):
    """What is wrong with a pool of pause pods."""

    GET_DEPLOYMENT = "get_deployment"
    APPLY_STATE = "apply_state"
    NAME_CONFLICT = "name_conflict"
    PRIORITY_CLASS = "priority_class"
    PRIORITY_CLASS_MISMATCH = "priority_class_mismatch"
    PRIORITY_UNSUITABLE = "priority_unsuitable"
    DELETION_COST = "deletion_cost"
    PAUSED = "paused"


class NoReservation(StrEnum):
    """Why announced work changes no reservation, or loses one."""

    DUPLICATE = "duplicate"
    PING = "ping"
    EVENT = "event"
    ACTION = "action"
    SKIPPED = "skipped"
    CHECK_RUN = "check_run"
    EMPTY_LABELS = "empty_labels"
    NO_TARGET = "no_target"
    AMBIGUOUS_TARGET = "ambiguous_target"
    JOB_COMPLETED = "job_completed"
    UNKNOWN_JOB = "unknown_job"
    NOTHING_RESERVED = "nothing_reserved"
    QUEUE_LIMIT = "queue_limit"
    QUEUE_FULL = "queue_full"
    MAX_QUEUE_AGE = "max_queue_age"
    STATE_UNREADABLE = "state_unreadable"
    TARGET_GONE = "target_gone"
    GIVEN_UP = "given_up"
    NOT_STORED = "not_stored"


class Unplaceable(StrEnum):
    """Why there is no room for a reservation, and none is upcoming."""

    MAX_SIZE = "max_size"
    BACKED_OFF = "backoff"
    LIMIT = "resource_limit"
    MAX_NODES_TOTAL = "max_nodes_total"
    NOT_READY = "not_ready"
    NO_FIT = "no_fit"
    NOT_CHOSEN = "not_chosen"
    HELD_BACK = "held_back"
    ERROR = "error"
    NO_TEMPLATE = "no_template"


class UnknownStart(StrEnum):
    """Why the start of a pod cannot be estimated."""

    NO_GROUP_FITS = "no_group_fits"
    MAX_SIZE = "max_size"
    RESOURCE_LIMIT = "resource_limit"
    BACKOFF = "backoff"
    PAUSED = "paused"
    MAX_NODES_TOTAL = "max_nodes_total"
    GANG = "gang"
    NO_USABLE_CAPACITY = "no_usable_capacity"
    NOT_COMPUTED = "not_computed"
    NOT_CONSIDERED = "not_considered"


class DeleteReason(StrEnum):
    """Why a pod was removed before it ended."""

    PREEMPTED = "preempted"
    EVICTED = "evicted"
    SCALE_DOWN = "scale_down"
    EXPIRED = "expired"
    OLD_GENERATION = "old_generation"
    USER = "user"
    UNKNOWN = "unknown"


class UnremovableReason(StrEnum):
    """Why a node stays."""

    DISABLED = "ScaleDownDisabledAnnotation"
    DO_NOT_DISRUPT = "DoNotDisruptAnnotation"
    UNDECODED = "NodeCannotBeDecoded"
    UNREADY_DISABLED = "ScaleDownUnreadyDisabled"
    NOT_AUTOSCALED = "NotAutoscaled"
    NOT_UNNEEDED_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    MIN_SIZE = "NodeGroupMinSizeReached"
    MAX_DELETIONS = "NodeGroupMaxDeletionCountReached"
    ATOMIC = "AtomicScaleDownFailed"
    MINIMAL_RESOURCES = "MinimalResourceLimitExceeded"
    BEING_DELETED = "CurrentlyBeingDeleted"
    NOT_UNDERUTILIZED = "NotUnderutilized"
    NOT_TRIED = "NotUnneededOtherReason"
    RECENTLY_UNREMOVABLE = "RecentlyUnremovable"
    NO_PLACE = "NoPlaceToMovePods"
    BLOCKED_BY_POD = "BlockedByPod"
    ON_COMPLETION = "BlockedByOnCompletionPod"
    UNEXPECTED = "UnexpectedError"
    GROUP_COOLING_DOWN = "NodeGroupInCooldown"
    GROUP_HELD = "NodeGroupScaleDownDisabled"
    NOT_STARTED = "NodeNotStarted"
    OUTSIDE_WINDOW = "OutsideMaintenanceWindow"
    PAUSED = "Paused"
    TOO_MANY_A_MINUTE = "NodeDeletionRateReached"
    SHARED_BUDGET = "SharedDisruptionBudget"
    DISRUPTION_BUDGET = "DisruptionBudgetReached"
    BEING_REPLACED = "BeingReplaced"
    REPLACES_OTHERS = "ReplacesOtherNodes"
    SILENT = "ApiServerSilent"
    REFUSED = "ProviderRefusesDeletion"


class BlockingReason(StrEnum):
    """Why a pod keeps its node."""

    CONTROLLER_NOT_FOUND = "ControllerNotFound"
    MIN_REPLICAS = "MinReplicasReached"
    NOT_REPLICATED = "NotReplicated"
    LOCAL_STORAGE = "LocalStorageRequested"
    NOT_SAFE_TO_EVICT = "NotSafeToEvictAnnotation"
    DO_NOT_DISRUPT = "DoNotDisruptAnnotation"
    SYSTEM = "UnmovableKubeSystemPod"
    GANG = "RunsInGang"
    BUDGET = "NotEnoughPdb"
    UNDECODED = "PodCannotBeDecoded"


class UnremovableNode(msgspec.Struct, frozen=True, gc=False):
    """A node that stays. `detail` has the figures for people; nothing parses it."""

    node: str
    reason: UnremovableReason
    detail: str = ""
    pod: str | None = None
    """`namespace/name` of the pod that keeps it."""
    pod_reason: BlockingReason | None = None
    utilization: float | None = None
    """Requested / allocatable of its scarcest resource; None where that was not computed."""
    time_left_s: float | None = None
    """When the reason is over, in seconds from then; None where that is not only a matter of time, or not known."""


class ScaleDownResult(StrEnum):
    """The result of scale-down in a pass."""

    NO_UNNEEDED = "NoUnneeded"
    NO_NODE_DELETED = "NoNodeDeleted"
    NODE_DELETE_STARTED = "NodeDeleteStarted"
    NOT_TRIED = "NotTried"
    IN_COOLDOWN = "InCooldown"
    IN_PROGRESS = "InProgress"
    NO_CANDIDATES = "NoCandidates"
    ERROR = "Error"


class PauseScope(StrEnum):
    """What a pause pauses."""

    ALL = "all"
    """Scale-up too."""
    SCALE_DOWN = "scale-down"
    """No node is removed."""
    DISRUPTION = "disruption"
    """No pod is moved; nodes that are empty still go."""
    DRIFT = "drift"
    """No node is replaced for differing from its group."""


class ReplacementTrigger(StrEnum):
    """Why a node is replaced although it is needed."""

    NOTICED = "InterruptionNoticed"
    ADVISED = "MaintenanceNoticed"
    UNHEALTHY = "NodeUnhealthy"
    REQUESTED = "ReplacementRequested"
    DRIFTED = "NodeDrifted"
    EXPIRED = "NodeExpired"
    CHEAPER = "CheaperNodes"


class DriftKind(StrEnum):
    """In what a node differs from the nodes that its group makes now."""

    TEMPLATE = "template"
    IMAGE = "image"
    INSTANCE_TYPE = "instance-type"
    LABELS = "labels"
    TAINTS = "taints"


class ReplacementStage(StrEnum):
    """How far a replacement has come."""

    PROPOSED = "Proposed"
    BOUGHT = "Bought"
    READY = "Ready"
    DRAINING = "Draining"
    DONE = "Done"
    ABANDONED = "Abandoned"


class ReplacementHold(StrEnum):
    """Why a replacement waits, or was abandoned."""

    NODE_KEPT = "NodeKept"
    GRACE_OVER = "DrainGraceOver"
    MAX_SIZE = "NodeGroupMaxSizeReached"
    NO_CAPACITY = "NoGroupCanReplace"
    NOT_READY = "NewNodesNotReady"
    PODS_FIRST = "PendingPodsFirst"
    TOO_MANY = "MaxReplacementsReached"
    TOO_MANY_UNHEALTHY = "TooManyUnhealthy"
    ALL_UNREACHABLE = "AllNodesUnreachable"
    API_SILENT = "ApiServerSilent"
    DISRUPTION_BUDGET = "DisruptionBudgetReached"
    PAUSED = "Paused"
    NOT_WRITTEN = "NodeNotAnnotated"
    NOT_BOUGHT = "ScaleUpFailed"
    NEVER_CAME = "NewNodesNeverCame"
    ON_TRIAL = "NewNodesOnTrial"
    NEW_NODES_FAILED = "NewNodesFailed"
    TOO_DEAR = "NoLongerCheaper"
    TIMED_OUT = "ReplacementTimedOut"
    WITHDRAWN = "RequestWithdrawn"
    OUTLIVED = "MachineStayed"


class RemovedAs(StrEnum):
    """Kinds of removed nodes: Cluster Autoscaler's values of the label `reason` of scaled_down_nodes_total."""

    UNDERUTILIZED = "underutilized"
    EMPTY = "empty"
    UNREADY = "unready"
