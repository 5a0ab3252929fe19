"""Gangs in random worlds: none is bought in part, and one is bought wherever any sizes of the groups would do."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random

import pytest

from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import RunAnswer
from autoscaler.simulator.play import play
from tests.manifests import Json, a_group, a_node, a_pod, a_template, named

SEEDS = range(60)


def a_world(dice: Random, gangs: int, *, alike: bool) -> Json:
    """Return a random world of one pass; with `alike` the pods of a gang are equal, and only gangs wait."""
    groups = [
        a_group(f"g{n}", a_template(str(dice.choice((2, 4, 8)))), maxSize=dice.randint(0, 3))
        for n in range(dice.randint(1, 3))
    ]
    if not alike:
        for group in groups:
            group |= {"increaseError": "no more machines"} if dice.random() < 0.25 else {}
    pods = []
    minimums = []
    for n in range(gangs):
        count, cpu = dice.randint(2, 6), dice.choice((1, 2, 3, 4))
        for m in range(count):
            size = str(cpu if alike else dice.choice((1, 2, 4)))
            mark = {"schedulingGroup": {"podGroupName": f"gang{n}"}}
            pods.append(a_pod(f"gang{n}-{m}", size, owner=f"Job/gang{n}", labels={}, **mark))
        if dice.random() < 0.5:
            minimums.append(named(f"gang{n}", schedulingPolicy={"gang": {"minCount": dice.randint(1, count + 1)}}))
    if not alike:
        pods += [a_pod(f"plain-{n}", str(dice.choice((1, 2, 4))), owner="Job/plain") for n in range(dice.randint(0, 3))]
        dice.shuffle(pods)
    return {
        "now": "2026-01-05T12:00:00Z",
        "options": {
            "expander": dice.choice(("least-waste", "most-pods", "least-nodes", "random")),
            "max-nodes-total": str(dice.choice((0, 0, 3, 4))),
        },
        "nodeGroups": groups,
        "nodes": [a_node("n", "4")] if dice.random() < 0.5 else [],
        "podGroups": minimums,
        "pods": pods,
    }


def answered(world: Json) -> RunAnswer:
    return play(decode(json.dumps(world).encode(), "world")).runs[0]


def minimums_of(world: Json) -> dict[str, int]:
    """Return the minimum of each gang of a world."""
    sizes: dict[str, int] = {}
    for pod in world["pods"]:
        if "schedulingGroup" in pod["spec"]:
            name = pod["spec"]["schedulingGroup"]["podGroupName"]
            sizes[name] = sizes.get(name, 0) + 1
    stated = {
        one["metadata"]["name"]: one["spec"]["schedulingPolicy"]["gang"]["minCount"] for one in world["podGroups"]
    }
    return sizes | stated


def starting(run: RunAnswer, gang: str) -> tuple[int, int]:
    """Return how many pods of a gang get new nodes, and how many fit on nodes that exist."""
    new = sum(key.startswith(f"default/{gang}-") for key in run.pods_triggered_scale_up)
    fits = [key for waiting in run.reasons.waiting for key in waiting.pods]
    return new, sum(key.startswith(f"default/{gang}-") for key in fits)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_gang_is_bought_in_part(seed: int) -> None:
    world = a_world(Random(seed), 2, alike=False)
    run = answered(world)
    for gang, least in minimums_of(world).items():
        new, present = starting(run, gang)
        assert new == 0 or new + present >= least, f"{gang}: {new} new and {present} present, {least} wanted"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gang_is_bought_wherever_that_is_possible(seed: int) -> None:
    world = a_world(Random(seed), 1, alike=True)
    run = answered(world)
    new, present = starting(run, "gang0")
    least = minimums_of(world)["gang0"]
    if present < least:
        assert (new > 0) is possible(world, least - present), f"{new} new and {present} present, {least} wanted"


def possible(world: Json, missing: int) -> bool:
    """Whether any sizes of the groups would hold so many more of the equal pods of a world, tried one by one."""
    asked = [int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for pod in world["pods"]]
    if missing > len(asked):
        return False
    most = int(world["options"]["max-nodes-total"])
    return any(
        (not most or sum(sizes.values()) + len(world["nodes"]) <= most) and held(world, sizes, asked[0]) >= missing
        for sizes in all_sizes(world["nodeGroups"])
    )


def all_sizes(groups: Sequence[Json]) -> Iterator[Mapping[str, int]]:
    for sizes in product(*(range(group["maxSize"] + 1) for group in groups)):
        yield {group["id"]: size for group, size in zip(groups, sizes, strict=True)}


def held(world: Json, sizes: Mapping[str, int], cpu: int) -> int:
    """Return how many pods new nodes hold."""
    on_each = {group["id"]: int(group["template"]["status"]["capacity"]["cpu"]) // cpu for group in world["nodeGroups"]}
    return sum(size * on_each[group] for group, size in sizes.items())


ZONE = "topology.kubernetes.io/zone"


def a_zonal_world(dice: Random) -> Json:
    """Return a random world of two passes with gangs that stay in one zone, and some failures on the way."""
    world = a_world(dice, 2, alike=False)
    for group in world["nodeGroups"]:
        group["template"]["metadata"] = {"labels": {ZONE: dice.choice("ab")}}
        if dice.random() < 0.25:
            group["stockOutAfter"] = dice.randint(0, 2)
    for node in world["nodes"]:
        node["metadata"]["labels"] = {ZONE: dice.choice("ab")}
    sizes = minimums_of(world)
    world["podGroups"] = []
    for name, size in sizes.items():
        spec: Json = {"schedulingPolicy": {"gang": {"minCount": max(2, size)}}}
        spec |= {"schedulingConstraints": {"topology": [{"key": ZONE}]}} if dice.random() < 0.8 else {}
        world["podGroups"].append(named(name, **spec))
    for group in world["nodeGroups"]:
        group["pricePerHour"] = dice.randint(1, 5)
    world["options"] |= {"expander": dice.choice(("cost", "least-waste", "least-nodes", "random"))}
    return {**world, "runs": 2, "step": "30s"}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_gang_is_bought_in_part_or_over_two_zones(seed: int) -> None:
    world = a_zonal_world(Random(seed))
    zones = {group["id"]: group["template"]["metadata"]["labels"][ZONE] for group in world["nodeGroups"]}
    bound = {one["metadata"]["name"] for one in world["podGroups"] if "schedulingConstraints" in one["spec"]}
    least = minimums_of(world)
    run = play(decode(json.dumps(world).encode(), "world")).runs[0]
    for gang in least:
        new, present = starting(run, gang)
        assert new == 0 or new + present >= least[gang], f"{gang}: {new} new and {present} present"
        groups = {name for helped in run.reasons.helped if _is_for(helped.pods, gang) for name in helped.groups}
        assert gang not in bound or len({zones[name] for name in groups}) <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_gang_was_bought_in_vain_goes_in_the_next_pass(seed: int) -> None:
    """Where only gangs wait, and none can start, no machine stays on its way in groups that have not failed.

    What is left of a group whose machines fail no longer counts as on its way, so scale-down removes it when it comes.
    """
    world = a_zonal_world(Random(seed))
    world["pods"] = [pod for pod in world["pods"] if "schedulingGroup" in pod["spec"]]
    run = play(decode(json.dumps(world).encode(), "world")).runs[-1]
    waiting = {key for pods in run.reasons.waiting for key in pods.pods}
    helped = {key for pods in run.reasons.helped for key in pods.pods}
    if not waiting | helped:
        sound = [group["id"] for group in world["nodeGroups"] if "stockOutAfter" not in group]
        assert [name for name in sound if run.target_sizes[name]] == []


def _is_for(pods: Sequence[str], gang: str) -> bool:
    return any(key.startswith(f"default/{gang}-") for key in pods)
