"""Finds cause and fix for the pods that a pass leaves stuck. Events, the status page, the API and `plan` show them."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from autoscaler.clock import Clock, Instant
from autoscaler.explain.explained_pass import ExplainedPass, explained_pass
from autoscaler.explain.pod import quick_remedies
from autoscaler.explain.remedies.changes import Wait
from autoscaler.explain.remedies.remedy import Obstacle
from autoscaler.logs import Log
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.observe.pod_summary import PodOutcome, pod_outcomes
from autoscaler.observe.status import Advice
from autoscaler.reasons import Skip

log = Log(__name__)

_NO_GROUP = "fits no node group"
_LONGEST = 500
_FRESH_S = 300.0
"""Advice is kept for this many seconds while the outcome stays the same."""
_ASKS_A_PERSON = (Skip.BACKED_OFF, Obstacle.INCREASE_FAILED)
"""Obstacles that a person has to look at, although the autoscaler tries again by itself."""


class _TakesTooLong(Exception):
    """The advice for one class takes longer than the limit."""


class _Known(msgspec.Struct, frozen=True):
    outcome: PodOutcome
    at: float
    advice: Advice


class PodAdvisor:
    """Remembers its advice by class. Owned by the deciding thread.

    The pass waits for the advisor. After `enough_s` seconds it begins no further class, and it spends at most `most_s`
    seconds on one class. Classes with many pods come first. A class without advice gets it in a later pass.
    """

    def __init__(self, clock: Clock, enough_s: float = 0.25, most_s: float = 1.0, most_classes: int = 50) -> None:
        """At most `most_classes` classes get new advice in one pass."""
        self._clock = clock
        self._enough_s = enough_s
        self._most_s = most_s
        self._most_classes = most_classes
        self._known: dict[PodClass, _Known] = {}

    def __call__(self, ended: EndedPass) -> Mapping[PodClass, Advice]:
        """Return cause and fix by class for the pods that the pass leaves stuck."""
        if ended.report.view is None:
            return {}
        try:
            return self._advice(ended)
        except Exception:  # noqa: BLE001  # a bug in an explanation must not end the passes
            log.crashed("advice.failed")
            return {}

    def _advice(self, ended: EndedPass) -> Mapping[PodClass, Advice]:
        now = ended.report.now
        stuck: dict[PodClass, tuple[Pod, PodOutcome]] = {}
        pods: Counter[PodClass] = Counter()
        for pod, outcome in pod_outcomes(ended.report):
            if outcome.stuck:
                stuck.setdefault(pod.cls, (pod, outcome))
                pods[pod.cls] += 1
        self._known = {cls: known for cls, known in self._known.items() if cls in stuck}
        urgency = {cls: self._due(cls, outcome, now) for cls, (_, outcome) in stuck.items()}
        due = sorted((cls for cls in stuck if urgency[cls] < 2), key=lambda cls: (urgency[cls], -pods[cls]))
        self._explain(ended, [stuck[cls] for cls in due[: self._most_classes]])
        return {cls: known.advice for cls, known in self._known.items()}

    def _due(self, cls: PodClass, outcome: PodOutcome, now: Instant) -> int:
        """Return 0 for a new or changed outcome, 1 for old advice, and 2 if there is nothing to do."""
        known = self._known.get(cls)
        if known is None or known.outcome != outcome:
            return 0
        return 1 if now.mono - known.at >= _FRESH_S else 2

    def _explain(self, ended: EndedPass, pods: list[tuple[Pod, PodOutcome]]) -> None:
        began = self._clock.now().mono

        def check() -> None:
            if self._clock.now().mono > began + self._most_s:
                raise _TakesTooLong

        passed = explained_pass(ended, check)
        for pod, outcome in pods:
            try:
                advice = _advise(pod, outcome, passed)
            except _TakesTooLong:
                advice = Advice(code=outcome.verdict, cause=_NO_GROUP, fix="")
            self._known[pod.cls] = _Known(outcome, ended.report.now.mono, advice)
            if self._clock.now().mono > began + self._enough_s:
                return


def _advise(pod: Pod, outcome: PodOutcome, ended: ExplainedPass) -> Advice:
    remedies = quick_remedies(pod, outcome.verdict, ended)
    if not remedies:
        return Advice(code=outcome.verdict, cause=_NO_GROUP, fix="")
    best = remedies[0]
    waits = bool(best.changes) and all(isinstance(change, Wait) for change in best.changes)
    waits = waits and best.code not in _ASKS_A_PERSON
    cause, fix = _bounded(best.cause or _NO_GROUP), _bounded(best.text)
    return Advice(code=best.code, cause=cause, fix=fix, waits=waits)


def _bounded(text: str) -> str:
    """Return the text, shortened if very long names make it too long."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
