"""The scenarios of the page about drift hold: a plan that names the difference, and a day with a broken image."""

import json

import pytest

from autoscaler.cli.main import main

PLAN, DAY = "docs/scenarios/drifted.yaml", "docs/scenarios/drift.yaml"
OLD, NEW = "launch template lt-0a1b, version 7", "launch template lt-0a1b, version 9"


def test_the_oldest_drifted_node_is_replaced_first_and_the_plan_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", PLAN, "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (one,) = run["replacements"]
    assert (one["nodes"], one["trigger"], one["stage"]) == (["web-1"], "NodeDrifted", "Bought")
    assert run["unremovable"]["web-1"]["detail"].startswith(f"NodeDrifted: {OLD} instead of {NEW}, Bought")


def test_the_others_wait_and_say_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", PLAN, "--explain", "node/web-2", "--explain", "node/web-3"]) == 0
    second, third = capsys.readouterr().out.split("\n\n")
    assert f"NewNodesOnTrial ({OLD} instead of {NEW})" in second
    assert "NewNodesOnTrial" not in third


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_a_broken_image_stops_after_the_first_and_a_working_one_goes_everywhere(
    seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", DAY, "--seed", seed, "-o", "json"]) == 0, "its assertions hold"
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert summary["events"]["DriftStopped"] == 1
    assert (summary["podsEvicted"], summary["nodesAtEnd"]) == (4, 4)


def test_without_the_flag_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", PLAN, "--drift=", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["replacements"] == []


def test_a_kind_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--scenario", PLAN, "--drift=label"]) == 2
    assert '"label", which is none of template, image, instance-type, labels, taints' in capsys.readouterr().err
