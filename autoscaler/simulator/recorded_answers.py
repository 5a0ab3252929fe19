"""Replaces a gRPC expander offline: returns the answers of a scenario file."""

from collections.abc import Mapping, Sequence

from autoscaler.ports import ExpanderAnswer
from autoscaler.scaleup.option import Option
from autoscaler.scenario.scenario import Answered
from autoscaler.snapshot.template import Template


class RecordedAnswers:
    """A `scaleup.grpc_expander.RemoteExpander`. It gives each answer once, in its run and about its groups."""

    def __init__(self, answers: Sequence[Answered]) -> None:
        self._left = list(answers)
        self._run = 0

    def begin_run(self, run: int) -> None:
        """Give the answers of this run from now on."""
        self._run = run

    def ask(self, options: Sequence[Option], templates: Mapping[str, Template]) -> ExpanderAnswer:
        """Return the next answer to this question; an answer with `error` if none is left."""
        asked = tuple(option.group.id for option in options)
        for recorded in self._left:
            if recorded.run == self._run and set(recorded.answer.asked) == set(asked):
                self._left.remove(recorded)
                return recorded.answer
        return ExpanderAnswer(asked=asked, error="no answer is recorded")
