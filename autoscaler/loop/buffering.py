"""Serves CapacityBuffers in a pass: updates their statuses, and adds fake pods that reserve their capacity."""

from msgspec.structs import replace

from autoscaler.actuation.status_writes import ClusterStatuses, StatusWrite, WriteOutcome
from autoscaler.logs import Log
from autoscaler.loop.stages import Observed, ObservedT, Simulated
from autoscaler.objects.capacity import CapacityBuffer
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.scaleup import buffer_specs, buffers
from autoscaler.scaleup.status_change import StatusChange

log = Log(__name__)


class Buffering:
    """Reconciles CapacityBuffers. Each of its two parts does nothing unless the configuration enables it."""

    def __init__(self, statuses: ClusterStatuses, interner: PodInterner) -> None:
        self._statuses = statuses
        self._interner = interner

    def resolve(self, stage: Observed) -> Observed:
        """Write the buffer statuses that changed, and return the stage with them."""
        if not stage.config.features.capacity_buffer_controller_enabled:
            return stage
        for buffer, resolved in buffer_specs.resolve(stage.view.related, stage.now):
            if resolved.template is not None:
                _note(buffer, "PodTemplate", self._statuses.store(resolved.template))
            if resolved.change is not None:
                stage = self._written(stage, buffer, resolved.change)
        return stage

    def fill(self, stage: Simulated) -> Simulated:
        """Return the stage with the fake pods that the buffers' statuses call for added."""
        if not stage.config.features.capacity_buffer_pod_injection_enabled:
            return stage
        with stage.time.phase("filter_schedulable"):
            pods: list[Pod] = []
            templates = stage.view.related.pod_templates
            for buffer in stage.view.related.capacity_buffers.values():
                filled = buffers.filled(buffer, templates, self._interner, stage.now)
                pods.extend(filled.pods)
                if filled.change is not None:
                    stage = self._written(stage, buffer, filled.change)
            return replace(stage, fake_pods=(*stage.fake_pods, *pods))

    def _written(self, stage: ObservedT, buffer: CapacityBuffer, change: StatusChange) -> ObservedT:
        _note(buffer, ", ".join(condition.type for condition in change.conditions), self._statuses.put(change))
        return replace(stage, status_changes=(*stage.status_changes, change))


def _note(buffer: CapacityBuffer, part: str, written: StatusWrite) -> None:
    if written.outcome is WriteOutcome.FAILED:
        log.warning("buffer.not_written", buffer=buffer.key, part=part, error=written.error, next="trying again")
    else:
        log.info("buffer.status", buffer=buffer.key, part=part)
