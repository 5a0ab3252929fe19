"""`autoscaler plan --objects`, `--compare` and `autoscaler scenario from-dump`."""

import json
import random
import socket
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from autoscaler.cli.main import main

ROOT = Path(__file__).parents[3]
NOW = "2026-01-05T12:00:00Z"
GROUPS = {
    "groups": [
        {
            "id": group,
            "minSize": 0,
            "maxSize": 10,
            "pricePerHour": price,
            "matchLabels": {"pool": group},
            "template": {"labels": {"pool": group}, "capacity": {"cpu": cpu, "memory": "32Gi"}},
        }
        for group, cpu, price in (("small", "4", 0.2), ("large", "16", 0.9))
    ]
}


def a_node(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": NOW, "lastTransitionTime": "2026-01-04T12:00:00Z"}
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": labels, "creationTimestamp": "2026-01-04T12:00:00Z"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def a_pod(name: str, cpu: str, node: str = "", **metadata: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": NOW}
    container = {
        "name": "c",
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": {"cpu": cpu}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": name,
            "creationTimestamp": "2026-01-05T11:50:00Z",
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"} if node else {"phase": "Pending", "conditions": [waits]},
    }


def cluster() -> list[dict[str, Any]]:
    """A full node, an idle one, three pods for which there is no room."""
    return [
        a_node("full", pool="small", agentpool="small"),
        a_node("idle", "2", pool="small", agentpool="tiny"),
        a_pod("running", "3500m", "full"),
        *(a_pod(f"waiting-{number}", "3") for number in range(3)),
    ]


def a_dump(folder: Path, *objects: dict[str, Any], name: str = "dump.json") -> str:
    path = folder / name
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects or cluster())}))
    return str(path)


def a_groups_file(folder: Path) -> str:
    path = folder / "groups.yaml"
    path.write_text(yaml.safe_dump(GROUPS))
    return str(path)


def refuse(*_: object, **__: object) -> None:
    """Stand for a socket."""
    raise AssertionError("a socket was opened")


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["plan", "-o", "json", *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    for run in answer.get("runs", []):
        del run["timings"]
    return answer


def test_a_dump_is_planned_with_the_groups_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = planned(capsys, "--objects", a_dump(tmp_path), "--groups", a_groups_file(tmp_path))
    (run,) = answer["runs"]
    assert "inferredGroups" not in answer
    assert run["at"] == NOW
    assert run["scaleUps"] == [{"group": "small", "increase": 3}]
    assert run["cost"] == {"perHourBefore": 0.4, "perHourAfter": 1.0, "unpricedGroups": []}
    assert [(one["node"], one["timeLeftS"]) for one in run["reasons"]["unneeded"]] == [("idle", 600.0)]


def test_groups_are_told_from_nodes_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-o", "json", "--objects", a_dump(tmp_path), "--nodes=1:4:small"]) == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert [(one["id"], one["maxSize"], one["unknown"]) for one in answer["inferredGroups"]] == [
        ("small", 4, ["pricePerHour"]),
        ("tiny", 11, ["minSize", "maxSize", "pricePerHour"]),
    ]
    (run,) = answer["runs"]
    assert run["scaleUps"] == [{"group": "small", "increase": 3}]
    assert run["cost"] is None
    shown = [" ".join(line.split()) for line in printed.err.splitlines()]
    assert "small 1 1 4 agentpool pricePerHour" in shown
    assert "Groups without nodes are not visible." in shown


def test_what_the_dump_leaves_out_is_said_and_does_not_hold_every_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = (a_pod("mover", "1", "idle"), a_pod("other", "100m", "full"))
    path = a_dump(tmp_path, a_node("full", agentpool="small"), a_node("idle", agentpool="small"), *pods)
    assert main(["plan", "-o", "json", "--objects", path]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["runs"][0]["unneededNodes"] == ["full"]
    assert [line for line in printed.err.splitlines() if line.startswith("warning: no ")] == [
        "warning: no namespaces in the input: those of its pods are taken to have no labels but their names",
        "warning: no ReplicaSets in the input: those that pods name are taken to be there, and large enough",
        "warning: no PodDisruptionBudgets in the input: removals are judged as if there were none",
    ]


def test_odd_objects_are_warned_about_and_the_plan_still_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = a_dump(tmp_path, *cluster(), a_pod("lost", "1", "nowhere"), a_node("bare"))
    assert main(["plan", "--objects", path]) == 0
    printed = capsys.readouterr()
    assert "warning: pod shop/lost is on node nowhere, which is not in the file: it is left out" in printed.err
    assert "warning: 1 nodes carry no label that tells their group" in printed.err
    assert printed.out.startswith("dump, run 0 at")


def test_the_order_of_the_objects_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = cluster() + [a_pod(f"more-{number}", "2") for number in range(5)]
    groups = a_groups_file(tmp_path)
    first = planned(capsys, "--objects", a_dump(tmp_path, *objects), "--groups", groups)
    for seed in range(5):
        random.Random(seed).shuffle(objects)
        assert planned(capsys, "--objects", a_dump(tmp_path, *objects), "--groups", groups) == first


def test_several_files_make_one_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = a_groups_file(tmp_path)
    whole = planned(capsys, "--objects", a_dump(tmp_path), "--groups", groups)
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, one in enumerate(cluster()):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(one))
    parts = planned(capsys, "--objects", str(folder), "--groups", groups)
    assert parts["runs"] == whole["runs"]


