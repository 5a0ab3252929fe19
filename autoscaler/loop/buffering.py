"""CapacityBuffers in a pass: statuses brought in line with specs, and the pods that keep their room."""

from msgspec.structs import replace

from autoscaler.actuation.status_writes import Statuses, StatusWrite, WriteOutcome
from autoscaler.config.tree import Config
from autoscaler.logs import Log
from autoscaler.loop.passing import PassState
from autoscaler.objects.capacity import CapacityBuffer
from autoscaler.objects.pod import Pod, PodInterner
from autoscaler.scaleup import buffer_specs, buffers
from autoscaler.scaleup.status_change import StatusChange

log = Log(__name__)


class Buffering:
    """Follows CapacityBuffers. Each of its two parts does nothing where it is not enabled."""

    def __init__(self, config: Config, statuses: Statuses, interner: PodInterner) -> None:
        self._features = config.features
        self._statuses = statuses
        self._interner = interner

    def resolve(self, p: PassState) -> PassState:
        """Return the pass with the status of every buffer that says something new written."""
        if not self._features.capacity_buffer_controller_enabled:
            return p
        for buffer, resolved in buffer_specs.resolve(p.view.related, p.report.now):
            if resolved.template is not None:
                _note(buffer, "PodTemplate", self._statuses.store(resolved.template))
            if resolved.change is not None:
                p = self._told(p, buffer, resolved.change)
        return p

    def filled(self, p: PassState) -> PassState:
        """Return the pass with the pods that keep the room of buffers, as their statuses have them, as well."""
        found: list[Pod] = []
        if self._features.capacity_buffer_pod_injection_enabled:
            templates = p.view.related.pod_templates
            for buffer in p.view.related.capacity_buffers.values():
                filled = buffers.filled(buffer, templates, self._interner, p.report.now)
                found.extend(filled.pods)
                if filled.change is not None:
                    p = self._told(p, buffer, filled.change)
        return replace(p, room=(*p.room, *found))

    def _told(self, p: PassState, buffer: CapacityBuffer, change: StatusChange) -> PassState:
        _note(buffer, ", ".join(one.type for one in change.conditions), self._statuses.put(change))
        return p.with_report(replace(p.report, status_changes=(*p.report.status_changes, change)))


def _note(buffer: CapacityBuffer, what: str, written: StatusWrite) -> None:
    if written.outcome is WriteOutcome.FAILED:
        log.warning("buffer.not_written", buffer=buffer.key, part=what, error=written.error, next="trying again")
    else:
        log.info("buffer.status", buffer=buffer.key, part=what)
