"""Weeks of churn: what the daemon keeps is bounded by what is there, not by what has ever been."""

import contextlib
import gc
from collections import Counter

from autoscaler.clock import Instant
from autoscaler.config.load import from_options
from autoscaler.eta.samples import Rings
from autoscaler.objects.meta import JsonObject
from autoscaler.observe.correlator import Correlator
from autoscaler.observe.events import CollectedEvents
from autoscaler.observe.http.health import HealthCheck, limits_of
from autoscaler.observe.publish import Publisher
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import ProcessStatus
from autoscaler.observe.status_board import StatusBoard
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.simulator.replica import SilentPassListener
from autoscaler.simulator.world import Attached, World
from autoscaler.snapshot.columns import Vocabulary
from tests.properties.held import held
from tests.room import ROOM
from tests.scraping import with_sections
from tests.worlds import QUICK, a_cloud, a_daemon_set, a_deployment, a_group

HOUR_S = 3600.0
WEEK_S = 7 * 24 * HOUR_S
ROUND_S = 8 * HOUR_S
PODS_A_ROUND = 12
SLOW = Timing(heartbeat_s=HOUR_S)
"""A few thousand heartbeats are as good as many thousand to find out what they leave behind."""
UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
OPTIONS = {
    **QUICK,
    "scan-interval": "20m",
    "scale-down-unneeded-time": "20m",
    "scale-down-delay-after-add": "20m",
    "unremovable-node-recheck-timeout": "20m",
    "max-node-provision-time": "1h",
    "emit-per-nodegroup-metrics": "true",
    "node-removal-latency-tracking-enabled": "true",
    "max-node-skip-eval-time-tracker-enabled": "true",
}


class Told(SilentPassListener):
    """Publishes passes as the daemon does."""

    def __init__(self) -> None:
        self.publisher: Publisher | None = None

    def pass_started(self, now: Instant) -> None:
        assert self.publisher is not None
        self.publisher.pass_started(now)

    def pass_ended(self, report: PassReport) -> None:
        assert self.publisher is not None
        self.publisher.pass_ended(report)


class Churned:
    """A world with everything switched on, in which nothing ever comes again under a name that it had."""

    def __init__(self) -> None:
        config = with_sections(from_options(OPTIONS, ()), ROOM)
        told = Told()
        groups = a_cloud(a_group("web", max_size=8), a_group("batch", cpu="8", max_size=5))
        self.world = World(
            config,
            groups,
            [a_deployment("app", 6), a_daemon_set()],
            attached=Attached(told, tick_s=1200.0),
            timing=SLOW,
        )
        now = self.world.clock.now()
        health = HealthCheck(limits_of(config.loop, config.rules.startup_health_limit), now)
        self.board = StatusBoard(ProcessStatus(identity="a", version="0", started_at=now.wall))
        self.publisher = told.publisher = Publisher(config, self.board, self.world.metrics, health, tuple, None)
        self.publisher.start(now)
        self._rounds = 0
        self._there: list[tuple[str, str, str | None]] = []

    def run(self, seconds: float) -> None:
        """Let time pass; every few hours come other pods, labels, claims to room, and sizes."""
        for _ in range(round(seconds / ROUND_S)):
            self._rounds += 1
            self._replace_pods()
            self.world.scale("app", 2 + self._rounds * 7 % 11)
            self.world.announce("jobs", 1, HOUR_S)
            self.world.run_for(ROUND_S)
            self.world.metrics.scrape()

    def rest(self) -> Counter[str]:
        """Let everything come to rest in the same state, and count what the process holds."""
        self._delete()
        self.world.scale("app", 6)
        self.world.run_for(6 * HOUR_S)
        replica = self.world.replica
        assert replica is not None
        gc.collect()
        roots = [
            replica.autoscaler,
            replica.companion_set,
            replica.writes,
            self.world.metrics,
            self.publisher,
            self.board,
        ]
        # The events of a whole simulation are collected on purpose: only simulations do that.
        bounded = (Correlator, Rings, Vocabulary, CollectedEvents)
        return held(
            roots, bounded=bounded, beside=("autoscaler.sandbox", "autoscaler.simulator", "cloudprovider.static")
        )

    def _delete(self) -> None:
        for kind, name, namespace in self._there:
            with contextlib.suppress(ApiError):  # its node took it away
                self.world.delete(kind, name, namespace=namespace)
        self._there = []

    def _replace_pods(self) -> None:
        self._delete()
        nodes = [node["metadata"]["name"] for node in self.world.storage.list("nodes")]
        for number in range(PODS_A_ROUND):
            pod = unique_pod(f"{self._rounds}-{number}", nodes[number % len(nodes)] if number % 3 and nodes else None)
            namespace, name, of_class = a_namespace(pod), pod["metadata"]["name"], a_class(pod)
            self.world.apply(namespace, of_class, pod)
            if "nodeName" not in pod["spec"]:
                self.world.storage.patch("pods", name, {"status": UNSCHEDULABLE}, namespace=name, subresource="status")
            self._there += [("pods", name, name), ("priorityclasses", name, None), ("namespaces", name, None)]
        for name in nodes:
            labels: JsonObject = {f"example.com/key-{self._rounds}": "x", "example.com/same": f"v{self._rounds}"}
            labels |= {f"example.com/key-{self._rounds - 1}": None}
            self.world.storage.patch("nodes", name, {"metadata": {"labels": labels}})


def unique_pod(name: str, node: str | None) -> JsonObject:
    """Return a pod that shares no word with any other; without a node it waits for one that no group has."""
    requests = {"cpu": "100m", "memory": "64Mi"}
    spec: JsonObject = {"priorityClassName": name, "schedulerName": "somebody-else"}
    if node is not None:
        spec["nodeName"] = node
    else:
        requests[f"example.com/resource-{name}"] = "1"
        spec["nodeSelector"] = {f"example.com/label-{name}": name}
    container = {"name": f"c-{name}", "image": f"registry.example/{name}", "resources": {"requests": requests}}
    metadata = {
        "name": name,
        "namespace": name,
        "labels": {f"label-{name}": name, "app": name},
        "annotations": {
            f"example.com/note-{name}": name,
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
            f"cluster-autoscaler.kubernetes.io/{name}": name,
        },
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "containers": [container]}}


def a_class(pod: JsonObject) -> JsonObject:
    name = {"name": pod["spec"]["priorityClassName"]}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": name, "value": 5}


def a_namespace(pod: JsonObject) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": pod["metadata"]["namespace"]}}


def test_nothing_that_is_kept_grows_from_week_to_week() -> None:
    churned = Churned()
    with churned.world as world:
        churned.run(WEEK_S)
        first = churned.rest()
        churned.run(WEEK_S)
        churned.rest()
        churned.run(WEEK_S)
        third = churned.rest()
        assert world.reports[-1].error == ""
    grown = {name: (first[name], count) for name, count in third.items() if count > 1.05 * first[name] + 20}
    assert grown == {}
