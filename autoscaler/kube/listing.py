"""Reading a whole collection once, without following it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from autoscaler.errors import Gone
from autoscaler.kube.client import Call

_PAGE_ITEMS = 500
_PAGE = Call(timeout_s=60.0, urgent=True)


class Gets(Protocol):
    """What is needed of the client."""

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = ...) -> bytes:
        """Read one chunk of a list."""
        ...


class _ListMeta(msgspec.Struct, frozen=True):
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()


def read_all(client: Gets, path: str, selection: Mapping[str, str] | None = None) -> Sequence[bytes]:
    """Return the bodies of all chunks of the collection at `path`, in order; `selection` holds selectors.

    Takes get and list alone. Raises what the client raises: `Gone` where there is no such collection, `Refused` where
    it may not be read, `RetryLater` when the server does not answer.
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
            # The server has forgotten the version that the first chunk was of: all at once, then.
            return (client.get(path, selected, _PAGE),)
        rest = msgspec.json.decode(pages[-1], type=_List).metadata.continue_
        if not rest:
            return pages
        query["continue"] = rest
