"""StatefulSets: pods with stable names, created and deleted in order."""

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.event_recorder import Recorder
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.replicas import PodController, delete_pod, pod_for, report, template_hash
from autoscaler.sandbox.actors.wire import (
    is_finished,
    is_ready,
    is_terminating,
    uid_of,
)
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage
from cloudprovider.number import parse_count

_SETS = "statefulsets.apps"
_HASH = "controller-revision-hash"
_NAME = "statefulset.kubernetes.io/pod-name"
_INDEX = "apps.kubernetes.io/pod-index"


class StatefulSets(PodController):
    """The StatefulSet controller. Volume claim templates are left out: the sandbox provisions no volumes."""

    def __init__(self, storage: Storage, informers: SharedInformers, recorder: Recorder) -> None:
        super().__init__(storage, informers, recorder, _SETS)
        self._pods = informers.informer("pods")

    def _sync(self, key: Key, _now: Instant) -> None:
        owner = self._owners.objects.get(key)
        if owner is None or is_terminating(owner):
            return
        digest = template_hash(owner["spec"]["template"])
        pods = {_ordinal(pod): pod for pod in self._owned.of(uid_of(owner)).values()}
        self._report(owner, list(pods.values()), digest)
        for pod in pods.values():
            if is_finished(pod) and not is_terminating(pod):
                delete_pod(self._storage, pod)
        desired = int(owner["spec"].get("replicas") or 0)
        ordered = owner["spec"].get("podManagementPolicy") != "Parallel"
        if self._create_missing(owner, pods, desired, digest, ordered=ordered):
            return
        if not self._delete_surplus(pods, desired, ordered=ordered):
            self._update(owner, pods, digest)

    def _create_missing(
        self, owner: JsonObject, pods: dict[int, JsonObject], desired: int, digest: str, *, ordered: bool
    ) -> bool:
        """Create missing pods; in order, one waits until all before it serve. Return whether pods are awaited."""
        waiting = False
        for ordinal in range(desired):
            pod = pods.get(ordinal)
            if pod is not None and is_ready(pod) and not is_terminating(pod):
                continue
            waiting = True
            if pod is None:
                name = f"{owner['metadata']['name']}-{ordinal}"
                labels = {_NAME: name, _INDEX: str(ordinal), _HASH: digest}
                self._storage.create("pods", pod_for(owner, owner["spec"]["template"], name=name, labels=labels))
            if ordered:
                return True
        return waiting and not any(_outdated(pod, digest) for pod in pods.values())

    def _delete_surplus(self, pods: dict[int, JsonObject], desired: int, *, ordered: bool) -> bool:
        """Delete the highest pods first; in order, one at a time. Return whether there are too many."""
        surplus = sorted((ordinal for ordinal in pods if ordinal >= desired), reverse=True)
        for ordinal in surplus[:1] if ordered else surplus:
            if not is_terminating(pods[ordinal]):
                delete_pod(self._storage, pods[ordinal])
        return bool(surplus)

    def _update(self, owner: JsonObject, pods: dict[int, JsonObject], digest: str) -> None:
        """Delete the highest outdated pod, once all the others serve."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        for ordinal in sorted(pods, reverse=True):
            pod = pods[ordinal]
            if ordinal < partition or is_terminating(pod):
                return
            if _outdated(pod, digest):
                delete_pod(self._storage, pod)
                return

    def _report(self, owner: JsonObject, pods: list[JsonObject], digest: str) -> None:
        ready = sum(is_ready(pod) and not is_terminating(pod) for pod in pods)
        updated = sum(not _outdated(pod, digest) for pod in pods)
        revision = f"{owner['metadata']['name']}-{digest}"
        before = (owner.get("status") or {}).get("currentRevision") or revision
        status = {
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": len(pods) - updated if before != revision else updated,
            "updatedReplicas": updated,
            "currentRevision": revision if updated == len(pods) == ready else before,
            "updateRevision": revision,
            "observedGeneration": owner["metadata"]["generation"],
        }
        report(self._storage, _SETS, owner, status)


def _ordinal(pod: JsonObject) -> int:
    ordinal = parse_count(str(pod["metadata"]["name"]).rpartition("-")[2])
    return -1 if ordinal is None else ordinal


def _outdated(pod: JsonObject, digest: str) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(_HASH) != digest)
