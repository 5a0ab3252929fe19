"""Keeps the statuses of CapacityQuotas: what their nodes have, and whether they are valid."""

from msgspec.structs import replace

from autoscaler.actuation.status_writes import ClusterStatuses, WriteOutcome
from autoscaler.logs import Log
from autoscaler.loop.stages import Observed
from autoscaler.scaleup.capacity_quotas import problem, status_change

log = Log(__name__)


class QuotaStatuses:
    """Writes the statuses that are not right; does nothing unless the configuration enables quotas."""

    def __init__(self, statuses: ClusterStatuses) -> None:
        self._statuses = statuses

    def update(self, stage: Observed) -> Observed:
        """Return the stage with the changes that were written."""
        if not stage.config.limits.capacity_quotas_enabled:
            return stage
        for quota in stage.view.related.capacity_quotas.values():
            change = status_change(quota, stage.view.nodes, stage.now)
            if change is None:
                continue
            written = self._statuses.put(change)
            if written.outcome is WriteOutcome.FAILED:
                log.warning("quota.not_written", quota=quota.name, error=written.error, next="trying again")
            elif change.conditions:
                log.info("quota.judged", quota=quota.name, problem=problem(quota))
            stage = replace(stage, status_changes=(*stage.status_changes, change))
        return stage
