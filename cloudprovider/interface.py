"""The whole contract between the autoscaler and a cloud, for provider authors.

A provider implements `CloudProvider` and returns `NodeGroup`s. Everything else is optional: each ability is a separate
Protocol, which the autoscaler detects with `isinstance`. A provider raises only `ProviderError` and its subclasses on
purpose. Quantities are Kubernetes quantity strings; times are seconds; prices are per node-hour in one
currency that the provider chooses.

Calls come from one thread at a time per group; `NodeGroup.delete`, `increase`, `instances` and `target_size` may run
beside calls for other groups. A call may block for seconds, but `groups`, `group_of`, `min_size` and
`max_size` must be cheap: they answer from the results of the last `refresh`.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec


class ProviderError(Exception):
    """Anything a provider raises on purpose. `code` is short and stable: it becomes a metric label."""

    code = "cloudProviderError"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class OutOfCapacity(ProviderError):
    """The cloud has no such machines now; the group backs off."""

    code = "OUT_OF_RESOURCES"


class QuotaExceeded(ProviderError):
    """An account limit is reached; the group backs off."""

    code = "QUOTA_EXCEEDED"


class Throttled(ProviderError):
    """Too many calls; `retry_after` is the number of seconds that the cloud asks to wait, if known."""

    code = "THROTTLED"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(ProviderError):
    """The group or instance does not exist (any more)."""

    code = "NOT_FOUND"


class Transient(ProviderError):
    """A temporary fault or a time-out. The call may have taken effect: read again before concluding."""

    code = "TRANSIENT"


class Conflict(Transient):
    """The object has changed since it was read, so nothing was written. Read again, then decide again."""

    code = "CONFLICT"


class Misconfigured(ProviderError):
    """The configuration cannot work; at start this ends the process with status 2."""

    code = "MISCONFIGURED"


class State(StrEnum):
    """Life of an instance as the cloud sees it."""

    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"


class ErrorClass(StrEnum):
    """Why an instance could not be created."""

    OUT_OF_RESOURCES = "OutOfResources"
    OTHER = "Other"


class InstanceError(msgspec.Struct, frozen=True):
    """A failed creation."""

    error_class: ErrorClass
    code: str
    message: str = ""


class MachineVersion(msgspec.Struct, frozen=True):
    """What a machine is made from, in the cloud's words. An empty field is not known, and is not compared."""

    template: str = ""
    """The version of its template, such as `launch template lt-0a1b, version 7`."""
    image: str = ""
    instance_type: str = ""


class Instance(msgspec.Struct, frozen=True):
    """One machine of a group, registered as a node or not. `state` None means the cloud does not say."""

    provider_id: str
    """Equals the `spec.providerID` that the node has or will have."""
    state: State | None = State.RUNNING
    error: InstanceError | None = None
    version: MachineVersion | None = None
    """What the machine was made from; None: the cloud does not say."""
    impaired: str = ""
    """Why the cloud holds the machine for unhealthy, in a word or two; empty if it does not, or does not say."""


class TaintSpec(msgspec.Struct, frozen=True):
    """A taint on new nodes."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class NodeTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What a freshly booted node of a group looks like."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: Sequence[TaintSpec] = ()
    capacity: Mapping[str, str] = {}
    """Quantity strings by resource name; `pods` included."""
    allocatable: Mapping[str, str] = {}
    """For resources without an entry, `capacity` applies."""
    zones: Mapping[str, Mapping[str, str]] = {}
    """Zones that the cloud may choose for a new node, by name, each with the labels of its nodes.

    The autoscaler assumes that the cloud chooses the zone with the fewest nodes of the group. If empty, the zone is
    that in `labels`, or those of the group's nodes.
    """
    pods: Sequence[Mapping[str, Any]] = ()
    """v1.Pod objects that come with every node (static pods), as plain JSON data."""
    attach_limits: Mapping[str, int] = {}
    """How many volumes of a CSI driver a new node can attach, by driver.

    The autoscaler prefers the limits that nodes of the group report.
    """
    resource_slices: Sequence[Mapping[str, Any]] = ()
    """The devices that come with every node (dynamic resource allocation): v1.ResourceSlice objects as plain JSON data.

    Names of nodes and pools, generations and counts of slices do not matter. The autoscaler prefers what nodes of the
    group have.
    """
    declared_features: Sequence[str] = ()
    """What `status.declaredFeatures` of a new node will say.

    If empty, a new node of a group without nodes is expected to declare what all nodes of the cluster declare.
    """


class NodeRef(msgspec.Struct, frozen=True):
    """A node as a provider sees it. For an instance without a node, name and provider_id are its id."""

    name: str
    provider_id: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Per-group overrides of flags; None keeps the flag. Durations in seconds."""

    scale_down_enabled: bool | None = None
    """False: no node of the group is removed as unneeded or old, for example while the cloud replaces them itself."""
    scale_down_utilization_threshold: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None
    scale_down_unneeded_time_s: float | None = None
    scale_down_unready_time_s: float | None = None
    max_node_provision_time_s: float | None = None
    max_node_startup_time_s: float | None = None
    max_node_age_s: float | None = None
    """Age at which nodes are replaced; 0 means never."""
    ignore_daemonsets_utilization: bool | None = None
    zero_or_max_node_scaling: bool = False
    allow_non_atomic_scale_up_to_max: bool = False


