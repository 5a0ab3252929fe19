"""Measures a running world: waiting times of pods, costs of machines, utilisation of nodes."""

from collections import Counter, defaultdict

import msgspec

from autoscaler.kube.watch import KindSource
from autoscaler.objects import quantity
from autoscaler.objects.node import node_decoder, readiness
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.ports import EventType
from autoscaler.sandbox.apiserver.records import ChangeType, StoreChange
from autoscaler.sandbox.journal_feed import JournalFeed
from autoscaler.sandbox.recorded_cloud import CloudVerb
from autoscaler.simulator.replica import SilentPassListener
from autoscaler.simulator.simulation.result import Point, Summary, spread
from autoscaler.simulator.simulation.traffic import WORKLOAD
from autoscaler.simulator.simulation.windows import WindowMeter
from autoscaler.simulator.world import World
from cloudprovider.interface import Pricing, State

_HOUR_S = 3600.0
_MAX_POINTS = 400
"""Approximate maximum number of entries of a timeline."""
_BILLED = (State.RUNNING, State.CREATING, State.DELETING)


class _MeasuredPod(msgspec.Struct):
    workload: str
    created: float
    cpu_milli: int
    running: bool = False


class MeasuringListener(SilentPassListener):
    """Receives passes and evictions."""

    def __init__(self) -> None:
        self.passes = 0
        self.failed = 0
        self.evicted = 0

    def pass_ended(self, report: PassReport) -> None:
        """Count a pass."""
        self.passes += 1
        self.failed += report.end is PassEnd.FAILED

    def pod_evicted(self, succeeded: bool) -> None:
        """Count a completed eviction."""
        self.evicted += succeeded


class Meter:
    """Follows one world from its start. Call `sample` at equal intervals of `interval_s` seconds."""

    def __init__(self, world: World, listener: MeasuringListener, windows: WindowMeter, interval_s: float) -> None:
        self._world = world
        self._windows = windows
        self._listener = listener
        self._interval_s = interval_s
        self._pods: dict[str, _MeasuredPod] = {}
        self._waits_by_workload: dict[str, list[float]] = defaultdict(list)
        self._created = 0
        self._machine_ids: set[str] = {machine.provider_id for machine in world.cloud.machines()}
        self._bought = 0
        self._points: list[Point] = []
        self._node_seconds = self._cost = self._share_seconds = 0.0
        self._prices = self._price_list()
        self._feed = JournalFeed(world.storage, world.clock)
        self._nodes = self._feed.add(KindSource("/api/v1/nodes", node_decoder()), log_changes=False)
        self._stop = world.storage.listen("pods", self._pod_changed)

    def close(self) -> None:
        """Stop listening."""
        self._stop()
        self._feed.stop()

    def _pod_changed(self, change: StoreChange) -> None:
        pod = change.now
        workload = pod.labels.get(WORKLOAD)
        if workload is None:
            return
        measured = self._pods.get(pod.uid)
        if change.type is ChangeType.DELETED:
            self._pods.pop(pod.uid, None)
            return
        if measured is None:
            now = self._world.clock.now().wall
            measured = self._pods[pod.uid] = _MeasuredPod(workload, now, _cpu_milli(change))
            self._created += 1
        phase = pod.fields.get("status.phase")
        if not measured.running and phase in ("Running", "Succeeded"):
            measured.running = True
            self._waits_by_workload[workload].append(self._world.clock.now().wall - measured.created)
        if phase in ("Succeeded", "Failed"):
            del self._pods[pod.uid]

    def _price_list(self) -> dict[str, float]:
        """Return the known prices of machines per hour, by group."""
        cloud = self._world.cloud
        if not isinstance(cloud, Pricing):
            return {}
        templates = {group.id: group.template() for group in cloud.groups()}
        return {name: cloud.node_price(template, 1.0) for name, template in templates.items() if template is not None}

    def sample(self) -> None:
        """Take a measurement for the interval that ends now."""
        world = self._world
        self._windows.check_lead_times()
        machines = [machine for machine in world.cloud.machines() if machine.state in _BILLED and machine.error is None]
        new_ids = {machine.provider_id for machine in machines} - self._machine_ids
        self._machine_ids |= new_ids
        self._bought += len(new_ids)
        cost_rate = sum(self._prices.get(machine.group, 0.0) for machine in machines) if self._prices else None
        allocatable, ready = self._capacity()
        running = [pod for pod in self._pods.values() if pod.running]
        requested = sum(pod.cpu_milli for pod in running)
        share = requested / allocatable if allocatable else 0.0
        self._node_seconds += len(machines) * self._interval_s
        self._cost += (cost_rate or 0.0) * self._interval_s / _HOUR_S
        self._share_seconds += share * self._interval_s
        self._points.append(
            Point(
                at_seconds=round(world.elapsed_s, 3),
                machines=len(machines),
                ready_nodes=ready,
                pods_running=len(running),
                pods_pending=len(self._pods) - len(running),
                cost_per_hour=None if cost_rate is None else round(cost_rate, 4),
                cpu_requested_share=round(share, 4),
            )
        )

    def _capacity(self) -> tuple[int, int]:
        """Return the allocatable CPU of ready nodes in thousandths, and the number of ready nodes."""
        self._feed.sync()
        ready = [node for node in self._nodes.snapshot().values() if readiness(node).ready]
        return sum(node.allocatable.get(quantity.CPU, 0) for node in ready), len(ready)

    def timeline(self) -> list[Point]:
        """Return the measurements, thinned out, including the last one."""
        step = max(1, len(self._points) // _MAX_POINTS)
        return self._points[::-step][::-1]

    @property
    def waits(self) -> list[float]:
        """How long each started pod waited, in seconds."""
        return [seconds for waits in self._waits_by_workload.values() for seconds in waits]

    def summary(self) -> Summary:
        """Return the figures as of now."""
        world = self._world
        removed = sum(-call.delta for call in world.calls if call.verb is CloudVerb.DELETE and call.delta < 0)
        measured_s = max(self._interval_s * len(self._points), 1.0)
        warnings = Counter(event.reason for event in world.events if event.kind == EventType.WARNING)
        waits = self.waits
        return Summary(
            pods_created=self._created,
            pods_started=len(waits),
            pods_waiting_at_end=sum(not pod.running for pod in self._pods.values()),
            pending_seconds=spread(waits),
            pending_seconds_by_workload={
                name: spread(waits) for name, waits in sorted(self._waits_by_workload.items())
            },
            windows=self._windows.figures,
            pods_evicted=self._listener.evicted,
            nodes_bought=self._bought,
            nodes_removed=removed,
            nodes_at_end=self._points[-1].machines if self._points else 0,
            node_hours=round(self._node_seconds / _HOUR_S, 3),
            cost=round(self._cost, 4) if self._prices else None,
            mean_cpu_requested_share=round(self._share_seconds / measured_s, 4),
            passes=self._listener.passes,
            failed_passes=self._listener.failed,
            events=dict(sorted(warnings.items())),
        )


def _cpu_milli(change: StoreChange) -> int:
    containers = change.object()["spec"]["containers"]
    requests = [container.get("resources", {}).get("requests", {}).get(quantity.CPU) for container in containers]
    return sum(quantity.amount(quantity.CPU, text) for text in requests if text is not None)
