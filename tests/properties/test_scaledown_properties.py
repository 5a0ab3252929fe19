"""Scale-down on random clusters: against its slow twin, and what must hold whatever the cluster."""

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaledown import Drain, ScaleDown
from autoscaler.config.scaleup import ResourceLimits
from autoscaler.objects.node import Node
from autoscaler.objects.pod import MIRROR, SAFE_TO_EVICT, Pod
from autoscaler.objects.workload import DisruptionBudget
from autoscaler.registry.readiness import ReadyTerms, read
from autoscaler.scaledown.arrivals import arrived
from autoscaler.scaledown.deletions import plan_deletions
from autoscaler.scaledown.displaced_pods import leaving_nodes
from autoscaler.scaledown.eligibility import SCALE_DOWN_DISABLED, eligible
from autoscaler.scaledown.memory import ScaleDownMemory
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.plan import ScaleDownContext
from autoscaler.scaledown.planner import plan_unneeded
from autoscaler.scaledown.utilization import UncountedPods, utilization
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView, Related, view_of
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.overlay import Trial
from cloudprovider.interface import GroupSettings
from tests.builders import a_budget, a_group, a_node, a_pod
from tests.properties.random_clusters import NAMESPACES, Dice, random_case
from tests.properties.slow_scaledown import slow_removals, slow_utilization
from tests.seeds import seeds

NOW = Instant(wall=1_700_000_000.0, mono=50_000.0)
GPU_LABEL = "accelerator"
RULES = {"newest": Rules(), "1.31": rules_of_1_31()}


def situation(view: ClusterView, groups: Groups, rules: Rules, now: Instant = NOW, **options: Any) -> ScaleDownContext:
    return ScaleDownContext(
        now=now,
        groups=groups,
        readings=read(view.nodes, ReadyTerms()),
        options=ScaleDown(**{"scale_down_utilization_threshold": 99.0, "max_scale_down_parallelism": 1000, **options}),
        drain=Drain(skip_nodes_with_custom_controller_pods=False),
        limits=ResourceLimits(),
        rules=rules,
    )


def some_budgets(dice: Dice) -> dict[str, DisruptionBudget]:
    pick = dice.random
    made = [
        a_budget(
            pick.randint(0, 3),
            name=f"b{number}",
            namespace=pick.choice(tuple(NAMESPACES)),
            labels={"app": pick.choice("xyz")},
        )
        for number in range(pick.randint(0, 3))
    ]
    return {one.key: one for one in made}


def busy_cluster(seed: int, *, plain: bool) -> tuple[ClusterView, Groups]:
    """A random cluster in which pods may be on any node, fitting or not, and all nodes belong to one group."""
    dice = Dice(seed)
    case = random_case(seed, nodes=8, pods=16, plain=plain)
    pods = [_departing(pod, dice) for on_node in case.view.pods for pod in on_node]
    marked = [_annotated(pod, dice) for pod in pods]
    of_node = {node.name: "g" for node in case.view.nodes}
    groups = Groups(all=(a_group("g", target=len(of_node)),), of_node=of_node)
    related = msgspec.structs.replace(case.view.related, budgets=some_budgets(dice))
    return view_of(case.view.nodes, marked, groups=groups, related=related), groups


def _departing(pod: Pod, dice: Dice) -> Pod:
    """Some pods are on their way out, most of those not for long."""
    since = dice.random.choice((NOW.wall - 1000, NOW.wall - 10, NOW.wall - 10)) if dice.maybe(0.15) else None
    return msgspec.structs.replace(pod, deleted=since)


