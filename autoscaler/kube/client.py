"""One HTTP client for the API server: it authenticates, verifies, limits the rate, and raises our error types.

Request and response bodies are bytes; `watch`, `lease` and `writes` interpret them.
"""

import contextlib
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, InsecureRequestWarning, NewConnectionError, ReadTimeoutError
from urllib3.exceptions import TimeoutError as HTTPTimeoutError

from autoscaler.clock import Clock
from autoscaler.errors import AutoscalerError, Refused, RetryLater, one_line
from autoscaler.kube.call import JSON, READ, Call
from autoscaler.kube.config import RestConfig
from autoscaler.kube.status import failure
from autoscaler.kube.throttle import TokenBucket
from autoscaler.logs import Log
from cloudprovider.moment import http_date

CLOCKS_DIFFER_S = 60.0
"""Log a warning if our wall clock and the server's differ by at least this many seconds."""

_CONNECT_S = 5.0
_WATCH_ANSWER_S = 30.0
_ATTEMPTS = 3
_LONGEST_RETRY_S = 10.0
_READ_BYTES = 64 * 1024
_PIECE_BYTES = 1024**2
_LARGEST_LINE_BYTES = 32 * 1024**2
_LARGEST_ERROR_BYTES = 64 * 1024
_WARNING = re.compile(r'299 [^ ]+ "((?:[^"\\]|\\.)*)"')
_MOST_WARNINGS = 100
_LONGEST_WARNING = 500
# A watch is silent for long; without probes, the view would be stale for minutes after the peer vanished.
_KEEPALIVE = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)  # not every system supports this option
    ),
)

log = Log(__name__)


class ClientSettings(msgspec.Struct, frozen=True):
    """How the client behaves towards the API server; the defaults are Cluster Autoscaler's."""

    user_agent: str = "cluster-autoscaler"
    qps: float = 5.0
    """Calls per second on average; zero or less lifts the limit."""
    burst: int = 10
    """Calls that may be made at once."""
    server_name: str = "API server"
    """What errors call the server."""
    connections: int = 64
    """Connections kept open: at least one for each watch and each actuation thread."""


class Connections(Protocol):
    """Sends requests: urllib3's connection pool, or its replacement if the API server runs in this process."""

    def urlopen(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: urllib3.Timeout,
        preload_content: bool,
        **options: bool,
    ) -> urllib3.BaseHTTPResponse:
        """Send one request and return the response with its body unread; raises `HTTPError` or `OSError`.

        `options` disable what a pool does by default: retries, redirects, other hosts.
        """
        ...

    def close(self) -> None:
        """Close idle connections."""
        ...