@runtime_checkable
class NodeGroup(Protocol):
    """A set of interchangeable machines with one size."""

    @property
    def id(self) -> str:
        """Unique and stable across restarts."""
        ...

    @property
    def min_size(self) -> int:
        """The autoscaler never scales the group below this size."""
        ...

    @property
    def max_size(self) -> int:
        """The autoscaler never scales the group above this size."""
        ...

    def target_size(self) -> int:
        """Desired size: includes machines not yet registered, excludes those being deleted."""
        ...

    def instances(self) -> Sequence[Instance]:
        """Return every machine of the group, also those without a node, those being deleted and those that failed."""
        ...

    def template(self) -> NodeTemplate | None:
        """Return a model of a new node; None if the cloud does not know."""
        ...

    def increase(self, delta: int) -> None:
        """Raise the target by `delta` > 0, and return once it is updated. Raises `ProviderError` above `max_size`."""
        ...

    def decrease_target(self, delta: int) -> None:
        """Lower the target by `delta` > 0 by cancelling unfulfilled requests; never removes a machine that exists."""
        ...

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete exactly these machines and lower the target by as many.

        Raises `ProviderError` and deletes none if one is of another group or the target would fall below `min_size`.
        """
        ...


@runtime_checkable
class CloudProvider(Protocol):
    """The cloud, as far as the autoscaler needs it."""

    @property
    def name(self) -> str:
        """The name that `--cloud-provider` selects it by."""
        ...

    def refresh(self, now: float) -> None:
        """Bring cached state up to date; called once at the start of a pass. `now` is Unix seconds."""
        ...

    def groups(self) -> Sequence[NodeGroup]:
        """All groups, in a stable order. Cheap."""
        ...

    def group_of(self, node: NodeRef) -> str | None:
        """Id of the group that a node belongs to; None if it is not autoscaled. Cheap."""
        ...

    def close(self) -> None:
        """Release all resources; called once on a clean exit."""
        ...


@runtime_checkable
class Pricing(Protocol):
    """Ability of a provider: knows what machines and pods cost."""

    def node_price(self, node: NodeTemplate, hours: float) -> float:
        """Price of running such a node for `hours`."""
        ...

    def pod_price(self, requests: Mapping[str, str], hours: float) -> float:
        """Price of these requests (quantity strings) for `hours`, at the cloud's unit prices."""
        ...


@runtime_checkable
class KnowsInstances(Protocol):
    """Ability of a provider: can tell whether the machine behind a node still exists."""

    def has_instance(self, node: NodeRef) -> bool:
        """Whether the machine exists."""
        ...


@runtime_checkable
class AtomicIncrease(Protocol):
    """Ability of a group: grow by `delta` or not at all."""

    def increase_atomically(self, delta: int) -> None:
        """Raise the target by `delta`; the cloud delivers all machines or none."""
        ...


@runtime_checkable
class ForceDelete(Protocol):
    """Ability of a group: delete without the minimum-size check."""

    def force_delete(self, nodes: Sequence[NodeRef]) -> None:
        """Like `NodeGroup.delete`, but `min_size` does not matter."""
        ...


@runtime_checkable
class PrepareDelete(Protocol):
    """Ability of a group: reports that a deletion would be refused, before pods are evicted."""

    def prepare_delete(self, nodes: Sequence[NodeRef]) -> None:
        """Raise what `delete` would raise, for example because a permission is missing.

        Called once before the first eviction from these nodes. The nodes may stay, so the call must not need undoing.
        """
        ...


@runtime_checkable
class GroupOptions(Protocol):
    """Ability of a group: overrides flags for itself."""

    def settings(self) -> GroupSettings:
        """Return the overrides."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """Ability of a group: tells what new machines are made from. Its instances tell their own `version`."""

    def versions(self) -> Sequence[MachineVersion]:
        """Return what a new machine may be made from: several if the cloud chooses. Cheap.

        Empty: it is not known, or the cloud itself replaces the machines that differ.
        """
        ...


@runtime_checkable
class Accelerators(Protocol):
    """Ability of a provider: knows how its GPU nodes are labelled."""

    @property
    def gpu_label(self) -> str:
        """Label whose value is the GPU type."""
        ...

    def gpu_types(self) -> Sequence[str]:
        """Return the known values of that label."""
        ...


class NoticeKind(StrEnum):
    """What a cloud announces about a machine."""

    SPOT_INTERRUPTION = "spot-interruption"
    """It takes back spare capacity, within minutes or less."""
    TERMINATION = "termination"
    """The machine is being stopped or deleted, by the cloud or by somebody else."""
    REBALANCE_RECOMMENDATION = "rebalance-recommendation"
    """An interruption has become more likely; it may never come."""
    SCHEDULED_MAINTENANCE = "scheduled-maintenance"
    """The machine will be rebooted, moved or retired, often days later."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """An announcement that a machine will leave, or that it will stay after all."""

    provider_id: str
    kind: NoticeKind
    deadline: float | None = None
    """When the machine leaves, Unix seconds; None: the cloud does not say."""
    withdrawn: bool = False
    """The cloud has taken back an earlier announcement of this kind."""
    receipt: str = ""
    """What `NoticeQueue.acknowledge` needs; no meaning to others."""


@runtime_checkable
class NoticeQueue(Protocol):
    """Announcements of a cloud. Called from one thread beside the passes."""

    def receive(self, wait_s: float) -> Sequence[Notice]:
        """Return new notices about machines of the groups; wait up to `wait_s` seconds if there are none.

        A notice that is not acknowledged returns later, also to other processes. Raises `ProviderError`.
        """
        ...

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Forget these notices, because they have been recorded in the cluster. Raises `ProviderError`."""
        ...


