"""The cluster state registry: derives healthy, upcoming and failed nodes from memory and observations.

A pass calls `update` once, at its start. It is a pure function with Cluster Autoscaler's behaviour. Later changes of
targets and machines in the same pass go to `recalculated` and to the functions of `registry.memory`.
"""

from collections.abc import Collection, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions
from autoscaler.registry import backoff
from autoscaler.registry.backoff import Backoff
from autoscaler.registry.buckets import Buckets, classify_nodes, provision_time_s
from autoscaler.registry.health import cluster_is_healthy, group_is_healthy
from autoscaler.registry.instances import (
    InstanceRemoval,
    Unregistered,
    failed_creations,
    new_failures,
    removals_of_failed,
    removals_of_unregistered,
    unregistered,
)
from autoscaler.registry.memory import Memory, scale_up_failed, without_vanished
from autoscaler.registry.occurrence import Incident, Occurrence
from autoscaler.registry.readiness import Readings
from autoscaler.registry.requests import (
    AcceptableRange,
    ScaleUpRequest,
    TimedOut,
    acceptable_range,
    doubted,
    growing,
    missing,
    pending_by_group,
    revert_of,
    with_increase,
)
from autoscaler.registry.sizes import SizeFix, incorrect_sizes, size_fixes
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Group, Groups
from cloudprovider.duration import show_duration
from cloudprovider.interface import ErrorClass, InstanceError

_TIMEOUT_CODE = "timeout"


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """One node group in this pass."""

    buckets: Buckets
    acceptable: AcceptableRange
    healthy: bool
    scaling_up: bool
    upcoming: int
    """Number of nodes that are not ready but that pods may count on; `buckets.not_started` of them have registered."""
    backoff: Backoff | None
    """Set while the group is backed off after a failed scale-up."""

    @property
    def may_scale_up(self) -> bool:
        """Whether the group is healthy and not backed off."""
        return self.healthy and self.backoff is None


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """The state of nodes and node groups in one pass, and the required corrections."""

    now: Instant
    memory: Memory
    readings: Readings
    cluster: Buckets
    """Includes nodes without a group."""
    healthy: bool
    groups: Mapping[str, GroupState]
    """By group id, in the provider's order."""
    timed_out: tuple[TimedOut, ...] = ()
    long_unregistered: tuple[InstanceRemoval, ...] = ()
    failed_creations: tuple[InstanceRemoval, ...] = ()
    size_fixes: tuple[SizeFix, ...] = ()
    occurrences: tuple[Occurrence, ...] = ()

    @property
    def targets(self) -> Mapping[str, int]:
        """Expected target size by group id."""
        return {group: state.acceptable.target for group, state in self.groups.items()}

    @property
    def upcoming(self) -> Mapping[str, int]:
        """Number of upcoming nodes by group id; groups without any are absent."""
        return {group: state.upcoming for group, state in self.groups.items() if state.upcoming > 0}

    @property
    def upcoming_registered(self) -> Mapping[str, tuple[str, ...]]:
        """Names of registered nodes that count as upcoming because they have not started, by group id."""
        return {group: state.buckets.not_started for group, state in self.groups.items() if state.upcoming > 0}


class _Settled(msgspec.Struct, frozen=True):
    """An updated memory, and the occurrences found during the update."""

    memory: Memory
    occurrences: tuple[Occurrence, ...]
    timed_out: tuple[TimedOut, ...] = ()


class _Judge(msgspec.Struct, frozen=True):
    """The inputs of every step of an update."""

    now: Instant
    health: HealthOptions
    rules: Rules
    templated: Collection[str]
    """Ids of groups that have a template."""

    def backed_off(self, memory: Memory, group_id: str, error: InstanceError) -> Memory:
        if self.rules.backoff_needs_template and group_id not in self.templated:
            return memory
        return scale_up_failed(memory, group_id, error, self.now, self.health)


