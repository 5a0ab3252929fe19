"""Generates OpenAPI 3.1 documents from the declarations that validate requests and responses."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from autoscaler.observe.http.endpoint import (
    Body,
    Endpoint,
    EndpointRoutes,
    JsonMapping,
    Nothing,
    SuccessResponse,
    json_endpoint,
)
from autoscaler.observe.http.public_json import public_schema
from autoscaler.observe.http.routing import JSON, ErrorEnvelope

PATH = "/api/v1/openapi.json"

_SCHEMAS = "#/components/schemas/"
_PROBLEMS = {
    400: "A parameter that is not known, or whose value is not possible; or what came is no proper request.",
    411: "The length of the body is not given.",
    413: "The body is too large.",
}
_OTHERWISE = "The request cannot be served."

Schema = Mapping[str, Any]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The description of an API as a whole."""

    title: str
    version: str
    description: str


def about_daemon(version: str) -> About:
    """Return the description of the API on the daemon's own port."""
    return About(
        title="Cluster autoscaler",
        version=version,
        description="What the last pass saw, decided and did. The API is read-only.",
    )


def with_document(routes: EndpointRoutes, about: About, path: str = PATH) -> EndpointRoutes:
    """Add the route of the document, which describes `routes` and itself."""
    own = json_endpoint(
        summary="This API, described in OpenAPI 3.1.",
        exposes="only the version of the installation",
        query=Nothing,
        answers=JsonMapping,
        answer=lambda _: msgspec.Raw(encoded),
    )
    all_routes: EndpointRoutes = {**routes, path: {"GET": own}}
    encoded = msgspec.json.encode(document(all_routes, about))
    return all_routes


def document(routes: EndpointRoutes, about: About) -> dict[str, Any]:
    """Return the OpenAPI document of every endpoint."""
    endpoints = [
        (path, method.lower(), endpoint)
        for path, methods in sorted(routes.items())
        for method, endpoint in methods.items()
    ]
    queries = _Forms(endpoint.query for _, _, endpoint in endpoints)
    bodies = _Forms(form for body in _bodies(endpoints) for form in body.forms.values())
    answers = _Forms(form for response in _successes(endpoints) for form in response.forms)
    envelope = _Forms([ErrorEnvelope])
    query_names = {reference["$ref"].removeprefix(_SCHEMAS) for reference in queries.references.values()}
    paths: dict[str, dict[str, Any]] = {}
    for path, method, endpoint in endpoints:
        query = queries.schemas[queries.references[endpoint.query]["$ref"].removeprefix(_SCHEMAS)]
        parameters = [*_in_path(path, endpoint), *_in_query(query), *_in_head(endpoint)]
        request_body = {} if endpoint.body is None else {"requestBody": _body(endpoint.body, bodies)}
        paths.setdefault(path, {})[method] = {
            "summary": endpoint.summary,
            **({"description": f"Served {endpoint.when}."} if endpoint.when else {}),
            **({"security": [{name: [] for name in endpoint.signed_by}]} if endpoint.signed_by else {}),
            "parameters": parameters,
            **request_body,
            "responses": _responses(endpoint, answers),
        }
    answered = {name: public_schema(schema) for name, schema in (answers.schemas | envelope.schemas).items()}
    requested = {name: schema for name, schema in queries.schemas.items() if name not in query_names} | bodies.schemas
    for name in answered.keys() & requested.keys():
        if answered[name] != requested[name]:
            raise TypeError(f"{name} looks different when it is asked for and when it is answered")
    signatures = sorted({name for _, _, endpoint in endpoints for name in endpoint.signed_by})
    refusals = {str(code): _refusal(text) for code, text in _PROBLEMS.items() if _used(code, endpoints)}
    return {
        "openapi": "3.1.0",
        "info": msgspec.to_builtins(about),
        "paths": paths,
        "components": {
            "schemas": {**answered, **requested},
            "responses": {**refusals, "default": _refusal(_OTHERWISE)},
            **(
                {"securitySchemes": {name: {"type": "apiKey", "in": "header", "name": name} for name in signatures}}
                if signatures
                else {}
            ),
        },
    }


class _Forms:
    """Schemas of types, and the references to them by type."""

    def __init__(self, kinds: Iterable[Any]) -> None:
        unique: Sequence[Any] = list(dict.fromkeys(kinds))
        references, self.schemas = msgspec.json.schema_components(unique, ref_template=f"{_SCHEMAS}{{name}}")
        self.references: Mapping[Any, Schema] = dict(zip(unique, references, strict=True))


def _bodies(endpoints: Iterable[tuple[str, str, Endpoint[Any]]]) -> Iterator[Body]:
    return (endpoint.body for _, _, endpoint in endpoints if endpoint.body is not None)


def _successes(endpoints: Iterable[tuple[str, str, Endpoint[Any]]]) -> Iterator[SuccessResponse]:
    return (response for _, _, endpoint in endpoints for response in endpoint.responses.values())


def _used(code: int, endpoints: Iterable[tuple[str, str, Endpoint[Any]]]) -> bool:
    return code == HTTPStatus.BAD_REQUEST or any(True for _ in _bodies(endpoints))


def _in_path(path: str, endpoint: Endpoint[Any]) -> Iterator[dict[str, Any]]:
    for segment in path.split("/"):
        if segment.startswith("{"):
            name = segment[1:-1]
            text = endpoint.segments[name]
            kind = {"type": "string", "minLength": 1}
            yield {"name": name, "in": "path", "required": True, "description": text, "schema": kind}


def _in_query(query: Schema) -> Iterator[dict[str, Any]]:
    for name, schema in query["properties"].items():
        bounds = {key: value for key, value in schema.items() if key != "description"}
        text = schema["description"]
        yield {"name": name, "in": "query", "required": False, "description": text, "schema": bounds}


def _in_head(endpoint: Endpoint[Any]) -> Iterator[dict[str, Any]]:
    for name, text in endpoint.headers.items():
        yield {"name": name, "in": "header", "required": True, "description": text, "schema": {"type": "string"}}


def _body(body: Body, forms: _Forms) -> dict[str, Any]:
    limit = "" if body.max_bytes is None else f" At most {body.max_bytes} bytes."
    content = {kind: {"schema": dict(forms.references[form])} for kind, form in body.forms.items()}
    return {"description": f"{body.text}{limit}", "required": True, "content": content}


def _responses(endpoint: Endpoint[Any], forms: _Forms) -> dict[str, Any]:
    general = {code for code in _PROBLEMS if code == HTTPStatus.BAD_REQUEST or endpoint.body is not None}
    refused: dict[int, dict[str, Any]] = {code: {"$ref": f"#/components/responses/{code}"} for code in general}
    refused |= {code: _refusal(text) for code, text in endpoint.errors.items()}
    responses = refused | {code: _answer(response, forms) for code, response in endpoint.responses.items()}
    return {
        **{str(code): responses[code] for code in sorted(responses)},
        "default": {"$ref": "#/components/responses/default"},
    }


def _answer(response: SuccessResponse, forms: _Forms) -> dict[str, Any]:
    schemas = [dict(forms.references[form]) for form in response.forms]
    schema = {"type": "string"} if not schemas else schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"description": response.text, "content": {response.content_type: {"schema": schema}}}


def _refusal(text: str) -> dict[str, Any]:
    return {"description": text, "content": {JSON: {"schema": {"$ref": f"{_SCHEMAS}{ErrorEnvelope.__name__}"}}}}
