"""Finds what would make a node removable. The tables at the end have one function per reason."""

import math
from collections.abc import Callable, Iterator, Mapping

import msgspec

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.blockers import to_drain
from autoscaler.explain.remedies.changes import (
    AnnotatableKind,
    Annotate,
    AnyChange,
    ResizeGroup,
    SetFlag,
    SetGroupOption,
    Wait,
    resource_name,
    sentence,
    told,
)
from autoscaler.explain.remedies.groups import by_change
from autoscaler.explain.remedies.node_waits import until_next_minute, until_open, until_resumed
from autoscaler.explain.remedies.passes import ended_early, next_pass
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy, together
from autoscaler.objects.pod import DO_NOT_DISRUPT, SAFE_TO_EVICT
from autoscaler.observe.reason_table import TABLE
from autoscaler.reasons import ScaleDownResult, ScaleUpResult, UnremovableNode, UnremovableReason
from autoscaler.registry.memory import LastActions
from autoscaler.scaledown.eligibility import SCALE_DOWN_DISABLED
from autoscaler.scaledown.plan import Removal, ScaleDownContext
from autoscaler.scaledown.resource_minimums import Reserve
from autoscaler.snapshot.contribution import CORES, MEMORY, bounds, contribution, gpu_resources, has_gpu
from autoscaler.snapshot.groups import Group
from cloudprovider.duration import show_duration

_GIB = 1024**3


class NodeCase(msgspec.Struct, frozen=True, kw_only=True):
    """One node that stays, or is removed later, and the pass's decisions about it."""

    name: str
    removal: Removal | None
    """The removal of the node, if it is unneeded."""
    unremovable: UnremovableNode | None
    """Why the node stays; for an unneeded node, why it stays for now."""
    group: Group | None
    time_left_s: float | None
    ended: ExplainedPass


Remedies = Iterator[Remedy]


def node_remedies(case: NodeCase) -> Remedies:
    """Yield what would let the autoscaler remove the node, best first."""
    stays = case.unremovable
    if stays is None:
        early = ended_early(case.ended)
        yield from _removable(case) if early is None else (early,)
    elif stays.reason in _FOUND_BY_DRAINING:
        yield from _drained(case, stays)
    elif stays.reason in _BEFORE_DRAINING:
        yield from _with_drain(case, _of_reason(case, stays))
    else:
        yield from _of_reason(case, stays)


_FOUND_BY_DRAINING = (UnremovableReason.BLOCKED_BY_POD, UnremovableReason.NO_PLACE)
_BEFORE_DRAINING = (
    UnremovableReason.MIN_SIZE,
    UnremovableReason.NOT_UNDERUTILIZED,
    UnremovableReason.DISABLED,
    UnremovableReason.DO_NOT_DISRUPT,
    UnremovableReason.UNREADY_DISABLED,
)
"""Reasons for which a node stays before the pass looks at its pods."""


def _removable(case: NodeCase) -> Remedies:
    """Yield why a node still exists that nothing blocks."""
    report, group = case.ended.report, case.group
    if report.scale_down.result is ScaleDownResult.IN_COOLDOWN:
        yield _cooling(case, ScaleDownResult.IN_COOLDOWN, case.ended.memory.registry.last)
    elif not case.ended.config.scale_down.scale_down_enabled:
        flag = SetFlag(flag="scale-down-enabled", value="true")
        yield _by_flag(Obstacle.SCALE_DOWN_DISABLED, flag, "stays, since scale-down is off")
    elif report.scale_up.result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR) and case.removal is None:
        yield next_pass(Obstacle.SCALE_UP_FIRST, "is not checked in a pass that scales up", case.ended)
    elif group is None:
        yield _without_group(case)
    elif case.removal is None and group.target_size <= group.min_size:
        yield from _with_drain(case, _minimum(case, group))
    else:
        yield next_pass(Obstacle.AWAITS_REMOVAL, "is unneeded, and its removal has not begun", case.ended)


