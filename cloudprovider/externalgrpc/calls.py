"""Calls to the server."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import grpc

from cloudprovider.externalgrpc.protocol import METHODS, MOST_BYTES, SERVICE, read_response, request
from cloudprovider.externalgrpc.settings import Settings
from cloudprovider.externalgrpc.status import error_of
from cloudprovider.interface import ProviderError


class _Started(Protocol):
    """A call under way."""

    def result(self) -> bytes: ...

    def cancel(self) -> bool: ...


class Calls:
    """A connection. It is made at the first call, and again after it broke."""

    def __init__(self, settings: Settings, user_agent: str = "") -> None:
        self._timeout_s = settings.timeout_s
        self.closed = False
        options = [("grpc.max_receive_message_length", MOST_BYTES), ("grpc.primary_user_agent", user_agent)]
        if settings.encrypted:
            credentials = grpc.ssl_channel_credentials(settings.cacert, settings.key, settings.cert)
            self._channel = grpc.secure_channel(settings.address, credentials, options)
        else:
            self._channel = grpc.insecure_channel(settings.address, options)
        self._calls: dict[str, grpc.UnaryUnaryMultiCallable[bytes, bytes]] = {
            method: self._channel.unary_unary(f"/{SERVICE}/{method}", bytes, bytes) for method in METHODS
        }

    def __call__(self, method: str, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Make one call and return the answer; raises `ProviderError`, and `Unimplemented` if there is no such call."""
        return self.all(method, [fields or {}])[0]

    def all(self, method: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Make calls concurrently and return the answers in order; raises the first error."""
        if self.closed:
            raise ProviderError(f"{method}: the connection has been given up")
        call = self._calls[method]
        started = [cast("_Started", call.future(request(method, fields), self._timeout_s)) for fields in requests]
        try:
            return [_answer(method, pending) for pending in started]
        finally:
            for pending in started:
                pending.cancel()

    def close(self) -> None:
        """Close the connection. May be called again."""
        self.closed = True
        self._channel.close()


def _answer(method: str, call: "_Started") -> dict[str, Any]:
    try:
        return read_response(method, call.result())
    except grpc.RpcError as error:
        raise error_of(error, method) from error
    except ValueError as error:
        raise ProviderError(f"{method}: the answer cannot be read: {error}") from error
