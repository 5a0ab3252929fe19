"""A remedy: the obstacle of a pod, node or group, its culprit, and the change that would reverse the decision."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from autoscaler.explain.remedies.changes import AnyChange, Wait


class Obstacle(StrEnum):
    """Obstacles: the names of the reasons, and a few that have no reason."""

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
    TOO_MUCH_WORK = "EvaluationWork"
    ZONE_LATER = "ZoneComesLater"
    ZONE_UNKNOWN = "ZoneNotKnown"
    GROUP_NOT_READY = "NotReadyForScaleUp"
    BACKED_OFF = "InBackoff"
    MAX_SIZE = "MaxNodeGroupSizeReached"
    LIMIT = "MaxResourceLimitReached"
    ATOMIC_LIMIT = "AtomicScaleUpExceedsNodeLimit"
    NO_TEMPLATE = "NoTemplate"
    TOO_YOUNG = "TooYoung"
    EXPENDABLE = "Expendable"
    DAEMONSET = "DaemonSetPod"
    TERMINATING = "Terminating"
    NOT_JUDGED = "NotJudgedByScheduler"
    GATED = "SchedulingGated"
    FOREIGN_SCHEDULER = "SchedulerNotAllowed"
    CONSUMES_REQUEST = "ConsumesProvisioningRequest"
    NO_GROUPS = "NoNodeGroups"
    NEXT_PASS = "AwaitsNextPass"
    NOT_CHOSEN = "NotChosenByExpander"
    INCREASE_FAILED = "IncreaseFailed"
    PODS_TOO_NEW = "PodsTooNew"
    MAX_NODES_TOTAL = "LimitedByMaxNodesTotal"
    EMPTY_CLUSTER = "EmptyCluster"
    UNHEALTHY = "ClusterUnhealthy"
    SIZES_FIXED = "NodeGroupSizesFixed"
    PASS_FAILED = "Failed"
    SCALE_DOWN_DISABLED = "ScaleDownDisabled"
    SCALE_UP_FIRST = "ScaleUpFirst"
    COOLING_DOWN = "InCooldown"
    AWAITS_REMOVAL = "AwaitsRemoval"
    DISABLED = "ScaleDownDisabledAnnotation"
    UNDECODED_NODE = "NodeCannotBeDecoded"
    UNREADY_DISABLED = "ScaleDownUnreadyDisabled"
    NOT_AUTOSCALED = "NotAutoscaled"
    NOT_UNNEEDED_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    MIN_SIZE = "NodeGroupMinSizeReached"
    MAX_DELETIONS = "NodeGroupMaxDeletionCountReached"
    ATOMIC = "AtomicScaleDownFailed"
    MINIMAL_RESOURCES = "MinimalResourceLimitExceeded"
    NOT_UNDERUTILIZED = "NotUnderutilized"
    NOT_TRIED = "NotUnneededOtherReason"
    RECENTLY_UNREMOVABLE = "RecentlyUnremovable"
    NO_PLACE = "NoPlaceToMovePods"
    ON_COMPLETION = "BlockedByOnCompletionPod"
    UNEXPECTED = "UnexpectedError"
    GROUP_COOLING_DOWN = "NodeGroupInCooldown"
    GROUP_HELD = "NodeGroupScaleDownDisabled"
    NOT_STARTED = "NodeNotStarted"
    OUTSIDE_WINDOW = "OutsideMaintenanceWindow"
    SILENT = "ApiServerSilent"
    TOO_MANY_A_MINUTE = "NodeDeletionRateReached"
    BEING_REPLACED = "BeingReplaced"
    REPLACES_OTHERS = "ReplacesOtherNodes"
    REFUSED = "ProviderRefusesDeletion"
    CONTROLLER_NOT_FOUND = "ControllerNotFound"
    MIN_REPLICAS = "MinReplicasReached"
    NOT_REPLICATED = "NotReplicated"
    LOCAL_STORAGE = "LocalStorageRequested"
    NOT_SAFE_TO_EVICT = "NotSafeToEvictAnnotation"
    SYSTEM = "UnmovableKubeSystemPod"
    BUDGET = "NotEnoughPdb"
    UNDECODED_POD = "PodCannotBeDecoded"


class CulpritKind(StrEnum):
    """Kinds of culprits."""

    POD = "pod"
    NODE = "node"
    GROUP = "group"
    FLAG = "flag"
    CONTROLLER = "controller"
    BUDGET = "budget"
    TIME = "time"
    """Nothing but time stands in the way; the name is when it is over, RFC 3339."""


class Culprit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The object, flag or time that causes the obstacle; a pod's and a budget's name is `namespace/name`."""

    kind: CulpritKind
    name: str

    def __str__(self) -> str:
        """Return it for people."""
        return f"--{self.name}" if self.kind is CulpritKind.FLAG else f"{self.kind} {self.name}"


class Remedy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The change that would reverse a decision."""

    code: Obstacle
    culprit: Culprit
    text: str
    """For people, with figures."""
    changes: list[AnyChange]
    """All have to be made; empty: no setting helps, the text says what does."""


def remedy(code: Obstacle, kind: CulpritKind, name: str, text: str, changes: Sequence[AnyChange] = ()) -> Remedy:
    """Return a remedy."""
    return Remedy(code=code, culprit=Culprit(kind=kind, name=name), text=text, changes=list(changes))


def together(needed: Sequence[Remedy], first: Remedy | None = None, until_s: float | None = None) -> Remedy:
    """Return one remedy with the changes of all; code and culprit are the first one's.

    `until_s`: so long after the last look nobody looks again.
    """
    every = [*([] if first is None else [first]), *needed]
    lead = every[0]
    changes = list(dict.fromkeys(change for one in every for change in one.changes))
    text = lead.text
    if len(every) > 1:
        text = "; ".join(dict.fromkeys(one.text for one in every))
    if until_s is not None:
        changes.append(Wait(seconds=until_s))
        text += f"; the node is checked again {changes[-1]}"
    return remedy(lead.code, lead.culprit.kind, lead.culprit.name, text, changes)
