"""One connection of a server: reads requests one by one within limits, and answers them."""

import contextlib
import re
import select
import socket
from collections.abc import Callable, Iterator

import msgspec

from autoscaler.clock import Clock
from autoscaler.logs import Log
from autoscaler.observe.http.connection_limits import (
    AdmittedConnection,
    ConnectionLimiter,
    ConnectionPhase,
    ServerLimits,
)
from autoscaler.observe.http.request_head import HEAD_BYTES, LINE_BYTES, RequestHead, read_head, write_head
from autoscaler.observe.http.routing import (
    MAX_BODY_BYTES,
    PROBES,
    BodyVerifier,
    Handler,
    HttpProblem,
    Request,
    Response,
    Routes,
    answer,
    match_route,
    problem_response,
    verifier_for,
)

HEAD_S = 10.0
_LINGER_S = 5.0
_LINGER_BYTES = 16 * 1024 * 1024
_IDLE_S = 75.0  # above the scrape interval of most monitoring
_PIECE_BYTES = 64 * 1024
_CHUNK_LINE_BYTES = 1024
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(;.*)?")
_BARE_LINE_END = re.compile(rb"(?<!\r)\n|\r[^\n]")
"""A line feed without carriage return, or a carriage return whose next byte is not a line feed."""
_HEAD_END = b"\r\n\r\n"
_NO_ROUTE = "other"

_SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

log = Log(__name__)


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the requests of a client."""

    body_bytes: int = MAX_BODY_BYTES
    body_s: float = 10.0
    send_s: float = 30.0
    """Seconds within which a client must have read its response."""
    chunks: bool = False
    """Whether a body may be chunked, without a known length."""
    server: ServerLimits = ServerLimits()
    on_answered: Callable[[str, int], None] = lambda path, code: None
    """Called with the route (or `other`) and status of every response."""


class _RequestReader:
    """Reads bytes from a socket until a deadline, however slowly they arrive."""

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._deadline = 0.0
        self.buffer = bytearray()

    def set_deadline(self, seconds: float) -> None:
        self._deadline = self._clock.now().mono + seconds

    def receive(self, max_bytes: int = _PIECE_BYTES) -> bool:
        """Wait for more bytes; return False at the end of the stream. Raises `TimeoutError`."""
        left_s = self._deadline - self._clock.now().mono
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        piece = self._connection.recv(max_bytes)
        self.buffer += piece
        return bool(piece)

    def head(self) -> bytes:
        """Return the next head without its final empty line; raises as soon as the head exceeds a limit or has bad
        line ends.
        """
        buffer, seen = self.buffer, 0
        if buffer.startswith(b"\r\n"):
            del buffer[:2]  # some clients send an empty line after a body
        while True:
            end = buffer.find(_HEAD_END, max(0, seen - len(_HEAD_END)))
            known = len(buffer) if end < 0 else end
            if known > LINE_BYTES and buffer.find(b"\r\n", 0, LINE_BYTES + 2) < 0:
                raise HttpProblem(414, "uri_too_long", f"the request line is longer than {LINE_BYTES} bytes")
            if known > HEAD_BYTES:
                raise HttpProblem(431, "head_too_large", f"the request's head is larger than {HEAD_BYTES} bytes")
            if _BARE_LINE_END.search(buffer, max(0, seen - 2), known):
                raise HttpProblem(400, "bad_request", "lines do not end with carriage return and line feed")
            if end >= 0:
                return self._take(end + len(_HEAD_END))[: -len(_HEAD_END)]
            seen = len(buffer)
            if not self.receive():
                raise HttpProblem(400, "bad_request", "the request ends before its head does")

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield `size` bytes in pieces as they arrive; raises `HttpProblem` if the stream ends early."""
        while size:
            if not self.buffer and not self.receive(min(size, _PIECE_BYTES)):
                raise HttpProblem(400, "body_too_short", "the body is shorter than it was said to be")
            piece = self._take(min(size, len(self.buffer)))
            size -= len(piece)
            yield piece

    def chunk_line(self) -> bytes:
        """Return a line between chunks, without its line end."""
        while (end := self.buffer.find(b"\r\n", 0, _CHUNK_LINE_BYTES)) < 0:
            if len(self.buffer) >= _CHUNK_LINE_BYTES or not self.receive():
                raise _not_in_chunks()
        line = self._take(end + 2)[:-2]
        if b"\n" in line or b"\r" in line:
            raise _not_in_chunks()
        return line

    def _take(self, size: int) -> bytes:
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken


