"""What would let a node go."""

import math
from collections.abc import Iterator

from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.explain.remedies.blockers import to_drain
from autoscaler.explain.remedies.changes import (
    AnnotatableKind,
    Annotate,
    AnyChange,
    ResizeGroup,
    SetFlag,
    SetGroupOption,
    Wait,
    spelled,
)
from autoscaler.explain.remedies.passes import ended_early, next_pass
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy, together
from autoscaler.loop.passing import PassState
from autoscaler.objects.pod import SAFE_TO_EVICT
from autoscaler.reasons import ScaleDownResult, ScaleUpResult, UnremovableNode, UnremovableReason
from autoscaler.scaledown.eligibility import SCALE_DOWN_DISABLED
from autoscaler.scaledown.memory import RecentlyUnremovable
from autoscaler.scaledown.plan import Removal, ScaleDownContext
from autoscaler.scaledown.resource_minimums import Reserve
from autoscaler.snapshot.contribution import CORES, MEMORY, bounds, contribution, gpu_resources, has_gpu
from autoscaler.snapshot.groups import Group
from cloudprovider.duration import show_duration

_GIB = 1024**3
_LATER = (
    UnremovableReason.MIN_SIZE,
    UnremovableReason.NOT_UNDERUTILIZED,
    UnremovableReason.DISABLED,
    UnremovableReason.UNREADY_DISABLED,
)
"""Reasons for which a node is kept before anybody looks at its pods."""


