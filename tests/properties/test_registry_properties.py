"""What holds for the registry whatever the cluster looks like."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaleup import HealthOptions
from autoscaler.objects.node import TO_BE_DELETED, Node, NodeCondition, Taint
from autoscaler.registry import backoff
from autoscaler.registry.buckets import Buckets
from autoscaler.registry.memory import Memory, born, scaled_up
from autoscaler.registry.readiness import ReadyTerms, read
from autoscaler.registry.state import Registry, update
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.template import PassingTaints
from cloudprovider.interface import ErrorClass, GroupSettings, Instance, InstanceError, State
from tests.builders import a_group

START = Instant(wall=1_700_000_000.0, mono=10_000.0)
HEALTH = HealthOptions(max_node_provision_time_s=300.0, max_node_startup_time_s=300.0)
TERMS = ReadyTerms(PassingTaints(startup=frozenset({"boot"})))
GROUPS = ("a", "b", "c")
PARTS = ("ready", "not_started", "unready", "suspended", "deleted")
ERRORS = st.builds(InstanceError, st.sampled_from(ErrorClass), st.sampled_from(["X", "Y"]), st.just("why"))
RULES = st.sampled_from([Rules(), rules_of_1_31()])
NAMES = st.integers(0, 40)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    made = []
    for number in draw(st.sets(NAMES, max_size=25)):
        conditions = [NodeCondition("Ready", draw(st.sampled_from(["True", "False", "Unknown"])))]
        if draw(st.booleans()):
            conditions.append(NodeCondition("Suspended", draw(st.sampled_from(["True", "False"]))))
        keys = draw(st.lists(st.sampled_from([TO_BE_DELETED, "boot", "other"]), max_size=2))
        made.append(
            Node(
                name=f"n{number}",
                provider_id=f"m{number}",
                conditions=tuple(conditions),
                taints=tuple(Taint(key, "NoSchedule") for key in keys),
                unschedulable=draw(st.booleans()),
                created=START.wall - draw(st.integers(0, 600)),
            )
        )
    return made


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], Groups]:
    found = draw(nodes())
    owner = {node.name: draw(st.sampled_from([*GROUPS, None])) for node in found}
    groups = []
    for group_id in GROUPS:
        machines = [Instance(node.provider_id) for node in found if owner[node.name] == group_id]
        for number in range(draw(st.integers(0, 4))):
            state = draw(st.sampled_from([*State, None]))
            machines.append(Instance(f"{group_id}-{number}", state, draw(st.none() | ERRORS)))
        target = draw(st.integers(0, 15))
        least = draw(st.integers(0, 5))
        groups.append(
            Group(
                id=group_id,
                min_size=least,
                max_size=100,
                target_size=target,
                instances=tuple(machines),
                settings=GroupSettings(zero_or_max_node_scaling=draw(st.booleans())),
            )
        )
    gone = frozenset(draw(st.sets(st.sampled_from([*owner, "nobody"]))))
    of_node = {name: group for name, group in owner.items() if group is not None}
    return found, Groups(all=tuple(groups), of_node=of_node, gone=gone, can_tell_gone=draw(st.booleans()))


def step(memory: Memory, cluster: tuple[list[Node], Groups], now: Instant, rules: Rules) -> Registry:
    found, groups = cluster
    view = view_of(found, [], groups=groups)
    return update(memory, view, read(view.nodes, TERMS), now, health=HEALTH, rules=rules, templated=("a", "b"))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Registry, Groups]]:
    """Some passes over changing clusters, with scale-ups in between; times are whole seconds."""
    rules = draw(RULES)
    memory, now, passes = born(START), START, []
    for _ in range(draw(st.integers(1, 5))):
        cluster = draw(clusters())
        registry = step(memory, cluster, now, rules)
        passes.append((registry, cluster[1]))
        memory = registry.memory
        if draw(st.booleans()):
            memory = scaled_up(memory, draw(st.sampled_from(GROUPS)), draw(st.integers(1, 5)), now, 300.0)
        now = now.later(draw(st.integers(0, 400)))
    return passes


def parts(buckets: Buckets) -> list[str]:
    return [name for part in PARTS for name in getattr(buckets, part)]


@given(histories())
def test_buckets_partition_the_registered_nodes(history: list[tuple[Registry, Groups]]) -> None:
    for registry, groups in history:
        for buckets in (registry.cluster, *(state.buckets for state in registry.groups.values())):
            assert Counter(parts(buckets)) == Counter(buckets.registered)
            assert set(Counter(buckets.registered).values()) <= {1}
            assert set(buckets.resource_unready) <= set(buckets.unready)
            assert not set(buckets.unregistered) & set(buckets.long_unregistered)
        for part in Buckets.__struct_fields__:
            ours = [name for state in registry.groups.values() for name in getattr(state.buckets, part)]
            strangers = set(registry.cluster.registered) - set(groups.of_node)
            assert set(ours) == set(getattr(registry.cluster, part)) - strangers


def plain_bucket(node: Node, groups: Groups, now: Instant, rules: Rules) -> str:
    """The definition, read off the documentation, for one node."""
    keys = {taint.key for taint in node.taints}
    if (node.name in groups.gone) if groups.can_tell_gone else (TO_BE_DELETED in keys):
        return "deleted"
    statuses = {condition.type: condition.status for condition in node.conditions}
    if statuses.get("Suspended") == "True" and rules.suspended_nodes:
        return "suspended"
    if statuses["Ready"] == "True" and (node.unschedulable or "boot" not in keys):
        return "ready"
    startup_s = 300 if rules.node_startup_time_from_options else 900
    return "not_started" if node.created + startup_s > now.wall else "unready"


@given(clusters(), RULES, st.integers(0, 1000))
def test_nodes_are_sorted_by_the_definition(cluster: tuple[list[Node], Groups], rules: Rules, age_s: int) -> None:
    now = START.later(age_s)
    registry = step(born(now), cluster, now, rules)
    for part in PARTS:
        expected = [node.name for node in cluster[0] if plain_bucket(node, cluster[1], now, rules) == part]
        assert list(getattr(registry.cluster, part)) == expected


@given(histories())
def test_upcoming_is_what_a_target_lacks(history: list[tuple[Registry, Groups]]) -> None:
    for registry, groups in history:
        assert all(count > 0 for count in registry.upcoming.values())
        for group in groups.all:
            state = registry.groups[group.id]
            own = state.buckets
            arrived = len(own.ready) + len(own.unready) + len(own.suspended) + len(own.long_unregistered)
            assert state.upcoming >= 0
            if state.upcoming:
                assert state.upcoming + arrived == group.target_size


@given(clusters(), st.integers(0, 5))
def test_when_sizes_agree_every_machine_of_the_target_is_accounted_for(
    cluster: tuple[list[Node], Groups], more: int
) -> None:
    found, groups = cluster
    first = step(born(START), cluster, START, rules_of_1_31())
    agreed = []
    for group in groups.all:
        own = first.groups[group.id].buckets
        target = len(own.registered) - len(own.deleted) + len(own.unregistered) + more
        agreed.append(msgspec.structs.replace(group, target_size=target))
    groups = msgspec.structs.replace(groups, all=tuple(agreed))
    registry = step(born(START), (found, groups), START, rules_of_1_31())
    for group in groups.all:
        own = registry.groups[group.id].buckets
        settled = len(own.ready) + len(own.unready) + len(own.suspended) + len(own.long_unregistered)
        assert registry.groups[group.id].upcoming + settled == group.target_size
        assert registry.groups[group.id].upcoming == len(own.not_started) + len(own.unregistered) + more


@given(histories())
def test_repairs_stay_within_their_bounds(history: list[tuple[Registry, Groups]]) -> None:
    for registry, groups in history:
        by_id = {group.id: group for group in groups.all}
        for removal in (*registry.long_unregistered, *registry.failed_creations):
            group = by_id[removal.group]
            assert set(removal.because_of) <= set(removal.instances) <= {one.provider_id for one in group.instances}
            assert removal.instances
        for removal in registry.long_unregistered:
            group = by_id[removal.group]
            assert group.target_size - len(removal.because_of) >= group.min_size
        lowered = [(one.group, one.decrease) for one in registry.size_fixes]
        lowered += [(one.group, one.revert) for one in registry.timed_out]
        assert all(decrease >= 0 for _, decrease in lowered)
        for group_id, group in by_id.items():
            decrease = sum(some for lowers, some in lowered if lowers == group_id)
            assert decrease == 0 or group.target_size - decrease >= registry.groups[group_id].buckets.existing


@given(histories())
def test_memory_holds_only_what_is_still_true(history: list[tuple[Registry, Groups]]) -> None:
    for registry, groups in history:
        memory = registry.memory
        waiting = set(registry.cluster.unregistered) | set(registry.cluster.long_unregistered)
        assert set(memory.unregistered) == waiting
        assert all(since.mono <= registry.now.mono for since in memory.unregistered.values())
        assert all(request.increase > 0 for request in memory.scale_ups.values())
        assert set(memory.scale_ups) <= {group.id for group in groups.all}
        assert all(not request.overdue(registry.now) for request in memory.scale_ups.values())


def decisions(registry: Registry) -> Any:
    """Everything a registry says but the times at which it was said."""
    timed_out = [(one.group, one.revert, one.request.increase) for one in registry.timed_out]
    removals = (registry.long_unregistered, registry.failed_creations)
    states = [(state.buckets, state.acceptable, state.healthy, state.upcoming) for state in registry.groups.values()]
    return timed_out, removals, registry.size_fixes, registry.occurrences, states, registry.cluster


@given(histories(), clusters(), RULES, st.integers(0, 700))
def test_a_memory_that_was_saved_decides_the_same(
    history: list[tuple[Registry, Groups]], cluster: tuple[list[Node], Groups], rules: Rules, passed_s: int
) -> None:
    memory, saved_at = history[-1][0].memory, history[-1][0].now
    loaded = msgspec.json.decode(msgspec.json.encode(memory), type=Memory)
    now = saved_at.later(passed_s)
    assert decisions(step(loaded, cluster, now, rules)) == decisions(step(memory, cluster, now, rules))


@given(nodes(), nodes())
def test_reused_readings_are_as_good_as_fresh_ones(before: list[Node], after: list[Node]) -> None:
    mixed = tuple(before[::2] + [node for node in after if node.name not in {old.name for old in before[::2]}])
    reused = read(mixed, TERMS, read(tuple(before), TERMS))
    assert reused == read(mixed, TERMS)


@given(st.lists(st.tuples(st.integers(0, 4000), st.booleans()), max_size=20))
def test_backoff_windows_only_grow(steps: list[tuple[int, bool]]) -> None:
    health = HealthOptions()
    initial, longest = health.initial_node_group_backoff_duration_s, health.max_node_group_backoff_duration_s
    backoffs: backoff.Backoffs = {}
    now, until, duration = START, START.mono, 0.0
    for passed_s, is_failure in steps:
        now = now.later(passed_s)
        if is_failure:
            backoffs = backoff.failed(backoffs, "a", InstanceError(ErrorClass.OTHER, "X"), now, health)
            one = backoffs["a"]
            assert one.until.mono >= until
            assert one.duration_s >= duration
            assert initial <= one.duration_s <= longest
            assert backoff.backed_off(backoffs, "a", now) == one
            until, duration = one.until.mono, one.duration_s
        else:
            assert (backoff.backed_off(backoffs, "a", now) is not None) == (duration > 0 and now.mono <= until)


@pytest.mark.parametrize("rules", [Rules(), rules_of_1_31()], ids=["newest rules", "rules of 1.31"])
def test_updating_twice_with_the_same_input_gives_the_same(rules: Rules) -> None:
    node = Node(name="n", provider_id="m0", conditions=(NodeCondition("Ready", "True"),))
    group = a_group("a", target=3, machines=("m0", "m1"))
    cluster = ([node], Groups(all=(group,), of_node={"n": "a"}))
    memory = scaled_up(born(START), "a", 2, START, 300.0)
    assert step(memory, cluster, START, rules) == step(memory, cluster, START, rules)
