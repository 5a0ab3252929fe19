"""Pods that have to be near others, and came before them: they go where those went, once those have found room.

So whole chains find their place in one pass, whatever the order of the pods.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scaleup.estimator import pod_groups
from autoscaler.scheduling.affinity import wants_near
from autoscaler.scheduling.placement import Placer

Clue = tuple[str, str] | None


def follow(placer: Placer, waiting: Sequence[Pod], newcomers: Iterable[PodClass]) -> tuple[tuple[Pod, int], ...]:
    """Place waiting pods that want newcomers near, then those that want these near, and so on; return their positions.

    Pods of a class are tried only when others that they want near have found room. What is placed stays on the trial.
    """
    groups = (group for group in pod_groups(waiting) if group.cls.pod_affinity)
    wanting = {group.cls: deque(group.pods) for group in groups if not placer.put_aside(group.cls)}
    by_clue: defaultdict[Clue, list[PodClass]] = defaultdict(list)
    for cls in wanting:
        by_clue[_clue(cls)].append(cls)
    namespaces = placer.trial.view.related.namespaces
    placed: list[tuple[Pod, int]] = []
    turn = deque(dict.fromkeys(newcomers))
    while turn:
        newcomer = turn.popleft()
        for cls in [one for clue in (None, *newcomer.labels.items()) for one in by_clue.get(clue, ())]:
            if wanting[cls] and wants_near(cls, newcomer, namespaces) and (here := _placed(placer, cls, wanting[cls])):
                placed.extend(here)
                turn.append(cls)
    return tuple(placed)


def _clue(cls: PodClass) -> Clue:
    """Return a label that all pods that the class wants near have; None where none is asked for by value."""
    selector = cls.pod_affinity[0].label_selector
    return None if selector is None else next(iter(selector.match_labels.items()), None)


def _placed(placer: Placer, cls: PodClass, pods: deque[Pod]) -> list[tuple[Pod, int]]:
    """Place pods of a class until one fits nowhere; they leave the queue."""
    placed: list[tuple[Pod, int]] = []
    everywhere = slice(0, placer.trial.count)
    while pods and (position := placer.first(cls, everywhere, 0)) is not None:
        placer.place(cls, position)
        placed.append((pods.popleft(), position))
    return placed
