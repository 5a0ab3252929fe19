"""Finds machines without a node: those that have not registered yet, those that failed, and those to delete."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry.buckets import provision_time_s
from autoscaler.registry.occurrence import Incident, Occurrence
from autoscaler.snapshot.groups import Group
from cloudprovider.interface import Instance, InstanceError, State


class Unregistered(msgspec.Struct, frozen=True):
    """Ids of a group's machines that have no node yet, separated by whether their provision time is over."""

    waiting: tuple[str, ...] = ()
    overdue: tuple[str, ...] = ()


class Placeholder(StrEnum):
    """Why a machine without a node is deleted; the value annotates its placeholder node."""

    UNREGISTERED = "unregistered"
    CREATION_FAILED = "create-error"
    ATOMIC = ""
    """The group is all-or-nothing, and one of its machines failed."""


class InstanceRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one group to delete in one call."""

    group: str
    instances: tuple[str, ...]
    because_of: tuple[str, ...]
    """Ids of the machines that caused the removal; fewer than `instances` if the group is all-or-nothing."""
    reason: Placeholder
    force: bool
    """Delete without checking the minimum size, if the group supports that."""


class CreationFailure(msgspec.Struct, frozen=True):
    """Machines of a group that failed for the same reason since the last pass."""

    error: InstanceError
    """Its message joins all distinct messages."""
    instances: tuple[str, ...]
    messages: tuple[str, ...]


def unregistered(
    groups: Iterable[Group],
    registered: frozenset[str],
    known: Mapping[str, Instant],
    now: Instant,
    health: HealthOptions,
) -> tuple[Mapping[str, Instant], Mapping[str, Unregistered]]:
    """Return when each machine without a node was first seen, and such machines by group.

    Machines that failed or are being deleted are not expected to register.
    """
    since: dict[str, Instant] = {}
    by_group: dict[str, Unregistered] = {}
    for group in groups:
        expected = [
            instance.provider_id
            for instance in group.instances
            if instance.provider_id not in registered and _expected(instance)
        ]
        if not expected:
            continue
        provision_s = provision_time_s(group, health)
        waiting: list[str] = []
        overdue: list[str] = []
        for instance_id in expected:
            first_seen = known.get(instance_id, now)
            since[instance_id] = first_seen
            (overdue if first_seen.mono + provision_s < now.mono else waiting).append(instance_id)
        by_group[group.id] = Unregistered(tuple(waiting), tuple(overdue))
    return since, by_group


def failed_creations(groups: Iterable[Group]) -> Mapping[str, tuple[str, ...]]:
    """Return ids of the machines that could not be created, by group; groups without any are absent."""
    by_group: dict[str, tuple[str, ...]] = {}
    for group in groups:
        if failed := tuple(instance.provider_id for instance in group.instances if _failed(instance)):
            by_group[group.id] = failed
    return by_group


def new_failures(group: Group, seen: Collection[str]) -> tuple[CreationFailure, ...]:
    """Return the failed creations of a group that are new, by error class and code."""
    by_cause: dict[tuple[str, str], list[tuple[str, InstanceError]]] = {}
    for instance in group.instances:
        if instance.error is not None and _failed(instance) and instance.provider_id not in seen:
            cause = (instance.error.error_class, instance.error.code)
            by_cause.setdefault(cause, []).append((instance.provider_id, instance.error))
    failures = []
    for failed in by_cause.values():
        messages = tuple(dict.fromkeys(error.message for _, error in failed if error.message))
        error = msgspec.structs.replace(failed[0][1], message=", ".join(messages))
        failures.append(CreationFailure(error, tuple(provider_id for provider_id, _ in failed), messages))
    return tuple(failures)


def removals_of_unregistered(
    groups: Iterable[Group], overdue: Mapping[str, tuple[str, ...]], health: HealthOptions, rules: Rules
) -> tuple[tuple[InstanceRemoval, ...], tuple[Occurrence, ...]]:
    """Return the machines to delete because they have been unregistered too long, and those that the minimum size
    protects.
    """
    removals, kept = [], []
    force = health.force_delete_unregistered_nodes
    for group in groups:
        machines = overdue.get(group.id, ())
        spare = len(machines) if force else max(0, group.target_size - group.min_size)
        if len(machines) > spare:
            nodes = len(machines) - spare
            kept.append(Occurrence(incident=Incident.UNREGISTERED_KEPT, group=group.id, nodes=nodes))
        removal = _removal(group, machines[:spare], Placeholder.UNREGISTERED, force, rules)
        if removal is not None:
            removals.append(removal)
    return tuple(removals), tuple(kept)


def removals_of_failed(
    groups: Iterable[Group], failed: Mapping[str, tuple[str, ...]], health: HealthOptions, rules: Rules
) -> tuple[InstanceRemoval, ...]:
    """Return the machines to delete because they could not be created."""
    force = health.force_delete_failed_nodes
    removals = (
        _removal(group, failed.get(group.id, ()), Placeholder.CREATION_FAILED, force, rules) for group in groups
    )
    return tuple(removal for removal in removals if removal is not None)


def _removal(
    group: Group, machines: tuple[str, ...], reason: Placeholder, force: bool, rules: Rules
) -> InstanceRemoval | None:
    """Apply the all-or-nothing rule: such a group loses every machine, or none if it may stay incomplete."""
    if not machines:
        return None
    if not group.settings.zero_or_max_node_scaling:
        return InstanceRemoval(group=group.id, instances=machines, because_of=machines, reason=reason, force=force)
    everything = tuple(instance.provider_id for instance in group.instances)
    may_stay = rules.non_atomic_scale_up_to_max and group.settings.allow_non_atomic_scale_up_to_max
    if may_stay and len(machines) != len(everything):
        return None
    return InstanceRemoval(
        group=group.id, instances=everything, because_of=machines, reason=Placeholder.ATOMIC, force=force
    )


def _expected(instance: Instance) -> bool:
    return instance.state is not State.DELETING and instance.error is None


def _failed(instance: Instance) -> bool:
    return instance.state is State.CREATING and instance.error is not None
