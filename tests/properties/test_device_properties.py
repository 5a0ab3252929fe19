"""How much of the nodes' devices is allocated, held to its plain definition."""

import numpy as np
import pytest

from autoscaler.objects.devices import ResourceClaim, ResourceSlice
from autoscaler.objects.pod import Pod
from autoscaler.scaledown.arrivals import arrived
from autoscaler.scaledown.devices import device_uses
from autoscaler.scaledown.utilization import UncountedPods, utilization
from autoscaler.snapshot.cluster import ClusterView, Related, view_of
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES
from autoscaler.snapshot.overlay import Trial
from tests.builders import a_node, a_pod
from tests.devices import GPUS, NICS, Json, a_claim, a_part, a_slice, claiming, with_devices
from tests.properties.random_clusters import Dice
from tests.properties.slow_devices import slow_device_share
from tests.seeds import seeds
from tests.unit.scaledown.pieces import NOW

NODES = [a_node(f"n{number}", cpu="4") for number in range(4)]
NAMES = [node.name for node in NODES]
DRIVERS = (GPUS, NICS)


def slices(dice: Dice) -> list[ResourceSlice]:
    pick = dice.random
    found = []
    for number in range(pick.randint(0, 10)):
        cards = {f"card-{card}": {"memory": pick.choice((0, 40, 80)), "cores": 8} for card in range(pick.randint(0, 2))}
        devices: list[Json] = [
            a_part(f"dev-{at}", pick.choice(list(cards)), memory=pick.choice((10, 20)), cores=pick.randint(1, 3))
            if cards and dice.maybe(0.5)
            else {"name": f"dev-{at}"}
            for at in range(pick.randint(0, 4))
        ]
        one = a_slice(
            pick.choice((*NAMES, None)),
            name=f"slice-{number}",
            driver=pick.choice(DRIVERS),
            pool=pick.choice(("p", "q")),
            generation=pick.randint(1, 2),
            slices=1 if dice.maybe(0.9) else 2,
            devices=devices,
            counters=cards,
        )
        found.append(one)
    return found


def claims(dice: Dice) -> list[ResourceClaim]:
    pick = dice.random
    return [
        a_claim(
            f"c{number}",
            *(f"dev-{pick.randint(0, 4)}" for _ in range(pick.randint(0, 3))),
            pool=pick.choice(("p", "q")),
            driver=pick.choice(DRIVERS),
            users=[f"p{pick.randint(0, 12)}" for _ in range(pick.randint(0, 2))],
            allocated=dice.maybe(0.9),
            admin=dice.maybe(0.1),
        )
        for number in range(8)
    ]


def pods(dice: Dice) -> list[Pod]:
    pick = dice.random
    return [
        a_pod(
            f"p{number}",
            node=pick.choice((*NAMES, *NAMES, None)),
            priority=pick.choice((None, None, -100)),
            spec=claiming(f"c{pick.randint(0, 9)}") if dice.maybe(0.3) else None,
        )
        for number in range(10)
    ]


def random_view(dice: Dice) -> ClusterView:
    related: Related = with_devices(slices(dice), claims(dice))
    return view_of(NODES, pods(dice), related=related)


@pytest.mark.parametrize("seed", seeds(300))
def test_use_of_devices_agrees_with_the_plain_definition(seed: int) -> None:
    view = random_view(Dice(seed))
    uses = device_uses(view)
    for at, node in enumerate(NODES):
        expected, found = slow_device_share(view, node), uses.get(at)
        if expected is None:
            assert found is None
        elif isinstance(expected, str):
            assert found is not None
            assert found.unreadable
        else:
            assert found is not None
            assert found.share == pytest.approx(expected)
            assert found.unreadable == ""


@pytest.mark.parametrize("seed", seeds(50))
def test_devices_change_nothing_for_nodes_without_any(seed: int) -> None:
    view = random_view(Dice(seed))
    left_out = UncountedPods(np.zeros(len(NODES), dtype=np.bool_))

    def shares(one: ClusterView) -> list[float]:
        trial = Trial(one)
        found: list[float] = utilization(
            trial, arrived(trial), NOW.wall, left_out, "", ALL_GPU_RESOURCES
        ).share.tolist()
        return found

    with_them, uses = shares(view), device_uses(view)
    without = shares(view_of(NODES, [*(pod for on in view.pods for pod in on), *view.pending]))
    for at in range(len(NODES)):
        assert with_them[at] == (uses[at].share if at in uses else without[at])