def update(
    memory: Memory,
    view: ClusterView,
    readings: Readings,
    now: Instant,
    *,
    health: HealthOptions,
    rules: Rules,
    templated: Collection[str],
) -> Registry:
    """Return the state of the cluster at the start of a pass, including the updated memory.

    `readings` belong to the view's nodes; `templated` holds the ids of groups for which a new node can be simulated.
    """
    groups = view.groups.all
    judge = _Judge(now, health, rules, templated)
    since, waiting = unregistered(groups, readings.provider_ids, memory.unregistered, now, health)
    cluster, buckets = _with_unregistered(
        classify_nodes(readings, view.groups, now, health, rules), view.groups, waiting
    )
    failed = failed_creations(groups)

    memory = without_vanished(memory, {group.id for group in groups}, now)
    memory = _with_adopted(memory, groups, buckets, judge) if rules.upcoming_needs_request else memory
    memory = msgspec.structs.replace(memory, targets={group.id: group.target_size for group in groups})
    requests = _settle_requests(memory, view.groups, buckets, failed, judge)
    failures = _take_failures(requests.memory, groups, judge)
    incorrect = incorrect_sizes(groups, buckets, memory.incorrect_sizes, now, rules)
    after = msgspec.structs.replace(
        failures.memory, unregistered=since, failed_creations=failed, incorrect_sizes=incorrect
    )
    overdue = {group: machines.overdue for group, machines in waiting.items()}
    removals, kept = removals_of_unregistered(groups, overdue, health, rules)
    reverts = {late.group: late.revert for late in requests.timed_out}
    return Registry(
        now=now,
        memory=after,
        readings=readings,
        cluster=cluster,
        healthy=cluster_is_healthy(cluster, health),
        groups=_states(after, {group.id: group.target_size for group in groups}, buckets, judge),
        timed_out=requests.timed_out,
        long_unregistered=removals,
        failed_creations=removals_of_failed(groups, failed, health, rules),
        size_fixes=size_fixes(groups, incorrect, failed, reverts, now, health),
        occurrences=requests.occurrences + failures.occurrences + kept,
    )


def recalculated(
    registry: Registry,
    memory: Memory,
    targets: Mapping[str, int],
    *,
    health: HealthOptions,
    rules: Rules,
    removed: Collection[str] = (),
) -> Registry:
    """Return the state after changes by the pass: `memory` as it is now, and `targets` as read back.

    Groups not in `targets` keep theirs. Instance ids in `removed` no longer count as unregistered.
    """
    judge = _Judge(registry.now, health, rules, ())
    buckets = {group: _without(state.buckets, removed) for group, state in registry.groups.items()}
    sizes = {group: targets.get(group, state.acceptable.target) for group, state in registry.groups.items()}
    return msgspec.structs.replace(
        registry,
        memory=memory,
        cluster=_without(registry.cluster, removed),
        groups=_states(memory, sizes, buckets, judge),
    )


def _with_unregistered(
    sorted_nodes: tuple[Buckets, Mapping[str, Buckets]], groups: Groups, waiting: Mapping[str, Unregistered]
) -> tuple[Buckets, Mapping[str, Buckets]]:
    """Add machines without a node to the buckets of the cluster and of their group; every group gets buckets."""
    cluster, by_group = sorted_nodes
    none = Buckets()
    complete = {}
    for group in groups.all:
        buckets = by_group.get(group.id, none)
        if (machines := waiting.get(group.id)) is not None:
            buckets = msgspec.structs.replace(
                buckets, unregistered=machines.waiting, long_unregistered=machines.overdue
            )
        complete[group.id] = buckets
    cluster = msgspec.structs.replace(
        cluster,
        unregistered=tuple(instance for machines in waiting.values() for instance in machines.waiting),
        long_unregistered=tuple(instance for machines in waiting.values() for instance in machines.overdue),
    )
    return cluster, complete


def _without(buckets: Buckets, removed: Collection[str]) -> Buckets:
    if not removed:
        return buckets
    return msgspec.structs.replace(
        buckets,
        unregistered=tuple(instance for instance in buckets.unregistered if instance not in removed),
        long_unregistered=tuple(instance for instance in buckets.long_unregistered if instance not in removed),
    )


def _with_adopted(memory: Memory, groups: tuple[Group, ...], buckets: Mapping[str, Buckets], judge: _Judge) -> Memory:
    """Expect machines that another client requested: an earlier process, an operator, or a call that seemed to fail.

    These machines are on their way like our own. Without a request they would not count as upcoming, and the pass would
    buy more nodes for the pods that wait for them. Machines that already timed out are not expected again, because
    their target has not grown.
    """
    for group in groups:
        waiting = missing(group.target_size, buckets[group.id])
        known = memory.targets.get(group.id)
        grown = waiting if known is None else group.target_size - known
        request = memory.scale_ups.get(group.id)
        unasked = min(grown, waiting - (0 if request is None else request.increase))
        if unasked > 0:
            provision_s = provision_time_s(group, judge.health)
            scale_ups = with_increase(memory.scale_ups, group.id, unasked, judge.now, provision_s)
            memory = msgspec.structs.replace(memory, scale_ups=scale_ups)
    return memory


