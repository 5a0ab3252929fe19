"""Stores fed by a storage in the same process: the simulator's `kube.feed.Feed`."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from autoscaler.clock import Clock
from autoscaler.kube.store import Store, delta_of
from autoscaler.kube.watch import KindSource
from autoscaler.objects.decode import Named
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.journal import Subscription
from autoscaler.sandbox.apiserver.records import StoreChange as StoredChange
from autoscaler.sandbox.apiserver.routes import route
from autoscaler.sandbox.apiserver.storage import Storage

T = TypeVar("T", bound=Named)

_EXPIRED = 410


class JournalFeed:
    """Updates stores on request, from the lines that watches would have sent.

    With `lag_s`, each change arrives that many seconds after it was written.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self.lag_s = 0.0
        self._storage = storage
        self._clock = clock
        self._followers: list[_Follower[Any]] = []
        self._disconnected_at: float | None = None

    def add(self, source: KindSource[T], *, log_changes: bool = True) -> Store[T]:
        """Follow one more kind; return the store for it."""
        store: Store[T] = Store(log_changes=log_changes)
        self._followers.append(_Follower(self._storage, source, store))
        return store

    def wait_synced(self, timeout_s: float) -> Mapping[str, str]:
        """Return the paths that are not listed yet, without waiting: only `sync` lists."""
        return {follower.path: "still listing" for follower in self._followers if not follower.has_synced}

    @property
    def has_synced(self) -> bool:
        """Whether every store has been complete at least once."""
        return all(follower.has_synced for follower in self._followers)

    def set_connected(self, server: bool) -> None:
        """Set whether the storage is reachable; at first it is."""
        if server:
            self._disconnected_at = None
        elif self._disconnected_at is None:
            self._disconnected_at = self._clock.now().mono

    def silence_s(self) -> Mapping[str, float]:
        """Return how many seconds each kind has been silent, by path; empty while the storage is reachable."""
        silent_s = 0.0 if self._disconnected_at is None else self._clock.now().mono - self._disconnected_at
        return {follower.path: silent_s for follower in self._followers if follower.has_synced}

    def sync(self) -> None:
        """Read what was written, and deliver what is due."""
        now = self._clock.now().mono
        for follower in self._followers:
            follower.sync(now, self.lag_s)

    def due(self) -> float:
        """Monotonic second of the next delivery by `sync`; infinite if none is known."""
        return min((follower.due() for follower in self._followers), default=math.inf)

    def stop(self) -> None:
        """Stop following."""
        for follower in self._followers:
            follower.stop()


class _Follower(Generic[T]):
    """Keeps one store equal to one selection of objects."""

    def __init__(self, storage: Storage, source: KindSource[T], store: Store[T]) -> None:
        self.path = source.subject
        self._storage = storage
        self._source = source
        self._store = store
        target = route(storage.registry, source.path)
        self._kind = target.kind
        self._selection = storage.select(target.kind, target.namespace, source.label_selector, source.field_selector)
        self._subscription: Subscription | None = None
        self._dirty = True
        self._in_flight: deque[tuple[float, list[bytes]]] = deque()
        self.stop = storage.listen(target.kind, self._on_change)

    @property
    def has_synced(self) -> bool:
        return self._subscription is not None

    def due(self) -> float:
        if self._dirty:
            return -math.inf
        return self._in_flight[0][0] if self._in_flight else math.inf

    def sync(self, now: float, lag_s: float) -> None:
        if self._dirty:
            self._dirty = False
            if lines := self._new_lines():
                self._in_flight.append((now + lag_s, lines))
        while self._in_flight and self._in_flight[0][0] <= now:
            _, lines = self._in_flight.popleft()
            changes = (self._source.decoder.change(line) for line in lines)
            self._store.apply([delta for change in changes if (delta := delta_of(change)) is not None])

    def _on_change(self, _change: StoredChange) -> None:
        self._dirty = True

    def _new_lines(self) -> list[bytes]:
        """Return the new lines. The first call lists, as does a call after the storage has forgotten missed changes."""
        if self._subscription is None:
            self._list()
            return []
        try:
            events = self._subscription.poll()
        except ApiError as error:
            if error.code != _EXPIRED:
                raise
            self._list()
            return []
        return [event.line(self._kind) for event in events]

    def _list(self) -> None:
        """Replace the contents of the store with the existing objects at once; delayed changes are older and
        dropped.
        """
        self._in_flight.clear()
        self._subscription = self._storage.subscribe(self._kind, self._selection, None)
        lines = (event.line(self._kind) for event in self._subscription.poll())
        items = (self._source.decoder.change(line).item for line in lines)
        self._store.replace([item for item in items if item is not None])
