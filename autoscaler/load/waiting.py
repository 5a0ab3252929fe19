"""Waits for a generated pod to leave Pending, despite failures of the connection."""

from collections.abc import Callable
from typing import Protocol

from autoscaler.clock import Clock
from autoscaler.errors import AutoscalerError, Gone, NeverStarted, RetryLater, Stopped

_PAUSES_S = (1.0, 2.0, 4.0)


class Watched(Protocol):
    """One pod, as far as waiting needs it."""

    name: str

    def until_left_pending(self, timeout_s: float) -> bool:
        """Wait until the pod is not Pending or no longer exists; return False on time-out. Raises `RetryLater` if
        interrupted.
        """
        ...

    def delete(self) -> None:
        """Delete the pod; raises `AutoscalerError`."""
        ...


def insist(call: Callable[[], None], sleep: Callable[[float], bool]) -> None:
    """Make a call. After `RetryLater`, retry after 1, 2 and 4 seconds, then raise the error.

    `sleep` returns False if the program is stopping; then this raises `Stopped`.
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
    """Return after the pod has left Pending; `sleep` returns False if the program is stopping.

    After a broken connection, retry after 1, 2 and 4 seconds. Then delete the pod and raise `NeverStarted`. After the
    deadline (seconds from the monotonic second `began`, or from now), do not retry. If the program is stopping, delete
    the pod and raise `Stopped`.
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
    """Delete a pod; return a message if that failed, otherwise an empty text."""
    try:
        pod.delete()
    except Gone:
        return ""
    except AutoscalerError as error:
        return f"; and it could not be deleted: {error}"
    return ""
