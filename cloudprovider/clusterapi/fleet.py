"""All groups and their Machines as of one refresh; immutable."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from cloudprovider.clusterapi.keys import Keys
from cloudprovider.clusterapi.management import Listed
from cloudprovider.clusterapi.objects import DEPLOYMENT, Machine, MachineKey, OwnerKey, Scalable
from cloudprovider.clusterapi.selection import Selection
from cloudprovider.interface import GroupSettings, NodeTemplate
from cloudprovider.number import parse_count
from cloudprovider.options import read_options
from cloudprovider.problems import Problems
from cloudprovider.quoted import quoted
from cloudprovider.sizes import MOST_NODES

_AZURE = "azure://"
_SCALE_SET = "virtualMachineScaleSets"

Describe = Callable[[Scalable, Sequence[Machine], Problems], NodeTemplate | None]
"""Returns the template of a group with these Machines; None if it is not known."""


class Bounds(msgspec.Struct, frozen=True):
    """The sizes that a group may scale between."""

    min_size: int
    max_size: int


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group that the autoscaler may scale."""

    scalable: Scalable
    bounds: Bounds
    replicas: int
    template: NodeTemplate | None
    settings: GroupSettings = GroupSettings()
    machines: tuple[Machine, ...]
    """Oldest first."""
    owners: frozenset[OwnerKey]
    """The keys by which its Machines refer to their owner."""
    rolling: bool = False
    """Whether Machines are being replaced by newer ones."""
    leaving: frozenset[MachineKey] = frozenset()
    """Marked Machines that will be deleted, although their deletion has not begun."""

    @property
    def id(self) -> str:
        """The group's id."""
        return self.scalable.id

    @property
    def stays_whole(self) -> bool:
        """Whether the replicas cover every machine, so that none is deleted, marked or not."""
        return not self.rolling and sum(not machine.deleting for machine in self.machines) <= self.replicas


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The groups by id, and where each machine is found."""

    groups: Mapping[str, GroupState] = {}
    machines: Mapping[MachineKey, Machine] = {}
    group_by_machine: Mapping[MachineKey, str] = {}
    machine_by_id: Mapping[str, MachineKey] = {}
    """By whole provider id."""
    machine_by_tail: Mapping[str, MachineKey] = {}
    """By the end of a provider id, if it is unique to one Machine."""


def tail_of(provider_id: str) -> str:
    """Return the part of a provider id that clouds and controllers agree on: the last, except for Azure's sets."""
    if provider_id.startswith(_AZURE) and _SCALE_SET in provider_id:
        return provider_id
    return provider_id.rpartition("/")[2]


def candidates(listed: Listed, selection: Selection, keys: Keys) -> Sequence[Scalable]:
    """Return the selected objects with a maximum size, without paused ones and those that their owner scales."""
    return [
        scalable
        for scalable in listed.scalables
        if scalable.owner is None
        and not scalable.paused
        and keys.max_size in scalable.annotations
        and selection.matches(scalable)
    ]


def build_fleet(
    listed: Listed, chosen: Sequence[Scalable], keys: Keys, describe: Describe, problems: Problems
) -> Fleet:
    """Build the groups from what was listed. Unusable groups are left out; the reasons go to `problems`."""
    by_key = {scalable.key: scalable for scalable in listed.scalables}
    by_group: dict[OwnerKey, list[Machine]] = {}
    sets: dict[OwnerKey, list[Scalable]] = {}
    for scalable in listed.scalables:
        if scalable.owner is not None:
            sets.setdefault(scalable.owner, []).append(scalable)
    for machine in listed.machines:
        owner = None if machine.owner is None else by_key.get(machine.owner)
        if owner is not None:
            by_group.setdefault(owner.owner or owner.key, []).append(machine)
    groups: list[GroupState] = []
    for scalable in chosen:
        bounds = _bounds(scalable, keys, problems)
        if bounds is None:
            continue
        group = _group(scalable, bounds, sets.get(scalable.key, []), by_group.get(scalable.key, []), describe, problems)
        if group is not None:
            groups.append(msgspec.structs.replace(group, settings=_settings(group, keys, problems)))
    return _indexed(groups)


def _bounds(scalable: Scalable, keys: Keys, problems: Problems) -> Bounds | None:
    """Return the sizes that the annotations set; None if they do not make the object a group."""
    low, high = (_size(scalable, key, problems) for key in (keys.min_size, keys.max_size))
    if low is None or high is None or high == 0:
        return None
    if high < low:
        problems.add(scalable.id, f"{keys.max_size} {high} is below {keys.min_size} {low}")
        return None
    return Bounds(low, high)


