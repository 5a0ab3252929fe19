"""`run_once`: the order of a pass.

observe → companions → requests and buffers → repair → reserve → grow → replace → shrink → raise to minimum. Each step
takes the pass as far as it has come and returns the next value; what is remembered from pass to pass is one frozen
value. The order, and where a pass ends early, are Cluster Autoscaler's (`core/static_autoscaler.go`); replacements are
ours. Effects are in `actuation` alone.
"""

from collections.abc import Callable

from msgspec.structs import replace

from autoscaler.actuation.answer_log import AnswerLog
from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.node_removal import NodeRemoval
from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.current_step import begin_step
from autoscaler.errors import CloudUnavailable, ErrorType, LeadershipLost, RetryLater
from autoscaler.loop.buffering import Buffering
from autoscaler.loop.companion import Companions
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.growing import Growing
from autoscaler.loop.observing import Observing
from autoscaler.loop.pass_time import PassTime
from autoscaler.loop.passing import PassMemory, PassState
from autoscaler.loop.provisioning import Provisioning
from autoscaler.loop.repairing import Repairing
from autoscaler.loop.replacing import Replacing
from autoscaler.loop.shrinking import Shrinking
from autoscaler.observe.report import PassReport
from autoscaler.observe.summary import WHOLE_PASS
from autoscaler.registry import memory as memories
from autoscaler.scaleup.grpc_expander import RemoteExpander


class Autoscaler:
    """Runs passes. Owned by one thread."""

    def __init__(
        self,
        config: Config,
        observing: Observing,
        cloud: Cloud,
        removal: NodeRemoval,
        provisioning: Provisioning,
        buffering: Buffering,
        herald: PassEventWriter,
        companions: Companions,
        remote: RemoteExpander | None,
        tape: AnswerLog,
        pass_time: Callable[[], PassTime],
    ) -> None:
        """`tape` lies between the others and the world, and tells what was said in a pass."""
        self._cloud = cloud
        self._companions = companions
        repairing = self._repairing = Repairing(config, cloud, herald)
        growing = Growing(config, cloud, repairing, herald, provisioning, buffering, remote)
        self._observe = observing.run
        replacing = Replacing(config, removal, growing, repairing, herald)
        self._config = config
        self._tape = tape
        self._pass_time = pass_time
        self._steps = (
            companions.before_pass,
            _observed,
            provisioning.begin,
            buffering.resolve,
            repairing.run,
            growing.simulate,
            replacing.reserve,
            growing.run,
            replacing.run,
            Shrinking(config, removal, repairing).run,
            growing.raise_to_minimum,
        )
        self.remembered: PassMemory | None = None
        """What the next pass starts from; replaced as a whole when a pass ends. None: the first pass is the birth."""

    def close(self) -> None:
        """Let the provider clean up; called once, after the last pass."""
        self._cloud.close()

    def run_once(self, now: Instant) -> PassReport:
        """Run one pass. What it raises is a bug: failures that are expected are in the report."""
        return self.examine(now).report

    def examine(self, now: Instant) -> PassState:
        """Run one pass as `run_once` does; return all of it, the simulated cluster that it decided on included."""
        self._tape.begin()
        remembered = self.remembered or PassMemory(registry=memories.born(now))
        report, time = PassReport(now=now), self._pass_time()
        p = PassState(report=report, remembered=remembered, time=time, config=self._config, began_with=remembered)
        with time.phase(WHOLE_PASS):
            p = self._gone_through(p)
        self.remembered = p.remembered
        p = replace(_observed(p.with_report(replace(p.report, timings=time.spent))), answers=self._tape.noted())
        begin_step(self._companions.after_pass.__qualname__)
        self._companions.after_pass(p)
        return p

    def _gone_through(self, p: PassState) -> PassState:
        """Return the pass as far as its steps take it; a failure that is expected is in its report."""
        try:
            for step in (self._observe, *self._steps):
                if p.goes_on:
                    begin_step(step.__qualname__)
                    p = step(p)
        except CloudUnavailable as error:
            p = p.failed(ErrorType.CLOUD_PROVIDER, str(error))
        except (RetryLater, LeadershipLost) as error:
            p = p.failed(ErrorType.API_CALL, str(error))
        return p if p.report.registry is None else self._repairing.judged_again(p)


def _observed(p: PassState) -> PassState:
    """Return the pass with the cluster as it was found, before anything is decided about it."""
    return replace(p, observed=p.report.view) if p.observed is None else p
