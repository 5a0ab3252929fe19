"""Hours of random churn and faults against a live cluster: what may never happen does not, and it all comes to rest."""

from typing import Any

import pytest

from autoscaler.observe.pod_summary import pod_statuses
from autoscaler.reasons import PodVerdict, ScaleUpResult
from tests.properties.random_worlds import DISABLED, RandomWorld
from tests.seeds import seeds
from tests.worlds import tainted

HOUR_S = 3600.0
DEVICES: dict[str, Any] = {"devices": True, "compatibility": "head"}


@pytest.mark.parametrize(
    ("seed", "hours", "every_s", "options"),
    [
        *(pytest.param(seed, 2, 120.0, {}, id=f"{seed}: two hours of churn") for seed in seeds(10)),
        *(pytest.param(seed, 1, 60.0, DEVICES, id=f"{seed}: an hour with devices") for seed in seeds(4)),
        pytest.param(4, 24, 600.0, {}, id="4: a day"),
    ],
)
def test_nothing_needed_is_lost_nothing_needless_stays_and_it_comes_to_rest(
    seed: int, hours: int, every_s: float, options: dict[str, Any]
) -> None:
    random = RandomWorld(seed, **options)
    with random.world as world:
        random.churn(hours * HOUR_S, every_s=every_s)
        random.settle()
        settled, evicted = len(world.calls), random.auditor.evicted
        world.run_for(HOUR_S)

        assert random.auditor.wrongs == []
        assert [call for call in world.calls[settled:] if call.delta] == []
        assert random.auditor.evicted == evicted
        assert (tainted(world), world.cluster.failures, world.reports[-1].error) == ([], [], "")
        assert useless(random) == []
        assert lost(random) == []
        assert put_off(random) == []


def put_off(random: RandomWorld) -> list[str]:
    """Return pods that are told to wait for another pass although nothing happens any more."""
    vague = (PodVerdict.NEXT_PASS, ScaleUpResult.NOT_TRIED, ScaleUpResult.NO_OPTIONS)
    return [f"{pod.name}: {pod.verdict}" for pod in pod_statuses(random.world.reports[-1]) if pod.verdict in vague]


def useless(random: RandomWorld) -> list[str]:
    """Return groups that are above their minimum although a node of theirs runs nothing and may go."""
    world = random.world
    used = {pod["spec"].get("nodeName") for pod in world.storage.list("pods") if is_live(pod)}
    found = []
    for node in world.storage.list("nodes"):
        metadata = node["metadata"]
        group = world.cloud.group(metadata["labels"]["pool"])
        disabled = (metadata.get("annotations") or {}).get(DISABLED) == "true"
        if metadata["name"] not in used and not disabled and group.target_size() > group.min_size:
            found.append(metadata["name"])
    return found


def lost(random: RandomWorld) -> list[str]:
    """Return workloads that do not have as many pods as they want; pods that wait for a place count."""
    pods = [pod for pod in random.world.storage.list("pods") if is_live(pod)]
    found = []
    for workload in random.world.storage.list("deployments"):
        name, wanted = workload["metadata"]["name"], workload["spec"]["replicas"]
        if sum(pod["metadata"]["labels"].get("app") == name for pod in pods) != wanted:
            found.append(name)
    return found


def is_live(pod: dict[str, object]) -> bool:
    """Whether a pod runs, or is to run."""
    status = pod.get("status")
    return not isinstance(status, dict) or status.get("phase") not in ("Succeeded", "Failed")
