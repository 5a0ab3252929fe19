"""The rules of the comparison, on tiny answers."""

import json
from typing import Any

import pytest

from tests.conformance.compare import HERE, Verdict, differences, judge, main, owners_in, rate, report

RUN: dict[str, Any] = {
    "scaleUpResult": "Successful",
    "scaleUps": [{"group": "a", "increase": 1}, {"group": "b", "increase": 2}],
    "targetSizes": {"a": 3, "b": 2},
    "podsNeedingScaleUp": ["default/web-1", "default/web-2"],
    "deletedDrain": [{"node": "n1", "evictedPods": ["default/x"]}],
    "unremovable": {"n2": {"reason": "BlockedByPod", "pod": "default/x", "utilization": 0.2}},
    "noScaleUpReasons": {"default/y": "some wording"},
    "error": "",
}
OWNERS = {f"default/web-{number}": "default/web" for number in range(9)}


def differing(recorded: dict[str, Any], ours: dict[str, Any], varying: list[str] | None = None) -> list[str]:
    found = differences([recorded], [ours], OWNERS, varying or [])
    return [line.partition(": ")[0].removeprefix("runs[0].") for line in found]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"scaleUps": RUN["scaleUps"][::-1]}, id="order of increases"),
        pytest.param({"podsNeedingScaleUp": ["default/web-7", "default/web-3"]}, id="which pods of one owner"),
        pytest.param({"deletedDrain": ["n1"]}, id="which pods a drain evicted"),
        pytest.param({"unremovable": {"n2": {"reason": "BlockedByPod"}}}, id="details beside a reason"),
        pytest.param({"noScaleUpReasons": {}, "error": "other words"}, id="wording"),
        pytest.param({"unneededNodes": []}, id="an empty list for none"),
        pytest.param({"reasons": {}, "timings": {"pass": 1.0}}, id="fields of our own"),
    ],
)
def test_what_does_not_matter_agrees(change: dict[str, Any]) -> None:
    assert differing(RUN, {**RUN, **change}) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"scaleUpResult": "NotNeeded"}, "scaleUpResult", id="another result"),
        pytest.param({"scaleUps": [{"group": "a", "increase": 3}]}, "scaleUps", id="another increase"),
        pytest.param({"targetSizes": {"a": 3}}, "targetSizes", id="a group left out"),
        pytest.param({"targetDecreases": [{"group": "a", "increase": -1}]}, "targetDecreases", id="a correction"),
        pytest.param({"podsNeedingScaleUp": ["default/web-1"]}, "podsNeedingScaleUp", id="fewer pods of an owner"),
        pytest.param({"podsTriggeredScaleUp": ["default/x"]}, "podsTriggeredScaleUp", id="a pod that is helped"),
        pytest.param({"podsRemainUnschedulable": ["default/x"]}, "podsRemainUnschedulable", id="a pod that is not"),
        pytest.param({"unneededNodes": ["n9"]}, "unneededNodes", id="an unneeded node"),
        pytest.param({"deletedEmpty": ["n9"]}, "deletedEmpty", id="an empty node deleted"),
        pytest.param({"deletedDrain": []}, "deletedDrain", id="a node not drained"),
        pytest.param({"cloudDeletes": [{"group": "a", "id": "i"}]}, "cloudDeletes", id="a deletion in the cloud"),
        pytest.param({"unremovable": {"n2": {"reason": "NotAutoscaled"}}}, "unremovable", id="another reason"),
        pytest.param({"unremovable": {}}, "unremovable", id="no reason"),
    ],
)
def test_every_decision_matters(change: dict[str, Any], field: str) -> None:
    assert differing(RUN, {**RUN, **change}) == [field]


def test_what_varied_between_recordings_is_passed_over() -> None:
    ours = {**RUN, "unremovable": {}, "scaleUps": []}
    assert differing(RUN, ours, ["runs[0].unremovable.n2.reason"]) == ["scaleUps"]
    assert differing(RUN, ours, ["runs[0].scaleUps", "runs[1].unremovable"]) == ["unremovable"]
    assert differing(RUN, {**RUN, "scaleUpResult": "X"}, ["runs[0].scaleUpResultOther"]) == ["scaleUpResult"]


def test_another_number_of_runs_is_one_difference() -> None:
    assert list(differences([RUN, RUN], [RUN], OWNERS)) == ["runs: 2 recorded, 1 answered"]


def test_pods_are_counted_by_owner_also_those_added_later() -> None:
    case = {
        "pods": [{"metadata": {"name": "a-1", "ownerReferences": [{"name": "a"}]}}, {"metadata": {"name": "bare"}}],
        "changes": [{"addPods": [{"metadata": {"name": "b-1", "namespace": "x", "ownerReferences": [{"name": "b"}]}}]}],
    }
    assert owners_in(case) == {"default/a-1": "default/a", "default/bare": "default/bare", "x/b-1": "x/b"}


def test_one_of_several_recorded_answers_is_enough_and_the_nearest_is_shown() -> None:
    other = {**RUN, "scaleUpResult": "NotNeeded", "scaleUps": []}
    expected = {"answers": [{"runs": [other]}, {"runs": [RUN]}], "deterministic": False, "varying": []}
    case: dict[str, Any] = {"pods": []}
    assert judge("a-001", case, expected, {"runs": [RUN]}).differences == ()
    near = judge("a-001", case, expected, {"runs": [{**RUN, "targetSizes": {}}]})
    assert [line.partition(":")[0] for line in near.differences] == ["runs[0].targetSizes"]


def test_a_deterministic_case_has_no_excuses() -> None:
    expected = {"answers": [{"runs": [RUN]}], "deterministic": True, "varying": ["runs[0].scaleUps"]}
    verdict = judge("a-001", {"pods": []}, expected, {"runs": [{**RUN, "scaleUps": []}]})
    assert len(verdict.differences) == 1


def test_a_failure_is_a_difference() -> None:
    verdict = judge("a-001", {"pods": []}, {"answers": [{"runs": [RUN]}]}, {"failed": "boom"})
    assert verdict.differences == ("boom",)


def test_the_report_counts_by_class() -> None:
    verdicts = [Verdict("a-binpack-001"), Verdict("a-binpack-002", ("x", "y")), Verdict("k-health-001")]
    lines = list(report(verdicts, verbose=True))
    assert lines[:3] == ["a-binpack-002", "    x", "    y"]
    assert lines[3].split() == ["a-binpack", "1", "/", "2", "50.0%"]
    assert lines[4].split() == ["k-health", "1", "/", "1", "100.0%"]
    assert lines[5] == "agreement 2 / 3 = 66.67%"
    assert rate(verdicts) == pytest.approx(2 / 3)


def test_nothing_to_compare_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no-such-class"]) == 2
    assert "no-such-class" in capsys.readouterr().err


def test_every_case_has_recorded_answers_that_agree_with_themselves() -> None:
    cases = sorted((HERE / "cases").glob("*.json"))
    assert len(cases) == len(list((HERE / "expected").glob("*.json"))) > 0
    for path in cases:
        expected = json.loads((HERE / "expected" / path.name).read_text())
        case = json.loads(path.read_text())
        for recorded in expected["answers"]:
            assert judge(path.stem, case, expected, recorded).differences == ()
