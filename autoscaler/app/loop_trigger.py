"""Decides when the next pass runs, and what the deciding thread does until then."""

import math
import threading
from collections.abc import Callable

from autoscaler.clock import Clock
from autoscaler.config.process import Loop
from autoscaler.objects.pod import Pod
from autoscaler.observe.report import PassReport

_FRESH_S = 10.0
"""A scheduler verdict older than this many seconds triggers no pass: the next regular pass will see it."""
_PAST_S = 0.01
"""Seconds added to the time at which pods stop being too new, because the two clocks differ a little."""


class LoopTrigger:
    """Waits for the scan interval. A pod that became unschedulable, or a pass that acted, shortens the wait.

    After a pass that found pods too new, it waits only until they are old enough. It is a `ports.StoreListener` of
    pods. Source: Cluster Autoscaler's `loop/trigger.go`, which lets pods that were too new wait for the whole interval.
    """

    def __init__(self, loop: Loop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._woken = False
        self._news = threading.Event()
        """Set if something ends the wait or has to be done during it."""
        self._stopping = threading.Event()

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        """Trigger a pass for pods for which the scheduler has just found no node."""
        if not self._loop.frequent_loops_enabled or new is None or new.unscheduled is None:
            return
        if new.unscheduled.reason != "Unschedulable":
            return
        since = new.unscheduled.since
        if since is not None and self._clock.now().wall - since <= _FRESH_S:
            self.wake()

    def configure(self, loop: Loop) -> None:
        """Use other options from the next wait on."""
        self._loop = loop

    def wake(self) -> None:
        """End this wait, or the next one, as soon as the minimum time between passes is over."""
        self._woken = True
        self._news.set()

    def interrupt(self) -> None:
        """Call `meanwhile` now, or after the present pass; this does not start a pass earlier."""
        self._news.set()

    def stop(self) -> None:
        """End the current wait and all later ones."""
        self._stopping.set()
        self._news.set()

    def due(self, ended: PassReport) -> float:
        """Return the monotonic second of the next pass after this one, as far as known now."""
        wait_s = 0.0 if self._woken else min(self._loop.scan_interval_s, self._early_s(ended))
        return ended.now.mono + max(self._loop.min_pass_interval_s, wait_s)

    def _early_s(self, ended: PassReport) -> float:
        """Return the seconds from the beginning of a pass to the next one that it needs; infinite if it needs none."""
        if not self._loop.frequent_loops_enabled:
            return math.inf
        if ended.acted and not self._loop.dry_run:
            return 0.0
        until = ended.pods.too_new_until
        return math.inf if until is None else until - ended.now.wall + _PAST_S

    def begins(self) -> None:
        """Forget the triggers so far, because the pass that begins now will see their causes."""
        self._woken = False

    def wait(self, ended: PassReport, meanwhile: Callable[[], object] = lambda: None) -> bool:
        """Wait until the next pass after this one; return False if the daemon has to stop.

        `meanwhile` is called at the beginning and after each interruption.
        """
        meanwhile()
        while (left_s := self._left(self.due(ended))) and not (self._woken or self._stopping.is_set()):
            self._news.wait(left_s)
            self._news.clear()
            meanwhile()
        self.begins()
        return not self._stopping.wait(self._left(ended.now.mono + self._loop.min_pass_interval_s))

    def _left(self, due: float) -> float:
        return max(0.0, due - self._clock.now().mono)
