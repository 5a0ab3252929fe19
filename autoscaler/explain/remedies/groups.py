"""Finds what would let a node group grow: its bounds, limits of the cluster, its state, and the expander's choice."""

from collections.abc import Iterator, Mapping

from autoscaler.config.expanders import PREFERRED
from autoscaler.config.scaleup import ResourceLimits, TieBreak
from autoscaler.config.tree import Config
from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.changes import (
    AnyChange,
    RaiseQuota,
    RankFirst,
    ResizeGroup,
    SetFlag,
    Wait,
    joined,
    sentence,
    told,
)
from autoscaler.explain.remedies.remedy import CulpritKind, Remedy, remedy
from autoscaler.loop.buying import counted_nodes, quotas_in
from autoscaler.objects import quantity
from autoscaler.reasons import PodVerdict, ScaleUpResult, Skip, Skipped
from autoscaler.registry.backoff import backed_off
from autoscaler.scaleup.capacity_quotas import quota_id
from autoscaler.scaleup.expander import ExpanderInputs, build_chain
from autoscaler.scaleup.limits import Uncountable, maxima, need_of, usage
from autoscaler.scaleup.plan import Round
from autoscaler.snapshot.contribution import CLUSTER_WIDE, CORES, MEMORY, Limit
from autoscaler.snapshot.groups import Group
from autoscaler.tie_break import dice

_GIB = 1024**3
_BY_FIGURES = ("least-waste", "most-pods", "least-nodes")
"""Expanders that need nothing but the options."""
MAX_NODES = "max-nodes-total"


def held_group(skipped: Skipped, ended: ExplainedPass, wanted: int = 1) -> Remedy:
    """Return what would let a skipped group grow; a maximum has to rise by `wanted` nodes."""
    group, reason = ended.view.groups.by_id[skipped.group], skipped.reason
    named = f"group {group.id}"
    match reason:
        case Skip.BACKED_OFF:
            return paused(reason, group.id, ended, skipped.detail)
        case Skip.MAX_SIZE:
            target = ended.registry.targets.get(group.id, group.target_size)
            cause = f"needs a machine of {named}, which is at its maximum size of {group.max_size}"
            return by_change(reason, _of(group.id), ResizeGroup(group=group.id, max=target + wanted), cause)
        case Skip.LIMIT:
            return _limited(group, ended)
        case Skip.ATOMIC_LIMIT:
            return more_nodes(group.room, ended, reason)
        case Skip.NOT_READY:
            return _unhealthy(group, ended)
        case Skip.PAUSED:
            text = f"Wait for the end of the pause, or run autoscaler resume: {skipped.detail}."
            return remedy(reason, _of(group.id), text, cause=f"needs a machine of {named}, which is paused")
        case Skip.NO_TEMPLATE:
            text = f"Describe the nodes of {named} to the autoscaler as its provider asks, or start one node by hand."
            return remedy(
                reason,
                _of(group.id),
                text,
                cause=f"needs a machine of {named}, and nobody knows what its nodes are like",
            )


def paused(code: str, group_id: str, ended: ExplainedPass, error: str) -> Remedy:
    """Return how long the autoscaler leaves a failed group alone."""
    pause = backed_off(ended.memory.registry.backoffs, group_id, ended.report.now)
    said = error or ("" if pause is None else pause.error.code)
    cause = f"needs a machine of group {group_id}, which could not grow" + (f" ({said})" if said else "")
    if pause is None:
        text = f"Clear what the provider reports; group {group_id} is then tried again."
        return remedy(code, _of(group_id), text, cause=cause)
    wait = Wait(seconds=max(0.0, pause.until.mono - ended.report.now.mono))
    text = f"Clear what the provider reports, or wait: group {group_id} is tried again in {wait.span}."
    return remedy(code, _of(group_id), text, [wait], cause)


def by_change(code: str, culprit: tuple[CulpritKind, str], change: AnyChange, cause: str) -> Remedy:
    """Return a remedy that consists of one change."""
    return remedy(code, culprit, sentence(told([change])), [change], cause)


def _of(group_id: str) -> tuple[CulpritKind, str]:
    return CulpritKind.GROUP, group_id


def more_nodes(wanted: int, ended: ExplainedPass, code: str = ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL) -> Remedy:
    """Return the limit on nodes that leaves room for this many more."""
    registry, config = ended.registry, ended.config
    counted = len(counted_nodes(ended.view, registry, config.rules)) + sum(registry.upcoming.values())
    present = max(counted, sum(1 for _ in registry.readings.ready()))
    flag = SetFlag(flag=MAX_NODES, value=str(present + wanted))
    limit = config.limits.max_nodes_total
    cause = f"needs a machine, and --{MAX_NODES}={limit} leaves no room for it"
    return by_change(code, (CulpritKind.FLAG, MAX_NODES), flag, cause)


