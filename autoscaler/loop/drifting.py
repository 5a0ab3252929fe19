"""Follows the replacement of drifted nodes from pass to pass, and stops it where new nodes fail."""

from msgspec.structs import replace

from autoscaler.actuation.status_writes import WriteOutcome
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.replacement_progress import ReplacementProgress
from autoscaler.loop.stages import Simulated
from autoscaler.reasons import PauseScope, ReplacementTrigger
from autoscaler.scaledown.drift_memory import DriftFailure, DriftMemory
from autoscaler.scaledown.drift_rollout import DriftScene, followed, remembered
from autoscaler.scaledown.pause import Pause, pause_name

BY = "cluster-autoscaler"
"""Who sets the pause."""


def recalled(stage: Simulated, memory: DriftMemory) -> DriftMemory:
    """Return what is known at the beginning of a pass: once a pause says that drift stopped, memory need not."""
    paused = stage.pauses.covering(PauseScope.DRIFT) is not None
    return replace(memory, failure=remembered(memory.failure, paused=paused, now=stage.now))


class Drifting:
    """Watches the nodes that replace drifted ones; after a failure, pauses drift until it is resumed."""

    def __init__(self, ports: PassPorts) -> None:
        self._statuses = ports.statuses
        self._events = ports.events

    def followed(self, progress: ReplacementProgress) -> ReplacementProgress:
        """Return the progress with the trials of this pass begun, ended and judged."""
        stage, before = progress.stage, progress.memory.drift
        if not stage.config.drift.drift:
            return progress.remember(replace(progress.memory, drift=DriftMemory()))
        causes = (cause for cause in stage.causes if cause.trigger is ReplacementTrigger.DRIFTED)
        scene = DriftScene(
            view=stage.view,
            drifted={cause.node.name: cause.detail for cause in causes},
            terms=stage.registry.readings.terms,
            now=stage.now,
            settle_s=stage.config.drift.drift_settle_time_s,
        )
        memory = followed(before, progress.memory.in_progress, progress.ended, scene)
        failure = memory.failure
        if failure is not None and failure is not before.failure:
            self._events.drift_stopped(failure)
        if failure is not None and failure.written is None:
            memory = replace(memory, failure=self._paused(progress, failure))
        return progress.remember(replace(progress.memory, drift=memory))

    def _paused(self, progress: ReplacementProgress, failure: DriftFailure) -> DriftFailure:
        """Pause drift, and return the failure with the time; if that fails, the next pass tries again."""
        config, now = progress.stage.config, progress.stage.now
        pause = Pause(
            name=pause_name(PauseScope.DRIFT),
            scope=PauseScope.DRIFT,
            reason=failure.reason,
            by=BY,
            since=failure.since.wall,
        )
        written = self._statuses.pause(config.kube.namespace, config.observe.pause_config_map_name, pause)
        return replace(failure, written=now) if written.outcome is WriteOutcome.DONE else failure
