"""Detects the patch format of a request and applies the patch."""

from enum import StrEnum

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver import jsonpatch, strategic
from autoscaler.sandbox.apiserver.errors import accepted, bad_request, invalid, invalid_value, unsupported_media_type
from autoscaler.sandbox.apiserver.kinds import Kind

APPLY = "application/apply-patch+yaml"


class PatchType(StrEnum):
    """The three patch formats, by media type; server-side apply is a method of its own."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


def media_types(kind: Kind) -> list[str]:
    """The media types of patches that the kind takes."""
    own = [str(patch) for patch in PatchType if not kind.custom or patch is not PatchType.STRATEGIC]
    return [*own, APPLY]


def patched(kind: Kind, target: JsonObject, patch: object, patch_type: PatchType) -> JsonObject:
    """Return the object with the patch applied; raises ApiError 400, 415 or 422."""
    if patch_type is PatchType.JSON:
        return jsonpatch.json_patch(target, patch)
    if not isinstance(patch, dict):
        raise bad_request("the patch must be an object")
    if patch_type is PatchType.MERGE:
        merged: JsonObject = jsonpatch.merge_patch(target, patch)
        return merged
    if kind.custom:
        raise unsupported_media_type(accepted(media_types(kind)))
    return strategic.strategic_merge(target, patch)


def check_identity(kind: Kind, old: JsonObject, patched: JsonObject) -> None:
    """A patch may not rename, nor change the uid: two validations of the server object to that."""
    name = (patched.get("metadata") or {}).get("name")
    if name != old["metadata"]["name"]:
        raise bad_request(f"the name of the {kind.kind} in the patch ({name}) does not match the URL")
    metadata, was = patched["metadata"], old["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != was["uid"] and version in (None, "", was["resourceVersion"]):
        raise invalid(kind, name, [invalid_value("metadata.uid", uid, "field is immutable")] * 2)
