"""Discovery documents: which groups, versions and resources are served, plain and aggregated."""

from collections.abc import Iterable
from itertools import groupby

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import no_such_resource
from autoscaler.sandbox.apiserver.kinds import SUBRESOURCE_KINDS, SUBRESOURCE_VERBS, Kind

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_MINOR = 32

VERSION: JsonObject = {
    "major": "1",
    "minor": str(_MINOR),
    "gitVersion": f"v1.{_MINOR}.0-sandbox",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2024-12-11T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}


def legacy_versions(host: str) -> JsonObject:
    """`/api`."""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": host}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}


def groups(rows: Iterable[Kind]) -> JsonObject:
    """`/apis`."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*named) for named in _named_groups(rows)]}


def group(rows: Iterable[Kind], name: str) -> JsonObject:
    """`/apis/GROUP`; raises ApiError 404."""
    group_versions = next((versions for group_name, versions in _named_groups(rows) if group_name == name), None)
    if group_versions is None:
        raise no_such_resource()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, group_versions)}


def _group(name: str, versions: list[str]) -> JsonObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _named_groups(rows: Iterable[Kind]) -> list[tuple[str, list[str]]]:
    names: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.group:
            names.setdefault(row.group, {})[row.version] = None
    return [(name, list(versions)) for name, versions in names.items()]


def resources(rows: Iterable[Kind], group_name: str, version: str) -> JsonObject:
    """`/api/v1` and `/apis/GROUP/VERSION`; raises ApiError 404."""
    listed = []
    for row in rows:
        if (row.group, row.version) == (group_name, version):
            listed.append(_resource(row))
            listed.extend(_subresource(row, name) for name in row.subresources)
    if not listed:
        raise no_such_resource()
    group_version = f"{group_name}/{version}" if group_name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _resource(row: Kind) -> JsonObject:
    resource: JsonObject = {
        "name": row.plural,
        "singularName": row.singular or row.kind.lower(),
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        resource["shortNames"] = list(row.short_names)
    if row.categories:
        resource["categories"] = list(row.categories)
    return resource


def _subresource(row: Kind, name: str) -> JsonObject:
    group_name, version, kind = SUBRESOURCE_KINDS.get(name, (row.group, row.version, row.kind))
    return {
        "name": f"{row.plural}/{name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "group": group_name,
        "version": version,
        "kind": kind,
        "verbs": list(SUBRESOURCE_VERBS[name]),
    }


def aggregated(rows: Iterable[Kind], *, legacy: bool) -> JsonObject:
    """All of `/api` (legacy) or `/apis` in one document."""
    kinds = [row for row in rows if bool(row.group) is not legacy]
    named = [("", ["v1"])] if legacy else _named_groups(kinds)
    items = []
    for name, versions in named:
        in_group = sorted((row for row in kinds if row.group == name), key=lambda row: versions.index(row.version))
        served = [
            {"version": version, "freshness": "Current", "resources": [_aggregated(row) for row in of_version]}
            for version, of_version in groupby(in_group, key=lambda row: row.version)
        ]
        items.append({"metadata": {"name": name, "creationTimestamp": None}, "versions": served})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated(row: Kind) -> JsonObject:
    resource: JsonObject = {
        "resource": row.plural,
        "responseKind": {"group": row.group, "version": row.version, "kind": row.kind},
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular or row.kind.lower(),
        "verbs": list(row.verbs),
    }
    if row.short_names:
        resource["shortNames"] = list(row.short_names)
    if row.categories:
        resource["categories"] = list(row.categories)
    if row.subresources:
        resource["subresources"] = [_aggregated_subresource(row, name) for name in row.subresources]
    return resource


def _aggregated_subresource(row: Kind, name: str) -> JsonObject:
    group_name, version, kind = SUBRESOURCE_KINDS.get(name, (row.group, row.version, row.kind))
    response = {"group": group_name, "version": version, "kind": kind}
    return {"subresource": name, "responseKind": response, "verbs": list(SUBRESOURCE_VERBS[name])}
