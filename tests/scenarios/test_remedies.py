"""Each situation has one code, one culprit, a cause, and advice; on the next run the change turns the decision.

Every change is made to the scenario mechanically.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from autoscaler.errors import ConfigError
from autoscaler.explain.answer import GroupExplanation, NodeExplanation, NodeVerdict, PodExplanation
from autoscaler.explain.explain import Explained, parse_targets
from autoscaler.explain.remedies.changes import Wait
from autoscaler.explain.remedies.remedy import Remedy
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play, play_and_explain
from tests.scenario_changes import changed
from tests.situations.misfits import MISFITS
from tests.situations.nodes import NODES
from tests.situations.pods import GROUPS, PODS
from tests.situations.scenes import Situation

ALL = [*PODS, *MISFITS, *GROUPS, *NODES]
HELPED = {"Runs", "Helped", "FitsOnExistingOrUpcomingNode"}


def explained(document: Mapping[str, Any], target: str) -> Explained:
    (one,) = play_and_explain(decode(json.dumps(document).encode(), "case.json"), parse_targets([target])).explained
    return one


def the_remedy(case: Situation) -> Remedy:
    found = explained(case.document, case.target).remedy
    assert found is not None
    return found


def is_well(document: Mapping[str, Any], target: str, since: int) -> bool:
    """Whether by the last run the pod has its place, the node goes or is gone, or the group grows."""
    try:
        one = explained(document, target)
    except ConfigError:
        return target.startswith("node/")  # it is gone
    match one:
        case PodExplanation():
            return one.verdict in HELPED
        case NodeExplanation():
            return one.verdict is NodeVerdict.REMOVED
        case GroupExplanation():
            runs = play(decode(json.dumps(document).encode(), "case.json")).runs
            return any(up.group == target.removeprefix("group/") for run in runs[since:] for up in run.scale_ups)


def flips(case: Situation) -> bool:
    """Whether the primary change turns the decision."""
    before = case.document.get("runs", 1)
    assert not is_well(case.document, case.target, before - 1), "the situation is one"
    return is_well(changed(case.document, the_remedy(case).changes), case.target, before - 1)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case.target.partition('/')[0]}: {case.name}") for case in ALL]
)
def test_a_situation_has_one_code_one_culprit_and_a_change_that_flips_it(case: Situation) -> None:
    found = the_remedy(case)
    assert (found.code, f"{found.culprit.kind} {found.culprit.name}") == (case.code, case.culprit), found.text
    assert (found.cause, found.text) == (case.cause, case.advice)
    assert bool(found.changes) or not case.flips
    assert flips(case) is case.flips, found.text
    for number, left_out in enumerate(found.changes if case.flips and len(found.changes) > 1 else ()):
        rest = [*found.changes[:number], *found.changes[number + 1 :]]
        well = is_well(changed(case.document, rest), case.target, case.document.get("runs", 1) - 1)
        assert not well or isinstance(left_out, Wait), f"needless: {left_out}"


def test_at_least_sixty_situations_are_covered_and_nearly_all_can_be_flipped() -> None:
    assert len(ALL) >= 60
    assert len({(case.target, case.name) for case in ALL}) == len(ALL)
    with_change = [case.flips for case in ALL if the_remedy(case).changes]
    assert sum(with_change) / len(with_change) >= 0.95


_OTHER_UNITS = re.compile(r"\d(Ki|Mi)\b|\dm (CPU|free)|\bto \d+m\b")


def test_advice_is_sentences_with_one_unit_and_nothing_said_twice() -> None:
    for case in ALL:
        sentences = case.advice.split(". ")
        assert len(sentences) <= 3, case.advice
        assert case.advice[0].isupper()
        assert case.advice.endswith(".")
        assert len(set(sentences)) == len(sentences), case.advice
        assert not _OTHER_UNITS.search(f"{case.cause} {case.advice}"), "cores and Gi alone"
        assert case.cause not in case.advice
