"""Objects that request capacity before pods exist, or limit it: ProvisioningRequests, CapacityBuffers, CapacityQuotas.

The custom ones are in group `autoscaling.x-k8s.io`. Only the fields that are used are kept.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from autoscaler.objects import quantity
from autoscaler.objects.meta import LabelSelector, Resource, Wire, optional_seconds, unix_seconds
from autoscaler.objects.requests import effective_requests
from autoscaler.objects.workload import PodTemplate

GROUP = "autoscaling.x-k8s.io"
CONSUMES = f"{GROUP}/consume-provisioning-request"
"""Annotation of a pod that uses the capacity of a request: the request's name, in the pod's namespace."""
CONSUMES_FORMERLY = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
CLASS_NAME = f"{GROUP}/provisioning-class-name"
"""Annotation that repeats the request's class."""
CHECK_CAPACITY = f"check-capacity.{GROUP}"
ATOMIC_SCALE_UP = f"best-effort-atomic-scale-up.{GROUP}"
ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
"""The only provisioning strategy of buffers, and the default."""


class LocalRef(Wire, frozen=True):
    """The name of an object in the same namespace."""

    name: str = ""


class StatusCondition(Wire, frozen=True):
    """A metav1.Condition. The time is an RFC 3339 text."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = "1970-01-01T00:00:00Z"
    observed_generation: int = 0

    @property
    def since(self) -> float:
        """Since when it is so, in Unix seconds."""
        return unix_seconds(self.last_transition_time)


class StoredTemplate(Resource, frozen=True):
    """A v1.PodTemplate."""

    template: PodTemplate = PodTemplate()

    def check(self) -> None:
        """Raise `ValueError` where a quantity or a time in it, read later on, cannot be read."""
        effective_requests(self.template.spec)


class RequestCondition(StrEnum):
    """Conditions of a ProvisioningRequest."""

    ACCEPTED = "Accepted"
    PROVISIONED = "Provisioned"
    FAILED = "Failed"
    BOOKING_EXPIRED = "BookingExpired"
    CAPACITY_REVOKED = "CapacityRevoked"


class PodSet(Wire, frozen=True):
    """So many pods of one template."""

    count: int = 1
    pod_template_ref: LocalRef = LocalRef()


class RequestSpec(Wire, frozen=True):
    """What is asked for."""

    pod_sets: list[PodSet] = []
    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}


class ConditionedStatus(Wire, frozen=True):
    """A status of which only the conditions are read."""

    conditions: list[StatusCondition] = []


def condition_in(conditions: list[StatusCondition], kind: str) -> StatusCondition | None:
    """Return the condition of a type; None where it is not set."""
    return next((condition for condition in conditions if condition.type == kind), None)


class ProvisioningRequest(Resource, frozen=True):
    """A ProvisioningRequest."""

    api_version: str = f"{GROUP}/v1"
    spec: RequestSpec = RequestSpec()
    status: ConditionedStatus = ConditionedStatus()

    def check(self) -> None:
        """Raise `ValueError` where a quantity or a time in it, read later on, cannot be read."""
        optional_seconds(self.metadata.creation_timestamp)
        for condition in self.status.conditions:
            unix_seconds(condition.last_transition_time)

    def condition(self, kind: RequestCondition) -> StatusCondition | None:
        """Return the condition of a type; None where it is not set."""
        return condition_in(self.status.conditions, kind)

    def has(self, kind: RequestCondition) -> bool:
        """Whether a condition is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"

    @property
    def pod_count(self) -> int:
        """How many pods are asked for."""
        return sum(pod_set.count for pod_set in self.spec.pod_sets)

    @property
    def created(self) -> float:
        """When it was created, in Unix seconds."""
        return unix_seconds(self.metadata.creation_timestamp) if self.metadata.creation_timestamp else 0.0


class ScalableRef(Wire, frozen=True):
    """A controller whose pods a buffer imitates."""

    kind: str = ""
    name: str = ""
    api_group: str = ""


class BufferSpec(Wire, frozen=True):
    """How much room to keep."""

    provisioning_strategy: str | None = None
    pod_template_ref: LocalRef | None = None
    scalable_ref: ScalableRef | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: dict[str, str | int | float] | None = None


class BufferStatus(Wire, frozen=True):
    """What became of a buffer's spec."""

    pod_template_ref: LocalRef | None = None
    pod_template_generation: int | None = None
    replicas: int | None = None
    ready_replicas: int | None = None
    provisioning_strategy: str | None = None
    conditions: list[StatusCondition] = []


class CapacityBuffer(Resource, frozen=True):
    """A CapacityBuffer."""

    api_version: str = f"{GROUP}/v1beta1"
    spec: BufferSpec = BufferSpec()
    status: BufferStatus = BufferStatus()

    def check(self) -> None:
        """Raise `ValueError` where a quantity or a time in it, read later on, cannot be read."""
        for condition in self.status.conditions:
            unix_seconds(condition.last_transition_time)

    def condition(self, kind: str) -> StatusCondition | None:
        """Return the condition of a type; None where it is not set."""
        return condition_in(self.status.conditions, kind)


class QuotaSpec(Wire, frozen=True):
    """Which objects a quota counts; empty: all of its namespace."""

    scopes: list[str] = []
    scope_selector: dict[str, Any] | None = None


class QuotaStatus(Wire, frozen=True):
    """What a quota allows, and how much of it is taken."""

    hard: dict[str, str | int | float] = {}
    used: dict[str, str | int | float] = {}


class ResourceQuota(Resource, frozen=True):
    """A ResourceQuota."""

    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()

    def check(self) -> None:
        """Raise `ValueError` where a quantity or a time in it, read later on, cannot be read."""
        quantity.amounts(self.status.hard)
        quantity.amounts(self.status.used)


class CapacityLimits(Wire, frozen=True):
    """The most that the nodes of a CapacityQuota may have, by resource; `nodes` is their number."""

    resources: dict[str, str | int | float] = {}


class CapacityQuotaSpec(Wire, frozen=True):
    """Which nodes count, and how much they may have. Without a selector all nodes count."""

    selector: LabelSelector | None = None
    limits: CapacityLimits = CapacityLimits()


class CapacityQuotaStatus(Wire, frozen=True):
    """What the nodes of a CapacityQuota have, and whether the quota is valid."""

    used: CapacityLimits | None = None
    conditions: list[StatusCondition] = []
    observed_generation: int = 0


class CapacityQuota(Resource, frozen=True):
    """A CapacityQuota: a limit on the nodes that a selector names. Its amounts are read when it is judged."""

    api_version: str = f"{GROUP}/v1beta1"
    spec: CapacityQuotaSpec = CapacityQuotaSpec()
    status: CapacityQuotaStatus = CapacityQuotaStatus()


class ScalableSpec(Wire, frozen=True):
    """Spec of a controller with a pod template, which is kept as it is written: it is to be stored again."""

    replicas: int | None = None
    parallelism: int | None = None
    template: dict[str, Any] = {}


class Scalable(Resource, frozen=True):
    """A Deployment, ReplicaSet, StatefulSet, ReplicationController or Job with its pod template."""

    spec: ScalableSpec = ScalableSpec()

    @property
    def size(self) -> int:
        """How many pods it wants; the API's default is one."""
        wanted = self.spec.parallelism if self.spec.replicas is None else self.spec.replicas
        return 1 if wanted is None else wanted


def consumed_request(annotations: Mapping[str, str]) -> str | None:
    """Return the name of the request whose capacity a pod uses; None where it uses none."""
    return annotations.get(CONSUMES) or annotations.get(CONSUMES_FORMERLY)
