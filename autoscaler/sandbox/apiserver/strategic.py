"""Strategic merge patch: lists of objects merge by a key that depends on the field, as the Go types' tags say.

Lists not in the table below are atomic: among them tolerations, node taints, command and args.
"""

from collections.abc import Iterable
from typing import Any

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import bad_request

_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"

MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaims": "name",
    "resourceClaimStatuses": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Merge key by field name; the names are unambiguous among the kinds served, but for `ports` below."""

_PORT_KEYS = {"containers": "containerPort", "initContainers": "containerPort", "spec": "port"}
_PRIMITIVE_SETS = ("finalizers", "podCIDRs")


def strategic_merge(target: JsonObject, patch: JsonObject) -> JsonObject:
    """Return `target` with the patch applied; raises ApiError 400 for unknown directives."""
    return _merge_map(target, patch, "")


def merge_key(parent: str, field: str) -> str | None:
    """The key that identifies elements of this list of objects, or `None` if it is replaced whole."""
    return _PORT_KEYS.get(parent) if field == "ports" else MERGE_KEYS.get(field)


def _merge_map(target: Any, patch: JsonObject, field: str) -> JsonObject:
    base: JsonObject = dict(target) if isinstance(target, dict) else {}
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unrecognized type in the patch map: {directive!r}")
    base = _without_deleted(base, patch)
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(base, field, key, value, patch.get(_ORDER + key))
    for key, order in patch.items():
        name = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and name not in patch and isinstance(base.get(name), list):
            base[name] = _ordered(base[name], base[name], order, merge_key(field, name))
    return base


def _without_deleted(base: JsonObject, patch: JsonObject) -> JsonObject:
    """Return `base` without the fields and the primitive members that directives of the patch delete."""
    if _RETAIN in patch:
        base = {key: value for key, value in base.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if key.startswith(_DELETE_PRIMITIVES):
            name = key.removeprefix(_DELETE_PRIMITIVES)
            base[name] = [member for member in base.get(name) or [] if member not in value]
    return base


def _merge_field(base: JsonObject, parent: str, key: str, value: Any, order: list[Any] | None) -> None:
    if value is None:
        base.pop(key, None)
    elif isinstance(value, dict):
        base[key] = _merge_map(base.get(key), value, key)
    elif not isinstance(value, list):
        base[key] = value
    elif key in _PRIMITIVE_SETS:
        live = base.get(key) or []
        merged = [*live, *(member for member in value if member not in live)]
        base[key] = _ordered(merged, live, value if order is None else order, None)
    elif (by := merge_key(parent, key)) is not None:
        live = base.get(key) or []
        merged = _merge_list(live, value, by, key)
        listed = [member for member in value if member.get(_DIRECTIVE) != "delete"] if order is None else order
        base[key] = _ordered(merged, live, listed, by)
    else:
        base[key] = value


def _merge_list(live: list[Any], patch: list[Any], by: str, field: str) -> list[Any]:
    if any(element == {_DIRECTIVE: "replace"} for element in patch):
        return [element for element in patch if _DIRECTIVE not in element]
    merged = list(live)
    for element in patch:
        if not isinstance(element, dict) or by not in element:
            raise bad_request(f"map: {element!r} does not contain declared merge key: {by}")
        index = next((i for i, member in enumerate(merged) if member.get(by) == element[by]), None)
        match element.get(_DIRECTIVE):
            case "delete":
                merged = [member for member in merged if member.get(by) != element[by]]
            case "replace":
                fresh = {key: value for key, value in element.items() if key != _DIRECTIVE}
                merged = [member for member in merged if member.get(by) != element[by]] + [fresh]
            case _ if index is None:
                merged.append(_merge_map({}, element, field))
            case _:
                merged[index] = _merge_map(merged[index], element, field)
    return merged


def _ordered(merged: list[Any], live: list[Any], order: Iterable[Any], by: str | None) -> list[Any]:
    """Elements in `order` come in that order, new ones first; others stay before what followed them when live."""

    def identity(element: Any) -> Any:
        return element.get(by) if by is not None and isinstance(element, dict) else element

    wanted = [identity(element) for element in order]
    was = [identity(element) for element in live]
    listed = [member for name in wanted for member in merged if identity(member) == name]
    others = [member for member in merged if identity(member) not in wanted]
    result: list[Any] = []
    for element in listed:
        name = identity(element)
        while others and name in was and was.index(identity(others[0])) < was.index(name):
            result.append(others.pop(0))
        result.append(element)
    return result + others
