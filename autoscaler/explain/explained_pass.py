"""The pass to explain."""

from collections.abc import Callable

from autoscaler.errors import ConfigError
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.scheduling.placement import Placer


class ExplainedPass(EndedPass, frozen=True):
    """A finished pass that saw the cluster."""

    check: Callable[[], None] = lambda: None
    """Called a few times a second during work that grows with the cluster; an exception from it ends the explanation.
    """

    @property
    def simulated(self) -> Placer:
        """The simulated cluster; raises `LookupError` if the pass ended before it had one."""
        if self.placer is None:
            raise LookupError("the pass ended before it simulated the cluster")
        return self.placer


def explained_pass(ended: EndedPass, check: Callable[[], None] = lambda: None) -> ExplainedPass:
    """Return the pass in the form that explanations read; raises `ConfigError` if the pass never saw the cluster."""
    if ended.report.view is None:
        raise ConfigError(f"nothing to explain, the pass never saw the cluster: {ended.report.error}")
    return ExplainedPass(ended.stage, ended.report, ended.answers, check)
