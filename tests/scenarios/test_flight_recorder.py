"""The flight recorder and /snapshotz of a whole autoscaler, and the replay of what they wrote on the command line."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.main import main
from autoscaler.clock import VirtualClock
from autoscaler.observe.http.routing import Request, route
from autoscaler.recording.flight_recorder import LATEST
from autoscaler.recording.snapshotz import PATH, Snapshots
from autoscaler.simulator.world import World
from tests.unit.loop.loop_world import LoopWorld, a_spec, waiting
from tests.worlds import a_cloud, a_deployment, a_group, a_world

ROOT = Path(__file__).parents[2]


def a_growing_world(**options: Any) -> World:
    return a_world(a_cloud(a_group(), machines={"web": 1}), a_deployment(replicas=9), **options)


def test_the_directory_has_the_last_passes_and_each_replays_to_its_decision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_growing_world(record_dir=f"{tmp_path}", record_passes="4") as world:
        world.run_for(120)
        bought = [
            {increase.group: increase.after - increase.before for increase in report.increases}
            for report in list(world.reports)[-4:]
        ]
    files = sorted(tmp_path.iterdir())
    assert len(files) == 4
    for file, increases in zip(files, bought, strict=True):
        assert main(["plan", "--scenario", f"{file}", "-o", "json"]) == 0
        (run,) = json.loads(capsys.readouterr().out)["runs"]
        assert {scale_up["group"]: scale_up["increase"] for scale_up in run["scaleUps"]} == increases


def test_the_newest_recording_is_served_without_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_growing_world(serve_recordings=True) as world:
        assert world.replica is not None
        routes = world.replica.companion_set.routes
        early = route(routes, Request("GET", LATEST))
        assert (early.status, json.loads(early.body)["error"]["code"]) == (404, "no_recording")
        world.run_until(lambda: any(report.increases for report in world.reports))
        found = route(routes, Request("GET", LATEST))
        assert route(routes, Request("GET", LATEST, {"n": "1"})).status == 400
    assert found.status == 200
    file = tmp_path / "recording.json"
    file.write_bytes(found.body)
    assert main(["plan", "--scenario", f"{file}", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [scale_up["group"] for scale_up in run["scaleUps"]] == ["web"]


def test_where_a_process_ran_is_not_recorded(tmp_path: Path) -> None:
    with a_growing_world(record_dir=f"{tmp_path}", kubeconfig="/etc/secret", cloud_config="/etc/cloud") as world:
        world.run_for(40)
    options = json.loads(sorted(tmp_path.iterdir())[-1].read_bytes())["options"]
    assert not {"kubeconfig", "cloud-config", "record-dir"} & options.keys()
    assert options["scale-down-unneeded-time"] == "2m"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param({"version": 99}, "memory.version: 99: this release replays 1", id="another version"),
        pytest.param({"now": {"wall": 1.0}}, "memory.now: ", id="half a time"),
        pytest.param({"remembered": {}}, "memory.remembered.registry: is required", id="a missing part"),
        pytest.param({"answers": [{"asked": "mars"}]}, "memory.answers[0].asked: is not known", id="unknown answer"),
        pytest.param({"classes": [{"namespace": 1}]}, "memory.classes[0]: ", id="a broken class"),
    ],
)
def test_a_memory_of_another_release_is_refused_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], complaint: str
) -> None:
    with a_growing_world(record_dir=f"{tmp_path}", record_passes="1") as world:
        world.run_for(40)
    (file,) = tmp_path.iterdir()
    recording = json.loads(file.read_bytes())
    recording["memory"] |= change
    file.write_text(json.dumps(recording))
    assert main(["plan", "--scenario", f"{file}"]) == 2
    assert complaint in capsys.readouterr().err


def test_what_shows_the_whole_cluster_is_off_by_default() -> None:
    with a_growing_world() as world:
        assert world.replica is not None
        assert not {PATH, LATEST} & world.replica.companion_set.routes.keys()
    with a_growing_world(debugging_snapshot_enabled=True) as world:
        assert world.replica is not None
        assert PATH in world.replica.companion_set.routes


class Asked:
    """A request on a thread of its own, as the web server makes one."""

    def __init__(self, snapshots: Snapshots) -> None:
        self.status = 0
        self.content: dict[str, object] = {}
        self._routes = snapshots.routes()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        response = route(self._routes, Request("GET", PATH))
        self.status, self.content = response.status, json.loads(response.body)

    def wait(self) -> "Asked":
        self._thread.join(30)
        return self


def test_snapshotz_waits_for_the_next_pass_and_shows_what_it_saw() -> None:
    world = LoopWorld(a_spec())
    snapshots = Snapshots(world.clock)
    world.submit(waiting("a"), waiting("b"))
    world.autoscaler.examine(world.clock.now())
    world.clock.advance(10)
    asked = Asked(snapshots)
    while not snapshots.requested:
        pass
    second = route(snapshots.routes(), Request("GET", PATH))
    assert second.status == 429
    snapshots.after_pass(world.autoscaler.examine(world.clock.now()))
    asked.wait()
    assert asked.status == 200
    content = asked.content
    assert sorted(content) == [
        "EndTimestamp",
        "NodeList",
        "StartTimestamp",
        "TemplateNodes",
        "UnscheduledPodsCanBeScheduled",
    ]
    nodes = content["NodeList"]
    assert isinstance(nodes, list)
    names = [node["Node"]["metadata"]["name"] for node in nodes]
    assert [name.rpartition("-")[2] for name in names] == ["0", "1"]
    assert all(name.startswith("template-node-for-web-") for name in names)
    pods = content["UnscheduledPodsCanBeScheduled"]
    assert isinstance(pods, list)
    assert [pod["metadata"]["name"] for pod in pods] == ["a", "b"]
    templates = content["TemplateNodes"]
    assert isinstance(templates, dict)
    assert list(templates) == ["web"]


def test_snapshotz_does_not_wait_for_a_client_that_has_hung_up() -> None:
    snapshots = Snapshots(VirtualClock())
    answer = route(snapshots.routes(), Request("GET", PATH, client_gone=lambda: True))
    assert (answer.status, snapshots.requested) == (503, False)


def test_snapshotz_of_a_pass_that_saw_nothing_is_an_error() -> None:
    world = LoopWorld(a_spec())
    snapshots = Snapshots(world.clock)
    asked = Asked(snapshots)
    while not snapshots.requested:
        pass
    world.unreachable = "the API server is gone"
    snapshots.after_pass(world.autoscaler.examine(world.clock.now()))
    asked.wait()
    assert (asked.status, asked.content["Error"]) == (500, "the API server is gone")


def test_an_anonymous_recording_decides_the_same_and_names_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = a_cloud(a_group("secret-pool"), machines={"secret-pool": 1})
    with a_world(cloud, a_deployment("payroll", replicas=9), record_dir=f"{tmp_path}", anonymize=True) as world:
        world.run_until(lambda: any(report.increases for report in world.reports))
        world.run_for(0.5)
        (bought,) = [increase.after - increase.before for report in world.reports for increase in report.increases]
    file = sorted(tmp_path.iterdir())[-1]
    assert not any(name in file.read_text() for name in ("secret", "payroll"))
    assert main(["plan", "--scenario", f"{file}", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [scale_up["increase"] for scale_up in run["scaleUps"]] == [bought]


@pytest.mark.parametrize("name", ["pending-pods.yaml", "cost-zones.yaml"])
def test_the_command_line_makes_files_anonymous(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    source, target = f"{ROOT / 'docs' / 'scenarios' / name}", tmp_path / "anonymous.json"
    runs = []
    assert main(["scenario", "anonymize", source, "--to", f"{target}"]) == 0
    once = target.read_bytes()
    assert main(["scenario", "anonymize", source, "--to", f"{target}"]) == 0
    assert target.read_bytes() == once
    for file in (source, f"{target}"):
        assert main(["plan", "--scenario", file, "-o", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)["runs"]
        runs.append([sorted(scale_up["increase"] for scale_up in run["scaleUps"]) for run in answer])
    assert runs[0] == runs[1]
    assert any(runs[0])


def test_plans_are_the_same_bytes_whatever_the_seed_of_hashes(tmp_path: Path) -> None:
    with a_growing_world(record_dir=f"{tmp_path}", record_passes="1") as world:
        world.run_until(lambda: any(report.increases for report in world.reports))
        world.run_for(0.5)
    (file,) = tmp_path.iterdir()
    answers = []
    for seed in ("1", "2"):
        words = [sys.executable, "-m", "autoscaler", "plan", "--scenario", f"{file}", "-o", "json"]
        done = subprocess.run(words, env={"PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, check=True)
        answer = json.loads(done.stdout)
        for run in answer["runs"]:
            del run["timings"]
        answers.append(json.dumps(answer))
    assert answers[0] == answers[1]
