"""Every way to buy nodes for some pods, one pod at a time over the slow scheduler: the twin of `scaleup.combining`."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import PodClass
from autoscaler.snapshot.template import Template
from tests.properties.slow_scheduler import SlowCluster


class Ware(NamedTuple):
    """Nodes to buy: what one looks like, its price, how many there are, and its cores."""

    template: Template
    price: float
    most: int
    cores: int


def cheapest(
    cluster: SlowCluster,
    wanted: Sequence[tuple[PodClass, int]],
    wares: Sequence[Ware],
    nodes_total: int | None,
    cores: int | None,
) -> tuple[int, float]:
    """Return how many pods stay without a node at least, and what the nodes for the others cost at least."""
    best = [(sum(count for _, count in wanted), 0.0)]
    seen: set[object] = set()

    def look(bought: tuple[int, ...], inside: tuple[tuple[int, ...], ...], left: tuple[int, ...]) -> None:
        state = tuple(sorted(zip(bought, inside, strict=True)))
        if state in seen:
            return
        seen.add(state)
        price = sum(wares[ware].price for ware in bought)
        if not any(left) and best[0][0] == 0 and price >= best[0][1]:
            return
        best[0] = min(best[0], (sum(left), price))
        if best[0][0] == 0 and price >= best[0][1]:
            return
        for at, (cls, _) in enumerate(wanted):
            if not left[at]:
                continue
            after = tuple(count - (other == at) for other, count in enumerate(left))
            for node in range(len(bought)):
                if cluster.fits(cls, node):
                    cluster.place(cls, node)
                    look(bought, tuple(_plus(one, at) if n == node else one for n, one in enumerate(inside)), after)
                    cluster.lift(cls, node)
            for number, ware in enumerate(wares):
                used = sum(wares[one].cores for one in bought) + ware.cores
                full = bought.count(number) == ware.most or len(bought) == nodes_total
                if full or (cores is not None and used > cores):
                    continue
                name = f"new-{len(bought)}"
                labels = {**ware.template.node.labels, HOSTNAME: name}
                fresh = msgspec.structs.replace(ware.template.node, name=name, labels=labels)
                position = cluster.add(fresh, msgspec.structs.replace(ware.template, pods=()))
                if cluster.fits(cls, position):
                    cluster.place(cls, position)
                    look((*bought, number), (*inside, _plus((0,) * len(wanted), at)), after)
                    cluster.lift(cls, position)
                cluster.nodes.pop()

    look((), (), tuple(count for _, count in wanted))
    return best[0]


def _plus(counts: tuple[int, ...], at: int) -> tuple[int, ...]:
    return tuple(count + (other == at) for other, count in enumerate(counts))
