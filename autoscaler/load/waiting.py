"""Waiting for a generated pod to leave Pending, through all failures of the connection."""

from collections.abc import Callable
from typing import Protocol

from autoscaler.clock import Clock
from autoscaler.errors import AutoscalerError, Gone, NeverStarted, RetryLater, Stopped

_PAUSES_S = (1.0, 2.0, 4.0)


class Watched(Protocol):
    """One pod, as far as waiting goes."""

    name: str

    def until_left_pending(self, timeout_s: float) -> bool:
        """Wait until it is not Pending, or not there any more; False: it still is. Raises `RetryLater` if cut off."""
        ...

    def delete(self) -> None:
        """Delete it; raises `AutoscalerError`."""
        ...


def insist(call: Callable[[], None], sleep: Callable[[float], bool]) -> None:
    """Make a call; one that raises `RetryLater` is made again after 1, 2 and 4 seconds, then the error goes on.

    `sleep` returns False when the program is stopping: `Stopped`.
    """
    for pause_s in _PAUSES_S:
        try:
            call()
        except RetryLater:
            if not sleep(pause_s):
                raise Stopped("stopped before a call was made again") from None
        else:
            return
    call()


def wait_started(
    pod: Watched, deadline_s: float, clock: Clock, sleep: Callable[[float], bool], began: float | None = None
) -> None:
    """Return once the pod has left Pending; `sleep` returns False when the program is stopping.

    A connection that breaks is tried again after 1, 2 and 4 seconds, then the pod is deleted: `NeverStarted`. A
    deadline (seconds from the monotonic second `began`, or from now) that has passed is not tried again. Who stops gets
    `Stopped`, and the pod is deleted.
    """
    give_up = (clock.now().mono if began is None else began) + deadline_s
    pauses = iter(_PAUSES_S)
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
        except Stopped:
            _delete(pod)
            raise
        raise NeverStarted(f'waiting for pod "{pod.name}" to leave pending state: {cause}{_delete(pod)}')


def _delete(pod: Watched) -> str:
    """Delete a pod and return what is to be said of that: nothing, unless it failed."""
    try:
        pod.delete()
    except Gone:
        return ""
    except AutoscalerError as error:
        return f"; and it could not be deleted: {error}"
    return ""
