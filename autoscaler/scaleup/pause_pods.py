"""Preemption of pause pods: pending pods take their room, and the preempted count as pending in the same pass.

So capacity is bought once, for the pause pods that went, neither twice nor not at all. Pause pods come after all other
pods; priorities do not matter.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Pods
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import Waiting
from autoscaler.scaleup.pending import UnschedulablePods, filter_schedulable
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.hints import Hints

_PATIENCE_S = 60.0
"""A pod for which the scheduler has not made room by then gets none by eviction: it needs a node like any other."""


def filter_yielding(
    placer: Placer, pods: Sequence[Pod], options: Pods, hints: Hints, rules: Rules, now: Instant
) -> UnschedulablePods:
    """Do as `filter_schedulable`, and let pods that fit nowhere take the room of pause pods, which then need another.

    Those displaced are among the pods that need a scale-up unless they fit elsewhere.
    """
    pausing = _pausing(placer)
    ordinary = [pod for pod in pods if pod.cls.headroom is None]
    if not pausing and len(ordinary) == len(pods):
        return filter_schedulable(placer, pods, options, hints, rules)
    first = filter_schedulable(placer, ordinary, options, hints, rules)
    helped, displaced = _give_way(placer, first.pods, pausing, now)
    pending = [pod for pod in pods if pod.cls.headroom is not None]
    last = filter_schedulable(placer, (*pending, *displaced), options, hints, rules)
    moved = {pod.key for pod in displaced}
    return UnschedulablePods(
        pods=(*(pod for pod in first.pods if pod.key not in helped), *last.pods),
        waiting={
            **first.waiting,
            **{key: why for key, why in last.waiting.items() if key not in moved},
            **dict.fromkeys(helped, Waiting.TAKES_HEADROOM),
        },
        hints=replace(first.hints, newer={**first.hints.newer, **last.hints.newer}),
    )


def _pausing(placer: Placer) -> Mapping[int, list[Pod]]:
    """Return the pause pods that could go at once, by position of their node."""
    view = placer.trial.view
    if not any(cls.headroom is not None for cls in view.classes):
        return {}
    by_position: dict[int, list[Pod]] = {}
    for position, pods in enumerate(view.pods):
        mine = [pod for pod in pods if pod.cls.headroom is not None and pod.deleted is None]
        if mine:
            by_position[position] = mine
    return by_position


def _give_way(
    placer: Placer, pods: Iterable[Pod], pausing: Mapping[int, list[Pod]], now: Instant
) -> tuple[set[str], list[Pod]]:
    """Place pods where pause pods are; return the keys of those placed, and the pause pods that had to go."""
    helped: set[str] = set()
    displaced: list[Pod] = []
    hopeless: set[PodClass] = set()
    for pod in sorted(pods, key=_priority, reverse=True):
        if pod.cls in hopeless or not _evicts(pod, now):
            continue
        victims = _take_room(placer, pod, pausing)
        if victims is None:
            hopeless.add(pod.cls)
        else:
            helped.add(pod.key)
            displaced += victims
    return helped, displaced


def _evicts(pod: Pod, now: Instant) -> bool:
    if pod.cls.preemption_policy == "Never" or pod.cls.daemonset:
        return False
    since = pod.created if pod.unscheduled is None or pod.unscheduled.since is None else pod.unscheduled.since
    return now.wall - since < _PATIENCE_S


def _take_room(placer: Placer, pod: Pod, pausing: Mapping[int, list[Pod]]) -> list[Pod] | None:
    """Place a pod on the first node on which it fits once pause pods are gone, as few of them as will do."""
    trial = placer.trial
    for position, there in pausing.items():
        lower = [other for other in there if _priority(other) < _priority(pod)]
        if not lower:
            continue
        with trial.fork() as fork:
            for other in lower:
                trial.lift(other.cls, position)
            if not placer.fits(pod.cls, position):
                continue
            placer.place(pod.cls, position)
            victims = []
            for other in lower:
                if placer.fits(other.cls, position):
                    placer.place(other.cls, position)
                else:
                    victims.append(other)
            fork.keep()
        gone = {other.key for other in victims}
        there[:] = [other for other in there if other.key not in gone]
        return victims
    return None


def _priority(pod: Pod) -> int:
    return pod.cls.priority or 0
