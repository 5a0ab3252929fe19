"""The connections of a server: how many there may be at a time, and who goes when another comes.

Whoever makes the server wait can be sent away: a client that has not sent its head or its body, or does not read its
answer. An answer that is being made cannot, so fewer of those are under way than there are connections, and there
is always room for a probe.
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

_LEAVING_S = 1.0
"""How long a thread may take to notice that its connection was closed."""
_NOTICE_S = 60.0
_AGAIN = {"Retry-After": "1"}

log = Log(__name__)


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a server does at a time."""

    connections: int = 128
    answers: int = 32
    """Answers being made or sent; probes come on top."""
    held_bytes: int = 16 * 1024 * 1024
    """Of all bodies together."""


class ConnectionPhase(Enum):
    """What a connection is waiting for."""

    HEAD = auto()
    """The next request, or the rest of its head."""
    BODY = auto()
    ANSWER = auto()
    """Ourselves."""
    SENDING = auto()
    """The client has to read."""


class AdmittedConnection:
    """A connection that has been let in."""

    def __init__(self, connection: socket.socket, network: str, turn: int) -> None:
        self.connection = connection
        self.network = network
        self.phase = ConnectionPhase.HEAD
        self.turn = turn
        """Smaller: has been in its phase for longer."""
        self.held = 0
        """Bytes of its body."""
        self.counts = False
        """Whether it is one of the answers under way."""
        self.leaving = False


class ConnectionLimiter:
    """Safe to share between threads."""

    def __init__(self, capacity: ServerLimits, clock: Clock) -> None:
        self._capacity = capacity
        self._clock = clock
        self._seats: dict[socket.socket, AdmittedConnection] = {}
        self._turns = itertools.count()
        self._changed = threading.Condition()
        self._held = 0
        self._sent_away = 0
        self._noticed: float | None = None

    def enter(self, connection: socket.socket, address: str) -> AdmittedConnection | None:
        """Let a connection in, in place of another if need be; None: nobody could be sent away."""
        with self._changed:
            if not self._has_room():
                self._send_away(ConnectionPhase.HEAD, ConnectionPhase.BODY, ConnectionPhase.SENDING)
                leaving = any(seat.leaving for seat in self._seats.values())
                if not self._changed.wait_for(self._has_room, _LEAVING_S if leaving else 0.0):
                    self._notice()
                    return None
            seat = self._seats[connection] = AdmittedConnection(connection, network_of(address), next(self._turns))
            return seat

    def leave(self, connection: socket.socket) -> None:
        """Note that a connection has ended."""
        with self._changed:
            seat = self._seats.pop(connection, None)
            self._held -= 0 if seat is None else seat.held
            self._changed.notify_all()

    def move(self, seat: AdmittedConnection, phase: ConnectionPhase) -> None:
        """Note what a connection waits for from now on."""
        with self._changed:
            seat.phase, seat.turn = phase, next(self._turns)

    def hold(self, seat: AdmittedConnection, size: int) -> None:
        """Note more bytes of a body. Too many in all: whoever has sent most goes, by an `HttpProblem` if it is this."""
        with self._changed:
            seat.held += size
            self._held += size
            while self._held > self._capacity.held_bytes:
                reading = [
                    other for other in self._seats.values() if other.phase is ConnectionPhase.BODY and not other.leaving
                ]
                largest = max(reading, key=lambda other: other.held, default=seat)
                if largest.held <= seat.held:
                    raise HttpProblem(503, "busy", "too many bodies arrive at a time; try again", headers=_AGAIN)
                self._dismiss(largest)

    @contextlib.contextmanager
    def answering(self, seat: AdmittedConnection, *, probe: bool) -> Iterator[None]:
        """Note that an answer is made and sent; raises `HttpProblem` where there are too many already."""
        with self._changed:
            if not probe and self._answers() >= self._capacity.answers and not self._send_away(ConnectionPhase.SENDING):
                raise HttpProblem(503, "busy", "too many requests are being answered; try again", headers=_AGAIN)
            seat.counts, seat.phase, seat.turn = not probe, ConnectionPhase.ANSWER, next(self._turns)
        try:
            yield
        finally:
            with self._changed:
                self._held -= seat.held
                seat.held, seat.counts = 0, False
                seat.phase, seat.turn = ConnectionPhase.HEAD, next(self._turns)
                self._changed.notify_all()

    def wait_answered(self, seconds: float) -> None:
        """Wait until no answer is under way, at most so long."""
        with self._changed:
            self._changed.wait_for(
                lambda: all(seat.phase is not ConnectionPhase.ANSWER for seat in self._seats.values()), seconds
            )

    def hang_up(self) -> None:
        """End all connections; their threads notice."""
        with self._changed:
            for seat in self._seats.values():
                _shut(seat.connection)

    def _answers(self) -> int:
        return sum(seat.counts and not seat.leaving for seat in self._seats.values())

    def _has_room(self) -> bool:
        return len(self._seats) < self._capacity.connections

    def _send_away(self, *phases: ConnectionPhase) -> bool:
        """Close a connection that makes us wait, of the network that has most: heads first, the oldest of them.

        Where more clients hold back bodies than heads it is one of those, or they would leave the others no room.
        """
        staying = [seat for seat in self._seats.values() if not seat.leaving]
        waiting = [seat for seat in staying if seat.phase in phases]
        if not waiting:
            return False
        counts = Counter(seat.network for seat in staying)
        most = max(counts[seat.network] for seat in waiting)
        waiting = [seat for seat in waiting if counts[seat.network] == most]
        headless = [seat for seat in waiting if seat.phase is ConnectionPhase.HEAD]
        others = [seat for seat in waiting if seat.phase is not ConnectionPhase.HEAD]
        self._dismiss(min(headless if len(headless) >= len(others) else others, key=lambda seat: seat.turn))
        return True

    def _dismiss(self, seat: AdmittedConnection) -> None:
        self._held -= seat.held
        seat.held, seat.leaving = 0, True
        _shut(seat.connection)
        self._notice()

    def _notice(self) -> None:
        """Say that somebody was sent away, with their number, once a minute at most."""
        self._sent_away += 1
        now = self._clock.now().mono
        if self._noticed is None or now - self._noticed >= _NOTICE_S:
            log.warning("http.too_many_connections", limit=self._capacity.connections, sent_away=self._sent_away)
            self._noticed, self._sent_away = now, 0


def network_of(address: str) -> str:
    """Return what one client can choose addresses from: an IPv4 address, or 64 bits of an IPv6 one."""
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