@runtime_checkable
class TellsNotices(Protocol):
    """Ability of a provider: tells in advance which machines will leave."""

    def notices(self) -> NoticeQueue | None:
        """Return the queue; None if none is configured."""
        ...


class NodeApi(Protocol):
    """Access to Kubernetes objects for providers that keep their state there; objects are plain JSON data.

    Raises `NotFound`, `Transient` or `ProviderError`.
    """

    def get_config_map(self, namespace: str, name: str) -> Mapping[str, Any]:
        """Return a v1.ConfigMap."""
        ...

    def list_nodes(self) -> Sequence[Mapping[str, Any]]:
        """Return all v1.Nodes."""
        ...

    def create_node(self, node: Mapping[str, Any]) -> None:
        """Create a v1.Node."""
        ...

    def delete_node(self, name: str) -> None:
        """Delete a v1.Node; absent is fine."""
        ...


class ObjectKind(msgspec.Struct, frozen=True):
    """Where an API server serves the objects of one kind."""

    group: str
    version: str
    plural: str
    """Its name in paths, such as `machines`."""


class Scale(msgspec.Struct, frozen=True):
    """How many replicas an object is to have, as of one version of it."""

    replicas: int
    resource_version: str


class ObjectApi(Protocol):
    """Kubernetes objects of any kind on one API server, for providers that steer other controllers by them.

    Objects are plain JSON data. Raises `NotFound`, `Conflict`, `Transient` or `ProviderError`.
    """

    def kinds(self, group: str, version: str | None = None) -> Mapping[str, ObjectKind]:
        """Return the namespaced kinds of an API group by name, each in the version that the server prefers.

        A kind that is not served in the preferred version is in the first that serves it. With `version`: those
        served in that one. `NotFound` where there is no such group or version.
        """
        ...

    def list_objects(
        self, kind: ObjectKind, namespace: str | None = None, label_selector: str = ""
    ) -> Sequence[Mapping[str, Any]]:
        """Return all objects of a kind, or those of one namespace."""
        ...

    def annotate_object(
        self, kind: ObjectKind, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]
    ) -> None:
        """Set annotations (None removes one) by reading the object and writing it back: it takes `get` and `update`.

        Without annotations it is written back as it is, which tells whether that is allowed. `Conflict` where another
        object has the name by now.
        """
        ...

    def get_scale(self, kind: ObjectKind, namespace: str, name: str) -> Scale:
        """Return the scale subresource of an object."""
        ...

    def set_scale(self, kind: ObjectKind, namespace: str, name: str, scale: Scale) -> None:
        """Set the replicas; `Conflict` where the object changed since the scale's resource version."""
        ...


class ProviderContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine hands to a provider's factory."""

    config_file: str | None = None
    """Path given with `--cloud-config`."""
    node_specs: Sequence[str] = ()
    """`--nodes=min:max:name`, verbatim."""
    discovery_specs: Sequence[str] = ()
    """`--node-group-auto-discovery`, verbatim."""
    price_file: str | None = None
    """Path given with `--price-file`: a list as `cloudprovider.prices.read_price_file` takes it."""
    flags: Mapping[str, bool | float | str] = {}
    """Values of the flags that are for certain providers only, by flag name; durations in seconds."""
    defaults: GroupSettings = GroupSettings()
    """What holds for a group that overrides nothing."""
    cluster_name: str = ""
    namespace: str = "kube-system"
    user_agent: str = "cluster-autoscaler"
    now: Callable[[], float] = lambda: 0.0
    """Wall clock, Unix seconds."""
    node_api: NodeApi | None = None
    """Kubernetes access, where the engine has it."""
    object_api: ObjectApi | None = None
    """The same for objects of any kind, in the cluster whose nodes are scaled."""
    connect: Callable[[str | None], ObjectApi] | None = None
    """Opens another cluster by the path of a kubeconfig file; None: by the service account of the own pod.

    Sends nothing. Raises `Misconfigured`.
    """
    environment: Mapping[str, str] = {}
    """The process environment, read once by the engine."""


ProviderFactory = Callable[[ProviderContext], CloudProvider]
