"""The options of a scale-up, and how each expander of the chain rated them."""

from collections.abc import Callable, Iterator

from autoscaler.explain.answer import Offer, Score
from autoscaler.scaleup.option import Option
from autoscaler.scaleup.plan import Round, ScaleUpPlan


def offers(plan: ScaleUpPlan | None, wanted: Callable[[Option], bool]) -> list[Offer]:
    """Return the options that `wanted` accepts, in the order of the rounds."""
    return [
        _offer(number, round_, option)
        for number, round_ in enumerate(() if plan is None else plan.rounds)
        for option in round_.options
        if wanted(option)
    ]


def _offer(number: int, round_: Round, option: Option) -> Offer:
    return Offer(
        round=number,
        group=option.group.id,
        nodes=option.nodes,
        pods=len(option.pods),
        similar_groups=sorted(option.similar),
        scores=list(_scores(round_, option.group.id)),
        chosen=round_.chosen is not None and round_.chosen.group.id == option.group.id,
    )


def _scores(round_: Round, group_id: str) -> Iterator[Score]:
    for step in round_.steps:
        kept = group_id in step.kept
        preference = step.preference
        why = preference.text if preference is not None and preference.group == group_id else ""
        yield Score(expander=step.expander, score=step.scores.get(group_id), kept=kept, why=why)
        if not kept:
            return
