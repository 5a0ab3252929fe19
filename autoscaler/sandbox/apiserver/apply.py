"""Server-side apply, simplified: a manager's configuration is merged in, and what it applied before and dropped goes.

Real servers keep the ownership of each field in managedFields and refuse to take a field from another manager; here the
last configuration per manager is remembered beside the objects and the last writer wins.
"""

from typing import Any

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.jsonpatch import merge_patch
from autoscaler.sandbox.apiserver.strategic import merge_key, strategic_merge


def applied(live: JsonObject, config: JsonObject, before: JsonObject | None, *, custom: bool) -> JsonObject:
    """Return `live` with `config` merged in and the fields gone that `before` had and `config` lacks."""
    patch = _with_removals(before, config, "", custom) if before is not None else config
    merged: JsonObject = merge_patch(live, patch) if custom else strategic_merge(live, patch)
    return merged


def _with_removals(before: JsonObject, config: JsonObject, parent: str, custom: bool) -> JsonObject:
    patch: JsonObject = {key: None for key in before if key not in config}
    for key, value in config.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            patch[key] = _with_removals(old, value, key, custom)
        elif isinstance(value, list) and isinstance(old, list) and not custom:
            patch[key] = _list_with_removals(old, value, parent, key)
        else:
            patch[key] = value
    return patch


def _list_with_removals(before: list[Any], config: list[Any], parent: str, field: str) -> list[Any]:
    by = merge_key(parent, field)
    if by is None:
        return config
    old = {element[by]: element for element in before}
    kept = [
        _with_removals(old[element[by]], element, field, False) if element[by] in old else element for element in config
    ]
    names = {element[by] for element in config}
    return kept + [{by: name, "$patch": "delete"} for name in old if name not in names]
