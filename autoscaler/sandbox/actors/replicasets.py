"""ReplicaSets and ReplicationControllers: keep the requested number of pods."""

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.event_recorder import Recorder
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.replicas import delete_pod, deletion_order, log_refusals, pod_for, report
from autoscaler.sandbox.actors.wire import (
    controller_keys,
    controller_uid,
    is_active,
    is_ready,
    is_terminating,
    key_of,
    uid_of,
)
from autoscaler.sandbox.actors.workqueue import WorkQueue
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage


class ReplicaSets:
    """The controller of one of the two kinds. Pods that match but have no owner are not adopted."""

    def __init__(
        self, storage: Storage, informers: SharedInformers, recorder: Recorder, resource: str = "replicasets.apps"
    ) -> None:
        self._storage = storage
        self._resource = resource
        self._kind = storage.kind(resource).kind
        self._sets = informers.informer(resource)
        self._owned = informers.informer("pods").index(controller_uid)
        self._queue: WorkQueue[Key] = WorkQueue(log_refusals(self._sets, recorder))
        self._sets.subscribe(self._set_changed)
        informers.informer("pods").subscribe(self._pod_changed)

    def due(self) -> float:
        """Monotonic second of the next step that has work."""
        return self._queue.due

    def step(self, now: Instant) -> None:
        """Create and delete pods where the count is off."""
        self._queue.process(now, self._sync)

    def _set_changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))

    def _pod_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        for key in controller_keys(old, new, self._kind):
            self._queue.add(key)

    def _sync(self, key: Key, _now: Instant) -> None:
        owner = self._sets.objects.get(key)
        if owner is None:
            return
        active = [pod for pod in self._owned.of(uid_of(owner)).values() if is_active(pod)]
        desired = int(owner["spec"].get("replicas") or 0)
        self._report(owner, active)
        if is_terminating(owner):
            return
        for pod in deletion_order(active)[: max(0, len(active) - desired)]:
            delete_pod(self._storage, pod)
        for _ in range(desired - len(active)):
            self._storage.create("pods", pod_for(owner, owner["spec"]["template"]))

    def _report(self, owner: JsonObject, active: list[JsonObject]) -> None:
        ready = sum(is_ready(pod) for pod in active)
        counts = {"replicas": len(active), "fullyLabeledReplicas": len(active), "readyReplicas": ready}
        counts |= {"availableReplicas": ready, "observedGeneration": owner["metadata"]["generation"]}
        report(self._storage, self._resource, owner, counts)
