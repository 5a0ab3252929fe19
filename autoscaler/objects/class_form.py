"""The parts of a class of pods as data: the form of `PodClass.key`."""

import msgspec

from autoscaler.objects.declared_features import uses_host_network_in_user_namespace
from autoscaler.objects.meta import ObjectMeta, OwnerReference, controller_of
from autoscaler.objects.podspec import (
    Affinity,
    ClaimSource,
    Container,
    PodSpec,
    Quantities,
    ResourceClaimRef,
    Resources,
    SchedulingGroup,
    SpreadConstraint,
    Toleration,
    Volume,
    WorkloadRef,
)
from autoscaler.objects.requests import NO_RESIZE, PodResize

NAMING_LABELS = frozenset(
    (
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "leaderworkerset.sigs.k8s.io/group-index",
        "leaderworkerset.sigs.k8s.io/group-key",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "training.kubeflow.org/replica-index",
        "spark-exec-id",
    )
)
"""Labels by which controllers tell their pods apart."""


class ClassForm(msgspec.Struct, frozen=True, array_like=True):
    """A class of pods as the API describes it. Its MessagePack is `PodClass.key`: the order of the fields is fixed."""

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
    own_claims: list[str] | None = None
    """See `PodClass.own_claims`."""
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None
    host_network: bool | None = None
    """Known only together with `host_users`: alone, neither decides anything."""
    host_users: bool | None = None

    @property
    def resize(self) -> PodResize:
        """The resize in place that such pods have not finished."""
        if not self.allocated and not self.allocated_to_pod:
            return NO_RESIZE
        return PodResize(self.allocated or {}, self.allocated_to_pod, self.resize_pending)


def form_of(
    meta: ObjectMeta, spec: PodSpec, annotations: dict[str, str], resize: PodResize, node_name: str
) -> ClassForm:
    """Return the form of the class of pods with this metadata and spec; `annotations` are those that decisions read."""
    volumes = [volume for volume in spec.volumes if volume.matters]
    apart = uses_host_network_in_user_namespace(spec)
    return ClassForm(
        namespace=meta.namespace or "default",
        labels=meta.labels,
        annotations=annotations,
        owner=controller_of(meta.owner_references),
        containers=[container.plain for container in spec.containers],
        init_containers=[container.plain for container in spec.init_containers],
        overhead=spec.overhead,
        resources=spec.resources,
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        topology_spread_constraints=spec.topology_spread_constraints,
        volumes=volumes,
        claims=_claims(volumes, meta.name) if volumes else [],
        resource_claims=spec.resource_claims,
        node_name=node_name,
        priority=spec.priority,
        priority_class_name=spec.priority_class_name,
        preemption_policy=spec.preemption_policy,
        scheduler_name=spec.scheduler_name,
        restart_policy=spec.restart_policy,
        termination_grace_period_seconds=spec.termination_grace_period_seconds,
        allocated=resize.containers or None,
        allocated_to_pod=resize.pod,
        resize_pending=resize.pending,
        scheduling_group=spec.scheduling_group,
        workload_ref=spec.workload_ref,
        host_network=apart or None,
        host_users=False if apart else None,
    )


def _claims(volumes: list[Volume], pod: str) -> list[str]:
    named = [v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None]
    return named + [f"{pod}-{volume.name}" for volume in volumes if volume.ephemeral is not None]


def nameless(form: ClassForm) -> ClassForm | None:
    """Return the form without what may only name a pod: its claims and naming labels. None where it has neither."""
    named = NAMING_LABELS.intersection(form.labels)
    if not named and not form.claims:
        return None
    no_claim = ClaimSource()
    return msgspec.structs.replace(
        form,
        labels={key: value for key, value in form.labels.items() if key not in named},
        volumes=[
            volume
            if volume.persistent_volume_claim is None
            else msgspec.structs.replace(volume, persistent_volume_claim=no_claim)
            for volume in form.volumes
        ],
        claims=[],
        own_claims=None,
    )


_SPEC_FIELDS = tuple(name for name in PodSpec.__struct_fields__ if name in ClassForm.__struct_fields__)


def spec_of(form: ClassForm) -> PodSpec:
    """Return the spec of pods of this form, on no node."""
    return PodSpec(**{**{name: getattr(form, name) for name in _SPEC_FIELDS}, "node_name": ""})
