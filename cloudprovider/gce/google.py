"""The real transport: urllib3, with credentials that google-auth finds."""

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

import google.auth
import google.auth.credentials
import google.auth.exceptions
import google.auth.transport.urllib3
import urllib3

from cloudprovider.causes import causes
from cloudprovider.gce.faults import PERMISSIONS
from cloudprovider.gce.transport import Answer
from cloudprovider.interface import Misconfigured, ProviderError, Transient

_SCOPES = ("https://www.googleapis.com/auth/compute",)
_CREDENTIALS_S = 30.0
_METADATA_S = 5.0
_METADATA_HOST = "GCE_METADATA_HOST"


class SystemWaiting:
    """The time of this machine."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


class GoogleTransport:
    """A `Transport` with application default credentials: a key file, workload identity, or the machine's own."""

    def __init__(self, credentials: google.auth.credentials.Credentials, user_agent: str, threads: int) -> None:
        self._credentials = credentials
        self._pool = urllib3.PoolManager(maxsize=max(threads, 4), retries=False)
        request = google.auth.transport.urllib3.Request(self._pool)  # type: ignore[no-untyped-call]
        self._request = partial(request, timeout=_CREDENTIALS_S)
        self._user_agent = user_agent
        self._lock = threading.Lock()

    def send(self, method: str, url: str, body: bytes | None, timeout_s: float) -> Answer:
        """Send. If the credentials are rejected, send once more with fresh ones."""
        answer = self._send(method, url, body, timeout_s)
        if answer.status != 401:
            return answer
        with self._lock:
            _credentialled(self._refresh)
        return self._send(method, url, body, timeout_s)

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()

    def _send(self, method: str, url: str, body: bytes | None, timeout_s: float) -> Answer:
        headers = {"Accept": "application/json", "User-Agent": self._user_agent}
        if body is not None:
            headers["Content-Type"] = "application/json"
        # One thread at a time: credentials fetch a new token here when the old one runs out.
        with self._lock:
            _credentialled(partial(self._authorise, method, url, headers))
        return _sent(self._pool, method, url, body, headers, timeout_s)

    def _refresh(self) -> None:
        self._credentials.refresh(self._request)  # type: ignore[no-untyped-call]

    def _authorise(self, method: str, url: str, headers: dict[str, str]) -> None:
        self._credentials.before_request(self._request, method, url, headers)  # type: ignore[no-untyped-call]


def default_credentials() -> tuple[google.auth.credentials.Credentials, str | None]:
    """Return the credentials that google-auth finds and their project; `Misconfigured` if there are none."""
    try:
        credentials = google.auth.default(scopes=_SCOPES)
    except (google.auth.exceptions.GoogleAuthError, OSError, ValueError) as error:
        raise Misconfigured(f"cloud-provider: gce finds no Google Cloud credentials: {error}") from error
    return credentials


def read_metadata(environment: Mapping[str, str], path: str) -> str:
    """Read from this machine's metadata server; `Transient` if there is none."""
    url = f"http://{environment.get(_METADATA_HOST) or 'metadata.google.internal'}/computeMetadata/v1/{path}"
    with urllib3.PoolManager(retries=False) as pool:
        answer = _sent(pool, "GET", url, None, {"Metadata-Flavor": "Google"}, _METADATA_S)
    if answer.status != 200:
        raise Transient(f"the metadata server answers {path} with HTTP {answer.status}")
    return answer.body.decode(errors="replace").strip()


def _sent(
    pool: urllib3.PoolManager, method: str, url: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
) -> Answer:
    try:
        answer = pool.request(
            method, url, body=body, headers=dict(headers), timeout=urllib3.Timeout(total=timeout_s), redirect=False
        )
    except urllib3.exceptions.HTTPError as error:
        raise Transient(f"{method} {url.partition('?')[0]}: {type(error).__name__}: {error}") from error
    return Answer(answer.status, answer.data, {name.lower(): value for name, value in answer.headers.items()})


def _credentialled(use: Callable[[], None]) -> None:
    try:
        use()
    except google.auth.exceptions.TransportError as error:
        raise Transient(f"no token could be fetched: {error}") from error
    except google.auth.exceptions.GoogleAuthError as error:
        away = (cause for cause in causes(error) if isinstance(cause, google.auth.exceptions.TransportError))
        if getattr(error, "retryable", False) or any(len(cause.args) < 2 for cause in away):  # the second is an answer
            raise Transient(f"no token could be fetched: {error}") from error
        raise ProviderError(f"the Google Cloud credentials are not accepted: {error}", PERMISSIONS) from error
