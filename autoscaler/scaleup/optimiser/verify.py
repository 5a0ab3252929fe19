"""From figures to offers: a filling is packed on the trial, and the scheduler's filters have to agree to all of it."""

from collections.abc import Iterable

import msgspec
import numpy as np

from autoscaler.objects.pod import Pod
from autoscaler.scaleup.estimator import Packed, PodGroup, spread_over
from autoscaler.scaleup.optimiser.model import PackingModel
from autoscaler.scaleup.optimiser.packing import Assignment, Packing
from autoscaler.scaleup.options import PackedOption
from autoscaler.scheduling.placement import Placer


def proven(
    placer: Placer, model: PackingModel, filling: Packing, before: tuple[PackedOption, ...]
) -> tuple[PackedOption, ...] | None:
    """Return a filling as offers that follow those `before`; None where the filters refuse some of it.

    The model's standing nodes are the trial's last ones. The trial is left as it was.
    """
    first = placer.trial.count - len(model.standing)
    waiting = [iter(each.pods) for each in model.pods]
    offers = list(before)
    with placer.trial.fork():
        for good, nodes, moves in _purchases(model, filling):
            option = None if good is None else model.goods[good].option
            if option is not None:
                placer.trial.add(option.template, nodes)
            pods: list[Pod] = []
            packed: list[Packed] = []
            for move in moves:
                if not _takes(placer, model.pods[move.cls], first + move.node, move.count):
                    return None
                one = Packed(model.pods[move.cls].cls, np.array([first + move.node]), np.array([move.count]))
                packed.append(one)
                pods.extend(pod for pod, _ in spread_over(waiting[move.cls], one.positions, one.counts))
            if option is not None:
                whole = option.group.settings.zero_or_max_node_scaling
                size = option.group.max_size if whole else nodes
                wanted = msgspec.structs.replace(option, nodes=size, pods=tuple(pods))
                offers.append(PackedOption(wanted, tuple(packed)))
            elif packed:
                last = offers[-1]
                joined = msgspec.structs.replace(last.option, pods=(*last.option.pods, *pods))
                offers[-1] = PackedOption(joined, (*last.packed, *packed))
    return tuple(offers)


def _takes(placer: Placer, pods: PodGroup, position: int, count: int) -> bool:
    """Place some pods on one node if the scheduler would."""
    if not placer.guards(pods.cls):
        enough = placer.fits(pods.cls, position)
        enough = enough and int(placer.copies(pods.cls, slice(position, position + 1))[0]) >= count
        if enough:
            placer.place_many(pods.cls, np.array([position]), np.array([count]))
        return enough
    for _ in range(count):
        if not placer.fits(pods.cls, position):
            return False
        placer.place(pods.cls, position)
    return True


def _purchases(model: PackingModel, filling: Packing) -> Iterable[tuple[int | None, int, list[Assignment]]]:
    """Yield goods with how many nodes of each to buy, and the moves that follow; first those that need no purchase.

    Moves stay in order; a purchase ends where a node of another good is needed.
    """
    standing, opened = len(model.standing), 0
    good: int | None = None
    nodes = 0
    moves: list[Assignment] = []
    for move in filling.moves:
        while move.node - standing >= opened:
            wanted = filling.nodes[opened]
            if wanted != good:
                yield good, nodes, moves
                good, nodes, moves = wanted, 0, []
            unit = model.goods[wanted].unit
            nodes += unit
            opened += unit
        moves.append(move)
    yield good, nodes, moves
