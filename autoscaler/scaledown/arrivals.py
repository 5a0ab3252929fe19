"""Lists the pods that a trial has placed on the nodes of its view."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.snapshot.overlay import Trial


class Arrivals(msgspec.Struct, frozen=True):
    """What a trial had placed on nodes of the view when it was asked; positions are the view's."""

    counts: tuple[tuple[PodClass, int, int], ...] = ()
    """Class, position and count."""
    pods: Mapping[int, Sequence[Pod]] = {}
    """By position; a trial knows classes, not pods: any pending pods of the class serve, for they are all alike."""

    def together(self, position: int, own: Sequence[Pod]) -> Sequence[Pod]:
        """Return the pods of a node of the view, its own and those that arrived."""
        more = self.pods.get(position)
        return (*own, *more) if more else own


def arrived(trial: Trial) -> Arrivals:
    """Return what the trial has placed so far."""
    waiting: dict[PodClass, list[Pod]] = defaultdict(list)
    for pod in reversed(trial.view.pending):
        waiting[pod.cls].append(pod)
    counted = tuple(
        (cls, position, count)
        for cls, positions, counts in trial.moves()
        for position, count in zip(positions.tolist(), counts.tolist(), strict=True)
        if position < trial.base
    )
    pods: dict[int, list[Pod]] = defaultdict(list)
    for cls, position, count in counted:
        for _ in range(count):
            pods[position].append(waiting[cls].pop() if waiting[cls] else _virtual(cls))
    return Arrivals(counted, pods)


def _virtual(cls: PodClass) -> Pod:
    """Return a fake pod for one that does not exist yet."""
    name = "virtual" if cls.owner is None else cls.owner.name
    return Pod(name=name, cls=cls, uid=f"{cls.namespace}/{name}/virtual")
