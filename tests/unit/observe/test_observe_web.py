import http.client
import itertools
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from autoscaler.clock import VirtualClock
from autoscaler.errors import ConfigError
from autoscaler.observe.http.connection import Connection, RequestLimits
from autoscaler.observe.http.connection_limits import AdmittedConnection, ConnectionLimiter
from autoscaler.observe.http.routing import JSON, HttpProblem, Request, Response, Routes, route
from autoscaler.observe.http.server import WebServer

WAIT_S = 10.0


def hello(request: Request) -> Response:
    return Response(f"hello {request.query.get('name', '')}".encode())


def echo(request: Request) -> Response:
    return Response(request.body, JSON)


def broken(_: Request) -> Response:
    raise RuntimeError("secret inside")


def picky(_: Request) -> Response:
    raise HttpProblem(400, "invalid_parameter", "limit must be a number", "limit")


ROUTES: Routes = {
    "/hello": {"GET": hello},
    "/echo": {"POST": echo},
    "/broken": {"GET": broken},
    "/picky": {"GET": picky},
}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def server(clock: VirtualClock) -> Iterator[WebServer]:
    server = WebServer("127.0.0.1:0", ROUTES, clock)
    server.start()
    yield server
    server.stop()


Ask = Callable[..., tuple[http.client.HTTPResponse, bytes]]


@pytest.fixture
def ask(server: WebServer) -> Ask:
    def one(
        method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)) as connection:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response, response.read()

    return one


def raw(server: WebServer, *pieces: bytes) -> bytes:
    """Send bytes as they are and return everything until the server hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return until_closed(connection)


def until_closed(connection: socket.socket) -> bytes:
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def error_of(body: bytes) -> dict[str, str]:
    (envelope,) = [json.loads(body)]
    assert list(envelope) == ["error"]
    error: dict[str, str] = envelope["error"]
    return error


@pytest.mark.parametrize(
    ("path", "status", "content_type"),
    [
        pytest.param("/hello", 200, "text/plain; charset=utf-8", id="an answer"),
        pytest.param("/nowhere", 404, JSON, id="a refusal"),
        pytest.param("/broken", 500, JSON, id="a bug"),
        pytest.param("/" + "a" * 9000, 414, JSON, id="a request that is not read"),
    ],
)
def test_every_answer_has_safe_headers(ask: Ask, path: str, status: int, content_type: str) -> None:
    response, _ = ask("GET", path)
    assert response.status == status
    safe = {
        "Content-Type": content_type,
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    assert {name: response.headers[name] for name in safe} == safe
    assert "Server" not in response.headers


def test_head_has_the_headers_of_get_and_no_body(ask: Ask) -> None:
    response, body = ask("HEAD", "/hello?name=you")
    assert (response.status, body) == (200, b"")
    assert response.headers["Content-Length"] == "9"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        pytest.param("GET", "/nowhere", 404, "not_found", id="unknown path"),
        pytest.param("GET", "/../etc/passwd", 404, "not_found", id="nothing is served from disk"),
        pytest.param("GET", "/hello/", 404, "not_found", id="no directories"),
        pytest.param("DELETE", "/hello", 405, "method_not_allowed", id="wrong method"),
        pytest.param("HEAD", "/echo", 405, "method_not_allowed", id="no HEAD without GET"),
        pytest.param("BREW", "/hello", 501, "unknown_method", id="unknown method"),
        pytest.param("GET", "/broken", 500, "internal", id="a bug in a handler"),
        pytest.param(
            "GET", "/hello?" + "&".join("a=1" for _ in range(50)), 400, "invalid_url", id="too many parameters"
        ),
        pytest.param("GET", "/hello?" + "a" * 9000, 414, "uri_too_long", id="endless URL"),
    ],
)
def test_refusals(ask: Ask, method: str, path: str, status: int, code: str) -> None:
    response, body = ask(method, path)
    assert response.status == status
    if method != "HEAD":
        assert error_of(body)["code"] == code
        assert b"secret inside" not in body


def test_405_names_what_is_possible(ask: Ask) -> None:
    response, _ = ask("PUT", "/hello")
    assert response.headers["Allow"] == "GET, HEAD"


def test_the_envelope_names_the_field(ask: Ask) -> None:
    _, body = ask("GET", "/picky")
    assert error_of(body) == {"code": "invalid_parameter", "message": "limit must be a number", "field": "limit"}


def test_a_body_comes_through(ask: Ask) -> None:
    response, body = ask("POST", "/echo", b'{"a": 1}')
    assert (response.status, body) == (200, b'{"a": 1}')


def test_connections_are_kept(server: WebServer) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)) as connection:
        for _ in range(3):
            connection.request("POST", "/echo", b"x" * 70_000)
            first = connection.sock
            assert len(connection.getresponse().read()) == 70_000
            assert connection.sock is first


def test_expect_100_is_answered(server: WebServer) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    answer = raw(server, head, b"hi")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert answer.endswith(b"hi")


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        pytest.param(b"Content-Length: 99999999", 413, "body_too_large", id="a huge body"),
        pytest.param(b"Content-Length: -1", 400, "invalid_length", id="a negative length"),
        pytest.param(b"Content-Length: 1\r\nContent-Length: 2", 400, "invalid_length", id="two lengths"),
        pytest.param(b"Transfer-Encoding: chunked", 411, "length_required", id="chunks"),
    ],
)
def test_bodies_are_bounded(server: WebServer, head: bytes, status: int, code: str) -> None:
    answer = raw(server, b"POST /echo HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert error_of(answer.partition(b"\r\n\r\n")[2])["code"] == code


def test_an_endless_head_is_cut_off(server: WebServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as connection:
        line = b"GET /hello HTTP/1.1\r\n"
        connection.sendall(line + b"X: y" * 16 * 1024)
        assert until_closed(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no request line"),
        pytest.param(b"GET /hello HTTP/7.x\r\n\r\n", id="bad version"),
        pytest.param(b"\x16\x03\x01\x02\x00\r\n\r\n", id="TLS on a plain port"),
    ],
)
def test_garbage_is_answered_with_an_error(server: WebServer, line: bytes) -> None:
    answer = raw(server, line)
    assert b"400" in answer.partition(b"\r\n")[0]
    assert error_of(answer.partition(b"\r\n\r\n")[2])["code"] == "bad_request"


class Dripping:
    """The socket of a client that sends a header a second, for ever."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._pieces = itertools.chain([b"GET /hello HTTP/1.1\r\n"], itertools.repeat(b"X-Drip: 1\r\n"))
        self.answer = b""

    def settimeout(self, seconds: float) -> None: ...

    def shutdown(self, how: int) -> None: ...

    def recv(self, most: int) -> bytes:
        self._clock.advance(1.0)
        return next(self._pieces)

    def send(self, content: bytes) -> int:
        self.answer += content
        return len(content)


