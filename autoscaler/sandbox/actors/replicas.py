"""Shared code of workload controllers: creating pods from a template, identifying them, reporting status."""

import zlib
from collections.abc import Callable, Iterable, Mapping

import msgspec

from autoscaler.objects.meta import JsonObject, integer
from autoscaler.objects.pod import DELETION_COST
from autoscaler.ports import EventType
from autoscaler.sandbox.actors.event_recorder import Recorder, subject
from autoscaler.sandbox.actors.informers import Informer, SharedInformers
from autoscaler.sandbox.actors.wire import (
    controller_keys,
    controller_uid,
    is_ready,
    key_of,
    node_of,
    owner_reference,
    phase_of,
    uid_of,
)
from autoscaler.sandbox.actors.workqueue import QueueActor, WorkQueue
from autoscaler.sandbox.apiserver.deletion import DeleteOptions
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_ENCODER = msgspec.json.Encoder(order="deterministic")


def template_hash(template: JsonObject) -> str:
    """A short name for a pod template: equal templates have equal ones."""
    number = zlib.crc32(_ENCODER.encode(template))
    letters = []
    for _ in range(7):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


def pod_for(
    owner: JsonObject, template: JsonObject, *, name: str | None = None, labels: Mapping[str, str] | None = None
) -> JsonObject:
    """A pod of this owner; without a name the server chooses one that starts with the owner's."""
    template_metadata = template.get("metadata") or {}
    metadata: JsonObject = {
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(template_metadata.get("labels") or {}), **(labels or {})},
        "annotations": dict(template_metadata.get("annotations") or {}),
        "ownerReferences": [owner_reference(owner)],
    }
    if template_metadata.get("finalizers"):
        metadata["finalizers"] = template_metadata["finalizers"]
    named = {"name": name} if name is not None else {"generateName": f"{owner['metadata']['name']}-"}
    return {"metadata": {**metadata, **named}, "spec": template["spec"]}


def delete_pod(storage: Storage, pod: JsonObject) -> None:
    """Delete the pod gracefully; succeeds if it no longer exists."""
    namespace, name = key_of(pod)
    try:
        storage.delete("pods", name, namespace=namespace, options=DeleteOptions(uid=uid_of(pod)))
    except ApiError as error:
        if error.code not in (404, 409):
            raise


def deletion_order(pods: Iterable[JsonObject]) -> list[JsonObject]:
    """Sort pods as the ReplicaSet controller deletes them: unassigned, pending, unready, cheap, then the youngest."""
    phases = {"Pending": 0, "Unknown": 1, "Running": 2}

    def rank(pod: JsonObject) -> tuple[bool, int, bool, int]:
        cost = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
        assigned, phase = node_of(pod) is not None, phases.get(phase_of(pod), 2)
        return assigned, phase, is_ready(pod), integer(cost) or 0

    youngest_first = sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], key_of(pod)), reverse=True)
    return sorted(youngest_first, key=rank)


def report(storage: Storage, resource: str, obj: JsonObject, status: JsonObject) -> None:
    """Set these fields of the status if they differ."""
    present = obj.get("status") or {}
    changed = {field: value for field, value in status.items() if present.get(field) != value}
    if changed:
        namespace, name = key_of(obj)
        patch = {"metadata": {"uid": uid_of(obj)}, "status": changed}
        storage.patch(resource, name, patch, namespace=namespace, subresource="status")


def scaled(value: int | str | None, total: int, *, round_up: bool, default: int) -> int:
    """A number, or a percentage of `total`."""
    if value is None:
        return default
    if isinstance(value, int):
        return value
    percent = int(value.rstrip("%"))
    return -(-total * percent // 100) if round_up else total * percent // 100


class PodController(QueueActor[Key]):
    """The controller of a kind whose objects own pods: works on those that changed, or whose pods did."""

    def __init__(self, storage: Storage, informers: SharedInformers, recorder: Recorder, resource: str) -> None:
        self._storage = storage
        self._resource = resource
        self._kind = storage.kind(resource).kind
        self._owners = informers.informer(resource)
        self._owned = informers.informer("pods").index(controller_uid)
        self._queue = WorkQueue(log_refusals(self._owners, recorder))
        self._owners.subscribe(self._owner_changed)
        informers.informer("pods").subscribe(self._pod_changed)

    def _owner_changed(self, _old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))

    def _pod_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        for key in controller_keys(old, new, self._kind):
            self._queue.add(key)


def log_refusals(informer: Informer, recorder: Recorder) -> Callable[[Key, ApiError], None]:
    """Report by an event on the owner why its objects cannot be created."""

    def report_error(key: Key, error: ApiError) -> None:
        owner = informer.objects.get(key)
        if owner is not None:
            recorder.event(subject(owner), EventType.WARNING, "FailedCreate", f"Error creating: {error.message}")

    return report_error
