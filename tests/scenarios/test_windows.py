"""Capacity that windows ask for is there when they begin: learned from boots, in virtual time."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.cli.main import main
from autoscaler.config.load import from_documents
from autoscaler.eta.lead_time import Lead
from autoscaler.objects.meta import unix_seconds
from autoscaler.reasons import LeadBasis
from autoscaler.simulator.world import World
from cloudprovider.interface import NodeTemplate
from cloudprovider.static.spec import BootDelay, CloudSpec, GroupSpec

SIX = unix_seconds("2026-11-20T06:00:00Z")
EIGHT = unix_seconds("2026-11-20T08:00:00Z")
REQUESTS = {"resources": {"requests": {"cpu": "2"}}}
POOL = {
    "name": "ci",
    "namespace": "default",
    "resources": {"cpu": "2"},
    "policies": [{"name": "base"}, {"name": "morning", "periods": ["* 8-9 * * *"], "idleCount": 4}],
}
TARGET = {
    "name": "ci",
    "podTemplate": {"spec": {"containers": [{"name": "c", **REQUESTS}]}},
    "scheduledOverrides": [
        {"startTime": "2026-11-20T08:00:00Z", "endTime": "2026-11-20T10:00:00Z", "minReplicas": 4},
    ],
}

Make = Callable[..., World]


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a maker of worlds at 06:00 whose nodes have room for one pod each and take 100 to 200 seconds."""
    made: list[World] = []

    def build(section: dict[str, Any], **options: Any) -> World:
        config = from_documents(
            {"cloud-provider": "static", "scale-down-unneeded-time": "2m", **options}, {"f": yaml.safe_dump(section)}
        )
        capacity = {"cpu": "2", "memory": "8Gi", "pods": "110"}
        group = GroupSpec(
            id="web",
            min_size=0,
            max_size=20,
            template=NodeTemplate(capacity=capacity, allocatable=capacity),
            boot=BootDelay(100, 200),
        )
        made.append(World(config, CloudSpec(groups=[group], seed=3), wall=SIX, seed=3))
        return made[-1]

    yield build
    for world in made:
        world.close()


def until(world: World, wall: float) -> None:
    world.run_for(wall - world.clock.now().wall)


def learn(world: World, boots: int = 8) -> None:
    """Let so many nodes come, and go again."""
    labels = {"app": "work"}
    spec = {
        "replicas": boots,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i", **REQUESTS}]}},
    }
    metadata = {"name": "work", "namespace": "default"}
    world.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    world.run_for(600)
    world.scale("work", 0)
    world.run_for(1800)
    assert ready_nodes(world) == 0


def ready_nodes(world: World) -> int:
    conditions = [node["status"]["conditions"] for node in world.storage.list("nodes")]
    return sum(any(one["type"] == "Ready" and one["status"] == "True" for one in condition) for condition in conditions)


def pause_pods(world: World, phase: str | None = None) -> int:
    pods = [pod for pod in world.storage.list("pods") if pod["metadata"]["name"].startswith("headroom-")]
    return sum(phase in (None, pod["status"].get("phase")) for pod in pods)


def lead_of(world: World, key: str) -> Lead:
    assert world.replica is not None
    return world.replica.companion_set.lead_times()[key]


def headroom(**fields: Any) -> dict[str, Any]:
    return {"headroom": {"pools": [{**POOL, **fields}]}}


def reservations(**fields: Any) -> dict[str, Any]:
    return {"reservations": {"targets": [{**TARGET, **fields}]}}


def test_pause_pods_of_a_window_run_when_it_begins_and_are_asked_for_no_sooner_than_needed(make: Make) -> None:
    world = make(headroom())
    learn(world)
    lead = lead_of(world, "headroom/ci")
    assert (lead.basis, lead.group, lead.samples) == (LeadBasis.LEARNED, "web", 8)
    assert 200 < lead.seconds < 700
    until(world, EIGHT - lead.seconds - 1)
    assert pause_pods(world) == 0
    until(world, EIGHT)
    assert pause_pods(world, "Running") == 4
    assert sum(lead.terms.values()) == pytest.approx(lead.seconds, abs=1.0)


