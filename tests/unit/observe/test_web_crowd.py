"""A server among hostile clients: which clients it admits and which it drops. Probes always get their answer."""

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator

import pytest

from autoscaler.clock import VirtualClock
from autoscaler.observe.http.connection import RequestLimits
from autoscaler.observe.http.connection_limits import (
    AdmittedConnection,
    ConnectionLimiter,
    ConnectionPhase,
    ServerLimits,
    network_of,
)
from autoscaler.observe.http.routing import Request, Response, Routes
from autoscaler.observe.http.server import WebServer

WAIT_S = 10.0
FLOOD = 60
SMALL = RequestLimits(
    body_bytes=1000, send_s=WAIT_S, server=ServerLimits(connections=8, answers=2, body_bytes_total=1500)
)
LARGE_ANSWER = bytes(32 * 1024 * 1024)
"""More than two sockets hold that nobody reads."""


class Slow:
    """A route that answers when it is told."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()

    def __call__(self, _: Request) -> Response:
        self.begun.release()
        assert self.go_on.wait(WAIT_S)
        return Response(b"slow")


class Size:
    """A route that answers with the size of a body, and counts the bytes of all bodies while they arrive."""

    def __init__(self) -> None:
        self._received = 0
        self._changed = threading.Condition()

    def authenticate(self, _: Request) -> "Size":
        return self

    def update(self, piece: bytes) -> None:
        with self._changed:
            self._received += len(piece)
            self._changed.notify_all()

    def check(self) -> None: ...

    def __call__(self, request: Request) -> Response:
        return Response(str(len(request.body)).encode())

    def wait(self, received: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._received >= received, WAIT_S)


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def size() -> Size:
    return Size()


@pytest.fixture
def server(slow: Slow, size: Size) -> Iterator[WebServer]:
    routes: Routes = {
        "/healthz": {"GET": lambda _: Response(b"ok")},
        "/slow": {"GET": slow},
        "/large": {"GET": lambda _: Response(LARGE_ANSWER)},
        "/size": {"POST": size},
    }
    made = WebServer("127.0.0.1:0", routes, VirtualClock(), SMALL)
    made.start()
    yield made
    slow.go_on.set()
    made.stop()


@pytest.fixture
def crowd() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def knock(server: WebServer, crowd: contextlib.ExitStack, said: bytes = b"") -> socket.socket:
    connection = crowd.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S))
    connection.sendall(said)
    return connection


def answer_to(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            received += piece
    return received


def asked(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()


def posted(length: int, body: bytes) -> bytes:
    return f"POST /size HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n".encode() + body


HOSTILE = {
    "nothing": b"",
    "half a request line": b"GET /hea",
    "half a head": b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
    "half a body": posted(100, b"x"),
    "an answer that nobody reads": asked("/large"),
    "an idle connection": asked("/healthz").replace(b"close", b"keep-alive"),
}


@pytest.mark.parametrize("said", HOSTILE.values(), ids=HOSTILE)
def test_every_probe_is_answered_among_clients_that_hold_back(
    server: WebServer, crowd: contextlib.ExitStack, said: bytes
) -> None:
    for _ in range(FLOOD):
        knock(server, crowd, said)
        with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as probe:
            probe.sendall(asked("/healthz"))
            assert answer_to(probe).endswith(b"\r\n\r\nok")


def test_the_oldest_without_a_head_goes_first_and_whoever_is_being_answered_stays(
    server: WebServer, slow: Slow, crowd: contextlib.ExitStack
) -> None:
    served = knock(server, crowd, asked("/slow"))
    assert slow.begun.acquire(timeout=WAIT_S)
    waiting = [knock(server, crowd, b"GET ") for _ in range(7)]
    newcomer = knock(server, crowd, asked("/healthz"))
    assert answer_to(newcomer).endswith(b"ok")
    assert answer_to(waiting[0]) == b""
    waiting[1].sendall(asked("/healthz").removeprefix(b"GET "))
    assert answer_to(waiting[1]).endswith(b"ok")
    slow.go_on.set()
    assert answer_to(served).endswith(b"slow")


def test_so_many_answers_are_made_at_a_time_and_probes_come_on_top(
    server: WebServer, slow: Slow, crowd: contextlib.ExitStack
) -> None:
    for _ in range(2):
        knock(server, crowd, asked("/slow"))
        assert slow.begun.acquire(timeout=WAIT_S)
    refused = answer_to(knock(server, crowd, asked("/slow")))
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 1\r\n" in refused
    assert answer_to(knock(server, crowd, asked("/healthz"))).endswith(b"ok")


def test_whoever_does_not_read_makes_room_for_the_next_answer(
    server: WebServer, slow: Slow, crowd: contextlib.ExitStack
) -> None:
    lazy = []
    for _ in range(2):
        lazy.append(knock(server, crowd, asked("/large")))
        assert lazy[-1].recv(1)
    assert answer_to(knock(server, crowd, posted(3, b"abc"))).endswith(b"3")
    assert len(answer_to(lazy[0])) < len(LARGE_ANSWER)


def test_a_client_that_reads_slowly_is_cut_off_in_the_end(crowd: contextlib.ExitStack) -> None:
    clock, seen = VirtualClock(), threading.Event()

    def large(_: Request) -> Response:
        seen.set()
        return Response(LARGE_ANSWER)

    server = WebServer("127.0.0.1:0", {"/large": {"GET": large}}, clock, RequestLimits(send_s=5.0))
    server.start()
    try:
        connection = knock(server, crowd, asked("/large"))
        assert connection.recv(1)
        received = 1
        for _ in range(10):
            clock.advance(1.0)
            received += len(connection.recv(1024))
        received += len(answer_to(connection))
        assert received < len(LARGE_ANSWER)
    finally:
        server.stop()


def test_bodies_are_bounded_in_all_and_the_largest_goes(
    server: WebServer, size: Size, crowd: contextlib.ExitStack
) -> None:
    large = knock(server, crowd, posted(1000, b"x" * 900))
    size.wait(900)
    assert answer_to(knock(server, crowd, posted(500, b"x" * 500))).endswith(b"500")
    others = [knock(server, crowd, posted(401, b"x" * 400)) for _ in range(2)]
    size.wait(900 + 500 + 2 * 400)
    assert answer_to(large) == b""
    for other in others:
        other.sendall(b"x")
        assert answer_to(other).endswith(b"401")


def test_a_handler_is_told_that_its_client_has_hung_up(crowd: contextlib.ExitStack) -> None:
    asked_for, reported = threading.Semaphore(0), []
    go_on = threading.Semaphore(0)

    def patient(request: Request) -> Response:
        for _ in range(2):
            asked_for.release()
            assert go_on.acquire(timeout=WAIT_S)
            reported.append(request.client_gone())
        asked_for.release()
        return Response(b"")

    server = WebServer("127.0.0.1:0", {"/": {"GET": patient}}, VirtualClock())
    server.start()
    try:
        connection = knock(server, crowd, asked("/"))
        assert asked_for.acquire(timeout=WAIT_S)
        go_on.release()
        assert asked_for.acquire(timeout=WAIT_S)
        connection.close()
        go_on.release()
        assert asked_for.acquire(timeout=WAIT_S)
        assert reported == [False, True]
    finally:
        server.stop()


def test_refusals_are_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock, pairs = VirtualClock(), [socket.socketpair() for _ in range(20)]
    limiter = ConnectionLimiter(ServerLimits(connections=2), clock)

    def come(number: int) -> None:
        admitted = limiter.admit(pairs[number][0], "192.0.2.1")
        if admitted is not None:
            limiter.set_phase(admitted, ConnectionPhase.ANSWER)

    with caplog.at_level(logging.WARNING):
        for number in range(10):
            come(number)
        clock.advance(61.0)
        for number in range(10, 20):
            come(number)
    reported = [record.__dict__["fields"]["sent_away"] for record in caplog.records]
    assert reported == [1, 8]
    for pair in pairs:
        for end in pair:
            end.close()


class Guests:
    """Connections from addresses, without a server: whoever is sent away leaves at once."""

    def __init__(self, connections: int) -> None:
        self.limiter = ConnectionLimiter(ServerLimits(connections=connections), VirtualClock())
        self.there: list[tuple[str, AdmittedConnection]] = []

    def come(self, address: str, phase: ConnectionPhase = ConnectionPhase.HEAD) -> None:
        ours, theirs = socket.socketpair()
        watch = threading.Thread(target=self._leave_when_told, args=(ours, theirs))
        watch.start()
        admitted = self.limiter.admit(ours, address)
        assert admitted is not None
        self.limiter.set_phase(admitted, phase)
        self.there.append((address, admitted))

    def _leave_when_told(self, ours: socket.socket, theirs: socket.socket) -> None:
        theirs.settimeout(WAIT_S)
        with contextlib.suppress(OSError):
            theirs.recv(1)
        self.limiter.release(ours)
        ours.close()
        theirs.close()

    def gone(self) -> list[int]:
        return [number for number, (_, admitted) in enumerate(self.there) if admitted.closing]


@pytest.mark.parametrize(
    ("there", "goes"),
    [
        pytest.param(
            [("a", ConnectionPhase.HEAD), ("b", ConnectionPhase.HEAD), ("b", ConnectionPhase.HEAD)],
            1,
            id="the address with most",
        ),
        pytest.param(
            [("a", ConnectionPhase.SENDING), ("b", ConnectionPhase.HEAD), ("c", ConnectionPhase.HEAD)],
            1,
            id="a head before an answer",
        ),
        pytest.param(
            [("a", ConnectionPhase.HEAD), ("b", ConnectionPhase.BODY), ("c", ConnectionPhase.BODY)],
            1,
            id="a body where most are",
        ),
        pytest.param(
            [("a", ConnectionPhase.ANSWER), ("a", ConnectionPhase.ANSWER), ("c", ConnectionPhase.HEAD)],
            2,
            id="nobody being answered",
        ),
    ],
)
def test_who_goes(there: list[tuple[str, ConnectionPhase]], goes: int) -> None:
    guests = Guests(len(there))
    for address, phase in there:
        guests.come(address, phase)
    guests.come("z")
    assert guests.gone() == [goes]
    guests.limiter.close_all()


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_networks(address: str, network: str) -> None:
    assert network_of(address) == network
