"""A `LoopWorld` whose pods live on: what is evicted comes back, is scheduled, and machines come and go in time."""

from collections.abc import Sequence
from typing import Any

import msgspec

from autoscaler.config.disruption_budgets import DisruptionOptions, parse_budget
from autoscaler.config.scaledown import Drain, ReplacementOptions, ScaleDown
from autoscaler.config.tree import Config
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import DisruptionBudget
from autoscaler.observe.report import PassReport
from autoscaler.reasons import ReplacementStage
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from cloudprovider.static.spec import GroupSpec
from tests.builders import a_node, a_pod
from tests.unit.loop.loop_world import NOW, LoopWorld

DAY_S = 86_400.0


def options(*, rules: Any = None, unneeded_s: float = 600.0, budgets: str = "", **replacement: Any) -> Config:
    """A configuration in which controllers need not exist, with these options of replacements."""
    config = Config(
        replacement=ReplacementOptions(**replacement),
        scale_down=ScaleDown(scale_down_unneeded_time_s=unneeded_s),
        disruption=DisruptionOptions(parse_budget(budgets) if budgets else ()),
        drain=Drain(skip_nodes_with_custom_controller_pods=False, node_delete_delay_after_taint_s=20.0),
    )
    return config if rules is None else msgspec.structs.replace(config, rules=rules)


def old_node(name: str = "old", *, days: float = 10.0, **about: Any) -> Node:
    """A node that joined so many days ago."""
    return a_node(name, created=NOW - days * DAY_S, **about)


def on(node: str, name: str = "app", cpu: str = "3", **about: Any) -> Pod:
    """A replica that runs on a node."""
    return a_pod(name, cpu=cpu, node=node, **about)


class ReplacingWorld(LoopWorld):
    """Passes every 15 seconds, with everything that happens between them."""

    def __init__(
        self,
        *groups: GroupSpec,
        config: Config,
        nodes: Sequence[tuple[Node, str]] = (),
        pods: Sequence[Pod] = (),
        budgets: Sequence[DisruptionBudget] = (),
    ) -> None:
        super().__init__(*groups, config=config, nodes=nodes, budgets=budgets)
        self.submit(*pods)
        self._born = 0
        self._wanted = {pod.key: pod for pod in pods}

    def step(self) -> PassReport:
        """One pass, 15 seconds of what follows from it, and then pods come again and are scheduled."""
        report = super().step()
        self._recreate()
        self._schedule()
        return report

    def _recreate(self) -> None:
        for key, pod in list(self._wanted.items()):
            there = self.cluster.pods.get(key)
            owner = pod.cls.owner
            # A StatefulSet makes a pod again only when the pod before it is gone; other controllers do not wait.
            waits = owner is not None and owner.kind == "StatefulSet"
            if there is None or (there.deleted is not None and not waits):
                self._born += 1
                name = f"{pod.name.partition('.')[0]}.{self._born}"
                fresh = msgspec.structs.replace(
                    pod,
                    name=name,
                    uid=f"{pod.namespace}/{name}",
                    node=None,
                    phase="Pending",
                    created=self.clock.now().wall,
                    unscheduled=a_pod("x", unschedulable=True).unscheduled,
                )
                del self._wanted[key]
                self._wanted[fresh.key] = fresh
                self.submit(fresh)

    def _schedule(self) -> None:
        placer = Placer(Trial(view_of(self.cluster.nodes.values(), self.cluster.pods.values())))
        trial = placer.trial
        for pod in list(self.cluster.pods.values()):
            if pod.node is None:
                position = placer.first(pod.cls, slice(0, trial.count), 0)
                if position is not None:
                    placer.place(pod.cls, position)
                    placed = msgspec.structs.replace(pod, node=trial.name(position), phase="Running", unscheduled=None)
                    self.submit(placed)

    @property
    def nodes(self) -> set[str]:
        """Names of the nodes that there are."""
        return set(self.cluster.nodes)

    @property
    def unplaced(self) -> int:
        """Pods that run nowhere."""
        return sum(pod.node is None for pod in self.cluster.pods.values())

    def stages(self) -> list[ReplacementStage]:
        """Every stage that a replacement was seen to come to, repetitions left out."""
        seen: list[ReplacementStage] = []
        for report in self.reports:
            for one in report.replacements.all:
                if not seen or seen[-1] is not one.stage:
                    seen.append(one.stage)
        return seen
