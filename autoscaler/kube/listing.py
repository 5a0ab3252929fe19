"""Lists a whole collection once, without watching it."""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.errors import Gone, RetryLater
from autoscaler.kube.call import Call
from autoscaler.kube.reader import ApiReader
from autoscaler.objects.lenient_json import UNREADABLE, loads, words

_PAGE_ITEMS = 500
_PAGE = Call(timeout_s=60.0, urgent=True)


class _ItemsMeta(msgspec.Struct, frozen=True):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _RawItems(msgspec.Struct, frozen=True):
    metadata: _ItemsMeta | None = None


def read_all(client: ApiReader, path: str, selection: Mapping[str, str] | None = None) -> Sequence[bytes]:
    """Return the bodies of all chunks of the collection at `path`, in order; `selection` holds selectors.

    Needs only the permissions get and list. Raises the client's errors: `Gone` if the collection does not exist,
    `Refused` without permission, `RetryLater` if the server does not answer.
    """
    selected = dict(selection or {})
    query = {**selected, "limit": str(_PAGE_ITEMS)}
    pages: list[bytes] = []
    while True:
        try:
            pages.append(client.get(path, query, _PAGE))
        except Gone:
            if not pages:
                raise
            # The server has forgotten the version of the first chunk: read everything at once.
            return (client.get(path, selected, _PAGE),)
        continue_token = _continue_token(pages[-1])
        if not continue_token:
            return pages
        query["continue"] = continue_token


def _continue_token(body: bytes) -> str | None:
    """Return the token of the next chunk; None after the last."""
    try:
        meta = msgspec.json.decode(body, type=_RawItems).metadata
    except UNREADABLE:  # perhaps because of an object in it, which is not checked here
        try:
            meta = msgspec.convert(loads(body), _RawItems).metadata
        except msgspec.MsgspecError as error:
            raise RetryLater(f"the API server sent something that is no list: {words(error)}") from error
    return None if meta is None else meta.continue_
