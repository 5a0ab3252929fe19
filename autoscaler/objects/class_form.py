"""What a class of pods is made of, as data: the parts of `PodClass.key`."""

import msgspec

from autoscaler.objects.meta import OwnerReference
from autoscaler.objects.podspec import (
    Affinity,
    Container,
    PodSpec,
    Quantities,
    ResourceClaimRef,
    Resources,
    SpreadConstraint,
    Toleration,
    Volume,
)
from autoscaler.objects.requests import NO_RESIZE, PodResize


class ClassForm(msgspec.Struct, frozen=True, array_like=True):
    """The parts of `PodClass.key`, in their order there: a class written down, from which it can be made again."""

    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    owner: OwnerReference | None
    containers: list[Container]
    init_containers: list[Container]
    overhead: Quantities
    resources: Resources
    node_selector: dict[str, str]
    affinity: Affinity | None
    tolerations: list[Toleration]
    topology_spread_constraints: list[SpreadConstraint]
    volumes: list[Volume]
    claims: list[str]
    resource_claims: list[ResourceClaimRef]
    node_name: str
    priority: int | None
    priority_class_name: str
    preemption_policy: str | None
    scheduler_name: str
    restart_policy: str
    termination_grace_period_seconds: int | None
    allocated: dict[str, Quantities] | None
    allocated_to_pod: Quantities = {}
    resize_pending: str = ""

    @property
    def resize(self) -> PodResize:
        """The resize in place that such pods have not finished."""
        if not self.allocated and not self.allocated_to_pod:
            return NO_RESIZE
        return PodResize(self.allocated or {}, self.allocated_to_pod, self.resize_pending)


_TAKEN_OVER = tuple(name for name in PodSpec.__struct_fields__ if name in ClassForm.__struct_fields__)


def spec_of(form: ClassForm) -> PodSpec:
    """Return the spec of such pods, on no node."""
    return PodSpec(**{**{field: getattr(form, field) for field in _TAKEN_OVER}, "node_name": ""})
