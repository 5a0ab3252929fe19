"""The verdict on every pending pod, from real passes."""

import msgspec
import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import GroupsPerPass, Pods, ResourceLimits, ScaleUp
from autoscaler.config.tree import Config
from autoscaler.objects.meta import OwnerReference
from autoscaler.objects.pod import Pod
from autoscaler.observe.pod_summary import pod_statuses, workload_of
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import PodState, PodStatus
from autoscaler.reasons import NoFit, PodVerdict, ScaleUpResult, Skip, Waiting
from cloudprovider.interface import OutOfCapacity, ProviderError
from cloudprovider.static.spec import Call
from tests.builders import a_node, a_pod, replicas
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting


def by_name(report: PassReport) -> dict[str, PodStatus]:
    return {pod.name: pod for pod in pod_statuses(report)}


def test_helped_pods_name_their_group_and_owner() -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(waiting("web-0", created=NOW - 60))
    assert by_name(world.run())["web-0"] == PodStatus(
        namespace="default",
        name="web-0",
        pending_since_at=NOW - 60,
        verdict=PodVerdict.HELPED,
        state=PodState.ON_ITS_WAY,
        owner="ReplicaSet web",
        workload="ReplicaSet web",
        planned_group="web",
    )


def test_a_replica_set_of_a_deployment_is_known_by_the_deployment() -> None:
    labels = {"pod-template-hash": "7d9f"}
    owned = msgspec.structs.replace(a_pod("web-7d9f-x").cls, owner=OwnerReference(kind="ReplicaSet", name="web-7d9f"))
    assert workload_of(owned) == "ReplicaSet web-7d9f"
    assert workload_of(msgspec.structs.replace(owned, labels=labels)) == "Deployment web"
    assert workload_of(msgspec.structs.replace(owned, owner=None)) is None


def test_pods_go_to_different_groups_in_one_pass() -> None:
    world = LoopWorld(a_spec("a", cpu="4"), a_spec("b", cpu="8"))
    world.submit(waiting("small", cpu="3500m"), waiting("large", cpu="7500m"))
    pods = by_name(world.run())
    assert {name: pod.planned_group for name, pod in pods.items()} == {"small": "a", "large": "b"}


def test_stuck_pods_have_a_reason_for_every_group() -> None:
    world = LoopWorld(a_spec("small", cpu="2"), a_spec("full", cpu="64", max_size=0))
    world.submit(waiting("huge", cpu="32"))
    pod = by_name(world.run())["huge"]
    assert (pod.verdict, pod.detail, pod.planned_group) == (PodVerdict.NO_GROUP_FITS, "requests cpu 32", None)
    assert [(reason.group, reason.reason, reason.detail) for reason in pod.reasons] == [
        ("small", NoFit.RESOURCES, "Insufficient cpu (needs 32 cpu, 2 free)"),
        ("full", Skip.MAX_SIZE, "0 of 0"),
    ]


def test_all_that_stands_against_a_pod_is_told() -> None:
    world = LoopWorld(a_spec("small", cpu="2"))
    picky = msgspec.structs.replace(
        a_pod("picky", cpu="32", selector={"disk": "ssd"}, unschedulable=True), created=NOW - 60
    )
    world.submit(picky)
    (reason,) = by_name(world.run())["picky"].reasons
    assert reason.reason == NoFit.NODE_AFFINITY
    assert "Insufficient cpu" in reason.detail


def test_pods_of_a_class_share_their_reasons() -> None:
    world = LoopWorld(a_spec("small", cpu="2"))
    world.submit(*replicas(waiting("huge", cpu="32"), 3))
    first, *others = pod_statuses(world.run())
    assert len(others) == 2
    assert all(other.reasons is first.reasons for other in others)


def test_without_groups_nothing_fits() -> None:
    world = LoopWorld()
    world.submit(waiting("web"))
    pod = by_name(world.run())["web"]
    assert (pod.verdict, pod.reasons) == (PodVerdict.NO_GROUP_FITS, ())


