"""Pods, and the classes they fall into.

What decides where a pod can go, whether it may be moved and how it counts is the same for thousands of replicas, so
it is kept once, as a `PodClass`. A `Pod` is what remains: identity, place and times. Classes are interned while pods
are decoded: two pods are of one class exactly when they share the very same `PodClass` object, which makes a
class a cheap dictionary key. Cluster Autoscaler's equivalence groups (same controller, equal labels, equal spec) are
its model; environment variables, images and the names of token volumes take no part.
"""

from collections.abc import Mapping

import msgspec

from autoscaler.objects.gang import GangRef
from autoscaler.objects.meta import (
    NEVER_KNOWN,
    UNDECODED,
    OwnerReference,
)
from autoscaler.objects.node import Taint, TaintEffect
from autoscaler.objects.podspec import (
    HostPort,
    NodeSelector,
    PodAffinityTerm,
    ResourceClaimRef,
    SoftConstraints,
    SpreadConstraint,
    Toleration,
    Volume,
)
from autoscaler.objects.requests import (
    Requests,
)

DEFAULT_GRACE_S = 30
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
SOURCE = "kubernetes.io/config.source"
OURS = "cluster-autoscaler.kubernetes.io/"
SAFE_TO_EVICT = OURS + "safe-to-evict"
SAFE_TO_EVICT_AFTER = OURS + "safe-to-evict-after"
COMMON_SAFE_TO_EVICT = "node-autoscaling.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
SAFE_LOCAL_VOLUMES = OURS + "safe-to-evict-local-volumes"
SCALE_UP_DELAY = OURS + "pod-scale-up-delay"
DAEMONSET_POD = OURS + "daemonset-pod"
ENABLE_DS_EVICTION = OURS + "enable-ds-eviction"
GIVEN_UP = OURS + "headroom-given-up"
"""Annotation of pause pods that their controller will delete next."""
FAKE_POD = {"podtype": "fakepod"}
SIMULATED = {"podType": "capacityBufferFakePod", **FAKE_POD}
"""Annotations of fake pods, which exist in simulations only: they keep room, or represent pods to come."""


class PodClass(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """Everything that is equal among interchangeable pods. Compared by identity: see the module."""

    key: bytes = b""
    """Canonical form: equal for equal classes, in any process."""
    alike: bytes = b""
    """Digest of the form without the names of claims and without naming labels; empty where it has neither."""
    namespace: str = "default"
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """Only those that the autoscaler reads."""
    owner: OwnerReference | None = None
    """The controller."""
    requests: Requests = {}
    """Effective: init containers, sidecars, overhead and pod-level resources taken in."""
    held_for_resize: Requests = {}
    """The part of the requests that counts only until a resize in place is finished."""
    resize_pending: str = ""
    """Why that resize has not begun: `Infeasible`, `Deferred`; empty: it has, or there is none."""
    container_requests: Requests = {}
    """Of the plain containers alone."""
    host_ports: tuple[HostPort, ...] = ()
    node_selector: Mapping[str, str] = {}
    node_affinity: NodeSelector | None = None
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    spreads_itself: bool = False
    """Whether it has spread constraints of any kind, so that a scheduler's defaults do not apply to it."""
    spread: tuple[SpreadConstraint, ...] = ()
    """Only constraints that forbid (`DoNotSchedule`)."""
    soft: SoftConstraints | None = None
    """What it asks without insisting; None: nothing."""
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[Volume, ...] = ()
    claims: tuple[str, ...] = ()
    """Names of the PersistentVolumeClaims in use."""
    own_claims: frozenset[str] = frozenset()
    """Claims of which every pod of the class has one like it, that no other pod uses; the names are one pod's."""
    resource_claims: tuple[ResourceClaimRef, ...] = ()
    node_name: str = ""
    """A node asked for by name in a template; never set from a running pod's place."""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduler_name: str = "default-scheduler"
    restart_policy: str = "Always"
    grace_s: int = DEFAULT_GRACE_S
    features: frozenset[str] = frozenset()
    """The features that its node must declare."""
    gang: GangRef | None = None
    """The gang that its pods belong to."""
    headroom: str | None = None
    """The pool of a pause pod, which holds room for others; None for any other pod."""
    leaving: "PodClass | None" = None
    """In simulations only: the class whose terminating pods this one represents. Spread does not count them."""

    @property
    def mirror(self) -> bool:
        """Whether the kubelet made it from a file on the node."""
        return MIRROR in self.annotations

    @property
    def undecoded(self) -> bool:
        """Whether it represents pods that cannot be decoded."""
        return UNDECODED in self.annotations

    @property
    def unmeasured(self) -> bool:
        """Whether its requests are unknown."""
        return self.annotations.get(UNDECODED) == NEVER_KNOWN

    @property
    def static(self) -> bool:
        """Whether it does not come from the API server."""
        return self.annotations.get(SOURCE, "api") != "api"

    @property
    def daemonset(self) -> bool:
        """Whether it belongs to its node: owned by a DaemonSet, or annotated to be treated so."""
        owned = self.owner is not None and self.owner.kind == "DaemonSet"
        return owned or self.annotations.get(DAEMONSET_POD) == "true"

    @property
    def given_up(self) -> bool:
        """Whether it is a pause pod that is not wanted any more."""
        return GIVEN_UP in self.annotations and self.headroom is not None

    @property
    def simulated(self) -> bool:
        """Whether it takes part in simulations only: there is nothing to evict."""
        return any(self.annotations.get(key) == value for key, value in SIMULATED.items())

    def tolerates(self, taint: Taint) -> bool:
        """Whether some toleration covers the taint, or the taint only asks."""
        return not taint.hard or any(toleration.tolerates(taint) for toleration in self.tolerations)

    @property
    def tolerates_unschedulable(self) -> bool:
        """Whether it may go to a cordoned node."""
        return self.tolerates(CORDONED)


CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE)


class Unscheduled(msgspec.Struct, frozen=True, gc=False):
    """Condition PodScheduled=False: the scheduler's reason, and since when (Unix seconds)."""

    reason: str
    since: float | None


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod. Times are Unix seconds."""

    name: str
    cls: PodClass
    uid: str = ""
    node: str | None = None
    phase: str = "Pending"
    created: float = 0.0
    deleted: float | None = None
    unscheduled: Unscheduled | None = None
    nominated_node: str | None = None
    started: float | None = None
    scheduled: float | None = None
    """When it got its node."""
    ready: float | None = None
    """Since when it has been ready."""
    image: str = ""
    """Of its first container."""
    disruption: str | None = None
    """Why it is being disrupted, in the API's word, such as `PreemptionByScheduler`."""
    deletion_cost: int = 0
    """What its controller is told that deleting it costs, against other pods of the controller."""
    unmerged: PodClass | None = None
    """Its class before it was merged with classes alike (`snapshot.merging`); None where it was not."""

    @property
    def decisive(self) -> "Pod":
        """The pod without what only estimates of starts read."""
        return msgspec.structs.replace(self, scheduled=None, ready=None, image="", disruption=None, unmerged=None)

    @property
    def own_class(self) -> PodClass:
        """The class with the names of its own claims and with all its labels."""
        return self.unmerged or self.cls

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self.cls.namespace

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.cls.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether it has run to its end and holds no resources."""
        return self.phase in ("Succeeded", "Failed")
