"""The HTTP server: a few fixed routes, bounded in every direction, nothing served from disk.

A request line, its head, its body and the time each may take are limited, and so is the number of connections, so
that no client can starve the health check for long. What is answered is decided by `observe.routing`.
"""

import contextlib
import io
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from autoscaler.clock import Clock
from autoscaler.errors import ConfigError
from autoscaler.observe.logs import Log
from autoscaler.observe.routing import (
    MOST_BODY_BYTES,
    HttpProblem,
    Request,
    Response,
    Routes,
    answer,
    find,
    problem_response,
)

_LINE_BYTES = 8 * 1024
_HEAD_BYTES = 32 * 1024
_HEAD_S = 10.0
_SEND_S = 30.0
_LINGER_S = 5.0
_LINGER_BYTES = 16 * 1024 * 1024
_IDLE_S = 75.0  # above the scrape interval of most monitoring
_BUSY_IDLE_S = 2.0
_CONNECTIONS = 128
_QUERY_FIELDS = 20
_CHUNK_LINE_BYTES = 1024
_ANSWERING_S = 2.0
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

log = Log(__name__)


class Intake(msgspec.Struct, frozen=True, kw_only=True):
    """What a server takes of a client."""

    body_bytes: int = MOST_BODY_BYTES
    body_s: float = 10.0
    chunks: bool = False
    """Whether a body may come without its length, in chunks."""
    tls: ssl.SSLContext | None = None
    """None: plain HTTP."""
    answered: Callable[[str, int], None] = lambda path, code: None
    """Hears the route, or `other`, and the status of every answer."""


DEFAULT_INTAKE = Intake()
OTHER = "other"