def _annotated(pod: Pod, dice: Dice) -> Pod:
    if not dice.maybe(0.15):
        return pod
    mark = dice.random.choice(({SAFE_TO_EVICT: "false"}, {SAFE_TO_EVICT: "true"}, {MIRROR: "x"}))
    return msgspec.structs.replace(pod, cls=msgspec.structs.replace(pod.cls, annotations=mark))


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("plain", [True, False], ids=["room only", "every filter"])
@pytest.mark.parametrize("seed", seeds(100))
def test_removals_agree_with_the_plain_definition(seed: int, plain: bool, rules: Rules) -> None:
    view, groups = busy_cluster(seed, plain=plain)
    about = situation(view, groups, rules)
    trial = Trial(view)
    order = eligible(trial, about, ScaleDownMemory(), leaving_nodes(trial, about)).order
    slow = slow_removals(view, about, order)
    update = plan_unneeded(Placer(Trial(view)), about, ScaleDownMemory())
    assert [(one.node.name, [pod.name for pod in one.pods]) for one in update.unneeded] == slow.unneeded
    assert {name: one.reason for name, one in update.kept.items()} == slow.kept


@pytest.mark.parametrize("seed", seeds(60))
def test_hints_never_make_a_plan_that_does_not_work(seed: int) -> None:
    """Looked at again, an unchanged cluster gives removals that the last pass's places already prove possible."""
    view, groups = busy_cluster(seed, plain=False)
    memory = ScaleDownMemory()
    about = situation(view, groups, Rules(), unremovable_node_recheck_timeout_s=0.0)
    for turn in range(3):
        later = msgspec.structs.replace(about, now=NOW.later(turn * 10.0))
        update = plan_unneeded(Placer(Trial(view)), later, memory)
        memory = update.memory
        budgets = RemainingPdbTracker(view.related.budgets.values())
        for removal in update.unneeded:
            asked = [pod for pod in removal.pods if pod.cls.annotations.get(SAFE_TO_EVICT) != "true"]
            assert all(budgets.spent(pod.cls) is None for pod in asked), "each node starts within every budget"
            budgets.take(removal.pods)


def gpu_node(dice: Dice, name: str) -> Node:
    pick = dice.random
    return a_node(
        name,
        cpu=pick.choice(("0", "2", "4", "4")),
        memory=pick.choice(("0", "4Gi", "8Gi", "8Gi")),
        extra=pick.choice((None, None, {"nvidia.com/gpu": "4"}, {"amd.com/gpu": "2"}, {"amd.com/gpu": "0"})),
        labels=pick.choice(({}, {}, {}, {GPU_LABEL: "a100"})),
    )


def gpu_pod(dice: Dice, name: str, node: str | None) -> Pod:
    pick = dice.random
    return a_pod(
        name,
        cpu=pick.choice((None, "300m", "1", "3")),
        memory=pick.choice((None, "1Gi", "3Gi")),
        requests=pick.choice((None, None, {"nvidia.com/gpu": "1"}, {"amd.com/gpu": "1"})),
        owner=pick.choice(("ReplicaSet", "DaemonSet")),
        annotations=pick.choice((None, None, {MIRROR: "x"})),
        node=node,
        deleted=pick.choice((None, None, None, NOW.wall - 1000, NOW.wall - 10)),
    )


@pytest.mark.parametrize("seed", seeds(120))
def test_utilization_agrees_with_the_plain_definition(seed: int) -> None:
    dice = Dice(seed)
    nodes = [gpu_node(dice, f"n{number}") for number in range(dice.random.randint(1, 6))]
    placed = [gpu_pod(dice, f"p{number}", dice.random.choice(nodes).name) for number in range(12)]
    trial = Trial(view_of(nodes, placed))
    for number in range(dice.random.randint(0, 4)):
        more = gpu_pod(dice, f"more-{number}", dice.random.choice(nodes).name)
        more = msgspec.structs.replace(more, deleted=None)
        trial.place(more.cls, trial.view.positions[more.node or ""])
        placed.append(more)
    mirrors, label = dice.maybe(0.5), dice.random.choice((GPU_LABEL, ""))
    daemonsets = np.array([dice.maybe(0.5) for _ in nodes])
    used = utilization(trial, arrived(trial), NOW.wall, UncountedPods(daemonsets, mirrors), label, ALL_GPU_RESOURCES)
    for at, node in enumerate(nodes):
        expected = slow_utilization(
            node,
            [pod for pod in placed if pod.node == node.name],
            NOW.wall,
            daemonsets=bool(daemonsets[at]),
            mirrors=mirrors,
            gpu_label=label,
            gpus=ALL_GPU_RESOURCES,
        )
        assert bool(used.unknown[at]) is (expected is None)
        assert used.share[at] == pytest.approx(expected or 0.0)


