"""`autoscaler plan --explain`, from the command line to the output."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.cli.main import main


def a_file(folder: Path, **fields: Any) -> str:
    template = {"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}
    huge = {"metadata": {"name": "huge"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "32"}}}]}}
    document = {
        "now": "2026-01-05T12:00:00Z",
        "nodeGroups": [{"id": "small", "minSize": 0, "maxSize": 5, "targetSize": 1, "template": template}],
        "nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}],
        "nodeToGroup": {"n1": "small"},
        "pods": [huge],
        **fields,
    }
    path = folder / "case.json"
    path.write_text(json.dumps(document))
    return str(path)


ALL = ("--explain", "pod/default/huge", "--explain", "node/n1", "--explain", "group/small")


def test_json_has_one_typed_explanation_a_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", a_file(tmp_path), *ALL, "-o", "json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    answer = json.loads(line)
    assert (answer["name"], answer["run"], answer["at"]) == ("case", 0, "2026-01-05T12:00:01Z")
    pod, node, group = answer["explained"]
    assert [one["kind"] for one in (pod, node, group)] == ["pod", "node", "group"]
    rejection = {
        "reason": "NodeResourcesFit",
        "message": "Insufficient cpu",
        "detail": "needs 32 cpu, 4 free",
    }
    assert pod["nodes"] == [{"count": 1, "upcoming": 0, "examples": ["n1"], "rejections": [rejection]}]
    assert pod["groups"] == [{"fate": "Rejects", "groups": ["small"], "skipped": None, "rejections": [rejection]}]
    assert node["timeLeftS"] == 600.0
    assert group["sizes"]["target"] == 1


def test_yaml_is_the_same_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_file(tmp_path)
    assert main(["plan", "--scenario", path, *ALL, "-o", "yaml"]) == 0
    from_yaml = yaml.safe_load(capsys.readouterr().out)
    assert main(["plan", "--scenario", path, *ALL, "-o", "json"]) == 0
    assert from_yaml == json.loads(capsys.readouterr().out)


SMALLER = "Lower the CPU request from 32 to 4 so that group small takes it, or add a group with larger machines."


def test_the_table_begins_with_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", a_file(tmp_path), *ALL]) == 0
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "case, run 0 at 2026-01-05T12:00:01Z: pod/default/huge: NoGroupFits",
        "needs a new node, and no node group that may grow would take it",
        f"what would change it: {SMALLER}",
        "the scheduler says: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod.",
        "requests cpu 32",
        "",
        "Nodes, nearest miss first",
        "COUNT NODES REASON WHY",
        "1 n1 NodeResourcesFit Insufficient cpu (needs 32 cpu, 4 free)",
        "",
        "Node groups, nearest miss first",
        "COUNT GROUPS OUTCOME REASON WHY",
        "1 small Rejects NodeResourcesFit Insufficient cpu (needs 32 cpu, 4 free)",
        "",
        "case, run 0 at 2026-01-05T12:00:01Z: node/n1: Unneeded",
        "The node is unneeded, but not yet for `--scale-down-unneeded-time`.",
        "what would change it: Wait 10m; it may go then if it is still unneeded.",
        "group small",
        "state ready",
        "utilization 0%",
        "unneeded since 2026-01-05T12:00:01Z",
        "stays because NotUnneededLongEnough (unneeded for 0s of 600s)",
        "time left 600s",
        "scale-down NoNodeDeleted",
        "",
        "case, run 0 at 2026-01-05T12:00:01Z: group/small: NoPodFits",
        "a new node would take none of the pods that need one",
        f"what would change it: {SMALLER}",
        "size 1, at least 0, at most 5",
        "nodes 1 ready",
        "healthy yes",
        "template from Node",
        "",
        "Pods that a new node would not take",
        "PODS COUNT REASON WHY",
        "default/huge 1 NodeResourcesFit Insufficient cpu (needs 32 cpu, 4 free)",
    ]


def test_many_sets_are_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        {
            "metadata": {"name": f"n{number}"},
            "spec": {"taints": [{"key": "team", "value": f"t{number}", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "4"}},
        }
        for number in range(23)
    ]
    path = a_file(tmp_path, nodes=nodes, nodeToGroup={})
    assert main(["plan", "--scenario", path, "--explain", "pod/default/huge"]) == 0
    assert "and 4 more, less near; -o json has them all" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["--explain", "pod/default/web-1"],
            "pod/default/web-1: no such pending pod; pending are: default/huge",
            id="a pod that is not there",
        ),
        pytest.param(
            ["--explain", "huge"],
            "huge: write pod/NAMESPACE/NAME, node/NAME or group/ID",
            id="a malformed target",
        ),
        pytest.param(
            ["--explain", "node/n1", "--run", "1"], "--run 1: the runs of case are 0 to 0", id="a run that is not there"
        ),
        pytest.param(["--run", "0"], "--run 0: requires --explain", id="a run without a target"),
    ],
)
def test_bad_questions_are_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--scenario", a_file(tmp_path), *words]) == 2
    printed = capsys.readouterr()
    assert printed.err == message + "\n"
    assert printed.out == ""
