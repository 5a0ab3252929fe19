"""The last step of a pass: raises groups to their minimum size."""

from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud
from autoscaler.errors import ErrorType
from autoscaler.loop.buying import Buying
from autoscaler.loop.repairing import with_current_registry
from autoscaler.loop.stages import Ended, Shrunk, failed, remember
from autoscaler.observe import event_texts
from autoscaler.reasons import ScaleUpResult
from autoscaler.registry import memory as memories
from autoscaler.scaleup.minimum_size import plan_minimum_sizes


class MinimumSizes:
    """Raises groups below their minimum size if the configuration enables it."""

    def __init__(self, cloud: Cloud, buying: Buying) -> None:
        self._cloud = cloud
        self._buying = buying

    def run(self, stage: Shrunk) -> Shrunk | Ended:
        """Return the stage with groups raised; if the rules say so, a failed increase fails the pass."""
        if not stage.config.scale_up.enforce_node_group_min_size:
            return stage
        rules, before = stage.config.rules, stage.scale_up
        increases = plan_minimum_sizes(self._buying.context(with_current_registry(stage, self._cloud)), rules)
        if not increases:
            return stage
        stage, done = self._buying.buy(stage, increases)
        errors = [resized.error for resized in done if resized.error is not None]
        if not errors:
            stage = remember(stage, registry=memories.scale_up_succeeded(stage.memory.registry, stage.now))
        bad = errors or before.result is ScaleUpResult.ERROR
        scale_up = replace(
            before,
            result=ScaleUpResult.ERROR if bad else ScaleUpResult.SUCCESSFUL,
            error=before.error or event_texts.resize_errors(errors),
        )
        stage = replace(stage, scale_up=scale_up)
        if errors and rules.return_min_size_error:
            return failed(stage, ErrorType.CLOUD_PROVIDER, event_texts.resize_errors(errors))
        return stage
