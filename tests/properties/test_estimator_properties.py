"""The estimator against packing pod by pod over the plain definition of the scheduler's filters."""

from enum import StrEnum

import pytest

from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import Pod
from autoscaler.scaleup.estimator import PodGroup, estimate
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.overlay import Trial
from tests.builders import a_pod, over, replicas
from tests.properties.random_clusters import ZONE, Dice, random_case, slow_twin
from tests.properties.slow_estimator import slow_estimate
from tests.seeds import seeds


class Kind(StrEnum):
    PLAIN = "plain pods"
    MIXED = "pods about other pods"
    SPREAD = "pods spread over hosts"


def random_groups(dice: Dice, kind: Kind) -> list[PodGroup]:
    groups = []
    for number in range(dice.random.randint(1, 5)):
        name = f"pending-{number}"
        example = spread_pod(dice, name) if kind is Kind.SPREAD else dice.replica(name, plain=kind is Kind.PLAIN)
        groups.append(PodGroup(example.cls, tuple(replicas(example, dice.random.choice((1, 2, 5, 12))))))
    return groups


def spread_pod(dice: Dice, name: str) -> Pod:
    """Return a pod whose replicas keep apart, by hosts first and perhaps by zones too."""
    own = {"app": dice.random.choice("xyz")}
    constraints = [over(HOSTNAME, labels=own, max_skew=dice.random.randint(1, 2))]
    if dice.maybe(0.3):
        constraints.append(over(ZONE, labels=own, max_skew=dice.random.randint(1, 3)))
    return a_pod(
        name,
        cpu=dice.random.choice(("250m", "1")),
        labels=own,
        spread=dice.random.sample(constraints, len(constraints)),
    )


@pytest.mark.parametrize("topology_fallback", [True, False], ids=["with fallback", "without fallback"])
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("seed", seeds(150))
def test_an_estimate_is_that_of_packing_pod_by_pod(seed: int, kind: Kind, topology_fallback: bool) -> None:
    dice, case = Dice(seed), random_case(seed, nodes=4, pods=6, plain=kind is not Kind.MIXED)
    placer = Placer(Trial(case.view))
    for _ in range(2):
        groups = random_groups(dice, kind)
        template = dice.random.choice(case.templates)
        limit = dice.random.choice((None, None, 0, 1, 2, 5))
        twin = slow_estimate(slow_twin(case.view), template, groups, limit, topology_fallback=topology_fallback)
        found = estimate(placer, template, groups, limit, topology_fallback=topology_fallback)
        assert (found.nodes, [pod.name for pod in found.pods]) == twin
