"""Prints `plan --explain` for people."""

from collections.abc import Iterator, Sequence

from autoscaler.cli import output
from autoscaler.explain.answer import (
    ExplainedReplacement,
    GroupExplanation,
    GroupFate,
    GroupSet,
    NodeExplanation,
    NodeSet,
    Offer,
    PlanExplanation,
    PodExplanation,
    Score,
)
from autoscaler.reasons import Rejection

_GROUPS_SHOWN = 3
_SETS_SHOWN = 20
Row = tuple[object, ...]


def explanation_text(explanation: PlanExplanation) -> Iterator[str]:
    """Yield the lines of an explanation."""
    for one in explanation.explained:
        yield f"{explanation.name}, run {explanation.run} at {explanation.at}: {one.target}: {one.verdict}"
        yield one.message
        if one.remedy is not None:
            yield f"what would change it: {one.remedy.text}"
        for other in one.alternatives:
            yield f"or: {other.text}"
        match one:
            case PodExplanation():
                yield from _pod(one)
            case NodeExplanation():
                yield from _node(one)
            case GroupExplanation():
                yield from _group(one)
        yield ""


def _pod(pod: PodExplanation) -> Iterator[str]:
    if pod.scheduler_message:
        yield f"the scheduler says: {pod.scheduler_message}"
    if pod.requests:
        yield "requests " + ", ".join(f"{name} {amount}" for name, amount in pod.requests.items())
    yield from _table(
        "Nodes, nearest miss first",
        ("COUNT", "NODES", "REASON", "WHY"),
        [_node_set(one) for one in pod.nodes],
    )
    yield from _table(
        "Node groups, nearest miss first",
        ("COUNT", "GROUPS", "OUTCOME", "REASON", "WHY"),
        [_group_set(one) for one in pod.groups],
    )
    yield from _offers(pod.offers)


def _node_set(one: NodeSet) -> list[Row]:
    names = _names(one.examples, one.count)
    if one.upcoming:
        names += f" ({one.upcoming} upcoming)"
    whys: list[Row] = [_why(each) for each in one.rejections] or [("", "would take it")]
    return [((one.count, names) if number == 0 else ("", "")) + why for number, why in enumerate(whys)]


def _group_set(one: GroupSet) -> list[Row]:
    whys: list[Row] = [_why(each) for each in one.rejections]
    if one.skipped is not None:
        whys.insert(0, (one.skipped.reason, _sentence(one.skipped.message, one.skipped.detail)))
    first = (len(one.groups), _names(one.groups[:_GROUPS_SHOWN], len(one.groups)), one.fate)
    return [
        (first if number == 0 else ("", "", "")) + why for number, why in enumerate(whys or [("", _fate(one.fate))])
    ]


def _fate(fate: GroupFate) -> str:
    match fate:
        case GroupFate.GROWS:
            return "grows for it"
        case GroupFate.OFFERED:
            return "a new node would take it; not chosen, or not available"
        case _:
            return "a new node would take it"


def _node(node: NodeExplanation) -> Iterator[str]:
    keeper = "" if node.pod is None else f"{node.pod} ({node.pod_reason})" if node.pod_reason else node.pod
    facts = (
        ("group", node.group or "none"),
        ("state", node.state),
        ("utilization", "" if node.utilization is None else f"{node.utilization:.0%}"),
        ("unneeded since", node.unneeded_since or ""),
        ("stays because", "" if node.reason is None else _sentence(node.reason, node.detail)),
        ("kept by pod", keeper),
        ("time left", "" if node.time_left_s is None else f"{node.time_left_s:.0f}s"),
        ("pods to move", _names(node.pods_to_move[:_GROUPS_SHOWN], len(node.pods_to_move))),
        ("replacement", "" if node.replacement is None else _replacement(node.replacement)),
        ("scale-down", node.scale_down_result),
    )
    yield output.to_table(("", ""), [(f"  {name}", fact) for name, fact in facts if fact]).lstrip("\n")


def _replacement(one: ExplainedReplacement) -> str:
    parts = [one.stage.value if one.trigger is None else f"{one.stage} ({one.trigger})"]
    if one.bought:
        parts.append("bought " + ", ".join(f"{count} of {group}" for group, count in one.bought.items()))
    if one.hold is not None:
        parts.append(_sentence(one.hold, one.detail))
    if one.left_s:
        parts.append(f"tried again in {one.left_s:.0f}s")
    if one.price_before is not None and one.price_after is not None:
        parts.append(f"price per hour {one.price_before:g} -> {one.price_after:g}")
    return "; ".join(parts)


def _group(group: GroupExplanation) -> Iterator[str]:
    sizes, pause = group.sizes, group.backoff
    states = {
        "ready": sizes.ready,
        "not started": sizes.not_started,
        "unready": sizes.unready,
        "being deleted": sizes.being_deleted,
        "unregistered": sizes.unregistered,
        "upcoming": sizes.upcoming,
    }
    facts = (
        ("size", f"{sizes.target}, at least {sizes.min}, at most {sizes.max}"),
        ("nodes", ", ".join(f"{count} {state}" for state, count in states.items() if count) or "none"),
        ("healthy", {None: "", True: "yes", False: "no"}[group.healthy]),
        ("backoff", "" if pause is None else f"until {pause.until}, {pause.left_s:.0f}s left: {pause.message}"),
        ("template", "none" if group.template_source is None else f"from {group.template_source}"),
        ("template fault", group.template_fault),
        ("error", group.error),
    )
    yield output.to_table(("", ""), [(f"  {name}", fact) for name, fact in facts if fact]).lstrip("\n")
    yield from _offers(sorted((*group.offers, *group.rivals), key=lambda one: one.round))
    yield from _table(
        "Pods that a new node would not take",
        ("PODS", "COUNT", "REASON", "WHY"),
        [
            [(one.owner or _names(one.examples, one.count), one.count, *_why(each)) for each in one.rejections]
            for one in group.rejected
        ],
    )


def _offers(offers: Sequence[Offer]) -> Iterator[str]:
    yield from _table(
        "Offers",
        ("ROUND", "GROUP", "NODES", "PODS", "CHOSEN", "EXPANDERS", "SIMILAR GROUPS"),
        [[_offer(one)] for one in offers],
    )


def _offer(one: Offer) -> Row:
    rated = ", ".join(map(_rated, one.scores))
    chosen = "yes" if one.chosen else "no"
    return one.round, one.group, one.nodes, one.pods, chosen, rated, ", ".join(one.similar_groups)


def _rated(score: Score) -> str:
    figure = "" if score.score is None else f" {score.score:.4g}"
    return f"{score.expander}{figure}{'' if score.kept else ' (dropped)'}"


def _table(title: str, header: Sequence[str], sets: Sequence[Sequence[Row]]) -> Iterator[str]:
    if sets:
        yield f"\n{title}"
        yield output.to_table(header, [row for rows in sets[:_SETS_SHOWN] for row in rows])
        if len(sets) > _SETS_SHOWN:
            yield f"and {len(sets) - _SETS_SHOWN} more, less near; -o json has them all"


def _why(rejection: Rejection) -> tuple[str, str]:
    return rejection.reason, _sentence(rejection.message, rejection.detail)


def _sentence(message: str, detail: str) -> str:
    return f"{message} ({detail})" if detail and detail != message else message


def _names(names: Sequence[str], count: int) -> str:
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
