"""Scale-down as values: what it depends on, the removals it considers, and what it decides."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.disruption_budgets import NodeDisruptionBudget
from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import Drain, ScaleDown
from autoscaler.config.scaleup import ResourceLimits
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import UnremovableNode
from autoscaler.registry.memory import LastActions
from autoscaler.registry.readiness import Readings
from autoscaler.scaledown.memory import ScaleDownMemory
from autoscaler.scaledown.pause import Pauses
from autoscaler.scaledown.running_gangs import RunningGangs
from autoscaler.snapshot.groups import Groups


class OngoingRemovals(Protocol):
    """Removals that have begun and not ended."""

    @property
    def nodes(self) -> frozenset[str]:
        """Names of their nodes."""
        ...

    @property
    def empty_nodes(self) -> frozenset[str]:
        """Names of those that were empty."""
        ...

    @property
    def empty_count(self) -> int:
        """How many of them were empty."""
        ...

    @property
    def drained_count(self) -> int:
        """How many of them are being drained."""
        ...

    @property
    def evicted(self) -> Sequence[Pod]:
        """Pods that they have evicted so far."""
        ...

    def count_in(self, group: str) -> int:
        """How many belong to a group."""
        ...


class NoOngoingRemovals:
    """No removals."""

    nodes: frozenset[str] = frozenset()
    empty_nodes: frozenset[str] = frozenset()
    empty_count = 0
    drained_count = 0
    evicted: Sequence[Pod] = ()

    def count_in(self, group: str) -> int:
        """How many belong to a group."""
        return 0


class ScaleDownContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the decisions depend on, beside the simulated cluster and the memory."""

    now: Instant
    groups: Groups
    """With target sizes as they are now."""
    readings: Readings
    """Of the view's nodes."""
    options: ScaleDown
    drain: Drain
    limits: ResourceLimits = ResourceLimits()
    rules: Rules = Rules()
    last_by_group: Mapping[str, LastActions] = {}
    under_way: OngoingRemovals = NoOngoingRemovals()
    displaced_placed: frozenset[str] = frozenset()
    """Keys of pods on nodes being removed that have found room elsewhere on the simulated cluster already."""
    gangs: RunningGangs = RunningGangs()
    reserved_nodes: Mapping[str, UnremovableNode] = {}
    """Nodes of replacements in progress, by name: they are not judged."""
    disruption_budgets: tuple[NodeDisruptionBudget, ...] = ()
    disrupted: Mapping[str, str] = {}
    """Why nodes are disrupted now, by name: what disruption budgets count."""
    pauses: Pauses = Pauses()


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A node that may go, as a simulation left it."""

    node: Node
    group: str
    pods: tuple[Pod, ...] = ()
    """Pods that found another place. Some may be here only in the simulation, which put them on this node before."""
    daemons: tuple[Pod, ...] = ()
    """Pods that are evicted and need no other place."""
    wait_for: tuple[Pod, ...] = ()
    """Pods that must run to their end first."""
    ready: bool = True
    utilization: float | None = None
    atomic: bool = False
    """Its group goes as a whole or not at all."""
    risky: bool = False
    """Disruption budgets do not allow to evict its pods all at once."""
    forced: bool = False
    """Pods that were evicted and do not end in their time do not keep it: its kubelet may be dead."""
    overrules: str = ""
    """Why its pods go although disruption budgets forbid it, for people; empty: budgets hold."""
    leave_by: Instant | None = None
    """Its machine leaves by itself at this moment: nothing keeps its pods, and it waits for no budget of removals."""
    urgent: bool = False
    """Its machine is failing or will be taken away: `do-not-disrupt` keeps neither it nor its pods."""
    replaced: bool = False
    """Other nodes have come in its place: it goes although it is needed, and waits for no unneeded time."""

    @property
    def drained(self) -> bool:
        """Whether pods have to move first."""
        return bool(self.pods)


class UnneededNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes are unneeded now."""

    memory: ScaleDownMemory
    """To carry on from; it has the time since which each node is unneeded."""
    unneeded: tuple[Removal, ...] = ()
    """Any number of them could go together, in this order."""
    kept: Mapping[str, UnremovableNode] = {}
    """Why other nodes stay, by name."""
    candidates: int = 0
    """How many nodes were examined: those of groups above their minimum."""


class NodesToDelete(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to remove now, in order and within all budgets."""

    empty: tuple[Removal, ...] = ()
    drained: tuple[Removal, ...] = ()
    kept: Mapping[str, UnremovableNode] = {}
    """Why all other nodes stay, by name."""