def _settle_requests(
    memory: Memory,
    groups: Groups,
    buckets: Mapping[str, Buckets],
    failed: Mapping[str, tuple[str, ...]],
    judge: _Judge,
) -> _Settled:
    """End fulfilled and overdue scale-up requests, completed scale-down requests, and old backoffs.

    A request is not fulfilled if its machines exist but never became nodes.
    """
    now = judge.now
    memory = msgspec.structs.replace(
        memory,
        scale_downs=tuple(request for request in memory.scale_downs if request.pending(now)),
        backoffs=backoff.expire(memory.backoffs, now, judge.health),
    )
    kept: dict[str, ScaleUpRequest] = {}
    timed_out, occurrences = [], []
    for group_id, request in memory.scale_ups.items():
        group = groups.get(group_id)
        if group is None:
            continue
        own = buckets[group_id]
        in_vain = request.overdue(now) and bool(own.long_unregistered)
        if not in_vain and not growing(group.target_size, own, judge.rules):
            occurrences.append(_occurrence(Incident.SCALE_UP_FINISHED, group_id, request, now))
        elif request.overdue(now):
            late = _too_late(group_id, request, now)
            failures = len(failed.get(group_id, ()))
            revert = revert_of(request, group.target_size, own, failures, judge.rules)
            timed_out.append(TimedOut(group_id, request, revert))
            occurrences.append(_occurrence(Incident.SCALE_UP_TIMED_OUT, group_id, request, now, late))
            memory = judge.backed_off(memory, group_id, late)
        else:
            kept[group_id] = request
    memory = msgspec.structs.replace(memory, scale_ups=kept)
    return _Settled(memory, tuple(occurrences), tuple(timed_out))


def _occurrence(
    incident: Incident, group_id: str, request: ScaleUpRequest, now: Instant, error: InstanceError | None = None
) -> Occurrence:
    lasted_s = now.mono - request.asked.mono
    return Occurrence(incident=incident, group=group_id, nodes=request.increase, lasted_s=lasted_s, error=error)


def _too_late(group_id: str, request: ScaleUpRequest, now: Instant) -> InstanceError:
    waited_s = now.mono - request.asked.mono
    text = f"Scale-up timed out for node group {group_id} after {show_duration(waited_s)}"
    return InstanceError(ErrorClass.OTHER, _TIMEOUT_CODE, text)


def _take_failures(memory: Memory, groups: tuple[Group, ...], judge: _Judge) -> _Settled:
    """Back off groups whose scale-up has machines that could not be created, and reduce their requests accordingly.

    The requests must already be settled: a group with a request is scaling up, and only such groups are backed off.
    """
    occurrences = []
    for group in groups:
        request = memory.scale_ups.get(group.id)
        if request is None:
            continue
        for failure in new_failures(group, memory.failed_creations.get(group.id, ())):
            count = len(failure.instances)
            scale_ups = with_increase(memory.scale_ups, group.id, -count, judge.now, request.provision_time_s)
            scale_ups = doubted(scale_ups, group.id)
            memory = msgspec.structs.replace(memory, scale_ups=scale_ups)
            memory = judge.backed_off(memory, group.id, failure.error)
            occurrences.append(
                Occurrence(
                    incident=Incident.CREATION_FAILED,
                    group=group.id,
                    nodes=count,
                    lasted_s=judge.now.mono - request.asked.mono,
                    error=failure.error,
                    messages=failure.messages,
                )
            )
    return _Settled(memory, tuple(occurrences))


def _states(
    memory: Memory, targets: Mapping[str, int], buckets: Mapping[str, Buckets], judge: _Judge
) -> Mapping[str, GroupState]:
    scale_downs = pending_by_group(memory.scale_downs)
    states = {}
    for group_id, target in targets.items():
        own, request = buckets[group_id], memory.scale_ups.get(group_id)
        pause = backoff.backed_off(memory.backoffs, group_id, judge.now)
        acceptable = acceptable_range(target, own, request, scale_downs.get(group_id, 0))
        # A refused increase says nothing about earlier requests: only failed machines make others unlikely.
        failing = request is None or (pause is not None and request.failing)
        unreliable = judge.rules.upcoming_needs_request and failing
        states[group_id] = GroupState(
            buckets=own,
            acceptable=acceptable,
            healthy=group_is_healthy(own, acceptable, judge.health),
            scaling_up=request is not None and growing(target, own, judge.rules),
            upcoming=0 if unreliable else max(0, missing(target, own)),
            backoff=pause,
        )
    return states
