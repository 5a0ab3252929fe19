"""Helpers on API objects in their wire form (plain dicts)."""

from collections.abc import Iterator

from autoscaler.objects.meta import JsonObject, rfc3339
from autoscaler.sandbox.apiserver.records import Key


def key_of(obj: JsonObject) -> Key:
    """Namespace (empty for cluster-scoped kinds) and name."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def uid_of(obj: JsonObject) -> str:
    """The uid."""
    return str(obj["metadata"]["uid"])


def spec_of(obj: JsonObject) -> JsonObject:
    """The spec, which clients may leave out of some kinds."""
    return obj.get("spec") or {}


def controller_of(obj: JsonObject) -> JsonObject | None:
    """The owner reference of the controller."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def controller_uid(obj: JsonObject) -> str | None:
    """Uid of the controller."""
    owner = controller_of(obj)
    return None if owner is None else str(owner["uid"])


def controller_keys(old: JsonObject | None, new: JsonObject | None, kind: str) -> Iterator[Key]:
    """Yield the keys of the controllers of this kind that an object had before a change and has after it."""
    for obj in (old, new):
        owner = None if obj is None else controller_of(obj)
        if obj is not None and owner is not None and owner["kind"] == kind:
            yield key_of(obj)[0], owner["name"]


def owner_reference(owner: JsonObject) -> JsonObject:
    """The reference that makes `owner` the controller of an object."""
    metadata = owner["metadata"]
    identity = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {**identity, "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}


def node_of(pod: JsonObject) -> str | None:
    """Name of the node that the pod is bound to."""
    return pod["spec"].get("nodeName") or None


def phase_of(pod: JsonObject) -> str:
    """The pod's phase."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminating(obj: JsonObject) -> bool:
    """Whether its deletion has begun."""
    return obj["metadata"].get("deletionTimestamp") is not None


def is_finished(pod: JsonObject) -> bool:
    """Whether its containers have ended for good."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: JsonObject) -> bool:
    """Whether it counts as a replica: neither finished nor going."""
    return not is_finished(pod) and not is_terminating(pod)


def condition(obj: JsonObject, kind: str) -> JsonObject | None:
    """The status condition of this type."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry.get("type") == kind), None)


def holds(obj: JsonObject, kind: str) -> bool:
    """Whether the status condition of this type is True."""
    entry = condition(obj, kind)
    return entry is not None and entry.get("status") == "True"


def is_silent(node: JsonObject) -> bool:
    """Whether the node's kubelet reports no more; one that has not reported yet is not silent."""
    ready = condition(node, "Ready")
    return ready is not None and ready["status"] == "Unknown"


def is_ready(pod: JsonObject) -> bool:
    """Whether it serves."""
    return holds(pod, "Ready")


def new_condition(
    obj: JsonObject, kind: str, *, holds: bool | None, reason: str, message: str, wall: float
) -> JsonObject:
    """A status condition as of `wall` (Unix seconds); `holds` None means Unknown.

    The transition time of the present one stays unless the status changes, as API conventions ask.
    """
    status = "Unknown" if holds is None else str(holds)
    before = condition(obj, kind)
    same = before is not None and before.get("status") == status
    since = before.get("lastTransitionTime") if before is not None and same else rfc3339(wall)
    changed = {"type": kind, "status": status, "lastTransitionTime": since}
    return {**changed, **({"reason": reason} if reason else {}), **({"message": message} if message else {})}
