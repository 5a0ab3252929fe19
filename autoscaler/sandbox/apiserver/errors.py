"""Error answers of the API server: each is a `metav1.Status` with a code and a reason."""

from collections.abc import Iterable

import msgspec

from autoscaler.errors import AutoscalerError
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.request_log import RequestAttributes

LARGEST_BODY_BYTES = 3 * 1024 * 1024


class ApiError(AutoscalerError):
    """One refusal; `status()` is the body that goes over the wire."""

    def __init__(self, code: int, reason: str, message: str, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self._has_details = details is not None
        self.metadata: JsonObject = {}
        """The Status's own metadata: for an expired list, how to go on."""

    @property
    def retry_after_s(self) -> int | None:
        """Seconds for the `Retry-After` header, if the answer carries a wish."""
        return self.details.get("retryAfterSeconds")

    def status(self) -> JsonObject:
        """Return the error as a `Status` object."""
        body: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self._has_details:
            body["details"] = self.details
        body["code"] = self.code
        return body


def cause(reason: str, field: str, message: str) -> JsonObject:
    """One entry of `details.causes`."""
    return {"reason": reason, "message": message, "field": field}


def required(field: str, message: str = "") -> JsonObject:
    """The cause for a missing field."""
    return cause("FieldValueRequired", field, f"Required value{': ' + message if message else ''}")


def invalid_value(field: str, value: object, message: str) -> JsonObject:
    """The cause for a malformed field."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return cause("FieldValueInvalid", field, f"Invalid value: {shown}: {message}")


def not_supported(field: str, value: object, supported: tuple[str, ...]) -> JsonObject:
    """The cause for a value outside an enumeration."""
    known = ", ".join(f'"{choice}"' for choice in supported)
    return cause("FieldValueNotSupported", field, f'Unsupported value: "{value}": supported values: {known}')


def duplicate(field: str, value: object) -> JsonObject:
    """The cause for a list element that repeats a key."""
    return cause("FieldValueDuplicate", field, f'Duplicate value: "{value}"')


def forbidden_field(field: str, message: str) -> JsonObject:
    """The cause for a field that may not be set or changed."""
    return cause("FieldValueForbidden", field, f"Forbidden: {message}")


def _details(kind: Kind, name: str) -> JsonObject:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in details.items() if value}


def not_found(kind: Kind, name: str) -> ApiError:
    """404: no such object."""
    return ApiError(404, "NotFound", f'{kind.id} "{name}" not found', _details(kind, name))


def no_such_resource() -> ApiError:
    """404: no such path or resource type."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> ApiError:
    """409: the name is taken."""
    return ApiError(409, "AlreadyExists", f'{kind.id} "{name}" already exists', _details(kind, name))


def conflict(kind: Kind, name: str, why: str) -> ApiError:
    """409: the object is not in the state the writer expects."""
    message = f'Operation cannot be fulfilled on {kind.id} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(kind, name))


def stale(kind: Kind, name: str) -> ApiError:
    """409: optimistic concurrency failed."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def precondition_failed(kind: Kind, name: str, what: str, expected: str, actual: str) -> ApiError:
    """409: a deletion was meant for another object, or for the object as it was before; `what` is UID or version."""
    since = "deleted and then recreated" if what == "UID" else "modified"
    why = f"the {what} in the precondition ({expected}) does not match the {what} in record ({actual}). "
    return conflict(msgspec.structs.replace(kind, plural=kind.kind), name, f"{why}The object might have been {since}")


def invalid(kind: Kind, name: str, causes: list[JsonObject]) -> ApiError:
    """422: the object breaks a rule; one cause per problem, each said once."""
    lines = list(dict.fromkeys(f"{cause['field']}: {cause['message']}" for cause in causes))
    text = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    details = _details(kind, name) | {"kind": kind.kind, "causes": causes}
    shown = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return ApiError(422, "Invalid", f'{shown} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> ApiError:
    """400: the request makes no sense."""
    return ApiError(400, "BadRequest", message)


def not_permitted(user: str, attributes: RequestAttributes) -> ApiError:
    """403: RBAC does not let the user do that."""
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    path = "/".join(filter(None, (attributes.resource, attributes.subresource)))
    id_ = ".".join(filter(None, (attributes.resource, attributes.group)))
    about = f'{id_} "{attributes.name}"' if attributes.name else id_
    text = f'User "{user}" cannot {attributes.verb} resource "{path}" in API group "{attributes.group}" {where}'
    details = {"name": attributes.name, "group": attributes.group, "kind": attributes.resource}
    details = {key: value for key, value in details.items() if value}
    return ApiError(403, "Forbidden", f"{about} is forbidden: {text}", details)


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    """403: understood and declined."""
    return ApiError(403, "Forbidden", f'{kind.id} "{name}" is forbidden: {why}', _details(kind, name))


def unauthorized() -> ApiError:
    """401: no or wrong bearer token."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    """405: the verb does not apply to this resource."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def not_acceptable() -> ApiError:
    """406: none of the media types asked for can be produced."""
    return ApiError(406, "NotAcceptable", "only application/json responses can be produced")


def unsupported_media_type(why: str) -> ApiError:
    """415: the body is in a format this resource does not take."""
    return ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format - {why}")


def accepted(media_types: Iterable[str]) -> str:
    """What a client may send instead of a body in an unknown format."""
    return f"accepted media types include: {', '.join(media_types)}"


def too_large() -> ApiError:
    """413: the body exceeds the limit."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LARGEST_BODY_BYTES}")


def expired(message: str) -> ApiError:
    """410: history before this point is compacted."""
    return ApiError(410, "Expired", message)


def from_the_future(attributes: int, current: int) -> ApiError:
    """504: the client has seen a later resource version than this server."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details: JsonObject = {"causes": causes, "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", f"Timeout: Too large resource version: {attributes}, current: {current}", details)


def internal(message: str) -> ApiError:
    """500: the server met a state it does not handle."""
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")


def not_implemented(what: str) -> ApiError:
    """501: real clusters have it, the sandbox does not."""
    return ApiError(501, "NotImplemented", f"{what} is not available in the sandbox cluster: its kubelets run nothing")
