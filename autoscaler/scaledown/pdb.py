"""Tracks what disruption budgets still allow while a pass plans removals."""

from collections import Counter
from collections.abc import Iterable, Sequence

from autoscaler.objects.meta import Operator
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.workload import DisruptionBudget

PdbKey = tuple[str, tuple[str, str] | None]
"""A namespace, and a label if pods are known to have it."""


class RemainingPdbTracker:
    """Remaining disruptions of every budget. Only `take` changes them. A pass makes its own."""

    def __init__(self, budgets: Iterable[DisruptionBudget] = ()) -> None:
        self._budgets = tuple(budgets)
        self._left = [budget.status.disruptions_allowed for budget in self._budgets]
        self._matching: dict[PodClass, tuple[int, ...]] = {}
        self._by_clue: dict[PdbKey, list[int]] = {}
        for index, budget in enumerate(self._budgets):
            for clue in _clues(budget):
                self._by_clue.setdefault(clue, []).append(index)

    def protect(self, cls: PodClass) -> bool:
        """Whether any budget counts pods of the class."""
        return bool(self._of(cls))

    def spent(self, cls: PodClass) -> DisruptionBudget | None:
        """Return the first budget of the class that allows no further disruption."""
        return next((self._budgets[index] for index in self._of(cls) if self._left[index] < 1), None)

    def allow_at_once(self, pods: Sequence[Pod]) -> bool:
        """Whether all these pods may be disrupted at the same time."""
        wanted = Counter(index for pod in pods for index in self._of(pod.cls))
        return all(self._left[index] >= count for index, count in wanted.items())

    def take(self, pods: Sequence[Pod]) -> None:
        """Count these pods as disrupted."""
        for pod in pods:
            for index in self._of(pod.cls):
                self._left[index] -= 1

    def left(self) -> dict[str, int]:
        """Return what each budget still allows, by `namespace/name`; below zero where pods go one after the other."""
        return {budget.key: left for budget, left in zip(self._budgets, self._left, strict=True)}

    def _of(self, cls: PodClass) -> tuple[int, ...]:
        known = self._matching.get(cls)
        if known is None:
            clues = (cls.namespace, None), *((cls.namespace, pair) for pair in cls.labels.items())
            indexes = sorted({index for clue in clues for index in self._by_clue.get(clue, ())})
            known = self._matching[cls] = tuple(
                index for index in indexes if self._budgets[index].protects(cls.namespace, cls.labels)
            )
        return known


def _clues(budget: DisruptionBudget) -> list[PdbKey]:
    """Return labels such that every pod of the budget has at least one; None where there are none."""
    selector = budget.spec.selector
    if selector is None:
        return []
    if selector.match_labels:
        return [(budget.namespace, next(iter(selector.match_labels.items())))]
    listed = (expression for expression in selector.match_expressions if expression.operator == Operator.IN)
    values = next(
        ([(expression.key, value) for value in dict.fromkeys(expression.values)] for expression in listed), None
    )
    return [(budget.namespace, None)] if values is None else [(budget.namespace, label) for label in values]
