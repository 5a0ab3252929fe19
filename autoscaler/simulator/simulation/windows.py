"""Measures how much of a window's capacity is Ready when the window begins.

A window begins when a policy of a headroom pool, or a scheduled override of a reservation target, raises the wanted
number of pods. Pause pods count if they run on ready nodes. The floor of a target counts if its pods run, or would find
room on ready nodes. The measurement comes before anything else at that moment.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from autoscaler.config.headroom import Headroom, HeadroomPool
from autoscaler.config.reservations import ReservationTarget
from autoscaler.config.tree import Config
from autoscaler.eta.estimate import LoopIntervals
from autoscaler.eta.lead_time import longest_lead_s
from autoscaler.headroom.pods import pods_of
from autoscaler.headroom.policy import desired, policy_at
from autoscaler.objects.node import node_decoder, readiness
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.reasons import LeadBasis
from autoscaler.reservations.pods import class_of, counts_for
from autoscaler.scheduling.placement import Placer
from autoscaler.simulator.simulation.result import WindowFigures
from autoscaler.simulator.world import World
from autoscaler.snapshot.cluster import ClusterView, view_of
from autoscaler.snapshot.overlay import Trial

_MINUTE_S = 60.0


class WindowStart(msgspec.Struct, frozen=True):
    """The beginning of a window, in Unix seconds."""

    wall: float
    owner: HeadroomPool | ReservationTarget

    @property
    def lead(self) -> str:
        """The key of its lead time."""
        return f"{'headroom' if isinstance(self.owner, HeadroomPool) else 'reservations'}/{self.owner.name}"


def window_starts(config: Config, start_s: float, duration_s: float) -> Iterator[WindowStart]:
    """Yield the windows that begin during a simulation, after its start; `start_s` are Unix seconds."""
    for pool in () if config.headroom is None else config.headroom.pools:
        before = policy_at(pool, start_s)
        for minute in range(int(start_s // _MINUTE_S) + 1, int((start_s + duration_s) // _MINUTE_S) + 1):
            now = policy_at(pool, minute * _MINUTE_S)
            if now is not before and desired(pool, now, 0)[0] > desired(pool, before, 0)[0]:
                yield WindowStart(minute * _MINUTE_S, pool)
            before = now
    for target in () if config.reservations is None else config.reservations.targets:
        for hour in range(int(duration_s // 3600) + 1):
            first = start_s + 3600 * hour
            moments = {
                moment for override in target.scheduled_overrides for moment in override.changes(first, first + 3600)
            }
            for moment in sorted(moments):
                if target.floor_at(moment) > target.floor_at(moment - 1) and moment - start_s <= duration_s:
                    yield WindowStart(moment, target)


class _Tally(msgspec.Struct):
    began: int = 0
    asked: int = 0
    ready: int = 0

    def add(self, asked: int, ready: int) -> None:
        self.began += 1
        self.asked += asked
        self.ready += min(asked, ready)


class WindowMeter:
    """Measures a world whenever a window begins."""

    def __init__(self, world: World, config: Config, start_s: float, duration_s: float) -> None:
        self._world = world
        self._headroom = config.headroom or Headroom()
        self._longest_s = longest_lead_s(LoopIntervals(max_provision_s=config.health.max_node_provision_time_s))
        self._known_since: dict[str, float] = {}
        self._measured, self._while_learning = _Tally(), _Tally()
        self._unlearned = set[str]()
        for start in window_starts(config, start_s, duration_s):
            self._unlearned.add(start.lead)
            world.at(start.wall - start_s, partial(self._measure, start))

    def check_lead_times(self) -> None:
        """Record the lead times that are known now."""
        replica = self._world.replica
        if replica is None or not self._unlearned:
            return
        for key, lead in replica.companion_set.lead_times().items():
            if lead.basis is not LeadBasis.NOTHING_LEARNED:
                self._known_since.setdefault(key, self._world.elapsed_s)
                self._unlearned.discard(key)

    @property
    def figures(self) -> WindowFigures:
        """The figures so far."""
        measured, learning = self._measured, self._while_learning
        return WindowFigures(
            began=measured.began,
            asked=measured.asked,
            ready_at_start=measured.ready,
            share=round(measured.ready / measured.asked, 4) if measured.asked else 1.0,
            while_learning=learning.began,
            asked_while_learning=learning.asked,
            ready_while_learning=learning.ready,
        )

    def _measure(self, start: WindowStart) -> None:
        view, owner = self._cluster(), start.owner
        if isinstance(owner, HeadroomPool):
            asked, ready = self._of_pool(owner, start.wall, view)
        else:
            asked, ready = self._of_target(owner, start.wall, view)
        known_s = self._world.elapsed_s - self._known_since.get(start.lead, math.inf)
        learning = owner.lead_time_s is None and known_s < self._longest_s
        (self._while_learning if learning else self._measured).add(asked, ready)

    def _of_pool(self, pool: HeadroomPool, wall: float, view: ClusterView) -> tuple[int, int]:
        pods = pods_of(view, pool, self._headroom)
        asked, _ = desired(pool, policy_at(pool, wall), pods.active)
        return asked, sum(_is_ready_and_running(pod, view) for pod in pods.bound)

    def _of_target(self, target: ReservationTarget, wall: float, view: ClusterView) -> tuple[int, int]:
        asked = target.floor_at(wall)
        running = sum(
            counts_for(target, pod.cls) and _is_ready_and_running(pod, view) for pods in view.pods for pod in pods
        )
        return asked, running + self._room(target, asked - running, view)

    def _room(self, target: ReservationTarget, wanted: int, view: ClusterView) -> int:
        """Return how many of `wanted` pods of a target fit on ready nodes."""
        template: Mapping[str, object] = target.pod_template
        if target.pod_template_ref is not None:
            ref = target.pod_template_ref
            templates = self._world.storage.list("podtemplates", namespace=ref.namespace)
            template = next((stored["template"] for stored in templates if stored["metadata"]["name"] == ref.name), {})
        cls = class_of(target, template, PodInterner())
        placer = Placer(Trial(view))
        all_nodes, placed = slice(0, len(view.nodes)), 0
        while placed < wanted and (position := placer.first(cls, all_nodes, 0)) is not None:
            placer.place(cls, position)
            placed += 1
        return placed

    def _cluster(self) -> ClusterView:
        """Return the cluster with only its ready nodes and the pods on them."""
        storage = self._world.storage
        decode_node, decode_pod = node_decoder(), PodInterner().decoder()
        nodes = [decode_node.one(obj) for obj in storage.list("nodes")]
        nodes = [node for node in nodes if readiness(node).ready]
        names = {node.name for node in nodes}
        pods = [decode_pod.one(obj) for obj in storage.list("pods")]
        return view_of(nodes, [pod for pod in pods if not pod.node or pod.node in names])


def _is_ready_and_running(pod: Pod, view: ClusterView) -> bool:
    return pod.deleted is None and pod.phase == "Running" and pod.node in view.positions
