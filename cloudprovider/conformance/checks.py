"""The rules of the provider contract, one check each."""

import math
import re
import threading
from collections.abc import Callable
from functools import partial

from cloudprovider.conformance.bench import Bench, Check, Final, NotApplicable
from cloudprovider.conformance.harness import CountsCalls
from cloudprovider.interface import (
    Accelerators,
    AtomicIncrease,
    ForceDelete,
    GroupOptions,
    KnowsInstances,
    NodeGroup,
    NodeRef,
    NodeTemplate,
    PrepareDelete,
    Pricing,
    State,
    Versioned,
)
from cloudprovider.quantity import parse_quantity
from cloudprovider.versions import outdated

_FOREIGN = NodeRef("conformance-no-such-node", "conformance://no-such-node")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_THREAD_PATIENCE_S = 300.0


def _group_ids(bench: Bench) -> None:
    before = [group.id for group in bench.provider.groups()]
    bench.expect(all(before), "a group has an empty id")
    bench.expect(len(set(before)) == len(before), f"ids repeat: {before}")
    bench.harness.settle()
    after = [group.id for group in bench.provider.groups()]
    bench.expect(after == before, f"after a refresh {before} had become {after}")


def _sizes(bench: Bench) -> None:
    for group in bench.provider.groups():
        sizes = (group.min_size, group.target_size(), group.max_size)
        bench.expect(0 <= group.min_size <= group.max_size, f"{group.id}: minimum, target, maximum are {sizes}")
        bench.expect(group.target_size() >= 0, f"{group.id}: the target size is {group.target_size()}")


def _increase_counts_at_once(bench: Bench) -> None:
    group = bench.group
    if group.target_size() + 2 > group.max_size:
        raise NotApplicable(f"{group.id} has no room for 2 more machines")
    before = group.target_size()
    group.increase(2)
    bench.expect(group.target_size() == before + 2, f"2 more than {before} gave a target of {group.target_size()}")
    listed = len(bench.live(group))
    bench.expect(listed <= before + 2, f"{listed} machines are listed for a target of {before + 2}")
    bench.harness.settle()
    size = bench.group.target_size()
    bench.expect(size == before + 2, f"when its machines had come, the target had become {size}")


def _machines_come(bench: Bench) -> None:
    group = bench.grow(2)
    instances = group.instances()
    ids = [instance.provider_id for instance in instances]
    bench.expect(all(ids), "an instance has an empty id")
    bench.expect(len(set(ids)) == len(ids), f"ids repeat: {ids}")
    bench.expect(len(ids) == group.target_size(), f"{len(ids)} machines for a target of {group.target_size()}")
    states = {instance.state for instance in instances}
    bench.expect(states <= {State.RUNNING, None}, f"settled machines are in the states {sorted(map(str, states))}")
    bench.harness.settle()
    again = {instance.provider_id for instance in bench.group.instances()}
    bench.expect(again == set(ids), f"after a refresh {sorted(ids)} had become {sorted(again)}")


def _increase_beyond_maximum(bench: Bench) -> None:
    group = bench.group
    delta = group.max_size - group.target_size() + 1
    bench.unchanged(f"increase({delta}) beyond the maximum", lambda: group.increase(delta))


def _useless_deltas(bench: Bench) -> None:
    bench.unchanged("increase(0)", lambda: bench.group.increase(0))
    bench.unchanged("increase(-1)", lambda: bench.group.increase(-1))
    bench.unchanged("decrease_target(0)", lambda: bench.group.decrease_target(0))


def _delete_exactly_these(bench: Bench) -> None:
    group = bench.grow(3)
    size, ids, nodes = group.target_size(), bench.ids(group), bench.nodes(group)
    # The middle ones: a cloud that picks victims by itself takes the oldest or the newest.
    chosen = nodes[1:3]
    group.delete(chosen)
    bench.expect(group.target_size() == size - 2, f"2 less than {size} gave a target of {group.target_size()}")
    bench.harness.settle()
    left = bench.ids(bench.group)
    expected = ids - {node.provider_id for node in chosen}
    bench.expect(left == expected, f"of {sorted(ids)} were left {sorted(left)}, not {sorted(expected)}")
    size_later = bench.group.target_size()
    bench.expect(size_later == size - 2, f"when its machines had gone, the target had become {size_later}")