def test_room_for_a_floor_is_ready_when_its_override_begins(make: Make) -> None:
    world = make(reservations())
    learn(world)
    lead = lead_of(world, "reservations/ci")
    assert {"bind", "start"}.isdisjoint(lead.terms)
    until(world, EIGHT - lead.seconds - 1)
    assert ready_nodes(world) == len(world.cloud.machines()) == 0
    until(world, EIGHT)
    assert ready_nodes(world) == 4


@pytest.mark.parametrize("section", [headroom(), reservations()], ids=["headroom", "reservations"])
@pytest.mark.parametrize(
    "nothing", [{}, {"pod-start-estimates": "false"}], ids=["nothing learned", "nothing estimated"]
)
def test_without_boots_to_go_by_nothing_is_asked_for_early(
    make: Make, section: dict[str, Any], nothing: dict[str, Any]
) -> None:
    world = make(section, **nothing)
    until(world, EIGHT - 1)
    assert (pause_pods(world), len(world.cloud.machines())) == (0, 0)
    (lead,) = world.replica.companion_set.lead_times().values()  # type: ignore[union-attr]
    assert (lead.seconds, lead.basis) == (0, LeadBasis.NOTHING_LEARNED)
    until(world, EIGHT + 300)
    assert ready_nodes(world) == 4


@pytest.mark.parametrize("make_section", [headroom, reservations])
def test_a_lead_time_that_is_set_counts_instead(make: Make, make_section: Callable[..., dict[str, Any]]) -> None:
    world = make(make_section(leadTime="0s"))
    learn(world)
    until(world, EIGHT - 1)
    assert len(world.cloud.machines()) == 0
    world = make(make_section(leadTime="30m"))
    until(world, EIGHT - 1801)
    assert len(world.cloud.machines()) == 0
    until(world, EIGHT - 1200)
    assert ready_nodes(world) == 4


def test_what_was_learned_survives_a_restart_where_boot_times_are_kept(make: Make) -> None:
    kept, lost = make(headroom(), **{"persist-boot-times": "true"}), make(headroom())
    for world in (kept, lost):
        learn(world)
        world.restart(5.0)
        world.run_for(180)
    assert lead_of(kept, "headroom/ci").samples == 8
    assert lead_of(lost, "headroom/ci").basis is LeadBasis.NOTHING_LEARNED
    for world in (kept, lost):
        until(world, EIGHT)
    assert (pause_pods(kept, "Running"), pause_pods(lost, "Running")) == (4, 0)


def test_a_leader_that_dies_between_asking_and_the_window_loses_nothing(make: Make) -> None:
    world = make(headroom(), **{"persist-boot-times": "true"})
    learn(world)
    until(world, EIGHT - lead_of(world, "headroom/ci").seconds + 60)
    assert pause_pods(world) == 4
    world.lose_leadership(30.0)
    until(world, EIGHT)
    assert pause_pods(world, "Running") == 4
    until(world, EIGHT + 60)
    assert len(world.cloud.machines()) == 4


def test_the_lead_time_is_published(make: Make) -> None:
    world = make({**headroom(), **reservations()})
    world.metrics.start()
    learn(world)
    lines = world.metrics.scrape().decode().splitlines()
    for key, series in (
        ("headroom/ci", 'headroom_lead_seconds{pool="ci"}'),
        ("reservations/ci", 'reservations_lead_seconds{target="ci"}'),
    ):
        assert f"cluster_autoscaler_{series} {lead_of(world, key).seconds:.1f}" in lines


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_scenario_of_the_documentation_holds(seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = "docs/scenarios/windows.yaml"
    assert main(["simulate", path, "--seed", seed, "-o", "json"]) == 0
    windows = json.loads(capsys.readouterr().out)["summary"]["windows"]
    assert (windows["began"], windows["asked"], windows["readyAtStart"], windows["whileLearning"]) == (2, 32, 32, 0)


def test_windows_that_are_not_served_early_are_found_not_to_be_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("docs/scenarios/windows.yaml").read_text(encoding="utf-8")
    late = tmp_path / "late.yaml"
    late.write_text(text.replace("      - name: ci\n", "      - name: ci\n        leadTime: 0s\n"), encoding="utf-8")
    assert main(["simulate", str(late), "-o", "json"]) == 1
    windows = json.loads(capsys.readouterr().out)["summary"]["windows"]
    assert (windows["asked"], windows["readyAtStart"], windows["share"]) == (32, 12, 0.375)
