"""A loopback API server that answers as a test says and remembers what it was asked."""

import contextlib
import json
import ssl
import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from autoscaler.clock import VirtualClock
from autoscaler.errors import RetryLater
from autoscaler.kube.client import Client, ClientSettings, LineStream
from autoscaler.kube.config import RestConfig

PATIENCE_S = 20.0


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes] | None = None
    """Stream these instead of the body."""
    torn: bool = False
    """Close the connection before the answer is complete."""
    held: bool = False
    """Keep the stream open until the server closes."""
    silent: bool = False
    """Say nothing at all until the server closes."""


def status(code: int, message: str = "", **extra: Any) -> Reply:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "message": message, **extra}
    return Reply(code, json.dumps(body).encode())


def ok(body: Any) -> Reply:
    return Reply(200, json.dumps(body).encode())


class ScriptedApi:
    """Each `METHOD /path` has a queue of replies; the last one of a queue is given again and again."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self._replies: dict[str, deque[Reply]] = defaultdict(deque)
        self._news = threading.Condition()
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = False
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if tls is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def script(self, call: str, *replies: Reply) -> None:
        self._replies[call].extend(replies)

    def take(self, asked: Asked) -> Reply:
        with self._news:
            self.asked.append(asked)
            self._news.notify_all()
            return self.reply(asked)

    def reply(self, asked: Asked) -> Reply:
        """The answer to one call; called with the lock held."""
        queue = self._replies[f"{asked.method} {asked.path}"]
        if not queue:
            return status(500, f"nothing is scripted for {asked.method} {asked.path}")
        return queue.popleft() if len(queue) > 1 else queue[0]

    def wait_asked(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.asked) >= count, PATIENCE_S), f"only {len(self.asked)} calls"

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)


def _handler(api: ScriptedApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE_S
        disable_nagle_algorithm = True

        def handle(self) -> None:
            with contextlib.suppress(OSError):  # the client went away
                super().handle()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), dict(self.headers.items()), body)
            reply = api.take(asked)
            if reply.silent:
                api.closing.wait(PATIENCE_S)
                self.close_connection = True
            elif reply.chunks is None:
                self._whole(reply)
            else:
                self._stream(reply, reply.chunks)
            if api.closing.is_set():
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

        def _whole(self, reply: Reply) -> None:
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + (10 if reply.torn else 0)))
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = reply.torn

        def _stream(self, reply: Reply, chunks: Sequence[bytes]) -> None:
            self.send_response(reply.status)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                self.wfile.flush()
            if reply.held:
                api.closing.wait(PATIENCE_S)
            if reply.torn or reply.held:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

    return Handler


class Sleeps:
    """Stands in for the executor's sleep: time passes at once."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.slept: list[float] = []
        self.stopping = False

    def __call__(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self.clock.advance(seconds)
        return not self.stopping


@contextlib.contextmanager
def scripted_api(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedApi]:
    api = ScriptedApi(tls)
    try:
        yield api
    finally:
        api.close()


@contextlib.contextmanager
def client_of(
    url: str, clock: VirtualClock, sleep: Sleeps | None = None, settings: ClientSettings | None = None
) -> Iterator[Client]:
    settings = settings or ClientSettings(qps=0)
    client = Client(RestConfig(url), clock, sleep or Sleeps(clock), settings)
    try:
        yield client
    finally:
        client.close()


def read_until_aborted(stream: LineStream) -> None:
    """Read a stream on another thread, abort it from this one once the first lines are there, and wait for its end."""
    reading, ended = threading.Event(), threading.Event()

    def read() -> None:
        try:
            for _ in stream.batches():
                reading.set()
        except RetryLater:
            pass
        finally:
            stream.close()
            ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert reading.wait(PATIENCE_S)
    stream.abort()
    assert ended.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