def _delete_by_placeholder(bench: Bench) -> None:
    group = bench.grow(1)
    victim = bench.live(group)[-1].provider_id
    group.delete([NodeRef(victim, victim)])
    bench.harness.settle()
    bench.expect(victim not in bench.ids(bench.group), f"{victim} was not deleted")


def _delete_foreign(bench: Bench) -> None:
    group = bench.grow(1)
    nodes = [bench.nodes(group)[-1], _FOREIGN]
    bench.unchanged("delete() of a node that belongs elsewhere", lambda: group.delete(nodes))


def _delete_below_minimum(bench: Bench) -> None:
    group = bench.group
    nodes = bench.nodes(group)
    if group.min_size == 0 or not nodes:
        raise NotApplicable(f"{group.id} has a minimum of {group.min_size} and {len(nodes)} machines")
    bench.unchanged("delete() below the minimum", lambda: group.delete(nodes))


def _decrease_spares_machines(bench: Bench) -> None:
    group = bench.grow(1)
    bench.unchanged("decrease_target(1) with every machine there", lambda: group.decrease_target(1))


def _decrease_cancels(bench: Bench) -> None:
    group = bench.group
    if group.target_size() + 1 > group.max_size:
        raise NotApplicable(f"{group.id} has no room for another machine")
    group.increase(1)
    size, ids = group.target_size(), bench.ids(group)
    if len(ids) >= size:
        raise NotApplicable("each request is a machine at once")
    group.decrease_target(1)
    bench.expect(group.target_size() == size - 1, f"1 less than {size} gave a target of {group.target_size()}")
    bench.expect(ids <= bench.ids(group), "a machine went with the request")


def _templates(bench: Bench) -> None:
    templates = [(group.id, group.template()) for group in bench.provider.groups()]
    for group_id, template in templates:
        if template is not None:
            _template(bench, group_id, template)
    if all(template is None for _, template in templates):
        raise NotApplicable("no group has a template")


def _template(bench: Bench, group_id: str, template: NodeTemplate) -> None:
    for what, resources in (("capacity", template.capacity), ("allocatable", template.allocatable)):
        for name, amount in resources.items():
            try:
                value = parse_quantity(amount)
            except ValueError as error:
                bench.fail(f"{group_id}: {what} {name}: {error}")
            bench.expect(value >= 0, f"{group_id}: {what} {name} is {amount}")
            limit = template.capacity.get(name)
            if what == "allocatable" and limit is not None:
                bench.expect(value <= parse_quantity(limit), f"{group_id}: {name}: {amount} of {limit} is allocatable")
    for resource in ("cpu", "memory", "pods"):
        bench.expect(resource in template.capacity, f"{group_id}: the capacity does not name {resource}")
    for key, text in template.labels.items():
        bench.expect(_LABEL_VALUE.fullmatch(text) is not None, f"{group_id}: label {key}={text!r} is not valid")
    for taint in template.taints:
        bench.expect(taint.effect in _EFFECTS and bool(taint.key), f"{group_id}: taint {taint} is not valid")


def _group_of(bench: Bench) -> None:
    group = bench.grow(1)
    for instance in bench.live(group):
        placeholder = NodeRef(instance.provider_id, instance.provider_id)
        for node in (bench.harness.node_for(instance), placeholder):
            owner = bench.provider.group_of(node)
            bench.expect(owner == group.id, f"group_of({node}) is {owner}, not {group.id}")
    stranger = bench.provider.group_of(_FOREIGN)
    bench.expect(stranger is None, f"a node of no group is said to be of {stranger}")


def _refresh_is_idempotent(bench: Bench) -> None:
    bench.grow(1)
    before = [(group.id, group.target_size(), bench.ids(group)) for group in bench.provider.groups()]
    for _ in range(2):
        bench.harness.settle()
        after = [(group.id, group.target_size(), bench.ids(group)) for group in bench.provider.groups()]
        bench.expect(after == before, f"{before} became {after}")


def _cheap(bench: Bench) -> None:
    harness = bench.harness
    if not isinstance(harness, CountsCalls):
        raise NotApplicable("the harness does not count calls (remote_calls)")
    nodes = bench.nodes(bench.grow(1))
    before = harness.remote_calls()
    for _ in range(10):
        for group in bench.provider.groups():
            bench.expect(group.min_size <= group.max_size, f"{group.id}: the sizes contradict each other")
        for node in (*nodes, _FOREIGN):
            bench.provider.group_of(node)
    sent = harness.remote_calls() - before
    bench.expect(sent == 0, f"groups, sizes and group_of sent {sent} requests between refreshes")


