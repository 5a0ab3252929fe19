"""The points of preferences against the plain definition of the scheduler's scores, in random clusters."""

from typing import Any

import numpy as np
import pytest

from autoscaler.objects.pod import PodClass
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.overlay import Trial
from tests.builders import a_pod
from tests.properties.random_clusters import NAMESPACES, Case, Dice, add_to_both, random_case, slow_twin
from tests.properties.slow_preferences import slow_points
from tests.properties.slow_scheduler import SlowCluster
from tests.seeds import seeds


def wishing(dice: Dice) -> PodClass:
    """Return a class with one or two wishes of each kind, or none."""
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"

    def weight() -> int:
        return dice.random.choice((1, 10, 50, 100))

    def near() -> list[Any]:
        return [{"weight": weight(), "podAffinityTerm": dice.affinity_term()} for _ in dice.several(0.5)]

    nodes = [{"weight": weight(), "preference": dice.node_term()} for _ in dice.several(0.7)]
    affinity = {
        "nodeAffinity": {preferred: nodes},
        "podAffinity": {preferred: near()},
        "podAntiAffinity": {preferred: near()},
    }
    spread = [{**dice.constraint(), "whenUnsatisfiable": "ScheduleAnyway"} for _ in dice.several(0.7)]
    for constraint in spread:
        constraint.pop("minDomains", None)
    return a_pod(
        namespace=dice.random.choice(tuple(NAMESPACES)),
        cpu="100m",
        labels=dice.app(),
        spread=spread,
        tolerations=[dice.toleration() for _ in dice.several(0.3)],
        spec={"affinity": affinity},
    ).cls


def check_agreement(trial: Trial, twin: SlowCluster, placer: Placer, cls: PodClass) -> None:
    candidates = [at for at in twin.existing() if twin.fits(cls, at)]
    if not candidates:
        return
    points = placer.preferences.points(cls, np.array(candidates))
    assert {plugin.value: given.tolist() for plugin, given in points.items()} == {
        plugin: given for plugin, given in slow_points(twin, cls, candidates).items() if len(set(given)) > 1
    }


@pytest.mark.parametrize("seed", seeds(150))
def test_points_agree_with_the_definition_as_pods_and_nodes_come(seed: int) -> None:
    dice, case = Dice(seed), random_case(seed)
    wishes = [wishing(dice) for _ in range(4)]
    trial, twin = Trial(case.view), slow_twin(case.view)
    placer = Placer(trial)
    for _ in range(4):
        for cls in wishes:
            check_agreement(trial, twin, placer, cls)
        change_both(trial, twin, case, wishes, dice)


def change_both(trial: Trial, twin: SlowCluster, case: Case, wishes: list[PodClass], dice: Dice) -> None:
    if dice.maybe(0.4) or not twin.existing():
        add_to_both(trial, twin, dice.random.choice(case.templates), dice.random.randint(1, 2))
    else:
        cls, at = dice.random.choice([*case.classes, *wishes]), dice.random.choice(twin.existing())
        trial.place(cls, at)
        twin.place(cls, at)
