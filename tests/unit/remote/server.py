"""A gRPC expander on the loopback interface, behind the certificate of `tests/unit/kube/tls`."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from cloudprovider.protobuf import wire

TLS = Path(__file__).parents[1] / "kube" / "tls"
CERTIFICATE = (TLS / "certificate.pem").read_bytes()
"""Vouches for itself, and for 127.0.0.1 alone."""


class ExpanderServer:
    """Answers with whatever bytes `answer` makes of a request's; keeps the requests."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.requests: list[bytes] = []
        self._answer = answer
        self._pool = ThreadPoolExecutor(1)
        self._server = grpc.server(self._pool)
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._best_options)
        service = grpc.method_handlers_generic_handler("grpcplugin.Expander", {"BestOptions": handler})
        self._server.add_generic_rpc_handlers((service,))
        credentials = grpc.ssl_server_credentials([((TLS / "key.pem").read_bytes(), CERTIFICATE)])
        self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self._server.start()

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._server.stop(None).wait()
        self._pool.shutdown()

    def _best_options(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.requests.append(request)
        return self._answer(request)


def response(*groups: str) -> bytes:
    """Return a BestOptionsResponse that names these groups."""
    return b"".join(wire.block(1, wire.text(1, group) + wire.varint(2, 1)) for group in groups)
