"""Which pods a trial has put on the nodes of its view."""

from collections import defaultdict

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.snapshot.overlay import Trial


def arrived(trial: Trial) -> defaultdict[int, list[Pod]]:
    """Return the pods that the trial placed on nodes of the view, by position.

    A trial knows classes, not pods: any pending pods of the class serve, for they are all alike.
    """
    waiting: dict[PodClass, list[Pod]] = defaultdict(list)
    for pod in reversed(trial.view.pending):
        waiting[pod.cls].append(pod)
    found: defaultdict[int, list[Pod]] = defaultdict(list)
    for cls, positions, counts in trial.moves():
        inside = positions < trial.base
        for position, count in zip(positions[inside].tolist(), counts[inside].tolist(), strict=True):
            for _ in range(count):
                found[position].append(waiting[cls].pop() if waiting[cls] else _virtual(cls))
    return found


def _virtual(cls: PodClass) -> Pod:
    """Return a pod that stands for one which nobody has made yet."""
    name = "virtual" if cls.owner is None else cls.owner.name
    return Pod(name=name, cls=cls, uid=f"{cls.namespace}/{name}/virtual")