def _knows_instances(bench: Bench) -> None:
    provider = bench.provider
    if not isinstance(provider, KnowsInstances):
        raise NotApplicable("has no KnowsInstances")
    group = bench.grow(1)
    node = bench.nodes(group)[-1]
    bench.expect(provider.has_instance(node), f"the machine of {node.name} is said not to exist")
    group.delete([node])
    bench.harness.settle()
    bench.expect(not provider.has_instance(node), f"the deleted machine of {node.name} is said to exist")


def _atomic_increase(bench: Bench) -> None:
    room = bench.group.max_size - bench.group.target_size()
    if not isinstance(bench.group, AtomicIncrease):
        raise NotApplicable("has no AtomicIncrease")
    atomic: AtomicIncrease = bench.group
    bench.unchanged("increase_atomically() beyond the maximum", lambda: atomic.increase_atomically(room + 1))
    group = bench.group
    before = group.target_size()
    if isinstance(group, AtomicIncrease) and room >= 2:
        group.increase_atomically(2)
        bench.expect(group.target_size() == before + 2, f"2 more than {before} gave a target of {group.target_size()}")


def _force_delete(bench: Bench) -> None:
    if not isinstance(bench.group, ForceDelete):
        raise NotApplicable("has no ForceDelete")
    forced: ForceDelete = bench.group
    bench.unchanged("force_delete() of a node that belongs elsewhere", lambda: forced.force_delete([_FOREIGN]))
    group = bench.group if bench.nodes(bench.group) else bench.grow(1)
    node, size = bench.nodes(group)[0], group.target_size()
    if isinstance(group, ForceDelete):
        group.force_delete([node])
    bench.expect(group.target_size() == size - 1, f"1 less than {size} gave a target of {group.target_size()}")
    bench.harness.settle()
    bench.expect(node.provider_id not in bench.ids(bench.group), f"{node.name} was not deleted")


def _prepare_delete(bench: Bench) -> None:
    if not isinstance(bench.group, PrepareDelete):
        raise NotApplicable("has no PrepareDelete")
    group = bench.group if bench.nodes(bench.group) else bench.grow(1)
    size, ids = group.target_size(), bench.ids(group)
    if isinstance(group, PrepareDelete):
        group.prepare_delete(bench.nodes(group)[:1])
    bench.harness.settle()
    group = bench.group
    bench.expect((group.target_size(), bench.ids(group)) == (size, ids), "prepare_delete() changed the group")


def _group_options(bench: Bench) -> None:
    groups = [group for group in bench.provider.groups() if isinstance(group, GroupOptions)]
    if not groups:
        raise NotApplicable("has no GroupOptions")
    for group in groups:
        settings = group.settings()
        for share in (settings.scale_down_utilization_threshold, settings.scale_down_gpu_utilization_threshold):
            bench.expect(share is None or 0 <= share <= 1, f"{group}: a threshold is {share}")
        for seconds in (
            settings.scale_down_unneeded_time_s,
            settings.scale_down_unready_time_s,
            settings.max_node_provision_time_s,
            settings.max_node_startup_time_s,
            settings.max_node_age_s,
        ):
            bench.expect(seconds is None or seconds >= 0, f"{group}: a duration is {seconds} s")


def _versions(bench: Bench) -> None:
    if not isinstance(bench.group, Versioned):
        raise NotApplicable("has no Versioned")
    group = bench.grow(1)
    current = group.versions() if isinstance(group, Versioned) else ()
    machines = [instance for instance in bench.live(group) if instance.version is not None]
    if not (current and machines):
        raise NotApplicable(
            f"{group.id} tells {len(current)} versions, and {len(machines)} of its machines tell theirs"
        )
    for instance in machines:
        differing = ", ".join(f"{one.field}: {one.has}" for one in outdated(instance.version, current))
        bench.expect(not differing, f"the new machine {instance.provider_id} counts as outdated: {differing}")
    bench.harness.settle()
    later = bench.group
    bench.expect(isinstance(later, Versioned) and later.versions() == current, f"{current} changed in a refresh")