def _limited(group: Group, ended: ExplainedPass) -> Remedy:
    registry, config, templates = ended.registry, ended.config, ended.report.templates
    sized = ended.view.groups.sized(registry.targets)
    nodes = counted_nodes(ended.view, registry, config.rules)
    quotas = quotas_in(ended.view, config)
    used = usage(config.limits, config.rules, sized, templates, nodes, registry.upcoming, quotas)
    if isinstance(used, Uncountable):
        text = f"Describe the nodes of group {used.group} to the autoscaler as its provider asks."
        cause = f"needs a machine, and limits have to count group {used.group}, whose nodes nobody knows"
        return remedy(Skip.LIMIT, _of(used.group), text, cause=cause)
    wanted = group.room if group.settings.zero_or_max_node_scaling else 1
    need = need_of(group, templates[group.id], sized, config.rules, quotas)
    raised: dict[Limit, int] = {}
    for limit, most in maxima(config.limits, quotas).items():
        before, amount = used[limit], dict(need.shares()).get(limit, 0)
        if before is not None and amount and before + amount * wanted > most:
            raised[limit] = before + amount * wanted
    changes: list[SetFlag | RaiseQuota] = [*_raised_flags(raised, config.limits), *_raised_quotas(raised, ended)]
    if not changes:
        text = f"Describe the GPUs of group {group.id} to the autoscaler as its provider asks."
        cause = f"needs a machine of group {group.id}, and nobody knows how many GPUs --gpu-total has to count"
        return remedy(Skip.LIMIT, (CulpritKind.FLAG, "gpu-total"), text, cause=cause)
    culprits = list(dict.fromkeys(_culprit(change) for change in changes))
    named = joined(f"--{name}" if kind is CulpritKind.FLAG else f"CapacityQuota {name}" for kind, name in culprits)
    cause = f"needs a machine of group {group.id}, and {named} leave{'' if len(culprits) > 1 else 's'} no room for it"
    return remedy(Skip.LIMIT, culprits[0], sentence(told(changes)), changes, cause)


def _culprit(change: SetFlag | RaiseQuota) -> tuple[CulpritKind, str]:
    if isinstance(change, SetFlag):
        return CulpritKind.FLAG, change.flag
    return CulpritKind.QUOTA, change.quota


def _raised_quotas(raised: Mapping[Limit, int], ended: ExplainedPass) -> Iterator[RaiseQuota]:
    """Yield the limits of CapacityQuotas to raise to these amounts."""
    names = {quota_id(name): name for name in ended.view.related.capacity_quotas}
    for limit, amount in raised.items():
        if limit.quota != CLUSTER_WIDE:
            value = quantity.text(quantity.MEMORY, amount) if limit.resource == quantity.MEMORY else str(amount)
            yield RaiseQuota(quota=names[limit.quota], resource=limit.resource, value=value)


def _raised_flags(raised: Mapping[Limit, int], limits: ResourceLimits) -> Iterator[SetFlag]:
    """Yield the flags to raise for these amounts."""
    if CORES in raised:
        yield SetFlag(flag="cores-total", value=f"{limits.cores_total.min}:{raised[CORES]}")
    if MEMORY in raised:
        gib = -(-raised[MEMORY] // _GIB)
        yield SetFlag(flag="memory-total", value=f"{limits.memory_total.min}:{gib}")
    if any(Limit(gpu.gpu_type) in raised for gpu in limits.gpu_total):
        values = [f"{gpu.gpu_type}:{gpu.min}:{raised.get(Limit(gpu.gpu_type), gpu.max)}" for gpu in limits.gpu_total]
        yield SetFlag(flag="gpu-total", value=values)


def _unhealthy(group: Group, ended: ExplainedPass) -> Remedy:
    state = ended.registry.groups[group.id]
    buckets = state.buckets
    if buckets.empty:
        text = f"Find out why no machine of group {group.id} becomes a node: see its events at the provider."
        cause = f"needs a machine of group {group.id}, and none of {state.acceptable.target} has registered"
        return remedy(Skip.NOT_READY, _of(group.id), text, cause=cause)
    missing = max(0, state.acceptable.min_nodes - len(buckets.ready) - len(buckets.suspended))
    flag = SetFlag(flag="ok-total-unready-count", value=str(missing))
    text = f"Repair the nodes of group {group.id} that are not ready, or {told([flag])}."
    cause = f"needs a machine of group {group.id}, of which {missing} are missing or not ready"
    return remedy(Skip.NOT_READY, _of(group.id), text, [flag], cause)


def _pods_preferred_others(group_id: str, played: Round) -> Remedy | None:
    """Return what would keep preferences from dropping the group; None if others than they dropped it."""
    left = [option.group.id for option in played.options]
    for step in played.steps:
        if group_id not in step.kept:
            if step.expander != PREFERRED or step.preference is None:
                return None
            cause = f"fits group {group_id}, but {step.preference.text}"
            flag = SetFlag(flag="weigh-soft-constraints", value="false")
            changes = [flag] if left[0] == group_id else []
            text = (
                sentence(told(changes)) if changes else "Nothing to do: the nodes of other groups suit the pods more."
            )
            return remedy(PodVerdict.NOT_CHOSEN, (CulpritKind.FLAG, "weigh-soft-constraints"), text, changes, cause)
        left = list(step.kept)
    return None


def chosen_instead(group_id: str, played: Round, config: Config) -> Remedy:
    """Return what would have made the expanders choose the group in a round.

    That is the flag that weighs preferences, an expander that goes by a figure, or a rank.
    """
    options = played.options
    preferred = _pods_preferred_others(group_id, played)
    if preferred is not None:
        return preferred
    names = list(config.scale_up.expander)
    inputs = ExpanderInputs(dice=dice(0), tie_break=TieBreak.STABLE, rules=config.rules)
    changes: list[AnyChange] = []
    for name in _BY_FIGURES:
        if [name] == names:
            continue
        taken = build_chain((name,), inputs).choose(options).option
        if taken is not None and taken.group.id == group_id:
            changes = [SetFlag(flag="expander", value=name)]
            break
    if not changes:
        by_rank = [] if names[0] == "priority" else [SetFlag(flag="expander", value="priority")]
        changes = [*by_rank, RankFirst(group=group_id)]
    cause = f"fits group {group_id}, which --expander={','.join(names)} did not choose"
    return remedy(PodVerdict.NOT_CHOSEN, (CulpritKind.FLAG, "expander"), sentence(told(changes)), changes, cause)