class Client:
    """Sends requests to one API server. Threads may share it."""

    def __init__(
        self,
        endpoint: RestConfig,
        clock: Clock,
        sleep: Callable[[float], bool],
        settings: ClientSettings = ClientSettings(),  # noqa: B008  # frozen
        connections: Connections | None = None,
    ) -> None:
        """`sleep` waits that many seconds and returns False if the program is stopping.

        `connections` None means connections over the network.
        """
        self._endpoint = endpoint
        self._clock = clock
        self._sleep = sleep
        self._bucket = TokenBucket(settings.qps, settings.burst)
        self._user_agent = settings.user_agent
        self._server_name = settings.server_name
        self._warned: set[str] = set()
        self._pool = connections if connections is not None else _pool(endpoint, settings.connections)
        plain_proxy = endpoint.proxy is not None and endpoint.tls is None
        self._base = endpoint.url if plain_proxy else urlsplit(endpoint.url).path
        self._clock_ahead_s: float | None = None
        self._retries: Counter[tuple[str, str]] = Counter()
        if not endpoint.verified:
            urllib3.disable_warnings(InsecureRequestWarning)  # logged once, below, instead of for every call
            log.warning("kube.tls_not_verified", server=endpoint.url, why="insecure-skip-tls-verify is set")

    @classmethod
    def connect(
        cls,
        kubeconfig: str | None,
        master: str | None = None,
        context: str | None = None,
        *,
        clock: Clock,
        sleep: Callable[[float], bool],
        settings: ClientSettings = ClientSettings(),  # noqa: B008  # frozen
    ) -> "Client":
        """Find the API server and prepare to talk to it; nothing is sent yet. Raises `ConfigError`."""
        from autoscaler.kube.kubeconfig import load_endpoint

        return cls(load_endpoint(kubeconfig, master, context), clock, sleep, settings)

    @property
    def retries(self) -> Mapping[tuple[str, str], int]:
        """Number of calls that the server asked to delay, by HTTP method and result (`sent` again or `given_up`)."""
        return self._retries.copy()

    @property
    def server(self) -> str:
        """The API server's base URL."""
        return self._endpoint.url

    @property
    def clock_ahead_s(self) -> float | None:
        """Seconds by which our wall clock is ahead of the server's last response, to about a second; None if
        unknown.
        """
        return self._clock_ahead_s

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = READ) -> bytes:
        """Read; returns the body."""
        return self._send("GET", path, query, None, "", call)

    def post(self, path: str, body: bytes, call: Call, query: Mapping[str, str] | None = None) -> bytes:
        """Create."""
        return self._send("POST", path, query, body, JSON, call)

    def put(self, path: str, body: bytes, call: Call) -> bytes:
        """Replace."""
        return self._send("PUT", path, None, body, JSON, call)

    def patch(
        self, path: str, body: bytes, content_type: str, call: Call, query: Mapping[str, str] | None = None
    ) -> bytes:
        """Change parts; `content_type` names the kind of patch."""
        return self._send("PATCH", path, query, body, content_type, call)

    def delete(self, path: str, body: bytes | None, call: Call) -> bytes:
        """Delete; `body` holds delete options."""
        return self._send("DELETE", path, None, body, JSON, call)

    def watch(self, path: str, query: Mapping[str, str], accept: str, read_timeout_s: float) -> "LineStream":
        """Open a stream of lines; the stream ends after `read_timeout_s` seconds of silence, as if the server had
        ended it.
        """
        what = f"watch {path}"
        response = self._open("GET", path, query, None, "", Call(timeout_s=_WATCH_ANSWER_S, accept=accept))
        if response.status != 200:
            raise self._failed(what, response, eviction=False)
        # The response must begin soon, but events may take their time.
        connection = response.connection
        if isinstance(connection, HTTPConnection) and connection.sock is not None:
            connection.sock.settimeout(read_timeout_s)
        return LineStream(response, what)

    def close(self) -> None:
        """Close idle connections; running calls finish."""
        self._pool.close()

    def _send(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes | None, content_type: str, call: Call
    ) -> bytes:
        for attempt in range(_ATTEMPTS):
            if not call.urgent:
                self._pause(self._bucket.reserve(self._clock.now().mono))
            response = self._open(method, path, query, body, content_type, call)
            if 200 <= response.status < 300:
                self._heed(f"{method} {path}", response)
                return self._read(response, call.largest_body_bytes)
            error = self._failed(f"{method} {path}", response, eviction=call.eviction)
            patience_s = error.retry_after_s if isinstance(error, RetryLater) else None
            again = response.status == 429 and call.repeatable and attempt + 1 < _ATTEMPTS
            if not again or patience_s is None or patience_s > _LONGEST_RETRY_S:
                if patience_s is not None:
                    self._retries[method, "given_up"] += 1
                raise error
            self._retries[method, "sent"] += 1
            self._pause(patience_s)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _open(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes | None, content_type: str, call: Call
    ) -> urllib3.BaseHTTPResponse:
        """Send one request; return the response with its body unread."""
        headers = {
            "Accept": call.accept,
            "Accept-Encoding": "identity",  # decompression costs more than a local network saves
            "User-Agent": self._user_agent,
            **self._endpoint.credentials.headers(),
        }
        if body is not None:
            headers["Content-Type"] = content_type
        url = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        timeout_s = call.timeout_s if call.guard is None else min(call.timeout_s, call.guard())
        timeout = urllib3.Timeout(total=timeout_s, connect=min(timeout_s, _CONNECT_S))
        try:
            response = self._pool.urlopen(
                method,
                url,
                body=body,
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
            )
        except (HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        self._compare_clocks(response.headers.get("Date"))
        return response

    def _compare_clocks(self, date: str | None) -> None:
        """Compare the server's time with ours; log a warning if certificates and leases cannot tolerate the
        difference.
        """
        server = http_date(date or "")
        if server is None:
            return
        differed = abs(self._clock_ahead_s or 0.0) > CLOCKS_DIFFER_S
        self._clock_ahead_s = ahead_s = self._clock.now().wall - server.timestamp()
        if not differed and abs(ahead_s) > CLOCKS_DIFFER_S:
            log.warning("kube.clocks_differ", server=self.server, ahead_s=round(ahead_s))
        elif differed and abs(ahead_s) <= CLOCKS_DIFFER_S:
            log.info("kube.clocks_agree", server=self.server, ahead_s=round(ahead_s))

    def _heed(self, what: str, response: urllib3.BaseHTTPResponse) -> None:
        """Log each warning of the server once, for example about an unknown field or a deprecated version."""
        for header in response.headers.getlist("Warning"):
            for text in _WARNING.findall(header):
                if text not in self._warned and len(self._warned) < _MOST_WARNINGS:
                    self._warned.add(text)
                    said = re.sub(r"\\(.)", r"\1", text)[:_LONGEST_WARNING]
                    log.warning("kube.server_warns", call=what, warning=said)

    def _failed(self, what: str, response: urllib3.BaseHTTPResponse, *, eviction: bool) -> AutoscalerError:
        try:
            body = self._read(response, _LARGEST_ERROR_BYTES)
        except (RetryLater, Refused):
            body = b""  # the status says enough
        headers = response.headers
        return failure(what, response.status, body, headers.get("Retry-After"), headers.get("Date"), eviction=eviction)

    def _read(self, response: urllib3.BaseHTTPResponse, at_most: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            while piece := response.read(_PIECE_BYTES):
                pieces.append(piece)
                size += len(piece)
                if size > at_most:
                    response.close()
                    raise Refused(
                        f"{self._server_name} {self.server}: an answer of more than {at_most} bytes", response.status
                    )
        except (HTTPError, OSError) as error:
            response.close()
            raise self._unreachable(error) from error
        response.release_conn()
        return b"".join(pieces)

    def _unreachable(self, error: Exception) -> RetryLater:
        late = isinstance(error, HTTPTimeoutError | TimeoutError)
        if late and not isinstance(error, NewConnectionError):  # which urllib3 counts among the timeouts
            return RetryLater(f"{self._server_name} {self.server} did not answer in time: {one_line(error)}")
        return RetryLater(f"{self._server_name} {self.server} is unreachable: {one_line(error)}")

    def _pause(self, seconds: float) -> None:
        if seconds > 0 and not self._sleep(seconds):
            raise RetryLater("not sent: the program is stopping")


class LineStream:
    """An open-ended response with one JSON document per line. One thread reads; any thread may `abort`."""

    def __init__(self, response: urllib3.BaseHTTPResponse, what: str) -> None:
        self._response = response
        self._what = what

    def __enter__(self) -> "LineStream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the complete lines of each read until the server ends the stream or is silent for too long.

        Raises `RetryLater` if the stream breaks; an incomplete last line is dropped.
        """
        held: list[bytes] = []
        held_bytes = 0
        while chunk := self._chunk():
            if b"\n" in chunk:
                lines = b"".join((*held, chunk)).split(b"\n")
                rest = lines.pop()
                held, held_bytes = ([rest], len(rest)) if rest else ([], 0)
                yield [line for line in lines if line]
            else:
                held.append(chunk)
                held_bytes += len(chunk)
                if held_bytes > _LARGEST_LINE_BYTES:
                    raise Refused(f"{self._what}: a line of more than {_LARGEST_LINE_BYTES} bytes", 200)
        if held:
            raise RetryLater(f"{self._what}: the stream broke off in the middle of a line")

    def abort(self) -> None:
        """Make a blocked reader in another thread return now."""
        # Already closed, or never fully open: no reader is blocked.
        with contextlib.suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()

    def close(self) -> None:
        """Close the connection; only the reading thread may call this."""
        self._response.close()

    def _chunk(self) -> bytes:
        try:
            return self._response.read1(_READ_BYTES)
        except ReadTimeoutError:
            return b""
        except (HTTPError, OSError, ValueError) as error:  # ValueError: aborted while it was being read
            raise RetryLater(f"{self._what}: the stream broke: {one_line(error)}") from error


def _pool(endpoint: RestConfig, connections: int) -> Connections:
    options: dict[str, Any] = {"maxsize": connections, "block": False, "socket_options": list(_KEEPALIVE)}
    if endpoint.tls is not None:
        options["ssl_context"] = endpoint.tls
    if endpoint.tls_server_name:
        options |= {"server_hostname": endpoint.tls_server_name, "assert_hostname": endpoint.tls_server_name}
    manager = urllib3.ProxyManager(endpoint.proxy, **options) if endpoint.proxy else urllib3.PoolManager(**options)
    return manager.connection_from_url(endpoint.url)
