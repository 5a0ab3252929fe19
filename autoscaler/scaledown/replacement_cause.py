"""What asks for the replacement of a node that is needed."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.objects.node import Node
from autoscaler.reasons import ReplacementTrigger
from autoscaler.registry.readiness import Readings
from autoscaler.scaledown.pause import Pauses
from autoscaler.scaledown.replacement import HeldBack, ReplacementMemory
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.template import Template


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why one node is replaced."""

    trigger: ReplacementTrigger
    node: Node
    detail: str = ""
    """For people; nothing parses it."""
    leave_at: Instant | None = None
    """From this moment on the node goes although new nodes have not come; None: it waits for them."""
    since: Instant | None = None
    """Since when the node should be replaced; None: since it was first seen."""
    forced: bool = False
    """Pods that do not end in their time do not keep the node: its kubelet may be dead."""
    overrules: str = ""
    """Why disruption budgets do not keep the node any more, for people; empty: they do."""
    grace_over: str = ""
    """Why people have to be told if budgets keep the node still; empty: not now."""
    held: HeldBack | None = None
    """Why the node must not be replaced now; None: nothing holds it."""
    deadline: Instant | None = None
    """The machine leaves by itself at this moment, so nothing keeps the node any more; None: it does not."""
    limit: int | None = None
    """Urgent: such a replacement may begin in a pass that grew groups, and counts only towards this number of
    replacements of the same trigger in progress. None: it waits for its turn among `max_replacements`.
    """

    @property
    def urgent(self) -> bool:
        """Whether it waits neither for pending pods nor for other replacements."""
        return self.limit is not None


class CauseContext(msgspec.Struct, frozen=True, kw_only=True):
    """What causes depend on."""

    now: Instant
    config: Config
    view: ClusterView
    readings: Readings
    """Of the view's nodes, in the same order."""
    templates: Mapping[str, Template]
    """New nodes of each group, by group id."""
    silent_s: Mapping[str, float]
    """Seconds of silence by path, for kinds that the API server has not mentioned for longer than the limit."""
    memory: ReplacementMemory
    pauses: Pauses = Pauses()


CauseSource = Callable[[CauseContext], Iterator[Cause]]
"""Yields the nodes that one cause lists, in the order in which they are replaced."""
