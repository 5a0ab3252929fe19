"""Groups whose nodes are not what their template promises: what is bought for pods that will never fit is bounded.

Hours of virtual time with real removals: nodes come, help nobody, are found unneeded and go; what the cloud promises
is as wrong as before.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from autoscaler.config.rules import Rules
from autoscaler.config.tree import Config
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.metrics.pass_metrics import PassMetrics
from autoscaler.observe.status import ProcessStatus, PublishedStatus
from autoscaler.observe.summary import summarise
from autoscaler.reasons import Lack, ScaleUpResult
from autoscaler.scaleup.templates import TemplateSource
from cloudprovider.static.spec import GPU_LABEL, GroupSpec
from tests.builders import a_node, a_pod
from tests.unit.loop.loop_world import NOW, LoopWorld, MakeNode, a_spec

BOOT_S = 30.0
HOUR_S = 3600.0
NVIDIA = "nvidia.com/gpu"
TAINT = "team=blue:NoSchedule"
BEFORE = PublishedStatus(process=ProcessStatus(identity="a", version="1", started_at=0))
UNCORRECTED = Config(rules=replace(Rules(), nodes_correct_templates=False))


@contextmanager
def living(
    group: GroupSpec,
    make_node: MakeNode,
    config: Config = Config(),  # noqa: B008
    nodes: Sequence[tuple[Node, str]] = (),
) -> Iterator[LoopWorld]:
    world = LoopWorld(group, config=config, nodes=nodes, make_node=make_node)
    with world.executor:
        yield world


def source(world: LoopWorld) -> TemplateSource:
    return world.remembered.templates.entries["web"].source


def shortfalls(world: LoopWorld) -> list[list[tuple[Lack, str]]]:
    """What was learnt, in order."""
    learnt = [shortfall for report in world.reports for shortfall in report.shortfalls]
    return [[(lack.kind, lack.name) for lack in shortfall.lacking] for shortfall in learnt]


def smaller(name: str, now: float) -> Node:
    """The kubelet keeps half a core back."""
    return a_node(name, cpu="3500m", created=now, since=now)


def plain(name: str, now: float) -> Node:
    return a_node(name, created=now, since=now)


def tainted(name: str, now: float) -> Node:
    return a_node(name, taints=[TAINT], created=now, since=now)


def without_driver(name: str, now: float) -> Node:
    return a_node(name, labels={GPU_LABEL: "t4"}, created=now, since=now)


def a_big_pod(cpu: str = "3800m", *, gpus: str | None = None, selector: dict[str, str] | None = None) -> Pod:
    requests = {} if gpus is None else {NVIDIA: gpus}
    return a_pod("web", cpu=cpu, requests=requests, selector=selector, created=NOW - 600, unschedulable=True)


@pytest.mark.parametrize(
    ("group", "making", "pod", "learnt", "most"),
    [
        pytest.param(a_spec(boot_s=BOOT_S), smaller, a_big_pod(), (Lack.RESOURCE, "cpu"), 1, id="less CPU"),
        pytest.param(
            a_spec(boot_s=BOOT_S, labels={"disk": "fast"}),
            plain,
            a_big_pod(selector={"disk": "fast"}),
            (Lack.LABEL, "disk"),
            4,
            id="no label",
        ),
        pytest.param(a_spec(boot_s=BOOT_S), tainted, a_big_pod(), (Lack.TAINT, TAINT), 4, id="a taint"),
        pytest.param(
            a_spec(boot_s=BOOT_S, labels={GPU_LABEL: "t4"}, extra={NVIDIA: "1"}),
            without_driver,
            a_big_pod(gpus="1"),
            (Lack.RESOURCE, NVIDIA),
            1,
            id="no device",
        ),
    ],
)
def test_a_promise_that_nodes_do_not_keep_is_believed_for_a_minute_or_so(
    group: GroupSpec, making: MakeNode, pod: Pod, learnt: tuple[Lack, str], most: int
) -> None:
    with living(group, making) as world:
        world.submit(pod)
        world.live(3 * HOUR_S)
        assert 1 <= world.bought() <= most
        assert world.cluster.nodes == {}, "nodes that help nobody go"
        assert world.static.group("web").target_size() == 0
        assert source(world) is TemplateSource.CACHE, "what they told stays"
        assert shortfalls(world) == [[learnt]]
        (said,) = world.messages("NodesShortOfTemplate")
        assert said.startswith("Nodes of group web offer less than its template says (seen on web-")
        assert learnt[1] in said
        assert world.reports[-1].scale_up.result is ScaleUpResult.NO_OPTIONS


def old_and_large() -> list[tuple[Node, str]]:
    return [(a_node("old", cpu="8", created=NOW - 9 * HOUR_S, since=NOW - 9 * HOUR_S), "web")]


def filling(node: str) -> Pod:
    return a_pod("filling", node=node, cpu="7", created=NOW - HOUR_S, owner="Job")


class TestGroupThatWasChanged:
    """Old nodes are large, new ones are small, and nobody told the template."""

    def test_newer_nodes_are_believed_and_old_ones_do_not_refute_them(self) -> None:
        with living(a_spec(cpu="8", boot_s=BOOT_S), plain, nodes=old_and_large()) as world:
            world.submit(filling("old"), a_big_pod(cpu="6"))
            world.live(3 * HOUR_S)
            assert world.bought() == 1
            assert list(world.cluster.nodes) == ["old"]
            assert source(world) is TemplateSource.CACHE
            assert shortfalls(world) == [
                [
                    (Lack.RESOURCE, "cpu"),
                ]
            ]

    def test_without_the_rule_they_are_bought_again_and_again(self) -> None:
        with living(a_spec(cpu="8", boot_s=BOOT_S), plain, UNCORRECTED, old_and_large()) as world:
            world.submit(filling("old"), a_big_pod(cpu="6"))
            world.live(3 * HOUR_S)
            assert world.bought() > 5
            assert world.messages("NodesShortOfTemplate") == []


def test_a_shortfall_is_counted_by_what_is_lacking() -> None:
    world = LoopWorld(a_spec(boot_s=0))
    metrics = Metrics()
    pass_metrics = PassMetrics(metrics, Config())
    pass_metrics.start()
    world.submit(a_big_pod())
    world.run()
    for machine in world.static.machines():
        node = smaller(machine.name, world.clock.now().wall)
        world.cluster.put_node(replace(node, provider_id=machine.provider_id))
    report = world.run(after_s=61)
    pass_metrics.pass_ended(report, summarise(report, BEFORE, number=1).groups)
    text = metrics.scrape().decode()
    assert 'cluster_autoscaler_template_shortfalls_total{lack="Resource"} 1.0' in text
    assert 'cluster_autoscaler_template_shortfalls_total{lack="Label"} 0.0' in text
