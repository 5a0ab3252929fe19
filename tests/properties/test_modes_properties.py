"""One pure pass serves every mode: live, dry run, plan and the replay of a recording decide the same."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from autoscaler.loop.ended_pass import EndedPass
from autoscaler.recording.pass_file import decision, record
from autoscaler.scenario.codec import decode
from autoscaler.scenario.recorded_values import RecordingEncoder
from autoscaler.simulator.play import play, play_and_look
from autoscaler.snapshot.groups import Groups
from tests.properties.random_scenarios import random_scenario, shuffled
from tests.seeds import seeds

SEEDS = (*range(200), 301, 349, 402, 447, 508, 518, 522, 596, 660, 747, 803, 838)
"""They take every branch of the code that the first thousand take."""
BATCH = 53


def passes(content: bytes | dict[str, Any], **options: str) -> list[EndedPass]:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    seen: list[EndedPass] = []
    answer = play_and_look(decode(body, "state.json", options), lambda run, p: seen.append(p))
    assert len(answer.runs) == len(seen)
    return seen


def comparable(p: EndedPass, live: EndedPass) -> dict[str, Any]:
    """Return the plan of a pass as far as it does not go by what became of it.

    What the cloud refuses it refuses in a live pass alone, and nodes that were bought count when others are removed.
    """
    report, encoder = p.report, RecordingEncoder(Groups())
    planned = {"pods": report.pods, "scale_up": report.scale_up.plan, "scale_down": report.scale_down}
    plan: dict[str, Any] = encoder.encode(planned)
    acted = live.report.increases or live.report.repairs.corrections or live.report.repairs.failed_removed
    if any(increase.error is not None for increase in live.report.increases):
        return {"pods": plan["pods"]}
    return {name: plan[name] for name in ("pods", "scale_up")} if acted else plan


def answered(content: dict[str, Any]) -> bytes:
    """Return what `plan -o json` prints, but for the timings."""
    answer = play(decode(json.dumps(content).encode(), "state.json"))
    return msgspec.json.encode([replace(run, timings={}) for run in answer.runs])


@pytest.mark.parametrize("batch", range(0, len(SEEDS), BATCH))
def test_live_dry_run_and_replay_plan_the_same(batch: int) -> None:
    grew = shrank = 0
    for seed in SEEDS[batch : batch + BATCH]:
        content = random_scenario(seed)
        config = decode(json.dumps(content).encode(), "state.json").config
        live = passes(content)
        dry = passes(content, **{"dry-run": "true"})
        assert comparable(dry[0], live[0]) == comparable(live[0], live[0]), seed
        for p in live:
            body = record(p, config, "recording")
            assert body is not None
            (again,) = passes(body)
            assert decision(again) == decision(p), seed
            grew += bool(p.report.increases)
            shrank += bool(p.report.scale_down.deletions.empty or p.report.scale_down.deletions.drained)
    assert grew > 5
    assert shrank > 2


@pytest.mark.parametrize("seed", seeds(40))
def test_the_order_of_keys_and_another_run_change_no_byte(seed: int) -> None:
    content = random_scenario(seed)
    assert answered(content) == answered(content) == answered(shuffled(content, seed))


def test_a_dry_run_writes_nothing() -> None:
    for seed in range(60):
        content = json.dumps(random_scenario(seed)).encode()
        answer = play(decode(content, "state.json", {"dry-run": "true"}))
        for run in answer.runs:
            assert not run.scale_ups, seed
            assert not run.target_decreases, seed
            assert not run.cloud_deletes, seed
