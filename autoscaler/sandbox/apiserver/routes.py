"""Parses a URL path into kind, namespace, name and subresource."""

import msgspec

from autoscaler.sandbox.apiserver.errors import no_such_resource
from autoscaler.sandbox.apiserver.kinds import Kind, KindRegistry

_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Route(msgspec.Struct, frozen=True):
    """An object or collection; `namespace` None means all of them, an empty name the collection."""

    kind: Kind
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


def route(registry: KindRegistry, path: str) -> Route:
    """Parse `/api/v1/...` and `/apis/GROUP/VERSION/...`; raises ApiError 404."""
    parts = [part for part in path.split("/") if part]
    if parts[0] == "api":
        group, parts = "", parts[1:]
    else:
        group, parts = parts[1], parts[2:]
    version, parts = parts[0], parts[1:]
    namespace = None
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, parts = parts[1], parts[2:]
    kind = registry.served(group, version, parts[0])
    if kind is None or len(parts) > 3 or (namespace is not None and not kind.namespaced):
        raise no_such_resource()
    name, subresource = (*parts[1:], "", "")[:2]
    if subresource and subresource not in kind.subresources:
        raise no_such_resource()
    return Route(kind, namespace, name, subresource)


def is_resource_path(path: str) -> bool:
    """Whether the path names something inside a group and version."""
    parts = [part for part in path.split("/") if part]
    return (parts[:1] == ["api"] and len(parts) > 2) or (parts[:1] == ["apis"] and len(parts) > 3)
