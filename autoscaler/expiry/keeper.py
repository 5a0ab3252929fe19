"""The clean-up of expired pods as a companion: one sweep per minute on the leader, independent of the passes."""

from collections.abc import Callable

from autoscaler.clock import Instant
from autoscaler.config.eta import EVERY_NAMESPACE, Eta
from autoscaler.errors import AutoscalerError, Gone, LeadershipLost
from autoscaler.eta.metrics import ExpiryMetrics
from autoscaler.expiry.cluster import SweptPods
from autoscaler.expiry.plan import Expired, ExpiringPod, ExpiryTerms, plan_sweep
from autoscaler.logs import Log
from autoscaler.loop.companion import Companion
from autoscaler.ports import EventSink, EventType, Subject
from autoscaler.reasons import DeleteReason

log = Log(__name__)

_SWEEP_S = 60.0
_WARN_S = 3600.0


class ExpiredPods(Companion):
    """Does its work in ticks, which run on one thread."""

    name = "expired-pods"
    interval_s = _SWEEP_S

    def __init__(
        self,
        eta: Eta,
        pods: SweptPods,
        events: EventSink,
        metrics: ExpiryMetrics,
        deleting: Callable[[str, DeleteReason], None] = lambda uid, reason: None,
    ) -> None:
        """`deleting` receives uid and reason of each pod right before its deletion."""
        every = EVERY_NAMESPACE in eta.expired_pod_namespaces
        self._namespaces = () if every else tuple(dict.fromkeys(eta.expired_pod_namespaces))
        self._terms = ExpiryTerms(
            namespaces=frozenset(eta.expired_pod_namespaces),
            annotation=eta.expired_pod_annotation,
            most=eta.expired_pod_max_per_sweep,
            generation=eta.expired_pod_generation,
        )
        self._pods = pods
        self._events = events
        self._metrics = metrics
        self._deleting = deleting
        self._warned: dict[str, float] = {}
        self._earlier_are_gone = False

    def tick(self, now: Instant) -> None:
        """Delete expired pods. A failed list ends this sweep, and the next sweep tries again.

        Raises `LeadershipLost`.
        """
        try:
            pods = self._pods.all(self._namespaces)
        except LeadershipLost:
            raise
        except AutoscalerError as error:
            self._metrics.failed("list")
            log.warning("expired_pods.not_listed", error=error)
            return
        sweep = plan_sweep(pods, self._terms, now.wall, earlier_generations=not self._earlier_are_gone)
        self._warn(sweep.invalid, now)
        done = [self._delete(pod) for pod in sweep.delete]
        if all(done) and len(done) < self._terms.most:
            self._earlier_are_gone = True

    def _delete(self, pod: Expired) -> bool:
        try:
            self._deleting(pod.uid, pod.reason)
            self._pods.delete(pod)
        except Gone:
            return True
        except LeadershipLost:
            raise
        except AutoscalerError as error:
            self._metrics.failed("delete")
            log.warning(
                "expired_pods.not_deleted", namespace=pod.namespace, pod=pod.name, error=error, next="next sweep"
            )
            return False
        self._metrics.deleted(pod.reason)
        log.info("expired_pods.deleted", namespace=pod.namespace, pod=pod.name, reason=pod.reason)
        return True

    def _warn(self, invalid: tuple[ExpiringPod, ...], now: Instant) -> None:
        """Report unreadable deadlines, once an hour for each pod."""
        self._metrics.invalid(len(invalid))
        self._warned = {uid: warned for uid, warned in self._warned.items() if now.mono - warned < _WARN_S}
        for pod in invalid:
            meta = pod.metadata
            if meta.uid in self._warned:
                continue
            self._warned[meta.uid] = now.mono
            about = Subject(kind="Pod", name=meta.name, namespace=meta.namespace, uid=meta.uid)
            text = f"annotation {self._terms.annotation} is not a time in Unix seconds; the pod does not expire"
            self._events.event(about, EventType.WARNING, "InvalidExpiry", text)
