"""Tracks objects that cannot be decoded, and what a store holds in their place."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from autoscaler.kube.store import Delta, Store, delta_of
from autoscaler.logs import Log
from autoscaler.objects.decode import DecodedEvent, Decoder, Named, Undecoded, WatchEventType

_NAMED = 20
_LONGEST_NAME = 320

T = TypeVar("T", bound=Named)

log = Log(__name__)


class UndecodedObjects(Generic[T]):
    """Objects by key, with what is wrong with each. For the thread that fills the store."""

    def __init__(self, path: str, store: Store[T], decoder: Decoder[T]) -> None:
        """`path` is the collection that they are of."""
        self._path = path
        self._store = store
        self._decoder = decoder
        self._why: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._why)

    def examples(self) -> Mapping[str, str]:
        """Return what is wrong with the first of them, by key; the copy is the caller's."""
        return dict(itertools.islice(self._why.items(), _NAMED))

    def in_place_of(self, listed: Sequence[Undecoded]) -> list[T]:
        """Return what is kept of those in a complete list; there are no others any more."""
        keys = {odd.key for odd in listed}
        self._why = {key: why for key, why in self._why.items() if key in keys}
        return [item for odd in listed if (item := self._in_place_of(odd)) is not None]

    def delta_of(self, change: DecodedEvent[T]) -> Delta[T] | None:
        """Return what a watch event does to the store, which has taken in all before it; None: nothing."""
        odd = change.undecoded
        if odd is None:
            if self._why and change.item is not None:
                self._why.pop(change.item.key, None)
            return delta_of(change)
        if change.verb is WatchEventType.DELETED:
            self._why.pop(odd.key, None)
            held = self._last_known(odd)
            return None if held is None else Delta(held, None)
        item = self._in_place_of(odd)
        return None if item is None else Delta(None, item)

    def _last_known(self, odd: Undecoded) -> T | None:
        held = self._store.get(odd.key)
        return held if held is not None and odd.metadata.uid in ("", held.uid) else None

    def _in_place_of(self, odd: Undecoded) -> T | None:
        """Return what is kept of an object; it is named in the log if it is new, and not one of very many."""
        if odd.key not in self._why and len(self._why) < _NAMED:
            name = " ".join(odd.key.split())[:_LONGEST_NAME] or "unknown"
            log.warning("kube.undecoded", path=self._path, name=name, error=odd.why)
        self._why[odd.key] = odd.why
        return self._decoder.stand_in(odd, self._last_known(odd)) if odd.key else None
