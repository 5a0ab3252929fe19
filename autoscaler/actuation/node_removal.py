"""The entry point of a pass for removals: the deleter, the soft taints and the clean-up."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from autoscaler.actuation.deletion import Deleter, StartedRemovals
from autoscaler.actuation.deletion_tracker import NodeDeletionTracker, TrackedDeletions
from autoscaler.actuation.removal_events import RemovalEvents
from autoscaler.actuation.removal_outcome import Finished
from autoscaler.actuation.taints import CleanUp, apply_soft_taints
from autoscaler.clock import Clock
from autoscaler.config.scaledown import Drain, ScaleDown
from autoscaler.errors import AutoscalerError, LeadershipLost
from autoscaler.kube.writes import ClusterWrites
from autoscaler.logs import Log
from autoscaler.objects.node import Node
from autoscaler.scaledown.plan import NodesToDelete
from autoscaler.scaledown.taints import SoftTaints

log = Log(__name__)


class DryRunDeleter:
    """The `Deleter` of a dry run. It begins no removal, because the events that a removal waits for never happen."""

    def __init__(self) -> None:
        self.tracker = NodeDeletionTracker()

    def start(self, plan: NodesToDelete) -> StartedRemovals:
        """Report all removals as begun, and forget them."""
        return StartedRemovals(empty=plan.empty, drained=plan.drained)


class NodeRemover:
    """Removes nodes beside the pass, and marks unneeded ones."""

    def __init__(
        self,
        deleter: Deleter | DryRunDeleter,
        writes: ClusterWrites,
        clock: Clock,
        events: RemovalEvents,
        options: ScaleDown,
        drain: Drain,
    ) -> None:
        self._deleter = deleter
        self._writes = writes
        self._clock = clock
        self._clean_up = CleanUp(writes, clock, events)
        self._options = options
        self._drain = drain

    def under_way(self) -> TrackedDeletions:
        """Return the removals in progress."""
        return self._deleter.tracker.under_way()

    def drain_results(self) -> Sequence[Finished]:
        """Return the removals that ended since the last call."""
        return self._deleter.tracker.drain_results()

    def start(self, plan: NodesToDelete) -> StartedRemovals:
        """Begin removals; raises `LeadershipLost`."""
        return self._deleter.start(plan)

    def mark(self, plan: SoftTaints) -> None:
        """Change soft taints until the time for it runs out; raises `LeadershipLost`."""
        apply_soft_taints(self._writes, self._clock, plan, self._options.max_bulk_soft_taint_time_s)

    def annotate(self, node: str, annotations: Mapping[str, str | None]) -> bool:
        """Set annotations of a node (None removes one); return False on failure. Raises `LeadershipLost`."""
        try:
            self._writes.annotate_node(node, annotations)
        except LeadershipLost:
            raise
        except AutoscalerError as error:
            log.warning("node.not_annotated", node=node, error=str(error))
            return False
        return True

    def clean_up(self, nodes: Iterable[Node], managed: Collection[str]) -> None:
        """Remove the taints that an earlier process left; `managed` holds the names of nodes in groups."""
        everything = tuple(nodes)
        self._clean_up.hard_taints(everything, managed, cordoned=self._drain.cordon_node_before_terminating)
        self._clean_up.soft_taints(everything, self._options)
