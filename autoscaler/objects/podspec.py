"""A v1.Pod on the wire: the part of it that anything here reads, as the API spells it."""

import msgspec

from autoscaler.objects.decode import Undecoded
from autoscaler.objects.meta import NEVER_KNOWN, LabelSelector, ObjectMeta, Requirement, Wire, integer
from autoscaler.objects.node import Taint


class Toleration(Wire, frozen=True):
    """A toleration; what it leaves out matches everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether it covers the taint: effect, key, then operator (Exists, Equal, numeric Lt and Gt)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "Exists":
                return True
            case "Equal" | "":
                return self.key != "" and self.value == taint.value
            case "Lt" | "Gt":
                return self._compares(taint.value)
            case _:
                return False

    def _compares(self, value: str) -> bool:
        have, bound = integer(value), integer(self.value)
        if have is None or bound is None:
            return False
        return have < bound if self.operator == "Lt" else have > bound


class NodeSelectorTerm(Wire, frozen=True):
    """Expressions that must all hold; a term with none matches nothing."""

    match_expressions: list[Requirement] = []
    match_fields: list[Requirement] = []


class NodeSelector(Wire, frozen=True):
    """Terms; at least one must hold."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredNodes(Wire, frozen=True):
    """Nodes that a pod prefers, and how much: weights are 1 to 100."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True):
    """A node affinity."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredNodes] = msgspec.field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire, frozen=True):
    """Which pods to be near to, or away from, within one topology domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodTerm(Wire, frozen=True):
    """Pods that a pod prefers to be near to, or away from, and how much: weights are 1 to 100."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True):
    """A pod affinity or anti-affinity."""

    required: list[PodAffinityTerm] = msgspec.field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodTerm] = msgspec.field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Wire, frozen=True):
    """A topology spread constraint."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] = []


class SoftConstraints(msgspec.Struct, frozen=True, gc=False):
    """What pods of a class ask of nodes without insisting."""

    nodes: tuple[PreferredNodes, ...] = ()
    near: tuple[WeightedPodTerm, ...] = ()
    away: tuple[WeightedPodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    """Only constraints that do not forbid (`ScheduleAnyway`)."""


class HostPort(msgspec.Struct, frozen=True, order=True, gc=False):
    """A port claimed on the node itself."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"


class Disk(Wire, frozen=True):
    """A directly named cloud disk; which field is used depends on the volume source."""

    pd_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    volume_path: str = ""
    image: str = ""
    pool: str = ""
    iqn: str = ""
    read_only: bool = False


class Present(Wire, frozen=True):
    """A volume source; only its presence matters."""


class EmptyDir(Wire, frozen=True):
    """Scratch space on the node; `medium` Memory keeps it off the disk."""

    medium: str = ""


class ClaimSource(Wire, frozen=True):
    """A claim used as a volume."""

    claim_name: str = ""


class CsiSource(Wire, frozen=True):
    """An inline volume of a CSI driver."""

    driver: str = ""


class Volume(Wire, frozen=True):
    """A volume of a pod; sources that nothing here reads (config maps, projected tokens) are not kept."""

    name: str = ""
    host_path: Present | None = None
    empty_dir: EmptyDir | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    csi: CsiSource | None = None
    gce_persistent_disk: Disk | None = None
    aws_elastic_block_store: Disk | None = None
    azure_disk: Disk | None = None
    cinder: Disk | None = None
    vsphere_volume: Disk | None = None
    portworx_volume: Disk | None = None
    rbd: Disk | None = None
    iscsi: Disk | None = None

    @property
    def matters(self) -> bool:
        """Whether any source is kept."""
        sources = (
            self.host_path,
            self.empty_dir,
            self.persistent_volume_claim,
            self.ephemeral,
            self.csi,
            self.gce_persistent_disk,
            self.aws_elastic_block_store,
            self.azure_disk,
            self.cinder,
            self.vsphere_volume,
            self.portworx_volume,
            self.rbd,
            self.iscsi,
        )
        return sources.count(None) < len(sources)


class ResourceClaimRef(Wire, frozen=True):
    """A dynamic resource claim of a pod, by name or from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


Quantities = dict[str, str | int | float]
"""Amounts by resource name, as the API writes them."""


class Resources(Wire, frozen=True):
    """What a container asks for; limits decide nothing."""

    requests: Quantities = {}


class Port(Wire, frozen=True):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(Wire, frozen=True):
    """What the kubelet does when a container exits in a certain way; in which way decides nothing."""

    action: str = ""


class Container(Wire, frozen=True):
    """The part of a container that is read: decisions depend on requests and ports, start-up estimates on the image."""

    name: str = ""
    resources: Resources = Resources()
    ports: list[Port] = []
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] = []
    image: str = ""

    @property
    def plain(self) -> "Container":
        """The container without its image: pods that differ in nothing else are interchangeable for decisions."""
        return msgspec.structs.replace(self, image="") if self.image else self

    @property
    def sidecar(self) -> bool:
        """Whether an init container keeps running beside the others."""
        return self.restart_policy == "Always"


class SchedulingGroup(Wire, frozen=True):
    """The PodGroup that a pod belongs to."""

    pod_group_name: str = ""


class WorkloadRef(Wire, frozen=True):
    """The pod group of a Workload that a pod belongs to, as Kubernetes 1.35 spells it."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(Wire, frozen=True):
    """The part of a v1.PodSpec that is read."""

    node_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: Quantities = {}
    resources: Resources = Resources()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[SpreadConstraint] = []
    volumes: list[Volume] = []
    resource_claims: list[ResourceClaimRef] = []
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduler_name: str = "default-scheduler"
    scheduling_gates: list[Present] = []
    host_network: bool | None = None
    host_users: bool | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None


class PodCondition(Wire, frozen=True):
    """One entry of a pod's conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class ContainerStatus(Wire, frozen=True):
    """What a running container holds: as much as it asks for, unless a resize in place is not finished."""

    name: str = ""
    allocated_resources: Quantities = {}
    resources: Resources = Resources()


class PodStatusWire(Wire, frozen=True):
    """The part of a v1.PodStatus that is read."""

    phase: str = "Pending"
    conditions: list[PodCondition] = []
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    resize: str = ""
    allocated_resources: Quantities = {}
    resources: Resources = Resources()


class PodWire(Wire, frozen=True):
    """A v1.Pod as the API writes it."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatusWire = PodStatusWire()


def undecoded_pod(odd: Undecoded) -> PodWire | None:
    """Return the substitute of a pod that was never decoded: it takes all room of its node, and stays.

    None for one that has no node yet: nothing can be done for it.
    """
    if not odd.node_name:
        return None
    return PodWire(odd.marked(NEVER_KNOWN), PodSpec(node_name=odd.node_name), PodStatusWire(phase="Running"))
