"""`autoscaler plan`, from the command line to the output."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.cli.main import main


def a_file(folder: Path, file_name: str = "case.json", **fields: Any) -> str:
    template = {"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}
    huge = {"metadata": {"name": "huge"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "32"}}}]}}
    owner = {"kind": "ReplicaSet", "name": "web"}
    pods = [
        {
            "metadata": {"name": f"web-{number}", "ownerReferences": [owner]},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "3"}}}]},
        }
        for number in range(2)
    ]
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": {"expander": "least-waste"},
        "nodeGroups": [{"id": "small", "minSize": 0, "maxSize": 5, "targetSize": 0, "template": template}],
        "pods": [*pods, huge],
        **fields,
    }
    path = folder / file_name
    path.write_text(json.dumps(document))
    return str(path)


def test_json_is_one_line_a_file_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = a_file(tmp_path, "b.json"), a_file(tmp_path, "a.json", name="named")
    assert main(["plan", "-o", "json", "--scenario", first, "--scenario", second]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["name"] for answer in answers] == ["b", "named"]
    (run,) = answers[0]["runs"]
    assert run["scaleUps"] == [{"group": "small", "increase": 2}]
    assert run["podsRemainUnschedulable"] == ["default/huge"]
    assert run["timings"]["pass"] > 0


def test_yaml_is_a_document_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_file(tmp_path)
    assert main(["plan", "-o", "yaml", "--scenario", path, "--scenario", path]) == 0
    answers = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [answer["runs"][0]["targetSizes"] for answer in answers] == [{"small": 2}] * 2


def test_the_table_says_what_is_bought_for_whom_and_what_remains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--scenario", a_file(tmp_path)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == (
        "case, run 0 at 2026-01-05T12:00:01Z: 1 pod is stuck: it needs 32 CPU, the largest machine has 4. "
        "2 pods wait for 2 machines."
    )
    assert "small +2 2" in lines
    assert "ReplicaSet default/web 2 small" in lines
    row = "default/huge 1 NodeResourcesFit needs 32 CPU, the largest machine has 4 "
    assert any(line.startswith(row) for line in lines)


def test_a_quiet_cluster_is_said_to_be_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", a_file(tmp_path, pods=[])]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(": Every pod has a node.")


def test_flags_go_before_the_files_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_file(tmp_path)
    assert main(["plan", "-o", "json", "--scenario", path, "--max-nodes-total=1", "--compatibility", "1.31"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["targetSizes"] == {"small": 1}


def test_a_bad_file_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = a_file(tmp_path, "bad.json", now="soon", podz=1), a_file(tmp_path, "good.json")
    assert main(["plan", "-o", "json", "--scenario", bad, "--scenario", good]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)["name"] == "good"
    lines = sorted(line.partition(" ")[0] for line in printed.err.splitlines())
    assert lines == [f"{bad}:", f"{bad}:"]


def test_an_expander_that_the_cloud_cannot_serve_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = a_file(tmp_path)
    assert main(["plan", "--scenario", path, "--expander", "price"]) == 2
    assert capsys.readouterr().err.startswith(f"{path}: options: expander")


def test_an_unknown_flag_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", a_file(tmp_path), "--expandr=x"]) == 2
    assert "did you mean --expander" in capsys.readouterr().err


def test_without_a_file_there_is_nothing_to_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan"]) == 2
    assert "--scenario" in capsys.readouterr().err


def test_oddities_are_warned_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_file(tmp_path, nodeToGroup={"ghost": "small"})
    assert main(["plan", "--scenario", path]) == 0
    assert capsys.readouterr().err == f"{path}: warning: nodeToGroup.ghost: there is no such node\n"


def test_headline_and_advice_are_data_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [
        {
            "metadata": {"name": f"db-{number}", "ownerReferences": [{"kind": "StatefulSet", "name": "db"}]},
            "spec": {"containers": [{"resources": {"requests": {"cpu": str(9 + number)}}}]},
        }
        for number in range(3)
    ]
    assert main(["plan", "--scenario", a_file(tmp_path, pods=pods), "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    stuck = run["reasons"]["unschedulable"]
    assert [part["owner"] for part in stuck] == ["StatefulSet default/db"] * 3  # of three classes
    assert {part["advice"]["code"] for part in stuck} == {"NodeResourcesFit"}
    assert run["headline"]["tone"] == "bad"


def test_pods_that_a_limit_holds_back_are_told_what_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", a_file(tmp_path), "--max-nodes-total=1", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (held,) = run["reasons"]["held"]
    assert held["owners"] == {"ReplicaSet default/web": len(held["pods"])}
    assert "--max-nodes-total" in held["advice"]["fix"]


def test_an_exported_width_wraps_tables_and_leaves_data_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "a-group-with-a-name-that-is-longer-than-a-small-terminal-is-wide"
    template = {"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}
    groups = [{"id": name, "minSize": 0, "maxSize": 5, "targetSize": 0, "template": template}]
    path = a_file(tmp_path, nodeGroups=groups)
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["plan", "--scenario", path]) == 0
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines())) <= 60
    assert "…" in table
    for form in ("json", "yaml"):
        assert main(["plan", "--scenario", path, "-o", form, "--color=always"]) == 0
        data = capsys.readouterr().out
        assert name in data
        assert "…" not in data
        assert "\x1b" not in data
