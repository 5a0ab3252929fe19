"""Put right what went wrong in the cloud, and stop where the cluster is in trouble."""

from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud
from autoscaler.config.tree import Config
from autoscaler.errors import ErrorType
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.observing import without_timers
from autoscaler.loop.passing import PassState
from autoscaler.observe.report import PassEnd, RemovedInstances
from autoscaler.registry.instances import InstanceRemoval
from autoscaler.registry.state import recalculated


class Repairing:
    """Deletes machines that came to nothing and lowers targets that nothing stands behind."""

    def __init__(self, config: Config, cloud: Cloud, herald: PassEventWriter) -> None:
        self._config = config
        self._cloud = cloud
        self._herald = herald

    def run(self, p: PassState) -> PassState:
        """Return the pass with repairs in its report; it ends here where the cluster is unhealthy or sizes were off."""
        registry = p.registry
        reverts = tuple(
            self._cloud.decrease_target(late.group, late.revert) for late in registry.timed_out if late.revert
        )
        for revert in reverts:
            if revert.error is not None:
                self._herald.not_reverted(revert)
        unregistered = tuple(self._remove(removal) for removal in registry.long_unregistered)
        self._herald.removed(unregistered)
        p = p.with_report(replace(p.report, unregistered_removed=unregistered, corrections=reverts))
        if not registry.healthy:
            self._herald.unhealthy()
            p = replace(p, remembered=without_timers(p.remembered))
            return self.judged_again(p.with_report(replace(p.report, end=PassEnd.UNHEALTHY, unneeded=())))
        failed = tuple(self._remove(removal) for removal in registry.failed_creations)
        fixes = tuple(self._cloud.decrease_target(fix.group, fix.decrease) for fix in registry.size_fixes)
        p = self.judged_again(p.with_report(replace(p.report, failed_removed=failed, corrections=(*reverts, *fixes))))
        if (broken := next((fix for fix in fixes if fix.error is not None), None)) is not None:
            return p.failed(ErrorType.CLOUD_PROVIDER, f"target size of {broken.group} cannot be lowered")
        return p.with_report(replace(p.report, end=PassEnd.SIZES_FIXED)) if fixes else p

    def _remove(self, removal: InstanceRemoval) -> RemovedInstances:
        error = self._cloud.delete_instances(
            removal.group, removal.instances, removal.reason.value, force=removal.force
        )
        return RemovedInstances(removal, error)

    def judged_again(self, p: PassState) -> PassState:
        """Return the pass with its registry as it is after the machines deleted and targets changed so far."""
        report = p.report
        deleted = (*report.unregistered_removed, *report.failed_removed)
        touched = {one.group for one in (*report.corrections, *report.increases)}
        touched |= {one.removal.group for one in deleted}
        if not touched:
            return p
        registry = recalculated(
            p.registry,
            p.remembered.registry,
            self._cloud.targets(touched),
            health=self._config.health,
            rules=self._config.rules,
            removed=[instance for one in deleted if one.error is None for instance in one.removal.instances],
        )
        return p.with_report(replace(report, registry=registry))
