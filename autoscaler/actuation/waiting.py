"""Waiting for a generated pod to leave Pending, through whatever befalls the connection."""

from collections.abc import Callable
from typing import Protocol

from autoscaler.clock import Clock
from autoscaler.errors import AutoscalerError, Gone, RetryLater

PAUSES_S = (1.0, 2.0, 4.0)


class Stopped(AutoscalerError):
    """Somebody asked to stop."""


class NeverStarted(AutoscalerError):
    """The pod is given up, and has been deleted."""


class Watched(Protocol):
    """One pod, as far as waiting goes."""

    name: str

    def until_left_pending(self, timeout_s: float) -> bool:
        """Wait until it is not Pending, or not there any more; False: it still is. Raises `RetryLater` if cut off."""
        ...

    def delete(self) -> None:
        """Delete it; raises `AutoscalerError`."""
        ...


def wait_started(pod: Watched, deadline_s: float, clock: Clock, sleep: Callable[[float], bool]) -> None:
    """Return once the pod has left Pending; `sleep` returns False when the program is stopping.

    A connection that breaks is tried again after 1, 2 and 4 seconds, then the pod is deleted: `NeverStarted`. A
    deadline (seconds from now) that has passed is not tried again. Who stops gets `Stopped`, and the pod is deleted.
    """
    give_up = clock.now().mono + deadline_s
    pauses = iter(PAUSES_S)
    while True:
        try:
            if pod.until_left_pending(give_up - clock.now().mono):
                return
            cause = f"not within {deadline_s:g} s"
        except RetryLater as error:
            cause = str(error)
            pause_s = next(pauses, None)
            if pause_s is not None and clock.now().mono < give_up:
                if sleep(pause_s):
                    continue
                _delete(pod)
                raise Stopped("stopped while waiting for a pod") from None
        _delete(pod)
        raise NeverStarted(f'waiting for pod "{pod.name}" to leave pending state: {cause}')


def _delete(pod: Watched) -> None:
    try:
        pod.delete()
    except Gone:
        return
