"""What a server takes beside the usual: bodies in chunks, other limits, paths with a variable part, TLS."""

import http.client
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autoscaler.clock import VirtualClock
from autoscaler.observe.http.connection import RequestLimits
from autoscaler.observe.http.routing import Request, Response, Routes
from autoscaler.observe.http.server import WebServer

WAIT_S = 10.0


def echo(request: Request) -> Response:
    return Response(request.body + b" at " + request.path.encode())


ROUTES: Routes = {"/echo": {"POST": echo}, "/things/{name}/parts": {"GET": echo, "POST": echo}}


class Heard:
    """What a server says of its answers: it does so once they are sent."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._all: list[tuple[str, int]] = []

    def add(self, path: str, code: int) -> None:
        with self._news:
            self._all.append((path, code))
            self._news.notify_all()

    def wait(self, count: int) -> list[tuple[str, int]]:
        with self._news:
            assert self._news.wait_for(lambda: len(self._all) >= count, WAIT_S)
            return sorted(self._all)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def server(heard: Heard) -> Iterator[WebServer]:
    limits = RequestLimits(body_bytes=10, chunks=True, on_answered=heard.add)
    made = WebServer("127.0.0.1:0", ROUTES, VirtualClock(), limits)
    made.start()
    yield made
    made.stop()


def ask(server: WebServer, path: str, body: object, *, chunked: bool = False) -> tuple[int, bytes, bool]:
    """Return status, body, and whether the connection is closed."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)) as connection:
        connection.request("POST", path, body, {}, encode_chunked=chunked)  # type: ignore[arg-type]
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.will_close


def pieces(*sizes: int) -> Iterator[bytes]:
    return (b"x" * size for size in sizes)


def test_a_body_may_come_in_chunks(server: WebServer) -> None:
    assert ask(server, "/echo", pieces(4, 6))[:2] == (200, b"xxxxxxxxxx at /echo")


@pytest.mark.parametrize("body", [b"x" * 11, pieces(4, 7), pieces(11)])
def test_a_body_that_is_too_large_is_refused_however_it_comes(server: WebServer, body: object) -> None:
    status, _, closed = ask(server, "/echo", body)
    assert (status, closed) == (413, True)


def test_whoever_sends_far_too_much_still_gets_the_answer(server: WebServer) -> None:
    for _ in range(5):
        status, body, closed = ask(server, "/echo", b"x" * 8_000_000)
        assert (status, closed) == (413, True)
        assert b"body_too_large" in body


def test_where_a_body_goes_is_looked_at_before_its_size(server: WebServer, heard: Heard) -> None:
    assert ask(server, "/nothing", b"x" * 11)[0] == 404
    assert ask(server, "/things/a/parts", b"1")[:2] == (200, b"1 at /things/a/parts")
    assert ask(server, "/things//parts", b"1")[0] == 404
    assert heard.wait(3) == [("/things/{name}/parts", 200), ("other", 404), ("other", 404)]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl on the PATH")
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([openssl, *words, *names], check=True, capture_output=True, timeout=60)
    return files


def test_tls_is_spoken_where_there_is_a_certificate(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*map(str, certificate))
    server = WebServer("127.0.0.1:0", ROUTES, VirtualClock(), tls=context)
    server.start()
    try:
        trusted = ssl.create_default_context(cafile=str(certificate[0]))
        secure = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=WAIT_S, context=trusted)
        with closing(secure):
            secure.request("POST", "/echo", b"hello")
            assert secure.getresponse().read() == b"hello at /echo"
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(server, "/echo", b"hello")
    finally:
        server.stop()
