"""The zones of the next nodes against placing machines one by one where there are the fewest."""

import random

import pytest

from autoscaler.scaleup.next_zone import zones_of
from tests.builders import a_node, a_template
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(100))
def test_nodes_come_where_there_are_the_fewest(seed: int) -> None:
    dice = random.Random(seed)
    counts = {name: dice.randint(0, 6) for name in "abcd"[: dice.randint(2, 4)]}
    stated = {name: {"topology.kubernetes.io/zone": name} for name in counts}
    nodes = [a_node(f"{name}-{number}", zone=name) for name, count in counts.items() for number in range(count)]
    dice.shuffle(nodes)
    starting = {node.name for node in nodes if dice.random() < 0.2}
    due = len(starting) + dice.randint(0, 3)
    zones = zones_of(a_template(), nodes, stated, starting=starting, due=due, newer_than=0.0)
    come = [zones.coming(number).node.zone for number in range(len(starting), len(starting) + 20)]
    expected = []
    for _ in range(20):
        emptiest = min(sorted(counts), key=counts.__getitem__)
        counts[emptiest] += 1
        expected.append(emptiest)
    assert come == expected
