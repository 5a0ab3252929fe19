"""OpenAPI, as much of it as clients need before they write: which kinds take which parameters, and loose schemas.

kubectl asks whether a PATCH of a kind supports `dryRun` and `fieldValidation`; finding them, it leaves validation to
the server. The patch body deliberately offers no strategic merge, so that kubectl computes those patches from its
built-in types.
"""

from collections.abc import Iterable

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import no_such_resource
from autoscaler.sandbox.apiserver.kinds import Kind

_INFO = {"title": "Kubernetes", "version": "v1.32.0"}
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
_OBJECT: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def index(rows: Iterable[Kind]) -> JsonObject:
    """`/openapi/v3`: where the document of each group and version is."""
    paths = {_prefix(row): {"serverRelativeURL": f"/openapi/v3/{_prefix(row)}"} for row in rows}
    return {"paths": paths}


def document(rows: Iterable[Kind], prefix: str) -> JsonObject:
    """`/openapi/v3/api/v1` and the like; raises ApiError 404."""
    served = [row for row in rows if _prefix(row) == prefix]
    if not served:
        raise no_such_resource()
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": {_path(row): _operations(row) for row in served},
        "components": {"schemas": {_schema_name(row): _schema(row) for row in served}},
    }


def version_2(rows: Iterable[Kind]) -> JsonObject:
    """`/openapi/v2`: the same kinds in the older format."""
    rows = tuple(rows)
    paths = {_path(row): {"patch": _patch_operation(row, "2")} for row in rows}
    definitions = {_schema_name(row): _schema(row) for row in rows}
    return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": definitions}


def _prefix(row: Kind) -> str:
    return f"apis/{row.group}/{row.version}" if row.group else f"api/{row.version}"


def _path(row: Kind) -> str:
    scope = "namespaces/{namespace}/" if row.namespaced else ""
    return f"/{_prefix(row)}/{scope}{row.plural}/{{name}}"


def _schema_name(row: Kind) -> str:
    group = ".".join(reversed(row.group.split("."))) if row.custom else f"io.k8s.api.{row.group or 'core'}"
    return f"{group}.{row.version}.{row.kind}"


def _gvk(row: Kind) -> JsonObject:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _operations(row: Kind) -> JsonObject:
    return {"patch": _patch_operation(row, "3")}


def _patch_operation(row: Kind, version: str) -> JsonObject:
    answer = {"description": "OK"}
    operation: JsonObject = {
        "operationId": f"patch{row.group.title().replace('.', '')}{row.version.title()}{row.kind}",
        "responses": {"200": answer},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _gvk(row),
    }
    if version == "2":
        parameters = [{"name": name, "in": "query", "type": "string"} for name in _WRITE_PARAMETERS]
        return {**operation, "parameters": parameters}
    parameters_3 = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _WRITE_PARAMETERS]
    content = {media: {"schema": _OBJECT} for media in ("application/merge-patch+json", "application/apply-patch+yaml")}
    return {**operation, "parameters": parameters_3, "requestBody": {"content": content}}


def _schema(row: Kind) -> JsonObject:
    text = {"type": "string"}
    properties: JsonObject = {
        "apiVersion": {**text, "description": "Group and version of this representation."},
        "kind": {**text, "description": "What this object is."},
        "metadata": {**_OBJECT, "description": "Name, namespace, labels, annotations, owners."},
        "spec": {**_OBJECT, "description": "The desired state."},
        "status": {**_OBJECT, "description": "The observed state."},
    }
    description = f"{row.kind} as served by the sandbox cluster, which keeps fields without knowing their schema."
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [_gvk(row)],
        "x-kubernetes-preserve-unknown-fields": True,
    }
