"""Selects pods of lower priority to preempt so that a pod of higher priority fits.

Minimal on purpose: budgets are not weighed, and extenders do not exist. Otherwise as the scheduler's default
preemption: remove everything of lower priority from a node, and if the pod then fits, let as many as possible stay,
the most important first.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from autoscaler.objects.pod import Pod
from autoscaler.sandbox.actors.scheduling_queue import priority_of
from autoscaler.scheduling.placement import Placer


class Preemption(msgspec.Struct, frozen=True):
    """A node, and the pods on it that have to go; terminating ones among them are going anyway."""

    node: str
    victims: tuple[Pod, ...]


def find(placer: Placer, pod: Pod) -> Preemption | None:
    """Return the cheapest preemption; None also for a pod whose policy forbids it.

    Cheapest: the least important among the most important victims, then the least priority in all, then the fewest
    victims, then the node's name. The trial is left as it was.
    """
    if pod.cls.preemption_policy == "Never":
        return None
    options = [
        Preemption(placer.trial.name(position), victims)
        for position in _candidates(placer, pod)
        if (victims := _victims(placer, pod, position))
    ]
    return min(options, key=_cost, default=None)


def _candidates(placer: Placer, pod: Pod) -> Iterator[int]:
    """Nodes that suit the pod and have pods of lower priority."""
    trial, priority = placer.trial, priority_of(pod)
    window = slice(0, trial.base)
    suitable = placer.accepted(pod.cls, window) & placer.searched(pod.cls, window)
    for position in np.flatnonzero(suitable).tolist():
        if any(priority_of(other) < priority for other in trial.view.pods[position]):
            yield position


def _victims(placer: Placer, pod: Pod, position: int) -> tuple[Pod, ...]:
    """Pods to remove from the node; none if removing all of lower priority would not do."""
    trial, priority = placer.trial, priority_of(pod)
    lower = [other for other in trial.view.pods[position] if priority_of(other) < priority]
    lower.sort(key=lambda other: (-priority_of(other), other.created, other.key))
    victims: list[Pod] = []
    with trial.fork():
        for other in lower:
            trial.lift(other.cls, position)
        if not placer.fits(pod.cls, position):
            return ()
        for other in lower:
            if other.deleted is None:
                trial.place(other.cls, position)
                if placer.fits(pod.cls, position):
                    continue
                trial.lift(other.cls, position)
            victims.append(other)
    return tuple(victims)


def _cost(preemption: Preemption) -> tuple[int, int, int, str]:
    priorities = [priority_of(victim) for victim in preemption.victims]
    return max(priorities), sum(priorities), len(priorities), preemption.node
