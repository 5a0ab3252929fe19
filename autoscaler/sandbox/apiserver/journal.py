"""All stores behind one lock and one revision counter, and the order in which listeners get changes."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from autoscaler.clock import Clock
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import from_the_future
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.records import ChangeType, Key, StoreChange, Stored, stored
from autoscaler.sandbox.apiserver.store import ObjectStore, StoreSelection

ChangeListener = Callable[[StoreChange], None]


class WatchEvent(msgspec.Struct, frozen=True):
    """One change as one watcher sees it: an object entering a selection was ADDED, whatever happened to it."""

    type: ChangeType
    change: StoreChange

    def object(self) -> JsonObject:
        """The object as reported, as a fresh copy."""
        return self.change.seen(self.type).decoded(self.change.kind)

    def line(self, kind: Kind) -> bytes:
        """The encoded watch line."""
        return self.change.line(self.type, kind)


class Subscription:
    """A cursor into one store's history. It holds no queue: a slow reader that history outruns gets a 410."""

    def __init__(self, journal: "Journal", store: ObjectStore, selection: StoreSelection, since: int | None) -> None:
        self._journal = journal
        self._store = store
        self._selection = selection
        self._closed = False
        self._initial: list[WatchEvent] = []
        if since is None:
            self._initial = [
                WatchEvent(ChangeType.ADDED, StoreChange(store.kind, ChangeType.ADDED, record, None))
                for record in store.records(selection)
            ]
            since = journal.revision
        self.revision = since
        """Everything up to this resource version has been delivered."""

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    def poll(self) -> list[WatchEvent]:
        """Return what is new, without waiting; raises ApiError 410 when it is forgotten."""
        with self._journal.lock:
            if self._initial:
                events, self._initial = self._initial, []
                return events
            changes = self._store.since(self.revision)
            self.revision = max(self.revision, self._journal.revision)
        seen = ((self._seen_as(change), change) for change in changes)
        return [WatchEvent(seen_as, change) for seen_as, change in seen if seen_as is not None]

    def wait(self, timeout_s: float) -> list[WatchEvent]:
        """Return what is new, after waiting for it up to `timeout_s` real seconds; empty means nothing came."""
        changed = self._journal.condition(self._store)
        with self._journal.lock:
            events = self.poll()
            if not events and not self._closed:
                changed.wait(timeout_s)
                events = self.poll()
        return events

    def close(self) -> None:
        """Wake all waiting threads; later waits return at once."""
        with self._journal.lock:
            self._closed = True
            self._journal.condition(self._store).notify_all()

    def _seen_as(self, change: StoreChange) -> ChangeType | None:
        was_selected = change.before is not None and self._selection.matches(change.before)
        if change.type is ChangeType.DELETED:
            return ChangeType.DELETED if was_selected else None
        if self._selection.matches(change.now):
            return ChangeType.MODIFIED if was_selected else ChangeType.ADDED
        return ChangeType.DELETED if was_selected else None


