"""What the grpc expander makes of a remote expander's answers."""

from collections.abc import Mapping, Sequence

import pytest

from autoscaler.ports import ExpanderAnswer
from autoscaler.scaleup.grpc_expander import GrpcExpander
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.template import Template
from tests.builders import an_option

ASKED = ("a", "b", "c")


class Says:
    """Gives the same answer to every question, and counts questions."""

    def __init__(self, *named: str, error: str = "") -> None:
        self.asked: list[tuple[str, ...]] = []
        self._named = named
        self._error = error

    def ask(self, options: Sequence[Option], templates: Mapping[str, Template]) -> ExpanderAnswer:
        self.asked.append(tuple(option.group.id for option in options))
        return ExpanderAnswer(asked=self.asked[-1], named=self._named, error=self._error)


def options(*names: str) -> list[Option]:
    return [an_option(name) for name in names]


def kept(remote: Says, *, empty_declines: bool = True) -> tuple[str, ...]:
    weighed = GrpcExpander(remote, {}, empty_declines=empty_declines).weigh(options(*ASKED))
    return tuple(option.group.id for option in weighed.options)


@pytest.mark.parametrize(
    ("remote", "left"),
    [
        pytest.param(Says("b"), ("b",), id="the one that it names"),
        pytest.param(Says("c", "a", "c"), ("a", "c"), id="several stay in the order of the groups, each once"),
        pytest.param(Says("b", "mars"), ("b",), id="a group that nobody asked about is passed over"),
        pytest.param(Says("mars"), ASKED, id="all where it names only such groups"),
        pytest.param(Says(""), ASKED, id="all where the group has no name"),
        pytest.param(Says(error="DEADLINE_EXCEEDED"), ASKED, id="all where there is no answer"),
        pytest.param(Says(), (), id="none where it wants none"),
    ],
)
def test_which_options_stay(remote: Says, left: tuple[str, ...]) -> None:
    assert kept(remote) == left


def test_older_versions_take_an_empty_answer_for_none() -> None:
    assert kept(Says(), empty_declines=False) == ASKED


def test_after_silence_it_is_not_asked_again() -> None:
    remote = Says(error="UNAVAILABLE")
    consulting = GrpcExpander(remote, {}, empty_declines=True)
    first, second = consulting.weigh(options("a", "b")), consulting.weigh(options("b", "c"))
    assert remote.asked == [("a", "b")]
    assert (first.answer is None, second.answer is None) == (False, True)
    assert [option.group.id for option in second.options] == ["b", "c"]


def test_nothing_to_choose_from_is_no_question() -> None:
    remote = Says("a")
    assert GrpcExpander(remote, {}, empty_declines=True).best([]) == ()
    assert remote.asked == []


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (ExpanderAnswer(asked=ASKED, named=("a",)), ""),
        (ExpanderAnswer(asked=ASKED), ""),
        (ExpanderAnswer(asked=ASKED, named=("a", "mars")), "names groups that it was not asked about: mars"),
        (ExpanderAnswer(asked=ASKED, error="UNAVAILABLE: gone"), "UNAVAILABLE: gone"),
    ],
)
def test_complaints(answer: ExpanderAnswer, complaint: str) -> None:
    assert answer.complaint == complaint
