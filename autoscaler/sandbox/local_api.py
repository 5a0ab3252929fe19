"""The API server without sockets: `kube.client` sends the same requests to a storage in the same process.

Time-outs, cut connections and refusals reach the client as over the network, so the layers above see no difference.
"""

import io
import math
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

import urllib3
from urllib3.connectionpool import ConnectionPool
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from autoscaler.clock import Clock
from autoscaler.kube.client import Client, ClientSettings
from autoscaler.kube.config import RestConfig
from autoscaler.sandbox.apiserver.dispatch import ApiDispatcher, Dropped
from autoscaler.sandbox.apiserver.faults import Faults
from autoscaler.sandbox.apiserver.http_messages import ApiRequest
from autoscaler.sandbox.apiserver.request_log import RequestLog
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.apiserver.verbs import Verbs

_URL = "http://world.invalid"
_BOOKMARK_S = 60.0


class LocalApi:
    """A storage served in process. `faults` injects trouble, `requests` records what was asked.

    If a delay exceeds the caller's time-out, the call times out, but the request still takes effect.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self.faults = Faults()
        self.requests = RequestLog(limit=1000)
        self._storage = storage
        self._verbs = Verbs(storage, clock, _BOOKMARK_S)

    def client(self, clock: Clock, sleep: Callable[[float], bool], settings: ClientSettings) -> Client:
        """Return a client that speaks to this API alone; `sleep` lets virtual time pass."""
        connections = _Connections(self._storage, self._verbs, self.faults, self.requests, sleep)
        return Client(RestConfig(_URL), clock, sleep, settings, connections)


class _Connections:
    """`kube.client.Connections` for one program."""

    def __init__(
        self, storage: Storage, verbs: Verbs, faults: Faults, log: RequestLog, sleep: Callable[[float], bool]
    ) -> None:
        self._dispatcher = ApiDispatcher(storage, verbs, faults, log, pause=self._delay)
        self._sleep = sleep
        self._delay_s = 0.0
        self._pool = ConnectionPool("world.invalid")

    def urlopen(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: urllib3.Timeout,
        preload_content: bool,
        **_options: bool,
    ) -> urllib3.BaseHTTPResponse:
        """Serve one request."""
        parts = urlsplit(url)
        request = ApiRequest(
            method=method,
            path=unquote(parts.path),
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            accept=headers.get("Accept", ""),
            content_type=headers.get("Content-Type", ""),
            user_agent=headers.get("User-Agent", ""),
            body=body or b"",
        )
        self._delay_s = 0.0
        try:
            answer = self._dispatcher.serve(request, "")
        except Dropped as dropped:
            raise ProtocolError("the connection was cut") from dropped
        timeout_s = timeout.total if isinstance(timeout.total, int | float) else math.inf
        delay_s = self._delay_s  # other threads may call while this one waits
        if delay_s > 0:
            self._sleep(min(delay_s, timeout_s))
        if delay_s > timeout_s:
            raise ReadTimeoutError(self._pool, url, f"no answer within {timeout_s} seconds")
        return urllib3.HTTPResponse(
            body=io.BytesIO(answer.body),
            headers={"Content-Type": answer.content_type, **answer.headers},
            status=answer.code,
            preload_content=preload_content,
            request_method=method,
        )

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _delay(self, seconds: float) -> None:
        """Record the delay of a fault, which happens after the request has been served."""
        self._delay_s = seconds
