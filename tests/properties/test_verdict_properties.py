"""The scheduler's message against counting what the plain definition says, node by node."""

from collections import Counter

import pytest

from autoscaler.objects.pod import PodClass
from autoscaler.scheduling.fit_error import unschedulable
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.overlay import Trial
from tests.properties.random_clusters import random_case, slow_twin
from tests.properties.slow_scheduler import SlowCluster
from tests.seeds import seeds

EVICTION_HELPS = (
    "Insufficient",
    "Too many pods",
    "node(s) didn't have free ports",
    "node has pod using PersistentVolumeClaim",
    "node(s) had no available disk",
    "node(s) exceed max volume count",
    "disk CSI driver is not installed",
    "node(s) didn't match pod topology spread constraints",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
    "resourceclaim not available on the node",
    "cannot allocate all claims",
)
OF_THE_POD = ("persistentvolume", "pod has unbound immediate", "waiting for ephemeral volume")
"""How those messages begin that no node is asked for."""


def slow_message(twin: SlowCluster, cls: PodClass) -> str:
    """What the scheduler says of a pod of no priority, on nodes none of which has been removed."""
    total = len(twin.nodes)
    if not total:
        return "no nodes available to schedule pods"
    prefix, no_help = f"0/{total} nodes are available:", "Preemption is not helpful for scheduling"
    named = pinned(cls)
    said = {at: first_words(twin.objections(cls, at)) for at in range(total)}
    obstacle = next(
        (objection for at in said for objection in twin.objections(cls, at) if objection.startswith(OF_THE_POD)), None
    )
    if named == set():
        obstacle = "pod affinity terms conflict"
    if obstacle is not None:
        return f"{prefix} {obstacle}. preemption: {prefix} {total} {no_help}."
    reasons, outlook = Counter[str](), Counter[str]()
    for at, words in said.items():
        if named is not None and twin.node(at).name not in named:
            words = ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]
        if not words:
            return ""
        reasons.update(words)
        helps = words[0].startswith(EVICTION_HELPS) and "missing required label" not in words[0]
        outlook["No preemption victims found for incoming pod" if helps else no_help] += 1
    return f"{prefix} {counted(reasons)}. preemption: {prefix} {counted(outlook)}."


def first_words(objections: list[str]) -> list[str]:
    """Of one node: all resources that are short, if these come first, else the first objection."""
    short = [objection for objection in objections if objection.startswith(("Insufficient", "Too many pods"))]
    return short if short and objections[0] == short[0] else objections[:1]


def pinned(cls: PodClass) -> set[str] | None:
    """The names that a pod asks for in every term; None: it does not."""
    terms = [] if cls.node_affinity is None else cls.node_affinity.node_selector_terms
    lists = [
        [set(expression.values) for expression in term.match_fields if expression.operator == "In"] for term in terms
    ]
    return set().union(*(set.intersection(*names) for names in lists)) if lists and all(lists) else None


def counted(words: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {one}" for one, count in words.items()))


@pytest.mark.parametrize("seed", seeds(300))
def test_the_message_counts_what_nodes_say(seed: int) -> None:
    case = random_case(seed, nodes=6, pods=20)
    twin, placer = slow_twin(case.view), Placer(Trial(case.view))
    for cls in case.classes:
        assert unschedulable(placer, cls) == slow_message(twin, cls)


def test_the_cases_are_worth_it() -> None:
    messages = [
        unschedulable(Placer(Trial(case.view)), cls)
        for case in (random_case(seed, nodes=6, pods=20) for seed in range(300))
        for cls in case.classes
    ]
    for words in (*EVICTION_HELPS, "unschedulable", "untolerated taint", "pod affinity rules", "NodeAffinity]"):
        assert any(words in message for message in messages), words
    assert "" in messages
    assert any(one.split(": ")[1].startswith(OF_THE_POD) for one in messages if ": " in one)
