"""Remedies: their words, and what they are told from."""

import json

import pytest

from autoscaler.explain.answer import GroupExplanation, NodeExplanation, PodExplanation
from autoscaler.explain.explain import parse_targets
from autoscaler.explain.remedies.changes import (
    AddToleration,
    AnnotatableKind,
    Annotate,
    AnyChange,
    LimitRequest,
    ResizeGroup,
    SetFlag,
    Wait,
    readable,
    spelled,
)
from autoscaler.objects.meta import LAST_KNOWN, UNDECODED
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play_and_explain
from tests.manifests import a_pod, running
from tests.scenarios.test_remedies import TWO, pending, standing


@pytest.mark.parametrize(
    ("resource", "amount", "words"),
    [
        ("memory", 6_606_028 * 1024, "6.2Gi"),
        ("memory", 8 << 30, "8Gi"),
        ("memory", (1 << 30) - 1, "1023.9Mi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("cpu", 1500, "1500m"),
        ("nvidia.com/gpu", 2, "2"),
    ],
)
def test_amounts_are_rounded_down_to_what_fits(resource: str, amount: int, words: str) -> None:
    assert readable(resource, amount) == words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (SetFlag(flag="gpu-total", value=["t4:0:2", "a100:0:8"]), "--gpu-total=t4:0:2 --gpu-total=a100:0:8"),
        (SetFlag(flag="max-nodes-total", value="7"), "--max-nodes-total=7"),
        (Wait(seconds=289.9), "after 4m50s"),
        (LimitRequest(pod="a/b", resource="memory", at_most="6502Mi"), "memory request ≤ 6.3Gi"),
        (AddToleration(pod="a/b", key="gpu", value="", effect="NoSchedule"), "it tolerates gpu:NoSchedule"),
        (Annotate(kind=AnnotatableKind.NODE, name="n", key="k", value=None), "node n is without annotation k"),
        (ResizeGroup(group="g", min=0), "group g has minimum ≤ 0"),
        (ResizeGroup(group="g", max=3), "group g has maximum ≥ 3"),
    ],
)
def test_changes_are_spelled_out(change: AnyChange, words: str) -> None:
    assert spelled([change]) == words


def explained(document: dict[str, object], target: str) -> object:
    (one,) = play_and_explain(decode(json.dumps(document).encode(), "case.json"), parse_targets([target])).explained
    return one


def test_each_expander_says_how_it_rated_an_offer_and_who_was_dropped_where() -> None:
    document = pending(a_pod(), a_pod("web-1"), groups=TWO, options={"expander": "most-pods,least-waste,least-nodes"})
    group = explained(document, "group/big")
    assert isinstance(group, GroupExplanation)
    (offer,), (rival,) = group.offers, group.rivals
    assert [(one.expander, one.score, one.kept) for one in offer.scores] == [
        ("most-pods", 2.0, True),
        ("least-waste", (16 - 2) / 16 + 1, False),
    ]
    assert [(one.expander, one.score, one.kept) for one in rival.scores] == [
        ("most-pods", 2.0, True),
        ("least-waste", (4 - 2) / 4 + 1, True),
    ]
    assert (offer.chosen, rival.chosen, rival.group) == (False, True, "small")
    pod = explained(document, "pod/default/web-0")
    assert isinstance(pod, PodExplanation)
    assert pod.offers == [rival, offer]


def test_alternatives_follow_the_nearest_way() -> None:
    found = explained(pending(a_pod(cpu="17"), groups=TWO), "pod/default/web-0")
    assert isinstance(found, PodExplanation)
    assert found.remedy is not None
    texts = [found.remedy.text, *(one.text for one in found.alternatives)]
    assert texts == ["fits group big if cpu request ≤ 16", "fits group small if cpu request ≤ 4"]


def test_the_largest_request_leaves_out_what_comes_with_the_node() -> None:
    daemon = {"containers": [{"resources": {"requests": {"cpu": "250m"}}}]}
    agents = [{"metadata": {"name": "agent"}, "spec": {"template": {"spec": daemon}}}]
    found = explained(pending(a_pod(cpu="4"), daemonSets=agents), "pod/default/web-0")
    assert isinstance(found, PodExplanation)
    assert found.remedy is not None
    assert found.remedy.changes == [LimitRequest(pod="default/web-0", resource="cpu", at_most="3750m")]


def test_a_pod_that_cannot_be_decoded_is_named_and_nothing_is_proposed() -> None:
    pod = running(meta={"annotations": {UNDECODED: LAST_KNOWN}})
    answer = explained(standing(pod), "node/n")
    assert isinstance(answer, NodeExplanation)
    assert answer.remedy is not None
    assert (answer.remedy.code, answer.remedy.changes) == ("PodCannotBeDecoded", [])
    assert answer.remedy.text.startswith("pod default/web-0 keeps it: ")
