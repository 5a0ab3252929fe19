"""Endpoints: one declaration per method and path of its request, responses and handler.

Routing, request checks, the OpenAPI document and the table of paths in docs/api.md are all derived from it. Each field
of a query type is one query parameter; its annotation bounds and describes it.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.inspect import BoolType, DateTimeType, EnumType, IntType, Metadata, UnionType, type_info

from autoscaler.observe.http.public_json import public_json
from autoscaler.observe.http.routing import JSON, MAX_BODY_BYTES, BodyVerifier, HttpProblem, Request, Response
from autoscaler.observe.strict_json import read_object

_MAX_NAME = 100
_MAX_MESSAGE = 300
_MISSING = re.compile(r"missing required field `([^`]*)`")
_LOCATION = re.compile(r" - at `\$\.?([^`]*)`$")

Query = TypeVar("Query", bound=msgspec.Struct)
Struct = TypeVar("Struct", bound=msgspec.Struct)
JsonMapping = Mapping[str, Any]
"""A response in a form that another document describes."""


class Nothing(msgspec.Struct, frozen=True):
    """The query of an endpoint without parameters."""


class Anything(msgspec.Struct, frozen=True):
    """The query of an endpoint that ignores its parameters."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The body that an endpoint accepts."""

    text: str
    forms: Mapping[str, Any]
    """Types by content type."""
    max_bytes: int | None = MAX_BODY_BYTES
    """None means that only the listener's limit applies."""


class SuccessResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A successful response."""

    text: str = "What was asked for."
    forms: tuple[Any, ...] = ()
    """The possible types of the JSON body; empty if the body is not JSON."""
    content_type: str = JSON


class Endpoint(msgspec.Struct, Generic[Query], frozen=True, kw_only=True):
    """A `Handler` that declares its request and responses."""

    summary: str
    exposes: str = ""
    """What a caller can read or do, for the table in docs/security.md."""
    query: type[Query]
    serve: Callable[[Query, Request], Response]
    """May raise `HttpProblem` with a status of `errors`."""
    responses: Mapping[int, SuccessResponse]
    """By HTTP status."""
    errors: Mapping[int, str] = {}
    """Descriptions of errors by status, besides those that every endpoint may return."""
    body: Body | None = None
    when: str = ""
    """The condition under which the endpoint exists; empty if it always exists."""
    segments: Mapping[str, str] = {}
    """Descriptions of the path segments in braces."""
    headers: Mapping[str, str] = {}
    """Required headers with their descriptions."""
    signed_by: tuple[str, ...] = ()
    """Headers that authenticate the caller."""
    authenticate: Callable[[Request], BodyVerifier | None] | None = None
    """Called with the head before the body is read; may raise `HttpProblem`. None means no authentication."""

    def __call__(self, request: Request) -> Response:
        """Answer a request; raises `HttpProblem` for an invalid one."""
        max_bytes = None if self.body is None else self.body.max_bytes
        if max_bytes is not None and len(request.body) > max_bytes:
            raise HttpProblem(413, "body_too_large", f"the body is larger than {max_bytes} bytes")
        return self.serve(read_query(request.query, self.query), request)


EndpointRoutes = Mapping[str, Mapping[str, Endpoint[Any]]]
"""`Routes` that the OpenAPI document can describe."""


def json_endpoint(
    *,
    summary: str,
    exposes: str,
    query: type[Query],
    answers: Any,
    answer: Callable[[Query], msgspec.Struct | msgspec.Raw],
    errors: Mapping[int, str] | None = None,
    when: str = "",
) -> Endpoint[Query]:
    """Return an endpoint that answers with JSON: `Raw` results unchanged, all others with public names.

    `answers` is the type of the response, or a tuple of possible types.
    """

    def serve(query: Query, _: Request) -> Response:
        answered = answer(query)
        body = bytes(answered) if isinstance(answered, msgspec.Raw) else public_json(answered)
        return Response(body, JSON)

    forms = answers if isinstance(answers, tuple) else (answers,)
    responses = {200: SuccessResponse(forms=forms)}
    return Endpoint(
        summary=summary, exposes=exposes, query=query, serve=serve, responses=responses, errors=errors or {}, when=when
    )


def read_query(query: Mapping[str, str], form: type[Query]) -> Query:
    """Decode query parameters into the query type; raises `HttpProblem` that names the first invalid one."""
    parameters = _parameters(form)
    values = {}
    for name, text in query.items():
        if name not in parameters:
            if form is Anything:
                continue
            shown = name[:_MAX_NAME]
            raise HttpProblem(400, "invalid_parameter", f"there is no parameter {shown}", shown)
        field, kind = parameters[name]
        try:
            # Numbers come as text; a text that happens to be a number is not a time.
            values[field.name] = msgspec.convert(text, field.type, strict=not isinstance(kind, IntType | BoolType))
        except msgspec.ValidationError as error:
            message = f"{name}: {error}{_hint(kind)}"[:_MAX_MESSAGE]
            raise HttpProblem(400, "invalid_parameter", message, name) from None
    return form(**values)


@lru_cache(64)
def _parameters(form: type[msgspec.Struct]) -> Mapping[str, tuple[msgspec.structs.FieldInfo, object]]:
    """Return fields and their types by parameter name."""
    return {field.encode_name: (field, _inner_type(type_info(field.type))) for field in msgspec.structs.fields(form)}


def _inner_type(kind: object) -> object:
    """Return a type without its annotations and without `UnsetType`."""
    if isinstance(kind, Metadata):
        return _inner_type(kind.type)
    if isinstance(kind, UnionType):
        return _inner_type(kind.types[0])
    return kind


def _hint(kind: object) -> str:
    match kind:
        case EnumType(cls=members):
            return f"; one of {', '.join(str(member.value) for member in members)}"
        case DateTimeType():
            return "; write it as 2026-11-20T10:00:00Z"
        case _:
            return ""


def read_body(body: bytes, form: type[Struct], code: str) -> tuple[dict[str, Any], Struct]:
    """Return a body's JSON object, raw and as `form`; raises `HttpProblem` 422 with `code` that names the invalid
    field.
    """
    try:
        return read_object(body), msgspec.json.decode(body, type=form)
    except msgspec.ValidationError as error:
        message = str(error)
        location, missing = _LOCATION.search(message), _MISSING.search(message)
        parts = (location and location[1], missing and missing[1])
        field = ".".join(part for part in parts if part)[:_MAX_MESSAGE]
        raise HttpProblem(422, code, message[:_MAX_MESSAGE], field or None) from None
    except (ValueError, RecursionError, msgspec.DecodeError):
        raise HttpProblem(400, "invalid_body", "the body is no JSON object, or has a key twice") from None
