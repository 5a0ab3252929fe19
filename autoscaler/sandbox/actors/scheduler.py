"""The default scheduler: binds pods to nodes, says why it cannot, and preempts.

It asks the same filters as the autoscaler, so that what the autoscaler expects to fit does fit. Scores are simple: the
least allocated node wins, and the name breaks ties.
"""

import math

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.ports import EventType
from autoscaler.sandbox.actors.decoded_cluster import DecodedCluster
from autoscaler.sandbox.actors.event_recorder import Recorder, subject
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

_GATED = "SchedulingGated"
_UNSCHEDULABLE = "Unschedulable"


class Scheduler:
    """Looks after the unassigned pods that name this scheduler."""

    def __init__(
        self,
        storage: Storage,
        feed: SharedInformers,
        recorder: Recorder,
        timing: Timing,
        name: str = "default-scheduler",
    ) -> None:
        self._storage = storage
        self._recorder = recorder
        self._flush_s = timing.flush_s
        self._flush_at: float | None = None
        self._name = name
        self._objects = feed.mirror("pods").objects
        self._pending = SchedulingQueue()
        self._gated: dict[Key, None] = {}
        self._picture = DecodedCluster(feed, self._node_changed, self._pod_changed, self._pending.wake)

    def due(self) -> float:
        """Monotonic second of the next step that has work."""
        if self._flush_at is None or self._gated or not self._pending.idle:
            return -math.inf
        return self._flush_at if self._pending.waits else math.inf

    def step(self, now: Instant) -> None:
        """Try every pod that is new, or for which something may have changed."""
        if self._flush_at is None or now.mono >= self._flush_at:
            self._flush_at = now.mono + self._flush_s
            self._pending.wake()
        if self._gated:
            self._report_gated(now)
        if self._pending.idle:
            return
        cycle = SchedulingCycle(self._picture.view())
        for pod in self._pending.take():
            node = cycle.find(pod)
            if node is not None:
                self._bind(pod, node)
            else:
                self._pending.park(pod)
                self._decline(pod, cycle, now)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or not _alike(old, new)):
            self._pending.wake()

    def _pod_changed(self, old: Pod | None, new: Pod | None, obj: JsonObject | None) -> None:
        if old is not None and old.node is not None and not old.finished and (new is None or new.finished):
            self._pending.wake()
        if new is None or obj is None or new.node is not None or new.finished:
            if old is not None and old.node is None:
                self._pending.drop(old.key)
                self._gated.pop((old.namespace, old.name), None)
            if new is not None and new.node is not None and (old is None or old.cls is not new.cls or not old.node):
                self._pending.wake(_minds_others)
            return
        if new.cls.scheduler_name != self._name or new.deleted is not None:
            self._pending.drop(new.key)
        elif obj["spec"].get("schedulingGates"):
            if not _is_waiting(obj, _GATED):
                self._gated[new.namespace, new.name] = None
        elif old is None or old.cls is not new.cls or old.uid != new.uid or not self._pending.knows(new.key):
            self._pending.put(new)
        else:
            self._pending.refresh(new)

    def _bind(self, pod: Pod, node: str) -> None:
        try:
            self._storage.bind(pod.name, node, namespace=pod.namespace)
        except ApiError:
            # Bound, deleted or changed by somebody else a moment ago: the feed will tell, or the next flush tries.
            self._pending.park(pod)
            return
        message = f"Successfully assigned {pod.key} to {node}"
        self._tell(pod, EventType.NORMAL, "Scheduled", message)

    def _decline(self, pod: Pod, cycle: SchedulingCycle, now: Instant) -> None:
        """Say that the pod fits nowhere, and make room for it where less important pods are in its place."""
        message = cycle.why_not(pod)
        self._tell(pod, EventType.WARNING, "FailedScheduling", message)
        found = cycle.preempt(pod)
        if found is not None:
            self._evict(pod, found, now)
        obj = self._objects.get((pod.namespace, pod.name))
        if obj is not None and (found is not None or not _is_waiting(obj, _UNSCHEDULABLE, message)):
            self._report(obj, _UNSCHEDULABLE, message, now, found.node if found is not None else None)

    def _evict(self, pod: Pod, found: Preemption, now: Instant) -> None:
        for victim in found.victims:
            obj = self._objects.get((victim.namespace, victim.name))
            if obj is None or victim.deleted is not None:
                continue
            words = f"{self._name}: preempting to accommodate a higher priority pod"
            target = new_condition(
                obj, "DisruptionTarget", holds=True, reason="PreemptionByScheduler", message=words, wall=now.wall
            )
            self._patch(obj, {"conditions": [target]})
            delete_pod(self._storage, obj)
            self._tell(victim, EventType.NORMAL, "Preempted", f"Preempted by pod {pod.uid} on node {found.node}")

    def _report_gated(self, now: Instant) -> None:
        for key in self._gated:
            obj = self._objects.get(key)
            if obj is not None:
                words = "Scheduling is blocked due to non-empty scheduling gates"
                self._report(obj, _GATED, words, now, None)
        self._gated.clear()

    def _report(self, obj: JsonObject, reason: str, message: str, now: Instant, nominated: str | None) -> None:
        made = new_condition(obj, "PodScheduled", holds=False, reason=reason, message=message, wall=now.wall)
        status: JsonObject = {"conditions": [{**made, "lastProbeTime": None}]}
        if nominated is not None:
            status["nominatedNodeName"] = nominated
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

    def _tell(self, pod: Pod, kind: EventType, reason: str, message: str) -> None:
        obj = self._objects.get((pod.namespace, pod.name))
        if obj is not None:
            self._recorder.event(subject(obj), kind, reason, message)


def _alike(old: Node, new: Node) -> bool:
    """Whether nothing differs that could make a pod fit."""
    return (old.unschedulable, old.taints, old.labels, old.allocatable) == (
        new.unschedulable,
        new.taints,
        new.labels,
        new.allocatable,
    )


def _minds_others(cls: PodClass) -> bool:
    """Whether a pod that was placed elsewhere can make room for such pods."""
    return bool(cls.pod_affinity or cls.spread)


def _is_waiting(obj: JsonObject, reason: str, message: str | None = None) -> bool:
    """Whether the pod already says that it is not scheduled, for this reason."""
    found = condition(obj, "PodScheduled")
    if found is None or (found.get("status"), found.get("reason")) != ("False", reason):
        return False
    return message is None or found.get("message") == message
