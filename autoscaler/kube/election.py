"""Runs leader election: a thread that carries out the decisions of `lease.LeaseState`."""

import socket
import threading
import uuid
from collections.abc import Callable
from typing import Protocol

from autoscaler.clock import Clock, Instant
from autoscaler.errors import AutoscalerError, Conflict, one_line
from autoscaler.kube.lease import ElectionLease, LeaseEnd, LeasePhase, LeaseRead, LeaseState, LeaseWait, LeaseWrite
from autoscaler.kube.watch import StopWait
from autoscaler.logs import Log

log = Log(__name__)


class LeaseApi(Protocol):
    """The calls of the election. Every call may raise any `AutoscalerError`."""

    def read(self, namespace: str, name: str, timeout_s: float) -> ElectionLease | None:
        """Return the Lease; None if it does not exist."""
        ...

    def create(self, lease: ElectionLease, timeout_s: float) -> ElectionLease:
        """Create the Lease; raises `Conflict` if it already exists."""
        ...

    def replace(self, lease: ElectionLease, timeout_s: float) -> ElectionLease:
        """Replace the Lease; raises `Conflict` if it has changed since it was read."""
        ...


class LeaderElection:
    """Competes for the lease until it wins, and keeps it until `stop` or until it is lost.

    It is a `ports.Leadership`.
    """

    def __init__(
        self,
        state: LeaseState,
        api: LeaseApi,
        clock: Clock,
        on_lost: Callable[[], None],
        wait: StopWait = threading.Event.wait,
    ) -> None:
        """`on_lost` is called once, on the election's thread, when leadership ends without being released."""
        self._state = state
        self._api = api
        self._clock = clock
        self._on_lost = on_lost
        self._wait = wait
        self._leading = threading.Event()
        self._stopping = threading.Event()
        self._last_error: str | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def is_leading(self) -> bool:
        """Whether we hold the lease; for reports only. Call `may_write` before a write."""
        return self._state.phase is LeasePhase.LEADING

    @property
    def holder(self) -> str | None:
        """The last known holder of the lease; None if there was none."""
        return self._state.holder

    @property
    def last_error(self) -> str | None:
        """Why the last call failed; None if it succeeded."""
        return self._last_error

    def may_write(self, now: Instant, takes_s: float) -> bool:
        """Whether the lease stays valid for a call that starts now and takes `takes_s` seconds."""
        return self._state.may_write(now, takes_s)

    def start(self) -> None:
        """Start the thread that competes for the lease."""
        self._thread.start()

    def wait_leading(self, timeout_s: float) -> bool:
        """Wait until we lead; return False after `timeout_s` seconds."""
        return self._leading.wait(timeout_s)

    def stop(self, timeout_s: float = 10.0) -> bool:
        """End the election; release the lease if we hold it, so that a successor need not wait for it to expire.

        Stop all writes first: a successor may already lead while they run. Returns False if the network takes longer
        than `timeout_s`.
        """
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def tick(self) -> float | None:
        """Take the next step; return the seconds until the step after it, or None if there are no more steps."""
        step = self._state.next(self._clock.now())
        if isinstance(step, LeaseEnd):
            return None
        if isinstance(step, LeaseWait):
            return step.seconds
        self._do(step)
        return 0.0

    def release(self) -> None:
        """Release the lease. If the response is lost, the lease expires anyway."""
        step = self._state.release(self._clock.now())
        self._leading.clear()
        if step is not None:
            try:
                self._api.replace(step.lease, step.timeout_s)
            except AutoscalerError as error:
                log.warning("lease.not_released", error=one_line(error))
            else:
                log.info("lease.released")

    def _do(self, step: LeaseRead | LeaseWrite) -> None:
        sent = self._clock.now()
        try:
            if isinstance(step, LeaseRead):
                lease = self._api.read(step.namespace, step.name, step.timeout_s)
                self._state.on_read(lease, self._clock.now())
            else:
                write = self._api.create if step.create else self._api.replace
                self._state.on_written(write(step.lease, step.timeout_s), sent)
                self._note_leading()
        except AutoscalerError as error:
            self._state.on_failed(self._clock.now(), conflict=isinstance(error, Conflict))
            self._note_error(one_line(error))
        else:
            self._last_error = None

    def _note_leading(self) -> None:
        if not self._leading.is_set():
            log.info("lease.acquired")
            self._leading.set()

    def _note_error(self, text: str) -> None:
        if self._last_error is None:
            log.warning("lease.failing", error=text)
        self._last_error = text

    def _run(self) -> None:
        try:
            while (pause_s := self.tick()) is not None:
                if self._wait(self._stopping, pause_s):
                    self.release()
                    break
        except Exception:  # noqa: BLE001  # the top of a thread
            log.crashed("lease.crashed")
            self._state.on_crash()
        if self._state.phase is LeasePhase.LOST:
            reason, error = self._state.lost_reason, self._last_error
            log.error("lease.lost", why=reason, holder=self.holder, last_error=error)
            self._leading.clear()
            self._on_lost()


class Unopposed:
    """The `ports.Leadership` of a process that runs without election."""

    def may_write(self, now: Instant, takes_s: float) -> bool:
        """Return True."""
        return True


def own_identity() -> str:
    """Return a unique name for this process: the host name with a suffix, as in Cluster Autoscaler."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"
