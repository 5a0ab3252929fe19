"""The companion for pod start estimates: it reads every pass, learns from outcomes, and publishes."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.config.eta import PodStartEstimator
from autoscaler.config.tree import Config
from autoscaler.errors import AutoscalerError
from autoscaler.eta.boot_times import BootTimes, Samples
from autoscaler.eta.boots import BootTracker
from autoscaler.eta.capacity import ClusterCapacity, capacity
from autoscaler.eta.estimate import LoopIntervals, PodPlacement, StartEstimate, estimate, start_deadline, unknown
from autoscaler.eta.gangs import with_gangs
from autoscaler.eta.history import HistoryChanges, PodHistory
from autoscaler.eta.learning import StartLearning
from autoscaler.eta.metrics import EtaMetrics
from autoscaler.eta.placements import PassOutcome, PlacementFinder, by_ratio, pods_to_estimate, workload
from autoscaler.eta.ratio import RatioConstants
from autoscaler.eta.samples import BOOT, Sample, duration_of
from autoscaler.eta.status import EtaStatus
from autoscaler.logs import Log
from autoscaler.loop.companion import Companion
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.pod import Pod
from autoscaler.ports import EventSink, EventType, Subject
from autoscaler.reasons import DeleteReason, UnknownStart
from autoscaler.snapshot.cluster import ClusterView

log = Log(__name__)

_SAVE_S = 60.0


class EtaKeeper(Companion):
    """Passes run on one thread. Ticks run on another thread and only store boot times."""

    name = "eta"

    def __init__(self, config: Config, metrics: EtaMetrics, events: EventSink, boot_times: BootTimes | None) -> None:
        """With `boot_times` None, boot times are lost when the process ends."""
        self._config = config.eta
        eta = config.eta
        self._ratio = RatioConstants(eta.ratio_run_seconds, eta.ratio_start_seconds, eta.ratio_node_overhead_cpu)
        self._times = LoopIntervals(config.loop.scan_interval_s, config.health.max_node_provision_time_s)
        self._metrics = metrics
        self._events = events
        self._boot_times = boot_times
        self._boots = BootTracker()
        self.history = PodHistory()
        self._learning = StartLearning()
        self._first: dict[str, UnknownStart | None] = {}
        self._overdue: set[str] = set()
        self._capacity: ClusterCapacity | None = None
        self._loaded: Samples | None = None
        self._is_loaded = boot_times is None
        self._saved: Samples = {}
        self.status = EtaStatus(estimator=self._config.pod_start_estimator, ratio=self._ratio)
        """The state after the last pass; each pass replaces the whole value."""

    @property
    def interval_s(self) -> float | None:
        """Seconds between two checks whether boot times have to be stored."""
        return None if self._boot_times is None else _SAVE_S

    @property
    def expected(self) -> Mapping[str, float]:
        """Seconds from the last pass until a pending pod is expected to be ready, by pod key, without defaults."""
        return {
            key: estimate.expected_s
            for key, estimate in self.status.estimates.items()
            if estimate.expected_s is not None and not estimate.assumed
        }

    def after_pass(self, ended: EndedPass) -> None:
        """Learn from a pass, and estimate."""
        if (loaded := self._loaded) is not None:
            self._loaded = None
            self._learning.take(loaded)
        view, now = ended.report.view, ended.report.now
        if view is None:
            if self._capacity is not None:
                self._metrics.age(now.wall - self._capacity.at)
            return
        self._follow_nodes(ended, view)
        changes = self.history.look(view, _leaving(ended), now.wall)
        self._account(ended, view)
        self._learn(changes, view, now.wall)
        self._estimate(ended, view)
        self._look_for_overdue(view, now.wall)

    def tick(self, now: Instant) -> None:
        """Load boot times once, then store them after changes. Raises `LeadershipLost`."""
        boot_times = self._boot_times
        if boot_times is None:
            return
        if not self._is_loaded:
            loaded = boot_times.load()
            self._saved, self._loaded, self._is_loaded = loaded, loaded, True
            return
        samples = self._learning.boot_samples
        if self._loaded is None and samples and samples != self._saved:
            boot_times.save(samples)
            self._saved = samples

    def leave(self) -> None:
        """Store the boot times learned since the last store."""
        try:
            self.tick(Instant(0.0, 0.0))
        except AutoscalerError as error:
            log.warning("eta.boot_times_not_stored", error=error)

    def deleting(self, uid: str, reason: DeleteReason) -> None:
        """Record why this process is about to delete a pod. Any thread may call this."""
        self.history.deleting(uid, reason)

    def _follow_nodes(self, ended: EndedPass, view: ClusterView) -> None:
        report, readings = ended.report, ended.memory.readings
        if readings is None or report.registry is None:
            return
        increases = [(increase.group, increase.after - increase.before) for increase in report.increases]
        seen = self._boots.look(readings, view.groups, report.registry, increases, report.now)
        for boot in seen.booted:
            self._learning.booted(boot.group, boot.sample)
            self._metrics.booted(boot.group, boot.sample.seconds)
            log.info("eta.node_booted", group=boot.group, node=boot.node, seconds=round(boot.sample.seconds, 1))
        self._metrics.boots_failed(seen.failed)

    def _account(self, ended: EndedPass, view: ClusterView) -> None:
        report = ended.report
        starting = self.history.starting
        registry, templates = report.registry, report.templates
        readings = ended.memory.readings if registry is not None else None
        self._capacity = capacity(view, readings, starting, report.now.wall, registry=registry, templates=templates)
        self._metrics.capacity(self._capacity)
        self._metrics.age(0.0)

    def _learn(self, changes: HistoryChanges, view: ClusterView, wall: float) -> None:
        nodes: dict[str, list[bool]] = {}
        for arrival in changes.arrivals:
            record, level = arrival.record, arrival.record.estimate_level
            if record.ready_at is not None and record.requested_at is not None:
                self._metrics.started(record.ready_at - record.requested_at)
            self._learning.started(arrival.pod, record, view, wall)
            within = arrival.within_worst
            if record.error_s is not None and level is not None and within is not None:
                self._metrics.erred(record.error_s, level, within)
                if not record.assumed:
                    nodes.setdefault(record.node or "", []).append(within)
                    self.status = replace(self.status, accuracy=self.status.accuracy.counted(record.error_s, within))
        for outcomes in nodes.values():
            self._learning.calibrate(sum(outcomes) / len(outcomes))
        for record in changes.ended:
            log.detail(
                "eta.pod_ended",
                pod=f"{record.namespace}/{record.name}",
                state=record.state,
                requested_at=record.requested_at,
                estimated_ready_at=record.estimated_ready_at,
                ready_at=record.ready_at,
                error_s=record.error_s,
                reason=record.delete_reason,
            )
        for pod, seconds in changes.ran:
            self._learning.ran(pod, Sample(wall, seconds))

    def _estimate(self, ended: EndedPass, view: ClusterView) -> None:
        report, now = ended.report, ended.report.now
        assert self._capacity is not None
        knowledge = self._learning.knowledge(now.wall)
        outcome = None
        estimates: dict[str, StartEstimate] = {}
        if report.registry is not None and ended.placer is not None:
            outcome = self._outcome(ended, view, knowledge.runs)
        places = None if outcome is None else PlacementFinder(outcome)
        grown = {} if outcome is None else _requested(outcome)
        known: dict[tuple[PodPlacement, str], StartEstimate] = {}
        for pod in pods_to_estimate(view.pending, self._config.estimate_max_pods):
            if self._config.pod_start_estimator is PodStartEstimator.RATIO:
                start = by_ratio(pod, self._capacity, self._ratio, pending=True)
            elif places is None:
                start = unknown(UnknownStart.NOT_CONSIDERED)
            else:
                place, kind = places.of(pod), workload(pod)
                known_as = replace(place, node=None), kind
                shared = known.get(known_as) or estimate(place, kind, knowledge, self._times)
                known[known_as] = shared
                start = replace(shared, node=place.node)
            estimates[pod.key] = start
        shown, gangs = with_gangs(estimates, view.pending, report.gangs)
        for pod in view.pending:
            if pod.key in shown:
                self._noted(pod, shown[pod.key], now.wall)
        for pod in view.pending:
            if (group := grown.get(pod.key)) is not None:
                self.history.node_requested(pod.uid, group, now.wall)
        boots = {group: duration_of((samples,), BOOT).spread for group, samples in knowledge.boots.items()}
        self._metrics.boot_quantiles(boots)
        waiting = {pod.uid for pod in view.pending}
        self._first = {uid: reason for uid, reason in self._first.items() if uid in waiting}
        self.status = replace(
            self.status,
            computed_at=now.wall,
            capacity=self._capacity,
            estimates=shown,
            gangs=gangs,
            outcome=outcome,
            knowledge=knowledge,
            times=self._times,
            boots=boots,
            view=view,
            live=self.history.live(),
            ended=self.history.ended(),
        )

    def _noted(self, pod: Pod, estimate: StartEstimate, wall: float) -> None:
        """Record an estimate, and count the first estimate of each pod, or the first reason for a missing one."""
        if estimate.expected_s is None:
            if pod.uid not in self._first and estimate.reason is not None:
                self._first[pod.uid] = estimate.reason
                self._metrics.unknown(estimate.reason)
            return
        record = self.history.get(pod.uid)
        if record is not None and record.estimated_ready_at is None:
            self._metrics.estimated(estimate)
        self.history.estimated(pod.uid, estimate, wall)

    def _outcome(self, ended: EndedPass, view: ClusterView, runs: Sequence[float]) -> PassOutcome:
        report = ended.report
        assert report.registry is not None
        assert self._capacity is not None
        return PassOutcome(
            view=view,
            registry=report.registry,
            placer=ended.placer,
            templates=report.templates,
            hints=ended.memory.hints,
            waiting=report.pods.waiting,
            plan=report.scale_up.plan,
            result=report.scale_up.result,
            grown=frozenset(increase.group for increase in report.increases if increase.after > increase.before),
            ages=self._boots.ages(report.now),
            capacity=self._capacity,
            next_pass_s=self._times.scan_s,
            ratio=self._ratio,
            runs=runs,
        )

    def _look_for_overdue(self, view: ClusterView, wall: float) -> None:
        """Report each overdue pod once. This is information only: nothing is deleted."""
        waiting = (*view.pending, *self.history.unready)
        for pod in waiting:
            record = self.history.get(pod.uid)
            if record is None or record.estimated_ready_p90_at is None or pod.uid in self._overdue:
                continue
            requested = record.requested_at or record.first_seen_at or wall
            if wall > start_deadline(requested, record.estimated_ready_p90_at):
                self._overdue.add(pod.uid)
                self._metrics.overdue()
                about = Subject(kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
                text = f"not ready {wall - requested:.0f}s after it was requested; that was expected much sooner"
                self._events.event(about, EventType.WARNING, "PodStartOverdue", text)
        self._overdue &= {pod.uid for pod in waiting}


def _requested(outcome: PassOutcome) -> Mapping[str, str]:
    """Return the group that this pass made grow for each pod, by pod key."""
    plan = outcome.plan
    rounds = () if plan is None else plan.rounds
    groups: dict[str, str] = {}
    for plan_round in rounds:
        group = next((increase.group for increase in plan_round.increases if increase.group in outcome.grown), None)
        if group is not None:
            groups.update(dict.fromkeys((pod.key for pod in plan_round.helped), group))
    return groups


def _leaving(ended: EndedPass) -> set[str]:
    begun = {removal.node.name for removal in ended.report.scale_down.begun}
    readings = ended.memory.readings
    return begun | {
        reading.node.name for reading in (() if readings is None else readings.items) if reading.to_be_deleted
    }
