"""`autoscaler eta` and `autoscaler load`, without a cluster."""

import json
import re
from pathlib import Path

import pytest

from autoscaler.cli.main import main
from tests.manifests import a_group, a_pod, a_template

PENDING = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}
UNSCHEDULABLE = a_pod(cpu="3", meta={"creationTimestamp": "2026-11-20T09:00:00Z"}, status=PENDING)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    group = a_group("web", a_template(memory="16Gi"), maxSize=3)
    fields = {"name": "one", "now": "2026-11-20T10:00:00Z", "nodeGroups": [group], "nodes": [], "pods": [UNSCHEDULABLE]}
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(fields))
    return path


def test_a_plan_has_the_numbers_of_the_daemon(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boots, pod = tmp_path / "boots.json", tmp_path / "pod.json"
    boots.write_text(json.dumps({"web": [60, 62, 64, 70, 75, 80, 90, 100, 120, 180]}))
    pod.write_text(json.dumps(a_pod("big-0", "9", status=PENDING)))
    words = ["--scenario", str(scenario), "--boots", str(boots), "--pod", str(pod)]
    assert main(["eta", "plan", *words, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (one,) = answer["items"]
    assert (one["level"], one["group"], one["expectedSeconds"], one["worstSeconds"]) == (4, "web", 97.0, 185.0)
    assert one["terms"]["boot"] == {"expectedSeconds": 75.0, "worstSeconds": 120.0}
    assert [(new["level"], new["reason"]) for new in answer["new"]] == [(6, "no_group_fits")]
    assert main(["eta", "plan", *words]) == 0
    assert "no_group_fits" in capsys.readouterr().out


def test_the_ratio_formula_can_be_asked_for(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--scenario", str(scenario), "--pod-start-estimator=ratio", "-o", "json"]
    assert main(["eta", "plan", *words]) == 0
    (one,) = json.loads(capsys.readouterr().out)["items"]
    assert (one["expectedSeconds"], one["reason"]) == (None, "no_usable_capacity")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--boots", "nowhere.json"], "--boots: nowhere.json cannot be read"),
        (["--pod", "nowhere.json"], "--pod: nowhere.json cannot be read"),
    ],
)
def test_files_that_are_not_there_are_named(
    words: list[str], says: str, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eta", "plan", "--scenario", str(scenario), *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--count=-1"], "'-1' is not a number"),
        (["--count=x"], "'x' is not a number"),
        ([], "--count: is missing"),
        (["--count=3", "--max-pods=0"], "--max-pods: 0 allows"),
        (["--count=3", "--cpu=2cores"], "--cpu: '2cores' is not a quantity"),
        (["--delete=../x"], "--delete: '../x' is not the name of a batch"),
    ],
)
def test_bad_loads_are_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", *words]) == 2
    assert says in capsys.readouterr().err


def test_load_is_refused_for_a_cluster_that_nobody_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "current-context": "prod",
        "clusters": [{"name": "prod", "cluster": {"server": "https://prod.example:6443"}}],
        "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
        "users": [{"name": "me", "user": {"token": "x"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    assert main(["load", "--count=1", f"--kubeconfig={path}"]) == 2
    assert "if it is a test cluster, add --allow prod.example" in capsys.readouterr().err


def test_a_table_of_estimates_has_durations(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eta", "plan", "--scenario", str(scenario)]) == 0
    heads, row = (re.split("  +", line) for line in capsys.readouterr().out.splitlines())
    assert heads == ["POD", "LEVEL", "EXPECTED", "WORST", "GROUP", "NODE OR REASON"]
    assert row == ["default/web-0", "4", "3 min", "6 min", "web"]