def mixed_cluster(dice: Dice) -> tuple[ClusterView, Groups]:
    """Several groups with minimums, some that go as a whole; some nodes are protected, some of no group."""
    pick = dice.random
    kinds = [
        msgspec.structs.replace(
            a_group(f"g{number}", min_size=pick.randint(0, 2), target=0),
            settings=GroupSettings(zero_or_max_node_scaling=dice.maybe(0.3)),
        )
        for number in range(3)
    ]
    nodes, of_node = [], {}
    for number in range(pick.randint(4, 14)):
        annotations = {SCALE_DOWN_DISABLED: "true"} if dice.maybe(0.15) else None
        node = a_node(f"n{number}", cpu="4", annotations=annotations, ready=not dice.maybe(0.1))
        nodes.append(node)
        if dice.maybe(0.9):
            of_node[node.name] = pick.choice(kinds).id
    sizes = Counter(of_node.values())
    groups = Groups(all=tuple(_sized(kind, sizes[kind.id], dice) for kind in kinds), of_node=of_node)
    pods = []
    for number in range(pick.randint(0, 2 * len(nodes))):
        app = pick.choice("xyz")
        pods.append(
            a_pod(
                f"p{number}",
                namespace="red",
                cpu=pick.choice(("200m", "1", "2")),
                labels={"app": app},
                owner=None if dice.maybe(0.05) else f"ReplicaSet/{app}",
                node=pick.choice(nodes).name,
            )
        )
    made = [a_budget(pick.randint(0, 4), name=app, namespace="red", labels={"app": app}) for app in "xy"]
    budgets = {budget.key: budget for budget in made}
    return view_of(nodes, pods, groups=groups, related=Related(budgets=budgets)), groups


def _sized(group: Group, nodes: int, dice: Dice) -> Group:
    return msgspec.structs.replace(group, target_size=nodes + (1 if dice.maybe(0.2) else 0))


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("seed", seeds(150))
def test_no_plan_breaks_a_promise(seed: int, rules: Rules) -> None:
    dice = Dice(seed)
    view, groups = mixed_cluster(dice)
    options = {
        "scale_down_utilization_threshold": 0.8,
        "max_scale_down_parallelism": dice.random.randint(0, 6),
        "max_drain_parallelism": dice.random.randint(0, 3),
    }
    memory, now = ScaleDownMemory(), NOW
    for _ in range(2):
        about = situation(view, groups, rules, now, **options)
        placer = Placer(Trial(view))
        update = plan_unneeded(placer, about, memory)
        memory, now = update.memory, now.later(1201.0)
    about = situation(view, groups, rules, now, **options)
    plan = plan_deletions(update, placer.trial, about)
    going = [*plan.empty, *plan.drained]

    whole = {group.id for group in groups.all if group.settings.zero_or_max_node_scaling}
    in_all = Counter(one.group for one in going)
    for group in groups.all:
        registered = list(groups.of_node.values()).count(group.id)
        if group.id in whole and in_all[group.id]:
            assert in_all[group.id] in {group.target_size, registered}, "a whole group or none of it"
        if in_all[group.id]:
            assert group.target_size - in_all[group.id] >= group.min_size, "minimum sizes are kept"
    single = [one for one in going if one.group not in whole]
    assert len(single) <= options["max_scale_down_parallelism"]
    assert sum(one.drained for one in single) <= options["max_drain_parallelism"]
    for one in going:
        assert SCALE_DOWN_DISABLED not in one.node.annotations, "protected nodes are not touched"
        assert all(pod.cls.owner is not None for pod in view.pods_on(one.node.name)), "nor are bare pods"
        assert one.node.name in groups.of_node
        assert one.drained or not view.pods_on(one.node.name)
    if rules.reason_for_every_node:
        unexplained = {node.name for node in view.nodes} - set(plan.kept) - {one.node.name for one in going}
        assert not unexplained, "every node that stays has a reason"
    assert not set(plan.kept) & {one.node.name for one in going}
