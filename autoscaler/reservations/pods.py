"""From reservations to their fake pods, which decisions see and the cluster does not have."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from autoscaler.config.reservations import ReservationTarget
from autoscaler.objects.lenient_json import without_nulls
from autoscaler.objects.meta import ObjectMeta, OwnerReference
from autoscaler.objects.pod import SAFE_TO_EVICT, SIMULATED, Pod, PodClass, PodInterner
from autoscaler.objects.workload import PodTemplate
from autoscaler.reservations.plan import active
from autoscaler.reservations.state import TargetState
from autoscaler.scaleup.fake_pods import RESERVATION_KIND
from autoscaler.snapshot.cluster import ClusterView


class TargetDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What one target wants of a pass."""

    slots: int | None
    """How many reservations may be active; None: any number."""
    active: int
    queued: int
    planned: int
    """Pods to plan for, the floor included."""
    floor: int
    """Of these, those planned for whatever is reserved."""
    early_from: float | None = None
    """When the floor holds (Unix seconds), where it is that of the next window; None: it holds now."""
    real: int
    """Pods that use the reservations up already."""

    @property
    def virtual(self) -> int:
        """Pods that have to be stood for."""
        return max(0, self.planned - self.real)


def demand(target: ReservationTarget, state: TargetState, real: int, wall: float, lead_s: float = 0.0) -> TargetDemand:
    """Return what a target wants at a time (Unix seconds); `state` is up to date.

    A higher floor counts from `lead_s` before it holds, but takes no slots until then.
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
    """Return how many pods of the target there are: pending, starting or running, and not on their way out."""
    if not target.pod_selector.parts:
        return 0
    chosen = np.fromiter((counts_for(target, cls) for cls in view.classes), dtype=np.bool_, count=len(view.classes))
    placed = int(np.count_nonzero(chosen[view.pod_classes])) if len(view.pod_classes) else 0
    leaving = sum(counts_for(target, pod.cls) for pod in view.terminating)
    return placed - leaving + sum(pod.deleted is None and counts_for(target, pod.cls) for pod in view.pending)


def counts_for(target: ReservationTarget, cls: PodClass) -> bool:
    """Whether pods of a class use the reservations of a target up."""
    if not target.pod_selector.parts or (target.pod_namespaces and cls.namespace not in target.pod_namespaces):
        return False
    return target.pod_selector.selects(cls.labels)


def class_of(target: ReservationTarget, template: Mapping[str, Any], interner: PodInterner) -> PodClass:
    """Return the class of a target's fake pods; raises `ValueError` for a template that is none."""
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
    """Return `count` fake pods of a target; each keeps its name in every pass, and so its node."""
    return tuple(
        Pod(name=f"reservation-{target.name}-{number}", cls=cls, uid=f"reservation/{target.name}/{number}")
        for number in range(count)
    )
