"""List answers: pages joined from stored bytes, continue tokens, resourceVersion semantics."""

import base64
import binascii

import msgspec

from autoscaler.simulator.apiserver.errors import ApiError, JsonObject, bad_request, expired
from autoscaler.simulator.apiserver.kinds import Kind
from autoscaler.simulator.apiserver.messages import Answer, Form, Request, answer
from autoscaler.simulator.apiserver.records import Key
from autoscaler.simulator.apiserver.storage import Storage
from autoscaler.simulator.apiserver.store import Page, Selection
from autoscaler.simulator.apiserver.table import partial, table


class _Token(msgspec.Struct, frozen=True):
    """Where a list continues, and as of when."""

    revision: int
    after: Key


def list_page(storage: Storage, kind: Kind, selection: Selection, request: Request) -> Page:
    """Find the page a request is about; raises ApiError 400, 410 or 504."""
    limit = request.number("limit") or None
    if text := request.query.get("continue", ""):
        token = _read(text)
        try:
            return storage.page(kind, selection, limit=limit, after=token.after, revision=token.revision)
        except ApiError as error:
            if error.code != 410:
                raise
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new "
                "list without the continue parameter."
            ) from error
    revision = request.number("resourceVersion")
    match = request.query.get("resourceVersionMatch", "")
    if match not in ("", "Exact", "NotOlderThan"):
        raise bad_request(f"resourceVersionMatch: Unsupported value: {match!r}")
    if match and revision is None:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    exact = match == "Exact" or (limit is not None and bool(revision) and not match)
    if exact:
        return storage.page(kind, selection, limit=limit, revision=revision)
    if revision is not None and revision > storage.revision:
        storage.page(kind, selection, limit=1, revision=revision)
    return storage.page(kind, selection, limit=limit)


def render(storage: Storage, kind: Kind, page: Page, request: Request) -> Answer:
    """Encode a page in the form the client accepts."""
    metadata: JsonObject = {"resourceVersion": str(page.revision)}
    if page.last is not None:
        metadata["continue"] = _write(_Token(page.revision, page.last))
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    match request.form():
        case Form.TABLE:
            objects = [record.decoded(kind) for record in page.records]
            include = request.query.get("includeObject", "Metadata")
            return answer({**table(kind, objects, storage.now(), include), "metadata": metadata})
        case Form.METADATA:
            items = [partial(record.decoded(kind)) for record in page.records]
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            return answer({**head, "metadata": metadata, "items": items})
    return Answer(200, _joined(kind, page, metadata))


def _joined(kind: Kind, page: Page, metadata: JsonObject) -> bytes:
    """The list as bytes: items of built-in kinds carry no kind and apiVersion, as the real server's do not."""
    if kind.custom or kind.store:
        items = b",".join([record.encoded(kind) for record in page.records])
    else:
        items = b",{".join([record.tail for record in page.records])
        items = b"{" + items if items else items
    head = b'{"kind":"%sList","apiVersion":"%s","metadata":' % (kind.kind.encode(), kind.api_version.encode())
    return b"".join((head, msgspec.json.encode(metadata), b',"items":[', items, b"]}\n"))


def _write(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (msgspec.DecodeError, binascii.Error) as error:
        raise bad_request("continue key is not valid") from error