def _with_drain(case: NodeCase, remedies: Remedies) -> Remedies:
    """Yield remedies, together with what the node's pods would need."""
    needed = to_drain(case.name, case.ended)[0] if case.ended.placer is not None else []
    for first in remedies:
        yield together(needed, first) if first.changes else first


def _drained(case: NodeCase, stays: UnremovableNode) -> Remedies:
    needed, others = to_drain(case.name, case.ended)
    if needed:
        yield together(needed)
        if len(needed) == 1:
            yield from others
        return
    cause = f"was kept by {stays.pod or 'a pod'} during the pass, and no longer is"
    yield next_pass(Obstacle.AWAITS_REMOVAL, cause, case.ended)


def _of_reason(case: NodeCase, stays: UnremovableNode) -> Remedies:
    group = case.group
    if group is not None and (explain_of_group := _OF_GROUP.get(stays.reason)) is not None:
        yield from explain_of_group(case, stays, group)
    elif (explain := _OF_NODE.get(stays.reason)) is not None:
        yield from explain(case, stays)
    else:
        meaning = TABLE[UnremovableReason][stays.reason]
        text = meaning.remedy or "Wait; it may go later."
        yield remedy(stays.reason, (CulpritKind.NODE, case.name), text, cause=stays.detail or meaning.text)


def _by_flag(code: str, flag: SetFlag, cause: str, text: str = "") -> Remedy:
    return remedy(code, (CulpritKind.FLAG, flag.flag), text or sentence(told([flag])), [flag], cause)


def _disabled(case: NodeCase, stays: UnremovableNode) -> Remedies:
    key = DO_NOT_DISRUPT if stays.reason is UnremovableReason.DO_NOT_DISRUPT else SCALE_DOWN_DISABLED
    off = Annotate(kind=AnnotatableKind.NODE, name=case.name, key=key, value=None)
    yield by_change(stays.reason, (CulpritKind.NODE, case.name), off, "is annotated to stay")


def _unready(case: NodeCase, stays: UnremovableNode) -> Remedies:
    flag = SetFlag(flag="scale-down-unready-enabled", value="true")
    text = f"Repair the node, or {told([flag])} to have unready nodes removed."
    yield _by_flag(stays.reason, flag, f"is not ready, and --{flag.flag} is off", text)


def _without_group(case: NodeCase) -> Remedy:
    text = "Remove the node by hand, or make it part of a node group."
    reason, culprit = UnremovableReason.NOT_AUTOSCALED, (CulpritKind.NODE, case.name)
    return remedy(reason, culprit, text, cause="belongs to no node group")


def _not_tried(case: NodeCase, stays: UnremovableNode) -> Remedies:
    flag = SetFlag(flag="max-scale-down-parallelism", value=str(len(case.ended.view.nodes)))
    text = f"Wait for a later pass, or {told([flag])} to have it checked now."
    yield _by_flag(stays.reason, flag, "was not checked, since enough other nodes are unneeded", text)


def _on_completion(case: NodeCase, stays: UnremovableNode) -> Remedies:
    evictable = Annotate(kind=AnnotatableKind.POD, name=stays.pod or "", key=SAFE_TO_EVICT, value=None)
    text, culprit = f"Wait until the pod has finished, or {told([evictable])}.", stays.pod or case.name
    yield remedy(
        stays.reason, (CulpritKind.POD, culprit), text, [evictable], f"is kept until pod {stays.pod} has finished"
    )


def _recently_unremovable(case: NodeCase, stays: UnremovableNode) -> Remedies:
    """Yield the reason that keeps the node, and when the autoscaler looks at it again."""
    memory = case.ended.memory.scale_down
    known = None if memory is None else memory.unremovable.get(case.name)
    left_s = 0.0 if known is None else max(0.0, known.until.mono - case.ended.report.now.mono)
    needed, _ = to_drain(case.name, case.ended)
    if needed:
        yield together(needed, until_s=left_s)
        return
    wait = Wait(seconds=left_s)
    text, cause = (
        f"Wait {wait.span}; the node is then checked again.",
        f"could not be removed a while ago ({stays.detail})",
    )
    yield remedy(stays.reason, (CulpritKind.FLAG, "unremovable-node-recheck-timeout"), text, [wait], cause)


