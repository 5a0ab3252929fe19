"""Endpoints: one declaration per method and path of its request, responses and handler.

Routing, checks of requests, the OpenAPI document and the table of paths in docs/api.md all go by it. Each field of the
type of a question is one query parameter; its annotation bounds it and says what it means.
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
"""The form of an answer that another document describes."""


class Nothing(msgspec.Struct, frozen=True):
    """The question of an endpoint without parameters."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What a request brings."""

    text: str
    forms: Mapping[str, Any]
    """Types by content type."""
    max_bytes: int | None = MAX_BODY_BYTES
    """None: the listener's limit alone holds."""


class SuccessResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer looks like that is no refusal."""

    text: str = "What was asked for."
    forms: tuple[Any, ...] = ()
    """Types of which its JSON is one; empty for anything that is not JSON."""
    content_type: str = JSON


class Endpoint(msgspec.Struct, Generic[Query], frozen=True, kw_only=True):
    """A `Handler` that knows what it takes and gives."""

    summary: str
    exposes: str = ""
    """What whoever may call it learns, or can do: for the table in docs/security.md."""
    query: type[Query]
    serve: Callable[[Query, Request], Response]
    """May raise `HttpProblem` with a status of `errors`."""
    responses: Mapping[int, SuccessResponse]
    """By status."""
    errors: Mapping[int, str] = {}
    """What is wrong by status, beside what can be wrong with any request."""
    body: Body | None = None
    when: str = ""
    """Where it is not always there: when it is."""
    any_query: bool = False
    """Whether parameters that are not known are passed over."""
    segments: Mapping[str, str] = {}
    """What the segments in braces of its path mean."""
    headers: Mapping[str, str] = {}
    """Headers that have to be there, and what they mean."""
    signed_by: tuple[str, ...] = ()
    """Headers that prove who asks."""
    authenticate: Callable[[Request], BodyVerifier | None] | None = None
    """Asked with a head before its body is read; may raise `HttpProblem`. None: anybody may ask."""

    def __call__(self, request: Request) -> Response:
        """Answer a request; raises `HttpProblem` for one that asks what is not offered."""
        max_bytes = None if self.body is None else self.body.max_bytes
        if max_bytes is not None and len(request.body) > max_bytes:
            raise HttpProblem(413, "body_too_large", f"the body is larger than {max_bytes} bytes")
        return self.serve(read_query(request.query, self.query, ignore_unknown=self.any_query), request)


EndpointRoutes = Mapping[str, Mapping[str, Endpoint[Any]]]
"""`Routes` that the OpenAPI document can tell of."""


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
    """Return an endpoint that answers with JSON: what is `Raw` as it is, anything else under public names.

    `answers` is the type of the answer, or a tuple of types of which it is one.
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


def read_query(query: Mapping[str, str], form: type[Query], *, ignore_unknown: bool = False) -> Query:
    """Read query parameters into the type of a question; raises `HttpProblem` that names the first bad one.

    `ignore_unknown`: parameters that are not known are passed over.
    """
    parameters = _parameters(form)
    values = {}
    for name, text in query.items():
        if name not in parameters:
            if ignore_unknown:
                continue
            shown = name[:_MAX_NAME]
            raise HttpProblem(400, "invalid_parameter", f"there is no parameter {shown}", shown)
        field, kind = parameters[name]
        try:
            # Numbers come as text; text that happens to be a number is no time.
            values[field.name] = msgspec.convert(text, field.type, strict=not isinstance(kind, IntType | BoolType))
        except msgspec.ValidationError as error:
            message = f"{name}: {error}{_hint(kind)}"[:_MAX_MESSAGE]
            raise HttpProblem(400, "invalid_parameter", message, name) from None
    return form(**values)


@lru_cache(64)
def _parameters(form: type[msgspec.Struct]) -> Mapping[str, tuple[msgspec.structs.FieldInfo, object]]:
    """Return fields and their types by parameter."""
    return {field.encode_name: (field, _inner_type(type_info(field.type))) for field in msgspec.structs.fields(form)}


def _inner_type(kind: object) -> object:
    """Return a type without what is said about it, and without that it may be unset."""
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
    """Return a body's JSON object as it is and as `form`; raises `HttpProblem` 422 `code` that names the culprit."""
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
