"""The simulated cloud: a `CloudProvider` whose machines are in memory and whose time is an argument."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from cloudprovider.interface import (
    InstanceError,
    Misconfigured,
    NodeRef,
    NodeTemplate,
    NotFound,
    ProviderError,
)
from cloudprovider.prices import Prices
from cloudprovider.static.faults import Failure
from cloudprovider.static.fleet import Fleet
from cloudprovider.static.group import StaticGroup
from cloudprovider.static.prices import GROUP_ANNOTATION, PriceList
from cloudprovider.static.spec import Call, CloudSpec, GroupSpec, Machine, MachineSpec
from cloudprovider.static.template import ZONE


class StaticCloud:
    """A simulated cloud from a specification, with `KnowsInstances` and `Accelerators`.

    `now` returns the time in Unix seconds; all states are as of that time. Each refresh calls `list_nodes`, if given,
    and takes in the cluster's nodes as `adopt` does. Safe from any thread.

    Build it with `open_cloud`, which adds `Pricing` where the specification has prices.
    """

    name = "static"

    def __init__(
        self,
        spec: CloudSpec,
        now: Callable[[], float] = lambda: 0.0,
        list_nodes: Callable[[], Iterable[NodeRef]] | None = None,
    ) -> None:
        _check(spec)
        specs = [_marked(group) for group in spec.groups]
        self._spec = spec
        self._list_nodes = list_nodes
        self._fleet = Fleet(tuple(group.id for group in specs), now, spec.machine_versions, spec.impaired_machines)
        for machine in spec.machines:
            self._fleet.add_declared(machine)
        self._missing = frozenset(spec.missing)
        self._groups = {group.id: self._start(group) for group in specs}
        self._open_ended = {group.id for group in specs if group.target_size is None}
        self._group_by_node_name = {name: group.id for group in reversed(specs) for name in group.node_names}
        self._selectors = [(group.match_labels.items(), group.id) for group in specs if group.match_labels]

    def refresh(self, now: float) -> None:
        """Take in the cluster's nodes if they can be listed. The time comes from the cloud's clock, not from `now`."""
        for group in self._groups.values():
            group.check_refresh()
        if self._list_nodes is not None:
            self.adopt(self._list_nodes())

    def groups(self) -> Sequence[StaticGroup]:
        """All groups, in the order of the specification."""
        return tuple(self._groups.values())

    def group(self, group_id: str) -> StaticGroup:
        """Return one group; `NotFound` where there is none."""
        try:
            return self._groups[group_id]
        except KeyError:
            raise NotFound(f"there is no node group {group_id}") from None

    def group_of(self, node: NodeRef) -> str | None:
        """Return the group of the node's machine, else the one that claims the node by name, else by labels."""
        with self._fleet.lock:
            record = self._fleet.find(node.provider_id, node.name)
        if record is not None:
            return record.group
        return self._claimant(node)

    def close(self) -> None:
        """Do nothing: the machines exist only in this object."""

    def has_instance(self, node: NodeRef) -> bool:
        """Whether the machine exists. The machine of an unknown node is assumed to exist."""
        with self._fleet.lock:
            self._fleet.settle()
            if self._fleet.find(node.provider_id, node.name) is not None:
                return True
            return not self._is_gone(node)

    @property
    def gpu_label(self) -> str:
        """Label whose value is the GPU type."""
        return self._spec.gpu_label

    def gpu_types(self) -> Sequence[str]:
        """Return the configured types, else those that the groups' templates carry."""
        if self._spec.gpu_types is not None:
            return tuple(self._spec.gpu_types)
        templates = [group.template for group in self._spec.groups if group.template is not None]
        return tuple(sorted({t.labels[self.gpu_label] for t in templates if self.gpu_label in t.labels}))

    def adopt(self, nodes: Iterable[NodeRef]) -> None:
        """Add a running machine to a group for each node that the group claims and whose machine is not known yet.

        If the group's target size was not given, surplus machines raise it.
        """
        with self._fleet.lock:
            touched: set[str] = set()
            for node in nodes:
                if self._fleet.find(node.provider_id, node.name) is not None or self._is_gone(node):
                    continue
                group = self._claimant(node)
                if group is not None:
                    provider_id = node.provider_id or node.name
                    zone = node.labels.get(ZONE, "")
                    machine = MachineSpec(group=group, provider_id=provider_id, name=node.name, zone=zone)
                    self._fleet.add_declared(machine)
                    touched.add(group)
            for group in sorted(touched & self._open_ended):
                surplus = self._groups[group].live_machines() - self._groups[group].target_size()
                if surplus > 0:
                    self._groups[group].count_in(surplus)

    def machines(self) -> Sequence[Machine]:
        """Every machine as of now, group by group in the order in which they were asked for."""
        with self._fleet.lock:
            now = self._fleet.settle()
            return [record.machine(now) for record in self._fleet.all()]

    @property
    def now_s(self) -> float:
        """Unix seconds by this cloud's clock."""
        return self._fleet.now()

    @property
    def changes(self) -> int:
        """A number that increases whenever a machine appears, disappears or starts to be deleted."""
        return self._fleet.changes

    @property
    def next_change_s(self) -> float | None:
        """When a machine's state will next change by itself, in Unix seconds; None if no change is due."""
        with self._fleet.lock:
            return self._fleet.next_change_s()

    def add_machine(self, machine: MachineSpec) -> None:
        """Add a machine without changing the target, for example for a waiting request."""
        group = self.group(machine.group)
        with self._fleet.lock:
            if self._fleet.find(machine.provider_id, machine.name or machine.provider_id) is not None:
                raise ProviderError(f"{group.id}: machine {machine.provider_id} exists already")
            self._fleet.add_declared(machine)

    def remove_machine(self, provider_id: str, replace: bool = True) -> None:
        """Remove a machine, as a cloud reclaims spot machines; `NotFound` if it does not exist.

        Like a real group, the group requests a replacement at once. Without `replace`, its target decreases instead.
        """
        with self._fleet.lock:
            self._fleet.settle()
            record = self._fleet.find(provider_id, provider_id)
            if record is None:
                raise NotFound(f"there is no machine {provider_id}")
            self._groups[record.group].lose(record, replace)

    def fail_next(
        self,
        group_id: str,
        error: ProviderError | InstanceError,
        call: Call = Call.INCREASE,
        takes_effect: bool = False,
        at_most: int | None = None,
    ) -> None:
        """Make the group's next such call raise `error`; an `InstanceError` hits its next machine instead.

        With `takes_effect`, the call does its work and then raises, like a call whose answer was lost. `at_most` limits
        the machines that such an increase adds.
        """
        group = self.group(group_id)
        if isinstance(error, InstanceError):
            group.fail_next_machine(error)
        else:
            group.fail_next(call, Failure(error, takes_effect, at_most))

    def _start(self, spec: GroupSpec) -> StaticGroup:
        target = spec.target_size
        if target is None:
            target = sum(not record.deleting for record in self._fleet.of_group(spec.id).values())
        return StaticGroup(spec, self._fleet, self._spec.seed, target)

    def _is_gone(self, node: NodeRef) -> bool:
        """Whether the node's machine was removed here or declared missing; names are reused, provider ids are not."""
        return (node.provider_id or node.name) in self._fleet.gone or not self._missing.isdisjoint(
            (node.provider_id, node.name)
        )

    def _claimant(self, node: NodeRef) -> str | None:
        by_name = self._group_by_node_name.get(node.name)
        if by_name is not None:
            return by_name
        labels = node.labels.items()
        return next((group for wanted, group in self._selectors if wanted <= labels), None)


