"""The effect of each HTTP method on an object or a collection."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from autoscaler.clock import Clock
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver import fields, listing, protobuf, spellings, usage, watching
from autoscaler.sandbox.apiserver.deletion import DeleteOptions, Propagation
from autoscaler.sandbox.apiserver.errors import (
    ApiError,
    accepted,
    bad_request,
    method_not_allowed,
    not_found,
    not_implemented,
    required,
    unsupported_media_type,
)
from autoscaler.sandbox.apiserver.errors import invalid as invalid_object
from autoscaler.sandbox.apiserver.faults import USER
from autoscaler.sandbox.apiserver.http_messages import JSON, ApiRequest, ApiResponse, ObjectFormat, answer
from autoscaler.sandbox.apiserver.kinds import NEEDS_CONTAINERS, SUBRESOURCE_VERBS, Kind
from autoscaler.sandbox.apiserver.patch import APPLY, PatchType, media_types
from autoscaler.sandbox.apiserver.routes import Route
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.apiserver.table import partial, table

_APPLY = (APPLY, "application/apply-patch+json")
_BODY_TYPES = ("", JSON, "application/yaml", protobuf.MEDIA_TYPE)
_WRITES = ("create", "update", "patch")
_DEFAULT_WATCH_S = 1800.0
_REVIEWS: Mapping[str, JsonObject] = {
    "selfsubjectaccessreviews": {"allowed": True, "reason": "the sandbox allows everything"},
    "selfsubjectreviews": {"userInfo": {"username": USER, "groups": ["system:authenticated"]}},
    "selfsubjectrulesreviews": {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    },
}
"""What clients hear when they ask about themselves."""
_RETURNED_WHEN_DELETED = ("pods", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims", "resourcequotas")
"""Kinds whose deletion answers with the object even when it is gone at once; the others answer with a Status."""


def verb_of(route: Route, request: ApiRequest) -> str:
    """The RBAC verb of a request; raises ApiError 405 for methods without one."""
    match request.method:
        case "GET" if request.flag("watch"):
            return "watch"
        case "GET":
            return "get" if route.name else "list"
        case "DELETE":
            return "delete" if route.name else "deletecollection"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
    raise method_not_allowed()


class Verbs:
    """Serves requests for resources from a storage. `clock` measures real time for watches."""

    def __init__(self, storage: Storage, clock: Clock, bookmark_every_s: float) -> None:
        self._storage = storage
        self._clock = clock
        self._bookmark_every_s = bookmark_every_s
        self._by_verb: Mapping[str, Callable[[Route, ApiRequest], ApiResponse]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def serve(self, verb: str, route: Route, request: ApiRequest) -> ApiResponse:
        """Answer one request; raises ApiError."""
        allowed = SUBRESOURCE_VERBS[route.subresource] if route.subresource else route.kind.verbs
        if verb not in allowed:
            raise method_not_allowed()
        if route.kind.group == usage.GROUP:
            return self._usage(route, request)
        if route.subresource in NEEDS_CONTAINERS:
            self._storage.record(route.kind, route.name, route.namespace)
            raise not_implemented(f"the {route.subresource} subresource")
        if verb not in _WRITES or route.subresource not in ("", "status"):
            return self._by_verb[verb](route, request)
        known, warnings = fields.known(route.kind, request)
        answered = self._by_verb[verb](route, known)
        return msgspec.structs.replace(answered, headers={"Warning": ", ".join(warnings)}) if warnings else answered

    def _get(self, route: Route, request: ApiRequest) -> ApiResponse:
        if route.subresource == "scale":
            return answer(self._storage.get_scale(route.kind, route.name, route.namespace))
        record = self._storage.record(route.kind, route.name, route.namespace)
        if request.form() is ObjectFormat.OBJECT:
            return ApiResponse(200, record.encoded(route.kind) + b"\n")
        return self._shaped(route.kind, msgspec.json.decode(record.encoded(route.kind)), request)

    def _list(self, route: Route, request: ApiRequest) -> ApiResponse:
        kind, selection = route.kind, self._selection(route, request)
        page = listing.list_page(self._storage, kind, selection, request)
        return listing.render(self._storage, kind, selection, page, request)

    def _usage(self, route: Route, request: ApiRequest) -> ApiResponse:
        """Answer for `kubectl top`, with figures of this moment."""
        kind, storage = route.kind, self._storage
        core = storage.kind(kind.plural)
        selection = self._selection(msgspec.structs.replace(route, kind=core), request)
        objects = [record.decoded(core) for record in storage.page(core, selection).records]
        items = usage.measured(storage, kind, objects)
        if not route.name:
            head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}}
            return answer({**head, "items": items})
        if not items:
            raise not_found(kind, route.name)
        return answer(items[0])

    def _selection(self, route: Route, request: ApiRequest) -> Any:
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        if route.name:
            fields = f"metadata.name={route.name},{fields}".rstrip(",")
        return self._storage.select(route.kind, route.namespace, labels, fields)

    def _watch(self, route: Route, request: ApiRequest) -> ApiResponse:
        listing.check_options(request)
        selection = self._selection(route, request)
        since = request.number("resourceVersion") or None
        initial = request.flag("sendInitialEvents")
        shape = watching.WatchShape(
            kind=route.kind,
            form=request.form(),
            timeout_s=float(request.number("timeoutSeconds") or _DEFAULT_WATCH_S),
            bookmark_every_s=self._bookmark_every_s if request.flag("allowWatchBookmarks") else None,
            marks_initial_end=initial and request.flag("allowWatchBookmarks"),
            include_object=request.query.get("includeObject", "Metadata"),
        )
        try:
            subscription = self._storage.subscribe(route.kind, selection, None if initial else since)
        except ApiError as error:
            if error.code != 410:
                raise
            return ApiResponse(stream=iter([watching.error_line(error)]))
        return ApiResponse(stream=watching.stream(subscription, shape, self._clock, self._storage.now))

    def _create(self, route: Route, request: ApiRequest) -> ApiResponse:
        body = self._body(route, request)
        kind, storage = route.kind, self._storage
        if kind.plural == "bindings" or route.subresource == "binding":
            return self._bind(route, request, body)
        if kind.plural in _REVIEWS:
            return answer({**body, "status": _REVIEWS[kind.plural]}, 201)
        if route.subresource == "eviction":
            if (body.get("metadata") or {}).get("name") not in (None, "", route.name):
                raise bad_request("name in URL does not match name in Eviction object")
            options = _options(body.get("deleteOptions") or {}, request)
            dry_run = request.dry_run or "All" in ((body.get("deleteOptions") or {}).get("dryRun") or ())
            storage.evict(route.name, route.namespace or "default", options=options, dry_run=dry_run)
            return answer(_done(), 201)
        if route.name:
            raise method_not_allowed()
        stored_kind = self._respelled(kind, body)
        obj = storage.create(stored_kind, body, namespace=route.namespace, dry_run=request.dry_run)
        return self._shaped(kind, obj, request, 201)

    def _body(self, route: Route, request: ApiRequest) -> JsonObject:
        if request.media_type not in _BODY_TYPES:
            raise unsupported_media_type(accepted(filter(None, _BODY_TYPES)))
        return request.object(route.kind.kind)

    def _bind(self, route: Route, request: ApiRequest, body: JsonObject) -> ApiResponse:
        name = route.name or (body.get("metadata") or {}).get("name", "")
        node = (body.get("target") or {}).get("name")
        if not node:
            raise invalid_object(route.kind, name, [required("target.name")])
        self._storage.bind(name, node, namespace=route.namespace or "default", dry_run=request.dry_run)
        return answer(_done(), 201)

    def _update(self, route: Route, request: ApiRequest) -> ApiResponse:
        body = self._body(route, request)
        if route.subresource == "scale":
            dry_run = request.dry_run
            scale = self._storage.replace_scale(
                route.kind, route.name, body, namespace=route.namespace, dry_run=dry_run
            )
            return answer(scale)
        kind = self._respelled(route.kind, body)
        given = (body.get("metadata") or {}).get("name")
        if given != route.name:
            raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({route.name})")
        subresource = "" if route.subresource == "finalize" else route.subresource
        namespace, dry_run = route.namespace, request.dry_run
        obj = self._storage.update(kind, body, namespace=namespace, subresource=subresource, dry_run=dry_run)
        return self._shaped(route.kind, obj, request)

    def _patch(self, route: Route, request: ApiRequest) -> ApiResponse:
        if request.media_type in _APPLY:
            return self._apply(route, request)
        try:
            patch_type = PatchType(request.media_type)
        except ValueError:
            raise unsupported_media_type(accepted(media_types(route.kind))) from None
        kind = self._stored_kind(route.kind)
        obj = self._storage.patch(
            kind,
            route.name,
            request.decoded(),
            namespace=route.namespace,
            patch_type=patch_type,
            subresource=route.subresource,
            dry_run=request.dry_run,
        )
        return self._shaped(route.kind, obj, request)

    def _apply(self, route: Route, request: ApiRequest) -> ApiResponse:
        manager = request.query.get("fieldManager", "")
        if not manager:
            raise invalid_object(route.kind, route.name, [required("fieldManager", "is required for apply patch")])
        config = request.object()
        kind = self._respelled(route.kind, config)
        config.setdefault("metadata", {}).setdefault("name", route.name)
        obj, created = self._storage.apply(
            kind,
            config,
            manager=manager,
            namespace=route.namespace,
            subresource=route.subresource,
            dry_run=request.dry_run,
        )
        return self._shaped(route.kind, obj, request, 201 if created else 200)

    def _delete(self, route: Route, request: ApiRequest) -> ApiResponse:
        body = request.object() if request.body else {}
        dry_run = request.dry_run or "All" in (body.get("dryRun") or ())
        kind = self._stored_kind(route.kind)
        options = _options(body, request)
        deleted = self._storage.delete(kind, route.name, namespace=route.namespace, options=options, dry_run=dry_run)
        if not deleted.gone or kind.id in _RETURNED_WHEN_DELETED:
            return self._shaped(route.kind, deleted.object, request)
        details = {"name": route.name, "kind": kind.plural, "uid": deleted.object["metadata"]["uid"]}
        return answer({**_success(), "details": {**details, **({"group": kind.group} if kind.group else {})}})

    def _delete_collection(self, route: Route, request: ApiRequest) -> ApiResponse:
        body = request.object() if request.body else {}
        kind, options = self._stored_kind(route.kind), _options(body, request)
        dry_run = request.dry_run or "All" in (body.get("dryRun") or ())
        selection = self._selection(route, request)
        items = self._storage.delete_collection(kind, selection, options, dry_run=dry_run)
        metadata = {"resourceVersion": str(self._storage.revision)}
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
        return answer({**head, "metadata": metadata, "items": items})

    def _shaped(self, kind: Kind, obj: JsonObject, request: ApiRequest, code: int = 200) -> ApiResponse:
        if obj.get("apiVersion") != kind.api_version:
            spellings.from_stored(kind, obj)
        match request.form():
            case ObjectFormat.TABLE:
                include = request.query.get("includeObject", "Metadata")
                shown = table(kind, [obj], self._storage.now(), include)
                return answer({**shown, "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]}}, code)
            case ObjectFormat.METADATA:
                return answer(partial(obj), code)
        return answer(obj, code)

    def _stored_kind(self, kind: Kind) -> Kind:
        return self._storage.kind(kind.store) if kind.store else kind

    def _respelled(self, kind: Kind, body: JsonObject) -> Kind:
        """Respell the body as it is stored, in place, and return the kind that stores it."""
        spellings.to_stored(kind, body)
        return self._stored_kind(kind)


def _options(body: JsonObject, request: ApiRequest) -> DeleteOptions:
    """DeleteOptions from the body, or from the query."""
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = request.number("gracePeriodSeconds")
    policy = body.get("propagationPolicy") or request.query.get("propagationPolicy")
    if body.get("orphanDependents") or request.flag("orphanDependents"):
        policy = Propagation.ORPHAN
    try:
        propagation = Propagation(policy) if policy else Propagation.BACKGROUND
    except ValueError:
        raise bad_request(f"propagationPolicy: Unsupported value: {policy!r}") from None
    return DeleteOptions(grace, propagation, preconditions.get("uid"), preconditions.get("resourceVersion"))


def _done() -> JsonObject:
    """What creating something that is no object answers."""
    return {**_success(), "code": 201}


def _success() -> JsonObject:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
