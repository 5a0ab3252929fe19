"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386)."""

import copy
from typing import Any

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import ApiError, bad_request
from cloudprovider.number import parse_count
from cloudprovider.quoted import quoted


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with the merge patch applied; null deletes, lists are replaced whole."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: JsonObject, operations: Any) -> JsonObject:
    """Return a changed copy of `target`; raises ApiError 400 (malformed patch) or 422 (it does not apply)."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch must be a list of operations")
    document: Any = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _apply(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            message = "the server rejected our request due to an error in our request"
            raise ApiError(422, "Invalid", message, {}) from error
    result: JsonObject = document
    return result


def _apply(document: Any, operation: JsonObject) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            return _add(document, path, copy.deepcopy(operation["value"]))
        case "replace":
            _get(document, path)
            return _set(document, path, copy.deepcopy(operation["value"]))
        case "remove":
            return _remove(document, path)
        case "test":
            if _get(document, path) != operation["value"]:
                raise ValueError("testing value failed")
            return document
        case "copy":
            return _add(document, path, copy.deepcopy(_get(document, _pointer(operation["from"]))))
        case "move":
            source = _pointer(operation["from"])
            value = _get(document, source)
            return _add(_remove(document, source), path, value)
    raise ValueError(f"unknown operation {operation['op']!r}")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"not a JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[_index(document, part)] if isinstance(document, list) else document[part]
    return document


def _index(items: list[Any], part: str) -> int:
    if (index := parse_count(part)) is None:
        raise ValueError(f"not a list index: {quoted(part)}")
    return index


def _set(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    parent[_index(parent, path[-1]) if isinstance(parent, list) else path[-1]] = value
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    parent = _get(document, path[:-1]) if path else None
    if not isinstance(parent, list):
        return _set(document, path, value)
    index = len(parent) if path[-1] == "-" else _index(parent, path[-1])
    if index > len(parent):
        raise IndexError(f"index {index} is past the end")
    parent.insert(index, value)
    return document


def _remove(document: Any, path: list[str]) -> Any:
    parent = _get(document, path[:-1])
    del parent[_index(parent, path[-1]) if isinstance(parent, list) else path[-1]]
    return document
