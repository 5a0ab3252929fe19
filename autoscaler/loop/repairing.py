"""Corrects failures in the cloud, and stops the pass when the cluster is unhealthy."""

from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud
from autoscaler.errors import ErrorType
from autoscaler.loop.pass_memory import without_timers
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.stages import Ended, Observed, ObservedT, failed
from autoscaler.observe.report import PassEnd, RemovedInstances, Repairs
from autoscaler.registry.instances import InstanceRemoval
from autoscaler.registry.state import recalculated


class Repairing:
    """Deletes failed machines, and lowers target sizes for which no machines arrived."""

    def __init__(self, ports: PassPorts) -> None:
        self._cloud = ports.cloud
        self._events = ports.events

    def run(self, stage: Observed) -> Observed | Ended:
        """Return the stage with repairs done; the pass ends if the cluster is unhealthy or target sizes were wrong."""
        registry = stage.registry
        reverts = tuple(
            self._cloud.decrease_target(late.group, late.revert) for late in registry.timed_out if late.revert
        )
        for revert in reverts:
            if revert.error is not None:
                self._events.not_reverted(revert)
        unregistered = tuple(self._remove(removal) for removal in registry.long_unregistered)
        self._events.removed(unregistered)
        repairs = Repairs(corrections=reverts, unregistered_removed=unregistered)
        if not registry.healthy:
            self._events.unhealthy()
            stage = replace(stage, memory=without_timers(stage.memory), repairs=repairs)
            return Ended(stage=with_current_registry(stage, self._cloud), end=PassEnd.UNHEALTHY)
        failures = tuple(self._remove(removal) for removal in registry.failed_creations)
        fixes = tuple(self._cloud.decrease_target(fix.group, fix.decrease) for fix in registry.size_fixes)
        repairs = replace(repairs, corrections=(*reverts, *fixes), failed_removed=failures)
        stage = with_current_registry(replace(stage, repairs=repairs), self._cloud)
        if (broken := next((fix for fix in fixes if fix.error is not None), None)) is not None:
            return failed(stage, ErrorType.CLOUD_PROVIDER, f"target size of {broken.group} cannot be lowered")
        return Ended(stage=stage, end=PassEnd.SIZES_FIXED) if fixes else stage

    def _remove(self, removal: InstanceRemoval) -> RemovedInstances:
        error = self._cloud.delete_instances(
            removal.group, removal.instances, removal.reason.value, force=removal.force
        )
        return RemovedInstances(removal, error)


def with_current_registry(stage: ObservedT, cloud: Cloud) -> ObservedT:
    """Return a stage with its registry updated by the deletions and target changes of this pass so far."""
    deleted = stage.repairs.removed
    changed = {resized.group for resized in (*stage.repairs.corrections, *stage.increases)}
    changed |= {removed.removal.group for removed in deleted}
    if not changed:
        return stage
    registry = recalculated(
        stage.registry,
        stage.memory.registry,
        cloud.targets(changed),
        health=stage.config.health,
        rules=stage.config.rules,
        removed=[instance for removed in deleted if removed.error is None for instance in removed.removal.instances],
    )
    return replace(stage, registry=registry)
