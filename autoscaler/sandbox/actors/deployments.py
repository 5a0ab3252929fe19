"""Deployments: one ReplicaSet per pod template, and the roll from the old ones to the new one."""

from collections.abc import Iterable

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.event_recorder import Recorder
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.replicas import refusals, report, scaled, template_hash
from autoscaler.sandbox.actors.wire import (
    condition,
    controller_of,
    controller_uid,
    is_terminating,
    key_of,
    new_condition,
    owner_reference,
    uid_of,
)
from autoscaler.sandbox.actors.workqueue import WorkQueue
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage

_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_SETS = "replicasets.apps"
_DEPLOYMENTS = "deployments.apps"


class _Bounds(msgspec.Struct, frozen=True):
    """How many pods there may be at most and must be available at least during a roll."""

    most: int
    least: int


class Deployments:
    """The Deployment controller. Proportional scaling, minReadySeconds and the progress deadline are left out."""

    def __init__(self, storage: Storage, feed: SharedInformers, recorder: Recorder) -> None:
        self._storage = storage
        self._deployments = feed.mirror(_DEPLOYMENTS)
        self._sets = feed.mirror(_SETS)
        self._owned = self._sets.index(controller_uid)
        self._pods = feed.mirror("pods").index(controller_uid)
        self._queue: WorkQueue[Key] = WorkQueue(refusals(self._deployments, recorder))
        self._deployments.subscribe(self._deployment_changed)
        self._sets.subscribe(self._set_changed)
        feed.mirror("pods").subscribe(self._pod_changed)

    def due(self) -> float:
        """Monotonic second of the next step that has work."""
        return self._queue.due

    def step(self, now: Instant) -> None:
        """Take each roll that has news one step further."""
        self._queue.work(now, self._sync)

    def _deployment_changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))

    def _set_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        for one in (old, new):
            owner = controller_of(one) if one is not None else None
            if one is not None and owner is not None and owner["kind"] == "Deployment":
                self._queue.add((key_of(one)[0], owner["name"]))

    def _pod_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        """The last old pod's end is what a Recreate waits for."""
        owner = controller_of(old) if new is None and old is not None else None
        if old is not None and owner is not None and owner["kind"] == "ReplicaSet":
            self._set_changed(self._sets.objects.get((key_of(old)[0], owner["name"])), None)

    def _sync(self, key: Key, now: Instant) -> None:
        deployment = self._deployments.objects.get(key)
        if deployment is None or is_terminating(deployment):
            return
        sets = [one for one in self._owned.of(uid_of(deployment)).values() if not is_terminating(one)]
        digest = template_hash(deployment["spec"]["template"])
        new = next(
            (replica_set for replica_set in sets if replica_set["metadata"]["labels"].get(_HASH) == digest), None
        )
        old = sorted((replica_set for replica_set in sets if replica_set is not new), key=_age)
        self._report(deployment, new, sets, now)
        if deployment["spec"].get("paused"):
            self._scale_newest(deployment, sets)
        elif new is None:
            self._create(deployment, digest, old)
        elif deployment["spec"]["strategy"]["type"] == "Recreate":
            self._recreate(deployment, new, old)
        else:
            self._roll(deployment, new, old)
            self._forget(deployment, old)

    def _create(self, deployment: JsonObject, digest: str, old: list[JsonObject]) -> None:
        """Make the ReplicaSet of a new template, as large as it may be right now."""
        spec, metadata = deployment["spec"], deployment["metadata"]
        revision = 1 + max((_revision(replica_set) for replica_set in old), default=0)
        template = spec["template"]
        labels = {**((template.get("metadata") or {}).get("labels") or {}), _HASH: digest}
        selector = spec["selector"]
        bounds = _bounds(deployment)
        room = bounds.most - sum(_wanted(replica_set) for replica_set in old)
        replicas = 0 if spec["strategy"]["type"] == "Recreate" and old else max(0, min(_wanted(deployment), room))
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

    def _roll(self, deployment: JsonObject, new: JsonObject, old: list[JsonObject]) -> None:
        """Grow the new set as far as the surge allows, then shrink old ones as far as enough pods serve."""
        if _revision(new) < max((_revision(replica_set) for replica_set in old), default=0):
            self._promote(deployment, new, old)
        wanted, bounds = _wanted(deployment), _bounds(deployment)
        total = _wanted(new) + sum(_wanted(replica_set) for replica_set in old)
        size = min(wanted, _wanted(new) + max(0, bounds.most - total))
        if _wanted(new) != size:
            self._scale(new, size)
            return
        lacking = max(0, _wanted(new) - _available(new))
        spare = total - bounds.least - lacking
        if spare <= 0:
            return
        for replica_set in old:
            useless = min(_wanted(replica_set) - _available(replica_set), spare)
            if useless > 0:
                self._scale(replica_set, _wanted(replica_set) - useless)
                return
        spare = _available(new) + sum(_available(replica_set) for replica_set in old) - bounds.least
        for replica_set in old:
            cut = min(_wanted(replica_set), max(0, spare))
            if cut > 0:
                self._scale(replica_set, _wanted(replica_set) - cut)
                spare -= cut

    def _recreate(self, deployment: JsonObject, new: JsonObject, old: list[JsonObject]) -> None:
        for replica_set in old:
            self._scale(replica_set, 0)
        if not any(self._pods.of(uid_of(replica_set)) for replica_set in old):
            self._scale(new, _wanted(deployment))
            self._forget(deployment, old)

    def _promote(self, deployment: JsonObject, new: JsonObject, old: list[JsonObject]) -> None:
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
        others = sum(_wanted(replica_set) for replica_set in sets)
        if sets and others != _wanted(deployment):
            newest = max(sets, key=_revision)
            self._scale(newest, max(0, _wanted(newest) + _wanted(deployment) - others))

    def _forget(self, deployment: JsonObject, old: list[JsonObject]) -> None:
        """Delete empty old sets beyond the history limit."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        empty = [
            replica_set
            for replica_set in old
            if not _wanted(replica_set) and not (replica_set.get("status") or {}).get("replicas")
        ]
        for replica_set in empty[: max(0, len(empty) - limit)]:
            self._storage.delete(_SETS, replica_set["metadata"]["name"], namespace=replica_set["metadata"]["namespace"])

    def _scale(self, one: JsonObject, replicas: int) -> None:
        if _wanted(one) != replicas:
            namespace, name = key_of(one)
            self._storage.scale(_SETS, name, replicas, namespace=namespace)

    def _report(self, deployment: JsonObject, new: JsonObject | None, sets: list[JsonObject], now: Instant) -> None:
        wanted = _wanted(deployment)
        total, ready, available = (_total(sets, field) for field in _COUNTS)
        updated = 0 if new is None else _total([new], "replicas")
        enough, complete = available >= _bounds(deployment).least, updated == available == total == wanted
        has = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
        words = f"Deployment {'has' if enough else 'does not have'} minimum availability."
        progress = "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated"
        conditions = [
            new_condition(deployment, "Available", holds=enough, reason=has, message=words, wall=now.wall),
            new_condition(deployment, "Progressing", holds=True, reason=progress, message="", wall=now.wall),
        ]
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": available,
            "unavailableReplicas": max(0, wanted - available),
            "conditions": [_updated(deployment, one) for one in conditions],
        }
        report(self._storage, _DEPLOYMENTS, deployment, status)


_COUNTS = ("replicas", "readyReplicas", "availableReplicas")


def _wanted(obj: JsonObject) -> int:
    return int(obj["spec"].get("replicas") or 0)


def _available(obj: JsonObject) -> int:
    return int((obj.get("status") or {}).get("availableReplicas") or 0)


def _total(sets: Iterable[JsonObject], field: str) -> int:
    return sum(int((replica_set.get("status") or {}).get(field) or 0) for replica_set in sets)


def _revision(obj: JsonObject) -> int:
    return int((obj["metadata"].get("annotations") or {}).get(_REVISION, "0"))


def _age(obj: JsonObject) -> tuple[str, Key]:
    return obj["metadata"]["creationTimestamp"], key_of(obj)


def _bounds(deployment: JsonObject) -> _Bounds:
    wanted, strategy = _wanted(deployment), deployment["spec"]["strategy"]
    if strategy["type"] == "Recreate":
        return _Bounds(wanted, wanted)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge"), wanted, round_up=True, default=1)
    missing = scaled(rolling.get("maxUnavailable"), wanted, round_up=False, default=0)
    if surge == 0 and missing == 0:
        missing = 1
    return _Bounds(wanted + surge, max(0, wanted - missing))


def _updated(deployment: JsonObject, made: JsonObject) -> JsonObject:
    """Deployment conditions also say when they last changed in any way."""
    before = condition(deployment, made["type"]) or {}
    same = {key: value for key, value in before.items() if key != "lastUpdateTime"} == made
    since = before.get("lastUpdateTime") if same else None
    return {**made, "lastUpdateTime": since or made["lastTransitionTime"]}
