"""`run_once`: the steps of a pass in order.

observe → companions → requests and buffers → merge classes → repair → simulate → reserve → sort pods → grow → replace →
shrink → raise to minimum. Each step takes the stage that the pass has reached (`stages`) and returns the next one, or
how the pass ended; what is remembered from pass to pass is one frozen value. The order, and where a pass ends early,
are Cluster Autoscaler's (`core/static_autoscaler.go`); replacements are ours. Effects are in `actuation` alone.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from autoscaler.actuation.answer_log import AnswerLog
from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.current_step import begin_step
from autoscaler.errors import CloudUnavailable, ErrorType, LeadershipLost, RetryLater
from autoscaler.loop.buffering import Buffering
from autoscaler.loop.buying import Buying
from autoscaler.loop.companion import Companions
from autoscaler.loop.ended_pass import EndedPass, report_of
from autoscaler.loop.growing import Growing
from autoscaler.loop.minimum_sizes import MinimumSizes
from autoscaler.loop.observing import Observing
from autoscaler.loop.pass_memory import PassMemory
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.pass_time import PassTime
from autoscaler.loop.provisioning import Provisioning
from autoscaler.loop.quota_status import QuotaStatuses
from autoscaler.loop.repairing import Repairing, with_current_registry
from autoscaler.loop.replacing import Replacing
from autoscaler.loop.shrinking import Shrinking
from autoscaler.loop.sorting import PodSorting, merge, simulate, with_pods_to_come
from autoscaler.loop.stages import Ended, Grown, Observed, Shrunk, Simulated, Started, failed
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.observe.summary import WHOLE_PASS
from autoscaler.registry.memory import born

Before = TypeVar("Before", bound=Started)
After = TypeVar("After")


class Autoscaler:
    """Runs passes. Owned by one thread."""

    def __init__(
        self,
        config: Config,
        ports: PassPorts,
        interner: PodInterner,
        companions: Companions,
        answer_log: AnswerLog,
        pass_time: Callable[[], PassTime],
    ) -> None:
        """`answer_log` records what `ports` answer in a pass."""
        buying = Buying(ports)
        self._config = config
        self._interner = interner
        self._cloud = ports.cloud
        self._events = ports.events
        self._advise = ports.advise
        self._companions = companions
        self._answer_log = answer_log
        self._pass_time = pass_time
        self._observing = Observing(ports, interner)
        self._requests = Provisioning(ports, interner, buying)
        self._buffers = Buffering(ports.statuses, interner)
        self._quota_statuses = QuotaStatuses(ports.statuses)
        self._repairing = Repairing(ports)
        self._sorting = PodSorting(ports.events)
        self._growing = Growing(ports, buying)
        self._replacing = Replacing(ports, buying)
        self._shrinking = Shrinking(ports)
        self._minimum_sizes = MinimumSizes(ports.cloud, buying)
        self.memory: PassMemory | None = None
        """Memory that the next pass starts from; each pass replaces it as a whole when it ends.

        None before the first pass.
        """

    def close(self) -> None:
        """Let the provider clean up; called once, after the last pass."""
        self._cloud.close()

    def run_once(self, now: Instant) -> PassReport:
        """Run one pass. An exception from here is a bug: the report carries all expected failures."""
        return self.examine(now).report

    def examine(self, now: Instant) -> EndedPass:
        """Run one pass like `run_once`, and return everything about it, including the simulated cluster."""
        self._answer_log.begin()
        memory, time = self.memory or PassMemory(registry=born(now)), self._pass_time()
        started = Started(now=now, config=self._config, time=time, memory_before=memory, memory=memory)
        with time.phase(WHOLE_PASS):
            ended = self._ended(started)
        self.memory = ended.stage.memory
        ended_pass = self._advised(EndedPass(ended.stage, report_of(ended, time.spent), self._answer_log.noted()))
        begin_step(self._companions.after_pass.__qualname__)
        self._companions.after_pass(ended_pass)
        return ended_pass

    def _advised(self, ended: EndedPass) -> EndedPass:
        """Return the pass with what would help the pods that it leaves stuck; they get their events now."""
        begin_step("advise")
        advice = self._advise(ended)
        stage, plan = ended.stage, ended.report.scale_up.plan
        if isinstance(stage, Grown) and not stage.served_now and plan is not None:
            self._events.not_triggered(plan, ended.report.scale_up.result, advice)
        return replace(ended, report=replace(ended.report, advice=advice))

    def _merge(self, stage: Observed) -> Observed:
        return merge(stage, self._interner)

    def _with_pods_to_come(self, stage: Simulated) -> Simulated:
        return with_pods_to_come(stage, self._interner)

    def _ended(self, started: Started) -> Ended:
        """Return how a pass ended, also if it ended with an expected failure."""
        stage: Started = started
        try:
            for reached in self._stages(started):
                if isinstance(reached, Ended):
                    return self._with_current_registry(reached)
                stage = reached
            ended = Ended(stage=stage, end=PassEnd.COMPLETE)
        except CloudUnavailable as error:
            ended = failed(stage, ErrorType.CLOUD_PROVIDER, str(error))
        except (RetryLater, LeadershipLost) as error:
            ended = failed(stage, ErrorType.API_CALL, str(error))
        return self._with_current_registry(ended)

    def _with_current_registry(self, ended: Ended) -> Ended:
        if not isinstance(ended.stage, Observed):
            return ended
        return replace(ended, stage=with_current_registry(ended.stage, self._cloud))

    def _stages(self, started: Started) -> Iterator[Started | Ended]:
        """Yield each stage that a pass reaches; yield `Ended` last if the pass ends early."""
        observed = _run(self._observing.run, started)
        yield observed
        if isinstance(observed, Ended):
            return
        for observing in (
            self._companions.before_pass,
            self._requests.begin,
            self._buffers.resolve,
            self._quota_statuses.update,
            self._merge,
        ):
            observed = _run(observing, observed)
            yield observed
        repaired = _run(self._repairing.run, observed)
        yield repaired
        if isinstance(repaired, Ended):
            return
        simulated = _run(simulate, repaired)
        for simulating in (
            self._replacing.reserve,
            self._buffers.fill,
            self._with_pods_to_come,
            self._requests.prepare,
        ):
            yield simulated
            simulated = _run(simulating, simulated)
        yield simulated
        pods_sorted = _run(self._buffers.measure, _run(self._sorting.run, simulated))
        yield pods_sorted
        grown = _run(self._requests.serve if pods_sorted.served_now else self._growing.run, pods_sorted)
        yield grown
        if isinstance(grown, Ended):
            return
        replaced = _run(self._replacing.run, grown)
        yield replaced
        shrunk = _run(self._shrinking.run, replaced)
        yield shrunk
        if isinstance(shrunk, Shrunk):
            yield _run(self._minimum_sizes.run, shrunk)


def _run(step: Callable[[Before], After], stage: Before) -> After:
    begin_step(step.__qualname__)
    return step(stage)
