"""Builders of nodes, groups and passes for the registry's tests; each takes only what a test is about."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaleup import HealthOptions
from autoscaler.objects.node import Node, NodeCondition, Taint
from autoscaler.registry.memory import Memory, born
from autoscaler.registry.readiness import ReadyTerms, read
from autoscaler.registry.state import GroupState, Registry, update
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.groups import Group, Groups
from cloudprovider.interface import ErrorClass, GroupSettings, Instance, InstanceError, State

NOW = Instant(wall=1_700_000_000.0, mono=50_000.0)
NEW = Rules()
OLD = rules_of_1_31()
HEALTH = HealthOptions()
STOCK_OUT = InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "no capacity")


def a_node(
    name: str,
    *,
    ready: bool | None = True,
    age_s: float = 86_400.0,
    now: Instant = NOW,
    taints: Sequence[str] = (),
    suspended: bool = False,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, int] | None = None,
    unschedulable: bool = False,
) -> Node:
    conditions = [] if ready is None else [NodeCondition("Ready", "True" if ready else "False", "KubeletNotReady")]
    if suspended:
        conditions.append(NodeCondition("Suspended", "True"))
    return Node(
        name=name,
        provider_id=f"id-{name}",
        labels=labels or {},
        taints=tuple(Taint(key, "NoSchedule") for key in taints),
        conditions=tuple(conditions),
        allocatable=allocatable or {},
        unschedulable=unschedulable,
        created=now.wall - age_s,
    )


def ready_nodes(count: int, prefix: str = "n") -> list[Node]:
    return [a_node(f"{prefix}{number}") for number in range(count)]


def unready_nodes(count: int, *, age_s: float = 86_400.0, prefix: str = "bad") -> list[Node]:
    return [a_node(f"{prefix}{number}", ready=False, age_s=age_s) for number in range(count)]


def a_machine(instance_id: str, *, state: State | None = State.RUNNING, error: InstanceError | None = None) -> Instance:
    return Instance(instance_id, state, error)


def failing(*instance_ids: str, error: InstanceError = STOCK_OUT) -> list[Instance]:
    return [Instance(instance_id, State.CREATING, error) for instance_id in instance_ids]


def a_group(
    target: int,
    machines: Iterable[Instance] = (),
    *,
    group_id: str = "web",
    min_size: int = 0,
    settings: GroupSettings | None = None,
) -> Group:
    return Group(
        id=group_id,
        min_size=min_size,
        max_size=1000,
        target_size=target,
        instances=tuple(machines),
        settings=settings or GroupSettings(),
    )


def look(
    group: Group,
    nodes: Sequence[Node] = (),
    *,
    memory: Memory | None = None,
    now: Instant = NOW,
    rules: Rules = NEW,
    health: HealthOptions = HEALTH,
    templated: Sequence[str] = ("web",),
    strangers: Sequence[Node] = (),
    gone: frozenset[str] | None = None,
    known_target: int | None = -1,
) -> Registry:
    """One pass over a cluster with one group; the nodes' machines are added to the group's.

    The last pass left `known_target` (-1: the target of now; None: there was no last pass).
    """
    machines = (*(Instance(node.provider_id) for node in nodes), *group.instances)
    group = Group(
        id=group.id,
        min_size=group.min_size,
        max_size=group.max_size,
        target_size=group.target_size,
        instances=machines,
        settings=group.settings,
    )
    groups = Groups(
        all=(group,),
        of_node={node.name: group.id for node in nodes},
        gone=gone or frozenset(),
        can_tell_gone=gone is not None,
    )
    view = view_of([*nodes, *strangers], [], groups=groups)
    readings = read(view.nodes, ReadyTerms())
    known = {} if known_target is None else {group.id: group.target_size if known_target < 0 else known_target}
    memory = msgspec.structs.replace(memory or born(now), targets=known)
    return update(memory, view, readings, now, health=health, rules=rules, templated=templated)


def state_of(registry: Registry) -> GroupState:
    """The state of the only group."""
    (state,) = registry.groups.values()
    return state
