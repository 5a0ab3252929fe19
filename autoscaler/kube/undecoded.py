"""Tracks objects that cannot be decoded, and their replacements in a store."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from autoscaler.kube.store import Delta, Store, delta_of
from autoscaler.logs import Log
from autoscaler.objects.decode import DecodedEvent, Decoder, Named, Undecoded, WatchEventType

_MAX_EXAMPLES = 20
_MAX_NAME = 320

T = TypeVar("T", bound=Named)

log = Log(__name__)


class UndecodedObjects(Generic[T]):
    """Undecodable objects by key, with the error of each. Only for the thread that fills the store."""

    def __init__(self, path: str, store: Store[T], decoder: Decoder[T]) -> None:
        """`path` is the collection of the objects."""
        self._path = path
        self._store = store
        self._decoder = decoder
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def examples(self) -> Mapping[str, str]:
        """Return a copy of the errors of some of them, by key."""
        return dict(itertools.islice(self._reasons.items(), _MAX_EXAMPLES))

    def in_place_of(self, listed: Sequence[Undecoded]) -> list[T]:
        """Return the replacements for the undecodable objects of a complete list; forget all others."""
        keys = {undecoded.key for undecoded in listed}
        self._reasons = {key: reason for key, reason in self._reasons.items() if key in keys}
        return [item for undecoded in listed if (item := self._in_place_of(undecoded)) is not None]

    def delta_of(self, change: DecodedEvent[T]) -> Delta[T] | None:
        """Return the change that a watch event makes to the store; None if it makes none.

        All earlier events must be in the store.
        """
        undecoded = change.undecoded
        if undecoded is None:
            if self._reasons and change.item is not None:
                self._reasons.pop(change.item.key, None)
            return delta_of(change)
        if change.verb is WatchEventType.DELETED:
            self._reasons.pop(undecoded.key, None)
            current = self._last_known(undecoded)
            return None if current is None else Delta(current, None)
        item = self._in_place_of(undecoded)
        return None if item is None else Delta(None, item)

    def _last_known(self, undecoded: Undecoded) -> T | None:
        current = self._store.get(undecoded.key)
        return current if current is not None and undecoded.metadata.uid in ("", current.uid) else None

    def _in_place_of(self, undecoded: Undecoded) -> T | None:
        """Return the replacement of an object; log it if it is new and not one of very many."""
        if undecoded.key not in self._reasons and len(self._reasons) < _MAX_EXAMPLES:
            name = " ".join(undecoded.key.split())[:_MAX_NAME] or "unknown"
            log.warning("kube.undecoded", path=self._path, name=name, error=undecoded.why)
        self._reasons[undecoded.key] = undecoded.why
        return self._decoder.stand_in(undecoded, self._last_known(undecoded)) if undecoded.key else None
