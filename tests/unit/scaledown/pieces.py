"""Builders for the scale-down tests: clusters, situations and removals; each takes only what a test is about."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaledown import Drain, ScaleDown
from autoscaler.config.scaleup import ResourceLimits
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import DisruptionBudget
from autoscaler.reasons import UnremovableReason
from autoscaler.registry.memory import LastActions
from autoscaler.registry.readiness import ReadyTerms, read
from autoscaler.scaledown.memory import ScaleDownMemory
from autoscaler.scaledown.plan import Removal, ScaleDownContext, UnneededNodes
from autoscaler.scaledown.planner import plan_unneeded
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import Related, view_of
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.overlay import Trial
from cloudprovider.interface import GroupSettings
from tests.builders import a_group, a_node, a_pod

NOW = Instant(wall=1_700_000_000.0, mono=50_000.0)
NEW = Rules()
OLD = rules_of_1_31()
TRUSTING = Drain(skip_nodes_with_custom_controller_pods=False)
"""Does not look controllers up, so that tests need none."""
FRESH = ScaleDownMemory()


class Begun(msgspec.Struct, frozen=True):
    """Removals under way, by node: its group."""

    empty: Mapping[str, str] = {}
    drained: Mapping[str, str] = {}
    evicted: tuple[Pod, ...] = ()

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset((*self.empty, *self.drained))

    @property
    def empty_nodes(self) -> frozenset[str]:
        return frozenset(self.empty)

    @property
    def empty_count(self) -> int:
        return len(self.empty)

    @property
    def drained_count(self) -> int:
        return len(self.drained)

    def count_in(self, group: str) -> int:
        return [*self.empty.values(), *self.drained.values()].count(group)


def full(name: str, cpu: str = "4") -> list[Pod]:
    """A pod that fills a node of that size."""
    return [a_pod(f"full-{name}", cpu=cpu, node=name)]


class Cluster:
    """Nodes of one group, `g`, unless they are told to belong elsewhere; every pass is a fresh look at it."""

    def __init__(
        self,
        nodes: Sequence[Node],
        pods: Iterable[Pod] = (),
        *,
        groups: Sequence[Group] | None = None,
        of_node: Mapping[str, str] | None = None,
        budgets: Sequence[DisruptionBudget] = (),
        related: Related | None = None,
        gpu_label: str = "",
    ) -> None:
        owners = {node.name: "g" for node in nodes} if of_node is None else of_node
        every = [a_group("g", max_size=100, target=len(nodes))] if groups is None else groups
        self.groups = Groups(all=tuple(every), of_node=owners, gpu_label=gpu_label)
        known = msgspec.structs.replace(related or Related(), budgets={budget.key: budget for budget in budgets})
        self.view = view_of(nodes, pods, groups=self.groups, related=known)

    def trial(self) -> Trial:
        return Trial(self.view)

    def situation(
        self,
        *,
        now: Instant = NOW,
        rules: Rules = NEW,
        drain: Drain = TRUSTING,
        limits: ResourceLimits | None = None,
        last_by_group: Mapping[str, LastActions] | None = None,
        under_way: Begun | None = None,
        **options: Any,
    ) -> ScaleDownContext:
        return ScaleDownContext(
            now=now,
            groups=self.groups,
            readings=read(self.view.nodes, ReadyTerms()),
            options=ScaleDown(**options),
            drain=drain,
            limits=limits or ResourceLimits(),
            rules=rules,
            last_by_group=last_by_group or {},
            under_way=under_way or Begun(),
        )

    def look(self, memory: ScaleDownMemory = FRESH, **about: Any) -> UnneededNodes:
        """One pass over the cluster as it is."""
        return plan_unneeded(Placer(self.trial()), self.situation(**about), memory)


def names(removals: Iterable[Removal]) -> list[str]:
    return [removal.node.name for removal in removals]


def reasons(update: UnneededNodes) -> dict[str, UnremovableReason]:
    return {name: kept.reason for name, kept in update.kept.items()}


def group_with(group_id: str = "g", *, target: int, min_size: int = 0, **settings: Any) -> Group:
    """A group with overrides of flags."""
    return a_group(group_id, min_size=min_size, max_size=100, target=target, settings=GroupSettings(**settings))


def a_removal(
    name: str,
    *,
    group: str = "g",
    drained: bool = False,
    atomic: bool = False,
    risky: bool = False,
    ready: bool = True,
    wait_for: tuple[Pod, ...] = (),
) -> Removal:
    return Removal(
        node=a_node(name),
        group=group,
        pods=(a_pod(f"on-{name}", node=name),) if drained else (),
        wait_for=wait_for,
        ready=ready,
        utilization=0.1,
        atomic=atomic,
        risky=risky,
    )
