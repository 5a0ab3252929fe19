"""Prints `plan --compare` for people: one column per variant."""

from collections.abc import Callable, Iterator

from autoscaler.cli.table import Block, Style, Styled, Table
from autoscaler.observe.figures import count
from autoscaler.simulator.answer import PlanAnswer
from autoscaler.simulator.comparison import Comparison

_ROWS: tuple[tuple[str, Callable[[PlanAnswer], object]], ...] = (
    ("nodes bought", lambda answer: sum(change.increase for run in answer.runs for change in run.scale_ups)),
    ("pods helped", lambda answer: len({pod for run in answer.runs for pod in run.pods_triggered_scale_up})),
    ("pods no node takes", lambda answer: len(answer.runs[-1].pods_remain_unschedulable)),
    ("nodes unneeded", lambda answer: len(answer.runs[-1].unneeded_nodes)),
    ("nodes removed", lambda answer: sum(len(run.deleted_empty) + len(run.deleted_drain) for run in answer.runs)),
    ("cost per hour before", lambda answer: _cost(answer, after=False)),
    ("cost per hour after", lambda answer: _cost(answer, after=True)),
)


def comparison_text(comparison: Comparison) -> Iterator[Block]:
    """Yield the lines of a comparison."""
    answers = [compared.answer for compared in comparison.compared]
    yield Styled(f"{comparison.name}: {len(answers)} plans of {count(len(answers[0].runs), 'run')} each", Style.BOLD)
    rows: list[list[object]] = [[title, *map(figure, answers)] for title, figure in _ROWS]
    groups = sorted({group for answer in answers for group in answer.runs[-1].target_sizes})
    bought = {group: [_bought(answer, group) for answer in answers] for group in groups}
    rows.extend([f"  from {group}", *counts] for group, counts in bought.items() if any(counts))
    yield Table(["FIGURE", *(compared.variant for compared in comparison.compared)], rows)


def _bought(answer: PlanAnswer, group: str) -> int:
    return sum(change.increase for run in answer.runs for change in run.scale_ups if change.group == group)


def _cost(answer: PlanAnswer, *, after: bool) -> str:
    cost = answer.runs[-1 if after else 0].cost
    if cost is None:
        return "not known"
    return f"{cost.per_hour_after if after else cost.per_hour_before:g}"
