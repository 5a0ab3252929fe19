"""Placing fake pods on the simulated cluster, to see whether they fit or to keep their room."""

from collections.abc import Sequence

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scheduling.placement import Placer


def place_where_fits(placer: Placer, pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """Place what fits on the trial's nodes, upcoming ones included; return the pods that fit nowhere."""
    trial, start = placer.trial, 0
    hopeless: set[PodClass] = set()
    left: list[Pod] = []
    for pod in pods:
        position = None if pod.cls in hopeless else placer.first(pod.cls, slice(0, trial.count), start)
        if position is None:
            left.append(pod)
            if not placer.guards(pod.cls):
                hopeless.add(pod.cls)
            continue
        placer.place(pod.cls, position)
        start = (position + 1) % trial.count
    return tuple(left)


def place_all(placer: Placer, pods: Sequence[Pod]) -> bool:
    """Place all the pods, or leave the trial as it was and return False."""
    with placer.trial.fork() as fork:
        if place_where_fits(placer, pods):
            return False
        fork.keep()
    return True
