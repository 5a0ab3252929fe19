"""Finds candidates for the example node of each group: the first step of choosing templates."""

from collections.abc import Mapping, Sequence

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions
from autoscaler.objects.node import Node
from autoscaler.registry.buckets import startup_time_s
from autoscaler.registry.readiness import RESOURCE_NOT_READY, Readings
from autoscaler.snapshot.cluster import ClusterView

STABLE_AFTER_S = 60.0
"""A node that became ready more recently may still lack labels, resources or DaemonSet pods."""


class Examples:
    """Nodes of one group that could be its example: positions in the view, None where there is none."""

    def __init__(self) -> None:
        self.good: int | None = None
        """The first in good order."""
        self.newest: int | None = None
        """The newest in good order."""
        self.incomplete: list[int] = []
        """The newest two that have had their time and still lack devices, the newest first."""
        self.unfit: int | None = None
        """The first of the others."""
        self.young: list[Node] = []
        """Nodes that have been ready for too short a time to know all of them."""

    def add_good(self, position: int, nodes: Sequence[Node]) -> None:
        """Take a node in good order."""
        if self.good is None:
            self.good = position
        if self.newest is None or nodes[position].created > nodes[self.newest].created:
            self.newest = position

    def add_incomplete(self, position: int, nodes: Sequence[Node]) -> None:
        """Take a node that has had its time and still lacks devices."""
        newest_first = sorted((*self.incomplete, position), key=lambda number: -nodes[number].created)
        self.incomplete = newest_first[:2]


NO_EXAMPLES = Examples()


def find_examples(
    view: ClusterView, readings: Readings, rules: Rules, health: HealthOptions, now: Instant
) -> Mapping[str, Examples]:
    """Return the candidates of each group that has nodes, in the order of the view.

    Where rules ask for it only ready, schedulable nodes take part at all, and the first in good order decides.
    """
    examples: dict[str, Examples] = {}
    owner_of, by_id, corrects = view.groups.of_node.get, view.groups.by_id, rules.nodes_correct_templates
    undecided = set(by_id)
    for position, reading in enumerate(readings.items):
        node, state = reading.node, reading.readiness
        group_id = owner_of(node.name)
        if group_id is None or group_id not in undecided:
            continue
        own = examples.setdefault(group_id, Examples())
        available = state.ready and not node.unschedulable
        stable = state.since is None or now.wall - state.since > STABLE_AFTER_S
        staying = not reading.to_be_deleted
        if available and stable and staying:
            own.add_good(position, view.nodes)
            if not corrects:
                undecided.discard(group_id)
            continue
        if own.unfit is None and (available or rules.template_from_all_nodes):
            own.unfit = position
        if not corrects or not staying:
            continue
        if available:
            own.young.append(node)
        elif (
            state.reason == RESOURCE_NOT_READY
            and node.created + startup_time_s(by_id[group_id], health, rules) <= now.wall
        ):
            own.add_incomplete(position, view.nodes)
    return examples
