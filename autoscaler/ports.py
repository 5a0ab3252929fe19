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
"""Returns seconds since an arbitrary moment; only the difference of two answers is meaningful."""


class Executor(Protocol):
    """The only primitive of concurrency: threads in the daemon, an event queue in the simulator."""

    def submit(self, work: Work) -> None:
        """Run `work` soon, in parallel with the caller."""
        ...

    def run_all(self, works: Sequence[Work]) -> None:
        """Run works in parallel and return once all have ended. Only for the deciding or driving thread."""
        ...

    def sleep(self, seconds: float) -> bool:
        """Wait for this time; `False` means stop now."""
        ...

    def call_at(self, when: Instant, work: Work) -> None:
        """Run `work` at or soon after `when`."""
        ...


class StoreListener(Protocol[T_contra]):
    """Receives the changes of a store, in order, on the store's own thread. It must return quickly."""

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
    """Accepts events for people (`kubectl describe`); never raises, never blocks for long."""

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        """Record one event."""
        ...


class Leadership(Protocol):
    """Answers whether a write may still start: leadership is a deadline, not a flag."""

    def may_write(self, now: Instant, takes_s: float) -> bool:
        """Whether the lease outlasts a call of `takes_s` seconds that starts now."""
        ...


class Receipt(Protocol[T_co]):
    """The receipt of an item in an inbox."""

    def wait(self, seconds: float) -> T_co | None:
        """Return the outcome once it is durable; None if it is not known within this many seconds."""
        ...


class Inbox(Protocol[T_contra, T_co]):
    """Accepts items on any thread; each outcome is known later."""

    def put(self, item: T_contra) -> Receipt[T_co] | None:
        """Accept one item; None if there is no room for it now."""
        ...


class ExpanderAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A remote expander's answer to one call; recorded with the pass, so that the pass can be replayed."""

    asked: tuple[str, ...]
    """Ids of the node groups that it could choose from."""
    named: tuple[str, ...] = ()
    """Ids that it returned, including unknown ones."""
    error: str = ""
    """Why there is no answer; empty if there is one."""

    @property
    def usable(self) -> bool:
        """Whether it is valid: there is no error, and it is empty or names a group of the call."""
        return not self.error and (not self.named or not set(self.named).isdisjoint(self.asked))

    @property
    def complaint(self) -> str:
        """The error for people; empty if there is none."""
        unknown = [group for group in self.named if group not in self.asked]
        return self.error or (f"names groups that it was not asked about: {', '.join(unknown)}" if unknown else "")