def _group_cooling_down(case: NodeCase, stays: UnremovableNode) -> Remedies:
    registry = case.ended.memory.registry
    last = registry.last if case.group is None else registry.last_by_group.get(case.group.id, registry.last)
    yield _cooling(case, stays.reason, last)


def _cooling(case: NodeCase, code: str, last: LastActions) -> Remedy:
    """Return when the last delay after an event ends."""
    options = case.ended.config.scale_down
    delays = {
        "scale-down-delay-after-add": (last.scale_up, options.scale_down_delay_after_add_s),
        "scale-down-delay-after-delete": (last.scale_down, options.scale_down_delay_after_delete_s),
        "scale-down-delay-after-failure": (last.scale_down_failure, options.scale_down_delay_after_failure_s),
    }
    ends = {flag: then.mono + delay_s for flag, (then, delay_s) in delays.items() if then is not None}
    flag = max(ends, key=ends.__getitem__, default="scale-down-delay-after-add")
    wait = Wait(seconds=case.time_left_s or case.ended.config.loop.scan_interval_s)
    text, cause = f"Wait {wait.span}; it may go then.", f"has to wait for --{flag}"
    return remedy(code, (CulpritKind.FLAG, flag), text, [wait], cause)


def _not_long_enough(case: NodeCase, stays: UnremovableNode) -> Remedies:
    unready = stays.reason is UnremovableReason.NOT_UNREADY_LONG_ENOUGH
    flag = "scale-down-unready-time" if unready else "scale-down-unneeded-time"
    owner = None
    if case.group is not None:
        settings = case.group.settings
        own_s = settings.scale_down_unready_time_s if unready else settings.scale_down_unneeded_time_s
        owner = None if own_s is None else case.group.id
    culprit = (CulpritKind.FLAG, flag) if owner is None else (CulpritKind.GROUP, owner)
    wait, cause = Wait(seconds=case.time_left_s or 0.0), f"has been {stays.detail}"
    text = f"Wait {wait.span}; it may go then if it is still unneeded."
    yield remedy(stays.reason, culprit, text, [wait], cause)
    spent_s = _unneeded_for_s(case)
    if spent_s > 0:
        value = show_duration(math.floor(spent_s))
        change: AnyChange = SetFlag(flag=flag, value=value)
        if owner is not None:
            change = SetGroupOption(group=owner, option=flag, value=value)
        yield by_change(stays.reason, culprit, change, cause)


def _unneeded_for_s(case: NodeCase) -> float:
    """Return how long the node has been unneeded; 0 if unknown."""
    memory = case.ended.memory.scale_down
    since = None if memory is None else memory.unneeded.get(case.name)
    if since is None or case.unremovable is None or case.unremovable.time_left_s is None:
        return 0.0
    return max(0.0, case.ended.report.now.mono - since.mono)


def _parallelism(case: NodeCase, stays: UnremovableNode) -> Remedies:
    ended, options = case.ended, case.ended.config.scale_down
    begun, count = ended.report.scale_down.begun, len(ended.report.scale_down.unneeded)
    drained = case.removal is not None and case.removal.drained
    crowded = len(begun) >= options.max_scale_down_parallelism
    needed = []
    if crowded or not drained:
        limit = max(count, options.max_scale_down_parallelism)
        needed.append(SetFlag(flag="max-scale-down-parallelism", value=str(limit)))
    if drained:
        limit = max(count, options.max_drain_parallelism)
        needed.append(SetFlag(flag="max-drain-parallelism", value=str(limit)))
    flag = needed[0].flag
    text = f"Wait until the others are gone, or {told(needed)} to remove more at once."
    cause = f"has to wait, since as many nodes as --{flag} allows are being removed"
    yield remedy(stays.reason, (CulpritKind.FLAG, flag), text, needed, cause)