class Journal:
    """Commits changes. Listeners run after the write that caused them, in commit order, one at a time.

    A listener may write: its changes are delivered after every listener has the present one. So runs under a virtual
    clock are repeatable, and no lock is held while listeners run.
    """

    def __init__(self, clock: Clock, history_limit: int) -> None:
        self.lock = threading.RLock()
        self.revision = 0
        self.applied: dict[str, dict[str, JsonObject]] = {}
        """Last server-side applied configuration by uid and field manager."""
        self._clock = clock
        self._history_limit = history_limit
        self._stores: dict[str, ObjectStore] = {}
        self._conditions: dict[str, threading.Condition] = {}
        self._by_owner: dict[str, dict[tuple[str, Key], None]] = {}
        self._listeners: dict[str, list[ChangeListener]] = {}
        self._pending: deque[StoreChange] = deque()
        self._depth = 0
        self._dispatching = False

    def timestamp(self, later_s: float = 0) -> str:
        """The present moment (or one a little later) as API objects spell it."""
        moment = datetime.fromtimestamp(self._clock.now().wall + later_s, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def now(self) -> float:
        """Wall seconds."""
        return self._clock.now().wall

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the lock; after the outermost transaction of the thread, listeners receive the committed changes."""
        self.lock.acquire()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            outermost = self._depth == 0
            self.lock.release()
            if outermost:
                self._dispatch()

    def store(self, kind: Kind) -> ObjectStore:
        """The store that holds this kind's objects."""
        with self.lock:
            store = self._stores.get(kind.store_id)
            if store is None:
                store = ObjectStore(kind, self._history_limit)
                store.compact(self.revision)
                self._stores[kind.store_id] = store
                self._conditions[kind.store_id] = threading.Condition(self.lock)
            return store

    def stores(self) -> list[ObjectStore]:
        """Every store in use."""
        with self.lock:
            return list(self._stores.values())

    def condition(self, store: ObjectStore) -> threading.Condition:
        """Notified after each change of the store."""
        return self._conditions[store.kind.store_id]

    def put(self, kind: Kind, obj: JsonObject) -> Stored:
        """Commit a new or changed object; stamps its resourceVersion in place."""
        store = self.store(kind)
        record = self._next(kind, obj)
        before = store.get(record.key)
        change = ChangeType.ADDED if before is None else ChangeType.MODIFIED
        self._commit(store, StoreChange(store.kind, change, record, before))
        return record

    def load(self, kind: Kind, obj: JsonObject) -> Stored:
        """Store an object without notice to watchers and listeners."""
        record = self._next(kind, obj)
        store = self.store(kind)
        before = store.get(record.key)
        if before is not None:
            self._unindex_owners(store, before)
        store.load(record)
        self._index_owners(store, record)
        return record

    def remove(self, kind: Kind, record: Stored) -> Stored:
        """Commit a deletion; returns the last state under the deletion's resource version."""
        store = self.store(kind)
        last = self._next(store.kind, record.decoded(store.kind))
        self.applied.pop(record.uid, None)
        self._commit(store, StoreChange(store.kind, ChangeType.DELETED, last, record))
        return last

    def dependents(self, uid: str) -> list[tuple[ObjectStore, Stored]]:
        """Objects that name this uid as an owner."""
        records = []
        for store_id, key in self._by_owner.get(uid, ()):
            store = self._stores[store_id]
            record = store.get(key)
            if record is not None:
                records.append((store, record))
        return records

    def subscribe(self, kind: Kind, selection: StoreSelection, since: int | None) -> Subscription:
        """Watch from after `since`; `None` starts with what exists. Raises ApiError 410 or 504."""
        with self.lock:
            store = self.store(kind)
            if since is not None:
                if since > self.revision:
                    raise from_the_future(since, self.revision)
                store.since(since)
            return Subscription(self, store, selection, since)

    def listen(self, kind: Kind, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` for each change of this kind from now on; the result stops that."""
        with self.lock:
            listeners = self._listeners.setdefault(kind.store_id, [])
            listeners.append(listener)

        def stop() -> None:
            with self.lock:
                if listener in listeners:
                    listeners.remove(listener)

        return stop

    def _next(self, kind: Kind, obj: JsonObject) -> Stored:
        self.revision += 1
        return stored(kind, obj, self.revision)

    def _commit(self, store: ObjectStore, change: StoreChange) -> None:
        store.apply(change)
        if change.before is not None:
            self._unindex_owners(store, change.before)
        if change.type is not ChangeType.DELETED:
            self._index_owners(store, change.now)
        if self._listeners.get(store.kind.store_id):
            self._pending.append(change)
        self.condition(store).notify_all()

    def _index_owners(self, store: ObjectStore, record: Stored) -> None:
        for uid in record.owners:
            self._by_owner.setdefault(uid, {})[store.kind.store_id, record.key] = None

    def _unindex_owners(self, store: ObjectStore, record: Stored) -> None:
        for uid in record.owners:
            owned = self._by_owner.get(uid, {})
            owned.pop((store.kind.store_id, record.key), None)
            if not owned:
                self._by_owner.pop(uid, None)

    def _dispatch(self) -> None:
        with self.lock:
            if self._dispatching:
                return
            self._dispatching = True
        try:
            while (change := self._next_pending()) is not None:
                for listener in tuple(self._listeners.get(change.kind.store_id, ())):
                    listener(change)
        except BaseException:
            self._dispatching = False
            raise

    def _next_pending(self) -> StoreChange | None:
        with self.lock:
            if self._pending:
                return self._pending.popleft()
            self._dispatching = False
            return None
