"""Gangs through whole passes: a table of worlds, and what each has to buy.

The answers follow from KEP-4671: a gang starts once its minimum of pods can run, so fewer nodes than that are wasted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.objects.pod import SAFE_TO_EVICT
from autoscaler.observe.status import PodState
from autoscaler.reasons import BlockingReason
from autoscaler.simulator.answer import RunAnswer
from tests.gangs import (
    Outcome,
    World,
    a_pass,
    a_small_group,
    incomplete,
    members,
    minimum,
    outcome,
    passed,
    runs,
    too_large,
)
from tests.manifests import Json, a_node, named

CASE = Path(__file__).parent / "gang.yaml"


ON_NODE: Json = {"nodes": [a_node("n", "4")]}


G = a_small_group
WORLDS = [
    World("a group with room for all", [G("g", 8)], members("a", 8), {"g": 8}),
    World("a group that is too small", [G("g", 5)], members("a", 8), {}, [too_large("a", 8, 5)]),
    World("two groups that are large enough together", [G("g", 5), G("h", 3)], members("a", 8), {"g": 5, "h": 3}),
    World(
        "two groups that are too small together", [G("g", 5), G("h", 2)], members("a", 8), {}, [too_large("a", 8, 7)]
    ),
    World(
        "a minimum below the number of pods, and room for the minimum alone",
        [G("g", 5)],
        members("a", 8),
        {"g": 5},
        (),
        {"podGroups": [minimum("a", 5)]},
    ),
    World(
        "a minimum below the number of pods, and less room",
        [G("g", 4)],
        members("a", 8),
        {},
        [too_large("a", 5, 4)],
        {"podGroups": [minimum("a", 5)]},
    ),
    World(
        "a minimum above the number of pods that exist",
        [G("g", 9)],
        members("a", 5),
        {},
        [incomplete("a", 8, 5)],
        {"podGroups": [minimum("a", 8)]},
    ),
    World(
        "policy basic: pods one by one",
        [G("g", 5)],
        members("a", 8),
        {"g": 5},
        (),
        {"podGroups": [named("a", schedulingPolicy={"basic": {}})]},
    ),
    World("room on a node that exists", [G("g", 7)], members("a", 8), {"g": 7}, (), ON_NODE),
    World(
        "room on a node that exists, and too little besides",
        [G("g", 6)],
        members("a", 8),
        {},
        [too_large("a", 8, 7)],
        ON_NODE,
    ),
    World(
        "pods that run count",
        [G("g", 1)],
        [*members("a", 1, nodeName="n"), *members("a", 1, first=1)],
        {"g": 1},
        (),
        {**ON_NODE, "podGroups": [minimum("a", 2)]},
    ),
    World(
        "a gang that runs is complete: its further pods come one by one",
        [G("g", 1)],
        [*members("a", 1, cpu="2", nodeName="n"), *members("a", 1, cpu="2", first=1, nodeName="n"),
         *members("a", 3, first=2)],
        {"g": 1},
        (),
        {**ON_NODE, "podGroups": [minimum("a", 2)]},
    ),
    World(
        "room for one gang of two",
        [G("g", 5)],
        [*members("a", 4), *members("b", 4)],
        {"g": 4},
        [too_large("b", 4, 1)],
    ),
    World(
        "room for one gang of two: the one with the higher priority",
        [G("g", 5)],
        [*members("a", 4), *members("b", 4, priority=10)],
        {"g": 4},
        [too_large("a", 4, 1)],
    ),
    World(
        "room for one gang of two: the one that fits",
        [G("g", 5)],
        [*members("a", 6), *members("b", 4)],
        {"g": 4},
        [too_large("a", 6, 5)],
    ),
    World("room for both gangs", [G("g", 9)], [*members("a", 4), *members("b", 4)], {"g": 8}),
    World(
        "a plain pod takes what a gang cannot use",
        [G("g", 5)],
        [*members("a", 8), *members("", 1)],
        {"g": 1},
        [too_large("a", 8, 5)],
    ),
    World(
        "plain pods with a higher priority come first",
        [G("g", 5)],
        [*members("a", 4), *members("", 2, priority=10)],
        {"g": 2},
        [too_large("a", 4, 3)],
    ),
    World(
        "plain pods of the same priority come after",
        [G("g", 5)],
        [*members("", 2), *members("a", 4)],
        {"g": 5},
        (),
    ),
    World(
        "the cluster's limit on nodes",
        [G("g", 8)],
        members("a", 8),
        {},
        [too_large("a", 8, 6)],
        {},
        {"max-nodes-total": "6"},
    ),
    World(
        "the cluster's limit on nodes leaves room for large nodes only",
        [G("small", 8), G("large", 8, "16")],
        members("a", 8),
        {"large": 2},
        (),
        {},
        {"max-nodes-total": "2"},
    ),
    World(
        "the cluster's limit on nodes leaves room for a mixture that begins with the large",
        [G("small", 8), G("large", 1, "16"), G("mid", 2, "8")],
        members("a", 8),
        {"large": 1, "mid": 2},
        (),
        {},
        {"max-nodes-total": "3"},
    ),
    World(
        "the cluster's limit on cores", [G("g", 8)], members("a", 8), {}, [too_large("a", 8, 4)], {},
        {"cores-total": "0:16"},
    ),
    World(
        "several pods on each node", [G("g", 3, "12")], members("a", 8), {"g": 3}
    ),
    World(
        "pods of two kinds", [G("g", 1), G("h", 1, "8")], [*members("a", 1, "8"), *members("a", 1, "4", first=1)],
        {"g": 1, "h": 1},
    ),
    World(
        "one of two kinds fits nowhere", [G("g", 2)], [*members("a", 1, "8"), *members("a", 1, "4", first=1)],
        {}, [too_large("a", 2, 1)],
    ),
    World(
        "one group a pass, large enough", [G("g", 8), G("h", 8)], members("a", 8), {"g": 8}, (), {},
        {"groups-per-pass": "one"},
    ),
    World(
        "one group a pass, and none is large enough", [G("g", 5), G("h", 3)], members("a", 8), {},
        [too_large("a", 8, 5)], {}, {"groups-per-pass": "one"},
    ),
    World(
        "gangs that do not count", [G("g", 5)], members("a", 8), {"g": 5}, (), {},
        {"gang-scheduling-enabled": "false"},
    ),
    World(
        "Cluster Autoscaler's rules", [G("g", 5)], members("a", 8), {"g": 5}, (), {},
        {"compatibility": "1.31"},
    ),
    World(
        "pods too young to be helped", [G("g", 8)],
        [*members("a", 6), *members("a", 2, first=6, meta={"creationTimestamp": "2026-01-05T11:59:59Z"})],
        {}, [incomplete("a", 8, 6)], {}, {"new-pod-scale-up-delay": "30s"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("world", WORLDS, ids=[world.name for world in WORLDS])
def test_a_gang_gets_all_its_nodes_or_none(world: World) -> None:
    run = a_pass(world.groups, world.pods, options=world.options, **world.fields)
    bought, told = outcome(run)
    assert bought == world.bought
    assert {(reason, detail) for reason, detail in told if reason.startswith("Gang")} == set(world.told)


MARKS: dict[str, Json] = {
    "schedulingGroup": {"schedulingGroup": {"podGroupName": "a"}},
    "workloadRef": {"workloadRef": {"name": "a", "podGroup": "workers"}},
    "coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "a"}},
    "coscheduling's first label": {"labels": {"pod-group.scheduling.sigs.k8s.io": "a"}},
    "Volcano": {"annotations": {"scheduling.k8s.io/group-name": "a"}},
    "Kueue": {
        "labels": {"kueue.x-k8s.io/pod-group-name": "a"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "8"},
    },
}


@pytest.mark.parametrize("marks", MARKS.values(), ids=list(MARKS))
def test_pods_of_every_scheduler_are_known_by_their_marks(marks: Json) -> None:
    plain = members("", 8, **marks)
    assert a_pass([a_small_group("g", 7)], plain).scale_ups == []
    assert outcome(a_pass([a_small_group("g", 8)], plain)).bought == {"g": 8}


def test_the_case() -> None:
    document = yaml.safe_load(CASE.read_text())
    run = passed(document)
    assert outcome(run) == Outcome({}, {too_large("train", 8, 5)})
    advice = run.reasons.held[0].advice
    assert advice is not None
    assert advice.fix == "Raise the maximum size of group gpu to 8."
    document["nodeGroups"][0]["maxSize"] = 8
    assert outcome(passed(document)) == Outcome({"gpu": 8}, set())


def shrinking(on_nodes: Sequence[int], group: Json | None, **fields: Any) -> RunAnswer:
    """Return a pass over nodes with so many pods of gang `a` each, and one node more for what has to move."""
    names = [f"n{n}" for n in range(len(on_nodes))]
    places = [name for name, count in zip(names, on_nodes, strict=True) for _ in range(count)]
    pods = [pod for n, name in enumerate(places) for pod in members("a", 1, "1", first=n, nodeName=name, **fields)]
    return a_pass(
        [{**a_small_group("g", 9), "targetSize": len(names)}],
        pods,
        options={"scale-down-unneeded-time": "0s", "scale-down-delay-after-add": "0s", "max-drain-parallelism": "5"},
        nodes=[*(a_node(name, "4") for name in names), a_node("spare", "8")],
        nodeToGroup=dict.fromkeys(names, "g"),
        jobs=[named("a")],
        podGroups=[] if group is None else [group],
        runs=2,
    )


def disrupted(mode: Any) -> Json:
    """Return the PodGroup of a gang of two with a mode of disruption."""
    return named("a", schedulingPolicy={"gang": {"minCount": 2}}, disruptionMode=mode)


COUNTED: Json = {
    "schedulingGroup": None,
    "labels": {"kueue.x-k8s.io/pod-group-name": "a"},
    "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
}
SAFE: Json = {"annotations": {SAFE_TO_EVICT: "true"}}


@pytest.mark.parametrize(
    ("on_nodes", "group", "fields", "removed"),
    [
        pytest.param((1, 1), minimum("a", 2), {}, 0, id="all of the minimum"),
        pytest.param((1, 1), minimum("a", 1), {}, 2, id="a minimum of one"),
        pytest.param((1, 1), minimum("a", 2), SAFE, 2, id="pods that are safe to evict"),
        pytest.param((1, 1), None, {}, 2, id="nothing states a minimum"),
        pytest.param((1, 1), None, COUNTED, 0, id="the pods state it"),
        pytest.param((1, 1, 1), minimum("a", 2), {}, 1, id="one more than the minimum"),
        pytest.param((1, 1, 1, 1), minimum("a", 2), {}, 2, id="two more than the minimum"),
        pytest.param((2, 2), minimum("a", 3), {}, 0, id="pods of one node leave together"),
        pytest.param((1, 1, 1), disrupted({"single": {}}), {}, 1, id="disrupted one by one"),
        pytest.param((1, 1, 1), disrupted({"all": {}}), {}, 0, id="disrupted only together"),
        pytest.param((1, 1, 1), disrupted("PodGroup"), {}, 0, id="disrupted only together, as in 1.36"),
        pytest.param((1, 1, 1), disrupted("Pod"), {}, 1, id="disrupted one by one, as in 1.36"),
    ],
)
def test_scale_down_never_leaves_a_running_gang_below_its_minimum(
    on_nodes: Sequence[int], group: Json | None, fields: Json, removed: int
) -> None:
    run = shrinking(on_nodes, group, **fields)
    assert len(run.deleted_drain) == removed
    if not removed:
        kept = run.unremovable["n0"]
        assert (kept.pod, kept.pod_reason) == ("default/a-0", BlockingReason.GANG)


def refusing(name: str, most: int) -> Json:
    """Return a group of which the cloud gives nothing."""
    return a_small_group(name, most, increaseError="no more machines")


class TestRefusedIncreases:
    WHY = "GangDoesNotFit", too_large("a", 8, 5)[1] + "; in backoff after failed scale-up: h"

    def test_what_a_gang_cannot_use_is_taken_back(self) -> None:
        run = a_pass([a_small_group("g", 5), refusing("h", 3)], members("a", 8))
        assert run.target_sizes == {"g": 0, "h": 0}
        assert [(change.group, change.increase) for change in run.target_decreases] == [("g", -5)]
        assert run.pods_triggered_scale_up == []
        assert outcome(run).told == {self.WHY}

    def test_another_group_may_give_the_rest(self) -> None:
        run = a_pass([a_small_group("g", 5), refusing("h", 3), a_small_group("i", 3, "5")], members("a", 8))
        assert run.target_sizes == {"g": 5, "h": 0, "i": 3}
        assert run.target_decreases == []

    def test_machines_of_other_pods_stay(self) -> None:
        pods = [*members("", 2, priority=10), *members("a", 6)]
        run = a_pass([a_small_group("g", 5), refusing("h", 3)], pods)
        assert run.target_sizes == {"g": 2, "h": 0}
        assert sorted(run.pods_triggered_scale_up) == ["default/plain-0", "default/plain-1"]

    def test_the_next_pass_buys_nothing_either(self) -> None:
        run = a_pass([a_small_group("g", 5), refusing("h", 3)], members("a", 8), runs=2)
        assert run.target_sizes == {"g": 0, "h": 0}
        assert (run.scale_ups, run.target_decreases) == ([], [])
        assert outcome(run).told == {self.WHY}


class TestMachinesThatFailLater:
    """Five machines come, the other three do not; the five are given back."""

    SMALL = a_small_group("g", 5)

    def test_after_the_cloud_asked_to_wait(self) -> None:
        fault = {"fails": "increase", "error": "Throttled", "times": 1}
        other = {**a_small_group("h", 3), "faults": [fault]}
        first, second = runs([self.SMALL, other], members("a", 8), 2)
        assert (first.target_sizes, second.target_sizes) == ({"g": 5, "h": 0}, {"g": 0, "h": 0})
        assert outcome(second).told == {TestRefusedIncreases.WHY}

    def test_when_the_rest_has_no_capacity(self) -> None:
        other = a_small_group("h", 3, stockOutAfter=0)
        first, second, third = runs([self.SMALL, other], members("a", 8), 3)
        assert first.target_sizes == {"g": 5, "h": 3}
        assert second.target_sizes == {"g": 0, "h": 0}
        assert outcome(second).told == {TestRefusedIncreases.WHY}
        assert (third.target_sizes, third.scale_ups) == ({"g": 0, "h": 0}, [])

    def test_unless_another_group_gives_the_rest(self) -> None:
        others = [a_small_group("h", 3, stockOutAfter=0), a_small_group("i", 3, "5")]
        _, second = runs([self.SMALL, *others], members("a", 8), 2)
        assert second.target_sizes == {"g": 5, "h": 0, "i": 3}

    def test_unless_other_pods_use_them(self) -> None:
        other = a_small_group("h", 3, stockOutAfter=0)
        pods = [*members("a", 8), *members("", 2, first=0)]
        _, second = runs([self.SMALL, other], pods, 2)
        assert second.target_sizes == {"g": 2, "h": 0}

    def test_machines_that_a_person_asked_for_stay(self) -> None:
        groups = [{**self.SMALL, "targetSize": 4}, a_small_group("h", 3, stockOutAfter=0)]
        _, second = runs(groups, members("a", 8), 2)
        assert second.target_sizes == {"g": 4, "h": 0}


class TestGangsThatWait:
    """What a person reads of a gang before it runs."""

    def test_one_that_does_not_fit(self) -> None:
        (gang,) = a_pass([{**a_small_group("g", 5), "pricePerHour": 3}], members("a", 8)).gangs
        assert (gang.gang, gang.wanted, gang.possible, gang.pending) == ("default/a", 8, 5, 8)
        assert (gang.state, gang.detail) == (PodState.STUCK, "8 wanted, 5 possible")
        assert (gang.nodes, gang.node_price) == ({}, None)

    def test_one_that_is_bought_for(self) -> None:
        groups = [{**a_small_group("g", 5), "pricePerHour": 3}, {**a_small_group("h", 3), "pricePerHour": 2}]
        (gang,) = a_pass(groups, members("a", 8)).gangs
        assert (gang.state, gang.detail) == (PodState.ON_ITS_WAY, "8 wanted, 8 possible")
        assert (gang.nodes, gang.node_price) == ({"g": 5, "h": 3}, 21)

    def test_one_that_lacks_pods(self) -> None:
        (gang,) = a_pass([a_small_group("g", 9)], members("a", 5), podGroups=[minimum("a", 8)]).gangs
        assert (gang.state, gang.detail) == (PodState.WAITING, "8 wanted, 5 exist and ask for a node")

    def test_one_whose_nodes_are_on_their_way(self) -> None:
        (gang,) = a_pass([a_small_group("g", 8)], members("a", 8), runs=2).gangs
        assert (gang.state, gang.possible, gang.nodes) == (PodState.ON_ITS_WAY, 8, {})

    @pytest.mark.parametrize(
        ("pods", "options"),
        [
            pytest.param([*members("a", 2, "1", nodeName="n"), *members("a", 1, first=2)], {}, id="one that runs"),
            pytest.param(members("", 3), {}, id="plain pods"),
            pytest.param(members("a", 8), {"gang-scheduling-enabled": "false"}, id="gangs do not count"),
        ],
    )
    def test_others_are_not_listed(self, pods: Sequence[Json], options: Json) -> None:
        run = a_pass([a_small_group("g", 5)], pods, options=options, podGroups=[minimum("a", 2)], **ON_NODE)
        assert run.gangs == []
