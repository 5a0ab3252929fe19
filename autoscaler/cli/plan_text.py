"""Prints `plan` for people."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from autoscaler.cli.table import Block, Style, Styled, Table
from autoscaler.observe.cost import money
from autoscaler.observe.figures import count, duration, first_names, with_detail
from autoscaler.observe.status import PodState, Tone
from autoscaler.reasons import ReplacementStage
from autoscaler.scenario.from_dump import Imported
from autoscaler.scenario.inference import InferredGroup
from autoscaler.simulator.answer import (
    Cost,
    HeldPods,
    PlanAnswer,
    ReplacementAnswer,
    RunAnswer,
    StayingNode,
    StuckPods,
    UnneededNode,
)

_TONES = {Tone.GOOD: Style.FINE, Tone.BUSY: Style.BOLD, Tone.BAD: Style.BAD}
_GANG_STYLES = {PodState.ON_ITS_WAY: Style.FINE, PodState.WAITING: Style.WARNING, PodState.STUCK: Style.BAD}
_NODES_SHOWN = 20
"""If more nodes than this stay for one reason, only some are named."""


def plan_text(answer: PlanAnswer, *, wide: bool) -> Iterator[Block]:
    """Yield the text of an answer. `wide` names every node, and says why each group rejects each pod."""
    shown: dict[str, tuple[int, Table]] = {}
    for run_ in answer.runs:
        if run_.run:
            yield ""
        yield _headline(answer.name, run_)
        parts = (_without(run_, wide=wide), [_gangs(run_)], _purchases(run_), _waiting(run_), _nodes(run_, wide=wide))
        for table in (table for part in parts for table in part):
            if not table.rows:
                continue
            yield ""
            number, last = shown.get(table.title, (0, None))
            if table == last:
                yield Styled(f"{table.title} (as in run {number})", Style.BOLD)
            else:
                shown[table.title] = run_.run, table
                yield table
        if run_.cost is not None:
            yield ""
            yield _cost(run_.cost)


def import_notes(imported: Imported) -> Iterator[Block]:
    """Yield problems of a dump, the groups inferred from its nodes, and what is unknown."""
    for warning in imported.warnings:
        yield f"warning: {warning}"
    if imported.inference is not None and imported.inference.groups:
        yield "Node groups, derived from the nodes (a --groups file overrides them):"
        yield _inference(imported.inference.groups)
        yield "Groups without nodes are not visible."


def _inference(groups: Sequence[InferredGroup]) -> Table:
    rows = [
        (group.id, group.nodes, group.min_size, group.max_size, group.label, ", ".join(group.unknown))
        for group in groups
    ]
    return Table(("GROUP", "NODES", "MIN", "MAX", "TOLD BY", "NOT KNOWN"), rows)


def _headline(name: str, run_: RunAnswer) -> Styled:
    begin = f"{name}, run {run_.run} at {run_.at}"
    if run_.headline is None:
        return Styled(begin, Style.BOLD)
    return Styled(f"{begin}: {run_.headline.text}", _TONES[run_.headline.tone])


class _Without(msgspec.Struct, frozen=True):
    """Pods of one workload that get no node."""

    workload: str
    pods: int
    reason: str
    cause: str
    fix: str
    waits: bool = False
    """Whether the pods only need time."""

    def row(self) -> tuple[object, ...]:
        """Return the row of the table."""
        style = Style.WARNING if self.waits else Style.BAD
        return self.workload, self.pods, Styled(self.reason, style), self.cause, self.fix


def _without(run_: RunAnswer, *, wide: bool) -> Iterator[Table]:
    """Yield the pods that get no node, one row per workload: first those that need a person, then the others."""
    reasons = run_.reasons
    by_workload: dict[str, list[StuckPods]] = defaultdict(list)
    for part in reasons.unschedulable:
        by_workload[part.owner or first_names(part.pods)].append(part)
    without = [_stuck(name, parts) for name, parts in by_workload.items()]
    without += [_held(name, pods, held) for held in reasons.held for name, pods in held.owners.items()]
    without.sort(key=lambda part: (-part.pods, part.workload))
    heads = ("WORKLOAD", "PODS", "REASON", "CAUSE", "FIX")
    yield Table(heads, [part.row() for part in without if not part.waits], "Stuck pods")
    if wide:
        yield Table(
            ("WORKLOAD", "PODS", "GROUP", "REASON", "WHY"),
            [
                (name, len(part.pods), group, rejection.reason, with_detail(rejection.message, rejection.detail))
                for name, parts in by_workload.items()
                for part in parts
                for group, rejections in part.rejected.items()
                for rejection in rejections
            ],
            "What each group has against stuck pods",
        )
    yield Table(heads, [part.row() for part in without if part.waits], "Pods that get no node yet")


def _stuck(workload: str, parts: Sequence[StuckPods]) -> _Without:
    """Return the row of pods that no group takes; it shows the advice of the largest class that has any."""
    pods = sum(len(part.pods) for part in parts)
    largest = max(parts, key=lambda part: (part.advice is not None, len(part.pods)))
    advice = largest.advice
    if advice is None:
        reasons = dict.fromkeys(
            rejection.reason for rejections in largest.rejected.values() for rejection in rejections
        )
        return _Without(workload, pods, ", ".join(reasons), "", f"--explain pod/{largest.pods[0]} tells")
    return _Without(workload, pods, advice.code, advice.cause, advice.fix, advice.waits)


def _held(workload: str, pods: int, held: HeldPods) -> _Without:
    advice = held.advice
    if advice is None:
        return _Without(workload, pods, held.reason, held.detail, "", waits=True)
    return _Without(workload, pods, advice.code, advice.cause, advice.fix, advice.waits)


def _gangs(run_: RunAnswer) -> Table:
    return Table(
        ("GANG", "STATE", "FIGURES", "NEW NODES", "PER HOUR"),
        [
            (
                gang.gang,
                Styled(gang.state, _GANG_STYLES[gang.state]),
                gang.detail,
                ", ".join(f"{number} of {group}" for group, number in gang.nodes.items()),
                "" if gang.node_price is None else money(gang.node_price),
            )
            for gang in run_.gangs
        ],
        "Gangs that wait",
    )


def _purchases(run_: RunAnswer) -> Iterator[Table]:
    yield Table(
        ("GROUP", "CHANGE", "TARGET"),
        [
            (change.group, f"{change.increase:+d}", run_.target_sizes[change.group])
            for change in (*run_.scale_ups, *run_.target_decreases)
        ],
        "Node groups whose size changes",
    )
    yield Table(
        ("GROUP", "WHY"), [(chosen.group, chosen.why) for chosen in run_.reasons.preferred], "Groups that pods prefer"
    )
    pods: dict[str, int] = defaultdict(int)
    groups: dict[str, dict[str, None]] = defaultdict(dict)
    for helped in run_.reasons.helped:  # in one round or in several
        name = helped.owner or first_names(helped.pods)
        pods[name] += len(helped.pods)
        groups[name] |= dict.fromkeys(helped.groups)
    yield Table(
        ("WORKLOAD", "PODS", "GROUPS"),
        [(name, number, ", ".join(groups[name])) for name, number in pods.items()],
        "Pods that get new nodes",
    )


def _waiting(run_: RunAnswer) -> Iterator[Table]:
    reasons = run_.reasons
    yield Table(
        ("WORKLOAD", "PODS", "REASON"),
        [(first_names(waiting.owners), len(waiting.pods), waiting.reason) for waiting in reasons.waiting],
        "Pending pods that need no new node",
    )
    yield Table(
        ("GROUP", "REASON", "WHY"),
        [
            (skipped.group, skipped.reason, with_detail(skipped.message, skipped.detail))
            for skipped in reasons.skipped_groups
        ],
        "Skipped node groups",
    )
    yield Table(
        ("OBJECT", "CONDITION", "REASON", "MESSAGE"),
        [
            (f"{made.kind} {made.object}", f"{made.type}={made.status}", made.reason, made.message)
            for made in run_.conditions_set
        ],
        "Conditions set",
    )


def _nodes(run_: RunAnswer, *, wide: bool) -> Iterator[Table]:
    """Yield the tables of nodes; each node is in one table only."""
    replaced = {node for replacement in run_.replacements for node in replacement.nodes}
    leaving = sorted((*run_.deleted_empty, *run_.deleted_drain), key=lambda removal: removal.node)
    gone = {removal.node for removal in leaving}
    unneeded = [node for node in run_.reasons.unneeded if node.node not in gone | replaced]
    elsewhere = gone | replaced | {node.node for node in unneeded}
    staying = {name: node for name, node in run_.unremovable.items() if name not in elsewhere}
    yield _replacements(run_.replacements)
    yield Table(
        ("NODE", "GROUP", "PODS TO MOVE"),
        [(removal.node, removal.group, len(removal.evicted_pods)) for removal in leaving],
        "Nodes being removed",
    )
    yield Table(
        ("MACHINE", "GROUP"),
        [(delete.id, delete.group) for delete in run_.reasons.other_deletes],
        "Machines deleted",
    )
    yield Table(
        ("NODE", "GROUP", "USED", "UNNEEDED FOR", "MAY GO", "PODS TO MOVE"),
        [_unneeded(node, run_.at) for node in unneeded],
        "Unneeded nodes",
    )
    most = len(staying) if wide else _NODES_SHOWN
    yield Table(("NODE", "REASON", "WHY"), list(_staying(staying, most)), "Nodes that stay")


def _replacements(replacements: Sequence[ReplacementAnswer]) -> Table:
    going = [replacement for replacement in replacements if replacement.stage is not ReplacementStage.ABANDONED]
    old = sum(len(replacement.nodes) for replacement in going)
    new = sum(sum(replacement.bought.values()) for replacement in going)
    saving = sum(
        replacement.price_before - replacement.price_after
        for replacement in going
        if replacement.price_before is not None and replacement.price_after is not None
    )
    title = f"{count(new, 'node')} {'replaces' if new == 1 else 'replace'} {old:,}" if new else "Nodes to replace"
    if round(saving, 6):
        title += f", {'saves' if saving > 0 else 'costs'} {abs(saving):g}/h"
    return Table(
        ("NODES", "TRIGGER", "STAGE", "NEW NODES", "WAITS FOR"),
        [
            (
                ", ".join(replacement.nodes),
                replacement.trigger,
                replacement.stage,
                ", ".join(f"{number} of {group}" for group, number in replacement.bought.items()),
                "" if replacement.hold is None else with_detail(replacement.hold, replacement.detail),
            )
            for replacement in replacements
        ],
        title,
    )


def _unneeded(node: UnneededNode, at: str) -> tuple[object, ...]:
    unneeded_s = (datetime.fromisoformat(at) - datetime.fromisoformat(node.since)).total_seconds()
    used = "" if node.utilization is None else f"{node.utilization:.0%}"
    may_go = "now" if node.time_left_s is None else f"in {duration(node.time_left_s)}"
    unneeded = duration(unneeded_s) if unneeded_s >= 1 else "0 s"
    return node.node, node.group, used, unneeded, may_go, len(node.pods_to_move)


def _staying(nodes: Mapping[str, StayingNode], most: int) -> Iterator[tuple[object, ...]]:
    """Yield a row for each node; if many nodes stay for one reason, they share a row."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, node in nodes.items():
        by_reason[node.reason].append(name)
    for reason, names in by_reason.items():
        if len(names) > most:
            yield f"{len(names)} nodes", reason, "-o wide names them"
        else:
            yield from ((name, reason, with_detail(nodes[name].detail, nodes[name].pod or "")) for name in names)


def _cost(cost: Cost) -> str:
    line = f"Cost per hour: {cost.per_hour_before:g} before, {cost.per_hour_after:g} after"
    return f"{line}; no price for {', '.join(cost.unpriced_groups)}" if cost.unpriced_groups else line