def _minimum(case: NodeCase, group: Group) -> Remedies:
    """Yield the minimum size that lets this node go after the other nodes which the same minimum keeps."""
    ended, scale_down = case.ended, case.ended.report.scale_down
    owners = ended.view.groups.of_node
    before = 1 + sum(removal.group == group.id for removal in scale_down.begun)
    for node in ended.view.nodes:
        if node.name == case.name:
            break
        other = scale_down.unremovable.get(node.name)
        waits = other is not None and other.reason in (UnremovableReason.MIN_SIZE, UnremovableReason.BEING_DELETED)
        before += waits and owners.get(node.name) == group.id
    target = ended.registry.targets.get(group.id, group.target_size)
    change = ResizeGroup(group=group.id, min=max(0, target - before))
    cause = f"is needed for the minimum size of group {group.id}, which is {group.min_size}"
    yield by_change(UnremovableReason.MIN_SIZE, (CulpritKind.GROUP, group.id), change, cause)


def _atomic(case: NodeCase, stays: UnremovableNode, group: Group) -> Remedies:
    """Yield what would let the autoscaler remove all other nodes of the group."""
    cause = f"can only go with all of group {group.id}"
    needed = list(_others_of(case, group))
    if needed:
        lead, whole = needed[0].culprit, together(needed)
        others = f"{cause}, and another node {whole.cause}"
        yield remedy(stays.reason, (lead.kind, lead.name), whole.text, whole.changes, others)
        return
    text = "Wait until its machines that are still to come exist."
    yield remedy(stays.reason, (CulpritKind.GROUP, group.id), text, cause=cause)


def _others_of(case: NodeCase, group: Group) -> Remedies:
    """Yield the best remedy of each other node of the group that stays for a reason of its own."""
    report, view = case.ended.report, case.ended.view
    removals = {removal.node.name: removal for removal in report.scale_down.unneeded}
    for node in view.nodes:
        name, other = node.name, report.scale_down.unremovable.get(node.name)
        if name == case.name or other is None or view.groups.of_node.get(name) != group.id:
            continue
        if other.reason is not UnremovableReason.ATOMIC:
            sibling = NodeCase(
                name=name,
                removal=removals.get(name),
                unremovable=other,
                group=group,
                time_left_s=other.time_left_s,
                ended=case.ended,
            )
            first = next(node_remedies(sibling), None)
            if first is not None:
                yield first


def _scarce(case: NodeCase, stays: UnremovableNode, group: Group) -> Remedies:
    """Yield the minimum of the cluster that allows the removal of the node."""
    limits, view, rules = case.ended.config.limits, case.ended.view, case.ended.config.rules
    node = view.nodes[view.positions[case.name]]
    shares = dict(contribution(node, group, view.groups.gpu_label, gpu_resources(rules)).shares())
    scarce = _reserve(case.ended).scarce_without(node, group) or CORES
    least = max(0, bounds(limits)[scarce].min - (shares.get(scarce) or 0))
    if scarce == CORES:
        change = SetFlag(flag="cores-total", value=f"{least}:{limits.cores_total.max}")
    elif scarce == MEMORY:
        change = SetFlag(flag="memory-total", value=f"{least // _GIB}:{limits.memory_total.max}")
    else:
        fewest = {gpu.gpu_type: gpu.min for gpu in limits.gpu_total} | {scarce.resource: least}
        values = [f"{gpu.gpu_type}:{fewest[gpu.gpu_type]}:{gpu.max}" for gpu in limits.gpu_total]
        change = SetFlag(flag="gpu-total", value=values)
    cause = f"is needed for the {resource_name(scarce.resource)} that --{change.flag} keeps in the cluster"
    yield _by_flag(stays.reason, change, cause)


