"""Lead times for companions, from the estimates up to the last pass."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from autoscaler.config.scaleup import Pods
from autoscaler.eta.estimate import LoopIntervals
from autoscaler.eta.lead_time import NO_LEAD, Ahead, Lead, configured_lead, learned_lead, suitable
from autoscaler.eta.status import EtaStatus
from autoscaler.objects.pod import PodClass
from autoscaler.scaleup.pending import scale_up_delay_s
from autoscaler.snapshot.template import Template


class Leads:
    """Answers from any thread. The template of a group is that of the last pass that knew one."""

    def __init__(
        self,
        times: LoopIntervals = LoopIntervals(),  # noqa: B008  # frozen
        pods: Pods = Pods(),  # noqa: B008  # frozen
        starts: Callable[[], EtaStatus | None] = lambda: None,
    ) -> None:
        """`starts` returns the known start-up times; None if they are not estimated."""
        self._times = times
        self._pods = pods
        self._starts = starts
        self._templates: Mapping[str, Template] = {}

    def lead(self, configured_s: float | None, cls: PodClass | None, ahead: Ahead) -> Lead:
        """Return how long before a window pods of a class are requested; with `cls` None, their groups are unknown."""
        if configured_s is not None:
            return configured_lead(configured_s)
        status = self._starts()
        if status is None:
            return NO_LEAD
        if status.outcome is not None:
            self._templates = status.outcome.templates
        if cls is not None and ahead.workload is not None:
            ahead = replace(ahead, asks_s=ahead.asks_s + scale_up_delay_s(cls, self._pods))
        return learned_lead(status.knowledge, suitable(cls, self._templates), ahead, self._times)
