"""Gangs whose nodes share a label, through whole passes: a table of worlds, and what each has to buy.

The answers follow from KEP-4671 and the topology constraint of PodGroups: all pods run on nodes with one value of the
label, and where some of them run already, the others follow.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from autoscaler.objects.node import HOSTNAME
from tests.devices import a_request, claim_template_form, slice_form
from tests.gangs import RACK, ZONE, World, a_pass, a_small_group, in_zone, members, outcome, together, too_large
from tests.manifests import Json, a_group, a_node, a_pod, a_template, named

REGION = "topology.kubernetes.io/region"


def a_zonal_node(zone: str, cpu: str, name: str = "n") -> Json:
    return a_node(f"{name}-{zone}", cpu, meta={"labels": {ZONE: zone}})


def priced(group: Json, price: float) -> Json:
    return {**group, "pricePerHour": price}


def spanning(name: str, most: int, zones: Sequence[str], **fields: Any) -> Json:
    """Return a group whose nodes come in several zones of one region."""
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    template = {"labels": {REGION: "r"}, "capacity": capacity, "zones": list(zones)}
    return a_group(name, template, maxSize=most, **fields)


def in_group(name: str, group: str, labels: Json) -> Json:
    """Return a node of a group."""
    return {**a_node(name, "4", meta={"labels": labels}), "group": group}


PRICES = {"cpuPerHour": 0.5, "memoryGiBPerHour": 0.1}
SHARE = f" on nodes that share {ZONE}"
IN_ONE_ZONE = [
    World("no zone is large enough", [in_zone("a", 5), in_zone("b", 6)], members("j", 8), {},
          [("GangDoesNotFit", too_large("j", 8, 6)[1] + SHARE)]),
    World("one zone is large enough", [in_zone("a", 5), in_zone("b", 8)], members("j", 8), {"b": 8}),
    World("two groups of one zone", [in_zone("a", 5), in_zone("b", 5, "z"), in_zone("c", 3, "z")], members("j", 8),
          {"b": 5, "c": 3}),
    World("room in another zone does not help", [in_zone("a", 7)], members("j", 8), {},
          [("GangDoesNotFit", too_large("j", 8, 7)[1] + SHARE)], {"nodes": [a_zonal_node("b", "4")]}),
    World("room in the same zone helps", [in_zone("a", 6), in_zone("b", 7)], members("j", 8), {"b": 7}, (),
          {"nodes": [a_zonal_node("b", "4")]}),
    World("pods that would fit elsewhere move to the gang's zone", [in_zone("a", 8)], members("j", 8), {"a": 8}, (),
          {"nodes": [a_zonal_node("b", "16")]}),
    World("the zone in which one of its pods runs", [in_zone("a", 8), in_zone("b", 8)],
          [*members("j", 1, nodeName="n-b"), *members("j", 7, first=1)], {"b": 7}, (),
          {"nodes": [a_zonal_node("b", "4")]}),
    World("two zones are large enough: the cheaper one, by cost",
          [priced(in_zone("a", 8), 3), priced(in_zone("b", 8), 2)],
          members("j", 8), {"b": 8}, (), {}, {"expander": "cost"}),
    World("two zones are large enough: the cheaper one, by price",
          [priced(in_zone("a", 8), 3), priced(in_zone("b", 8), 2)],
          members("j", 8), {"b": 8}, (), {"prices": PRICES}, {"expander": "price"}),
    World("two zones are large enough: the one with less waste", [in_zone("a", 8, cpu="5"), in_zone("b", 8)],
          members("j", 8), {"b": 8}),
    World("two zones are large enough: the one that needs fewer nodes", [in_zone("a", 8), in_zone("b", 8, cpu="16")],
          members("j", 8), {"b": 2}, (), {}, {"expander": "least-nodes"}),
    World("two zones are large enough: the one that people rank higher", [in_zone("a", 8), in_zone("b", 8)],
          members("j", 8), {"b": 8}, (), {"priorityConfig": "10: [a]\n20: [b]"}, {"expander": "priority"}),
    World("room that exists makes a zone cheaper", [priced(in_zone("a", 8), 2), priced(in_zone("b", 8), 2)],
          members("j", 8), {"b": 7}, (), {"nodes": [a_zonal_node("b", "4")]}, {"expander": "cost"}),
    World("the total of a zone counts, not its cheapest group",
          [priced(in_zone("a", 5, "x"), 1), priced(in_zone("b", 3, "x"), 9), priced(in_zone("c", 8, "y"), 2)],
          members("j", 8), {"c": 8}, (), {}, {"expander": "cost"}),
    World("the zone in which more than the minimum can run", [priced(in_zone("a", 8), 1), priced(in_zone("b", 9), 2)],
          members("j", 9), {"b": 9}, (), {}, {"expander": "cost"}),
    World("all fit on nodes that exist, in one zone", [in_zone("a", 8)], members("j", 8), {}, (),
          {"nodes": [a_zonal_node("b", "16"), a_zonal_node("c", "32")]}),
    World("all fit on nodes that exist, but not in one zone", [in_zone("a", 8)], members("j", 8), {"a": 8}, (),
          {"nodes": [a_zonal_node("b", "16"), a_zonal_node("c", "16")]}),
    World("pods beyond the minimum follow into the zone of the others", [in_zone("a", 8), in_zone("b", 8)],
          [*members("j", 8, nodeName="n-b"), *members("j", 2, first=8)], {"b": 2}, (),
          {"nodes": [a_zonal_node("b", "32")]}),
    World("pods beyond the minimum get no node in another zone", [in_zone("a", 8)],
          [*members("j", 8, nodeName="n-b"), *members("j", 2, first=8)], {}, (),
          {"nodes": [a_zonal_node("b", "32")]}),
    World("a group in several zones gives the nodes that come in one", [spanning("g", 9, "ab")], members("j", 8), {},
          [("GangDoesNotFit", too_large("j", 8, 1)[1] + SHARE)]),
    World("a group in several zones that makes up for a zone that lags", [spanning("g", 20, "ab", targetSize=8)],
          [*members("j", 8), *(a_pod(f"busy-{n}", "4", nodeName=f"full-{n}") for n in range(8))], {"g": 8}, (),
          {"nodes": [in_group(f"full-{n}", "g", {ZONE: "a", REGION: "r"}) for n in range(8)]}),
    World("a group that says nothing of its zone", [a_small_group("g", 8)], members("j", 8), {},
          [("GangDoesNotFit", too_large("j", 8, 0)[1] + SHARE)]),
]  # fmt: skip


@pytest.mark.parametrize("world", IN_ONE_ZONE, ids=[world.name for world in IN_ONE_ZONE])
def test_the_nodes_of_a_gang_share_a_label(world: World) -> None:
    run = a_pass(world.groups, world.pods, options=world.options, **{**together("j", 8), **members_of(world.fields)})
    bought, told = outcome(run)
    assert bought == world.bought
    assert {(reason, detail) for reason, detail in told if reason.startswith("Gang")} == set(world.told)


def members_of(fields: Json) -> Json:
    """Return the fields of a scenario with the nodes that name their group."""
    nodes = [{key: value for key, value in node.items() if key != "group"} for node in fields.get("nodes", ())]
    owned = {node["metadata"]["name"]: node["group"] for node in fields.get("nodes", ()) if "group" in node}
    return {**fields, "nodes": nodes, "nodeToGroup": owned} if owned else fields


@pytest.mark.parametrize(
    ("key", "groups", "bought"),
    [
        pytest.param(RACK, [in_zone("a", 5, key=RACK), in_zone("b", 8, key=RACK)], {"b": 8}, id="a rack"),
        pytest.param(REGION, [spanning("g", 8, "abc")], {"g": 8}, id="a region of several zones"),
        pytest.param(HOSTNAME, [in_zone("a", 8, cpu="28"), in_zone("b", 8, cpu="32")], {"b": 1}, id="one node"),
        pytest.param(HOSTNAME, [in_zone("a", 8, cpu="28")], {}, id="no node is large enough"),
    ],
)
def test_the_label_may_be_any(key: str, groups: Sequence[Json], bought: dict[str, int]) -> None:
    assert outcome(a_pass(groups, members("j", 8), **together("j", 8, key))).bought == bought


def test_a_gang_on_one_node_waits_for_the_node_that_comes() -> None:
    run = a_pass([in_zone("a", 8, cpu="32")], members("j", 8), **together("j", 8, HOSTNAME), runs=3)
    assert (run.scale_ups, run.target_sizes) == ([], {"a": 1})


def test_nobody_knows_the_rack_of_the_next_node_of_a_group_that_is_in_two() -> None:
    nodes = [in_group("n0", "g", {RACK: "x"}), in_group("n1", "g", {RACK: "y"})]
    run = a_pass(
        [{**in_zone("g", 10, "x", key=RACK), "targetSize": 2}],
        members("j", 8),
        **{**together("j", 8, RACK), **members_of({"nodes": nodes})},
    )
    assert outcome(run) == ({}, {("GangDoesNotFit", too_large("j", 8, 1)[1] + f" on nodes that share {RACK}")})


def test_policy_basic_keeps_pods_together_and_starts_them_one_by_one() -> None:
    apart = named("j", schedulingPolicy={"basic": {}}, schedulingConstraints={"topology": [{"key": ZONE}]})
    run = a_pass([in_zone("a", 3), in_zone("b", 5)], members("j", 8), podGroups=[apart])
    assert outcome(run).bought == {"b": 5}


EIGHT_GPUS = {"nvidia.com/gpu": "8"}
CLAIM: Json = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "eight"}]}


def of_gpus(zone: str, most: int) -> Json:
    return a_group(zone, a_template("4", labels={ZONE: zone}, more=EIGHT_GPUS), maxSize=most)


@pytest.mark.parametrize(
    ("most", "bought"),
    [
        pytest.param((8, 7), {"a": 8}, id="one zone has room for all"),
        pytest.param((7, 7), {}, id="none has"),
        pytest.param((5, 8), {"b": 8}, id="the other zone has"),
    ],
)
class TestEightTimesEightGpusInOneZone:
    def test_by_extended_resources(self, most: tuple[int, int], bought: dict[str, int]) -> None:
        groups = [of_gpus(zone, room) for zone, room in zip("ab", most, strict=True)]
        run = a_pass(groups, members("j", 8, "1", more=EIGHT_GPUS), **together("j", 8))
        assert outcome(run).bought == bought

    def test_by_claims(self, most: tuple[int, int], bought: dict[str, int]) -> None:
        """A node of each group is there, with all its devices taken, and shows what a new one brings along."""
        names = [f"n-{zone}" for zone in "ab"]
        run = a_pass(
            [
                a_group(zone, a_template("4", labels={ZONE: zone}), maxSize=room + 1, targetSize=1)
                for zone, room in zip("ab", most, strict=True)
            ],
            [
                *members("j", 8, "1", **CLAIM),
                *(a_pod(f"busy-{name}", "4", nodeName=name) for name in names),
            ],
            nodes=[a_zonal_node(zone, "4") for zone in "ab"],
            nodeToGroup={f"n-{zone}": zone for zone in "ab"},
            resourceSlices=[slice_form(name, devices=8) for name in names],
            resourceClaimTemplates=[claim_template_form("eight", a_request(count=8))],
            **together("j", 8),
        )
        assert outcome(run).bought == bought


FIXES = [
    pytest.param([in_zone("a", 5), in_zone("b", 6)], ZONE, [], "Raise the maximum size of group a to 8.", id="a zone"),
    pytest.param([a_small_group("g", 5), in_zone("b", 6)], ZONE, [], "Raise the maximum size of group b to 8.",
                 id="a group that says nothing of its zone would not help"),
    pytest.param([in_zone("a", 5), in_zone("b", 6)], ZONE, members("j", 1, nodeName="n-b"),
                 "Raise the maximum size of group b to 7.", id="the zone where a pod runs"),
    pytest.param([in_zone("a", 5)], HOSTNAME, [],
                 "Make more of what it asks for available, or lower the minimum of the gang to 1.",
                 id="no larger group makes a node larger"),
]  # fmt: skip


@pytest.mark.parametrize(("groups", "key", "there", "fix"), FIXES)
def test_what_would_let_it_start(groups: Sequence[Json], key: str, there: Sequence[Json], fix: str) -> None:
    pods = [*there, *members("j", 8 - len(there), first=len(there))]
    run = a_pass(groups, pods, nodes=[a_zonal_node("b", "4")] if there else [], **together("j", 8, key))
    advice = run.reasons.held[0].advice
    assert advice is not None
    assert advice.fix == fix
