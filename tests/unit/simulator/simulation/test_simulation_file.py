"""Simulation files: their meaning, and the report of their problems."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.errors import ConfigError
from autoscaler.simulator.simulation.file import Simulation, days_in, load
from autoscaler.simulator.simulation.traffic import job_runs_of, objects_of, resizes_of

GROUP = {"id": "web", "minSize": 0, "maxSize": 5, "template": {"capacity": {"cpu": "4", "memory": "16Gi"}}}
MONDAY = "2026-01-05T00:00:00Z"


def a_file(folder: Path, **fields: Any) -> str:
    path = folder / "sim.yaml"
    path.write_text(yaml.safe_dump({"start": MONDAY, "nodeGroups": [GROUP], **fields}))
    return str(path)


def loaded(folder: Path, **fields: Any) -> Simulation:
    return load(a_file(folder, **fields))


def sizes(simulation: Simulation, seed: int = 0) -> list[tuple[float, int]]:
    (workload,) = simulation.file.workloads
    return [(one.at_s / 3600, one.replicas) for one in resizes_of(simulation, workload, seed)]


def test_daily_steps_come_on_their_days_in_the_time_zone_of_the_file(tmp_path: Path) -> None:
    daily = [{"time": "08:00", "replicas": 9, "days": "mon-fri"}, {"time": "18:00", "replicas": 1}]
    workload = {"name": "office", "daily": daily}
    week = loaded(tmp_path, duration="168h", workloads=[workload])
    assert sizes(week)[:3] == [(8, 9), (18, 1), (32, 9)]
    assert [at for at, replicas in sizes(week) if replicas == 9] == [8 + 24 * day for day in range(5)]
    berlin = loaded(tmp_path, workloads=[workload], timeZone="Europe/Berlin")
    assert sizes(berlin) == [(7, 9), (17, 1)]


def test_times_of_the_day_follow_the_change_to_summer_time(tmp_path: Path) -> None:
    workload = {"name": "office", "daily": [{"time": "08:00", "replicas": 9}]}
    simulation = loaded(
        tmp_path, start="2026-03-28T00:00:00Z", duration="48h", timeZone="Europe/Berlin", workloads=[workload]
    )
    assert sizes(simulation) == [(7, 9), (30, 9)]


def test_a_wave_is_lowest_opposite_its_peak_and_its_noise_is_the_seeds(tmp_path: Path) -> None:
    wave = {"low": 2, "high": 10, "peak": "14:00", "every": "1h"}
    calm = dict(sizes(loaded(tmp_path, workloads=[{"name": "web", "wave": wave}])))
    assert (calm[2], calm[14], max(calm.values())) == (2, 10, 10)
    noisy = loaded(tmp_path, workloads=[{"name": "web", "wave": {**wave, "noise": 0.5}}])
    assert sizes(noisy, 1) == sizes(noisy, 1)
    assert sizes(noisy, 1) != sizes(noisy, 2)


def test_a_workload_starts_with_the_size_that_holds_then(tmp_path: Path) -> None:
    workload = {"name": "web", "namespace": "shop", "replicas": 3, "minAvailable": "50%", "requests": {"cpu": "1"}}
    namespace, deployment, budget = objects_of(loaded(tmp_path, workloads=[workload]))
    assert (namespace["kind"], deployment["spec"]["replicas"]) == ("Namespace", 3)
    assert budget["spec"]["minAvailable"] == "50%"
    swinging = {**workload, "wave": {"low": 4, "high": 8, "peak": "12:00"}, "minAvailable": None}
    assert [one["spec"]["replicas"] for one in objects_of(loaded(tmp_path, workloads=[swinging])) if "spec" in one] == [
        4
    ]


def test_jobs_come_within_their_hours_and_go_again(tmp_path: Path) -> None:
    stream = {"name": "report", "every": "1h", "pods": 2, "runsFor": "10m", "between": "09:00-11:30", "days": "mon"}
    simulation = loaded(tmp_path, duration="48h", jobs=[stream])
    runs = list(job_runs_of(simulation, simulation.file.jobs[0], 0))
    assert [run.at_s / 3600 for run in runs] == [9, 10, 11]
    assert all(run.until_s > run.at_s + 600 for run in runs)
    assert runs[0].job["spec"]["completions"] == 2


@pytest.mark.parametrize(
    ("text", "days"), [("mon", {0}), ("mon-fri", {0, 1, 2, 3, 4}), ("sat,sun", {5, 6}), ("sun-tue", {6, 0, 1})]
)
def test_days_are_named_one_by_one_and_by_ranges(text: str, days: set[int]) -> None:
    assert days_in(text) == days


def test_everything_that_is_wrong_is_named_with_its_place(tmp_path: Path) -> None:
    path = a_file(
        tmp_path,
        duration="0s",
        timeZone="Mars",
        nodeGroups=[{"id": "web", "minSize": 0, "maxSize": 5}],
        workloads=[
            {
                "name": "web",
                "replicas": -1,
                "requests": {"cpu": "lots"},
                "daily": [{"time": "25:00", "replicas": 1, "days": "someday"}],
                "wave": {"low": 3, "high": 2, "noise": 2},
            }
        ],
        jobs=[{"name": "j", "every": "soon", "pods": 0}],
        events=[{"at": "1h"}, {"at": "1h", "interruption": {"group": "gone"}}],
        assertions=[{"that": "cost"}],
    )
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert [line.removeprefix(f"{path}: ").partition(": ")[0] for line in caught.value.problems] == [
        "timeZone",
        "duration",
        "nodeGroups[0].template",
        "workloads[0].requests[cpu]",
        "workloads[0].replicas",
        "workloads[0].daily[0].time",
        "workloads[0].daily[0].days",
        "workloads[0].wave.high",
        "workloads[0].wave.noise",
        "jobs[0].every",
        "jobs[0].pods",
        "events[0]",
        "events[1].interruption.group",
        "assertions[0]",
    ]


def test_unknown_keys_and_wrong_kinds_are_errors(tmp_path: Path) -> None:
    path = a_file(tmp_path, workload=[], seed="one")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert list(caught.value.problems) == [
        f"{path}: workload: unknown key; did you mean workloads?",
        f"{path}: seed: must be a whole number, not a string",
    ]


def test_bad_options_are_found_when_the_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"options\.expander"):
        loaded(tmp_path, options={"expander": "worst"})
    with pytest.raises(ConfigError, match=r"settings: scaleUp\.expandr: unknown key"):
        loaded(tmp_path, settings={"scaleUp": {"expandr": ["random"]}})
