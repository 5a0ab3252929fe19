"""Small Protocols that upper layers implement and pass down, so that no layer reaches sideways or up."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

import msgspec

from autoscaler.clock import Instant

T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


Work = Callable[[], None]
"""What an executor runs."""

Stopwatch = Callable[[], float]
"""Tells seconds since an arbitrary moment; only the difference of two answers means anything."""


class Executor(Protocol):
    """The only primitive of concurrency: threads in the daemon, an event queue in the simulator."""

    def submit(self, work: Work) -> None:
        """Run `work` soon, beside the caller."""
        ...

    def run_all(self, works: Sequence[Work]) -> None:
        """Run works beside one another; return once all have ended. Only for the thread that decides or drives."""
        ...

    def sleep(self, seconds: float) -> bool:
        """Wait that long; `False` means stop now."""
        ...

    def call_at(self, when: Instant, work: Work) -> None:
        """Run `work` at or soon after `when`."""
        ...


class StoreListener(Protocol[T_contra]):
    """Hears what changed in a store, in order, on the store's own thread: it must be quick."""

    def changed(self, old: T_contra | None, new: T_contra | None) -> None:
        """Report an object that appeared (`old` is None), changed, or went away (`new` is None)."""
        ...


class EventType(StrEnum):
    """Kubernetes' two kinds of event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Subject(msgspec.Struct, frozen=True):
    """The object an event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class EventSink(Protocol):
    """Takes events for people (`kubectl describe`); never raises, never blocks for long."""

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        """Record one event."""
        ...


class Leadership(Protocol):
    """Answers whether a write may still start: leadership is a deadline, not a flag."""

    def may_write(self, now: Instant, takes_s: float) -> bool:
        """Whether the lease outlasts a call of `takes_s` seconds that starts now."""
        ...


class Receipt(Protocol[T_co]):
    """Stands for something that was put into an inbox."""

    def wait(self, seconds: float) -> T_co | None:
        """Return what became of it, once that is durable; None: not known within so many seconds."""
        ...


class Inbox(Protocol[T_contra, T_co]):
    """Takes what others ask for, on any thread; what becomes of it is known later."""

    def put(self, item: T_contra) -> Receipt[T_co] | None:
        """Take one item; None: there is no room for it now."""
        ...


class ExpanderAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a remote expander answered to one question; recorded with the pass, so that the pass can be replayed."""

    asked: tuple[str, ...]
    """Ids of the node groups it could choose from."""
    named: tuple[str, ...] = ()
    """Ids as it returned them, those that were not asked about included."""
    error: str = ""
    """Why there is no answer; empty where there is one."""

    @property
    def usable(self) -> bool:
        """Whether it says something: it came, and is empty or names a group that was asked about."""
        return not self.error and (not self.named or not set(self.named).isdisjoint(self.asked))

    @property
    def complaint(self) -> str:
        """What is wrong with it, for people; empty where nothing is."""
        unknown = [group for group in self.named if group not in self.asked]
        return self.error or (f"names groups that it was not asked about: {', '.join(unknown)}" if unknown else "")
