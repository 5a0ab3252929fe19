"""HTTP requests with bounded waits."""

from collections.abc import Mapping
from typing import Protocol

import msgspec
import urllib3

from cloudprovider.interface import Transient

_TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)
_CONNECTIONS = 8


class Reply(msgspec.Struct, frozen=True):
    """An answer; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Transport(Protocol):
    """Sends a request and returns the answer, whatever its status; `Transient` where none came."""

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        """Send one request."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class HttpTransport:
    """A pool of connections; goes through the proxy of `HTTPS_PROXY` but for the hosts of `NO_PROXY`."""

    def __init__(self, base_url: str, environment: Mapping[str, str]) -> None:
        self._pool = _pool(urllib3.util.parse_url(base_url).host or "", environment)

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        """Send one request, without retries and without following redirects."""
        try:
            reply = self._pool.request(
                method, url, headers=dict(headers), body=body, timeout=_TIMEOUT, retries=False, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise Transient(f"{method} {url.partition('?')[0]}: {type(error).__name__}") from error
        return Reply(reply.status, {name.lower(): value for name, value in reply.headers.items()}, reply.data)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def _pool(host: str, environment: Mapping[str, str]) -> urllib3.PoolManager:
    proxy, direct = (environment.get(name) or environment.get(name.lower()) for name in ("HTTPS_PROXY", "NO_PROXY"))
    if not proxy or _is_direct(host.lower(), direct or ""):
        return urllib3.PoolManager(maxsize=_CONNECTIONS)
    return urllib3.ProxyManager(proxy if "://" in proxy else f"http://{proxy}", maxsize=_CONNECTIONS)


def _is_direct(host: str, no_proxy: str) -> bool:
    entries = (entry.strip().lower().removeprefix("*").lstrip(".") for entry in no_proxy.split(","))
    return no_proxy.strip() == "*" or any(entry and f".{host}".endswith(f".{entry}") for entry in entries)
