"""Stores the last known objects of one kind; a reflector writes it, all others read it."""

import threading
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from autoscaler.objects.decode import DecodedEvent, Named, WatchEventType
from autoscaler.ports import StoreListener

T = TypeVar("T", bound=Named)


class Delta(NamedTuple, Generic[T]):
    """The change of one key: `old` is None for a new object, `new` is None for a removed one.

    Different uids in the two mean that another object of the same name replaced the first.
    """

    old: T | None
    new: T | None


class Store(Generic[T]):
    """Objects by key, with listeners and a log of changes.

    One thread writes; any thread may read. An object equal to the stored one changes nothing and is not reported, so
    listeners and the log only see changes that matter to the autoscaler.
    """

    def __init__(self, *, log_changes: bool = True) -> None:
        """Set `log_changes` to False if nothing drains the log, because it keeps each changed key until it is
        drained.
        """
        self.absent = False
        """Whether the store is empty because the server does not have the kind or does not let us read it."""
        self._lock = threading.Lock()
        self._items: dict[str, T] = {}
        self._listeners: tuple[StoreListener[T], ...] = ()
        self._log: dict[str, Delta[T]] | None = {} if log_changes else None

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> T | None:
        """Return the object under `namespace/name`, or under its name if the kind has no namespace; None if absent."""
        return self._items.get(key)

    def snapshot(self) -> dict[str, T]:
        """Return a copy of all current objects by key."""
        with self._lock:
            return self._items.copy()

    def subscribe(self, listener: StoreListener[T]) -> None:
        """Report every later change to `listener`, on the writing thread; subscribe before the reflector starts."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def drain_changes(self) -> dict[str, Delta[T]]:
        """Return the changes since the last drain, one per key; intermediate states are lost.

        The first drain reports all objects as new. An object that appeared and disappeared in between has no entry.
        """
        with self._lock:
            if self._log is None:
                raise ValueError("this store keeps no log of changes")
            drained, self._log = self._log, {}
            return drained

    def apply(self, changes: Iterable[Delta[T]]) -> None:
        """Apply changes in order. Only the key and uid of `old` matter; the store reports the object that it holds.

        A change to an unknown object is an addition. The removal of an unknown object, or of an earlier object with the
        same name, is ignored.
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
        """Replace the content with `items`: missing objects are removed, equal ones stay untouched."""
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
    """Return the change that a watch event makes to a store; None if it makes none."""
    item = change.item
    if item is None:
        return None
    return Delta(item, None) if change.verb is WatchEventType.DELETED else Delta(None, item)
