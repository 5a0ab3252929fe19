"""The HTTP(S) server of a `Storage`, for kubectl, client libraries and the daemon."""

import socket
import ssl
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path

import msgspec

from autoscaler.clock import SystemClock
from autoscaler.sandbox.apiserver import kubeconfig
from autoscaler.sandbox.apiserver.dispatch import ApiDispatcher
from autoscaler.sandbox.apiserver.faults import Faults
from autoscaler.sandbox.apiserver.handler import RequestHandler
from autoscaler.sandbox.apiserver.request_log import RequestLog
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.apiserver.verbs import Verbs


class TlsFiles(msgspec.Struct, frozen=True):
    """Where the server's certificate and key are; clients trust `ca`, or the certificate itself if it is its own CA."""

    certificate: Path
    key: Path
    ca: Path | None = None


class _Listener(ThreadingHTTPServer):
    """Accepts connections and can cut all of them, so that stopping leaves no thread behind."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], dispatcher: ApiDispatcher, tls: ssl.SSLContext | None) -> None:
        self.dispatcher = dispatcher
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, RequestHandler)

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept; the TLS handshake is left to the connection's own thread."""
        connection, address = super().get_request()
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """Close one connection."""
        if isinstance(request, socket.socket):
            with self._lock:
                self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away in the middle are no news."""

    def cut(self) -> None:
        """Break every open connection."""
        with self._lock:
            open_now = list(self._open)
        for connection in open_now:
            try:
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                continue


class ApiServer:
    """Serves a storage over HTTP until stopped; also a context manager.

    `port=0` lets the system choose. With `token`, requests need it as bearer token. `faults` injects trouble,
    `requests` records what was asked.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        tls: TlsFiles | None = None,
        faults: Faults | None = None,
        bookmark_every_s: float = 10.0,
    ) -> None:
        self.storage = storage
        self.faults = faults or Faults()
        self.requests = RequestLog()
        self._token = token
        self._tls = tls
        verbs = Verbs(storage, SystemClock(), bookmark_every_s)
        self._dispatcher = ApiDispatcher(storage, verbs, self.faults, self.requests, token)
        self._listener = _Listener((host, port), self._dispatcher, _context(tls))
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), name="apiserver")
        self.faults.when_down(self._listener.cut)

    @property
    def url(self) -> str:
        """Base URL, with the port the system chose."""
        host, port = self._listener.server_address[:2]
        return f"{'https' if self._tls else 'http'}://{host!s}:{port}"

    def start(self) -> "ApiServer":
        """Begin to serve, in a thread of its own."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End watches, close connections and wait for their threads."""
        self._dispatcher.stopping.set()
        if self._thread.is_alive():
            self._listener.shutdown()
            self._thread.join()
        self._listener.cut()
        self._listener.server_close()

    def expose(self, namespace: str, service: str, url: Callable[[], str]) -> None:
        """Let clients reach a program through the proxy of a Service; `url` returns where it listens now."""
        self._dispatcher.services.expose(namespace, service, url)

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig for this server that only its owner can read."""
        ca = (self._tls.ca or self._tls.certificate) if self._tls is not None else None
        kubeconfig.write(path, self.url, token=self._token, ca=ca)

    def __enter__(self) -> "ApiServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _context(tls: TlsFiles | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.certificate, tls.key)
    return context
