"""Limits the connections of a server, and selects which one a new connection replaces.

A connection may be closed while the server waits for its client: to send its head or body, or to read its response. A
connection may not be closed while its response is computed. The limit on such responses is therefore lower than the
limit on connections, so there is always room for a probe.
"""

import contextlib
import ipaddress
import itertools
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from enum import Enum, auto

import msgspec

from autoscaler.clock import Clock
from autoscaler.logs import Log
from autoscaler.observe.http.routing import HttpProblem

_CLOSE_WAIT_S = 1.0
"""Seconds that a thread may take to notice that its connection was closed."""
_LOG_INTERVAL_S = 60.0
_RETRY_LATER = {"Retry-After": "1"}

log = Log(__name__)


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on simultaneous work of a server."""

    connections: int = 128
    answers: int = 32
    """Responses being computed or sent; probes do not count."""
    body_bytes_total: int = 16 * 1024 * 1024
    """Limit on the total size of all bodies."""


class ConnectionPhase(Enum):
    """What a connection waits for."""

    HEAD = auto()
    """The next request, or the rest of its head."""
    BODY = auto()
    ANSWER = auto()
    """Waits for the server to compute the response."""
    SENDING = auto()
    """Waits for the client to read the response."""


class AdmittedConnection:
    """A connection that was accepted."""

    def __init__(self, connection: socket.socket, network: str, since: int) -> None:
        self.socket = connection
        self.network = network
        self.phase = ConnectionPhase.HEAD
        self.since = since
        """Sequence number of its phase; the connection with the smallest has waited longest."""
        self.body_bytes = 0
        """Bytes of its body received so far."""
        self.is_answer = False
        """Whether its response counts towards the limit."""
        self.closing = False


class ConnectionLimiter:
    """Admits connections within the limits. Threads may share it."""

    def __init__(self, limits: ServerLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._connections: dict[socket.socket, AdmittedConnection] = {}
        self._sequence = itertools.count()
        self._changed = threading.Condition()
        self._body_bytes = 0
        self._closed_count = 0
        self._logged_at: float | None = None

    def admit(self, connection: socket.socket, address: str) -> AdmittedConnection | None:
        """Admit a connection, closing another one if necessary; return None if no connection can be closed."""
        with self._changed:
            if not self._has_room():
                self._close_one_of(ConnectionPhase.HEAD, ConnectionPhase.BODY, ConnectionPhase.SENDING)
                closing = any(admitted.closing for admitted in self._connections.values())
                if not self._changed.wait_for(self._has_room, _CLOSE_WAIT_S if closing else 0.0):
                    self._log_closed()
                    return None
            admitted = self._connections[connection] = AdmittedConnection(
                connection, network_of(address), next(self._sequence)
            )
            return admitted

    def release(self, connection: socket.socket) -> None:
        """Record that a connection has ended."""
        with self._changed:
            admitted = self._connections.pop(connection, None)
            self._body_bytes -= 0 if admitted is None else admitted.body_bytes
            self._changed.notify_all()

    def set_phase(self, admitted: AdmittedConnection, phase: ConnectionPhase) -> None:
        """Record what a connection waits for."""
        with self._changed:
            admitted.phase, admitted.since = phase, next(self._sequence)

    def add_body_bytes(self, admitted: AdmittedConnection, size: int) -> None:
        """Count more bytes of a body. Above the total limit, close the connection with the largest body.

        Raises `HttpProblem` if that is this connection.
        """
        with self._changed:
            admitted.body_bytes += size
            self._body_bytes += size
            while self._body_bytes > self._limits.body_bytes_total:
                reading = [
                    other
                    for other in self._connections.values()
                    if other.phase is ConnectionPhase.BODY and not other.closing
                ]
                largest = max(reading, key=lambda other: other.body_bytes, default=admitted)
                if largest.body_bytes <= admitted.body_bytes:
                    raise HttpProblem(503, "busy", "too many bodies arrive at a time; try again", headers=_RETRY_LATER)
                self._close(largest)

    @contextlib.contextmanager
    def answering(self, admitted: AdmittedConnection, *, probe: bool) -> Iterator[None]:
        """Count a response while it is computed and sent; raises `HttpProblem` if there are too many."""
        with self._changed:
            if (
                not probe
                and self._answers() >= self._limits.answers
                and not self._close_one_of(ConnectionPhase.SENDING)
            ):
                raise HttpProblem(503, "busy", "too many requests are being answered; try again", headers=_RETRY_LATER)
            admitted.is_answer, admitted.phase, admitted.since = not probe, ConnectionPhase.ANSWER, next(self._sequence)
        try:
            yield
        finally:
            with self._changed:
                self._body_bytes -= admitted.body_bytes
                admitted.body_bytes, admitted.is_answer = 0, False
                admitted.phase, admitted.since = ConnectionPhase.HEAD, next(self._sequence)
                self._changed.notify_all()

    def wait_for_answers(self, seconds: float) -> None:
        """Wait until no response is in progress, for at most `seconds`."""
        with self._changed:
            self._changed.wait_for(
                lambda: all(admitted.phase is not ConnectionPhase.ANSWER for admitted in self._connections.values()),
                seconds,
            )

    def close_all(self) -> None:
        """Close all connections; their threads notice."""
        with self._changed:
            for admitted in self._connections.values():
                _shut(admitted.socket)

    def _answers(self) -> int:
        return sum(admitted.is_answer and not admitted.closing for admitted in self._connections.values())

    def _has_room(self) -> bool:
        return len(self._connections) < self._limits.connections

    def _close_one_of(self, *phases: ConnectionPhase) -> bool:
        """Close a connection that waits for its client, from the network with the most: those that wait for a head
        first, oldest first.

        If more clients delay bodies than heads, close one that delays a body, because bodies would otherwise take all
        the room.
        """
        open_connections = [admitted for admitted in self._connections.values() if not admitted.closing]
        waiting = [admitted for admitted in open_connections if admitted.phase in phases]
        if not waiting:
            return False
        counts = Counter(admitted.network for admitted in open_connections)
        most = max(counts[admitted.network] for admitted in waiting)
        waiting = [admitted for admitted in waiting if counts[admitted.network] == most]
        in_head = [admitted for admitted in waiting if admitted.phase is ConnectionPhase.HEAD]
        others = [admitted for admitted in waiting if admitted.phase is not ConnectionPhase.HEAD]
        self._close(min(in_head if len(in_head) >= len(others) else others, key=lambda admitted: admitted.since))
        return True

    def _close(self, admitted: AdmittedConnection) -> None:
        self._body_bytes -= admitted.body_bytes
        admitted.body_bytes, admitted.closing = 0, True
        _shut(admitted.socket)
        self._log_closed()

    def _log_closed(self) -> None:
        """Log the number of connections closed by the limits, at most once a minute."""
        self._closed_count += 1
        now = self._clock.now().mono
        if self._logged_at is None or now - self._logged_at >= _LOG_INTERVAL_S:
            log.warning("http.too_many_connections", limit=self._limits.connections, sent_away=self._closed_count)
            self._logged_at, self._closed_count = now, 0


def network_of(address: str) -> str:
    """Return the addresses that one client can choose from: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