def test_a_dripping_client_runs_out_of_time(clock: VirtualClock) -> None:
    dripping = Dripping(clock)
    limits = RequestLimits()
    admitted = AdmittedConnection(dripping, "192.0.2.1", 0)  # type: ignore[arg-type]
    limiter = ConnectionLimiter(limits.server, clock)
    Connection(admitted, "192.0.2.1", limiter, ROUTES, clock, limits).serve()
    assert dripping.answer.startswith(b"HTTP/1.1 408 ")
    assert clock.now().mono < 20


def test_stopping_ends_open_connections(clock: VirtualClock) -> None:
    server = WebServer("127.0.0.1:0", ROUTES, clock)
    server.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as connection:
        connection.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        server.stop()
        assert until_closed(connection) == b""


def test_a_server_that_never_started_can_be_stopped(clock: VirtualClock) -> None:
    WebServer("127.0.0.1:0", ROUTES, clock).stop()


def test_a_taken_port_is_one_clear_line(server: WebServer, clock: VirtualClock) -> None:
    with pytest.raises(
        ConfigError, match=rf"address: cannot listen on 127.0.0.1:{server.port}: Address already in use"
    ):
        WebServer(f"127.0.0.1:{server.port}", ROUTES, clock)


@pytest.mark.parametrize("address", [":0", "[::1]:0"])
def test_other_families_answer_too(address: str, clock: VirtualClock) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    server = WebServer(address, ROUTES, clock)
    server.start()
    host = "::1" if address.startswith("[") else "127.0.0.1"
    with closing(http.client.HTTPConnection(host, server.port, timeout=WAIT_S)) as connection:
        connection.request("GET", "/hello")
        assert connection.getresponse().read() == b"hello "
    server.stop()


def test_routing_without_a_network() -> None:
    assert route(ROUTES, Request("GET", "/hello")).body == b"hello "
    assert route(ROUTES, Request("GET", "/nope")).status == 404


