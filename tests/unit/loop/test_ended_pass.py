"""What is left of a pass, by the stage that it reached."""

import pytest

from autoscaler.config.scaleup import HealthOptions, ScaleUp
from autoscaler.config.tree import Config
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.stages import EmptyCluster, Observed, Shrunk, Simulated, Started
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.reasons import ScaleDownResult, ScaleUpResult
from cloudprovider.interface import ProviderError
from cloudprovider.static.spec import Call
from tests.builders import a_node
from tests.unit.loop.loop_world import LoopWorld, a_spec, waiting


def examined(world: LoopWorld) -> EndedPass:
    world.submit(waiting("a"))
    return world.autoscaler.examine(world.clock.now())


def test_a_complete_pass_has_come_to_the_last_stage() -> None:
    ended = examined(LoopWorld(a_spec("web")))
    assert isinstance(ended.stage, Shrunk)
    assert (ended.view, ended.registry) == (ended.report.view, ended.report.registry)
    assert ended.placer is ended.stage.placer
    assert ended.memory_before.registry.scale_ups == {}
    assert set(ended.memory.registry.scale_ups) == {"web"}


def test_a_pass_that_could_not_look_knows_neither_cluster_nor_groups() -> None:
    world = LoopWorld(a_spec("web"))
    world.static.fail_next("web", ProviderError("down"), Call.REFRESH)
    ended = examined(world)
    assert type(ended.stage) is Started
    assert ended.placer is None
    assert ended.memory == ended.memory_before
    with pytest.raises(LookupError, match="never saw the cluster"):
        _ = ended.view
    with pytest.raises(LookupError, match="the state of groups"):
        _ = ended.registry


def test_a_pass_over_an_empty_cluster_knows_the_cluster_alone() -> None:
    ended = examined(LoopWorld(a_spec("web"), config=Config(scale_up=ScaleUp(scale_up_from_zero=False))))
    assert isinstance(ended.stage, EmptyCluster)
    assert [pod.name for pod in ended.view.pending] == ["a"]
    assert ended.report == PassReport(
        now=ended.stage.now, end=PassEnd.EMPTY_CLUSTER, view=ended.view, timings=ended.report.timings
    )


def test_a_pass_that_ends_with_the_repairs_has_tried_nothing_else() -> None:
    nodes = [(a_node(f"n{number}", ready=False), "web") for number in range(4)]
    health = HealthOptions(ok_total_unready_count=0)
    ended = examined(LoopWorld(a_spec("web"), config=Config(health=health), nodes=nodes))
    assert isinstance(ended.stage, Observed)
    assert not isinstance(ended.stage, Simulated)
    assert (ended.report.end, ended.placer) == (PassEnd.UNHEALTHY, None)
    assert (ended.report.scale_up.result, ended.report.scale_down.result) == (ScaleUpResult.NOT_TRIED, None)


def test_a_pass_in_silence_removes_nothing() -> None:
    world = LoopWorld(a_spec("web"))
    world.silence_s = {"/api/v1/pods": 1e6}
    ended = examined(world)
    assert ended.report.end is PassEnd.SILENT
    assert ended.report.scale_down.result is ScaleDownResult.NOT_TRIED
    assert ended.memory.unneeded == ()
