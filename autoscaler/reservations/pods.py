"""Creates the fake pods of reservations, which decisions see but the cluster does not contain."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from autoscaler.config.reservations import ReservationTarget
from autoscaler.objects.lenient_json import without_nulls
from autoscaler.objects.meta import ObjectMeta, OwnerReference
from autoscaler.objects.pod import SAFE_TO_EVICT, SIMULATED, Pod, PodClass
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import PodTemplate
from autoscaler.reservations.plan import active
from autoscaler.reservations.state import TargetState
from autoscaler.scaleup.fake_pods import RESERVATION_KIND
from autoscaler.snapshot.cluster import ClusterView


class TargetDemand(msgspec.Struct, frozen=True, kw_only=True):
    """The demand of one target in a pass."""

    slots: int | None
    """Maximum number of active reservations; None means any number."""
    active: int
    queued: int
    planned: int
    """Number of pods to plan for, including the floor."""
    floor: int
    """The part of `planned` that does not depend on reservations."""
    early_from: float | None = None
    """When the override with this floor begins (Unix seconds); None if the floor is in force."""
    real: int
    """Number of existing pods that use reservations."""

    @property
    def virtual(self) -> int:
        """Number of fake pods."""
        return max(0, self.planned - self.real)


def demand(target: ReservationTarget, state: TargetState, real: int, wall: float, lead_s: float = 0.0) -> TargetDemand:
    """Return the demand of a target at a time (Unix seconds); `state` must be up to date.

    A higher floor counts from `lead_s` before its override begins, but takes no slots until then.
    """
    (floor, since), running = target.floor_ahead(wall, lead_s), active(state)
    planned = floor + running
    if target.max_replicas is not None:
        planned = min(planned, target.max_replicas)
    return TargetDemand(
        slots=target.slots_at(wall),
        active=running,
        queued=len(state.entries) - running,
        planned=planned,
        floor=floor,
        early_from=since if since > wall else None,
        real=real,
    )


def count_real(target: ReservationTarget, view: ClusterView) -> int:
    """Return the number of pods of the target: pending, starting or running, but not terminating."""
    if not target.pod_selector.parts:
        return 0
    chosen = np.fromiter((counts_for(target, cls) for cls in view.classes), dtype=np.bool_, count=len(view.classes))
    placed = int(np.count_nonzero(chosen[view.pod_classes])) if len(view.pod_classes) else 0
    leaving = sum(counts_for(target, pod.cls) for pod in view.terminating)
    return placed - leaving + sum(pod.deleted is None and counts_for(target, pod.cls) for pod in view.pending)


def counts_for(target: ReservationTarget, cls: PodClass) -> bool:
    """Whether pods of a class use the reservations of a target."""
    if not target.pod_selector.parts or (target.pod_namespaces and cls.namespace not in target.pod_namespaces):
        return False
    return target.pod_selector.selects(cls.labels)


def class_of(target: ReservationTarget, template: Mapping[str, Any], interner: PodInterner) -> PodClass:
    """Return the class of a target's fake pods; raises `ValueError` for an invalid template."""
    try:
        read = msgspec.convert(without_nulls(template), PodTemplate, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    owner = OwnerReference(kind=RESERVATION_KIND, name=target.name, uid=f"reservation/{target.name}", controller=True)
    meta = ObjectMeta(
        name=f"reservation-{target.name}",
        namespace=read.metadata.namespace or next(iter(target.pod_namespaces), "default"),
        labels=read.metadata.labels,
        annotations={**read.metadata.annotations, **SIMULATED, SAFE_TO_EVICT: "true"},
        owner_references=[owner],
    )
    spec = msgspec.structs.replace(
        read.spec, node_name="", priority=target.priority, priority_class_name="", preemption_policy="Never"
    )
    return interner.class_of(meta, spec)


def fake_pods(target: ReservationTarget, cls: PodClass, count: int) -> tuple[Pod, ...]:
    """Return `count` fake pods of a target. Each keeps its name, and so its node, in every pass."""
    return tuple(
        Pod(name=f"reservation-{target.name}-{number}", cls=cls, uid=f"reservation/{target.name}/{number}")
        for number in range(count)
    )
