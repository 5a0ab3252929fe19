"""Every pending pod of every pass is in exactly one list: helped, waiting, stuck or held; and what holds it is true."""

import json
import random
from typing import Any

import pytest

from autoscaler.reasons import PodVerdict, ScaleUpResult
from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import RunAnswer
from autoscaler.simulator.play import play
from tests.properties.random_scenarios import random_scenario
from tests.seeds import seeds

SEEDS, EACH = 8, 40
LIMITED = ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL.value


def crowded(seed: int) -> dict[str, Any]:
    """A random scenario with more pods than it may have nodes for, as often as not."""
    dice, content = random.Random(seed), random_scenario(seed)
    pods = [pod for pod in content["pods"] if "nodeName" not in pod["spec"]]
    for number, pod in enumerate(pods * dice.choice((0, 1, 4))):
        metadata = {**pod["metadata"], "name": f"{pod['metadata']['name']}-more-{number}"}
        content["pods"].append({**pod, "metadata": metadata})
    options = content["options"]
    options["groups-per-pass"] = dice.choice(("one", "all"))
    if dice.random() < 0.5:
        options["max-nodes-total"] = str(len(content["nodes"]) + dice.randint(0, 3))
    if dice.random() < 0.3:
        options["compatibility"] = "1.31"
        del options["groups-per-pass"]
    return {**content, "runs": 3}


def lists(run: RunAnswer) -> list[tuple[str, str]]:
    """Each pod with the list that it is in."""
    reasons = run.reasons
    return [
        *((pod, one.reason.value) for one in reasons.waiting for pod in one.pods),
        *((pod, PodVerdict.HELPED.value) for one in reasons.helped for pod in one.pods),
        *((pod, PodVerdict.NO_GROUP_FITS.value) for one in reasons.unschedulable for pod in one.pods),
        *((pod, one.reason) for one in reasons.held for pod in one.pods),
    ]


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_every_pending_pod_is_in_one_list(seed: int) -> None:
    seen: set[str] = set()
    for number in range(seed * EACH, (seed + 1) * EACH):
        content = crowded(number)
        pending = sorted(
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in content["pods"]
            if "nodeName" not in pod["spec"]
        )
        limit = int(content["options"].get("max-nodes-total", 0))
        for run in play(decode(json.dumps(content).encode(), f"{number}.json")).runs:
            where = f"scenario {number}, run {run.run}"
            told = lists(run)
            assert sorted(pod for pod, _ in told) == pending, where
            reasons = {reason for _, reason in told}
            seen |= reasons
            undisturbed = run.run == 0 and not (run.scale_up_error or run.cloud_deletes or run.target_decreases)
            if undisturbed and LIMITED in reasons:
                assert sum(run.target_sizes.values()) + unmanaged(content) >= limit > 0, where
            sizes = {group["id"]: group["maxSize"] for group in content["nodeGroups"]}
            room = [group for group, size in run.target_sizes.items() if size < sizes[group]]
            assert PodVerdict.NEXT_PASS.value not in reasons or room, where
    assert {PodVerdict.HELPED.value, PodVerdict.NO_GROUP_FITS.value, LIMITED} <= seen


def unmanaged(content: dict[str, Any]) -> int:
    """How many nodes are in no group."""
    return sum(1 for node in content["nodes"] if node["metadata"]["name"] not in content["nodeToGroup"])
