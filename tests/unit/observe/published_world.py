"""A `LoopWorld` behind a real publisher: what its passes leave in the status ConfigMap, on the board and in metrics."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from autoscaler.actuation.status_map import ClusterStatusMap
from autoscaler.config.tree import Config
from autoscaler.errors import AutoscalerError
from autoscaler.kube.paths import ObjectRef
from autoscaler.objects.node import Node
from autoscaler.observe.http.health import HealthCheck, StuckLimits
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.publish import Publisher
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import ProcessStatus
from autoscaler.observe.status_board import StatusBoard
from autoscaler.reasons import RemovedAs
from autoscaler.sandbox.recorded_cloud import RecordedCloud, RecordedGroup
from cloudprovider.static.cloud import StaticCloud
from cloudprovider.static.spec import GroupSpec
from tests.unit.loop.loop_world import NOW, LoopWorld

STATUS_MAP = ObjectRef("v1", "ConfigMap", "cluster-autoscaler-status", "kube-system")


class CloudWithout(RecordedCloud):
    """A cloud in which somebody may take groups away."""

    def __init__(self, inner: StaticCloud) -> None:
        super().__init__(inner)
        self.taken: set[str] = set()

    def groups(self) -> Sequence[RecordedGroup]:
        return tuple(group for group in super().groups() if group.id not in self.taken)


class FaultyStatusMap(ClusterStatusMap):
    """The ConfigMap, at an API server that may refuse it."""

    failure: AutoscalerError | None = None

    def put(self, text: str, last_updated: str) -> None:
        if self.failure is not None:
            raise self.failure
        super().put(text, last_updated)


class PublishedWorld(LoopWorld):
    """Everything that may be published is. Removals go on where the executor is driven."""

    cloud: CloudWithout  # it knows no prices

    def __init__(
        self,
        *groups: GroupSpec,
        config: Config = Config(),  # noqa: B008  # frozen
        nodes: Sequence[tuple[Node, str]] = (),
        cloud: Callable[[StaticCloud], CloudWithout] = CloudWithout,
        **more: Any,
    ) -> None:
        super().__init__(*groups, config=config, nodes=nodes, cloud=cloud, **more)
        self.metrics = Metrics(per_node_group=True, removal_latency=True, skipped_nodes=True)
        self.board = StatusBoard(ProcessStatus(identity="a", version="1", started_at=NOW))
        health = HealthCheck(StuckLimits(600, 900), self.clock.now())
        namespace, name = config.kube.namespace, config.observe.status_config_map_name
        self.status_map = FaultyStatusMap(self.writes, namespace, name)
        self.publisher = Publisher(config, self.board, self.metrics, health, tuple, self.status_map)
        self.publisher.start(self.clock.now())

    def run(self, after_s: float = 0.0) -> PassReport:
        """Run a pass, so many seconds from now, as the daemon does."""
        self.clock.advance(after_s)
        self.publisher.pass_started(self.clock.now())
        report = super().run()
        self.publisher.pass_ended(report)
        return report

    def text(self, ref: ObjectRef = STATUS_MAP) -> str:
        """Return the text of the status ConfigMap."""
        return str(self.writes.objects[ref]["data"]["status"])

    def status(self) -> dict[str, Any]:
        """Return it as a reader of YAML has it."""
        read: dict[str, Any] = yaml.safe_load(self.text())
        return read

    def group(self, group_id: str) -> dict[str, Any]:
        """Return its part about one group."""
        (found,) = (one for one in self.status()["nodeGroups"] if one["name"] == group_id)
        return dict(found)

    def series(self) -> Mapping[str, float]:
        """Return all that is scraped: values by name and labels, without the prefix of names."""
        lines = self.metrics.scrape().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.removeprefix("cluster_autoscaler_"): float(value) for name, value in pairs}

    def deletions_pending(self, nodes: int) -> None:
        self.publisher.deletions_pending(nodes)

    def pod_evicted(self, succeeded: bool) -> None:
        self.publisher.pod_evicted(succeeded)

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        self.publisher.node_removed(group, node, removed_as)

    def machine_left(self, left: int, remained: int) -> None:
        self.publisher.machine_left(left, remained)

    def removal_failed(self, why: str) -> None:
        self.publisher.removal_failed(why)
