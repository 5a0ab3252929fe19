"""Writes notices of the cloud to the nodes that they are about. From there passes and later leaders read them."""

from collections.abc import Callable, Mapping

from autoscaler.clock import Instant
from autoscaler.config.notices import NoticeOptions
from autoscaler.errors import AutoscalerError, Gone, LeadershipLost
from autoscaler.logs import Log
from autoscaler.loop.companion import Companion
from autoscaler.loop.stages import Observed
from autoscaler.objects.node import Node
from autoscaler.scaledown.notices import NOTICE, annotation_of, changes_annotation
from cloudprovider.interface import Notice, NoticeQueue, ProviderError

log = Log(__name__)

_POLL_S = 5.0
_PAUSE_S = 1.0

AnnotateNode = Callable[[str, Mapping[str, str | None]], object]


class NoticeKeeper(Companion):
    """Reads the queue in ticks, which run on one thread, beside the passes."""

    name = "notices"
    interval_s = _PAUSE_S

    def __init__(self, options: NoticeOptions, annotate: AnnotateNode, wake: Callable[[], None]) -> None:
        """`wake` requests a pass soon."""
        self.queue: NoticeQueue | None = None
        """The provider's queue; None until there is a provider, or if it has none."""
        self._kinds = frozenset(options.node_notices)
        self._annotate = annotate
        self._wake = wake
        self._nodes: Mapping[str, Node] = {}

    def before_pass(self, observed: Observed) -> Observed:
        """Learn the nodes by their machines; the stage stays as it is."""
        if self.queue is not None:
            self._nodes = {node.provider_id: node for node in observed.view.nodes if node.provider_id}
        return observed

    def tick(self, now: Instant) -> None:
        """Write new notices to their nodes, and acknowledge those that are written. Raises `LeadershipLost`."""
        if self.queue is None or not self._nodes:
            return
        try:
            notices = self.queue.receive(_POLL_S)
            done = [notice for notice in notices if self._written(notice)]
            self.queue.acknowledge(done)
        except ProviderError as error:
            log.warning("notices.not_received", error=str(error))

    def _written(self, notice: Notice) -> bool:
        """Whether the node says what the notice says; a notice about a machine without a node comes again later."""
        node = self._nodes.get(notice.provider_id)
        if node is None:
            return False
        if notice.kind not in self._kinds or not changes_annotation(node, notice):
            return True
        value = None if notice.withdrawn else annotation_of(notice.kind, notice.deadline)
        try:
            self._annotate(node.name, {NOTICE: value})
        except LeadershipLost:
            raise
        except Gone:
            return True
        except AutoscalerError as error:
            log.warning("notices.not_written", node=node.name, error=str(error))
            return False
        log.info("notices.written", node=node.name, notice=value or f"no {notice.kind} any more")
        self._wake()
        return True
