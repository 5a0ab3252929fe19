"""Deletes several nodes of one group in one call."""

import threading
from typing import Generic, TypeVar

from autoscaler.actuation.removal_outcome import Aborted, AbortReason

J = TypeVar("J")


class AtomicBatch(Generic[J]):
    """The nodes of a group that is deleted as a whole: complete when all have joined, broken once one has failed."""

    def __init__(self, group: str, size: int) -> None:
        self._group = group
        self._size = size
        self._lock = threading.Lock()
        self._waiting: list[J] = []
        self._broken = False

    def join(self, job: J) -> tuple[J, ...]:
        """Add a node that is ready for deletion; return all nodes once the last one has joined, and none before.

        Raises `Aborted` if one node has already failed.
        """
        with self._lock:
            if self._broken:
                raise Aborted(
                    AbortReason.ATOMIC, f"another node of {self._group}, which goes as a whole, could not be removed"
                )
            self._waiting.append(job)
            if len(self._waiting) < self._size:
                return ()
            complete, self._waiting = self._waiting, []
            return tuple(complete)

    def fail(self) -> tuple[J, ...]:
        """Let no further node join; return those that were waiting."""
        with self._lock:
            self._broken = True
            waiting, self._waiting = self._waiting, []
            return tuple(waiting)


class NodeDeletionBatcher(Generic[J]):
    """Collects nodes by group: the first node opens a window, and takes all nodes that have joined when it closes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, list[J]] = {}

    def join(self, group: str, job: J) -> bool:
        """Add a node that is ready for deletion; return True if it opened the window."""
        with self._lock:
            first = group not in self._open
            self._open.setdefault(group, []).append(job)
            return first

    def close(self, group: str) -> tuple[J, ...]:
        """Close the window and return the nodes that joined."""
        with self._lock:
            return tuple(self._open.pop(group))