def _reserve(ended: ExplainedPass) -> Reserve:
    """Return how much the cluster may still lose; removals in progress count as done."""
    config = ended.config
    context = ScaleDownContext(
        now=ended.report.now,
        groups=ended.view.groups,
        readings=ended.registry.readings,
        options=config.scale_down,
        drain=config.drain,
        limits=config.limits,
        rules=config.rules,
    )
    reserve = Reserve(ended.simulated.trial, context)
    for removal in ended.report.scale_down.begun:
        owner = ended.view.groups.get(removal.group)
        if owner is not None and reserve.scarce_without(removal.node, owner) is None:
            reserve.take(removal.node, owner)
    return reserve


def _used(case: NodeCase, stays: UnremovableNode, group: Group) -> Remedies:
    view, settings = case.ended.view, group.settings
    node = view.nodes[view.positions[case.name]]
    gpu = has_gpu(node, view.groups.gpu_label, gpu_resources(case.ended.config.rules))
    own = settings.scale_down_gpu_utilization_threshold if gpu else settings.scale_down_utilization_threshold
    name = f"scale-down-{'gpu-' if gpu else ''}utilization-threshold"
    enough = math.floor((stays.utilization or 0.0) * 100 + 1) / 100
    text, cause = "Nothing to do; to have it removed all the same", f"is in use: {stays.detail}"
    if own is None:
        flag = SetFlag(flag=name, value=f"{enough:g}")
        yield _by_flag(stays.reason, flag, cause, f"{text}, {told([flag])}.")
    else:
        option = SetGroupOption(group=group.id, option=name, value=enough)
        yield remedy(stays.reason, (CulpritKind.GROUP, group.id), f"{text}, {told([option])}.", [option], cause)


def _group_held(case: NodeCase, stays: UnremovableNode, group: Group) -> Remedies:
    option = SetGroupOption(group=group.id, option="scale-down-enabled", value="true")
    text = f"Wait if a replacement is in progress, or {told([option])}."
    cause = f"belongs to group {group.id}, which allows no removals"
    yield remedy(stays.reason, (CulpritKind.GROUP, group.id), text, [option], cause)


_OF_NODE: Mapping[UnremovableReason, Callable[[NodeCase, UnremovableNode], Remedies]] = {
    UnremovableReason.DISABLED: _disabled,
    UnremovableReason.DO_NOT_DISRUPT: _disabled,
    UnremovableReason.UNREADY_DISABLED: _unready,
    UnremovableReason.NOT_AUTOSCALED: lambda case, _: iter((_without_group(case),)),
    UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH: _not_long_enough,
    UnremovableReason.NOT_UNREADY_LONG_ENOUGH: _not_long_enough,
    UnremovableReason.MAX_DELETIONS: _parallelism,
    UnremovableReason.NOT_TRIED: _not_tried,
    UnremovableReason.RECENTLY_UNREMOVABLE: _recently_unremovable,
    UnremovableReason.ON_COMPLETION: _on_completion,
    UnremovableReason.GROUP_COOLING_DOWN: _group_cooling_down,
    UnremovableReason.OUTSIDE_WINDOW: lambda _, stays: until_open(stays),
    UnremovableReason.TOO_MANY_A_MINUTE: lambda _, stays: until_next_minute(stays),
    UnremovableReason.PAUSED: lambda _, stays: until_resumed(stays),
}
_OF_GROUP: Mapping[UnremovableReason, Callable[[NodeCase, UnremovableNode, Group], Remedies]] = {
    UnremovableReason.MIN_SIZE: lambda case, _, group: _minimum(case, group),
    UnremovableReason.ATOMIC: _atomic,
    UnremovableReason.MINIMAL_RESOURCES: _scarce,
    UnremovableReason.NOT_UNDERUTILIZED: _used,
    UnremovableReason.GROUP_HELD: _group_held,
}
"""Reasons that need a group; without a group, only the reason itself is known."""
