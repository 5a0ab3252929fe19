"""Companions: features beside the pass that share its clock, view of the cluster, lease and HTTP port.

To add one: a package of its own with a pure planner, its reads and writes, and a `keeper` that joins the two and is a
`Companion`. `app.companion_set` makes it where its section of the configuration is there, and adds its HTTP routes. It
costs nothing until then: no watch, no thread, no call. Everything below is called only while this replica leads, and
what a companion raises is logged and counted in `companion_errors_total`: the node loop goes on without it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from autoscaler.clock import Instant
from autoscaler.errors import AutoscalerError
from autoscaler.logs import Log
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.stages import Observed

log = Log(__name__)


class Companion(Protocol):
    """One part beside the node autoscaler. Passes and ticks come on different threads."""

    @property
    def name(self) -> str:
        """A word for logs and metrics."""
        ...

    @property
    def interval_s(self) -> float | None:
        """Time between two ticks; None: it has no timer of its own."""
        ...

    def before_pass(self, observed: Observed) -> Observed:
        """Return the stage, whose cluster has just been observed, with what decisions should know besides."""
        ...

    def after_pass(self, ended: EndedPass) -> None:
        """Take in a pass that has ended, however it ended; `ended.report.view` may be None."""
        ...

    def tick(self, now: Instant) -> None:
        """Do what is due; never beside another tick of the same companion, often beside a pass."""
        ...

    def leave(self) -> None:
        """Put things in order: no pass or tick follows, and the lease is released next. Not called when it is lost."""
        ...


class Companions:
    """All companions of a process, each on its own: a fault in one reaches neither the pass nor another one."""

    def __init__(self, members: Sequence[Companion] = (), failed: Callable[[str], None] = lambda name: None) -> None:
        """`failed` is called with the name of a companion that raised."""
        self.members = tuple(members)
        self._failed = failed

    def before_pass(self, observed: Observed) -> Observed:
        """Show an observed cluster to each in turn; one that fails changes nothing."""
        for companion in self.members:
            try:
                observed = companion.before_pass(observed)
            except Exception as error:  # noqa: BLE001  # node autoscaling goes on without this part
                self._caught(companion, error)
        return observed

    def after_pass(self, ended: EndedPass) -> None:
        """Show an ended pass to each in turn."""
        for companion in self.members:
            self._guarded(companion, partial(companion.after_pass, ended))

    def tick(self, companion: Companion, now: Instant) -> None:
        """Let one of them do what is due."""
        self._guarded(companion, partial(companion.tick, now))

    def leave(self) -> None:
        """Let each put things in order."""
        for companion in self.members:
            self._guarded(companion, companion.leave)

    def _guarded(self, companion: Companion, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  # one part must not end the others
            self._caught(companion, error)

    def _caught(self, companion: Companion, error: Exception) -> None:
        self._failed(companion.name)
        if isinstance(error, AutoscalerError):
            log.error("companion.failed", companion=companion.name, error=error)
        else:
            log.crashed("companion.crashed", companion=companion.name)
