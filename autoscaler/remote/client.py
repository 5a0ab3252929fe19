"""Calls a gRPC expander over TLS. Needs the extra `grpc`: import it only where such an expander is chosen."""

from collections.abc import Mapping, Sequence
from typing import cast

import grpc

from autoscaler.ports import ExpanderAnswer
from autoscaler.remote.messages import METHOD, FieldNumbers, named_groups, request
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.template import Template

TIMEOUT_S = 5.0
_MOST_BYTES = 128 << 20
"""Longest answer that is read."""


class GrpcExpanderClient:
    """A `scaleup.grpc_expander.RemoteExpander`. The connection is made when it is first asked, and again when it
    broke."""

    def __init__(self, url: str, authorities: bytes, form: FieldNumbers, timeout_s: float = TIMEOUT_S) -> None:
        """`authorities` are the PEM certificates that may vouch for the server: these and no others."""
        self._form = form
        self._timeout_s = timeout_s
        self._channel = grpc.secure_channel(
            url,
            grpc.ssl_channel_credentials(root_certificates=authorities),
            options=[("grpc.max_receive_message_length", _MOST_BYTES)],
        )
        self._call = self._channel.unary_unary(METHOD, request_serializer=bytes, response_deserializer=bytes)

    def ask(self, options: Sequence[Option], templates: Mapping[str, Template]) -> ExpanderAnswer:
        """Return which of the options the server wants; an answer with `error` where it cannot be had in time."""
        asked = tuple(option.group.id for option in options)
        try:
            question = request(options, templates, self._form)
        except ValueError as error:
            return ExpanderAnswer(asked=asked, error=f"the question cannot be written: {error}")
        try:
            return ExpanderAnswer(asked=asked, named=named_groups(self._call(question, timeout=self._timeout_s)))
        except grpc.RpcError as error:
            call = cast("grpc.Call", error)  # as grpc promises of what a call raises
            return ExpanderAnswer(asked=asked, error=f"{call.code().name}: {call.details()}")
        except ValueError as error:
            return ExpanderAnswer(asked=asked, error=f"the answer cannot be read: {error}")

    def close(self) -> None:
        """Give the connection up."""
        self._channel.close()
