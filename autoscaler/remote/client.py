"""Calls a gRPC expander over TLS. Needs the extra `grpc`: import it only if such an expander is configured."""

from collections.abc import Mapping, Sequence
from typing import cast

import grpc

from autoscaler.ports import ExpanderAnswer
from autoscaler.remote.messages import METHOD, FieldNumbers, named_groups, request
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.template import Template

TIMEOUT_S = 5.0
_MOST_BYTES = 128 << 20
"""Maximum size of an answer in bytes."""


class GrpcExpanderClient:
    """A `scaleup.grpc_expander.RemoteExpander`. It connects at the first question, and again after a broken
    connection.
    """

    def __init__(self, url: str, authorities: bytes, form: FieldNumbers, timeout_s: float = TIMEOUT_S) -> None:
        """`authorities` are PEM certificates of the only authorities that may vouch for the server."""
        self._form = form
        self._timeout_s = timeout_s
        self._channel = grpc.secure_channel(
            url,
            grpc.ssl_channel_credentials(root_certificates=authorities),
            options=[("grpc.max_receive_message_length", _MOST_BYTES)],
        )
        self._call = self._channel.unary_unary(METHOD, request_serializer=bytes, response_deserializer=bytes)

    def ask(self, options: Sequence[Option], templates: Mapping[str, Template]) -> ExpanderAnswer:
        """Return the options that the server prefers; an answer with `error` if none comes in time."""
        asked = tuple(option.group.id for option in options)
        try:
            question = request(options, templates, self._form)
        except ValueError as error:
            return ExpanderAnswer(asked=asked, error=f"the question cannot be written: {error}")
        try:
            return ExpanderAnswer(asked=asked, named=named_groups(self._call(question, timeout=self._timeout_s)))
        except grpc.RpcError as error:
            call = cast("grpc.Call", error)  # grpc guarantees this type for errors of a call
            return ExpanderAnswer(asked=asked, error=f"{call.code().name}: {call.details()}")
        except ValueError as error:
            return ExpanderAnswer(asked=asked, error=f"the answer cannot be read: {error}")

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()
