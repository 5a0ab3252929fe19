"""What a pass does by news that is too old: nothing that cannot be taken back."""

import pytest

from autoscaler.config.scaleup import HealthOptions
from autoscaler.config.tree import Config
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import ScaleDownResult, UnremovableReason
from tests.builders import a_node
from tests.unit.loop.loop_world import LoopWorld, a_spec, waiting

LIMIT_S = Config().kube.max_watch_silence_s
NODES, PODS, BUDGETS = "/api/v1/nodes", "/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets"
UNNEEDED_S = Config().scale_down.scale_down_unneeded_time_s


def with_an_idle_node() -> LoopWorld:
    """Return a cluster whose second node has been unneeded long enough."""
    nodes = [(a_node(name), "web") for name in ("a", "b")]
    world = LoopWorld(a_spec("web", min_size=1, target=2), nodes=nodes)
    world.run()
    return world


@pytest.mark.parametrize("path", [NODES, PODS, BUDGETS])
def test_nothing_is_removed_once_a_kind_is_silent_for_too_long(path: str) -> None:
    world = with_an_idle_node()
    world.silence_s = {path: LIMIT_S + 1, "/other": 3.0}
    report = world.run(after_s=UNNEEDED_S + 1)
    assert (world.calls, report.scale_down.result) == ([], ScaleDownResult.NOT_TRIED)
    assert {name: one.reason for name, one in report.scale_down.unremovable.items()} == {
        "a": UnremovableReason.SILENT,
        "b": UnremovableReason.SILENT,
    }
    assert path in report.scale_down.unremovable["a"].detail
    assert report.silent_s == {path: LIMIT_S + 1}


def test_at_the_limit_removals_go_on() -> None:
    world = with_an_idle_node()
    world.silence_s = {NODES: LIMIT_S, PODS: LIMIT_S}
    assert world.run(after_s=UNNEEDED_S + 1).scale_down.deletions.empty


def test_a_node_has_to_be_unneeded_anew_afterwards() -> None:
    world = with_an_idle_node()
    world.silence_s = {BUDGETS: LIMIT_S + 1}
    world.run(after_s=UNNEEDED_S + 1)
    world.silence_s = {}
    assert not world.run(after_s=15).scale_down.deletions.empty
    assert world.run(after_s=UNNEEDED_S + 1).scale_down.deletions.empty


@pytest.mark.parametrize(
    ("path", "end", "bought"),
    [
        pytest.param(NODES, PassEnd.SILENT, [], id="nodes"),
        pytest.param(PODS, PassEnd.SILENT, [], id="pods"),
        pytest.param(BUDGETS, PassEnd.COMPLETE, [("increase", "web", 1)], id="another kind"),
    ],
)
def test_nodes_are_bought_as_long_as_nodes_and_pods_are_heard_of(
    path: str, end: PassEnd, bought: list[tuple[str, str, int]]
) -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(waiting("web"))
    world.silence_s = {path: LIMIT_S + 1}
    assert (world.run().end, world.calls) == (end, bought)


def test_machines_whose_nodes_cannot_be_seen_are_not_taken_for_lost() -> None:
    world = LoopWorld(a_spec("web", boot_s=0))
    world.submit(waiting("web"))
    world.run()
    world.silence_s = {NODES: LIMIT_S + 1}
    provision_s = HealthOptions().max_node_provision_time_s
    silent = [world.run(after_s=provision_s / 2) for _ in range(5)]
    assert {report.end for report in silent} == {PassEnd.SILENT}
    assert world.calls == [("increase", "web", 1)]
    world.silence_s = {}
    world.boot()
    report = world.run(after_s=15)
    assert (report.end, world.calls) == (PassEnd.COMPLETE, [("increase", "web", 1)])
    assert report.registry is not None
    assert report.registry.groups["web"].backoff is None
