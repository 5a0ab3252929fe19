"""Pods of nodes that are being drained look for room together with pending pods."""

import pytest
from msgspec.structs import replace

from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import Drain, ScaleDown
from autoscaler.config.tree import Config
from autoscaler.objects.node import TO_BE_DELETED
from autoscaler.objects.pod import MIRROR
from autoscaler.reasons import ScaleUpResult, Waiting
from autoscaler.scaledown.displaced_pods import pods_of_removed_nodes
from autoscaler.snapshot.cluster import view_of
from tests.builders import a_node, a_pod
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

CONFIG = Config(
    scale_down=ScaleDown(scale_down_unneeded_time_s=0.0),
    drain=Drain(skip_nodes_with_custom_controller_pods=False),
)


def draining(*, cpu_left: str = "1", owner: str | None = "ReplicaSet", rules: Rules | None = None) -> LoopWorld:
    """Return a world that drains `leaving`: its only pod fits on `staying`, which has so much CPU left."""
    used = str(4 - int(cpu_left))
    nodes = [(a_node(name, cpu="4", created=NOW - 3600), "web") for name in ("leaving", "staying", "full")]
    world = LoopWorld(a_spec(target=3), config=replace(CONFIG, rules=rules or Rules()), nodes=nodes)
    world.submit(a_pod("moves", cpu="1", node="leaving", owner=owner, annotations={SAFE: "true"}))
    world.submit(a_pod("stays", cpu=used, node="staying", annotations={SAFE: "false"}))
    world.submit(a_pod("fills", cpu="4", node="full", annotations={SAFE: "false"}))
    world.run()
    report = world.run(after_s=15)
    assert [one.node.name for one in report.scale_down.deletions.drained] == ["leaving"]
    return world


SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def test_a_pending_pod_does_not_count_on_the_room_that_a_drained_pod_needs() -> None:
    world = draining(cpu_left="1")
    world.submit(waiting("new", "1"))
    report = world.run(after_s=15)
    assert report.scale_up.result is ScaleUpResult.SUCCESSFUL
    assert world.calls == [("increase", "web", 1)]
    assert report.pods.waiting == {"default/new": Waiting.FITS}


def test_nothing_is_bought_where_there_is_room_for_both() -> None:
    world = draining(cpu_left="2")
    world.submit(waiting("new", "1"))
    report = world.run(after_s=15)
    assert (report.scale_up.result, world.calls) == (ScaleUpResult.NOT_NEEDED, [])


@pytest.mark.parametrize(
    ("rules", "result"),
    [
        pytest.param(Rules(), ScaleUpResult.NOT_NEEDED, id="needs no room"),
        pytest.param(Rules(bare_pods_are_expected=True), ScaleUpResult.SUCCESSFUL, id="is expected by CA all the same"),
    ],
)
def test_a_pod_that_nothing_makes_anew(rules: Rules, result: ScaleUpResult) -> None:
    world = draining(cpu_left="1", owner=None, rules=rules)
    world.submit(waiting("new", "1"))
    assert world.run(after_s=15).scale_up.result is result


def test_mirror_and_static_pods_are_never_expected() -> None:
    for annotations in ({MIRROR: "x"}, {"kubernetes.io/config.source": "file"}):
        node = a_node("n", taints=[f"{TO_BE_DELETED}={NOW}"])
        view = view_of([node], [a_pod("p", node="n", owner=None, annotations=annotations)])
        assert pods_of_removed_nodes(view, ["n"], NOW, Rules(bare_pods_are_expected=True)) == ()


@pytest.mark.parametrize(
    ("spare_cpu", "goes"),
    [pytest.param("3", True, id="room for both"), pytest.param("2", False, id="the drained pod has that room")],
)
def test_a_drained_pod_counts_once_for_further_removals(spare_cpu: str, goes: bool) -> None:
    world = draining(cpu_left="1")
    used = str(4 - int(spare_cpu))
    world.submit(a_pod("stays", cpu=used, node="staying", annotations={SAFE: "false"}))
    world.submit(a_pod("fills", cpu="1900m", node="full"))
    report = world.run(after_s=301)
    assert report.scale_up.result is ScaleUpResult.NOT_NEEDED
    assert ("full" in {one.node.name for one in report.scale_down.unneeded}) is goes
