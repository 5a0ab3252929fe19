"""Events about what a pass decides and does."""

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence

from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.objects.capacity import consumed_request
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.observe import event_texts
from autoscaler.observe.report import RemovedInstances
from autoscaler.observe.summary import NO_NODES, NO_READY_NODES
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
    """Tells pods, nodes and the status object."""

    def __init__(self, config: Config, events: EventSink) -> None:
        self._events = events
        self._talks = config.observe.write_status_configmap
        self._tells_half = config.rules.next_group_after_failed_increase
        self.status = status_object(config)
        """The status object."""

    def empty_cluster(self, now: Instant, started: Instant, *, has_nodes: bool) -> None:
        """There is no node, or none is ready: of the latter a process that has just started says nothing."""
        if not has_nodes:
            self._warn("ClusterUnhealthy", NO_NODES)
        elif now.mono - started.mono > _EMPTY_GRACE_S:
            self._warn("ClusterUnhealthy", NO_READY_NODES)

    def unhealthy(self) -> None:
        """Too many nodes are not ready."""
        self._warn("ClusterUnhealthy", "Cluster is unhealthy")

    def occurrences(self, registry: Registry) -> None:
        """Scale-ups went wrong."""
        for one in registry.occurrences:
            if one.incident is Incident.SCALE_UP_TIMED_OUT:
                self._warn(one.incident.value, event_texts.timed_out(one))
            elif one.incident is Incident.CREATION_FAILED:
                self._warn(one.incident.value, event_texts.not_created(one))

    def shortfalls(self, found: Iterable[Shortfall]) -> None:
        """Nodes came that offer less than they were bought for."""
        for one in found:
            self._warn("NodesShortOfTemplate", event_texts.short_of_template(one))

    def not_reverted(self, failed: Resized) -> None:
        """The target of a scale-up that timed out could not be lowered."""
        self._warn("FailedToRevertScaleUp", event_texts.not_reverted(failed))

    def removed(self, removals: Iterable[RemovedInstances]) -> None:
        """Machines that never registered were deleted, or could not be."""
        for removed in removals:
            for machine in removed.removal.instances:
                if removed.error is None:
                    self._tell(EventType.NORMAL, "DeleteUnregistered", f"Removed unregistered node {machine}")
                else:
                    self._warn("DeleteUnregisteredFailed", f"Failed to remove node {machine}: {removed.error.message}")

    def expanders(self, plan: ScaleUpPlan) -> None:
        """Expanders found something wrong with what they go by."""
        for one in plan.occurrences:
            self._events.event(one.about, EventType.WARNING, one.reason.value, one.message)

    def nodes_total_reached(self, limit: int) -> None:
        """No more nodes are allowed."""
        self._warn("MaxNodesTotalReached", f"Max total nodes in cluster reached: {limit}")

    def resizing(self, increase: Increase) -> None:
        """A group is about to grow."""
        self._tell(EventType.NORMAL, "ScaledUpGroup", event_texts.resizing(increase))

    def resized(self, done: Resized, max_size: int) -> None:
        """A group has grown, or has not."""
        if done.error is None:
            self._tell(EventType.NORMAL, "ScaledUpGroup", event_texts.resized(done, max_size))
        else:
            self._warn("FailedToScaleUpGroup", event_texts.resize_failed(done))

    def pods(self, plan: ScaleUpPlan, result: ScaleUpResult | None, refused: Collection[str]) -> None:
        """Every pod hears whether nodes are on their way for it; of groups that `refused` to grow nobody does."""
        if result is ScaleUpResult.ERROR and not self._tells_half:
            return
        for each in plan.rounds:
            grown = [increase for increase in each.increases if increase.group not in refused]
            message_to = functools.cache(functools.partial(event_texts.triggered, increases=grown))
            for about, called, _ in _subjects(each.helped if grown else ()):
                self._events.event(about, EventType.NORMAL, "TriggeredScaleUp", message_to(called))
        if result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR):
            return
        reasons = functools.cache(functools.partial(event_texts.refusals, plan))
        for about, called, classes in _subjects((*plan.remaining, *plan.awaiting)):
            message = event_texts.not_triggered(called, map(reasons, classes))
            self._events.event(about, EventType.NORMAL, "NotTriggerScaleUp", message)

    def consume_requests(self, pods: Sequence[Pod]) -> None:
        """These pods buy nothing, since they use the capacity of ProvisioningRequests; a few are told so."""
        for pod in pods[:_MOST_CONSUMERS]:
            name = f"{pod.namespace}/{consumed_request(pod.cls.annotations)}"
            text = f"Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest {name}"
            self._events.event(_subject(pod), EventType.NORMAL, "", text)

    def replacement(self, one: Replacement, nodes: Iterable[Node]) -> None:
        """A replacement has come to another stage; `nodes` are those of its nodes that still exist."""
        message = event_texts.replacement(one)
        if one.stage is ReplacementStage.ABANDONED:
            self._warn("NodeReplacementFailed", message)
        else:
            self._tell(EventType.NORMAL, "NodeReplacement", message)
        for node in nodes:
            subject = Subject(kind="Node", name=node.name, uid=node.uid)
            failed = one.stage is ReplacementStage.ABANDONED
            kind, reason = (
                (EventType.WARNING, "NodeReplacementFailed") if failed else (EventType.NORMAL, "NodeReplacement")
            )
            self._events.event(subject, kind, reason, message)

    def no_more_nodes(self, pods: Iterable[Pod], limit: int) -> None:
        """The cluster has as many nodes as it may have, so nothing is tried for these pods."""
        self.nodes_total_reached(limit)
        for about, called, _ in _subjects(pods):
            message = event_texts.not_triggered(called, (event_texts.NODES_TOTAL_REACHED,))
            self._events.event(about, EventType.NORMAL, "NotTriggerScaleUp", message)

    def _warn(self, reason: str, message: str) -> None:
        self._tell(EventType.WARNING, reason, message)

    def _tell(self, kind: EventType, reason: str, message: str) -> None:
        if self._talks:
            self._events.event(self.status, kind, reason, message)


def _subjects(pods: Iterable[Pod]) -> Iterator[tuple[Subject, str, tuple[PodClass, ...]]]:
    """Yield whom to tell, what the pods in question are called, and their classes.

    Each pod is told, and in the end each buffer once for all the pods that only stand for it. Of reservations no
    object is there that could be told.
    """
    buffers: dict[Subject, list[PodClass]] = {}
    for pod in pods:
        owner = pod.cls.owner
        if stands_for(RESERVATION_KIND, pod):
            continue
        if owner is None or not stands_for(BUFFER_KIND, pod):
            yield _subject(pod), "pod", (pod.cls,)
        else:
            about = Subject(owner.kind, owner.name, pod.namespace, owner.uid, owner.api_version)
            buffers.setdefault(about, []).append(pod.cls)
    for about, classes in buffers.items():
        yield about, event_texts.of_buffer(len(classes)), tuple(classes)


def _subject(pod: Pod) -> Subject:
    return Subject(kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
