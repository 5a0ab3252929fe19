"""Writes events about the decisions and actions of a pass."""

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence

from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.observe import event_texts
from autoscaler.observe.report import RemovedInstances
from autoscaler.ports import EventSink, EventType, Subject
from autoscaler.reasons import ReplacementStage, ScaleUpResult
from autoscaler.registry.occurrence import Incident
from autoscaler.registry.state import Registry
from autoscaler.scaledown.replacement import Replacement
from autoscaler.scaleup.fake_pods import BUFFER_KIND, RESERVATION_KIND, stands_for
from autoscaler.scaleup.plan import Increase, Resized, ScaleUpPlan
from autoscaler.scaleup.shortfall import Shortfall

_MOST_CONSUMERS = 50
"""Events that one pass sends about pods that use the capacity of ProvisioningRequests."""
_EMPTY_GRACE_S = 600.0
"""How long after the start a cluster without ready nodes is no news."""


def status_object(config: Config) -> Subject:
    """Return the object that events about the whole cluster are about."""
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
        """There is no node, or none is ready: of the latter a process that has just started says nothing."""
        if not has_nodes:
            self._warn("ClusterUnhealthy", event_texts.NO_NODES)
        elif now.mono - started.mono > _EMPTY_GRACE_S:
            self._warn("ClusterUnhealthy", event_texts.NO_READY_NODES)

    def unhealthy(self) -> None:
        """Too many nodes are not ready."""
        self._warn("ClusterUnhealthy", event_texts.UNHEALTHY)

    def occurrences(self, registry: Registry) -> None:
        """Scale-ups went wrong."""
        for occurrence in registry.occurrences:
            if occurrence.incident is Incident.SCALE_UP_TIMED_OUT:
                self._warn(occurrence.incident.value, event_texts.timed_out(occurrence))
            elif occurrence.incident is Incident.CREATION_FAILED:
                self._warn(occurrence.incident.value, event_texts.not_created(occurrence))

    def shortfalls(self, shortfalls: Iterable[Shortfall]) -> None:
        """Nodes came that offer less than they were bought for."""
        for shortfall in shortfalls:
            self._warn("NodesShortOfTemplate", event_texts.short_of_template(shortfall))

    def not_reverted(self, failed: Resized) -> None:
        """The target of a scale-up that timed out could not be lowered."""
        self._warn("FailedToRevertScaleUp", event_texts.not_reverted(failed))

    def removed(self, removals: Iterable[RemovedInstances]) -> None:
        """Machines that never registered were deleted, or could not be."""
        for removed in removals:
            for machine in removed.removal.instances:
                if removed.error is None:
                    self._on_status(EventType.NORMAL, "DeleteUnregistered", event_texts.unregistered_removed(machine))
                else:
                    text = event_texts.unregistered_not_removed(machine, removed.error)
                    self._warn("DeleteUnregisteredFailed", text)

    def expanders(self, plan: ScaleUpPlan) -> None:
        """Expanders found something wrong with their input."""
        for warning in plan.occurrences:
            self._events.event(warning.about, EventType.WARNING, warning.reason.value, warning.message)

    def nodes_total_reached(self, limit: int) -> None:
        """No more nodes are allowed."""
        self._warn("MaxNodesTotalReached", event_texts.nodes_total_reached(limit))

    def resizing(self, increase: Increase) -> None:
        """A group is about to grow."""
        self._on_status(EventType.NORMAL, "ScaledUpGroup", event_texts.resizing(increase))

    def resized(self, done: Resized, max_size: int) -> None:
        """A group has grown, or has not."""
        if done.error is None:
            self._on_status(EventType.NORMAL, "ScaledUpGroup", event_texts.resized(done, max_size))
        else:
            self._warn("FailedToScaleUpGroup", event_texts.resize_failed(done))

    def pods(self, plan: ScaleUpPlan, result: ScaleUpResult | None, refused: Collection[str]) -> None:
        """Every pod gets an event: are nodes on their way for it? Groups that `refused` to grow do not count."""
        if result is ScaleUpResult.ERROR and not self._reports_partial:
            return
        for chosen in plan.rounds:
            grown = [increase for increase in chosen.increases if increase.group not in refused]
            message_to = functools.cache(functools.partial(event_texts.triggered, increases=grown))
            for about, called, _ in _subjects(chosen.helped if grown else ()):
                self._events.event(about, EventType.NORMAL, "TriggeredScaleUp", message_to(called))
        if result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR):
            return
        reasons = functools.cache(functools.partial(event_texts.rejections_text, plan))
        for about, called, classes in _subjects((*plan.remaining, *plan.awaiting)):
            message = event_texts.not_triggered(called, map(reasons, classes))
            self._events.event(about, EventType.NORMAL, "NotTriggerScaleUp", message)

    def consume_requests(self, pods: Sequence[Pod]) -> None:
        """These pods buy nothing, since they use the capacity of ProvisioningRequests; a few of them get an event."""
        for pod in pods[:_MOST_CONSUMERS]:
            self._events.event(about_pod(pod), EventType.NORMAL, "", event_texts.consumes_request(pod))

    def replacement(self, replacement: Replacement, nodes: Iterable[Node]) -> None:
        """A replacement has reached another stage; `nodes` are those of its nodes that still exist."""
        message = event_texts.replacement(replacement)
        kind, reason = EventType.NORMAL, "NodeReplacement"
        if replacement.stage is ReplacementStage.ABANDONED:
            kind, reason = EventType.WARNING, "NodeReplacementFailed"
        self._on_status(kind, reason, message)
        for node in nodes:
            self._events.event(about_node(node), kind, reason, message)

    def no_more_nodes(self, pods: Iterable[Pod], limit: int) -> None:
        """The cluster has as many nodes as it may have, so nothing is tried for these pods."""
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
    """Yield which object an event is about, what the pods in question are called, and their classes.

    Each pod has its own, and in the end each buffer has one for all the pods that represent it. Reservations are no
    objects that an event could be about.
    """
    buffers: dict[Subject, list[PodClass]] = {}
    for pod in pods:
        owner = pod.cls.owner
        if stands_for(RESERVATION_KIND, pod):
            continue
        if owner is None or not stands_for(BUFFER_KIND, pod):
            yield about_pod(pod), "pod", (pod.cls,)
        else:
            about = Subject(owner.kind, owner.name, pod.namespace, owner.uid, owner.api_version)
            buffers.setdefault(about, []).append(pod.cls)
    for about, classes in buffers.items():
        yield about, event_texts.of_buffer(len(classes)), tuple(classes)


def about_node(node: Node) -> Subject:
    """Return the object that events about a node are about."""
    return Subject(kind="Node", name=node.name, uid=node.uid)


def about_pod(pod: Pod) -> Subject:
    """Return the object that events about a pod are about."""
    return Subject(kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
