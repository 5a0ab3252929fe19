"""One connection of a server: requests are read from it in turn, each within limits, and answered."""

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
    MOST_BODY_BYTES,
    PROBES,
    BodyVerifier,
    Handler,
    HttpProblem,
    Request,
    Response,
    Routes,
    admission,
    answer,
    find,
    problem_response,
)

HEAD_S = 10.0
_LINGER_S = 5.0
_LINGER_BYTES = 16 * 1024 * 1024
_IDLE_S = 75.0  # above the scrape interval of most monitoring
_PIECE_BYTES = 64 * 1024
_CHUNK_LINE_BYTES = 1024
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(;.*)?")
_BARE = re.compile(rb"(?<!\r)\n|\r[^\n]")
"""A line feed or a carriage return alone, as far as that can be known."""
_END = b"\r\n\r\n"
_OTHER = "other"

_SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

log = Log(__name__)


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a server takes of a client."""

    body_bytes: int = MOST_BODY_BYTES
    body_s: float = 10.0
    send_s: float = 30.0
    """Within so long a client has to have read its answer."""
    chunks: bool = False
    """Whether a body may come without its length, in chunks."""
    capacity: ServerLimits = ServerLimits()
    answered: Callable[[str, int], None] = lambda path, code: None
    """Hears the route, or `other`, and the status of every answer."""


class _Inflow:
    """Bytes from a socket, until a deadline, however slowly they drip."""

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._until = 0.0
        self.buffer = bytearray()

    def allow(self, seconds: float) -> None:
        self._until = self._clock.now().mono + seconds

    def more(self, most: int = _PIECE_BYTES) -> bool:
        """Wait for more bytes; False: there will be none. Raises `TimeoutError`."""
        left_s = self._until - self._clock.now().mono
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        piece = self._connection.recv(most)
        self.buffer += piece
        return bool(piece)

    def head(self) -> bytes:
        """Return the next head without the empty line after it, as soon as it is known to be bounded and in lines."""
        buffer, seen = self.buffer, 0
        if buffer.startswith(b"\r\n"):
            del buffer[:2]  # some clients send it after a body
        while True:
            end = buffer.find(_END, max(0, seen - len(_END)))
            known = len(buffer) if end < 0 else end
            if known > LINE_BYTES and buffer.find(b"\r\n", 0, LINE_BYTES + 2) < 0:
                raise HttpProblem(414, "uri_too_long", f"the request line is longer than {LINE_BYTES} bytes")
            if known > HEAD_BYTES:
                raise HttpProblem(431, "head_too_large", f"the request's head is larger than {HEAD_BYTES} bytes")
            if _BARE.search(buffer, max(0, seen - 2), known):
                raise HttpProblem(400, "bad_request", "lines do not end with carriage return and line feed")
            if end >= 0:
                return self._taken(end + len(_END))[: -len(_END)]
            seen = len(buffer)
            if not self.more():
                raise HttpProblem(400, "bad_request", "the request ends before its head does")

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield so many bytes, as they come; raises `HttpProblem` where there are fewer."""
        while size:
            if not self.buffer and not self.more(min(size, _PIECE_BYTES)):
                raise HttpProblem(400, "body_too_short", "the body is shorter than it was said to be")
            piece = self._taken(min(size, len(self.buffer)))
            size -= len(piece)
            yield piece

    def chunk_line(self) -> bytes:
        """Return a line between chunks, without its end."""
        while (end := self.buffer.find(b"\r\n", 0, _CHUNK_LINE_BYTES)) < 0:
            if len(self.buffer) >= _CHUNK_LINE_BYTES or not self.more():
                raise _not_in_chunks()
        line = self._taken(end + 2)[:-2]
        if b"\n" in line or b"\r" in line:
            raise _not_in_chunks()
        return line

    def _taken(self, size: int) -> bytes:
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken


class Connection:
    """Reads and answers requests until either side has had enough. Errors of the socket are the caller's."""

    def __init__(
        self,
        seat: AdmittedConnection,
        source: str,
        seats: ConnectionLimiter,
        routes: Routes,
        clock: Clock,
        intake: RequestLimits,
    ) -> None:
        self._seat = seat
        self._connection = seat.connection
        self._source = source
        self._seats = seats
        self._routes = routes
        self._clock = clock
        self._intake = intake
        self._inflow = _Inflow(seat.connection, clock)
        self._route, self._bodiless, self._send_until = _OTHER, False, 0.0

    def serve(self) -> None:
        """Serve one request after the other."""
        try:
            goes_on = self._begun(HEAD_S) and self._serve_one()
            while goes_on and self._begun(_IDLE_S):
                goes_on = self._serve_one()
        except HttpProblem as problem:
            self._refuse(problem)
        except TimeoutError:
            self._refuse(HttpProblem(408, "timeout", "the request took too long to arrive"))

    def _begun(self, wait_s: float) -> bool:
        """Wait for the first byte of a request; False: none comes."""
        self._route, self._bodiless = _OTHER, False
        self._inflow.allow(wait_s)
        try:
            return bool(self._inflow.buffer) or self._inflow.more()
        except TimeoutError:
            return False

    def _serve_one(self) -> bool:
        """Read and answer a request; return whether the connection goes on."""
        began = self._clock.now().mono
        self._inflow.allow(HEAD_S)
        text = self._inflow.head()
        self._bodiless = text.startswith(b"HEAD ")
        head = read_head(text)
        self._route, handler = find(self._routes, head.method, head.path)
        request = Request(head.method, head.path, head.query, head.headers, source=self._source, gone=self._gone)
        seal = admission(handler, request)
        body = self._body(head, seal)
        took_s = self._clock.now().mono - began
        request = msgspec.structs.replace(request, body=body, seal=seal, took_s=took_s)
        self._answer(handler, request, head.keep)
        return head.keep

    def _answer(self, handler: Handler, request: Request, keep: bool) -> None:
        with self._seats.answering(self._seat, probe=self._route in PROBES):
            response = answer(handler, request)
            self._seats.move(self._seat, ConnectionPhase.SENDING)
            self._send(response, keep)

    def _body(self, head: RequestHead, seal: BodyVerifier | None) -> bytes:
        if head.length is None and not self._intake.chunks:
            raise HttpProblem(411, "length_required", "send a Content-Length instead of a Transfer-Encoding")
        if head.length is not None and head.length > self._intake.body_bytes:
            raise self._too_large()
        self._seats.move(self._seat, ConnectionPhase.BODY)
        if head.expects:
            self._send_until = self._clock.now().mono + self._intake.send_s
            self._push(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._inflow.allow(self._intake.body_s)
        body = bytearray()
        for piece in self._chunks() if head.length is None else self._inflow.pieces(head.length):
            self._seats.hold(self._seat, len(piece))
            if seal is not None:
                seal.update(piece)
            body += piece
        return bytes(body)

    def _too_large(self) -> HttpProblem:
        return HttpProblem(413, "body_too_large", f"the body is larger than {self._intake.body_bytes} bytes")

    def _chunks(self) -> Iterator[bytes]:
        """Yield a body in chunks; what surrounds them may be as large as they are."""
        left, around = self._intake.body_bytes, self._intake.body_bytes + HEAD_BYTES
        while True:
            line = self._inflow.chunk_line()
            matched = _CHUNK.fullmatch(line)
            if matched is None:
                raise _not_in_chunks()
            size = int(matched[1], 16)
            left, around = left - size, around - len(line)
            if left < 0 or around < 0:
                raise self._too_large()
            if not size:
                break
            yield from self._inflow.pieces(size)
            if self._inflow.chunk_line():
                raise _not_in_chunks()
        while trailer := self._inflow.chunk_line():
            around -= len(trailer)
            if around < 0:
                raise self._too_large()

    def _send(self, response: Response, keep: bool) -> None:
        self._send_until = self._clock.now().mono + self._intake.send_s
        own = {**_SAFE_HEADERS, "Content-Type": response.content_type, "Content-Length": str(len(response.body))}
        if not keep:
            own["Connection"] = "close"
        head = write_head(response, own)
        body = b"" if self._bodiless else response.body
        first = _PIECE_BYTES - len(head)
        self._push(head + body[:first])  # in one packet where it fits
        self._push(memoryview(body)[first:])
        self._intake.answered(self._route, response.status)
        log.debug("http.answered", route=self._route, status=response.status)

    def _push(self, content: bytes | memoryview) -> None:
        """Send all of it; raises `_Unread` where the client does not read that in time."""
        left = memoryview(content)
        while left:
            left_s = self._send_until - self._clock.now().mono
            if left_s <= 0:
                raise _Unread
            self._connection.settimeout(left_s)
            try:
                left = left[self._connection.send(left[:_PIECE_BYTES]) :]
            except TimeoutError:
                raise _Unread from None

    def _refuse(self, problem: HttpProblem) -> None:
        self._seats.move(self._seat, ConnectionPhase.SENDING)
        self._send(problem_response(problem), keep=False)
        # Closing with input unread would reset the connection, and the client might never see the answer.
        self._connection.shutdown(socket.SHUT_WR)
        self._inflow.allow(_LINGER_S)
        left = _LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            while left > 0 and self._inflow.more():
                left -= len(self._inflow.buffer)
                self._inflow.buffer.clear()

    def _gone(self) -> bool:
        """Whether the client has hung up; one that says it will send no more counts, as in Go's HTTP server."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        try:
            # Of TLS too only the bytes underneath are looked at.
            return bool(poll.poll(0)) and not socket.socket.recv(self._connection, 1, socket.MSG_PEEK)
        except OSError:
            return True


class _Unread(OSError):
    """The client does not read its answer."""


def _not_in_chunks() -> HttpProblem:
    return HttpProblem(400, "invalid_chunk", "the body is not in chunks")
