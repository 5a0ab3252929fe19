"""Which patch format a request is in, and what it makes of an object."""

from enum import StrEnum

from autoscaler.simulator.apiserver import jsonpatch, strategic
from autoscaler.simulator.apiserver.errors import JsonObject, bad_request, unsupported_media_type
from autoscaler.simulator.apiserver.kinds import Kind


class PatchType(StrEnum):
    """The three patch formats, by media type; server-side apply is a method of its own."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


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
        raise unsupported_media_type(patch_type)
    return strategic.strategic_merge(target, patch)


def check_identity(kind: Kind, old: JsonObject, patched: JsonObject) -> None:
    """A patch may not rename."""
    name = (patched.get("metadata") or {}).get("name")
    if name != old["metadata"]["name"]:
        raise bad_request(f"the name of the {kind.kind} in the patch ({name}) does not match the URL")
