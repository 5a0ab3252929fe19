"""`plan` shows which nodes replace a node, the stage of the replacement, and its cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.main import main
from tests.manifests import a_group, a_node, a_template, running


def scenario(tmp_path: Path, **options: Any) -> str:
    """Return the file of a node that is nine days old, with one pod."""
    path = tmp_path / "aged.json"
    document = {
        "name": "aged",
        "now": "2026-01-10T00:00:00Z",
        "options": {"skip-nodes-with-custom-controller-pods": False, **options},
        "nodeGroups": [a_group("web", a_template(memory="16Gi"), maxSize=3, targetSize=1, pricePerHour=0.2)],
        "nodes": [a_node("old", meta={"creationTimestamp": "2026-01-01T00:00:00Z"}, providerID="x://old")],
        "nodeToGroup": {"old": "web"},
        "pods": [running(node="old", cpu="3", status={"phase": "Running"})],
        "runs": 1,
    }
    path.write_text(json.dumps(document))
    return str(path)


def test_a_plan_names_the_replacement_with_its_prices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", scenario(tmp_path, **{"max-node-age": "24h"}), "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (one,) = run["replacements"]
    wanted = {"nodes": ["old"], "trigger": "NodeExpired", "stage": "Bought", "bought": {"web": 1}}
    assert {key: one[key] for key in wanted} == wanted
    assert (one["priceBefore"], one["priceAfter"]) == (0.2, 0.2)
    assert run["unremovable"]["old"]["reason"] == "BeingReplaced"


def test_an_explanation_says_how_far_the_replacement_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = scenario(tmp_path, **{"max-node-age": "24h"})
    assert main(["plan", "--scenario", path, "--explain", "node/old"]) == 0
    text = capsys.readouterr().out
    assert "Bought (NodeExpired); bought 1 of web; NewNodesNotReady" in text


def test_a_node_whose_turn_has_not_come_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = scenario(tmp_path, **{"max-node-age": "24h", "max-nodes-total": 1})
    assert main(["plan", "--scenario", path, "--explain", "node/old"]) == 0
    assert "NoGroupCanReplace" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        pytest.param({"max-node-age": "24h", "scale-down-enabled": False}, "scale-down-enabled", id="nothing may go"),
        pytest.param({"consolidation-margin": 3}, "from 0 to 1", id="more than all of the price"),
    ],
)
def test_what_cannot_work_is_refused(
    flags: dict[str, Any], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--scenario", scenario(tmp_path, **flags)]) == 2
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "annotations", "begins"),
    [
        pytest.param({}, {}, True, id="it saves 0.1 an hour for one pod"),
        pytest.param({"consolidation-min-saving-per-pod": 0.11}, {}, False, id="too little for a pod"),
        pytest.param(
            {"consolidation-min-saving-per-pod": 0.06},
            {"controller.kubernetes.io/pod-deletion-cost": str(2**27)},
            False,
            id="too little for a pod that counts twice",
        ),
    ],
)
def test_a_consolidation_is_weighed_against_the_pods_that_move(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, Any],
    annotations: dict[str, str],
    begins: bool,
) -> None:
    path = scenario(tmp_path, consolidation=True, **options)
    document = json.loads(Path(path).read_text())
    small = a_group("small", a_template(memory="16Gi"), maxSize=3, targetSize=0, pricePerHour=0.1)
    document["nodeGroups"].append(small)
    document["pods"][0]["metadata"].setdefault("annotations", {}).update(annotations)
    Path(path).write_text(json.dumps(document))
    assert main(["plan", "--scenario", path, "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    begun = run.get("replacements", [])
    assert bool(begun) is begins
    if begun:
        assert (begun[0]["bought"], begun[0]["disturbance"]) == ({"small": 1}, 1.0)
