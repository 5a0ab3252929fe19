"""The OpenAPI 3.1 document of the JSON API, made from the very types that its endpoints check and answer with."""

from collections.abc import Mapping
from typing import Any

import msgspec

from autoscaler.observe.endpoint import Endpoint, Nothing
from autoscaler.observe.public import public_schema
from autoscaler.observe.routing import JSON, ErrorEnvelope, Routes

PATH = "/api/v1/openapi.json"

_SCHEMAS = "#/components/schemas/"
_PROBLEMS = {
    "400": "A parameter that is not known, or whose value is not possible.",
    "404": "There is no such thing.",
    "default": "The request cannot be served.",
}

Schema = Mapping[str, Any]


def with_document(routes: Routes, version: str) -> Routes:
    """Add the route of the document that describes the endpoints among `routes`, and itself."""
    own = Endpoint(summary="This document.", asks=Nothing, answers=msgspec.Raw, answer=lambda _: msgspec.Raw(described))
    every: Routes = {**routes, PATH: {"GET": own}}
    described = msgspec.json.encode(document(every, version))
    return every


def document(routes: Routes, version: str) -> dict[str, Any]:
    """Describe every `Endpoint`; other routes are no part of the JSON API."""
    endpoints = [
        (path, method.lower(), handler)
        for path, handlers in sorted(routes.items())
        for method, handler in handlers.items()
        if isinstance(handler, Endpoint)
    ]
    forms = [each.asks for _, _, each in endpoints]
    answers = [each.answers for _, _, each in endpoints]
    references, found = msgspec.json.schema_components(
        [*forms, *answers, ErrorEnvelope], ref_template=f"{_SCHEMAS}{{name}}"
    )
    asked = [str(one["$ref"]).removeprefix(_SCHEMAS) for one in references[: len(forms)]]
    paths: dict[str, dict[str, Any]] = {}
    for (path, method, endpoint), form, answer in zip(endpoints, asked, references[len(forms) : -1], strict=True):
        paths.setdefault(path, {})[method] = _operation(endpoint, found[form]["properties"], answer)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Cluster autoscaler",
            "version": version,
            "description": "What the last pass saw, decided and did. Everything is read-only.",
        },
        "paths": paths,
        "components": {
            "schemas": {name: public_schema(one) for name, one in found.items() if name not in asked},
            "responses": {code: _answer(text, references[-1]) for code, text in _PROBLEMS.items()},
        },
    }


def _operation(endpoint: Endpoint[Any], parameters: Mapping[str, Schema], answer: Schema) -> dict[str, Any]:
    codes = ("400", *(["404"] if endpoint.may_miss else []), "default")
    problems = {code: {"$ref": f"#/components/responses/{code}"} for code in codes}
    return {
        "summary": endpoint.summary,
        "parameters": [_parameter(name, one) for name, one in parameters.items()],
        "responses": {"200": _answer("What was asked for.", answer), **problems},
    }


def _parameter(name: str, schema: Schema) -> dict[str, Any]:
    bounds = {key: value for key, value in schema.items() if key != "description"}
    return {"name": name, "in": "query", "required": False, "description": schema["description"], "schema": bounds}


def _answer(text: str, schema: Schema) -> dict[str, Any]:
    return {"description": text, "content": {JSON: {"schema": dict(schema)}}}
