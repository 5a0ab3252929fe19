"""The simulated cluster and cloud of a scenario file, in memory, advanced from run to run.

The cloud only raises targets: no node appears unless the file's changes add it. A deletion takes effect in the cloud at
once, while the node and its pods remain until the next run begins.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from autoscaler.clock import VirtualClock
from autoscaler.objects.node import Node
from autoscaler.sandbox.capacity_objects import put_objects, with_objects
from autoscaler.sandbox.memory_cluster import MemoryCluster, MemoryWrites
from autoscaler.sandbox.recorded_cloud import CloudCall, CloudVerb, recorded
from autoscaler.scenario.scenario import ClusterChange, Scenario, node_ref
from autoscaler.snapshot.cluster import ClusterBuilder, ClusterView
from autoscaler.snapshot.groups import Groups
from cloudprovider.interface import NodeRef
from cloudprovider.static.cloud import open_cloud

FINISH_S = 120.0
"""Seconds after the last run in which its actions may still take effect."""


class ScenarioWorld:
    """Plays one scenario once. The loop uses `observe`, `cloud`, `writes` and `clock`."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        memory = scenario.memory
        self.clock = VirtualClock(scenario.now_s) if memory is None else VirtualClock(memory.now.wall, memory.now.mono)
        self._simulated = open_cloud(scenario.cloud, now=lambda: self.clock.now().wall)
        # A recording comes from a different cloud, and rules may depend on its name.
        self.cloud = recorded(self._simulated, None if memory is None else scenario.config.provider.cloud_provider)
        self._builder = ClusterBuilder(scenario.config.pods.expendable_pods_priority_cutoff)
        self.cluster = MemoryCluster(self._builder.node_changed, self._builder.pod_changed)
        self.writes = MemoryWrites(self.cluster, self.clock)
        self._calls_seen = 0
        self._first_calls: list[int] = []
        self.silence_s: Mapping[str, float] = {}
        """For a recorded pass: seconds without news about a kind, by its path."""
        self._add_nodes(scenario.nodes)
        for pod in scenario.pods:
            self.cluster.put_pod(pod)
        related = scenario.related
        put_objects(
            self.writes,
            *related.provisioning_requests.values(),
            *related.capacity_buffers.values(),
            *related.capacity_quotas.values(),
            *related.pod_templates.values(),
            *related.config_maps.values(),
        )

    def begin_run(self, run: int) -> None:
        """Begin a run: the clock moves to its time, deleted nodes disappear, and the file's changes happen.

        Runs begin in order, and none is left out. Do any work that waits for the clock up to `scenario.run_at_s(run)`
        first; if that takes longer, the run is late.
        """
        self._move_to(self.scenario.run_at_s(run))
        self._remove_deleted_nodes()
        self._first_calls.append(len(self.cloud.calls))
        for change in self.scenario.changes_before(run):
            self._apply(change)

    def finish(self) -> None:
        """Let the time pass that the deletions of the last run may take, and remove the deleted nodes."""
        self._move_to(self.scenario.run_at_s(self.scenario.runs - 1) + FINISH_S)
        self._remove_deleted_nodes()

    def observe(self, read_groups: Callable[[Sequence[Node]], Groups]) -> ClusterView:
        """Return the cluster as it is now; `read_groups` reads the cloud for these nodes."""
        nodes = tuple(self.cluster.nodes.values())
        view = self._builder.view(read_groups(nodes), with_objects(self.scenario.related, self.writes))
        return replace(view, silence_s=self.silence_s)

    def calls_of(self, run: int) -> Sequence[CloudCall]:
        """Return the calls to the cloud between the beginning of a run and that of the next one, oldest first."""
        next_run = self._first_calls[run + 1] if run + 1 < len(self._first_calls) else None
        return self.cloud.calls[self._first_calls[run] : next_run]

    def target_sizes(self) -> dict[str, int]:
        """Return the present target size of every group."""
        return {group.id: group.target_size() for group in self.cloud.groups()}

    def _move_to(self, wall_s: float) -> None:
        self.clock.advance(max(0.0, wall_s - self.clock.now().wall))

    def _remove_deleted_nodes(self) -> None:
        new_calls = self.cloud.calls[self._calls_seen :]
        self._calls_seen = len(self.cloud.calls)
        deleted = [ref for call in new_calls if call.verb is CloudVerb.DELETE and call.delta < 0 for ref in call.nodes]
        self.cluster.remove_nodes(ref.name for ref in deleted if self._is_same_machine(ref))

    def _is_same_machine(self, ref: NodeRef) -> bool:
        """Whether a node is still the deleted one, and not a new node with the same name."""
        node = self.cluster.nodes.get(ref.name)
        return node is not None and node.provider_id == ref.provider_id

    def _apply(self, change: ClusterChange) -> None:
        for key in change.remove_pods:
            self.cluster.remove_pod(key)
        for node in change.update_nodes:
            if node.name in self.cluster.nodes:
                self.cluster.put_node(node)
        for machine in change.add_machines:
            machine_ref = NodeRef(machine.name or machine.provider_id, machine.provider_id)
            if self._simulated.group_of(machine_ref) is None or not self._simulated.has_instance(machine_ref):
                self._simulated.add_machine(machine)
        self._add_nodes(change.add_nodes)
        if change.pauses is not None:
            put_objects(self.writes, change.pauses)
        for pod in change.add_pods:
            self.cluster.put_pod(pod)

    def _add_nodes(self, nodes: Iterable[Node]) -> None:
        added = tuple(nodes)
        for node in added:
            self.cluster.put_node(node)
        self._simulated.adopt(node_ref(node) for node in added)
