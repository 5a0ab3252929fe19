"""The form of the scenario file: JSON or YAML, camelCase keys, unknown keys are errors.

Kubernetes objects inside it are decoded as the API spells them, so fields that nothing here reads are fine there.
Node groups, options and prices stay plain data: `cloudprovider.static.file` and `autoscaler.config.load` read them.
"""

from typing import Annotated, Any

import msgspec

from autoscaler.objects.capacity import (
    CapacityBuffer,
    CapacityQuota,
    ProvisioningRequest,
    ResourceQuota,
    Scalable,
    StoredTemplate,
)
from autoscaler.objects.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from autoscaler.objects.gang import GangPodGroup, GangWorkload
from autoscaler.objects.node import NodeWire
from autoscaler.objects.podspec import PodWire
from autoscaler.objects.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from autoscaler.objects.workload import (
    ConfigMap,
    DaemonSet,
    DisruptionBudget,
    Job,
    Namespace,
    PriorityClass,
    Replicated,
)
from cloudprovider.interface import ErrorClass, State
from cloudprovider.static.file import FileVersion
from cloudprovider.structure import Strict

ListIndex = Annotated[int, msgspec.Meta(ge=0)]
FromOne = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class InstanceEntry(Strict, frozen=True, kw_only=True):
    """A cloud instance without a node."""

    group: str
    id: str
    state: State = State.RUNNING
    error_class: ErrorClass | None = None
    error_code: str | None = None
    error_message: str | None = None


class ChangeEntry(Strict, frozen=True, kw_only=True):
    """What happens to the cluster right before a run."""

    before_run: ListIndex
    add_pods: list[PodWire] = []
    remove_pods: list[str] = []
    """`namespace/name`."""
    add_nodes: list[NodeWire] = []
    node_to_group: dict[str, str] = {}
    update_nodes: list[NodeWire] = []
    add_instances: list[InstanceEntry] = []
    pause_config_map: ConfigMap | None = None
    """From then on, the ConfigMap of pauses."""


class AnswerEntry(Strict, frozen=True, kw_only=True):
    """What the gRPC expander answered in a run; `ports.ExpanderAnswer` says what the fields mean."""

    run: ListIndex = 0
    asked: list[str]
    named: list[str] = []
    error: str = ""


class ScenarioFile(Strict, frozen=True, kw_only=True):
    """The whole file. Fields that are left out get the defaults of `scenario.defaults`."""

    name: str | None = None
    """None: the file's name without its ending."""
    class_: str = msgspec.field(default="", name="class")
    description: str = ""
    now: str
    options: dict[str, Any] = {}
    node_groups: list[Any] = []
    nodes: list[NodeWire] = []
    node_to_group: dict[str, str] = {}
    missing_instances: list[str] = []
    machine_versions: dict[str, FileVersion] = {}
    """By node name or instance id."""
    impaired_machines: dict[str, str] = {}
    """By node name or instance id."""
    instances: list[InstanceEntry] = []
    pods: list[PodWire] = []
    pod_disruption_budgets: list[DisruptionBudget] = []
    daemon_sets: list[DaemonSet] = []
    replica_sets: list[Replicated] = []
    stateful_sets: list[Replicated] = []
    jobs: list[Job] = []
    replication_controllers: list[Replicated] = []
    namespaces: list[Namespace] = []
    persistent_volume_claims: list[PersistentVolumeClaim] = []
    persistent_volumes: list[PersistentVolume] = []
    storage_classes: list[StorageClass] = []
    csi_nodes: list[CsiNode] = []
    csi_drivers: list[CsiDriver] = []
    csi_storage_capacities: list[CsiStorageCapacity] = []
    volume_attachments: list[VolumeAttachment] = []
    resource_slices: list[ResourceSlice] = []
    resource_claims: list[ResourceClaim] = []
    pod_groups: list[GangPodGroup] = []
    workloads: list[GangWorkload] = []
    resource_claim_templates: list[ResourceClaimTemplate] = []
    device_classes: list[DeviceClass] = []
    device_taint_rules: list[DeviceTaintRule] = []
    priority_classes: list[PriorityClass] = []
    provisioning_requests: list[ProvisioningRequest] = []
    capacity_buffers: list[CapacityBuffer] = []
    capacity_quotas: list[CapacityQuota] = []
    pod_templates: list[StoredTemplate] = []
    resource_quotas: list[ResourceQuota] = []
    deployments: list[Scalable] = []
    prices: Any = None
    gpu_label: str | None = None
    priority_config: str | None = None
    pause_config_map: ConfigMap | None = None
    """The ConfigMap of pauses, whatever its name."""
    expander_answers: list[AnswerEntry] = []
    runs: FromOne = 1
    step: str = "10s"
    changes: list[ChangeEntry] = []
    complete: bool = False
    """Whether objects are as an API server returned them, so that no default may be filled in."""
    memory: dict[str, Any] | None = None
    """What the recorded process remembered and was told (`recording.pass_file`); None: the file is no recording."""
