"""Companions: features that run beside the pass and share its clock, view of the cluster, lease and HTTP port.

A companion is a package with a pure planner, its reads and writes, and a `keeper` that connects them and is a
`Companion`. `app.companion_set` creates the companion if its section of the configuration is present, and adds its HTTP
routes. Without that section a companion costs nothing: no watch, no thread, no call. The methods below are called only
while this replica leads. An exception from a companion is logged and counted in `companion_errors_total`, and does not
affect the node loop.
"""

from collections.abc import Callable, Sequence
from functools import partial

from autoscaler.clock import Instant
from autoscaler.errors import AutoscalerError
from autoscaler.logs import Log
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.stages import Observed

log = Log(__name__)


class Companion:
    """A feature beside the node autoscaler; this one does nothing. Ticks come on another thread than passes."""

    name = ""
    """The name used in logs and metrics."""

    @property
    def interval_s(self) -> float | None:
        """Seconds between two ticks; None if it has no timer."""
        return None

    def before_pass(self, observed: Observed) -> Observed:
        """Return the stage, whose cluster has just been observed, with additional input for decisions."""
        return observed

    def after_pass(self, ended: EndedPass) -> None:
        """Process a pass that has ended, also if it failed; `ended.report.view` may be None."""

    def tick(self, now: Instant) -> None:
        """Do the work that is due. Ticks of one companion never overlap; a tick often runs during a pass."""

    def leave(self) -> None:
        """Clean up before the lease is released. No pass or tick follows. Not called if the lease is lost."""


class Companions:
    """All companions of a process. An exception in one affects neither the pass nor the other companions."""

    def __init__(self, members: Sequence[Companion] = (), failed: Callable[[str], None] = lambda name: None) -> None:
        """`failed` is called with the name of a companion that raised."""
        self.members = tuple(members)
        self._failed = failed

    def before_pass(self, observed: Observed) -> Observed:
        """Call `before_pass` of each companion in order; one that fails leaves the stage unchanged."""
        for companion in self.members:
            try:
                observed = companion.before_pass(observed)
            except Exception as error:  # noqa: BLE001  # node autoscaling goes on without this part
                self._caught(companion, error)
        return observed

    def after_pass(self, ended: EndedPass) -> None:
        """Call `after_pass` of each companion in order."""
        for companion in self.members:
            self._guarded(companion, partial(companion.after_pass, ended))

    def tick(self, companion: Companion, now: Instant) -> None:
        """Call `tick` of one companion."""
        self._guarded(companion, partial(companion.tick, now))

    def leave(self) -> None:
        """Call `leave` of each companion in order."""
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
