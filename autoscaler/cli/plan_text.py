"""Prints `plan` for people."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from autoscaler.cli import output
from autoscaler.observe.figures import count
from autoscaler.scenario.from_dump import Imported
from autoscaler.scenario.inference import InferredGroup
from autoscaler.simulator.answer import Cost, PlanAnswer, RunAnswer, StayingNode, UnneededNode

_SERVED = ("Successful", "NotNeeded")
"""Results of a scale-up that leave no pod without a node: those of ProvisioningRequests have found room."""
_NAMES_SHOWN = 3
_NODES_SHOWN = 20
"""Of more nodes that stay for one reason only some are named."""


def plan_text(answer: PlanAnswer) -> Iterator[str]:
    """Yield the lines of an answer."""
    for run_ in answer.runs:
        yield f"{answer.name}, run {run_.run} at {run_.at}: {_headline(run_)}"
        for title, header, rows in _tables(run_):
            if rows:
                yield f"\n{title}"
                yield output.to_table(header, rows)
        if run_.cost is not None:
            yield f"\n{_cost(run_.cost)}"
        yield ""


def import_notes(imported: Imported) -> Iterator[str]:
    """Yield the lines that say what was odd about a dump, which groups its nodes tell of, and what is not known."""
    for warning in imported.warnings:
        yield f"warning: {warning}"
    if imported.inference is not None:
        yield from _inference(imported.inference.groups)


def _inference(groups: Sequence[InferredGroup]) -> Iterator[str]:
    if not groups:
        return
    yield "Node groups, derived from the nodes (a --groups file overrides them):"
    rows = [
        (group.id, group.nodes, group.min_size, group.max_size, group.label, ", ".join(group.unknown))
        for group in groups
    ]
    yield output.to_table(("GROUP", "NODES", "MIN", "MAX", "TOLD BY", "NOT KNOWN"), rows)
    yield "Groups without nodes are not visible."


def _headline(run_: RunAnswer) -> str:
    if run_.error or run_.scale_up_error:
        return f"failed: {run_.error or run_.scale_up_error}"
    bought = sum(change.increase for change in run_.scale_ups)
    if bought:
        return f"{count(bought, 'new node')} for {count(len(run_.pods_triggered_scale_up), 'pod')}"
    if run_.end != "Complete":
        return f"the pass ended early: {run_.end}"
    left = len(run_.pods_needing_scale_up)
    if left and run_.scale_up_result not in _SERVED:
        return f"no new nodes, {count(left, 'pod')} without one: {run_.scale_up_result}"
    gone = len(run_.deleted_empty) + len(run_.deleted_drain)
    if gone:
        return f"{count(gone, 'node')} removed"
    unneeded = len(run_.unneeded_nodes)
    return f"no new nodes needed, {count(unneeded, 'node')} unneeded" if unneeded else "no new nodes needed"


def _tables(run_: RunAnswer) -> Iterator[tuple[str, Sequence[str], list[tuple[object, ...]]]]:
    reasons = run_.reasons
    yield (
        "Node groups whose size changes",
        ("GROUP", "CHANGE", "TARGET"),
        [
            (change.group, f"{change.increase:+d}", run_.target_sizes[change.group])
            for change in (*run_.scale_ups, *run_.target_decreases)
        ],
    )
    yield (
        "Machines deleted",
        ("GROUP", "ID"),
        [(delete.group, delete.id) for delete in run_.cloud_deletes],
    )
    yield (
        "Pods that get new nodes",
        ("PODS", "COUNT", "GROUP"),
        [(_names(helped.owner, helped.pods), len(helped.pods), ", ".join(helped.groups)) for helped in reasons.helped],
    )
    yield (
        "Pods that no new node would take",
        ("PODS", "COUNT", "GROUP", "REASON", "WHY"),
        [
            (
                _names(stuck.owner, stuck.pods),
                len(stuck.pods),
                group,
                rejection.reason,
                _why(rejection.message, rejection.detail),
            )
            for stuck in reasons.unschedulable
            for group, rejections in stuck.rejected.items()
            for rejection in rejections
        ],
    )
    yield (
        "Pods that get no node now",
        ("PODS", "COUNT", "REASON", "WHY"),
        [(_names("", held.pods), len(held.pods), held.reason, held.detail) for held in reasons.held],
    )
    yield (
        "Pending pods that need no new node",
        ("PODS", "COUNT", "REASON"),
        [(_names("", waiting.pods), len(waiting.pods), waiting.reason) for waiting in reasons.waiting],
    )
    yield (
        "Skipped node groups",
        ("GROUP", "REASON", "WHY"),
        [(skipped.group, skipped.reason, _why(skipped.message, skipped.detail)) for skipped in reasons.skipped_groups],
    )
    yield (
        "Conditions set",
        ("OBJECT", "CONDITION", "REASON", "MESSAGE"),
        [
            (
                f"{condition.kind} {condition.object}",
                f"{condition.type}={condition.status}",
                condition.reason,
                condition.message,
            )
            for condition in run_.conditions_set
        ],
    )
    yield (
        "Nodes being removed",
        ("NODE", "GROUP", "PODS TO MOVE"),
        [
            (removal.node, removal.group, len(removal.evicted_pods))
            for removal in sorted((*run_.deleted_empty, *run_.deleted_drain), key=lambda removal: removal.node)
        ],
    )
    yield (
        "Unneeded nodes",
        ("NODE", "GROUP", "USED", "UNNEEDED SINCE", "MAY GO", "PODS TO MOVE"),
        [
            (node.node, node.group, _share(node.utilization), node.since, _may_go(node), len(node.pods_to_move))
            for node in reasons.unneeded
        ],
    )
    yield (
        "Nodes that stay",
        ("NODE", "REASON", "WHY"),
        list(_staying(run_.unremovable)),
    )


def _staying(nodes: Mapping[str, StayingNode]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each node or, of many that stay for one reason, a single one."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, node in nodes.items():
        by_reason[node.reason].append(name)
    for reason, names in by_reason.items():
        if len(names) > _NODES_SHOWN:
            yield _names("", names), reason, f"{len(names)} nodes; --explain node/NAME says more"
        else:
            yield from ((name, reason, _why(nodes[name].detail, nodes[name].pod or "")) for name in names)


def _cost(cost: Cost) -> str:
    line = f"Cost per hour: {cost.per_hour_before:g} before, {cost.per_hour_after:g} after"
    return f"{line}; no price for {', '.join(cost.unpriced_groups)}" if cost.unpriced_groups else line


def _share(utilization: float | None) -> str:
    return "" if utilization is None else f"{utilization:.0%}"


def _may_go(node: UnneededNode) -> str:
    return "now" if node.time_left_s is None else f"in {node.time_left_s:.0f} s"


def _why(message: str, detail: str) -> str:
    return f"{message} ({detail})" if detail else message


def _names(owner: str, pods: Sequence[str]) -> str:
    """Name pods by their owner, else the first few of them."""
    if owner:
        return owner
    more = len(pods) - _NAMES_SHOWN
    return ", ".join(pods[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
