"""Whole passes that repair nodes: unhealthy ones are replaced, and a dead kubelet keeps nothing."""

from typing import Any

from msgspec.structs import replace

from autoscaler.config.repair import RepairOptions, parse_policy
from autoscaler.config.tree import Config
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.node import NodeCondition
from autoscaler.objects.pod import Pod
from autoscaler.reasons import ReplacementHold, ReplacementStage, ReplacementTrigger, ScaleUpResult
from tests.builders import a_budget
from tests.unit.loop.loop_world import NOW, a_spec, waiting
from tests.unit.loop.replacing_world import ReplacingWorld, old_node, on, options


def repairing(*policies: str, **about: Any) -> Config:
    written = tuple(policy for text in policies or ("Ready=Unknown;10m",) for policy in parse_policy(text))
    config = options(**about)
    # Within the first hours, unneeded nodes are none of these tests' business.
    return replace(
        config,
        repair=RepairOptions(node_repair_policy=written),
        scale_down=replace(config.scale_down, scale_down_utilization_threshold=0.1),
    )


class SickWorld(ReplacingWorld):
    """Five nodes of one group in two zones, each with a pod; n0 turns unreachable, and its kubelet is dead."""

    def __init__(self, *sick: str, config: Config, pods: tuple[Pod, ...] = (), **about: Any) -> None:
        nodes = [(old_node(f"n{number}", zone="ab"[number % 2]), "web") for number in range(5)]
        pods = pods or tuple(on(f"n{number}", f"p{number}") for number in range(5))
        super().__init__(a_spec("web", boot_s=60), config=config, nodes=nodes, pods=pods, **about)
        for name in sick:
            self.turn(name, "Unknown")

    def turn(self, name: str, status: str) -> None:
        """Give the node's kubelet this state from now on."""
        if status == "Unknown":
            self.writes.dead.add(name)
        ready = NodeCondition("Ready", status, "NodeStatusUnknown", "", rfc3339(self.clock.now().wall))
        self.cluster.put_node(replace(self.cluster.nodes[name], conditions=(ready,)))


def test_an_unreachable_node_is_replaced_and_its_pods_come_up_elsewhere() -> None:
    world = SickWorld("n0", config=repairing())
    world.live(600)
    assert world.nodes == {f"n{number}" for number in range(5)}
    world.live(1200)
    assert "n0" not in world.nodes
    assert (len(world.nodes), world.unplaced, world.bought()) == (5, 0, 1)
    (done,) = [one for report in world.reports for one in report.replacements.all if one.over]
    assert (done.trigger, done.stage) == (ReplacementTrigger.UNHEALTHY, ReplacementStage.DONE)
    (text,) = [text for text in world.messages("NodeReplacement") if "Bought" in text][:1]
    assert "(NodeUnhealthy: Ready=Unknown (NodeStatusUnknown) for more than 10m): Bought" in text


def test_a_pod_of_a_stateful_set_is_not_started_twice() -> None:
    """Until the machine is gone, the pod may run on: its object stays, and no other takes its name."""
    database = on("n0", "db-0", owner="StatefulSet/db")
    world = SickWorld("n0", config=repairing(), pods=(database,))
    while "n0" in world.nodes:
        world.step()
        assert world.clock.now().wall < NOW + 3600
        on_node = [pod for pod in world.cluster.pods.values() if pod.node == "n0"]
        assert "n0" not in world.nodes or [pod.name for pod in on_node] == ["db-0"]
        assert "n0" not in world.nodes or len(world.cluster.pods) == 1
    world.live(120)
    assert world.unplaced == 0
    deleted = [record for record in world.writes.log if record.verb == "deletePod"]
    assert deleted == []


def test_room_is_bought_for_a_pod_that_cannot_come_again_before_its_node_is_gone() -> None:
    """Kubernetes has marked it for deletion long ago, and no kubelet ends it."""
    database = replace(on("n0", "db-0", owner="StatefulSet/db"), deleted=NOW - 3600.0)
    pods = (database, *(on(f"n{number}", f"p{number}") for number in range(1, 5)))
    world = SickWorld("n0", config=repairing(), pods=pods)
    world.live(630)
    (begun,) = world.reports[-1].replacements.all
    assert (begun.stage, world.bought()) == (ReplacementStage.BOUGHT, 1)
    world.live(600)
    assert "n0" not in world.nodes
    assert (world.bought(), world.unplaced) == (1, 0)


def test_a_node_that_recovers_stays() -> None:
    world = SickWorld("n0", config=repairing())
    world.live(630)
    assert [one.stage for one in world.reports[-1].replacements.all] == [ReplacementStage.BOUGHT]
    world.turn("n0", "True")
    world.live(60)
    assert "n0" in world.nodes
    (last,) = [one for report in world.reports for one in report.replacements.all if one.over]
    assert (last.stage, last.hold) == (ReplacementStage.ABANDONED, ReplacementHold.WITHDRAWN)


def test_repairs_under_way_stop_while_a_whole_zone_is_unreachable() -> None:
    world = SickWorld("n1", config=repairing())
    world.live(630)
    assert [one.stage for one in world.reports[-1].replacements.all] == [ReplacementStage.BOUGHT]
    world.turn("n3", "Unknown")
    world.live(1200)
    assert {"n1", "n3"} <= world.nodes
    (waiting,) = world.reports[-1].replacements.all
    assert (waiting.stage, waiting.hold) == (ReplacementStage.BOUGHT, ReplacementHold.ALL_UNREACHABLE)
    world.turn("n3", "True")
    world.live(600)
    assert "n1" not in world.nodes
    assert "n3" in world.nodes


def test_nothing_is_bought_while_the_guard_holds() -> None:
    world = SickWorld("n0", "n1", config=repairing())
    world.live(1800)
    assert world.calls == []
    held = world.reports[-1].replacements.held
    assert {name: rest.hold for name, rest in held.items()} == dict.fromkeys(
        ("n0", "n1"), ReplacementHold.TOO_MANY_UNHEALTHY
    )


def test_nodes_are_repaired_although_pods_make_groups_grow() -> None:
    """What a lost node ran makes its group grow, so that a repair that waits for quiet passes might never begin."""
    world = SickWorld("n0", config=repairing())
    world.live(615)
    world.submit(waiting("more"))
    grown = world.step()
    assert grown.scale_up.result is ScaleUpResult.SUCCESSFUL
    assert [one.trigger for one in grown.replacements.all] == [ReplacementTrigger.UNHEALTHY]


def test_a_budget_that_allows_nothing_keeps_an_unhealthy_node() -> None:
    world = SickWorld("n0", config=repairing(), budgets=[a_budget(0)])
    world.live(1800)
    assert "n0" in world.nodes
    rest = world.reports[-1].replacements.held["n0"]
    assert rest.hold is ReplacementHold.NODE_KEPT
    assert "allows no more disruptions" in rest.detail


def test_do_not_disrupt_keeps_no_unhealthy_node() -> None:
    stays = {"karpenter.sh/do-not-disrupt": "true"}
    pods = tuple(on(f"n{number}", f"p{number}", annotations=stays) for number in range(5))
    world = SickWorld("n0", config=repairing(), pods=pods)
    world.cluster.put_node(replace(world.cluster.nodes["n0"], annotations=stays))
    world.live(1800)
    assert "n0" not in world.nodes
    assert {"n1", "n2", "n3", "n4"} < world.nodes
