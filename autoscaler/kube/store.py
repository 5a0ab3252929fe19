"""Stores the last known objects of one kind; a reflector writes it, everyone reads it."""

import threading
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from autoscaler.objects.decode import DecodedEvent, Named, WatchEventType
from autoscaler.ports import StoreListener

T = TypeVar("T", bound=Named)


class Delta(NamedTuple, Generic[T]):
    """What became of one key: `old` is None for an object that appeared, `new` for one that went away.

    Different uids in the two mean that the object was replaced by another of the same name.
    """

    old: T | None
    new: T | None


class Store(Generic[T]):
    """Objects by key, with listeners and a log of changes.

    One thread writes; any thread reads. An object equal to the one it would replace changes nothing and is not
    reported, so what listeners and the log see is what matters to the autoscaler.
    """

    def __init__(self, *, log_changes: bool = True) -> None:
        """Turn `log_changes` off where nobody drains: the log remembers each changed key until then."""
        self.absent = False
        """Whether the server has no such kind, or not for us: there is nothing in the store for that reason."""
        self._lock = threading.Lock()
        self._items: dict[str, T] = {}
        self._listeners: tuple[StoreListener[T], ...] = ()
        self._log: dict[str, Delta[T]] | None = {} if log_changes else None

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> T | None:
        """Return the object under `namespace/name`, or the name where the kind has no namespace."""
        return self._items.get(key)

    def snapshot(self) -> dict[str, T]:
        """Return all objects by key, as of now; the copy is the caller's."""
        with self._lock:
            return self._items.copy()

    def subscribe(self, listener: StoreListener[T]) -> None:
        """Report every later change to `listener`, on the writing thread; subscribe before the reflector starts."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def drain_changes(self) -> dict[str, Delta[T]]:
        """Return what changed since the last drain, one entry a key: states in between are lost.

        The first drain reports everything as new. Where an object came and went in between there is no entry.
        """
        with self._lock:
            if self._log is None:
                raise ValueError("this store keeps no log of changes")
            drained, self._log = self._log, {}
            return drained

    def apply(self, changes: Iterable[Delta[T]]) -> None:
        """Take in changes in order; only the key of `old` counts, what the store holds is what goes away.

        A change of an object never seen is an addition; the removal of one never seen, or of an earlier object of
        the same name, is ignored.
        """
        reported: list[Delta[T]] = []
        with self._lock:
            for old, new in changes:
                if new is not None:
                    reported.extend(self._put(new))
                elif old is not None:
                    current = self._items.get(old.key)
                    if current is not None and current.uid == old.uid:
                        reported.append(self._change(old.key, current, None))
        self._report(reported)

    def replace(self, items: Iterable[T]) -> None:
        """Make `items` all there is: what is missing from them goes away, what is equal stays untouched."""
        reported: list[Delta[T]] = []
        with self._lock:
            by_key = {item.key: item for item in items}
            for key in self._items.keys() - by_key.keys():
                reported.append(self._change(key, self._items[key], None))
            for item in by_key.values():
                reported.extend(self._put(item))
        self._report(reported)

    def _put(self, new: T) -> Iterable[Delta[T]]:
        key = new.key
        current = self._items.get(key)
        if current is None or current.uid == new.uid:
            return () if current == new else (self._change(key, current, new),)
        return self._change(key, current, None), self._change(key, None, new)

    def _change(self, key: str, old: T | None, new: T | None) -> Delta[T]:
        if new is None:
            del self._items[key]
        else:
            self._items[key] = new
        if self._log is not None:
            first = self._log[key].old if key in self._log else old
            if first is None and new is None:
                self._log.pop(key, None)
            else:
                self._log[key] = Delta(first, new)
        return Delta(old, new)

    def _report(self, deltas: Iterable[Delta[T]]) -> None:
        for listener in self._listeners:
            for old, new in deltas:
                listener.changed(old, new)


def delta_of(change: DecodedEvent[T]) -> Delta[T] | None:
    """Return what a watch event does to a store; None: nothing."""
    item = change.item
    if item is None:
        return None
    return Delta(item, None) if change.verb is WatchEventType.DELETED else Delta(None, item)