@pytest.mark.parametrize(
    ("config", "pod", "verdict"),
    [
        pytest.param(Config(), waiting("p", cpu="500m"), Waiting.FITS, id="fits an existing node"),
        pytest.param(Config(), waiting("p", unschedulable=False), Waiting.NOT_JUDGED, id="not seen by the scheduler"),
        pytest.param(
            Config(pods=Pods(new_pod_scale_up_delay_s=900)), waiting("p"), Waiting.TOO_YOUNG, id="younger than allowed"
        ),
        pytest.param(Config(), waiting("p", created=NOW - 1), ScaleUpResult.IN_COOLDOWN, id="all pods are new"),
        pytest.param(
            Config(limits=ResourceLimits(max_nodes_total=1)),
            waiting("p"),
            ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL,
            id="the cluster is full",
        ),
    ],
)
def test_pods_that_are_left_alone(config: Config, pod: Pod, verdict: str) -> None:
    world = LoopWorld(a_spec("web"), config=config, nodes=[(a_node("n1", cpu="1"), "web")])
    world.submit(pod)
    found = by_name(world.run())["p"]
    assert found.verdict == verdict
    assert found.detail.endswith(".")
    assert (found.planned_group, found.reasons) == (None, ())


def test_a_failed_increase_is_told_to_those_that_no_other_group_helps() -> None:
    world = LoopWorld(a_spec("a", cpu="4"), a_spec("b", cpu="8"), a_spec("c", cpu="16"))
    for group in ("b", "c"):
        world.static.fail_next(group, OutOfCapacity(f"no such machines as {group}"))
    world.submit(waiting("s", cpu="3500m"), waiting("m", cpu="7500m"), waiting("l", cpu="15500m"))
    pods = by_name(world.run())
    assert (pods["s"].verdict, pods["s"].planned_group) == (PodVerdict.HELPED, "a")
    assert (pods["m"].verdict, pods["m"].detail) == (ScaleUpResult.ERROR, "no such machines as b")
    assert (pods["l"].verdict, pods["l"].detail) == (ScaleUpResult.ERROR, "no such machines as c")


def test_a_failed_increase_is_told_to_those_it_was_for_and_to_those_behind_it() -> None:
    old = Config(rules=msgspec.structs.replace(Rules(), next_group_after_failed_increase=False))
    world = LoopWorld(a_spec("a", cpu="4"), a_spec("b", cpu="8"), a_spec("c", cpu="16"), config=old)
    world.static.fail_next("b", OutOfCapacity("no such machines"))
    world.submit(waiting("s", cpu="3500m"), waiting("m", cpu="7500m"), waiting("l", cpu="15500m"))
    pods = by_name(world.run())
    assert (pods["s"].verdict, pods["s"].planned_group) == (PodVerdict.HELPED, "a")
    assert (pods["m"].verdict, pods["m"].detail) == (ScaleUpResult.ERROR, "no such machines")
    assert (pods["l"].verdict, pods["l"].planned_group) == (ScaleUpResult.NOT_TRIED, None)


def test_pods_for_which_another_group_would_do_wait_for_the_next_pass() -> None:
    world = LoopWorld(
        a_spec("a"), a_spec("b", cpu="8"), config=Config(scale_up=ScaleUp(groups_per_pass=GroupsPerPass.ONE))
    )
    world.submit(waiting("small", cpu="3500m"), waiting("large", cpu="7500m"))
    assert by_name(world.run())["large"].verdict == PodVerdict.NEXT_PASS


@pytest.mark.parametrize("per_pass", GroupsPerPass)
def test_pods_beyond_the_nodes_that_are_allowed_are_told_of_the_limit(per_pass: GroupsPerPass) -> None:
    config = Config(limits=ResourceLimits(max_nodes_total=2), scale_up=ScaleUp(groups_per_pass=per_pass))
    world = LoopWorld(a_spec("a"), config=config)
    world.submit(*replicas(waiting("web"), 3))
    verdicts = [pod.verdict for pod in pod_statuses(world.run())]
    assert verdicts == [PodVerdict.HELPED, PodVerdict.HELPED, ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL]


def test_pods_beyond_a_group_that_is_full_by_now_are_told_so() -> None:
    world = LoopWorld(a_spec("a", max_size=2))
    world.submit(*replicas(waiting("web"), 3))
    *_, left = pod_statuses(world.run())
    assert left.verdict == PodVerdict.NO_GROUP_FITS
    assert [(reason.group, reason.reason) for reason in left.reasons] == [("a", Skip.MAX_SIZE)]


def test_nothing_is_told_of_pods_when_the_pass_ends_early() -> None:
    world = LoopWorld(a_spec("web", target=3), nodes=[(a_node("n1", cpu="1"), "web")])
    world.run()
    world.static.fail_next("web", ProviderError("not now"), Call.DECREASE_TARGET)
    world.submit(waiting("web"))
    pod = by_name(world.run(after_s=901))["web"]
    assert (pod.verdict, pod.detail) == (ScaleUpResult.NOT_TRIED, "target size of web cannot be lowered")
