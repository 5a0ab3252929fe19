"""One HTTP request and one answer, free of sockets."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver import protobuf
from autoscaler.sandbox.apiserver.errors import ApiError, bad_request, not_acceptable
from autoscaler.sandbox.apiserver.json_errors import json_problem, summary
from cloudprovider.document import parse_yaml
from cloudprovider.file import text_of
from cloudprovider.number import parse_count
from cloudprovider.quoted import quoted

JSON = "application/json"
_YAML_TYPES = ("application/yaml", "application/apply-patch+yaml")


class ObjectFormat(StrEnum):
    """In which shape the client wants objects."""

    OBJECT = "object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


class ApiRequest(msgspec.Struct, frozen=True):
    """What the client sent; header values are empty when absent."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    host: str = ""
    body: bytes = b""

    def flag(self, name: str) -> bool:
        """Whether a boolean query parameter is set."""
        return self.query.get(name, "") in ("true", "1", "True")

    def number(self, name: str) -> int | None:
        """A numeric query parameter; raises ApiError 400."""
        text = self.query.get(name, "")
        if not text:
            return None
        if (number := parse_count(text)) is None:
            raise bad_request(f"invalid value for {name}: {quoted(text)}")
        return number

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be stored; raises ApiError 400 for modes unknown."""
        mode = self.query.get("dryRun", "")
        if mode not in ("", "All"):
            raise bad_request(f"dryRun: Unsupported value: {mode!r}: supported values: 'All'")
        return mode == "All"

    @property
    def media_type(self) -> str:
        """The content type without parameters."""
        return self.content_type.partition(";")[0].strip().lower()

    def form(self) -> ObjectFormat:
        """The first shape in the Accept header that can be produced; raises ApiError 406."""
        for offer in self.accept.split(","):
            media, *parameters = (part.strip() for part in offer.split(";"))
            shape = next((parameter.removeprefix("as=") for parameter in parameters if parameter.startswith("as=")), "")
            if media not in (JSON, "*/*", "application/*", ""):
                continue
            if shape == "Table":
                return ObjectFormat.TABLE
            if shape.startswith("PartialObjectMetadata"):
                return ObjectFormat.METADATA
            if not shape:
                return ObjectFormat.OBJECT
        raise not_acceptable()

    def decoded(self, kind: str = "Object") -> Any:
        """The body as JSON, YAML or protobuf, which should be of this kind; raises ApiError 400 or 415."""
        if self.media_type == protobuf.MEDIA_TYPE:
            return protobuf.decode(self.body)
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            if self.media_type not in _YAML_TYPES:
                why = f"couldn't get version/kind; json parse error: {json_problem(self.body)}"
                message = f"the object provided is unrecognized (must be of type {kind}): {why} ({summary(self.body)})"
                raise bad_request(message) from error
        try:
            return parse_yaml(text_of(self.body))
        except ValueError as error:
            raise bad_request(f"the body is not valid YAML: {error}") from error

    def object(self, kind: str = "Object") -> JsonObject:
        """The body as an object of this kind; raises ApiError 400."""
        value = self.decoded(kind)
        if not isinstance(value, dict):
            raise bad_request("the body must be an object")
        return value


class ApiResponse(msgspec.Struct, frozen=True):
    """What goes back: a body, or a stream of lines (where None is a moment without news)."""

    code: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = {}
    stream: Iterator[bytes | None] | None = None


def answer(obj: object, code: int = 200) -> ApiResponse:
    """Encode an object."""
    return ApiResponse(code, msgspec.json.encode(obj))


def refusal(error: ApiError) -> ApiResponse:
    """Encode an error, with its Retry-After header."""
    wish = error.retry_after_s
    headers = {"Retry-After": str(wish)} if wish is not None else {}
    return ApiResponse(error.code, msgspec.json.encode(error.status()), headers=headers)


def plain(text: str) -> ApiResponse:
    """A text answer, as health checks give."""
    return ApiResponse(200, text.encode(), "text/plain; charset=utf-8")
