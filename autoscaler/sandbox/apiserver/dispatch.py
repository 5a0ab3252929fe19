"""Dispatches requests: health, version, discovery, OpenAPI, and everything under a group and version."""

import hmac
import threading
from collections.abc import Callable, Iterator, Sequence

import msgspec

from autoscaler.sandbox.apiserver import discovery, openapi, watching
from autoscaler.sandbox.apiserver.errors import ApiError, internal, no_such_resource, unauthorized
from autoscaler.sandbox.apiserver.faults import Fault, Faults
from autoscaler.sandbox.apiserver.http_messages import ApiRequest, ApiResponse, answer, plain, refusal
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.request_log import RequestAttributes, RequestLog
from autoscaler.sandbox.apiserver.routes import Route, is_resource_path, route
from autoscaler.sandbox.apiserver.services import ExposedServices, attributes_of, proxied
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.apiserver.verbs import Verbs, verb_of

_HEALTH = ("/healthz", "/livez", "/readyz")


class Dropped(Exception):
    """The connection has to be cut without a complete answer."""


class ApiDispatcher:
    """Answers requests, independently of sockets."""

    def __init__(
        self,
        storage: Storage,
        verbs: Verbs,
        faults: Faults,
        log: RequestLog,
        token: str | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """`pause` waits for a fault's delay; None means in real time."""
        self.faults = faults
        self.services = ExposedServices()
        self.stopping = threading.Event()
        self._pause = pause if pause is not None else self.stopping.wait
        self._storage = storage
        self._verbs = verbs
        self._log = log
        self._token = token

    def serve(self, request: ApiRequest, authorization: str) -> ApiResponse:
        """Answer one request, including errors; raises `Dropped` if a fault requires it."""
        try:
            if not self._is_authorized(request, authorization):
                raise unauthorized()
            if (target := proxied(request)) is not None:
                self._match_fault(attributes_of(target, request))
                return self.services.forward(target, request)
            if is_resource_path(request.path):
                return self._resource(request)
            self._match_fault(RequestAttributes("get", user_agent=request.user_agent, path=request.path))
            return self._document(request)
        except ApiError as error:
            return refusal(error)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return refusal(internal(f"the object has an unexpected shape: {type(error).__name__}: {error}"))

    def _is_authorized(self, request: ApiRequest, authorization: str) -> bool:
        if self._token is None or request.path.startswith(_HEALTH):
            return True
        return hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode())

    def _resource(self, request: ApiRequest) -> ApiResponse:
        target = route(self._storage.registry, request.path)
        verb = verb_of(target, request)
        attributes = _attributes_of(verb, target, request)
        fault = self._match_fault(attributes)
        answered = self._verbs.serve(verb, target, request)
        if fault is not None and fault.watch_lines is not None and answered.stream is not None:
            return msgspec.structs.replace(
                answered, stream=_truncated(answered.stream, fault, attributes, fault.watch_lines)
            )
        return answered

    def _match_fault(self, attributes: RequestAttributes) -> Fault | None:
        self._log.add(attributes)
        if self.faults.is_down:
            raise Dropped
        fault = self.faults.match(attributes)
        if fault is None:
            return None
        if fault.delay_s:
            self._pause(fault.delay_s)
        if fault.drop:
            raise Dropped
        if fault.code is not None and fault.watch_lines is None:
            raise fault.error(attributes)
        return fault

    def _document(self, request: ApiRequest) -> ApiResponse:
        rows = self._storage.registry.rows
        match [part for part in request.path.split("/") if part]:
            case ["healthz" | "livez" | "readyz" as check, *rest]:
                verbose = not rest and "verbose" in request.query
                return plain(f"[+]ping ok\n[+]log ok\n{check} check passed\n" if verbose else "ok")
            case ["version"]:
                return answer(discovery.VERSION)
            case ["api" | "apis" as root] if "g=apidiscovery.k8s.io;v=v2;" in request.accept:
                document = discovery.aggregated(rows, legacy=root == "api")
                return ApiResponse(200, msgspec.json.encode(document), discovery.AGGREGATED)
            case ["api" | "apis" as root, *rest]:
                return _discovery(rows, root, rest, request.host)
            case ["openapi", version, *rest]:
                return _schema(rows, version, rest, request)
        raise no_such_resource()


def _discovery(rows: Sequence[Kind], root: str, path: list[str], host: str) -> ApiResponse:
    """Answer with one of the documents that list groups, versions and resources."""
    match root, path:
        case "api", []:
            return answer(discovery.legacy_versions(host))
        case "api", [version]:
            return answer(discovery.resources(rows, "", version))
        case "apis", []:
            return answer(discovery.groups(rows))
        case "apis", [group]:
            return answer(discovery.group(rows, group))
        case "apis", [group, version]:
            return answer(discovery.resources(rows, group, version))
    raise no_such_resource()


def _schema(rows: Sequence[Kind], version: str, path: list[str], request: ApiRequest) -> ApiResponse:
    """Answer with an OpenAPI document."""
    match version, path:
        case "v2", []:
            request.form()
            return answer(openapi.version_2(rows))
        case "v3", []:
            return answer(openapi.index(rows))
        case "v3", _:
            return answer(openapi.document(rows, "/".join(path)))
    raise no_such_resource()


def _attributes_of(verb: str, target: Route, request: ApiRequest) -> RequestAttributes:
    return RequestAttributes(
        verb=verb,
        group=target.kind.group,
        resource=target.kind.plural,
        subresource=target.subresource,
        namespace=target.namespace or "",
        name=target.name,
        user_agent=request.user_agent,
        path=request.path,
    )


def _truncated(
    stream: Iterator[bytes | None], fault: Fault, attributes: RequestAttributes, lines: int
) -> Iterator[bytes | None]:
    """Pass on `lines` lines, then end with an ERROR event or in the middle of the next line."""
    for chunk in stream:
        whole_lines = chunk.splitlines(keepends=True) if chunk is not None else []
        if len(whole_lines) <= lines and (len(whole_lines) < lines or fault.code is None):
            lines -= len(whole_lines)
            yield chunk
            continue
        yield b"".join(whole_lines[:lines])
        if fault.code is not None:
            yield watching.error_line(fault.error(attributes))
            return
        yield whole_lines[lines][: len(whole_lines[lines]) // 2]
        raise Dropped
