"""The default scheduler: binds pods to nodes, reports why it cannot, and preempts.

It uses the same filters as the autoscaler, so that the expectations of the autoscaler hold. Scores are simple: the
least allocated node wins, and the name breaks ties.
"""

import math
from collections.abc import Sequence

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.ports import EventType
from autoscaler.sandbox.actors.claim_binder import ClaimBinder
from autoscaler.sandbox.actors.decoded_cluster import DecodedCluster
from autoscaler.sandbox.actors.event_recorder import Recorder, subject
from autoscaler.sandbox.actors.gangs import GangToPlace, gangs_among
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.preemption import Preemption
from autoscaler.sandbox.actors.replicas import delete_pod
from autoscaler.sandbox.actors.scheduling_cycle import SchedulingCycle
from autoscaler.sandbox.actors.scheduling_queue import SchedulingQueue
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.actors.wire import condition, new_condition
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.scheduling.device_allocation import Chosen

_GATED = "SchedulingGated"
_UNSCHEDULABLE = "Unschedulable"


class Scheduler:
    """Schedules the unassigned pods that name this scheduler."""

    def __init__(
        self,
        storage: Storage,
        informers: SharedInformers,
        recorder: Recorder,
        timing: Timing,
        name: str = "default-scheduler",
    ) -> None:
        self._storage = storage
        self._recorder = recorder
        self._flush_s = timing.flush_s
        self._flush_at: float | None = None
        self._name = name
        self._objects = informers.informer("pods").objects
        self._claims = ClaimBinder(storage, informers)
        self._pending = SchedulingQueue()
        self._gated: dict[Key, None] = {}
        self._cluster = DecodedCluster(informers, self._node_changed, self._pod_changed, self._pending.activate)

    def due(self) -> float:
        """Monotonic second of the next step that has work."""
        if self._flush_at is None or self._gated or not self._pending.idle:
            return -math.inf
        return self._flush_at if self._pending.has_unschedulable else math.inf

    def step(self, now: Instant) -> None:
        """Try every pod that is new, or for which something may have changed."""
        if self._flush_at is None or now.mono >= self._flush_at:
            self._flush_at = now.mono + self._flush_s
            self._pending.activate()
        if self._gated:
            self._report_gated(now)
        if self._pending.idle:
            return
        view, pods = self._cluster.view(), self._pending.pop_all()
        cycle, gangs = SchedulingCycle(view), gangs_among(pods, view)
        for pod in pods:
            gang = gangs.get(pod.cls.gang.key) if pod.cls.gang is not None else None
            if gang is not None:
                if pod is gang.pods[0]:
                    self._schedule_together(gang, cycle, now)
                continue
            node = cycle.find(pod)
            if node is not None:
                self._bind(pod, node, cycle.granted)
            else:
                self._pending.add_unschedulable(pod)
                self._handle_failure(pod, cycle, now)

    def _schedule_together(self, gang: GangToPlace, cycle: SchedulingCycle, now: Instant) -> None:
        """Bind enough pods of a gang for it to start, or none; they preempt nobody."""
        places = cycle.find_together(gang)
        message = f"gang {gang.name}: too few of its pods find a node, {gang.wanted} have to"
        for pod in gang.pods:
            if pod.key in places:
                self._bind(pod, *places[pod.key])
                continue
            self._pending.add_unschedulable(pod)
            self._record_event(pod, EventType.WARNING, "FailedScheduling", message)
            obj = self._objects.get((pod.namespace, pod.name))
            if obj is not None and not _is_waiting(obj, _UNSCHEDULABLE, message):
                self._report(obj, _UNSCHEDULABLE, message, now, None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or not _schedules_alike(old, new)):
            self._pending.activate()

    def _pod_changed(self, old: Pod | None, new: Pod | None, obj: JsonObject | None) -> None:
        if old is not None and old.node is not None and not old.finished and (new is None or new.finished):
            self._pending.activate()
        if new is None or obj is None or new.node is not None or new.finished:
            if old is not None and old.node is None:
                self._pending.delete(old.key)
                self._gated.pop((old.namespace, old.name), None)
            if new is not None and new.node is not None and (old is None or old.cls is not new.cls or not old.node):
                self._pending.activate(_depends_on_other_pods)
            return
        if new.cls.scheduler_name != self._name or new.deleted is not None:
            self._pending.delete(new.key)
        elif obj["spec"].get("schedulingGates"):
            if not _is_waiting(obj, _GATED):
                self._gated[new.namespace, new.name] = None
        elif old is None or old.cls is not new.cls or old.uid != new.uid or not self._pending.has(new.key):
            self._pending.add(new)
            if (gang := new.cls.gang) is not None:
                self._pending.activate(lambda cls: cls.gang is not None and cls.gang.key == gang.key)
        else:
            self._pending.update(new)

    def _bind(self, pod: Pod, node: str, granted: Sequence[tuple[str, Chosen]]) -> None:
        try:
            self._claims.reserve(pod, node, granted)
            self._storage.bind(pod.name, node, namespace=pod.namespace)
        except ApiError:
            # Another client bound, deleted or changed the pod: the feed will report it, or the next flush tries again.
            self._pending.add_unschedulable(pod)
            return
        message = f"Successfully assigned {pod.key} to {node}"
        self._record_event(pod, EventType.NORMAL, "Scheduled", message)

    def _handle_failure(self, pod: Pod, cycle: SchedulingCycle, now: Instant) -> None:
        """Report that the pod fits no node, and preempt less important pods if that makes room."""
        message = cycle.fit_error(pod)
        self._record_event(pod, EventType.WARNING, "FailedScheduling", message)
        preemption = cycle.preempt(pod)
        if preemption is not None:
            self._evict(pod, preemption, now)
        obj = self._objects.get((pod.namespace, pod.name))
        if obj is not None and (preemption is not None or not _is_waiting(obj, _UNSCHEDULABLE, message)):
            self._report(obj, _UNSCHEDULABLE, message, now, preemption.node if preemption is not None else None)

    def _evict(self, pod: Pod, preemption: Preemption, now: Instant) -> None:
        for victim in preemption.victims:
            obj = self._objects.get((victim.namespace, victim.name))
            if obj is None or victim.deleted is not None:
                continue
            message = f"{self._name}: preempting to accommodate a higher priority pod"
            target = new_condition(
                obj, "DisruptionTarget", holds=True, reason="PreemptionByScheduler", message=message, wall=now.wall
            )
            self._patch(obj, {"conditions": [target]})
            delete_pod(self._storage, obj)
            self._record_event(
                victim, EventType.NORMAL, "Preempted", f"Preempted by pod {pod.uid} on node {preemption.node}"
            )

    def _report_gated(self, now: Instant) -> None:
        for key in self._gated:
            obj = self._objects.get(key)
            if obj is not None:
                message = "Scheduling is blocked due to non-empty scheduling gates"
                self._report(obj, _GATED, message, now, None)
        self._gated.clear()

    def _report(self, obj: JsonObject, reason: str, message: str, now: Instant, nominated_node: str | None) -> None:
        scheduled = new_condition(obj, "PodScheduled", holds=False, reason=reason, message=message, wall=now.wall)
        status: JsonObject = {"conditions": [{**scheduled, "lastProbeTime": None}]}
        if nominated_node is not None:
            status["nominatedNodeName"] = nominated_node
        self._patch(obj, status)

    def _patch(self, obj: JsonObject, status: JsonObject) -> None:
        metadata = obj["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        strategic = PatchType.STRATEGIC
        try:
            self._storage.patch(
                "pods",
                metadata["name"],
                patch,
                namespace=metadata["namespace"],
                patch_type=strategic,
                subresource="status",
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def _record_event(self, pod: Pod, kind: EventType, reason: str, message: str) -> None:
        obj = self._objects.get((pod.namespace, pod.name))
        if obj is not None:
            self._recorder.event(subject(obj), kind, reason, message)


def _schedules_alike(old: Node, new: Node) -> bool:
    """Whether the nodes are equal in everything that could make a pod fit."""
    return (old.unschedulable, old.taints, old.labels, old.allocatable) == (
        new.unschedulable,
        new.taints,
        new.labels,
        new.allocatable,
    )


def _depends_on_other_pods(cls: PodClass) -> bool:
    """Whether a pod that was placed elsewhere can make room for such pods."""
    return bool(cls.pod_affinity or cls.spread)


def _is_waiting(obj: JsonObject, reason: str, message: str | None = None) -> bool:
    """Whether the pod's status already has this reason for not being scheduled."""
    scheduled = condition(obj, "PodScheduled")
    if scheduled is None or (scheduled.get("status"), scheduled.get("reason")) != ("False", reason):
        return False
    return message is None or scheduled.get("message") == message
