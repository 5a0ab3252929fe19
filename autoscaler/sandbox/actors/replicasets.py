"""ReplicaSets and ReplicationControllers: keep the requested number of pods."""

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.replicas import PodController, delete_pod, deletion_order, pod_for, report
from autoscaler.sandbox.actors.wire import (
    is_active,
    is_ready,
    is_terminating,
    uid_of,
)
from autoscaler.sandbox.apiserver.records import Key


class ReplicaSets(PodController):
    """The controller of one of the two kinds. Pods that match but have no owner are not adopted."""

    def _sync(self, key: Key, _now: Instant) -> None:
        owner = self._owners.objects.get(key)
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
