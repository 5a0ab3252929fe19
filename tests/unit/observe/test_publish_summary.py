"""What is shown of a pass: cluster, groups, nodes and decisions, from real passes."""

import msgspec
import pytest

from autoscaler.clock import Instant
from autoscaler.config.scaleup import Balancing, ScaleUp
from autoscaler.config.tree import Config
from autoscaler.objects.node import DELETION_CANDIDATE, Node
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.observe.status import (
    AutoscalerState,
    Capacity,
    Decision,
    DecisionKind,
    GroupStatus,
    Health,
    NodeState,
    NodeStatus,
    ProcessStatus,
    PublishedStatus,
    ScaleDownActivity,
    ScaleUpActivity,
    Stay,
    TemplateSummary,
)
from autoscaler.observe.summary import summarise
from autoscaler.reasons import BlockingReason, ScaleDownResult, ScaleUpResult, UnremovableNode, UnremovableReason
from autoscaler.scaledown.plan import NodesToDelete, Removal
from autoscaler.snapshot.cluster import view_of
from cloudprovider.interface import ErrorClass, InstanceError, OutOfCapacity, ProviderError
from cloudprovider.static.spec import Call
from tests.builders import a_node, a_pod, replicas
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

GIB = 1024**3
BEFORE = PublishedStatus(process=ProcessStatus(identity="a", version="1", started_at=0))


def shown(report: PassReport, before: PublishedStatus = BEFORE, number: int = 1) -> PublishedStatus:
    return summarise(report, before, number=number)


def the_group(status: PublishedStatus, name: str = "web") -> GroupStatus:
    (group,) = (one for one in status.groups if one.id == name)
    return group


def test_a_group_has_its_sizes_template_and_activity() -> None:
    world = LoopWorld(a_spec("web", min_size=0, max_size=7))
    world.submit(*replicas(waiting("web"), 2))
    group = the_group(shown(world.run()))
    assert (group.min_size, group.target_size, group.max_size, group.upcoming) == (0, 2, 7, 2)
    assert group.scope.health.status is Health.HEALTHY
    assert group.scope.scale_up.status is ScaleUpActivity.IN_PROGRESS
    assert group.template == TemplateSummary(cpu_milli=4000, memory_bytes=16 * GIB, pods=110)
    assert group.backoff is None


def test_a_backed_off_group_says_why_and_until_when() -> None:
    world = LoopWorld(a_spec("web"))
    world.static.fail_next("web", OutOfCapacity("no m5 left"))
    world.submit(waiting("web"))
    group = the_group(shown(world.run()))
    assert group.scope.scale_up.status is ScaleUpActivity.BACKOFF
    assert group.backoff is not None
    assert (group.backoff.code, group.backoff.message) == ("OUT_OF_RESOURCES", "no m5 left")
    assert group.backoff.until_at == NOW + 300


def test_an_unhealthy_group_is_not_called_backed_off() -> None:
    nodes = [(a_node(f"n{number}", ready=False), "web") for number in range(4)]
    others = [(a_node(f"m{number}"), "other") for number in range(20)]
    world = LoopWorld(a_spec("web"), a_spec("other", max_size=30), nodes=nodes + others)
    status = shown(world.run())
    group = the_group(status)
    assert group.scope.health.status is Health.UNHEALTHY
    assert group.scope.scale_up.status is ScaleUpActivity.UNHEALTHY
    assert (group.scope.counts.unready, group.scope.counts.ready, group.scope.counts.total) == (4, 0, 4)
    assert status.cluster is not None
    assert status.cluster.scope.health.status is Health.HEALTHY


def test_the_cluster_has_its_capacity() -> None:
    world = LoopWorld(a_spec("web", cpu="1"), nodes=[(a_node("n1", cpu="4"), "web"), (a_node("n2", cpu="2"), "web")])
    world.submit(a_pod("running", cpu="1500m", memory="1Gi", node="n1"), waiting("huge", cpu="9"))
    cluster = shown(world.run()).cluster
    assert cluster is not None
    assert cluster.cpu_milli == Capacity(running=1500, pending=9000, total=6000)
    assert cluster.memory_bytes == Capacity(running=GIB, pending=0, total=32 * GIB)


