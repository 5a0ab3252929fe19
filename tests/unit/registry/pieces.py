"""Builders of nodes, groups and passes for the registry's tests; each takes only what a test is about."""

from collections.abc import Sequence

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaleup import HealthOptions
from autoscaler.objects.node import Node
from autoscaler.registry.memory import Memory, born
from autoscaler.registry.readiness import ReadyTerms, read
from autoscaler.registry.state import GroupState, Registry, update
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.groups import Group, Groups
from cloudprovider.interface import ErrorClass, Instance, InstanceError, State
from tests.builders import a_node

NOW = Instant(wall=1_700_000_000.0, mono=50_000.0)
NEW = Rules()
OLD = rules_of_1_31()
HEALTH = HealthOptions()
SUSPENDED = {"type": "Suspended", "status": "True"}
STOCK_OUT = InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "no capacity")


def ready_nodes(count: int, prefix: str = "n") -> list[Node]:
    return [a_node(f"{prefix}{number}") for number in range(count)]


def unready_nodes(count: int, *, age_s: float = 86_400.0, prefix: str = "bad") -> list[Node]:
    return [a_node(f"{prefix}{number}", ready=False, created=NOW.wall - age_s) for number in range(count)]


def a_machine(instance_id: str, *, state: State | None = State.RUNNING, error: InstanceError | None = None) -> Instance:
    return Instance(instance_id, state, error)


def failing(*instance_ids: str, error: InstanceError = STOCK_OUT) -> list[Instance]:
    return [Instance(instance_id, State.CREATING, error) for instance_id in instance_ids]


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
    group = msgspec.structs.replace(group, instances=machines)
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
