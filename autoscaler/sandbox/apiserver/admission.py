"""Prepares a client's object for storage: identity, defaults, priority, validation; it changes no storage."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver import defaults, quantities, validation
from autoscaler.sandbox.apiserver.errors import bad_request, conflict, forbidden, invalid, stale
from autoscaler.sandbox.apiserver.kinds import Kind

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_IDENTITY = ("name", "namespace", "uid", "creationTimestamp", "generateName")
_LIFECYCLE = ("generation", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion")
_SERVER_SIDE = ("selfLink", "managedFields")

PriorityClasses = Callable[[], Iterator[JsonObject]]


def deep_copy(obj: JsonObject) -> JsonObject:
    """A deep copy by way of JSON, which is also what proves that the object is JSON."""
    copied: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


class Admission:
    """Prepares objects for storage."""

    def __init__(self, seed: int, priority_classes: PriorityClasses) -> None:
        self._random = random.Random(seed)
        self._priority_classes = priority_classes

    def new(self, kind: Kind, obj: JsonObject, namespace: str | None, now: str, serial: int) -> JsonObject:
        """Return the object as it would be stored; `serial` makes the uid. Raises ApiError 400, 403 or 422."""
        obj = _typed(kind, deep_copy(obj))
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        set_namespace(kind, metadata, namespace)
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(self._random.choices(_SUFFIX_LETTERS, k=5))
            metadata["name"] = metadata["generateName"] + suffix
        stamp(kind, obj, now, serial)
        if "status" in kind.subresources and not kind.status_on_create:
            obj.pop("status", None)
        if not metadata.get("name"):
            raise invalid(kind, "", list(validation.metadata_causes(kind.id, obj)))
        _respell(kind, obj)
        defaults.apply_defaults(kind.id, obj, creating=True)
        if kind.id == "pods":
            self._assign_priority(kind, obj)
        self._validate(kind, obj, None)
        return obj

    def changed(self, kind: Kind, old: JsonObject, obj: JsonObject, subresource: str) -> JsonObject:
        """Return the update as it would be stored; equal to `old` when nothing changes. Raises ApiError 409 or 422."""
        obj = _typed(kind, deep_copy(obj))
        metadata, current = obj["metadata"], old["metadata"]
        name = current["name"]
        if metadata.get("resourceVersion") not in (None, "", current["resourceVersion"]):
            raise stale(kind, name)
        if metadata.get("uid") not in (None, "", current["uid"]):
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {current['uid']}"
            raise conflict(kind, name, why)
        for field in (*_IDENTITY, *_LIFECYCLE):
            metadata.pop(field, None)
            if field in current:
                metadata[field] = current[field]
        obj["metadata"] = _trimmed(metadata)
        if subresource == "status":
            obj = {**old, "metadata": current if kind.custom else obj["metadata"], "status": obj.get("status")}
        elif "status" in kind.subresources:
            obj["status"] = old.get("status")
        if obj.get("status") is None:
            obj.pop("status", None)
        if not subresource:
            _respell(kind, obj)
            defaults.apply_defaults(kind.id, obj, creating=False)
        self._validate(kind, obj, old)
        if kind.generation and _desired(obj) != _desired(old):
            obj["metadata"]["generation"] = current.get("generation", 0) + 1
        return obj

    def _validate(self, kind: Kind, obj: JsonObject, old: JsonObject | None) -> None:
        causes = validation.causes(kind.id, obj, old)
        if causes:
            raise invalid(kind, str(obj["metadata"].get("name", "")), causes)

    def _assign_priority(self, kind: Kind, pod: JsonObject) -> None:
        spec, name = pod["spec"], pod["spec"].get("priorityClassName")
        chosen: JsonObject | None = None
        for priority_class in self._priority_classes():
            if priority_class["metadata"]["name"] == name or (not name and priority_class.get("globalDefault")):
                chosen = priority_class
        if name and chosen is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(kind, pod["metadata"].get("name", ""), why)
        priority = chosen["value"] if chosen is not None else 0
        if spec.get("priority") not in (None, priority):
            why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            why += f"priority admission controller computed {priority} from the given PriorityClass name"
            raise forbidden(kind, pod["metadata"].get("name", ""), why)
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
        spec["priority"] = priority
        policy = (chosen or {}).get("preemptionPolicy", "PreemptLowerPriority")
        spec.setdefault("preemptionPolicy", policy)


def set_namespace(kind: Kind, metadata: JsonObject, namespace: str | None) -> None:
    """Make the object's namespace agree with the request's, in place; raises ApiError 400."""
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.get("namespace")
    if namespace is not None and given and given != namespace:
        raise bad_request(
            f"the namespace of the provided object does not match the namespace sent on the request: {given}"
        )
    metadata["namespace"] = namespace or given or "default"


def stamp(kind: Kind, obj: JsonObject, now: str, serial: int) -> None:
    """Give a new object its identity, in place; uids count up so that simulated runs repeat."""
    metadata = obj["metadata"]
    for field in _LIFECYCLE:
        metadata.pop(field, None)
    metadata["uid"] = f"{serial >> 16 & 0xFFFFFFFF:08x}-{serial & 0xFFFF:04x}-4000-8000-{serial:012x}"
    metadata["creationTimestamp"] = now
    if kind.generation:
        metadata["generation"] = 1
    obj["metadata"] = _trimmed(metadata)


def _typed(kind: Kind, obj: JsonObject) -> JsonObject:
    given = (obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind)
    if given != (kind.api_version, kind.kind):
        group_version, name = given
        raise bad_request(
            f"the API version in the data ({group_version}, kind {name}) does not match the expected API version "
            f"({kind.api_version}, kind {kind.kind})"
        )
    metadata = obj.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}


def _trimmed(metadata: JsonObject) -> JsonObject:
    """Without empty collections and what this server does not keep."""
    return {
        key: value for key, value in metadata.items() if value not in (None, {}, [], "") and key not in _SERVER_SIDE
    }


def _respell(kind: Kind, obj: JsonObject) -> None:
    if not kind.custom and kind.id != "csinodes.storage.k8s.io":  # whose amounts are plain numbers
        quantities.respell(obj)


def _desired(obj: JsonObject) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}
