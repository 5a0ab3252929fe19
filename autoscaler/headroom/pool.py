"""One pool: its memory between reconciliations, its events and its status."""

from collections import deque

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.headroom import NO_POLICY, Headroom, HeadroomPool
from autoscaler.eta.lead_time import Lead
from autoscaler.eta.lead_times import Leads
from autoscaler.headroom.metrics import HeadroomMetrics
from autoscaler.headroom.objects import deployment_name
from autoscaler.headroom.plan import DeploymentAction
from autoscaler.headroom.pods import PoolPods, ahead_of, class_of, pods_of
from autoscaler.headroom.policy import CoolDown
from autoscaler.headroom.status import PoolStatus
from autoscaler.headroom.writer import PoolFailed, PoolWriter, Reconciled
from autoscaler.logs import Log
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.ports import EventSink, EventType, Subject
from autoscaler.reasons import HeadroomTrouble
from autoscaler.snapshot.cluster import ClusterView

log = Log(__name__)

_CLASS_S = 600.0
"""Seconds for which a good PriorityClass is not read again."""
_CONTENDED_S, _CONTENDED = 300.0, 5


class ManagedPool:
    """One pool of the daemon. Owned by the thread that checks pools."""

    def __init__(
        self, pool: HeadroomPool, writer: PoolWriter, events: EventSink, metrics: HeadroomMetrics, leads: Leads
    ) -> None:
        self.pool = pool
        self._leads = leads
        self._interner = PodInterner()
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._held: CoolDown | None = None
        self._class_until = float("-inf")
        self._drifts: deque[float] = deque()
        self._contended = False
        self._bound: tuple[Pod, ...] = ()
        self.status = PoolStatus(name=pool.name, namespace=pool.namespace)

    def changed(self, pool: HeadroomPool) -> None:
        """Use another configuration from now on; the memory stays."""
        self.pool = pool
        self._class_until = float("-inf")

    def look(self, headroom: Headroom, view: ClusterView, now: Instant) -> None:
        """Reconcile the pool as far as possible, and publish its status. Raises `LeadershipLost`."""
        pods = pods_of(view, self.pool, headroom)
        lead = self._lead(headroom)
        self._count_preempted(pods, view)
        done: Reconciled | None = None
        troubles: tuple[HeadroomTrouble, ...] = ()
        try:
            troubles = self._class_checked(pods, now)
            done = self._writer.reconcile(self.pool, headroom, view, pods, self._held, now, lead.seconds)
            troubles += done.troubles
        except PoolFailed as failed:
            troubles = (*troubles, failed.trouble)
            if failed.trouble not in self.status.troubles:
                log.error("headroom.not_reconciled", pool=self.pool.name, reason=failed.trouble, error=failed)
        for trouble in troubles:
            self._metrics.failed(self.pool.name, trouble)
        status = msgspec.structs.replace(
            self.status,
            lead_seconds=lead.seconds,
            lead=lead,
            active=pods.active,
            bound=len(pods.bound),
            pending=len(pods.pending),
            troubles=troubles,
        )
        self.status = status if done is None else self._brought_in_order(status, done, now)
        self._publish()

    def _lead(self, headroom: Headroom) -> Lead:
        """Return how many seconds before the start of a policy its pods are requested."""
        cls = class_of(self.pool, headroom, self._interner)
        return self._leads.lead(self.pool.lead_time_s, cls, ahead_of(self.pool, headroom))

    def _class_checked(self, pods: PoolPods, now: Instant) -> tuple[HeadroomTrouble, ...]:
        if now.mono < self._class_until:
            return ()
        trouble = self._writer.check_class(self.pool, pods.lowest_active)
        if trouble is None:
            self._class_until = now.mono + _CLASS_S
            return ()
        if trouble not in self.status.troubles:
            log.warning("headroom.priority_class", pool=self.pool.name, name=self.pool.priority_class, reason=trouble)
        return (trouble,)

    def _brought_in_order(self, status: PoolStatus, done: Reconciled, now: Instant) -> PoolStatus:
        plan, want = done.plan, done.plan.want
        self._held = want.held
        for drift in plan.drift:
            self._metrics.drifted(self.pool.name, drift)
            log.warning("headroom.drift_corrected", pool=self.pool.name, field=drift, replicas=want.target)
        self._contend(len(plan.drift), now)
        if plan.action in (DeploymentAction.CREATE, DeploymentAction.UPDATE) and want.target != plan.before:
            if not plan.drift:
                self._metrics.scaled(self.pool.name, "up" if want.target > plan.before else "down")
            log.info(
                "headroom.scaled",
                pool=self.pool.name,
                replicas=want.target,
                before=plan.before,
                policy=want.policy,
                early_for="" if want.early is None else want.early.policy,
                reason=want.reason,
            )
        self._metrics.reconciled(self.pool.name, now.wall)
        return msgspec.structs.replace(
            status,
            policy=want.policy,
            early=want.early,
            desired=want.desired,
            target=want.target,
            reason=want.reason.value,
            lower_at=now.wall + want.held.allowed.mono - now.mono,
            replicas=plan.before,
            reconciled_at=now.wall,
        )

    def _contend(self, drifts: int, now: Instant) -> None:
        """Report once that another controller seems to change the Deployment again and again."""
        self._drifts.extend([now.mono] * drifts)
        while self._drifts and now.mono - self._drifts[0] > _CONTENDED_S:
            self._drifts.popleft()
        contended = len(self._drifts) > _CONTENDED
        if contended and not self._contended:
            name = deployment_name(self.pool)
            about = Subject(kind="Deployment", name=name, namespace=self.pool.namespace, api_version="apps/v1")
            text = (
                f"changes by somebody else were put back {len(self._drifts)} times in five minutes: "
                "another controller, such as a HorizontalPodAutoscaler, is fighting over it"
            )
            self._events.event(about, EventType.WARNING, "HeadroomContended", text)
        self._contended = contended

    def _count_preempted(self, pods: PoolPods, view: ClusterView) -> None:
        """Count pods that disappeared although all were wanted and their node stays: other pods preempted them."""
        there = {pod.uid for pod in pods.bound}
        gone = [pod for pod in self._bound if pod.uid not in there and view.node(pod.node or "") is not None]
        wanted = self._held is not None and len(self._bound) <= self._held.count
        taken = [pod for pod in gone if not pod.cls.given_up]
        if taken and wanted:
            self._metrics.preempted(self.pool.name, len(taken))
        self._bound = pods.bound

    def _publish(self) -> None:
        status, pool = self.status, self.pool
        self._metrics.wanted(pool.name, desired=status.desired, target=status.target, active=status.active)
        self._metrics.lead(pool.name, status.lead_seconds)
        self._metrics.found(pool.name, replicas=status.replicas, bound=status.bound, pending=status.pending)
        self._metrics.policy(pool.name, status.policy, [*(policy.name for policy in pool.policies), NO_POLICY])