def test_looking_ahead_reaches_the_removal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--objects", a_dump(tmp_path, a_node("full", agentpool="a"), a_node("idle", agentpool="a")))
    runs = planned(capsys, *words, "--runs", "4", "--step", "4m")["runs"]
    assert [len(run["deletedEmpty"]) for run in runs] == [0, 0, 0, 2]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([], id="a plan"),
        pytest.param(["--compare", "expander=least-nodes"], id="a comparison"),
        pytest.param(["--explain", "group/small"], id="an explanation"),
        pytest.param(["--runs", "3"], id="several runs"),
    ],
)
def test_nothing_is_asked_of_the_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(socket, "socket", refuse)
    planned(capsys, "--objects", a_dump(tmp_path), "--groups", a_groups_file(tmp_path), *words)


def test_scenario_files_are_played_made_and_hidden_without_the_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", refuse)
    made, hidden = f"{tmp_path / 'made.yaml'}", f"{tmp_path / 'hidden.json'}"
    source = [a_dump(tmp_path), "--groups", a_groups_file(tmp_path)]
    assert main(["scenario", "from-dump", *source, "--to", made]) == 0
    assert main(["scenario", "anonymize", made, "--to", hidden]) == 0
    bought = [
        sorted(scale_up["increase"] for scale_up in planned(capsys, "--scenario", file)["runs"][0]["scaleUps"])
        for file in (made, hidden)
    ]
    assert bought[0] == bought[1] != []


def test_variants_are_planned_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--objects", a_dump(tmp_path), "--groups", a_groups_file(tmp_path)]
    variants = ["--compare", "expander=least-nodes", "--compare", "expander=priority,least-waste,max-nodes-total=3"]
    answer = planned(capsys, *words, *variants)
    assert [one["variant"] for one in answer["compared"]] == ["as given", variants[1], variants[3]]
    assert answer["compared"][2]["options"] == {"expander": "priority,least-waste", "max-nodes-total": "3"}
    bought = [one["answer"]["runs"][0]["scaleUps"] for one in answer["compared"]]
    assert bought == [
        [{"group": "small", "increase": 3}],
        [{"group": "large", "increase": 1}],
        [{"group": "small", "increase": 1}],
    ]
    assert main(["plan", *words, *variants]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "nodes bought 3 1 1" in lines
    assert "cost per hour after 1 1.3 0.6" in lines
    assert "from large 0 1 0" in lines


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--compare", "expandr=random"], "--compare expandr=random: expandr: unknown flag; did you mean expander?"),
        (["--compare", "expander"], "--compare expander: expander: needs a value, as expander=..."),
        (["--compare", "expander=worst"], "--compare expander=worst: options.expander:"),
        (["--compare", "expander=price", "--explain", "node/full"], "--compare: cannot be used with --explain"),
        (["--run", "0"], "--run 0: requires --explain"),
        (["--scenario", "x.json"], "--objects: cannot be used with --scenario"),
        (["--groups", "absent.yaml"], "absent.yaml: cannot be read"),
        (["--objects", "absent.json"], "absent.json: cannot be read: No such file or directory"),
        (["--runs", "0"], "'0' is not a whole number from 1"),
        (["--now", "noon"], "'noon' is not a time such as"),
    ],
)
def test_bad_words_are_one_clear_line(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--objects", a_dump(tmp_path), *words]) == 2
    printed = capsys.readouterr()
    assert complaint in printed.err
    assert printed.out == ""


def test_objects_with_amounts_and_times_that_cannot_be_read_are_named_and_the_others_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = a_dump(tmp_path, a_node("n1", cpu="4 cores", agentpool="a"), a_pod("p1", "1", creationTimestamp="now"))
    assert main(["plan", "--objects", path]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[:2] == [
        f"warning: {path}: items[0]: Node n1 counts as one of which nothing is known: it cannot be decoded: "
        "a quantity or a time cannot be read",
        f"warning: {path}: items[1]: Pod shop/p1 is left out: it cannot be decoded: "
        "a quantity or a time cannot be read",
    ]
    assert "NodeCannotBeDecoded" in said.out


def test_a_dump_without_a_time_needs_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    path = a_dump(tmp_path, bare)
    assert main(["plan", "--objects", path]) == 2
    assert "name it with --now" in capsys.readouterr().err
    assert planned(capsys, "--objects", path, "--now", NOW)["runs"][0]["at"] == NOW


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_dump_becomes_a_scenario_with_the_same_plan_and_without_its_secrets(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"PASSWORD": "hunter2"}'}}
    dump, groups = a_dump(tmp_path, *cluster(), a_pod("noted", "1", "full", **manifest)), a_groups_file(tmp_path)
    scenario = str(tmp_path / f"scenario.{form}")
    words = ["--groups", groups, "--expander=least-nodes", "--runs=2", "--step=1m"]
    assert main(["scenario", "from-dump", dump, *words, "-o", form, "--to", scenario]) == 0
    assert "hunter2" not in Path(scenario).read_text()
    capsys.readouterr()
    assert planned(capsys, "--scenario", scenario) == planned(capsys, "--objects", dump, *words) | {"name": "dump"}


def test_the_schema_in_the_documentation_is_that_of_the_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "schema"]) == 0
    text = capsys.readouterr().out
    assert (ROOT / "docs" / "plan-answer.schema.json").read_text() == text, "run: make docs"
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    words = ["--objects", a_dump(tmp_path), "--groups", a_groups_file(tmp_path)]
    for more in ([], ["--explain", "node/full", "--explain", "pod/shop/waiting-0"], ["--compare", "expander=random"]):
        jsonschema.validate(planned(capsys, *words, *more), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "x", "runs": [{"run": "first"}]}, schema)
