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
