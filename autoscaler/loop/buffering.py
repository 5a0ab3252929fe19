"""Serves CapacityBuffers in a pass: updates their statuses, and adds fake pods that reserve their capacity."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from autoscaler.actuation.status_writes import ClusterStatuses, StatusWrite, WriteOutcome
from autoscaler.logs import Log
from autoscaler.loop.stages import Observed, ObservedT, PodsSorted, Simulated
from autoscaler.objects.capacity import CapacityBuffer
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.reasons import Waiting
from autoscaler.scaleup import buffer_specs, buffers
from autoscaler.scaleup.buffers import BufferRoom
from autoscaler.scaleup.fake_pods import BUFFER_KIND, stands_for
from autoscaler.scaleup.status_change import StatusChange, change_of

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
        dry_run = stage.config.features.capacity_buffer_pod_dry_run_enabled
        for buffer, resolved in buffer_specs.resolve(stage.view.related, stage.now, dry_run=dry_run):
            if resolved.template is not None:
                self._store(buffer, resolved.template, dry_run=dry_run, as_written=resolved.as_written)
            if resolved.change is not None:
                stage = self._written(stage, buffer, resolved.change)
        return stage

    def _store(self, buffer: CapacityBuffer, template: Mapping[str, Any], *, dry_run: bool, as_written: bool) -> None:
        """Store a PodTemplate, with `dry_run` as the API server completes it; where it refuses to, as it is written.

        `as_written`: the latter is stored already.
        """
        if dry_run:
            pod = self._statuses.try_create(buffer_specs.pod_to_complete(template))
            if isinstance(pod, StatusWrite):
                log.warning("buffer.not_completed", buffer=buffer.key, error=pod.error, next="trying again")
                if as_written:
                    return
                template = buffer_specs.unfinished(template)
            else:
                template = buffer_specs.completed(template, pod)
        _note(buffer, "PodTemplate", self._statuses.store(template))

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

    def measure(self, stage: PodsSorted) -> PodsSorted:
        """Return the stage with the room that buffers have on ready nodes; write to each how much that is."""
        features = stage.config.features
        if not features.capacity_buffer_pod_injection_enabled:
            return stage
        hints, waiting = stage.memory.hints, stage.pods.waiting
        ready = buffers.ready_replicas(
            stage.fake_pods,
            lambda pod: hints.get(pod) if waiting.get(pod.key) is Waiting.FITS else None,
            {node.name for node in stage.registry.readings.ready()},
        )
        wanted = sum(stands_for(BUFFER_KIND, pod) for pod in stage.fake_pods)
        for buffer in stage.view.related.capacity_buffers.values():
            count = ready.get(buffer.uid)
            if features.capacity_buffer_ready_replicas_enabled and count not in (None, buffer.status.ready_replicas):
                stage = self._written(stage, buffer, change_of(buffer, fields={"readyReplicas": count}))
        return replace(stage, buffer_room=BufferRoom(ready.total(), wanted - ready.total()))

    def _written(self, stage: ObservedT, buffer: CapacityBuffer, change: StatusChange) -> ObservedT:
        parts = [condition.type for condition in change.conditions] or list(change.fields)
        _note(buffer, ", ".join(parts), self._statuses.put(change))
        return replace(stage, status_changes=(*stage.status_changes, change))


def _note(buffer: CapacityBuffer, part: str, written: StatusWrite) -> None:
    if written.outcome is WriteOutcome.FAILED:
        log.warning("buffer.not_written", buffer=buffer.key, part=part, error=written.error, next="trying again")
    else:
        log.info("buffer.status", buffer=buffer.key, part=part)