def test_the_head_may_be_as_large_as_the_handbook_says_and_no_larger(server: WebServer) -> None:
    def status(line: int, head: int) -> bytes:
        first = b"GET /hello?name=" + b"a" * (line - 25) + b" HTTP/1.1"
        rest = b"\r\nHost: x\r\nConnection: close\r\nX: "
        return raw(server, first + rest + b"y" * (head - line - len(rest)) + b"\r\n\r\n")[9:12]

    kib = 1024
    assert [status(8 * kib, 32 * kib), status(8 * kib + 1, 9 * kib)] == [b"200", b"414"]
    assert status(100, 32 * kib + 1) == b"431"


ONLY_A_BODY = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(b"GET /hello HTTP/1.1\r\n\r\n", 400, id="no Host"),
        pytest.param(b"GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, id="two Hosts"),
        pytest.param(b"GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, id="a Host that is none"),
        pytest.param(b"GET /hello HTTP/1.0\r\n\r\n", 200, id="HTTP/1.0 needs no Host"),
        pytest.param(b"GET /hello\r\n\r\n", 400, id="HTTP/0.9"),
        pytest.param(b"GET /hello HTTP/2.0\r\nHost: x\r\n\r\n", 505, id="HTTP/2"),
        pytest.param(ONLY_A_BODY + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 400, id="lengths that agree"),
        pytest.param(
            ONLY_A_BODY + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="both framings"
        ),
        pytest.param(ONLY_A_BODY + b"Content-Length: +2\r\n\r\nhi", 400, id="a length with a sign"),
        pytest.param(ONLY_A_BODY + b"Content-Length : 2\r\n\r\nhi", 400, id="a blank before the colon"),
        pytest.param(ONLY_A_BODY + b"X: a\r\n b\r\n\r\n", 400, id="a folded header"),
        pytest.param(b"GET /hello HTTP/1.1\nHost: x\n\n", 400, id="bare line feeds"),
        pytest.param(b"GET /hello HTTP/1.1\r\nHost: x\r\nX: a\nb\r\n\r\n", 400, id="one bare line feed"),
        pytest.param(b"GET /hello HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n", 400, id="a bare carriage return"),
        pytest.param(b"GET /hello HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", 400, id="a NUL"),
        pytest.param(b"GET  /hello HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="two blanks"),
        pytest.param(b"GET hello HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="no slash"),
        pytest.param(b"GET /hello#a HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="a fragment"),
        pytest.param(
            b"GET //hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404, id="two slashes are no host"
        ),
        pytest.param(b"GET http://b/hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200, id="absolute form"),
        pytest.param(b"\r\nGET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200, id="an empty line first"),
        pytest.param(ONLY_A_BODY + b"Content-Length: 2\r\nExpect: tea\r\n\r\nhi", 417, id="another expectation"),
        pytest.param(b"TRACE /hello HTTP/1.1\r\nHost: x\r\nCookie: a\r\n\r\n", 405, id="TRACE echoes nothing"),
        pytest.param(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 405, id="OPTIONS of everything"),
        pytest.param(b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 405, id="no tunnels"),
        pytest.param(b"GET /hello HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431, id="101 headers"),
        pytest.param(b"GET /hello HTTP/1.1\r\nHost", 400, id="half a head"),
    ],
)
def test_what_two_readers_could_understand_differently_is_refused(
    server: WebServer, request_: bytes, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as connection:
        connection.sendall(request_)
        connection.shutdown(socket.SHUT_WR)
        answer = until_closed(connection)
    assert int(answer[9:12]) == status
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Cookie" not in answer
    if status == 405:
        assert b"\r\nAllow: " in answer


def test_requests_may_be_sent_ahead(server: WebServer) -> None:
    ahead = b"GET /hello?name=a HTTP/1.1\r\nHost: x\r\n\r\nPOST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nb"
    last = b"GET /hello?name=c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    bodies = [part.partition(b"\r\n\r\n")[2] for part in raw(server, ahead + last).split(b"HTTP/1.1 200 OK")[1:]]
    assert bodies == [b"hello a", b"b", b"hello c"]


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "\x00", "ü"])
def test_no_header_can_bring_another(value: str) -> None:
    with pytest.raises(ValueError, match="not one line"):
        Response(b"", headers={"Location": value})
    with pytest.raises(ValueError, match="not one line"):
        Response(b"", content_type=value)