def test_nodes_have_a_group_a_state_and_shares() -> None:
    world = LoopWorld(
        a_spec("web", boot_s=60),
        nodes=[
            (a_node("full", cpu="4"), "web"),
            (a_node("broken", ready=False), "web"),
            (a_node("young", ready=False, created=NOW - 10), "web"),
        ],
    )
    world.cluster.put_node(a_node("stranger", extra={"nvidia.com/gpu": "4"}))
    world.submit(
        a_pod("p", cpu="3", memory="4Gi", node="full"), a_pod("g", requests={"nvidia.com/gpu": "1"}, node="stranger")
    )
    world.static.group("web").increase(1)
    nodes = {node.name: node for node in shown(world.run()).nodes}
    assert msgspec.structs.replace(nodes["full"], stays=None) == NodeStatus(
        name="full", group="web", state=NodeState.READY, cpu_utilization=0.75, memory_utilization=0.25
    )
    assert {name: node.state for name, node in nodes.items() if name != "full"} == {
        "broken": NodeState.UNREADY,
        "young": NodeState.NOT_STARTED,
        "stranger": NodeState.READY,
        "static://web-1": NodeState.UPCOMING,
    }
    assert (nodes["stranger"].group, nodes["stranger"].gpu_utilization) == (None, 0.25)
    assert nodes["static://web-1"].group == "web"


def test_a_node_without_a_resource_has_no_share_of_it() -> None:
    bare = msgspec.structs.replace(a_node("bare"), allocatable={"cpu": 4000})
    world = LoopWorld(a_spec("web"), nodes=[(bare, "web")])
    (node,) = shown(world.run()).nodes
    assert (node.cpu_utilization, node.memory_utilization, node.gpu_utilization) == (0.0, None, None)


SMALL = "for default/web (3)"


def test_decisions_say_what_was_done_for_how_many_pods() -> None:
    world = LoopWorld(a_spec("a", cpu="4"), a_spec("b", cpu="8"))
    world.static.fail_next("b", ProviderError("broken"))
    world.submit(*replicas(waiting("small", cpu="3500m"), 3), waiting("large", cpu="7500m"))
    assert shown(world.run()).decisions == (
        Decision(at=NOW, kind=DecisionKind.SCALE_UP, group="a", delta=3, pods=3, result="Successful", detail=SMALL),
        Decision(at=NOW, kind=DecisionKind.SCALE_UP, group="b", delta=1, result="Error", detail="broken"),
    )


def test_balanced_groups_name_each_other() -> None:
    config = Config(balancing=Balancing(balance_similar_node_groups=True))
    world = LoopWorld(a_spec("a"), a_spec("b"), config=config)
    world.submit(*replicas(waiting("web"), 4))
    decisions = {decision.group: decision for decision in shown(world.run()).decisions}
    assert {group: one.delta for group, one in decisions.items()} == {"a": 2, "b": 2}
    assert {group: one.detail for group, one in decisions.items()} == {
        "a": "for default/web (4); shared with b",
        "b": "shared with a",
    }


def test_repairs_are_decisions_too() -> None:
    world = LoopWorld(a_spec("late", boot_s=0), a_spec("wrong", target=2), a_spec("broken", boot_s=60))
    world.static.group("late").increase(1)
    world.run()
    world.static.fail_next("broken", InstanceError(ErrorClass.OTHER, "BAD", "bad image"))
    world.static.group("broken").increase(1)
    report = world.run(after_s=901)
    assert report.end is PassEnd.SIZES_FIXED
    found = {decision.group: (decision.kind, decision.delta, decision.detail) for decision in shown(report).decisions}
    assert found == {
        "wrong": (DecisionKind.SCALE_DOWN, -2, "machines that never came"),
        "late": (DecisionKind.SCALE_DOWN, -1, "machines that never became nodes"),
        "broken": (DecisionKind.SCALE_DOWN, -1, "machines that could not be created"),
    }


def test_the_pass_has_a_number_phases_and_a_duration() -> None:
    world = LoopWorld(a_spec("web"))
    report = msgspec.structs.replace(world.run(), timings={"snapshot": 0.1, "scale_up": 0.2, "pass": 0.5})
    last = shown(report, number=7).last_pass
    assert last is not None
    assert (last.number, last.started_at, last.duration_s, last.error) == (7, NOW, 0.5, None)
    assert [(phase.name, phase.seconds) for phase in last.phases] == [("snapshot", 0.1), ("scale_up", 0.2)]
    assert last.scale_up is ScaleUpResult.NOT_NEEDED


def test_an_outage_leaves_the_picture_and_says_so() -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(waiting("web"))
    first = shown(world.run())
    world.static.fail_next("web", ProviderError("down"), Call.REFRESH)
    second = shown(world.run(after_s=15), first, number=2)
    assert (second.groups, second.nodes, second.pods, second.cluster) == (
        first.groups,
        first.nodes,
        first.pods,
        first.cluster,
    )
    assert second.state is AutoscalerState.RUNNING
    assert second.decisions == ()
    assert second.last_pass is not None
    assert second.last_pass.number == 2
    assert "down" in (second.last_pass.error or "")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        pytest.param([], "Cluster has no nodes.", id="no node"),
        pytest.param([(a_node("n1", ready=False), "web")], "Cluster has no ready nodes.", id="no ready node"),
    ],
)
def test_an_empty_cluster_is_still_initializing(nodes: list[tuple[Node, str]], message: str) -> None:
    world = LoopWorld(a_spec("web"), config=Config(scale_up=ScaleUp(scale_up_from_zero=False)), nodes=nodes)
    status = shown(world.run())
    assert (status.state, status.message) == (AutoscalerState.INITIALIZING, message)
    assert (status.cluster, status.groups) == (None, ())
    assert [node.state for node in status.nodes] == [NodeState.UNREADY] * len(nodes)


