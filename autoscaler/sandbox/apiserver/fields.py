"""Known fields of each kind: drops others, and reports them as `fieldValidation` requests.

`fields.json` holds them, type by type, as the OpenAPI documents of the release that the sandbox claims to be: each
field leads to the type of its value, or of the items where it is a list; free forms and scalars lead nowhere.
"""

import functools
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import msgspec

from autoscaler.sandbox.apiserver.errors import bad_request
from autoscaler.sandbox.apiserver.http_messages import JSON, ApiRequest
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.patch import PatchType

_MODES = ("Ignore", "Warn", "Strict")
_PATCHES = (PatchType.MERGE, PatchType.STRATEGIC)
_GROUPS = ("", "apps", "batch", "coordination.k8s.io", "policy", "scheduling.k8s.io", "storage.k8s.io")


@functools.cache
def _types() -> Mapping[str, Mapping[str, str]]:
    data = resources.files(__package__).joinpath("fields.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, dict[str, str]])


def known(kind: Kind, request: ApiRequest) -> tuple[ApiRequest, list[str]]:
    """Return the request without fields that the kind does not have, and what to warn of.

    Raises ApiError 400 for a body that is no object, and where the client is strict.
    """
    mode = request.query.get("fieldValidation") or "Warn"
    if mode not in _MODES:
        raise bad_request(f"fieldValidation: Unsupported value: {mode!r}: supported values: {', '.join(_MODES)}")
    is_patch = request.method == "PATCH"
    if kind.custom or kind.group not in _GROUPS or kind.kind not in _types():
        return request, []
    if is_patch and request.media_type not in _PATCHES:
        return request, []
    body = request.decoded(kind.kind)
    unknown = [f'unknown field "{path}"' for path in _dropped(body, kind.kind, "")]
    if not unknown:
        return request, []
    if mode == "Strict":
        head = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        raise bad_request(f"{head}strict decoding error: {', '.join(unknown)}")
    warnings = [_header(text) for text in unknown] if mode == "Warn" else []
    media_type = request.media_type if is_patch else JSON
    return msgspec.structs.replace(request, body=msgspec.json.encode(body), content_type=media_type), warnings


def _dropped(value: Any, name: str, path: str) -> Iterator[str]:
    """Drop what the type does not have, in place; yields where it was."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _dropped(item, name, f"{path}[{position}]")
        return
    fields = _types().get(name)
    if fields is None or not isinstance(value, dict):
        return
    for field in list(value):
        field_path = f"{path}.{field}" if path else field
        if field in fields:
            yield from _dropped(value[field], fields[field], field_path)
        elif not field.startswith("$"):  # directives of strategic merge patches
            del value[field]
            yield field_path


def _header(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
