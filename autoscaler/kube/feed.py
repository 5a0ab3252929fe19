"""Starts and stops the watches of all kinds, and waits until they are in sync."""

import random
import threading
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from autoscaler.clock import Clock
from autoscaler.kube.store import Store
from autoscaler.kube.watch import KindSource, ListsAndWatches, Reflector, ReflectorStats, StopWait
from autoscaler.objects.decode import Named

T = TypeVar("T", bound=Named)

_RENEW_S = 90.0
"""Longest lifetime of a watch when silence matters.

Bookmarks come at most every minute, and not for a kind without changes.
"""


class Feed(Protocol):
    """Fills stores from watches or, in the simulator, directly from the storage. Add every kind before it starts."""

    def add(self, source: KindSource[T], *, log_changes: bool = True) -> Store[T]:
        """Follow another kind; return the store that it fills."""
        ...

    def wait_synced(self, timeout_s: float) -> Mapping[str, str]:
        """Wait until every store is complete; return the paths of incomplete ones, each with the reason."""
        ...

    @property
    def has_synced(self) -> bool:
        """Whether every store has been complete at least once."""
        ...

    def silence_s(self) -> Mapping[str, float]:
        """Return the seconds since the server last sent something about a kind, by path; only kinds that the server
        has.
        """
        ...


class ClusterFeed:
    """A `Feed` by list and watch, with one reflector per kind. Add every kind before `start`."""

    def __init__(
        self,
        client: ListsAndWatches,
        clock: Clock,
        wait: StopWait = threading.Event.wait,
        rng: random.Random | None = None,
        max_silence_s: float = 0.0,
    ) -> None:
        """`max_silence_s`: watches receive something or are reopened well within this time; 0 means no limit."""
        self._client = client
        self._clock = clock
        self._wait = wait
        self._rng = rng
        self._renew_s = min(_RENEW_S, max_silence_s / 2) if max_silence_s > 0 else _RENEW_S
        self._reflectors: list[Reflector[Any]] = []

    def add(self, source: KindSource[T], *, log_changes: bool = True) -> Store[T]:
        """Follow another kind; return the store that it fills."""
        store: Store[T] = Store(log_changes=log_changes)
        arguments = (source, store, self._client, self._clock, self._wait, self._rng, self._renew_s)
        self._reflectors.append(Reflector(*arguments))
        return store

    def start(self) -> None:
        """Start to list and watch all kinds in parallel."""
        for reflector in self._reflectors:
            reflector.start()

    def wait_synced(self, timeout_s: float) -> Mapping[str, str]:
        """Wait until every store is complete; return the paths of incomplete ones, each with the reason."""
        deadline = self._clock.now().mono + timeout_s
        unsynced = [
            reflector
            for reflector in self._reflectors
            if not reflector.wait_synced(max(0.0, deadline - self._clock.now().mono))
        ]
        return {
            reflector.path: reflector.stats.last_error or "still listing"
            for reflector in unsynced
            if not reflector.has_synced
        }

    @property
    def has_synced(self) -> bool:
        """Whether every store has been complete at least once."""
        return all(reflector.has_synced for reflector in self._reflectors)

    def silence_s(self) -> Mapping[str, float]:
        """Return the seconds since the server last sent something about a kind, by path; only kinds that the server
        has.
        """
        now = self._clock.now().mono
        received = ((reflector.path, reflector.stats.last_received_mono) for reflector in self._reflectors)
        return {path: max(0.0, now - received_at) for path, received_at in received if received_at is not None}

    def stats(self) -> dict[str, ReflectorStats]:
        """Return the counters of each reflector by path."""
        return {reflector.path: reflector.stats for reflector in self._reflectors}

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End every watch; return False if a thread still waits for the network after `timeout_s` seconds."""
        deadline = self._clock.now().mono + timeout_s
        for reflector in self._reflectors:
            reflector.interrupt()
        stopped = [reflector.stop(max(0.0, deadline - self._clock.now().mono)) for reflector in self._reflectors]
        return all(stopped)
