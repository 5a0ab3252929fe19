"""Reads Kubernetes' protobuf bodies: typed Go clients send them by default, and take JSON answers.

Only what `cloudprovider.protobuf.kubernetes` lists is understood; any other field in a body is refused, never dropped.
"""

from typing import Any

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import bad_request, unsupported_media_type
from cloudprovider.protobuf import codec
from cloudprovider.protobuf.kubernetes import KUBERNETES
from cloudprovider.protobuf.wire import fields

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


def decode(body: bytes) -> JsonObject:
    """Return the body as a JSON object; raises ApiError 400 (malformed) or 415 (kinds and fields not listed)."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body lacks the protobuf prefix")
    try:
        envelope = dict(fields(body[len(_MAGIC) :]))
        names = {number: value.decode() for number, value in fields(envelope[1])}
        api_version, kind = names.get(1, ""), names.get(2, "")
        if kind not in KUBERNETES:
            raise unsupported_media_type(f"{MEDIA_TYPE} with kind {kind}")
        content = codec.decode(kind, envelope.get(2, b""), unknown=_refuse)
    except (KeyError, ValueError) as error:
        raise bad_request(f"the body is not valid protobuf: {error}") from error
    return {"apiVersion": api_version, "kind": kind, **content}


def _refuse(message: str, number: int, raw: Any) -> None:
    if not _is_hollow(raw):
        raise unsupported_media_type(f"{MEDIA_TYPE} with field {number} of {message}")


def _is_hollow(raw: Any) -> bool:
    """Whether a field says nothing: Go writes the empty status of a new object out."""
    if not isinstance(raw, bytes):
        return not raw
    try:
        return all(_is_hollow(value) for _, value in fields(raw))
    except ValueError:
        return False