class Connection:
    """Reads and answers requests until one side closes the connection. The caller handles socket errors."""

    def __init__(
        self,
        admitted: AdmittedConnection,
        source: str,
        limiter: ConnectionLimiter,
        routes: Routes,
        clock: Clock,
        limits: RequestLimits,
    ) -> None:
        self._admitted = admitted
        self._connection = admitted.socket
        self._source = source
        self._limiter = limiter
        self._routes = routes
        self._clock = clock
        self._limits = limits
        self._reader = _RequestReader(admitted.socket, clock)
        self._route, self._without_body, self._send_deadline = _NO_ROUTE, False, 0.0

    def serve(self) -> None:
        """Serve requests in sequence."""
        try:
            keep_alive = self._wait_for_request(HEAD_S) and self._serve_request()
            while keep_alive and self._wait_for_request(_IDLE_S):
                keep_alive = self._serve_request()
        except HttpProblem as problem:
            self._send_problem(problem)
        except TimeoutError:
            self._send_problem(HttpProblem(408, "timeout", "the request took too long to arrive"))

    def _wait_for_request(self, wait_s: float) -> bool:
        """Wait for the first byte of a request; return False if none arrives."""
        self._route, self._without_body = _NO_ROUTE, False
        self._reader.set_deadline(wait_s)
        try:
            return bool(self._reader.buffer) or self._reader.receive()
        except TimeoutError:
            return False

    def _serve_request(self) -> bool:
        """Read and answer a request; return whether the connection stays open."""
        began = self._clock.now().mono
        self._reader.set_deadline(HEAD_S)
        text = self._reader.head()
        self._without_body = text.startswith(b"HEAD ")
        head = read_head(text)
        self._route, handler = match_route(self._routes, head.method, head.path)
        request = Request(
            head.method, head.path, head.query, head.headers, source=self._source, client_gone=self._client_gone
        )
        verifier = verifier_for(handler, request)
        body = self._body(head, verifier)
        took_s = self._clock.now().mono - began
        request = msgspec.structs.replace(request, body=body, verifier=verifier, took_s=took_s)
        self._answer(handler, request, head.keep_alive)
        return head.keep_alive

    def _answer(self, handler: Handler, request: Request, keep_alive: bool) -> None:
        with self._limiter.answering(self._admitted, probe=self._route in PROBES):
            response = answer(handler, request)
            self._limiter.set_phase(self._admitted, ConnectionPhase.SENDING)
            self._send(response, keep_alive)

    def _body(self, head: RequestHead, verifier: BodyVerifier | None) -> bytes:
        if head.length is None and not self._limits.chunks:
            raise HttpProblem(411, "length_required", "send a Content-Length instead of a Transfer-Encoding")
        if head.length is not None and head.length > self._limits.body_bytes:
            raise self._too_large()
        self._limiter.set_phase(self._admitted, ConnectionPhase.BODY)
        if head.expects_continue:
            self._send_deadline = self._clock.now().mono + self._limits.send_s
            self._send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._reader.set_deadline(self._limits.body_s)
        body = bytearray()
        for piece in self._chunks() if head.length is None else self._reader.pieces(head.length):
            self._limiter.add_body_bytes(self._admitted, len(piece))
            if verifier is not None:
                verifier.update(piece)
            body += piece
        return bytes(body)

    def _too_large(self) -> HttpProblem:
        return HttpProblem(413, "body_too_large", f"the body is larger than {self._limits.body_bytes} bytes")

    def _chunks(self) -> Iterator[bytes]:
        """Yield the data of a chunked body; the chunk headers together may be as large as the data."""
        bytes_left, overhead_left = self._limits.body_bytes, self._limits.body_bytes + HEAD_BYTES
        while True:
            line = self._reader.chunk_line()
            matched = _CHUNK.fullmatch(line)
            if matched is None:
                raise _not_in_chunks()
            size = int(matched[1], 16)
            bytes_left, overhead_left = bytes_left - size, overhead_left - len(line)
            if bytes_left < 0 or overhead_left < 0:
                raise self._too_large()
            if not size:
                break
            yield from self._reader.pieces(size)
            if self._reader.chunk_line():
                raise _not_in_chunks()
        while trailer := self._reader.chunk_line():
            overhead_left -= len(trailer)
            if overhead_left < 0:
                raise self._too_large()

    def _send(self, response: Response, keep_alive: bool) -> None:
        self._send_deadline = self._clock.now().mono + self._limits.send_s
        own = {**_SAFE_HEADERS, "Content-Type": response.content_type, "Content-Length": str(len(response.body))}
        if not keep_alive:
            own["Connection"] = "close"
        head = write_head(response, own)
        body = b"" if self._without_body else response.body
        first = _PIECE_BYTES - len(head)
        self._send_all(head + body[:first])  # in one packet if it fits
        self._send_all(memoryview(body)[first:])
        self._limits.on_answered(self._route, response.status)
        log.debug("http.answered", route=self._route, status=response.status)

    def _send_all(self, content: bytes | memoryview) -> None:
        """Send all of the content; raises `_ClientNotReading` if the client does not read it in time."""
        bytes_left = memoryview(content)
        while bytes_left:
            left_s = self._send_deadline - self._clock.now().mono
            if left_s <= 0:
                raise _ClientNotReading
            self._connection.settimeout(left_s)
            try:
                bytes_left = bytes_left[self._connection.send(bytes_left[:_PIECE_BYTES]) :]
            except TimeoutError:
                raise _ClientNotReading from None

    def _send_problem(self, problem: HttpProblem) -> None:
        self._limiter.set_phase(self._admitted, ConnectionPhase.SENDING)
        self._send(problem_response(problem), keep_alive=False)
        # Closing a socket with unread input would reset it, and the client might never see the response.
        self._connection.shutdown(socket.SHUT_WR)
        self._reader.set_deadline(_LINGER_S)
        bytes_left = _LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            while bytes_left > 0 and self._reader.receive():
                bytes_left -= len(self._reader.buffer)
                self._reader.buffer.clear()

    def _client_gone(self) -> bool:
        """Whether the client has closed the connection, or its sending half, as in Go's HTTP server."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        try:
            # Of TLS, too, only the encrypted bytes are checked.
            return bool(poll.poll(0)) and not socket.socket.recv(self._connection, 1, socket.MSG_PEEK)
        except OSError:
            return True


class _ClientNotReading(OSError):
    """The client does not read its response."""


def _not_in_chunks() -> HttpProblem:
    return HttpProblem(400, "invalid_chunk", "the body is not in chunks")
