"""Prints `plan --explain` for people."""

from collections.abc import Iterator, Sequence

from autoscaler.cli.table import Block, Style, Styled, Table
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
from autoscaler.observe.figures import first_names, with_detail
from autoscaler.reasons import Rejection

_SETS_SHOWN = 20
Row = tuple[object, ...]


def explanation_text(explanation: PlanExplanation) -> Iterator[Block]:
    """Yield the lines of an explanation."""
    for number, answer in enumerate(explanation.explained):
        if number:
            yield ""
        begin = f"{explanation.name}, run {explanation.run} at {explanation.at}"
        yield Styled(f"{begin}: {answer.target}: {answer.verdict}", Style.BOLD)
        yield answer.message
        if answer.remedy is not None:
            yield f"what would change it: {answer.remedy.text}"
        for other in answer.alternatives:
            yield f"or: {other.text}"
        match answer:
            case PodExplanation():
                yield from _pod(answer)
            case NodeExplanation():
                yield from _node(answer)
            case GroupExplanation():
                yield from _group(answer)


def _pod(pod: PodExplanation) -> Iterator[Block]:
    if pod.scheduler_message:
        yield f"the scheduler says: {pod.scheduler_message}"
    if pod.requests:
        yield "requests " + ", ".join(f"{name} {amount}" for name, amount in pod.requests.items())
    yield from _table(
        "Nodes, nearest miss first",
        ("COUNT", "NODES", "REASON", "WHY"),
        [_node_set(node_set) for node_set in pod.nodes],
    )
    yield from _table(
        "Node groups, nearest miss first",
        ("COUNT", "GROUPS", "OUTCOME", "REASON", "WHY"),
        [_group_set(group_set) for group_set in pod.groups],
    )
    yield from _offers(pod.offers)


def _node_set(node_set: NodeSet) -> list[Row]:
    names = first_names(node_set.examples, node_set.count, 1)
    if node_set.upcoming:
        names += f" ({node_set.upcoming} upcoming)"
    whys: list[Row] = [_why(rejection) for rejection in node_set.rejections] or [("", "would take it")]
    return [((node_set.count, names) if number == 0 else ("", "")) + why for number, why in enumerate(whys)]


def _group_set(group_set: GroupSet) -> list[Row]:
    whys: list[Row] = [_why(rejection) for rejection in group_set.rejections]
    if group_set.skipped is not None:
        whys.insert(0, (group_set.skipped.reason, with_detail(group_set.skipped.message, group_set.skipped.detail)))
    first = (len(group_set.groups), first_names(group_set.groups), group_set.fate)
    return [
        (first if number == 0 else ("", "", "")) + why
        for number, why in enumerate(whys or [("", _fate(group_set.fate))])
    ]


def _fate(fate: GroupFate) -> str:
    match fate:
        case GroupFate.GROWS:
            return "grows for it"
        case GroupFate.OFFERED:
            return "a new node would take it; not chosen, or not available"
        case _:
            return "a new node would take it"


def _node(node: NodeExplanation) -> Iterator[Block]:
    keeper = "" if node.pod is None else f"{node.pod} ({node.pod_reason})" if node.pod_reason else node.pod
    facts = (
        ("group", node.group or "none"),
        ("state", node.state),
        ("utilization", "" if node.utilization is None else f"{node.utilization:.0%}"),
        ("unneeded since", node.unneeded_since or ""),
        ("stays because", "" if node.reason is None else with_detail(node.reason, node.detail)),
        ("kept by pod", keeper),
        ("time left", "" if node.time_left_s is None else f"{node.time_left_s:.0f}s"),
        ("pods to move", first_names(node.pods_to_move)),
        ("replacement", "" if node.replacement is None else _replacement(node.replacement)),
        ("scale-down", node.scale_down_result),
    )
    yield Table((), [(f"  {name}", fact) for name, fact in facts if fact])


def _replacement(replacement: ExplainedReplacement) -> str:
    parts = [replacement.stage.value if replacement.trigger is None else f"{replacement.stage} ({replacement.trigger})"]
    if replacement.bought:
        parts.append("bought " + ", ".join(f"{count} of {group}" for group, count in replacement.bought.items()))
    if replacement.hold is not None:
        parts.append(with_detail(replacement.hold, replacement.detail))
    if replacement.left_s:
        parts.append(f"tried again in {replacement.left_s:.0f}s")
    if replacement.price_before is not None and replacement.price_after is not None:
        parts.append(f"price per hour {replacement.price_before:g} -> {replacement.price_after:g}")
    return "; ".join(parts)


def _group(group: GroupExplanation) -> Iterator[Block]:
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
    yield Table((), [(f"  {name}", fact) for name, fact in facts if fact])
    yield from _offers(sorted((*group.offers, *group.rivals), key=lambda offer: offer.round))
    yield from _table(
        "Pods that a new node would not take",
        ("PODS", "COUNT", "REASON", "WHY"),
        [
            [
                ((pods.owner or first_names(pods.examples, pods.count), pods.count) if number == 0 else ("", ""))
                + _why(rejection)
                for number, rejection in enumerate(pods.rejections)
            ]
            for pods in group.rejected
        ],
    )


def _offers(offers: Sequence[Offer]) -> Iterator[Block]:
    yield from _table(
        "Offers",
        ("ROUND", "GROUP", "NODES", "PODS", "CHOSEN", "EXPANDERS", "SIMILAR GROUPS"),
        [[_offer(offer)] for offer in offers],
    )


def _offer(offer: Offer) -> Row:
    rated = ", ".join(map(_rated, offer.scores))
    chosen = "yes" if offer.chosen else "no"
    return offer.round, offer.group, offer.nodes, offer.pods, chosen, rated, ", ".join(offer.similar_groups)


def _rated(score: Score) -> str:
    figure = "" if score.score is None else f" {score.score:.4g}"
    why = score.why if score.kept else "dropped"
    return f"{score.expander}{figure}{f' ({why})' if why else ''}"


def _table(title: str, header: Sequence[str], sets: Sequence[Sequence[Row]]) -> Iterator[Block]:
    if sets:
        yield ""
        yield Table(header, [row for rows in sets[:_SETS_SHOWN] for row in rows], title)
        if len(sets) > _SETS_SHOWN:
            yield f"and {len(sets) - _SETS_SHOWN} more, less near; -o json has them all"


def _why(rejection: Rejection) -> tuple[str, str]:
    return rejection.reason, with_detail(rejection.message, rejection.detail)
