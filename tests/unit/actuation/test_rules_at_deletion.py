"""The planner's own rules, asked again with what is true when the node is about to go."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from autoscaler.actuation.removal_outcome import AbortReason, RemovalOutcome
from autoscaler.clock import ThreadExecutor
from autoscaler.config.scaledown import Drain
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.node import Node, Taint
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import DisruptionBudget, Replicated
from autoscaler.snapshot.cluster import Related
from tests.unit.actuation.stage import Api, DeletionStage


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        pytest.param({"owner": None}, AbortReason.BLOCKED, id="a bare pod"),
        pytest.param(
            {"namespace": "kube-system", "created": 1_699_999_990.0}, AbortReason.BLOCKED, id="a young system pod"
        ),
        pytest.param(
            {"volumes": [{"name": "data", "hostPath": {"path": "/data"}}]},
            AbortReason.BLOCKED,
            id="a pod with local data",
        ),
        pytest.param({"priority": -20}, None, id="an expendable pod does not count"),
        pytest.param({"annotations": {"kubernetes.io/config.mirror": "x"}}, None, id="a mirror pod does not count"),
        pytest.param({"owner": "DaemonSet/log"}, None, id="a daemon pod goes along"),
        pytest.param({"deleted": 1_699_999_000.0}, None, id="a pod stuck in termination does not count"),
    ],
)
def test_pods_found_on_an_empty_node(pod: dict[str, Any], why: AbortReason | None) -> None:
    with DeletionStage() as stage:
        plan = stage.start("n1")
        stage.add("p", "n1", **pod)
        (finished,) = stage.run(10)
        assert plan.empty[0].pods == ()
        assert (finished.why, finished.outcome) == (why, RemovalOutcome.NOT_DELETED if why else RemovalOutcome.DELETED)


def test_a_controller_that_went_away_since_the_plan_blocks() -> None:
    with DeletionStage() as stage:
        stage.add("p", "n1")
        stage.api.controllers = Related(replica_sets={"default/web": Replicated(metadata=ObjectMeta(name="web"))})
        stage.start("n1")
        stage.api.controllers = Related()
        (finished,) = stage.run(10)
        assert (finished.why, finished.message) == (
            AbortReason.BLOCKED,
            "pod default/p blocks: there is no ReplicaSet web",
        )


class LockedApi(Api):
    """The fake API server, for threads."""

    lock = threading.RLock()

    def evict(self, namespace: str, name: str, uid: str, grace_s: int | None) -> None:
        with self.lock:
            super().evict(namespace, name, uid, grace_s)

    def add_taint(self, node: str, taint: Taint, *, cordon: bool = False) -> bool:
        with self.lock:
            return super().add_taint(node, taint, cordon=cordon)

    def remove_taint(self, node: str, key: str, *, uncordon: bool = False) -> bool:
        with self.lock:
            return super().remove_taint(node, key, uncordon=uncordon)

    def node(self, name: str) -> Node | None:
        with self.lock:
            return super().node(name)

    def pods_on(self, node: str) -> Sequence[Pod]:
        with self.lock:
            return super().pods_on(node)

    def budgets(self) -> Sequence[DisruptionBudget]:
        with self.lock:
            return super().budgets()


def test_removals_on_real_threads() -> None:
    threads = ThreadExecutor(threads=4)
    gone = threading.Semaphore(0)
    config = Drain(node_delete_delay_after_taint_s=0)
    try:
        with DeletionStage(nodes=6, config=config, threads=threads, api=LockedApi) as stage:
            names = [f"n{number}" for number in range(1, 7)]
            for name in names[:4]:
                stage.add(f"on-{name}", name)
            stage.counts.on_removed = gone.release
            assert stage.start(*names).error == ""
            for _ in names:
                assert gone.acquire(timeout=20)
    finally:
        threads.stop()
    assert sorted(one.removal.node.name for one in stage.tracker.drain_results()) == names
    assert stage.machines() == []
