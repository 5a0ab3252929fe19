"""Whole passes with pods and nodes that are not to be disrupted."""

import msgspec
import pytest

from autoscaler.config.scaledown import Drain
from autoscaler.config.tree import Config
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import Namespace
from autoscaler.reasons import BlockingReason, UnremovableReason
from tests.builders import a_node
from tests.unit.loop.loop_world import NOW, a_spec
from tests.unit.loop.replacing_world import DAY_S, ReplacingWorld, old_node, on, options

KEY = "karpenter.sh/do-not-disrupt"


def protected(value: str, *, node: str = "used", cpu: str = "1") -> Pod:
    """Return a pod that starts now."""
    return msgspec.structs.replace(on(node, cpu=cpu, annotations={KEY: value}), started=NOW)


def standing(value: str, config: Config) -> ReplacingWorld:
    nodes = [(a_node(name), "web") for name in ("used", "full")]
    return ReplacingWorld(a_spec("web"), config=config, nodes=nodes, pods=[protected(value), on("full", "big")])


def test_a_node_stays_for_as_long_as_its_pod_says() -> None:
    world = standing("10m", options(unneeded_s=0.0))
    world.live(540)
    kept = world.reports[-1].scale_down.unremovable["used"]
    assert (kept.pod, kept.pod_reason) == ("default/app", BlockingReason.DO_NOT_DISRUPT)
    world.live(600)
    assert world.nodes == {"full"}


def limited(limit_s: float) -> Config:
    drain = Drain(do_not_disrupt_limit_s=limit_s, skip_nodes_with_custom_controller_pods=False)
    return msgspec.structs.replace(options(unneeded_s=0.0), drain=drain)


def test_the_operators_limit_lets_the_pod_go_and_an_event_says_so() -> None:
    world = standing("true", limited(600.0))
    world.live(540)
    assert "used" in world.nodes
    world.live(600)
    assert "used" not in world.nodes
    (told,) = (event for event in world.events if event.reason == "DoNotDisruptLimitReached")
    assert (told.about.kind, told.about.name) == ("Pod", "app")
    assert told.message == (
        f"the pod is moved: annotated {KEY}: true, and --do-not-disrupt-limit=10m from its start is over"
    )


@pytest.mark.parametrize("by_node", [True, False], ids=["the node", "a pod of it"])
def test_neither_an_old_node_nor_a_dear_one_is_replaced(by_node: bool) -> None:
    node = old_node(annotations={KEY: "true"} if by_node else {})
    pods = [on("old") if by_node else protected("true", node="old", cpu="3")]
    for about in ({"max_node_age_s": 7 * DAY_S}, {"consolidation": True}):
        groups = (a_spec("web", boot_s=60, price=1.0), a_spec("cheap", boot_s=60, price=0.1))
        world = ReplacingWorld(*groups, config=options(**about), nodes=[(node, "web")], pods=pods)
        world.live(900)
        assert (world.nodes, world.calls) == ({"old"}, [])


def test_a_node_with_the_annotation_stays_although_it_is_empty() -> None:
    nodes = [(a_node("n", annotations={KEY: "true"}), "web")]
    world = ReplacingWorld(a_spec("web"), config=options(unneeded_s=0.0), nodes=nodes)
    world.live(300)
    assert world.nodes == {"n"}
    assert world.reports[-1].scale_down.unremovable["n"].reason is UnremovableReason.DO_NOT_DISRUPT


def test_a_namespace_protects_its_pods() -> None:
    nodes = [(a_node(name), "web") for name in ("used", "full")]
    pods = [on("used", cpu="1"), on("full", "big")]
    world = ReplacingWorld(a_spec("web"), config=options(unneeded_s=0.0), nodes=nodes, pods=pods)
    namespace = Namespace(metadata=ObjectMeta(name="default", annotations={KEY: "true"}))
    world.related = msgspec.structs.replace(world.related, namespaces={"default": namespace})
    world.live(300)
    assert world.nodes == {"used", "full"}