class NodeCase:
    """One node that stays, or goes later, and what the pass made of it."""

    def __init__(
        self,
        name: str,
        removal: Removal | None,
        kept: UnremovableNode | None,
        group: Group | None,
        time_left_s: float | None,
        p: PassState,
        config: Config,
    ) -> None:
        self.name = name
        self.removal = removal
        self.kept = kept
        self.group = group
        self.time_left_s = time_left_s
        self.p = p
        self.config = config

    def remedies(self) -> Iterator[Remedy]:
        """Yield what would let the node go, the best first."""
        early = ended_early(self.p, self.config)
        if early is not None and self.kept is None:
            yield early
        elif self.kept is None:
            yield from self._not_kept()
        elif self.kept.reason is UnremovableReason.RECENTLY_UNREMOVABLE:
            yield from self._looked_at_again(self.kept)
        elif self.kept.reason in _LATER:
            yield from self._further(self._of(self.kept))
        elif self.kept.reason in (UnremovableReason.BLOCKED_BY_POD, UnremovableReason.NO_PLACE):
            yield from self._drained(self.kept)
        else:
            yield from self._of(self.kept)

    def _not_kept(self) -> Iterator[Remedy]:
        report, options = self.p.report, self.config.scale_down
        if report.scale_down_result is ScaleDownResult.IN_COOLDOWN:
            yield self._cooling(Obstacle.COOLING_DOWN)
        elif not options.scale_down_enabled:
            flag = SetFlag(flag="scale-down-enabled", value="true")
            yield remedy(
                Obstacle.SCALE_DOWN_DISABLED,
                CulpritKind.FLAG,
                flag.flag,
                f"no node is removed; they are with {flag}",
                [flag],
            )
        elif report.scale_up_result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR) and self.removal is None:
            yield next_pass(Obstacle.SCALE_UP_FIRST, "the pass scaled up; nodes are looked at", self.p, self.config)
        elif self.group is None:
            yield self._stranger()
        elif self.removal is None and self.group.target_size <= self.group.min_size:
            yield from self._further(self._minimum(self.group))
        else:
            yield next_pass(Obstacle.AWAITS_REMOVAL, "nobody needs it; it is looked at again", self.p, self.config)

    def _cooling(self, code: Obstacle) -> Remedy:
        """Return when the delays after what happened last are over."""
        options, last = self.config.scale_down, self.p.remembered.registry.last
        if code is Obstacle.GROUP_COOLING_DOWN and self.group is not None:
            last = self.p.remembered.registry.last_by_group.get(self.group.id, last)
        delays = {
            "scale-down-delay-after-add": (last.scale_up, options.scale_down_delay_after_add_s),
            "scale-down-delay-after-delete": (last.scale_down, options.scale_down_delay_after_delete_s),
            "scale-down-delay-after-failure": (last.scale_down_failure, options.scale_down_delay_after_failure_s),
        }
        ends = {flag: then.mono + delay_s for flag, (then, delay_s) in delays.items() if then is not None}
        flag = max(ends, key=ends.__getitem__, default="scale-down-delay-after-add")
        wait = Wait(seconds=self.time_left_s or self.config.loop.scan_interval_s)
        return remedy(code, CulpritKind.FLAG, flag, f"something just happened; it may go {wait}", [wait])

    def _stranger(self) -> Remedy:
        text = "it belongs to no node group; it goes by somebody else's hand, or once a group owns it"
        return remedy(Obstacle.NOT_AUTOSCALED, CulpritKind.NODE, self.name, text)

    def _further(self, found: Iterator[Remedy]) -> Iterator[Remedy]:
        """Yield remedies with what else the node's pods would need."""
        needed = to_drain(self.name, self.p, self.config)[0] if self.p.placer is not None else []
        for one in found:
            yield together(needed, one) if one.changes else one

    def _drained(self, kept: UnremovableNode) -> Iterator[Remedy]:
        needed, others = to_drain(self.name, self.p, self.config)
        if needed:
            yield together(needed)
            if len(needed) == 1:
                yield from others
            return
        text = f"{kept.pod or 'a pod'} kept it when the pass looked, and does no more"
        yield next_pass(Obstacle.AWAITS_REMOVAL, f"{text}; it is looked at again", self.p, self.config)

    def _looked_at_again(self, kept: UnremovableNode) -> Iterator[Remedy]:
        """Yield what keeps the node, and when that is looked at again."""
        memory = self.p.remembered.scale_down
        known: RecentlyUnremovable | None = None if memory is None else memory.unremovable.get(self.name)
        left_s = 0.0 if known is None else max(0.0, known.until.mono - self.p.report.now.mono)
        needed, _ = to_drain(self.name, self.p, self.config)
        if needed:
            yield together(needed, until_s=left_s)
            return
        wait = Wait(seconds=left_s)
        flag = "unremovable-node-recheck-timeout"
        text = f"it could not go a while ago ({kept.detail}) and is looked at again {wait}"
        yield remedy(Obstacle.RECENTLY_UNREMOVABLE, CulpritKind.FLAG, flag, text, [wait])

    def _of(self, kept: UnremovableNode) -> Iterator[Remedy]:
        name, group = self.name, self.group
        match kept.reason:
            case UnremovableReason.DISABLED:
                off = Annotate(kind=AnnotatableKind.NODE, name=name, key=SCALE_DOWN_DISABLED, value=None)
                yield remedy(Obstacle.DISABLED, CulpritKind.NODE, name, f"it may go once {off}", [off])
            case UnremovableReason.UNREADY_DISABLED:
                flag = SetFlag(flag="scale-down-unready-enabled", value="true")
                text = f"it is unready; it may go once it is ready, or with {flag}"
                yield remedy(Obstacle.UNREADY_DISABLED, CulpritKind.FLAG, flag.flag, text, [flag])
            case UnremovableReason.NOT_AUTOSCALED:
                yield self._stranger()
            case UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH | UnremovableReason.NOT_UNREADY_LONG_ENOUGH:
                yield from self._unneeded_time(kept)
            case UnremovableReason.MIN_SIZE if group is not None:
                yield from self._minimum(group)
            case UnremovableReason.MAX_DELETIONS:
                yield from self._parallelism()
            case UnremovableReason.ATOMIC if group is not None:
                yield from self._whole(group)
            case UnremovableReason.MINIMAL_RESOURCES if group is not None:
                yield self._scarce(group)
            case UnremovableReason.NOT_UNDERUTILIZED if group is not None:
                yield self._used(kept, group)
            case UnremovableReason.NOT_TRIED:
                count = len(self.p.view.nodes)
                flag = SetFlag(flag="max-scale-down-parallelism", value=str(count))
                text = f"enough nodes were found unneeded before it; it is looked at with {flag}, or later"
                yield remedy(Obstacle.NOT_TRIED, CulpritKind.FLAG, flag.flag, text, [flag])
            case UnremovableReason.ON_COMPLETION:
                now = Annotate(kind=AnnotatableKind.POD, name=kept.pod or "", key=SAFE_TO_EVICT, value=None)
                text = f"pod {kept.pod} is to run to its end; the node goes then, or once {now}"
                yield remedy(Obstacle.ON_COMPLETION, CulpritKind.POD, kept.pod or name, text, [now])
            case UnremovableReason.GROUP_COOLING_DOWN:
                yield self._cooling(Obstacle.GROUP_COOLING_DOWN)
            case UnremovableReason.GROUP_HELD if group is not None:
                option = SetGroupOption(group=group.id, option="scale-down-enabled", value="true")
                text = (
                    f"its group lets no node go, perhaps while machines are replaced; it may go then, or with {option}"
                )
                yield remedy(Obstacle.GROUP_HELD, CulpritKind.GROUP, group.id, text, [option])
            case UnremovableReason.OUTSIDE_WINDOW:
                yield from self._timed(kept, Obstacle.OUTSIDE_WINDOW, "scale-down-window", "the window opens")
            case UnremovableReason.TOO_MANY_A_MINUTE:
                flag_name = "max-node-deletions-per-minute"
                yield from self._timed(kept, Obstacle.TOO_MANY_A_MINUTE, flag_name, "the next removal may begin")
            case _:
                code = Obstacle(kept.reason.value)
                yield remedy(code, CulpritKind.NODE, name, kept.detail or "it goes when what it waits for is done")

    def _unneeded_time(self, kept: UnremovableNode) -> Iterator[Remedy]:
        unready = kept.reason is UnremovableReason.NOT_UNREADY_LONG_ENOUGH
        flag = "scale-down-unready-time" if unready else "scale-down-unneeded-time"
        group = self.group
        own = None
        if group is not None:
            settings = group.settings
            own = settings.scale_down_unready_time_s if unready else settings.scale_down_unneeded_time_s
        kind, name = (CulpritKind.FLAG, flag) if own is None or group is None else (CulpritKind.GROUP, group.id)
        wait = Wait(seconds=self.time_left_s or 0.0)
        code = Obstacle(kept.reason.value)
        yield remedy(code, kind, name, f"{kept.detail}; it may go {wait} if nobody needs it until then", [wait])
        spent_s = max(0.0, (self.removal_wait_s or 0.0) - (kept.time_left_s or 0.0))
        if spent_s > 0:
            value = show_duration(math.floor(spent_s))
            change: AnyChange = SetFlag(flag=flag, value=value)
            if own is not None and group is not None:
                change = SetGroupOption(group=group.id, option=flag, value=value)
            yield remedy(code, kind, name, f"it may go now with {change}", [change])

    @property
    def removal_wait_s(self) -> float | None:
        """How long the node has to be unneeded."""
        memory = self.p.remembered.scale_down
        since: Instant | None = None if memory is None else memory.unneeded.get(self.name)
        if since is None or self.kept is None or self.kept.time_left_s is None:
            return None
        return self.p.report.now.mono - since.mono + self.kept.time_left_s

    def _minimum(self, group: Group) -> Iterator[Remedy]:
        """Yield the minimum at which the node goes after the others of its group that the minimum keeps."""
        kept, owner_of, begun = self.p.report.kept, self.p.view.groups.of_node, self.p.report.deletions
        before = 1 + sum(one.group == group.id for one in (*begun.empty, *begun.drained))
        for node in self.p.view.nodes:
            if node.name == self.name:
                break
            one = kept.get(node.name)
            waits = one is not None and one.reason in (UnremovableReason.MIN_SIZE, UnremovableReason.BEING_DELETED)
            before += waits and owner_of.get(node.name) == group.id
        target = self.p.registry.targets.get(group.id, group.target_size)
        change = ResizeGroup(group=group.id, min=max(0, target - before))
        text = f"the group has {target} nodes, its minimum is {group.min_size}; it may go once {change}"
        yield remedy(Obstacle.MIN_SIZE, CulpritKind.GROUP, group.id, text, [change])

    def _parallelism(self) -> Iterator[Remedy]:
        options, begun = self.config.scale_down, self.p.report.deletions
        drained = self.removal is not None and self.removal.drained
        going = len(begun.empty) + len(begun.drained)
        count = len(self.p.report.unneeded)
        flags = [SetFlag(flag="max-scale-down-parallelism", value=str(max(count, options.max_scale_down_parallelism)))]
        crowded = going >= options.max_scale_down_parallelism
        if drained:
            flags.append(SetFlag(flag="max-drain-parallelism", value=str(max(count, options.max_drain_parallelism))))
        lead = flags[0] if crowded or not drained else flags[-1]
        needed = flags if crowded and drained else [lead]
        text = f"as many nodes as allowed are being removed; it goes after them, or with {spelled(needed)}"
        yield remedy(Obstacle.MAX_DELETIONS, CulpritKind.FLAG, lead.flag, text, needed)
        later = Wait(seconds=self.config.loop.scan_interval_s)
        yield remedy(Obstacle.MAX_DELETIONS, CulpritKind.FLAG, lead.flag, f"it may go {later}", [later])

    def _whole(self, group: Group) -> Iterator[Remedy]:
        """Yield what lets all other nodes of the group go."""
        found: list[Remedy] = []
        for node in self.p.view.nodes:
            one = self.p.report.kept.get(node.name)
            if node.name == self.name or one is None or self.p.view.groups.of_node.get(node.name) != group.id:
                continue
            if one.reason is UnremovableReason.ATOMIC:
                continue
            removal = next((each for each in self.p.report.unneeded if each.node.name == node.name), None)
            other = NodeCase(node.name, removal, one, group, one.time_left_s, self.p, self.config)
            first = next(other.remedies(), None)
            if first is not None:
                found.append(first)
        if found:
            changes = list(dict.fromkeys(change for one in found for change in one.changes))
            text = f"group {group.id} goes as a whole or not at all: {'; '.join(one.text for one in found)}"
            lead = found[0].culprit
            yield remedy(Obstacle.ATOMIC, lead.kind, lead.name, text, changes)
            return
        text = f"group {group.id} goes as a whole or not at all, and some of its machines are not there yet"
        yield remedy(Obstacle.ATOMIC, CulpritKind.GROUP, group.id, text)

    def _scarce(self, group: Group) -> Remedy:
        """Return the minimum of the cluster that does without the node."""
        limits, view = self.config.limits, self.p.view
        node = view.nodes[view.positions[self.name]]
        has = dict(contribution(node, group, view.groups.gpu_label, gpu_resources(self.config.rules)).shares())
        scarce = self._reserve().scarce_without(node, group) or CORES
        least = max(0, bounds(limits)[scarce].min - (has.get(scarce) or 0))
        if scarce == CORES:
            change = SetFlag(flag="cores-total", value=f"{least}:{limits.cores_total.max}")
        elif scarce == MEMORY:
            change = SetFlag(flag="memory-total", value=f"{least // _GIB}:{limits.memory_total.max}")
        else:
            fewest = {one.gpu_type: one.min for one in limits.gpu_total} | {scarce: least}
            values = [f"{one.gpu_type}:{fewest[one.gpu_type]}:{one.max}" for one in limits.gpu_total]
            change = SetFlag(flag="gpu-total", value=values)
        text = f"too little {scarce} would remain; it may go with {change}"
        return remedy(Obstacle.MINIMAL_RESOURCES, CulpritKind.FLAG, change.flag, text, [change])

    def _reserve(self) -> Reserve:
        """Return what the cluster may still lose, removals that have begun taken off."""
        p, config = self.p, self.config
        assert p.placer is not None
        situation = ScaleDownContext(
            now=p.report.now,
            groups=p.view.groups,
            readings=p.registry.readings,
            options=config.scale_down,
            drain=config.drain,
            limits=config.limits,
            rules=config.rules,
        )
        reserve = Reserve(p.placer.trial, situation)
        for one in (*p.report.deletions.empty, *p.report.deletions.drained):
            owner = p.view.groups.get(one.group)
            if owner is not None and reserve.scarce_without(one.node, owner) is None:
                reserve.take(one.node, owner)
        return reserve

    def _used(self, kept: UnremovableNode, group: Group) -> Remedy:
        view = self.p.view
        node = view.nodes[view.positions[self.name]]
        gpu = has_gpu(node, view.groups.gpu_label, gpu_resources(self.config.rules))
        settings = group.settings
        own = settings.scale_down_gpu_utilization_threshold if gpu else settings.scale_down_utilization_threshold
        flag = f"scale-down-{'gpu-' if gpu else ''}utilization-threshold"
        enough = math.floor((kept.utilization or 0.0) * 100 + 1) / 100
        if own is not None:
            change: AnyChange = SetGroupOption(group=group.id, option=flag, value=enough)
            text = f"{kept.detail}; it is looked at with less on it, or once {change}"
            return remedy(Obstacle.NOT_UNDERUTILIZED, CulpritKind.GROUP, group.id, text, [change])
        change = SetFlag(flag=flag, value=f"{enough:g}")
        text = f"{kept.detail}; it is looked at with less on it, or with {change}"
        return remedy(Obstacle.NOT_UNDERUTILIZED, CulpritKind.FLAG, flag, text, [change])

    def _timed(self, kept: UnremovableNode, code: Obstacle, flag: str, what: str) -> Iterator[Remedy]:
        wait = Wait(seconds=kept.time_left_s or 0.0)
        yield remedy(code, CulpritKind.FLAG, flag, f"{what} {wait}", [wait])
