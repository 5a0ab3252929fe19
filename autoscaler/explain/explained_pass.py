"""The pass that is explained."""

from collections.abc import Callable

from autoscaler.errors import ConfigError
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.scheduling.placement import Placer


class ExplainedPass(EndedPass, frozen=True):
    """A pass that has ended and saw the cluster."""

    check: Callable[[], None] = lambda: None
    """Called by work that grows with the cluster, some times a second; what it raises ends the explanation."""

    @property
    def simulated(self) -> Placer:
        """The simulated cluster; raises `LookupError` where the pass ended before there was one."""
        if self.placer is None:
            raise LookupError("the pass ended before it simulated the cluster")
        return self.placer


def explained_pass(ended: EndedPass, check: Callable[[], None] = lambda: None) -> ExplainedPass:
    """Return the pass as explanations read it; raises `ConfigError` where it never saw the cluster."""
    if ended.report.view is None:
        raise ConfigError(f"nothing to explain, the pass never saw the cluster: {ended.report.error}")
    return ExplainedPass(ended.stage, ended.report, ended.answers, check)
