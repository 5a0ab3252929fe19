"""The texts of remedies, and the facts behind them."""

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
    Uncordon,
    Wait,
    told,
)
from autoscaler.objects import quantity
from autoscaler.objects.meta import LAST_KNOWN, UNDECODED
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play_and_explain
from tests.manifests import a_group, a_pod, running
from tests.situations.pods import TWO
from tests.situations.scenes import pending, standing


@pytest.mark.parametrize(
    ("resource", "amount", "words"),
    [
        ("memory", 6_606_028 * 1024, "6.2Gi"),
        ("memory", 8 << 30, "8Gi"),
        ("memory", (1 << 30) - 1, "0.99Gi"),
        ("memory", 100 << 20, "0.097Gi"),
        ("memory", 0, "0Gi"),
        ("cpu", 1500, "1.5"),
        ("cpu", 15460, "15.4"),
        ("cpu", 50, "0.05"),
        ("nvidia.com/gpu", 2, "2"),
    ],
)
def test_amounts_are_rounded_down_to_what_fits(resource: str, amount: int, words: str) -> None:
    assert quantity.readable(resource, amount) == words


def test_what_is_asked_for_is_rounded_up_so_that_it_never_looks_like_what_there_is() -> None:
    assert quantity.readable("memory", (8 << 30) + 1, up=True) == "8.1Gi"
    assert quantity.readable("cpu", 12_001, up=True) == "12.1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (SetFlag(flag="gpu-total", value=["t4:0:2", "a100:0:8"]), "set --gpu-total=t4:0:2 --gpu-total=a100:0:8"),
        (SetFlag(flag="max-nodes-total", value="7"), "set --max-nodes-total=7"),
        (Wait(seconds=289.9), "wait 4m50s"),
        (
            LimitRequest(pod="a/b", resource="memory", at_most="6502Mi", requested="8Gi"),
            "lower the memory request from 8Gi to 6.3Gi",
        ),
        (
            LimitRequest(pod="a/b", resource="nvidia.com/gpu", at_most="0", requested="4"),
            "remove the request for 4 nvidia.com/gpu",
        ),
        (
            LimitRequest(pod="c/d", resource="cpu", at_most="1", requested="2500m"),
            "lower the CPU request of pod c/d from 2.5 to 1",
        ),
        (AddToleration(pod="a/b", key="gpu", value="", effect="NoSchedule"), "add a toleration for gpu:NoSchedule"),
        (Annotate(kind=AnnotatableKind.NODE, name="n", key="k", value=None), "remove the annotation k from node n"),
        (ResizeGroup(group="g", min=0), "lower the minimum size of group g to 0"),
        (ResizeGroup(group="g", max=3), "raise the maximum size of group g to 3"),
    ],
)
def test_changes_are_spelled_out(change: AnyChange, words: str) -> None:
    assert told([change], "a/b") == words


def test_a_verb_is_not_repeated() -> None:
    limits = [
        LimitRequest(pod="a/b", resource="cpu", at_most="4", requested="5"),
        LimitRequest(pod="a/b", resource="memory", at_most="8Gi", requested="9Gi"),
    ]
    words = "lower the CPU request from 5 to 4 and the memory request from 9Gi to 8Gi, and uncordon node n"
    assert told([*limits, Uncordon(node="n")], "a/b") == words


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


def test_of_several_groups_the_nearest_is_named() -> None:
    found = explained(pending(a_pod(cpu="17"), groups=TWO), "pod/default/web-0")
    assert isinstance(found, PodExplanation)
    assert found.remedy is not None
    texts = [found.remedy.text, *(one.text for one in found.alternatives)]
    words = "Lower the CPU request from 17 to 16 so that group big takes it, or add a group with larger machines."
    assert texts == [words], "a request lowered further helps no more"


def test_the_largest_request_leaves_out_what_comes_with_the_node() -> None:
    daemon = {"containers": [{"resources": {"requests": {"cpu": "250m"}}}]}
    agents = [{"metadata": {"name": "agent"}, "spec": {"template": {"spec": daemon}}}]
    found = explained(pending(a_pod(cpu="4"), daemonSets=agents), "pod/default/web-0")
    assert isinstance(found, PodExplanation)
    assert found.remedy is not None
    assert found.remedy.changes == [LimitRequest(pod="default/web-0", resource="cpu", at_most="3750m", requested="4")]


def test_a_pod_that_cannot_be_decoded_is_named_and_nothing_is_proposed() -> None:
    pod = running(meta={"annotations": {UNDECODED: LAST_KNOWN}})
    answer = explained(standing(pod), "node/n")
    assert isinstance(answer, NodeExplanation)
    assert answer.remedy is not None
    assert (answer.remedy.code, answer.remedy.changes) == ("PodCannotBeDecoded", [])
    assert answer.remedy.cause.startswith("is kept by pod default/web-0: ")
    assert answer.remedy.text == "Correct pod default/web-0, or move it by hand."


def test_of_many_obstacles_a_few_are_told_and_all_changes_are_there() -> None:
    answer = explained(standing(*(running(f"web-{number}", cpu="10m", owner="") for number in range(25))), "node/n")
    assert isinstance(answer, NodeExplanation)
    assert answer.remedy is not None
    assert answer.remedy.text.count("Annotate pod") == 2
    assert "23 more obstacles are not named here." in answer.remedy.text
    assert answer.remedy.cause.endswith("; 23 more")
    assert sum(isinstance(change, Annotate) for change in answer.remedy.changes) == 25


def test_a_node_that_is_to_come_is_called_by_its_group() -> None:
    found = explained(pending(a_pod(), nodes=[], groups=[a_group(targetSize=1)]), "pod/default/web-0")
    assert isinstance(found, PodExplanation)
    assert found.message == "needs no new node: it fits on an upcoming node of group g"
