"""From a packing to offers: it is packed on the trial, and the scheduler's filters have to accept all of it."""

from collections.abc import Iterable

import msgspec
import numpy as np

from autoscaler.objects.pod import Pod
from autoscaler.scaleup.estimator import Packed, PodGroup, spread_over
from autoscaler.scaleup.optimiser.model import PackingModel
from autoscaler.scaleup.optimiser.packing import Assignment, Packing
from autoscaler.scaleup.options import PackedOption
from autoscaler.scheduling.placement import Placer


def verified_options(
    placer: Placer, model: PackingModel, packing: Packing, before: tuple[PackedOption, ...]
) -> tuple[PackedOption, ...] | None:
    """Return a packing as offers that follow those `before`; None where the filters refuse some of it.

    The model's open nodes are the trial's last ones. The trial is left as it was.
    """
    first = placer.trial.count - len(model.open_nodes)
    waiting = [iter(group.pods) for group in model.pods]
    offers = list(before)
    with placer.trial.fork():
        for offer, nodes, moves in _purchases(model, packing):
            option = None if offer is None else model.offers[offer].option
            if option is not None:
                placer.trial.add(option.template, nodes)
            pods: list[Pod] = []
            packed: list[Packed] = []
            for move in moves:
                if not _takes(placer, model.pods[move.cls], first + move.node, move.count):
                    return None
                placed = Packed(model.pods[move.cls].cls, np.array([first + move.node]), np.array([move.count]))
                packed.append(placed)
                pods.extend(pod for pod, _ in spread_over(waiting[move.cls], placed.positions, placed.counts))
            if option is not None:
                size = option.group.max_size if option.group.settings.zero_or_max_node_scaling else nodes
                verified = msgspec.structs.replace(option, nodes=size, pods=tuple(pods))
                offers.append(PackedOption(verified, tuple(packed)))
            elif packed:
                last = offers[-1]
                joined = msgspec.structs.replace(last.option, pods=(*last.option.pods, *pods))
                offers[-1] = PackedOption(joined, (*last.packed, *packed))
    return tuple(offers)


def _takes(placer: Placer, pods: PodGroup, position: int, count: int) -> bool:
    """Place some pods on one node if the scheduler would; return whether it would."""
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


def _purchases(model: PackingModel, packing: Packing) -> Iterable[tuple[int | None, int, list[Assignment]]]:
    """Yield offers with how many nodes of each to buy, and the moves that follow; first those that need no purchase.

    Moves stay in order; a purchase ends where a node of another offer is needed.
    """
    first, opened = len(model.open_nodes), 0
    offer: int | None = None
    nodes = 0
    moves: list[Assignment] = []
    for move in packing.moves:
        while move.node - first >= opened:
            needed = packing.nodes[opened]
            if needed != offer:
                yield offer, nodes, moves
                offer, nodes, moves = needed, 0, []
            unit = model.offers[needed].unit
            nodes += unit
            opened += unit
        moves.append(move)
    yield offer, nodes, moves