def test_the_message_goes_once_the_cluster_has_nodes() -> None:
    world = LoopWorld(a_spec("web"))
    before = msgspec.structs.replace(BEFORE, message="Cluster has no nodes.")
    status = shown(world.run(), before)
    assert (status.state, status.message) == (AutoscalerState.RUNNING, None)


class TestScaleDown:
    def report(self, **fields: object) -> PassReport:
        world = LoopWorld(a_spec("web"), nodes=[(a_node("idle"), "web"), (a_node("busy"), "web")])
        report = world.run()
        found = {"unneeded": (), "unremovable": {}, **fields}
        return msgspec.structs.replace(report, scale_down=msgspec.structs.replace(report.scale_down, **found))

    def test_unneeded_nodes_are_candidates_since_they_were_first_seen(self) -> None:
        report = self.report(unneeded=(Removal(node=a_node("idle"), group="web"),))
        first = shown(report)
        later = msgspec.structs.replace(report, now=Instant(NOW + 60, 60.0))
        second = shown(later, first, number=2)
        assert {node.name: node.unneeded_since_at for node in second.nodes} == {"idle": NOW, "busy": None}
        assert second.cluster is not None
        for scope in (second.cluster.scope, the_group(second).scope):
            assert (scope.scale_down.status, scope.candidates) == (ScaleDownActivity.CANDIDATES, 1)

    def test_after_a_restart_the_soft_taint_tells_since_when(self) -> None:
        marked = a_node("idle", taints=[f"{DELETION_CANDIDATE}={int(NOW) - 120}:PreferNoSchedule"])
        nodes = shown(self.report(unneeded=(Removal(node=marked, group="web"),))).nodes
        assert [node.unneeded_since_at for node in nodes] == [NOW - 120, None]

    def test_without_candidates(self) -> None:
        scope = the_group(shown(self.report())).scope
        assert (scope.scale_down.status, scope.candidates) == (ScaleDownActivity.NO_CANDIDATES, 0)

    @pytest.mark.parametrize(
        ("kept", "stay"),
        [
            pytest.param(
                UnremovableNode("busy", UnremovableReason.NOT_UNDERUTILIZED, "cpu at 80%"),
                Stay("NotUnderutilized", "cpu at 80%"),
                id="with figures",
            ),
            pytest.param(
                UnremovableNode(
                    "busy", UnremovableReason.BLOCKED_BY_POD, pod="shop/db", pod_reason=BlockingReason.NOT_REPLICATED
                ),
                Stay("BlockedByPod", "shop/db (NotReplicated)"),
                id="with the pod to blame",
            ),
            pytest.param(
                UnremovableNode("busy", UnremovableReason.NO_PLACE, "fits nowhere", pod="shop/db"),
                Stay("NoPlaceToMovePods", "shop/db: fits nowhere"),
                id="with the pod that has no place",
            ),
        ],
    )
    def test_nodes_that_stay_say_why(self, kept: UnremovableNode, stay: Stay) -> None:
        nodes = {node.name: node for node in shown(self.report(unremovable={"busy": kept})).nodes}
        assert (nodes["busy"].stays, nodes["idle"].stays) == (stay, None)

    def test_removals_are_one_decision_a_group(self) -> None:
        moved = tuple(replicas(a_pod("p"), 2))
        deletions = NodesToDelete(
            empty=(Removal(node=a_node("idle"), group="web"),),
            drained=(Removal(node=a_node("busy"), group="web", pods=moved),),
        )
        assert shown(self.report(deletions=deletions)).decisions == (
            Decision(
                at=NOW,
                kind=DecisionKind.SCALE_DOWN,
                group="web",
                delta=-2,
                pods=2,
                result=ScaleDownResult.NODE_DELETE_STARTED,
                detail="idle, busy",
            ),
        )

    def test_the_cool_down_shows(self) -> None:
        last = shown(self.report(result=ScaleDownResult.IN_COOLDOWN)).last_pass
        assert last is not None
        assert last.scale_down_in_cooldown


def test_a_view_without_nodes_makes_no_trouble() -> None:
    report = PassReport(now=Instant(NOW, 0.0), end=PassEnd.EMPTY_CLUSTER, view=view_of([], []))
    assert shown(report).nodes == ()