def _size(scalable: Scalable, key: str, problems: Problems) -> int | None:
    value = scalable.annotations.get(key, "0")
    if (size := parse_count(value, MOST_NODES)) is None:
        problems.add(scalable.id, f"annotation {key}: {quoted(value)} is not a whole number from 0 to {MOST_NODES}")
    return size


def _group(
    scalable: Scalable,
    bounds: Bounds,
    sets: Sequence[Scalable],
    machines: Sequence[Machine],
    describe: Describe,
    problems: Problems,
) -> GroupState | None:
    if scalable.replicas is None:
        problems.add(scalable.id, "has no spec.replicas, so there is nothing to scale")
        return None
    known = {tail_of(machine.provider_id) for machine in machines if machine.provider_id}
    bare = (
        _bare(scalable, provider_id)
        for provider_id in dict.fromkeys(scalable.provider_ids)
        if tail_of(provider_id) not in known
    )
    everyone = (*_oldest_first(machines), *bare)
    template = describe(scalable, everyone, problems)
    if scalable.replicas == 0 and template is None:
        return None
    rolling = scalable.kind == DEPLOYMENT and is_rolling(sets)
    return GroupState(
        scalable=scalable,
        bounds=bounds,
        replicas=scalable.replicas,
        template=template,
        machines=everyone,
        owners=frozenset({scalable.key, *(owned.key for owned in sets)}),
        rolling=rolling,
        leaving=frozenset() if rolling else _leaving(scalable.replicas, machines),
    )


def _bare(pool: Scalable, provider_id: str) -> Machine:
    return Machine(
        key=(pool.id, provider_id), uid="", owner=pool.key, provider_id=provider_id, has_node=True, bare=True
    )


def _settings(group: GroupState, keys: Keys, problems: Problems) -> GroupSettings:
    given = group.scalable.annotations.items()
    options = {name.removeprefix(keys.options): value for name, value in given if name.startswith(keys.options)}
    options.pop("ignoredaemonsetsutilization", None)  # no such annotation in Cluster API
    settings = read_options(options, f"{group.id}: annotation {keys.options}", problems)
    return msgspec.structs.replace(settings, scale_down_enabled=False) if group.rolling else settings


def is_rolling(sets: Iterable[Scalable]) -> bool:
    """Whether a MachineSet of an older revision still has replicas: its MachineDeployment replaces Machines."""
    latest = max((machine_set.revision for machine_set in sets), default=0)
    return any(
        machine_set.revision != latest and ((machine_set.replicas or 0) > 0 or machine_set.present > 0)
        for machine_set in sets
    )


def _leaving(replicas: int, machines: Sequence[Machine]) -> frozenset[MachineKey]:
    """Return the marked Machines if the replicas were lowered for all of them. Deleting them again would delete others.

    That is so if the Machines exceed the replicas by at least the number of marks. This is needed after a restart,
    because the ledger has only the writes of this process. A rolling replacement has more Machines in any case.
    """
    live = [machine for machine in machines if not machine.deleting]
    marked = frozenset(machine.key for machine in live if machine.mark is not None)
    return marked if len(marked) <= len(live) - replicas else frozenset()


def _indexed(groups: Sequence[GroupState]) -> Fleet:
    machines: dict[MachineKey, Machine] = {}
    group_by_machine: dict[MachineKey, str] = {}
    by_id: dict[str, MachineKey] = {}
    by_tail: dict[str, MachineKey | None] = {}
    for group in groups:
        for machine in group.machines:
            machines[machine.key] = machine
            group_by_machine[machine.key] = group.id
            if machine.provider_id:
                by_id[machine.provider_id] = machine.key
                tail = tail_of(machine.provider_id)
                by_tail[tail] = None if tail in by_tail else machine.key
    return Fleet(
        groups={group.id: group for group in groups},
        machines=machines,
        group_by_machine=group_by_machine,
        machine_by_id=by_id,
        machine_by_tail={tail: key for tail, key in by_tail.items() if key is not None},
    )


def owned_by(machines: Iterable[Machine], owners: Collection[OwnerKey]) -> Sequence[Machine]:
    """Return the Machines of one group, oldest first."""
    return _oldest_first(machine for machine in machines if machine.owner in owners)


def _oldest_first(machines: Iterable[Machine]) -> Sequence[Machine]:
    return sorted(machines, key=lambda machine: (machine.created, machine.key))
