"""List answers: pages joined from stored bytes, continue tokens, resourceVersion semantics."""

import base64
import binascii

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import ApiError, bad_request, expired, forbidden_field, invalid, not_supported
from autoscaler.sandbox.apiserver.http_messages import ApiRequest, ApiResponse, ObjectFormat, answer
from autoscaler.sandbox.apiserver.json_errors import json_problem
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.apiserver.store import ListPage, StoreSelection
from autoscaler.sandbox.apiserver.table import partial, table

_VERSION = "meta.k8s.io/v1"
_LATEST = -1
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_MATCHES = ("Exact", "NotOlderThan", "")


class _Token(msgspec.Struct, frozen=True):
    """Where a list continues (after this key, relative to what is listed), and as of when (-1: as it is now)."""

    v: str = ""
    rv: int = 0
    start: str = ""


def check_options(request: ApiRequest) -> None:
    """Raise ApiError 422 for query parameters of a list or watch that contradict each other."""
    match, revision = (request.query.get(name, "") for name in ("resourceVersionMatch", "resourceVersion"))
    watching, initial = request.flag("watch"), "sendInitialEvents" in request.query
    problem = None
    if initial and not watching:
        problem = forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
    elif initial and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problem = forbidden_field("resourceVersionMatch", why)
    elif match and (misplaced := _misplaced(request, match, revision)) is not None:
        problem = forbidden_field("resourceVersionMatch", misplaced)
    elif match not in _MATCHES:
        problem = not_supported("resourceVersionMatch", match, _MATCHES)
    if problem is not None:
        raise invalid(Kind("meta.k8s.io", "v1", "", "ListOptions"), "", [problem])


def _misplaced(request: ApiRequest, match: str, revision: str) -> str | None:
    """Why `resourceVersionMatch` may not be given, if so."""
    if request.flag("watch"):
        has_initial_events = "sendInitialEvents" in request.query
        return (
            None
            if has_initial_events
            else "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
    if request.query.get("continue"):
        return "resourceVersionMatch is forbidden when continue is provided"
    if not revision:
        return "resourceVersionMatch is forbidden unless resourceVersion is provided"
    if match == "Exact" and revision == "0":
        return 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    return None


def list_page(storage: Storage, kind: Kind, selection: StoreSelection, request: ApiRequest) -> ListPage:
    """Find the page a request is about; raises ApiError 400, 410 or 504."""
    check_options(request)
    limit = request.number("limit") or None
    revision = request.number("resourceVersion")
    if text := request.query.get("continue", ""):
        if revision:
            raise bad_request("specifying resource version is not allowed when using continue")
        return _continued(storage, kind, selection, limit, _decode_token(text))
    match = request.query.get("resourceVersionMatch", "")
    exact = match == "Exact" or (limit is not None and bool(revision) and not match)
    if exact:
        try:
            return storage.page(kind, selection, limit=limit, revision=revision)
        except ApiError as error:
            if error.code != 410:
                raise
            raise expired("The resourceVersion for the provided list is too old.") from error
    if revision is not None and revision > storage.revision:
        storage.page(kind, selection, limit=1, revision=revision)
    return storage.page(kind, selection, limit=limit)


def _continued(storage: Storage, kind: Kind, selection: StoreSelection, limit: int | None, token: _Token) -> ListPage:
    start = token.start.removeprefix("/").removesuffix("\0")
    if selection.namespace is None:
        namespace, _, name = start.partition("/")
        after = (namespace, name)
    else:
        after = (selection.namespace, start)
    try:
        return storage.page(
            kind, selection, limit=limit, after=after, revision=token.rv if token.rv != _LATEST else None
        )
    except ApiError as error:
        if error.code != 410:
            raise
        expired_error = expired(_EXPIRED)
        expired_error.metadata = {
            "continue": _encode_token(msgspec.structs.replace(token, rv=_LATEST, start=f"{start}\0"))
        }
        raise expired_error from error


def render(storage: Storage, kind: Kind, selection: StoreSelection, page: ListPage, request: ApiRequest) -> ApiResponse:
    """Encode a page in the form the client accepts."""
    metadata: JsonObject = {"resourceVersion": str(page.revision), **({"continue": ""} if kind.custom else {})}
    if page.last is not None:
        start = page.last[1] if selection.namespace is not None else "/".join(page.last)
        metadata["continue"] = _encode_token(_Token(_VERSION, page.revision, f"{start}\0"))
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    match request.form():
        case ObjectFormat.TABLE:
            objects = [record.decoded(kind) for record in page.records]
            include = request.query.get("includeObject", "Metadata")
            return answer({**table(kind, objects, storage.now(), include), "metadata": metadata})
        case ObjectFormat.METADATA:
            items = [partial(record.decoded(kind)) for record in page.records]
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            return answer({**head, "metadata": metadata, "items": items})
    return ApiResponse(200, _list_body(kind, page, metadata))


def _list_body(kind: Kind, page: ListPage, metadata: JsonObject) -> bytes:
    """The list as bytes: items of built-in kinds carry no kind and apiVersion, as the real server's do not."""
    if kind.custom or kind.store:
        items = b",".join([record.encoded(kind) for record in page.records])
    else:
        items = b",{".join([record.tail for record in page.records])
        items = b"{" + items if items else items
    head = b'{"kind":"%sList","apiVersion":"%s","metadata":' % (kind.kind.encode(), kind.api_version.encode())
    return b"".join((head, msgspec.json.encode(metadata), b',"items":[', items, b"]}\n"))


def _encode_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode_token(text: str) -> _Token:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid_token(f"illegal base64 data: {error}") from error
    try:
        token = msgspec.json.decode(data, type=_Token)
    except msgspec.DecodeError as error:
        raise _invalid_token(json_problem(data)) from error
    if token.v != _VERSION:
        raise _invalid_token(f'server does not recognize this encoded version "{token.v}"')
    if not token.rv:
        raise _invalid_token(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not token.start:
        raise _invalid_token(f"encoded start key empty (version {_VERSION})")
    return token


def _invalid_token(why: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
