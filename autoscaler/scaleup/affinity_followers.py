"""Pods that have to be near pods which come after them: they follow once those have found room.

So whole chains find their place in one pass, in any order of the pods.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scaleup.estimator import pod_groups
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.term_index import TermIndex


def place_followers(
    placer: Placer, waiting: Sequence[Pod], placed_before: Iterable[PodClass]
) -> tuple[tuple[Pod, int], ...]:
    """Place waiting pods with affinity to those `placed_before`, then those with affinity to these, and so on.

    Return their positions. Pods of a class are tried once in each round in which pods that their affinity names have
    found room. What is placed stays on the trial.
    """
    groups = (group for group in pod_groups(waiting) if group.cls.pod_affinity)
    wanting = {group.cls: deque(group.pods) for group in groups if not placer.has_too_many_constraints(group.cls)}
    by_affinity = placer.by_affinity(wanting)
    placed: list[tuple[Pod, int]] = []
    turn = list(dict.fromkeys(placed_before))
    while turn and wanting:
        next_turn: list[PodClass] = []
        for cls in _concerned(turn, by_affinity):
            if cls in wanting and (here := _placed(placer, cls, wanting[cls])):
                placed.extend(here)
                next_turn.append(cls)
                if not wanting[cls]:
                    del wanting[cls]
        turn = next_turn
    return tuple(placed)


def _concerned(placed_before: Iterable[PodClass], by_affinity: TermIndex) -> Iterable[PodClass]:
    """Return the classes with affinity to one of these classes."""
    classes: dict[PodClass, None] = {}
    for placed_class in placed_before:
        classes.update(dict.fromkeys(by_affinity.owners_about(placed_class)))
        if len(classes) >= by_affinity.owners:
            break
    return classes


def _placed(placer: Placer, cls: PodClass, pods: deque[Pod]) -> list[tuple[Pod, int]]:
    """Place pods of a class until one fits nowhere; they leave the queue."""
    placed: list[tuple[Pod, int]] = []
    everywhere = slice(0, placer.trial.count)
    while pods and (position := placer.first(cls, everywhere, 0)) is not None:
        placer.place(cls, position)
        placed.append((pods.popleft(), position))
    return placed
