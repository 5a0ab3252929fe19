"""JSON endpoints whose questions and answers are types: checked when asked, described in the OpenAPI document.

Each field of the type of a question is one query parameter; its annotation bounds it and says what it means.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from autoscaler.observe.public import public_json
from autoscaler.observe.routing import JSON, HttpProblem, Request, Response

_LONGEST_NAME = 100
_LONGEST_COMPLAINT = 300

Asked = TypeVar("Asked", bound=msgspec.Struct)


class Nothing(msgspec.Struct, frozen=True):
    """The question of an endpoint without parameters."""


class Endpoint(msgspec.Struct, Generic[Asked], frozen=True, kw_only=True):
    """A `Handler` that knows what it takes and gives."""

    summary: str
    asks: type[Asked]
    answers: type[msgspec.Struct | msgspec.Raw]
    answer: Callable[[Asked], msgspec.Struct | msgspec.Raw]
    """May raise `HttpProblem`. What is `Raw` is JSON already and sent as it is."""
    may_miss: bool = False
    """Whether what is asked for may not exist, so that 404 is an answer too."""

    def __call__(self, request: Request) -> Response:
        """Answer a request; raises `HttpProblem` for one that asks what is not offered."""
        found = self.answer(asked(request.query, self.asks))
        return Response(bytes(found) if isinstance(found, msgspec.Raw) else public_json(found), JSON)


def asked(query: Mapping[str, str], form: type[Asked]) -> Asked:
    """Read query parameters into the type of a question; raises `HttpProblem` that names the first bad one."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(form)}
    values = {}
    for name, text in query.items():
        field = fields.get(name)
        if field is None:
            shown = name[:_LONGEST_NAME]
            raise HttpProblem(400, "invalid_parameter", f"there is no parameter {shown}", shown)
        try:
            values[field.name] = msgspec.convert(text, field.type, strict=False)
        except msgspec.ValidationError as error:
            complaint = f"{name}: {error}"[:_LONGEST_COMPLAINT]
            raise HttpProblem(400, "invalid_parameter", complaint, name) from None
    return form(**values)
