"""The Azure Resource Manager: requests, pages and long-running operations.

Reads are tried twice, writes once: a write whose answer is lost may have worked, and only a read can tell.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from cloudprovider.azure.errors import Failure, error_of, failure_of
from cloudprovider.azure.http import Reply, Transport
from cloudprovider.interface import ProviderError, Transient

T = TypeVar("T")
_MOST_PAGES = 1000
_UNAUTHENTICATED = 401
_OVER, _FAILED = {"succeeded"}, {"failed", "canceled", "cancelled"}


class TokenSource(Protocol):
    """Where bearer tokens come from; raises errors of the provider contract."""

    def token(self) -> str:
        """Return a valid token."""
        ...

    def refused(self, token: str) -> None:
        """Note that a token was rejected."""
        ...


class Progress(msgspec.Struct, frozen=True):
    """How a long-running operation stands."""

    over: bool
    failure: Failure | None = None


class Page(msgspec.Struct, frozen=True):
    """One page of a list."""

    value: msgspec.Raw = msgspec.Raw(b"[]")
    next_link: str | None = msgspec.field(default=None, name="nextLink")


class Arm:
    """Requests to one cloud's resource manager. Raises errors of the provider contract and nothing else."""

    def __init__(
        self, base_url: str, transport: Transport, tokens: TokenSource, user_agent: str, now: Callable[[], float]
    ) -> None:
        self._base_url = base_url
        self._transport = transport
        self._tokens = tokens
        self._user_agent = user_agent
        self._now = now

    def get(self, what: str, path: str, version: str, of: type[T], query: Mapping[str, str] = {}) -> T:
        """Return a resource."""
        return _decoded(what, self._read(what, self._url(path, version, query)).body, of)

    def pages(self, what: str, path: str, version: str, of: type[T], query: Mapping[str, str] = {}) -> Iterator[T]:
        """Yield the elements of a list, page by page."""
        url: str | None = self._url(path, version, query)
        for _ in range(_MOST_PAGES):
            page = _decoded(what, self._read(what, self._ours(what, str(url))).body, Page)
            yield from _decoded(what, bytes(page.value), list[of])  # type: ignore[valid-type]  # known at run time
            url = page.next_link
            if not url:
                return
        raise ProviderError(f"{what}: the list has more than {_MOST_PAGES} pages")

    def write(
        self,
        what: str,
        method: str,
        path: str,
        version: str,
        body: Any,
        etag: str = "",
        query: Mapping[str, str] = {},
    ) -> str | None:
        """Send a change. Return the address that reports its progress, or None if it is already complete.

        With an `etag`, nothing happens and `Transient` is raised if the resource's `etag` has changed.
        """
        headers = {"If-Match": etag} if etag else {}
        reply = self._send(what, method, self._url(path, version, query), headers, msgspec.json.encode(body))
        if reply.status not in (201, 202) and "azure-asyncoperation" not in reply.headers:
            return None
        return reply.headers.get("azure-asyncoperation") or reply.headers.get("location") or None

    def progress(self, what: str, address: str) -> Progress:
        """Return the progress of an operation. An operation that Azure no longer knows is complete."""
        try:
            reply = self._read(what, self._ours(what, address))
        except ProviderError as error:
            if error.code == "NOT_FOUND":
                return Progress(over=True)
            raise
        if reply.status == 202:
            return Progress(over=False)
        data = _lenient(reply.body)
        status = str(data.get("status") or "succeeded").lower()
        if status in _FAILED:
            return Progress(over=True, failure=failure_of(data, reply.status))
        return Progress(over=status in _OVER)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _url(self, path: str, version: str, query: Mapping[str, str]) -> str:
        text = urlencode({"api-version": version, **query}, safe="$", quote_via=quote)
        return f"{self._base_url}{quote(path)}?{text}"

    def _ours(self, what: str, url: str) -> str:
        """Return an address that Azure gave; tokens go to no other host than the configured one."""
        if _origin(url) != _origin(self._base_url):
            raise ProviderError(f"{what}: the answer leads to another host, {urlsplit(url).hostname}")
        return url

    def _read(self, what: str, url: str) -> Reply:
        try:
            return self._send(what, "GET", url, {}, None)
        except Transient:
            return self._send(what, "GET", url, {}, None)

    def _send(self, what: str, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        reply = self._sent_once(method, url, headers, body)
        if reply.status == _UNAUTHENTICATED:
            # The token was revoked, or clocks differ. Nothing has happened: with another token it may be tried again.
            reply = self._sent_once(method, url, headers, body)
        if reply.status < 300:
            return reply
        raise error_of(what, reply.status, failure_of(_lenient(reply.body), reply.status), reply.headers)

    def _sent_once(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        token = self._tokens.token()
        all_headers = {"Authorization": f"Bearer {token}", "User-Agent": self._user_agent, **headers}
        if body is not None:
            all_headers["Content-Type"] = "application/json"
        reply = self._transport(method, url, all_headers, body)
        if reply.status == _UNAUTHENTICATED:
            self._tokens.refused(token)
        return reply


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or 443


def _decoded(what: str, body: bytes, of: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=of)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Transient(f"{what}: the answer is not what was asked for: {error}") from error


def _lenient(body: bytes) -> Mapping[str, Any]:
    try:
        data = msgspec.json.decode(body) if body else {}
    except msgspec.DecodeError:
        return {}
    return data if isinstance(data, dict) else {}
