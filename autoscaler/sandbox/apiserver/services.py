"""Services behind the API server's proxy: programs of this machine that clients reach as if they ran in the cluster."""

import re
from collections.abc import Callable
from urllib.parse import quote

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.http_messages import ApiRequest, ApiResponse
from autoscaler.sandbox.apiserver.request_log import RequestAttributes

_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/services/([^/:]+)(?::[^/]*)?/proxy(/.*)?")
_PATIENCE_S = 60.0


class ProxyTarget(msgspec.Struct, frozen=True):
    """A path of a service."""

    namespace: str
    name: str
    path: str


class ExposedServices:
    """Forwards GET requests."""

    def __init__(self) -> None:
        self._urls: dict[tuple[str, str], Callable[[], str]] = {}

    def expose(self, namespace: str, name: str, url: Callable[[], str]) -> None:
        """Make a program reachable; `url` returns where it listens now."""
        self._urls[namespace, name] = url

    def forward(self, target: ProxyTarget, request: ApiRequest) -> ApiResponse:
        """Return the program's answer; raises ApiError 404 or 503."""
        url = self._urls.get((target.namespace, target.name))
        if url is None:
            details = {"name": target.name, "kind": "services"}
            raise ApiError(404, "NotFound", f'services "{target.name}" not found', details)
        where = f"{url()}{quote(target.path)}"
        try:
            answer = urllib3.request("GET", where, fields=dict(request.query), timeout=_PATIENCE_S, retries=False)
        except HTTPError as error:
            raise ApiError(503, "ServiceUnavailable", f"error trying to reach service: {error}", {}) from error
        return ApiResponse(answer.status, answer.data, answer.headers.get("Content-Type", ""))


def proxied(request: ApiRequest) -> ProxyTarget | None:
    """Return the service that a request is for; None for one that the API server answers itself."""
    match = _PATH.fullmatch(request.path) if request.method == "GET" else None
    return None if match is None else ProxyTarget(match[1], match[2], match[3] or "/")


def attributes_of(target: ProxyTarget, request: ApiRequest) -> RequestAttributes:
    """Return a proxied request in the words of RBAC."""
    return RequestAttributes(
        verb="get",
        resource="services",
        subresource="proxy",
        namespace=target.namespace,
        name=target.name,
        user_agent=request.user_agent,
        path=request.path,
    )