def parse_address(text: str) -> tuple[str, int]:
    """Split `host:port`; an empty host means all interfaces. Raises `ConfigError`."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    wrong = not colon or not port.isascii() or not port.isdigit() or int(port) > 65535
    if wrong or (":" in host and bare == host):
        raise ConfigError(f"address: {text!r} is not host:port; write for example :8085, 127.0.0.1:0 or [::1]:8085")
    return bare, int(port)


class WebServer:
    """Listens from construction on, answers between `start` and `stop`. Raises `ConfigError` if it cannot listen."""

    def __init__(self, address: str, routes: Routes, clock: Clock, intake: Intake = DEFAULT_INTAKE) -> None:
        host, port = parse_address(address)
        try:
            self._server = _Server(host, port, routes, clock, intake)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise ConfigError(f"address: cannot listen on {address}: {reason}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port, also where the system chose it."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer, on threads of its own."""
        self._thread.start()

    def close_port(self) -> None:
        """Take no more connections; those that are open go on."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def stop(self) -> None:
        """Close the port, let answers that are under way get out, and close all connections."""
        self.close_port()
        self._server.wait_answered(_ANSWERING_S)
        self._server.hang_up()


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def __init__(self, host: str, port: int, routes: Routes, clock: Clock, intake: Intake) -> None:
        self.routes = routes
        self.clock = clock
        self.intake = intake
        self._open: set[socket.socket] = set()
        self._counting = threading.Lock()
        self._answering = 0
        self._answered = threading.Condition(self._counting)
        everywhere = not host and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
        self._dual = everywhere
        super().__init__(("::" if everywhere else host, port), _Connection)

    def server_bind(self) -> None:
        """Bind, without the name look-up that the standard library makes here."""
        if self._dual:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "autoscaler", int(self.server_address[1])

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; what TLS has to say is said on the connection's thread."""
        connection, address = super().get_request()
        if self.intake.tls is not None:
            connection = self.intake.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Note that an answer is under way."""
        with self._counting:
            self._answering += 1
        try:
            yield
        finally:
            with self._counting:
                self._answering -= 1
                self._answered.notify_all()

    def wait_answered(self, seconds: float) -> None:
        """Wait until no answer is under way, at most so long."""
        with self._counting:
            self._answered.wait_for(lambda: self._answering == 0, seconds)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread, or drop it when there are too many."""
        with self._counting:
            full = len(self._open) >= _CONNECTIONS
            if not full:
                self._open.add(request)
        if full:
            log.warning("http.too_many_connections", limit=_CONNECTIONS)
            super().shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._counting:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note that a client went away; the standard library would print a stack."""
        log.debug("http.connection_lost")

    def idle_s(self) -> float:
        """How long a connection may wait for its next request: less while many are open."""
        with self._counting:
            return _IDLE_S if len(self._open) < _CONNECTIONS // 2 else _BUSY_IDLE_S

    def hang_up(self) -> None:
        """End the connections that are still open; their threads notice."""
        with self._counting:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    log.debug("http.already_closed")


class _Bounded(io.RawIOBase):
    """Reads from a socket until a deadline and up to a number of bytes, however slowly they drip."""

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._until = 0.0
        self._budget = 0

    def allow(self, seconds: float, more_bytes: int) -> None:
        self._until = self._clock.now().mono + seconds
        self._budget = more_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._until - self._clock.now().mono
        if left_s <= 0:
            raise TimeoutError
        if self._budget <= 0:
            raise HttpProblem(431, "head_too_large", f"the request's head is larger than {_HEAD_BYTES} bytes")
        self._connection.settimeout(left_s)
        got = self._connection.recv_into(memoryview(buffer)[: self._budget])
        self._budget -= got
        return got


class _Connection(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    wbufsize = 64 * 1024  # head and body in one packet
    default_request_version = "HTTP/1.1"  # or answers to garbage would have no status line

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            # On this thread, so that a slow client holds up no other.
            self.request.settimeout(_HEAD_S)
            self.request.do_handshake()
        super().setup()
        self.rfile.close()
        self._source = _Bounded(self.connection, self.server.clock)
        self._reader = self.rfile = io.BufferedReader(self._source)
        self._first = True

    def handle_one_request(self) -> None:
        self.close_connection = True
        self.command = self.path = self.requestline = ""
        self.route = OTHER
        self.request_version = self.protocol_version
        try:
            if not self._begun():
                return
            self._began = self.server.clock.now().mono
            self._source.allow(_HEAD_S, _HEAD_BYTES)
            self.raw_requestline = self.rfile.readline(_LINE_BYTES + 1)
            if len(self.raw_requestline) > _LINE_BYTES:
                raise HttpProblem(414, "uri_too_long", f"the request line is longer than {_LINE_BYTES} bytes")
            if not self.parse_request():
                return
            keep = not self.close_connection
            self.close_connection = True  # until the request has been read to its end
            self._serve(keep)
        except HttpProblem as problem:
            self._refuse(problem)
        except TimeoutError:
            self._refuse(HttpProblem(408, "timeout", "the request took too long to arrive"))

    def _begun(self) -> bool:
        self._source.allow(_HEAD_S if self._first else self.server.idle_s(), _HEAD_BYTES)
        self._first = False
        try:
            return bool(self._reader.peek(1))
        except TimeoutError:
            return False

    def _serve(self, keep: bool) -> None:
        if self.command not in _METHODS:
            raise HttpProblem(501, "unknown_method", "the method is not known")
        self.route, handler = find(self.server.routes, self.command, urlsplit(self.path).path)
        request = self._request()
        self.close_connection = not keep
        with self.server.answering():
            self._send(answer(handler, request))

    def _request(self) -> Request:
        try:
            target = urlsplit(self.path)
            query = dict(parse_qsl(target.query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS))
        except ValueError:
            raise HttpProblem(400, "invalid_url", "the URL cannot be parsed") from None
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self._body()
        took_s = self.server.clock.now().mono - self._began
        return Request(self.command, target.path, query, headers, body, str(self.client_address[0]), took_s)

    def _body(self) -> bytes:
        intake = self.server.intake
        if "transfer-encoding" in self.headers:
            if intake.chunks and self.headers.get_all("transfer-encoding") == ["chunked"]:
                return self._chunked()
            raise HttpProblem(411, "length_required", "send a Content-Length instead of a Transfer-Encoding")
        lengths = self.headers.get_all("content-length") or ["0"]
        if len(set(lengths)) > 1 or not (lengths[0].isascii() and lengths[0].isdigit()):
            raise HttpProblem(400, "invalid_length", "the Content-Length is not a number")
        if len(lengths[0]) > 10 or int(lengths[0]) > intake.body_bytes:
            raise self._too_large()
        length = int(lengths[0])
        if length:
            self._go_on()
        self._source.allow(intake.body_s, length)
        body = self.rfile.read(length)
        if len(body) < length:
            raise HttpProblem(400, "body_too_short", "the body is shorter than its Content-Length")
        return body

    def _go_on(self) -> None:
        if self.headers.get("expect", "").lower() == "100-continue":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
            self.wfile.flush()

    def _too_large(self) -> HttpProblem:
        return HttpProblem(413, "body_too_large", f"the body is larger than {self.server.intake.body_bytes} bytes")

    def _chunked(self) -> bytes:
        """Read a body in chunks; what surrounds them may be as large as they are."""
        self._go_on()
        intake, body = self.server.intake, bytearray()
        self._source.allow(intake.body_s, 2 * intake.body_bytes + _HEAD_BYTES)
        while size := self._chunk_size():
            if len(body) + size > intake.body_bytes:
                raise self._too_large()
            body += self.rfile.read(size)
            self._chunk_line()
        while self._chunk_line():
            continue  # trailers
        return bytes(body)

    def _chunk_size(self) -> int:
        digits = self._chunk_line().partition(b";")[0].strip()
        if not digits or len(digits) > 8 or digits.strip(b"0123456789abcdefABCDEF"):
            raise HttpProblem(400, "invalid_chunk", "the body is not in chunks")
        return int(digits, 16)

    def _chunk_line(self) -> bytes:
        line = self.rfile.readline(_CHUNK_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise HttpProblem(400, "invalid_chunk", "the body is not in chunks")
        return line.strip(b"\r\n")

    def _send(self, response: Response) -> None:
        self.connection.settimeout(_SEND_S)
        self.send_response_only(response.status)
        own = {"Content-Type": response.content_type, "Content-Length": str(len(response.body))}
        if self.close_connection:
            own["Connection"] = "close"
        for name, value in {**_SAFE_HEADERS, **response.headers, **own}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)
        self.wfile.flush()
        self.server.intake.answered(self.route, response.status)
        log.debug("http.answered", method=self.command, path=self.path.partition("?")[0], status=response.status)

    def _refuse(self, problem: HttpProblem) -> None:
        self.close_connection = True
        self._send(problem_response(problem))
        # Closing with input unread would reset the connection, and the client might never see the answer.
        self.connection.shutdown(socket.SHUT_WR)
        self._source.allow(_LINGER_S, _LINGER_BYTES)
        with contextlib.suppress(TimeoutError, HttpProblem):
            while self._source.read(_LINE_BYTES):
                pass

    def handle_expect_100(self) -> bool:
        return True  # answered once the length is known to be acceptable

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self._refuse(HttpProblem(code, "bad_request", message or HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the standard library's name
        pass