class PricedStaticCloud(StaticCloud):
    """A `StaticCloud` that also has `Pricing`."""

    def __init__(
        self,
        spec: CloudSpec,
        now: Callable[[], float] = lambda: 0.0,
        list_nodes: Callable[[], Iterable[NodeRef]] | None = None,
    ) -> None:
        super().__init__(spec, now, list_nodes)
        self._price_list = PriceList(spec.prices or Prices(), spec.groups)

    def node_price(self, node: NodeTemplate, hours: float) -> float:
        """Price by instance type, else by group, else by capacity."""
        return self._price_list.node(node, hours)

    def pod_price(self, requests: Mapping[str, str], hours: float) -> float:
        """Price of the requests at the unit prices."""
        return self._price_list.resources(requests, hours)


def open_cloud(
    spec: CloudSpec,
    now: Callable[[], float] = lambda: 0.0,
    list_nodes: Callable[[], Iterable[NodeRef]] | None = None,
) -> StaticCloud:
    """Start a simulated cloud, with prices if there are any. A contradictory specification is `Misconfigured`."""
    priced = spec.prices is not None or any(group.price_per_hour is not None for group in spec.groups)
    return (PricedStaticCloud if priced else StaticCloud)(spec, now, list_nodes)


def problems(spec: CloudSpec) -> Iterable[str]:
    """Yield the contradictions in a specification."""
    seen: set[str] = set()
    for index, group in enumerate(spec.groups):
        where = f"groups[{index}]"
        if group.id in seen:
            yield f"{where}.id: {group.id} is used by an earlier group"
        seen.add(group.id)
        if group.max_size < group.min_size:
            yield f"{where}.maxSize: {group.max_size} is below minSize {group.min_size}"
    ids: set[str] = set()
    for index, machine in enumerate(spec.machines):
        where = f"instances[{index}]"
        if machine.group not in seen:
            yield f"{where}.group: there is no group {machine.group}"
        if machine.provider_id in ids:
            yield f"{where}.id: {machine.provider_id} is used by an earlier instance"
        ids.add(machine.provider_id)


def _check(spec: CloudSpec) -> None:
    lines = list(problems(spec))
    if lines:
        raise Misconfigured("\n".join(lines))


def _marked(group: GroupSpec) -> GroupSpec:
    """Mark the template of a priced group to distinguish it from templates that look the same."""
    if group.template is None or group.price_per_hour is None:
        return group
    annotations = {**group.template.annotations, GROUP_ANNOTATION: group.id}
    template = msgspec.structs.replace(group.template, annotations=annotations)
    return msgspec.structs.replace(group, template=template)
