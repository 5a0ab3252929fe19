"""The HTTP server: a few fixed routes, strict limits, no files from disk.

The request line, head and body have limits on their size and time, and the number of connections is limited. Each
connection has a thread. `observe.http.connection_limits` decides which connection a new one replaces, and
`observe.http.routing` answers requests.
"""

import socket
import socketserver
import ssl
import threading
from typing import Any

from autoscaler.clock import Clock
from autoscaler.errors import ConfigError
from autoscaler.logs import Log
from autoscaler.observe.http.connection import HEAD_S, Connection, RequestLimits
from autoscaler.observe.http.connection_limits import AdmittedConnection, ConnectionLimiter
from autoscaler.observe.http.routing import Routes
from cloudprovider.address import parse_address

_STOP_WAIT_S = 2.0

log = Log(__name__)

DEFAULT_LIMITS = RequestLimits()


class WebServer:
    """Listens from its construction, answers between `start` and `stop`. Raises `ConfigError` if it cannot listen."""

    def __init__(
        self,
        address: str,
        routes: Routes,
        clock: Clock,
        limits: RequestLimits = DEFAULT_LIMITS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls` None means plain HTTP."""
        try:
            self._server = _Server(parse_address(address), routes, clock, limits, tls)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise ConfigError(f"address: cannot listen on {address}: {reason}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port, also if the system chose it."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Start to answer, on its own threads."""
        self._thread.start()

    def close_port(self) -> None:
        """Accept no more connections; open ones continue."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def stop(self) -> None:
        """Close the port, finish the responses in progress, and close all connections."""
        self.close_port()
        self._server.connections.wait_for_answers(_STOP_WAIT_S)
        self._server.connections.close_all()


class _Server(socketserver.TCPServer):
    request_queue_size = 1024  # a connection beyond the backlog would have to retry a second later
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], routes: Routes, clock: Clock, limits: RequestLimits, tls: ssl.SSLContext | None
    ) -> None:
        self._routes = routes
        self._clock = clock
        self._limits = limits
        self._tls = tls
        self.connections = ConnectionLimiter(limits.server, clock)
        host, port = address
        self._all_interfaces = not host and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if self._all_interfaces or ":" in host else socket.AF_INET
        super().__init__(("::" if self._all_interfaces else host, port), socketserver.BaseRequestHandler)

    def server_bind(self) -> None:
        if self._all_interfaces:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; the TLS handshake happens on the connection's thread."""
        connection, address = super().get_request()
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread, or drop it if there are too many."""
        admitted = self.connections.admit(request, str(client_address[0]))
        if admitted is None:
            self.shutdown_request(request)
            return
        thread = threading.Thread(target=self._serve, args=(admitted, str(client_address[0])), name="http", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.error("http.no_thread", error=error)
            self._close(request)

    def _serve(self, admitted: AdmittedConnection, source: str) -> None:
        try:
            if isinstance(admitted.socket, ssl.SSLSocket):
                admitted.socket.settimeout(HEAD_S)
                admitted.socket.do_handshake()
            Connection(admitted, source, self.connections, self._routes, self._clock, self._limits).serve()
        except OSError as error:
            log.debug("http.connection_lost", error=error)
        except Exception:  # noqa: BLE001  # the top of a thread; the log has the stack
            log.crashed("http.failed")
        finally:
            self._close(admitted.socket)

    def _close(self, connection: Any) -> None:
        self.shutdown_request(connection)
        self.connections.release(connection)