def _pricing(bench: Bench) -> None:
    provider = bench.provider
    if not isinstance(provider, Pricing):
        raise NotApplicable("has no Pricing")
    for group in provider.groups():
        template = group.template()
        if template is not None:
            _price(bench, f"a node of {group.id}", partial(provider.node_price, template))
    _price(bench, "a pod", lambda hours: provider.pod_price({"cpu": "500m", "memory": "500Mi"}, hours))


def _price(bench: Bench, what: str, price: Callable[[float], float]) -> None:
    hour, day = price(1.0), price(24.0)
    bench.expect(math.isfinite(hour) and hour >= 0, f"{what} costs {hour} an hour")
    bench.expect(hour <= day, f"{what} costs {hour} for an hour and {day} for a day")


def _accelerators(bench: Bench) -> None:
    provider = bench.provider
    if not isinstance(provider, Accelerators):
        raise NotApplicable("has no Accelerators")
    bench.expect(bool(provider.gpu_label), "the GPU label is empty")
    types = list(provider.gpu_types())
    bench.expect(len(set(types)) == len(types) and all(types), f"the GPU types are {types}")


def _concurrent_groups(bench: Bench) -> None:
    if len(bench.harness.group_ids) < 2:
        raise NotApplicable("takes two disposable groups")
    groups = [bench.group_named(group_id) for group_id in bench.harness.group_ids[:2]]
    if any(group.target_size() + 3 > group.max_size for group in groups):
        raise NotApplicable("a group has no room for 3 more machines")
    expected = [group.target_size() + 3 for group in groups]
    errors: list[Exception] = []
    start = threading.Barrier(len(groups))

    def use(group: NodeGroup) -> None:
        try:
            start.wait(_THREAD_PATIENCE_S)
            for _ in range(3):
                group.increase(1)
                group.instances()
        except Exception as error:  # noqa: BLE001  # the top of a thread: reported below
            errors.append(error)

    threads = [threading.Thread(target=use, args=(group,), daemon=True) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_THREAD_PATIENCE_S)
    bench.expect(not any(thread.is_alive() for thread in threads), "the calls block each other")
    bench.expect(not errors, f"a call failed: {errors}")
    sizes = [group.target_size() for group in groups]
    bench.expect(sizes == expected, f"the targets are {sizes}, not {expected}")


def _close_twice(bench: Bench) -> None:
    bench.provider.close()
    bench.provider.close()


CHECKS: tuple[Check, ...] = (
    Check("group ids are unique and stable", _group_ids),
    Check("sizes make sense", _sizes),
    Check("an increase counts in the target at once", _increase_counts_at_once),
    Check("machines come, as many as the target, with unique and stable ids", _machines_come),
    Check("an increase beyond the maximum is refused and changes nothing", _increase_beyond_maximum),
    Check("changes by zero or less are refused", _useless_deltas),
    Check("delete removes exactly these machines and lowers the target", _delete_exactly_these),
    Check("delete takes a placeholder that has only the machine's id", _delete_by_placeholder),
    Check("delete refuses nodes that belong elsewhere, and deletes none", _delete_foreign),
    Check("delete refuses to break the minimum, and deletes none", _delete_below_minimum),
    Check("decrease_target never removes a machine", _decrease_spares_machines),
    Check("decrease_target cancels requests that no machine answers yet", _decrease_cancels),
    Check("templates are well-formed", _templates),
    Check("group_of knows nodes and placeholders, and no strangers", _group_of),
    Check("a refresh changes nothing by itself", _refresh_is_idempotent),
    Check("groups, sizes and group_of are cheap", _cheap),
    Check("calls for different groups may run side by side", _concurrent_groups),
    Check("KnowsInstances: a machine exists until it is deleted", _knows_instances),
    Check("AtomicIncrease: all or nothing", _atomic_increase),
    Check("ForceDelete: deletes below the minimum, but nothing that belongs elsewhere", _force_delete),
    Check("PrepareDelete: asking changes nothing", _prepare_delete),
    Check("GroupOptions: the settings make sense", _group_options),
    Check("Versioned: a new machine is as new machines are", _versions),
    Check("Pricing: prices make sense", _pricing),
    Check("Accelerators: the GPU label and types make sense", _accelerators),
    Final("closing twice is harmless", _close_twice),
)
