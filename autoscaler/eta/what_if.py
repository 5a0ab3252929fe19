"""Estimates when a hypothetical pod would be ready, on a separate copy of the cluster."""

import msgspec

from autoscaler.eta.placements import PassOutcome, PlacementFinder
from autoscaler.reasons import Waiting
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import UPCOMING

_EVERY_PRIORITY = -(1 << 31)


def apart(outcome: PassOutcome) -> PlacementFinder:
    """Return the places of an outcome on an independent copy, so that another thread may ask."""
    placer = outcome.placer
    if placer is None:
        return PlacementFinder(outcome)
    view = view_of(
        outcome.view.nodes,
        (pod for pods in (outcome.view.pending, *outcome.view.pods) for pod in pods),
        groups=outcome.view.groups,
        related=outcome.view.related,
        expendable_below=_EVERY_PRIORITY,
    )
    trial = Trial(view)
    for group, count in outcome.registry.upcoming.items():
        template = outcome.templates.get(group)
        if template is not None:
            for name in outcome.registry.upcoming_registered.get(group, ()):
                trial.remove(view.positions[name])
            trial.add(template, count, UPCOMING, numbered=0)
    copy = Placer(trial, placer.profile)
    positions = {trial.name(position): position for position in range(trial.count)}
    for pod in view.pending:
        nominated = outcome.waiting.get(pod.key) is Waiting.NOMINATED
        node = pod.nominated_node if nominated else outcome.hints.newer.get(pod.uid or pod.key)
        if node in positions:
            copy.place(pod.cls, positions[node])
    return PlacementFinder(msgspec.structs.replace(outcome, view=view, placer=copy))
