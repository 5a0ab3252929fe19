"""A plan of the same input is the same to the byte: on any machine, however busy, and whatever chance has a part in."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoscaler.config.load import from_options
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.ports import Stopwatch
from autoscaler.recording.pass_file import decision, record
from autoscaler.sandbox.capacity_objects import put_objects
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play, play_and_look
from autoscaler.stopwatch import stopped
from cloudprovider.interface import OutOfCapacity
from tests import builders, manifests, worlds
from tests.properties.random_scenarios import random_scenario
from tests.unit.capacity import a_request, a_template
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

Json = dict[str, Any]


def idle_nodes() -> Json:
    nodes = [f"n{number}" for number in range(30)]
    return {
        "options": {"expander": "least-waste"},
        "nodeGroups": [manifests.a_group("web", maxSize=50, targetSize=30)],
        "nodes": [manifests.a_node(name) for name in nodes],
        "nodeToGroup": dict.fromkeys(nodes, "web"),
        "pods": [manifests.a_pod(f"web-{name}", nodeName=name) for name in nodes],
        "replicaSets": [{"metadata": {"name": "web"}, "spec": {"replicas": len(nodes)}}],
    }


def equal_groups(**options: str) -> Json:
    return {
        "options": options,
        "nodeGroups": [manifests.a_group(f"g{number:02}", maxSize=50) for number in range(40)],
        "pods": [manifests.a_pod("web-0")],
        "runs": 3,
    }


def answered(content: Json) -> bytes:
    """Return what `plan -o json` prints, but for the timings."""
    body = json.dumps({"now": "2026-01-05T12:00:00Z", **content}).encode()
    answer = play(decode(body, "state.json"))
    return msgspec.json.encode([msgspec.structs.replace(run, timings={}) for run in answer.runs])


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine an hour passes between any two looks at any clock."""
    hours = itertools.count(1_700_000_000, 3600)
    for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        monkeypatch.setattr(time, clock, lambda: float(next(hours)))


def test_a_slow_machine_finds_as_many_unneeded_nodes(request: pytest.FixtureRequest) -> None:
    before = answered(idle_nodes())
    assert len(json.loads(before)[0]["unneededNodes"]) > 10
    request.getfixturevalue("slow_machine")
    assert answered(idle_nodes()) == before


@pytest.mark.parametrize("options", [{"expander": "random"}, {"expander": "most-pods", "tie-break": "random"}])
def test_a_random_choice_comes_out_the_same_twice(options: dict[str, str]) -> None:
    assert answered(equal_groups(**options)) == answered(equal_groups(**options))


def test_another_seed_is_other_luck() -> None:
    chosen = {answered(equal_groups(expander="random", **{"expander-seed": f"{seed}"})) for seed in range(5)}
    assert len(chosen) > 1


def test_another_process_plans_the_same(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    answers = set()
    for seed in range(3):
        file.write_text(json.dumps(random_scenario(seed)))
        for hashes in ("1", "2"):
            command = [sys.executable, "-m", "autoscaler", "plan", "--scenario", f"{file}", "-o", "json"]
            done = subprocess.run(
                command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": hashes}
            )
            runs = json.loads(done.stdout)["runs"]
            answers.add(json.dumps([{**run, "timings": {}} for run in runs]))
    assert len(answers) == 3


def bought_at_random(seed: int) -> list[str]:
    groups = [worlds.a_group(f"g{number}") for number in range(9)]
    with worlds.a_world(
        worlds.a_cloud(*groups), worlds.a_deployment(replicas=3), seed=seed, expander="random"
    ) as world:
        world.run_for(300)
        return [call.group for call in world.calls]


def test_a_simulated_autoscaler_has_the_luck_of_its_seed() -> None:
    assert bought_at_random(1) == bought_at_random(1)
    assert len({tuple(bought_at_random(seed)) for seed in range(4)}) > 1


class Tiring:
    """The stopwatch of a machine on which all goes well until it has been looked at so often."""

    def __init__(self, looks: int) -> None:
        self._looks = looks

    def __call__(self) -> float:
        self._looks -= 1
        return 0.0 if self._looks >= 0 else 1e6


def with_idle_nodes(limits: Stopwatch) -> LoopWorld:
    nodes = [(builders.a_node(f"n{number}", created=NOW - 9000), "web") for number in range(6)]
    world = LoopWorld(a_spec(target=6), nodes=nodes, limits=limits)
    world.submit(*(builders.a_pod(f"web-{number}", cpu="100m", node=f"n{number}") for number in range(6)))
    return world


def with_failing_groups(limits: Stopwatch) -> LoopWorld:
    world = LoopWorld(*(a_spec(f"g{number}") for number in range(5)), limits=limits)
    for number in range(5):
        world.static.fail_next(f"g{number}", OutOfCapacity("none left"))
    world.submit(waiting("web"))
    return world


def with_requests(limits: Stopwatch) -> LoopWorld:
    nodes = [(builders.a_node(f"n{number}", created=NOW - 9000), "web") for number in range(5)]
    config = from_options({"enable-provisioning-requests": True, "check-capacity-batch-processing": True})
    world = LoopWorld(a_spec(target=5), config=config, nodes=nodes, limits=limits)
    put_objects(world.writes, a_template(), *(a_request(f"job-{number}", 1, created=NOW - 60) for number in range(5)))
    return world


def replayed(body: bytes) -> EndedPass:
    seen: list[EndedPass] = []
    play_and_look(decode(body, "recording.json"), lambda run, p: seen.append(p))
    return seen[0]


@pytest.mark.parametrize("make", [with_idle_nodes, with_failing_groups, with_requests])
def test_a_pass_that_ran_out_of_time_is_replayed_to_the_same_end(
    make: Callable[[Stopwatch], LoopWorld], request: pytest.FixtureRequest
) -> None:
    live: list[tuple[bytes, bytes]] = []
    for looks in range(1, 9):
        world = make(Tiring(looks))
        p = world.autoscaler.examine(world.clock.now())
        assert p.config is not None
        body = record(p, p.config, "recording")
        assert body is not None
        live.append((body, decision(p)))
    assert len({decided for _, decided in live}) >= 4, "it makes a difference when time runs out"
    request.getfixturevalue("slow_machine")
    for body, decided in live:
        assert decision(replayed(body)) == decided


def test_time_that_does_not_run_out_is_not_recorded() -> None:
    world = with_idle_nodes(stopped)
    p = world.autoscaler.examine(world.clock.now())
    assert p.config is not None
    body = record(p, p.config, "recording")
    assert body is not None
    assert "timeOver" not in {answer["asked"] for answer in json.loads(body)["memory"]["answers"]}
