"""Deployments: one ReplicaSet per pod template, and the roll from the old ones to the new one."""

from collections.abc import Iterable

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.event_recorder import Recorder
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.replicas import log_refusals, report, scaled, template_hash
from autoscaler.sandbox.actors.wire import (
    condition,
    controller_keys,
    controller_of,
    controller_uid,
    is_terminating,
    key_of,
    new_condition,
    owner_reference,
    uid_of,
)
from autoscaler.sandbox.actors.workqueue import QueueActor, WorkQueue
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage

_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_SETS = "replicasets.apps"
_DEPLOYMENTS = "deployments.apps"


class _Bounds(msgspec.Struct, frozen=True):
    """How many pods there may be at most and must be available at least during a roll."""

    max_pods: int
    min_available: int


class Deployments(QueueActor[Key]):
    """The Deployment controller. Proportional scaling, minReadySeconds and the progress deadline are left out."""

    def __init__(self, storage: Storage, informers: SharedInformers, recorder: Recorder) -> None:
        self._storage = storage
        self._deployments = informers.informer(_DEPLOYMENTS)
        self._sets = informers.informer(_SETS)
        self._owned = self._sets.index(controller_uid)
        self._pods = informers.informer("pods").index(controller_uid)
        self._queue = WorkQueue(log_refusals(self._deployments, recorder))
        self._deployments.subscribe(self._deployment_changed)
        self._sets.subscribe(self._set_changed)
        informers.informer("pods").subscribe(self._pod_changed)

    def _deployment_changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))

    def _set_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        for key in controller_keys(old, new, "Deployment"):
            self._queue.add(key)

    def _pod_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        """Queue the Deployment of a pod that has ended, because a Recreate waits for its last old pod."""
        owner = controller_of(old) if new is None and old is not None else None
        if old is not None and owner is not None and owner["kind"] == "ReplicaSet":
            self._set_changed(self._sets.objects.get((key_of(old)[0], owner["name"])), None)

    def _sync(self, key: Key, now: Instant) -> None:
        deployment = self._deployments.objects.get(key)
        if deployment is None or is_terminating(deployment):
            return
        sets = [
            replica_set
            for replica_set in self._owned.of(uid_of(deployment)).values()
            if not is_terminating(replica_set)
        ]
        digest = template_hash(deployment["spec"]["template"])
        new = next(
            (replica_set for replica_set in sets if replica_set["metadata"]["labels"].get(_HASH) == digest), None
        )
        old = sorted((replica_set for replica_set in sets if replica_set is not new), key=_creation_order)
        self._report(deployment, new, sets, now)
        if deployment["spec"].get("paused"):
            self._scale_newest(deployment, sets)
        elif new is None:
            self._create(deployment, digest, old)
        elif deployment["spec"]["strategy"]["type"] == "Recreate":
            self._recreate(deployment, new, old)
        else:
            self._rolling_update(deployment, new, old)
            self._clean_up(deployment, old)

    def _create(self, deployment: JsonObject, digest: str, old: list[JsonObject]) -> None:
        """Create the ReplicaSet of a new template, with the largest size that is allowed now."""
        spec, metadata = deployment["spec"], deployment["metadata"]
        revision = 1 + max((_revision(replica_set) for replica_set in old), default=0)
        template = spec["template"]
        labels = {**((template.get("metadata") or {}).get("labels") or {}), _HASH: digest}
        selector = spec["selector"]
        bounds = _bounds(deployment)
        room = bounds.max_pods - sum(_replicas(replica_set) for replica_set in old)
        replicas = 0 if spec["strategy"]["type"] == "Recreate" and old else max(0, min(_replicas(deployment), room))
        self._storage.create(
            _SETS,
            {
                "metadata": {
                    "name": f"{metadata['name']}-{digest}",
                    "namespace": metadata["namespace"],
                    "labels": labels,
                    "annotations": {_REVISION: str(revision)},
                    "ownerReferences": [owner_reference(deployment)],
                },
                "spec": {
                    "replicas": replicas,
                    "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), _HASH: digest}},
                    "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
                },
            },
        )
        self._mark_revision(deployment, revision)

    def _rolling_update(self, deployment: JsonObject, new: JsonObject, old: list[JsonObject]) -> None:
        """Grow the new set within the surge limit, then shrink old ones while enough pods are available."""
        if _revision(new) < max((_revision(replica_set) for replica_set in old), default=0):
            self._set_newest_revision(deployment, new, old)
        desired, bounds = _replicas(deployment), _bounds(deployment)
        total = _replicas(new) + sum(_replicas(replica_set) for replica_set in old)
        size = min(desired, _replicas(new) + max(0, bounds.max_pods - total))
        if _replicas(new) != size:
            self._scale(new, size)
            return
        not_available = max(0, _replicas(new) - _available(new))
        removable = total - bounds.min_available - not_available
        if removable <= 0:
            return
        for replica_set in old:
            unavailable = min(_replicas(replica_set) - _available(replica_set), removable)
            if unavailable > 0:
                self._scale(replica_set, _replicas(replica_set) - unavailable)
                return
        removable = _available(new) + sum(_available(replica_set) for replica_set in old) - bounds.min_available
        for replica_set in old:
            removed = min(_replicas(replica_set), max(0, removable))
            if removed > 0:
                self._scale(replica_set, _replicas(replica_set) - removed)
                removable -= removed

    def _recreate(self, deployment: JsonObject, new: JsonObject, old: list[JsonObject]) -> None:
        for replica_set in old:
            self._scale(replica_set, 0)
        if not any(self._pods.of(uid_of(replica_set)) for replica_set in old):
            self._scale(new, _replicas(deployment))
            self._clean_up(deployment, old)

    def _set_newest_revision(self, deployment: JsonObject, new: JsonObject, old: list[JsonObject]) -> None:
        """A roll-back: an old template is the newest revision again."""
        revision = 1 + max(_revision(replica_set) for replica_set in old)
        patch = {"metadata": {"annotations": {_REVISION: str(revision)}}}
        self._storage.patch(_SETS, new["metadata"]["name"], patch, namespace=new["metadata"]["namespace"])
        self._mark_revision(deployment, revision)

    def _mark_revision(self, deployment: JsonObject, revision: int) -> None:
        namespace, name = key_of(deployment)
        patch = {"metadata": {"annotations": {_REVISION: str(revision)}}}
        self._storage.patch(_DEPLOYMENTS, name, patch, namespace=namespace)

    def _scale_newest(self, deployment: JsonObject, sets: list[JsonObject]) -> None:
        """While a roll is paused only the number of replicas is followed."""
        others = sum(_replicas(replica_set) for replica_set in sets)
        if sets and others != _replicas(deployment):
            newest = max(sets, key=_revision)
            self._scale(newest, max(0, _replicas(newest) + _replicas(deployment) - others))

    def _clean_up(self, deployment: JsonObject, old: list[JsonObject]) -> None:
        """Delete empty old sets beyond the history limit."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        empty = [
            replica_set
            for replica_set in old
            if not _replicas(replica_set) and not (replica_set.get("status") or {}).get("replicas")
        ]
        for replica_set in empty[: max(0, len(empty) - limit)]:
            self._storage.delete(_SETS, replica_set["metadata"]["name"], namespace=replica_set["metadata"]["namespace"])

    def _scale(self, replica_set: JsonObject, replicas: int) -> None:
        if _replicas(replica_set) != replicas:
            namespace, name = key_of(replica_set)
            self._storage.scale(_SETS, name, replicas, namespace=namespace)

    def _report(self, deployment: JsonObject, new: JsonObject | None, sets: list[JsonObject], now: Instant) -> None:
        desired = _replicas(deployment)
        total, ready, available = (_total(sets, field) for field in _COUNTS)
        updated = 0 if new is None else _total([new], "replicas")
        has_minimum, complete = available >= _bounds(deployment).min_available, updated == available == total == desired
        reason = "MinimumReplicasAvailable" if has_minimum else "MinimumReplicasUnavailable"
        message = f"Deployment {'has' if has_minimum else 'does not have'} minimum availability."
        progress = "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated"
        conditions = [
            new_condition(deployment, "Available", holds=has_minimum, reason=reason, message=message, wall=now.wall),
            new_condition(deployment, "Progressing", holds=True, reason=progress, message="", wall=now.wall),
        ]
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": available,
            "unavailableReplicas": max(0, desired - available),
            "conditions": [_updated(deployment, condition) for condition in conditions],
        }
        report(self._storage, _DEPLOYMENTS, deployment, status)


_COUNTS = ("replicas", "readyReplicas", "availableReplicas")


def _replicas(obj: JsonObject) -> int:
    return int(obj["spec"].get("replicas") or 0)


def _available(obj: JsonObject) -> int:
    return int((obj.get("status") or {}).get("availableReplicas") or 0)


def _total(sets: Iterable[JsonObject], field: str) -> int:
    return sum(int((replica_set.get("status") or {}).get(field) or 0) for replica_set in sets)


def _revision(obj: JsonObject) -> int:
    return int((obj["metadata"].get("annotations") or {}).get(_REVISION, "0"))


def _creation_order(obj: JsonObject) -> tuple[str, Key]:
    return obj["metadata"]["creationTimestamp"], key_of(obj)


def _bounds(deployment: JsonObject) -> _Bounds:
    desired, strategy = _replicas(deployment), deployment["spec"]["strategy"]
    if strategy["type"] == "Recreate":
        return _Bounds(desired, desired)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge"), desired, round_up=True, default=1)
    unavailable_allowed = scaled(rolling.get("maxUnavailable"), desired, round_up=False, default=0)
    if surge == 0 and unavailable_allowed == 0:
        unavailable_allowed = 1
    return _Bounds(desired + surge, max(0, desired - unavailable_allowed))


def _updated(deployment: JsonObject, updated: JsonObject) -> JsonObject:
    """Return the condition with `lastUpdateTime`, the time of its last change of any kind."""
    before = condition(deployment, updated["type"]) or {}
    same = {key: value for key, value in before.items() if key != "lastUpdateTime"} == updated
    since = before.get("lastUpdateTime") if same else None
    return {**updated, "lastUpdateTime": since or updated["lastTransitionTime"]}
