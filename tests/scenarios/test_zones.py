"""Groups whose nodes come in several zones: what is bought for pods that mind the zone, in virtual time."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from autoscaler.cli.main import main
from autoscaler.objects.node import ZONES
from autoscaler.simulator.world import World
from tests.builders import over
from tests.worlds import a_cloud, a_deployment, a_group, a_world, running, targets

ZONE = ZONES[0]
DUMP = Path(__file__).parent / "arm_in_three_zones.json"


def zones_of(world: World) -> Mapping[str, int]:
    """Count the nodes of each zone."""
    return Counter(node["metadata"]["labels"][ZONE] for node in world.storage.list("nodes"))


def messages(world: World, reason: str) -> list[str]:
    return [event["message"] for event in world.storage.list("events") if event["reason"] == reason]


def test_pods_spread_over_zones_get_nodes_in_all_of_them() -> None:
    spread = [over(ZONE, labels={"app": "app"})]
    group = a_group(zones=("a", "b", "c"))
    world = a_world(a_cloud(group), a_deployment(replicas=6, cpu="3", topologySpreadConstraints=spread))
    world.run_for(600)
    assert running(world, "app") == 6
    assert zones_of(world) == {"a": 2, "b": 2, "c": 2}
    assert targets(world) == {"web": 6}


def test_each_pod_gets_the_node_that_comes_in_its_zone() -> None:
    pods = [a_deployment(f"in-{zone}", cpu="3", nodeSelector={ZONE: zone}) for zone in "cab"]
    world = a_world(a_cloud(a_group(zones=("a", "b", "c"))), *pods)
    world.run_for(600)
    assert [running(world, f"in-{zone}") for zone in "abc"] == [1, 1, 1]
    assert targets(world) == {"web": 3}


def test_nothing_is_bought_in_a_zone_that_does_not_help() -> None:
    world = a_world(a_cloud(a_group(zones=("a", "b"))), a_deployment("in-b", cpu="3", nodeSelector={ZONE: "b"}))
    world.run_for(600)
    assert targets(world) == {"web": 0}
    assert any("1 new node(s) come in another zone first" in text for text in messages(world, "NotTriggerScaleUp"))


def test_a_pod_gets_its_zone_once_the_balance_comes_to_it() -> None:
    world = a_world(
        a_cloud(a_group(zones=("a", "b"))),
        a_deployment("in-b", cpu="3", nodeSelector={ZONE: "b"}),
        a_deployment("anywhere", cpu="3"),
    )
    world.run_for(600)
    assert (running(world, "in-b"), running(world, "anywhere")) == (1, 1)
    assert targets(world) == {"web": 2}


def test_zones_are_seen_on_nodes_where_no_cloud_tells_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--objects", str(DUMP), "-o", "json"]) == 0
    plan: Any = json.decode(capsys.readouterr().out)
    (run,) = plan["runs"]
    assert (run["podsTriggeredScaleUp"], run["scaleUps"]) == (["web/zb-arm-0"], [{"group": "arm", "increase": 1}])


def test_the_answer_says_which_zone_is_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--objects", str(DUMP), "--explain", "pod/web/za-arm-0", "-o", "json"]) == 0
    (found,) = json.decode(capsys.readouterr().out)["explained"]
    (reason,) = found["groups"][0]["rejections"]
    assert reason["reason"] == "ZoneComesLater"
    assert reason["detail"] == (
        "the next node comes in eu-west-1b (2 in eu-west-1a, 1 in eu-west-1b, 1 in eu-west-1c); "
        "one in eu-west-1a is possible, after 2 more"
    )
    advice = [alternative["text"] for alternative in found["alternatives"] if alternative["code"] == "ZoneComesLater"]
    assert any("one group per zone in place of arm" in text for text in advice)


def test_as_1_31_a_group_has_the_zone_of_its_example(capsys: pytest.CaptureFixture[str]) -> None:
    explained = ["plan", "--objects", str(DUMP), "--explain", "pod/web/zb-arm-0", "--compatibility=1.31", "-o", "json"]
    assert main(explained) == 0
    (found,) = json.decode(capsys.readouterr().out)["explained"]
    assert [rejection["reason"] for rejection in found["groups"][0]["rejections"]] == ["NodeAffinity"]
