"""Whole objects from the API server, to be read, changed and written back.

Unknown fields stay as they are. The types of the fields that we read are checked here, so callers need not check them.
A response with other types may come from a proxy or a broken server, so the read is retried.
"""

from typing import Any

import msgspec

from autoscaler.errors import RetryLater
from autoscaler.objects.lenient_json import UNREADABLE, words
from autoscaler.objects.meta import JsonObject


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    taints: list[dict[str, Any]] | None = None
    replicas: int | None = None


class _Shape(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec | None = None
    status: dict[str, Any] | None = None
    data: dict[str, str] | None = None


def json_object(body: bytes) -> JsonObject:
    """Return a JSON object; raises `RetryLater` if the response is not one."""
    try:
        return msgspec.json.decode(body, type=JsonObject)
    except UNREADABLE as error:
        raise RetryLater(f"the API server sent something that is no object: {words(error)}") from error


def json_objects(body: bytes) -> list[JsonObject]:
    """Return the JSON objects of a list; other items are left out."""
    items = json_object(body).get("items") or []
    if not isinstance(items, list):
        raise RetryLater("the API server sent something that is no list")
    return [item for item in items if isinstance(item, dict)]


def whole_object(body: bytes) -> JsonObject:
    """Return an object with metadata; raises `RetryLater` if the response is not one.

    `metadata` is a dict; `spec`, `status`, `data`, labels, annotations, taints and replicas are null, absent, or of the
    type that the API documents.
    """
    obj = json_object(body)
    if (problem := _shape_problem(obj)) is not None:
        raise RetryLater(f"the API server sent something that is no object: {problem}")
    return obj


def whole_objects(body: bytes) -> list[JsonObject]:
    """Return the objects of a list in the form of `whole_object`; other items are left out."""
    return [item for item in json_objects(body) if _shape_problem(item) is None]


def _shape_problem(value: Any) -> str | None:
    try:
        msgspec.convert(value, _Shape)
    except msgspec.ValidationError as error:
        return words(error)
    return None
