"""Finds target sizes that do not match the existing nodes."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry.buckets import Buckets, provision_time_s
from autoscaler.snapshot.groups import Group


class IncorrectSize(msgspec.Struct, frozen=True):
    """A mismatch, and the time since when it has had this size."""

    registered: int
    target: int
    unregistered: int
    since: Instant


class SizeFix(msgspec.Struct, frozen=True):
    """A target to lower, because some of its machines do not exist."""

    group: str
    decrease: int


def incorrect_sizes(
    groups: Iterable[Group],
    buckets: Mapping[str, Buckets],
    known: Mapping[str, IncorrectSize],
    now: Instant,
    rules: Rules,
) -> Mapping[str, IncorrectSize]:
    """Return the mismatches by group; an unchanged one keeps its first time."""
    sizes: dict[str, IncorrectSize] = {}
    for group in groups:
        own = buckets.get(group.id, Buckets())
        if own.empty and not rules.empty_groups_have_sizes:
            continue
        registered, target = len(own.registered), group.target_size
        unregistered = len(own.unregistered) + len(own.long_unregistered)
        if target - unregistered <= registered <= target:
            continue
        before = known.get(group.id)
        same = before is not None and (before.registered, before.target) == (registered, target)
        since = before.since if before is not None and same else now
        sizes[group.id] = IncorrectSize(registered, target, unregistered, since)
    return sizes


def size_fixes(
    groups: Iterable[Group],
    incorrect: Mapping[str, IncorrectSize],
    failed: Mapping[str, Collection[str]],
    reverts: Mapping[str, int],
    now: Instant,
    health: HealthOptions,
) -> tuple[SizeFix, ...]:
    """Return the targets to lower: those too large for longer than a machine may take. Targets are never raised.

    Unregistered machines, and those that `failed` to be created, stay in the target. A provider refuses a target below
    the number of existing machines, and that refusal would end every pass. The same pass already lowers the targets in
    `reverts`, for scale-ups that timed out.
    """
    fixes = []
    for group in groups:
        size = incorrect.get(group.id)
        if size is None or size.registered >= size.target:
            continue
        surplus = (
            size.target - size.registered - size.unregistered - len(failed.get(group.id, ())) - reverts.get(group.id, 0)
        )
        if surplus > 0 and size.since.mono + provision_time_s(group, health) < now.mono:
            fixes.append(SizeFix(group.id, surplus))
    return tuple(fixes)
