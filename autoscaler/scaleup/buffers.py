"""CapacityBuffers: the fake pods that keep their room and take part in a pass like pending pods.

They are made from statuses, which `scaleup.buffer_specs` makes from specs. Source: Cluster Autoscaler's
`processors/capacitybuffer`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.objects.capacity import (
    ACTIVE_CAPACITY,
    CapacityBuffer,
    LocalRef,
    StatusCondition,
    StoredTemplate,
)
from autoscaler.objects.pod import SAFE_TO_EVICT, SIMULATED, Pod, Unscheduled
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.reasons import BufferReason
from autoscaler.scaleup.fake_pods import BUFFER_KIND, class_of_fake_pods, stands_for
from autoscaler.scaleup.status_change import StatusChange, change_of, condition

READY = "ReadyForProvisioning"
PROVISIONING = "Provisioning"
LIMITED = "LimitedByQuotas"
_FAKE = {"podType": SIMULATED["podType"], SAFE_TO_EVICT: "true"}


def condition_of(
    buffer: CapacityBuffer, kind: str, status: str, reason: BufferReason, message: str, now: Instant
) -> StatusCondition:
    """Return a condition; where it says nothing new its time stays."""
    made = condition(kind, status, reason, message, now.wall, buffer.metadata.generation)
    before = buffer.condition(kind)
    if before is not None and before.status == status:
        made = replace(made, last_transition_time=before.last_transition_time)
    return made


def if_new(buffer: CapacityBuffer, change: StatusChange) -> StatusChange | None:
    """Return the change of a buffer's status; None where the status says it already."""
    status = msgspec.to_builtins(buffer.status)
    shown = all(buffer.condition(wanted.type) == wanted for wanted in change.conditions)
    return None if shown and all(status.get(name) == value for name, value in change.fields.items()) else change


class FilledBuffer(msgspec.Struct, frozen=True):
    """The fake pods of a buffer, and the change of its status where there is one."""

    pods: tuple[Pod, ...] = ()
    change: StatusChange | None = None


def filled(
    buffer: CapacityBuffer, templates: Mapping[str, StoredTemplate], interner: PodInterner, now: Instant
) -> FilledBuffer:
    """Return the pods that keep a buffer's room, as its status has them; none for another strategy."""
    if buffer.status.provisioning_strategy != ACTIVE_CAPACITY:
        return FilledBuffer()
    try:
        pods = tuple(_pods_of(buffer, templates, interner))
        condition = condition_of(buffer, PROVISIONING, "True", BufferReason.INJECTED, "pods take part in scale-up", now)
    except _Unfilled as unfilled:
        pods = ()
        condition = condition_of(buffer, PROVISIONING, "False", unfilled.reason, str(unfilled), now)
    return FilledBuffer(pods, if_new(buffer, change_of(buffer, condition)))


class BufferRoom(msgspec.Struct, frozen=True):
    """For how many pods of all CapacityBuffers there is room."""

    ready: int = 0
    """Pods that fit on ready nodes."""
    missing: int = 0
    """The others: their nodes are on their way, or cannot be had."""


def ready_replicas(pods: Iterable[Pod], places: Callable[[Pod], str | None], ready: Collection[str]) -> Counter[str]:
    """Return how many fake pods have their place on one of the ready nodes, given by name; by uid of their buffer."""
    found: Counter[str] = Counter()
    for pod in pods:
        if pod.cls.owner is not None and stands_for(BUFFER_KIND, pod):
            found[pod.cls.owner.uid] += places(pod) in ready
    return found


class _Unfilled(Exception):
    def __init__(self, reason: BufferReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def _pods_of(buffer: CapacityBuffer, templates: Mapping[str, StoredTemplate], interner: PodInterner) -> Iterator[Pod]:
    status, ready = buffer.status, buffer.condition(READY)
    ref: LocalRef | None = status.pod_template_ref
    if ref is None or status.replicas is None or ready is None or ready.status != "True":
        raise _Unfilled(BufferReason.NOT_READY, "CapacityBuffer is not ready for provisioning")
    if status.replicas <= 0:
        raise _Unfilled(BufferReason.EMPTY, "CapacityBuffer has zero replicas")
    stored = templates.get(f"{buffer.namespace}/{ref.name}")
    if stored is None:
        raise _Unfilled(BufferReason.NO_TEMPLATE, f"there is no PodTemplate {ref.name}")
    try:
        cls = class_of_fake_pods(f"capacity-buffer-{buffer.name}", buffer, BUFFER_KIND, stored, _FAKE, interner)
    except ValueError as error:
        raise _Unfilled(BufferReason.NO_PODS, f"PodTemplate {ref.name}: {error}") from error
    for index in range(1, status.replicas + 1):
        yield Pod(
            name=f"capacity-buffer-{buffer.name}-{index}",
            cls=cls,
            uid=f"{buffer.uid}-{index}",
            unscheduled=Unscheduled("Unschedulable", None),
        )
