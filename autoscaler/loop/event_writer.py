"""Writes events about the decisions and actions of a pass."""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.observe import event_texts
from autoscaler.observe.report import RemovedInstances
from autoscaler.observe.status import Advice
from autoscaler.ports import EventSink, EventType, Subject
from autoscaler.reasons import ReplacementHold, ReplacementStage, ScaleUpResult
from autoscaler.registry.occurrence import Incident
from autoscaler.registry.state import Registry
from autoscaler.scaledown.drift_memory import DriftFailure
from autoscaler.scaledown.replacement import Replacement
from autoscaler.scaleup.fake_pods import BUFFER_KIND, RESERVATION_KIND, stands_for, to_come
from autoscaler.scaleup.plan import Increase, Resized, ScaleUpPlan
from autoscaler.scaleup.shortfall import Shortfall

_MOST_CONSUMERS = 50
"""Maximum number of events per pass about pods that use the capacity of ProvisioningRequests."""
_EMPTY_GRACE_S = 600.0
"""Seconds after the start during which a cluster without ready nodes causes no event."""


def status_object(config: Config) -> Subject:
    """Return the object to which events about the whole cluster are attached."""
    return Subject(kind="ConfigMap", name=config.observe.status_config_map_name, namespace=config.kube.namespace)


class PassEventWriter:
    """Writes events about pods, nodes and the status object."""

    def __init__(self, config: Config, events: EventSink) -> None:
        self._events = events
        self._writes_status = config.observe.write_status_configmap
        self._reports_partial = config.rules.next_group_after_failed_increase
        self.status = status_object(config)
        """The status object."""

    def empty_cluster(self, now: Instant, started: Instant, *, has_nodes: bool) -> None:
        """Report that the cluster has no nodes, or no ready ones.

        A process that has just started does not report the latter.
        """
        if not has_nodes:
            self._warn("ClusterUnhealthy", event_texts.NO_NODES)
        elif now.mono - started.mono > _EMPTY_GRACE_S:
            self._warn("ClusterUnhealthy", event_texts.NO_READY_NODES)

    def unhealthy(self) -> None:
        """Report that too many nodes are not ready."""
        self._warn("ClusterUnhealthy", event_texts.UNHEALTHY)

    def occurrences(self, registry: Registry) -> None:
        """Report scale-ups that failed."""
        for occurrence in registry.occurrences:
            if occurrence.incident is Incident.SCALE_UP_TIMED_OUT:
                self._warn(occurrence.incident.value, event_texts.timed_out(occurrence))
            elif occurrence.incident is Incident.CREATION_FAILED:
                self._warn(occurrence.incident.value, event_texts.not_created(occurrence))

    def shortfalls(self, shortfalls: Iterable[Shortfall]) -> None:
        """Report new nodes that offer less than their template promised."""
        for shortfall in shortfalls:
            self._warn("NodesShortOfTemplate", event_texts.short_of_template(shortfall))

    def not_reverted(self, failed: Resized, after: str = "scale-up timeout") -> None:
        """Report that the target size could not be lowered after a scale-up that failed in some way."""
        self._warn("FailedToRevertScaleUp", event_texts.not_reverted(failed, after))

    def removed(self, removals: Iterable[RemovedInstances]) -> None:
        """Report unregistered machines that were deleted, or whose deletion failed."""
        for removed in removals:
            for machine in removed.removal.instances:
                if removed.error is None:
                    self._on_status(EventType.NORMAL, "DeleteUnregistered", event_texts.unregistered_removed(machine))
                else:
                    text = event_texts.unregistered_not_removed(machine, removed.error)
                    self._warn("DeleteUnregisteredFailed", text)

    def expanders(self, plan: ScaleUpPlan) -> None:
        """Report that expanders found errors in their input."""
        for warning in plan.occurrences:
            self._events.event(warning.about, EventType.WARNING, warning.reason.value, warning.message)

    def nodes_total_reached(self, limit: int) -> None:
        """Report that the limit on nodes has been reached."""
        self._warn("MaxNodesTotalReached", event_texts.nodes_total_reached(limit))

    def resizing(self, increase: Increase) -> None:
        """Report that a group is about to grow."""
        self._on_status(EventType.NORMAL, "ScaledUpGroup", event_texts.resizing(increase))

    def resized(self, done: Resized, max_size: int) -> None:
        """Report that a group has grown, or that the increase failed."""
        if done.error is None:
            self._on_status(EventType.NORMAL, "ScaledUpGroup", event_texts.resized(done, max_size))
        else:
            self._warn("FailedToScaleUpGroup", event_texts.resize_failed(done))

    def triggered(self, plan: ScaleUpPlan, result: ScaleUpResult | None, refused: Collection[str]) -> None:
        """Write one event per pod for which nodes are on their way. Groups in `refused` do not count."""
        if result is ScaleUpResult.ERROR and not self._reports_partial:
            return
        for chosen in plan.rounds:
            grown = [increase for increase in chosen.increases if increase.group not in refused]
            message_to = functools.cache(functools.partial(event_texts.triggered, increases=grown))
            for about, called, _ in _subjects(chosen.helped if grown else ()):
                self._events.event(about, EventType.NORMAL, "TriggeredScaleUp", message_to(called))

    def not_triggered(self, plan: ScaleUpPlan, result: ScaleUpResult | None, advice: Mapping[PodClass, Advice]) -> None:
        """Write one event per pod for which nothing could be done, with what would help if that is known."""
        if result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR):
            return
        reasons = functools.cache(functools.partial(event_texts.rejections_text, plan))
        for about, called, classes in _subjects((*plan.remaining, *plan.awaiting)):
            fix = next((advice[cls].fix for cls in classes if cls in advice), "")
            message = event_texts.not_triggered(called, map(reasons, classes), fix)
            self._events.event(about, EventType.NORMAL, "NotTriggerScaleUp", message)

    def consume_requests(self, pods: Sequence[Pod]) -> None:
        """Report for a few of these pods that they use the capacity of ProvisioningRequests and trigger no scale-up."""
        for pod in pods[:_MOST_CONSUMERS]:
            self._events.event(about_pod(pod), EventType.NORMAL, "", event_texts.consumes_request(pod))

    def replacement(self, replacement: Replacement, nodes: Iterable[Node]) -> None:
        """Report that a replacement has reached another stage; `nodes` are those of its nodes that still exist."""
        message = event_texts.replacement(replacement)
        kind, reason = EventType.NORMAL, "NodeReplacement"
        if replacement.stage is ReplacementStage.ABANDONED or replacement.hold is ReplacementHold.GRACE_OVER:
            kind, reason = EventType.WARNING, "NodeReplacementFailed"
        self._on_status(kind, reason, message)
        for node in nodes:
            self._events.event(about_node(node), kind, reason, message)

    def protection_over(self, pod: Pod, stated: str, limit_s: float) -> None:
        """Report for a pod that it is moved although it is `stated` that it stays."""
        message = event_texts.protection_over(stated, limit_s)
        self._events.event(about_pod(pod), EventType.WARNING, "DoNotDisruptLimitReached", message)

    def drift_stopped(self, failure: DriftFailure) -> None:
        """Report that no drifted node is replaced any more, because the nodes that replaced one failed."""
        self._warn("DriftStopped", event_texts.drift_stopped(failure))

    def no_more_nodes(self, pods: Iterable[Pod], limit: int) -> None:
        """Report for these pods that the cluster is at its maximum number of nodes, so no scale-up is tried."""
        self.nodes_total_reached(limit)
        for about, called, _ in _subjects(pods):
            message = event_texts.not_triggered(called, (event_texts.NODES_TOTAL_REACHED,))
            self._events.event(about, EventType.NORMAL, "NotTriggerScaleUp", message)

    def _warn(self, reason: str, message: str) -> None:
        self._on_status(EventType.WARNING, reason, message)

    def _on_status(self, kind: EventType, reason: str, message: str) -> None:
        if self._writes_status:
            self._events.event(self.status, kind, reason, message)


def _subjects(pods: Iterable[Pod]) -> Iterator[tuple[Subject, str, tuple[PodClass, ...]]]:
    """Yield the object of each event, the name that its message uses for the pods, and their classes.

    Each pod is its own object. Each buffer is one object for all its fake pods, and comes last. Pods of reservations
    and pods to come have no object, so they get no event.
    """
    buffers: dict[Subject, list[PodClass]] = {}
    for pod in pods:
        owner = pod.cls.owner
        if stands_for(RESERVATION_KIND, pod) or to_come(pod.cls):
            continue
        if owner is None or not stands_for(BUFFER_KIND, pod):
            yield about_pod(pod), "pod", (pod.cls,)
        else:
            about = Subject(owner.kind, owner.name, pod.namespace, owner.uid, owner.api_version)
            buffers.setdefault(about, []).append(pod.cls)
    for about, classes in buffers.items():
        yield about, event_texts.of_buffer(len(classes)), tuple(classes)


def about_node(node: Node) -> Subject:
    """Return the object of events about a node."""
    return Subject(kind="Node", name=node.name, uid=node.uid)


def about_pod(pod: Pod) -> Subject:
    """Return the object of events about a pod."""
    return Subject(kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
