"""Who asks about the last pass: answered by the thread that decides, one at a time, and never for long."""

import json
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from autoscaler.clock import VirtualClock
from autoscaler.explain.explain import parse_targets
from autoscaler.explain.service import BUSY, FAILED, NO_PASS, TOO_LONG, ExplainService, Reply
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.observe.http.public_json import public
from autoscaler.observe.status import ProcessStatus
from autoscaler.observe.status_board import StatusBoard
from autoscaler.scenario.codec import decode
from autoscaler.scenario.scenario import Scenario
from autoscaler.simulator.play import play_and_explain, play_and_look
from tests.clocks import TickingClock
from tests.manifests import a_pod, running
from tests.situations.scenes import pending, standing

POD = "pod/default/web-0"
NODE = "node/n"
TOO_LARGE = pending(a_pod(cpu="5"))


class Desk:
    """A service whose deciding thread is the caller's: it answers as soon as it is interrupted."""

    def __init__(
        self,
        clock: VirtualClock | None = None,
        interrupt: Callable[["Desk"], object] = lambda desk: desk.service.answer(),
        most_waiting: int = 4,
    ) -> None:
        self.slept: list[float] = []
        board = StatusBoard(ProcessStatus(identity="me", version="1", started_at=0.0))
        sleep = self.slept.append
        self.service: ExplainService = ExplainService(
            board, clock or VirtualClock(), lambda: interrupt(self), sleep, most_waiting
        )

    def passed(self, scenario: Scenario) -> None:
        play_and_look(scenario, lambda run, ended: self.service.passed(ended))

    def ask(self, target: str, gone: bool = False) -> Reply:
        return self.service.ask(parse_targets([target])[0], lambda: gone)


def a_scenario(document: dict[str, Any]) -> Scenario:
    return decode(json.dumps(document).encode(), "case.json")


@pytest.mark.parametrize(
    ("document", "target"),
    [
        pytest.param(TOO_LARGE, POD, id="pod"),
        pytest.param(TOO_LARGE, "group/g", id="group"),
        pytest.param(standing(running()), NODE, id="node"),
    ],
)
def test_the_answer_is_that_of_the_command_line(document: dict[str, Any], target: str) -> None:
    desk = Desk()
    desk.passed(a_scenario(document))
    reply = desk.ask(target)
    (expected,) = play_and_explain(a_scenario(document), parse_targets([target])).explained
    assert (reply.explanation, reply.missing) == (expected, "")
    assert public(reply.explanation)["kind"] == target.partition("/")[0]


def test_before_the_first_pass_and_after_the_last_nobody_waits() -> None:
    desk = Desk(interrupt=lambda desk: pytest.fail("nobody is to be interrupted"))
    assert desk.ask(POD).missing == NO_PASS
    desk.passed(a_scenario(TOO_LARGE))
    desk.service.passed(None)
    assert desk.ask(POD).missing == NO_PASS


def test_one_who_waits_when_the_last_pass_is_over_hears_it_from_the_next_look() -> None:
    desk = Desk(interrupt=lambda desk: desk.service.passed(None))
    desk.passed(a_scenario(TOO_LARGE))
    assert desk.ask(POD).explanation is None


def test_what_the_pass_did_not_see_has_no_explanation() -> None:
    desk = Desk()
    desk.passed(a_scenario(standing(running())))
    assert desk.ask("node/other").missing.startswith("no such node; nodes are: n")


def test_a_bug_in_an_explanation_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.service.passed(cast("EndedPass", object()))
    with caplog.at_level(logging.ERROR):
        assert desk.ask(POD).missing == FAILED
    assert "explain.failed" in caplog.text
    desk.passed(a_scenario(TOO_LARGE))
    assert desk.ask(POD).explanation is not None


def test_nothing_is_computed_for_a_client_that_has_hung_up() -> None:
    desk = Desk(interrupt=lambda desk: None)
    desk.passed(a_scenario(TOO_LARGE))
    assert desk.ask(POD, gone=True).explanation is None
    assert desk.service.is_asked
    desk.service.passed(cast("EndedPass", object()))
    desk.service.answer()  # would log a crash if it looked
    assert not desk.service.is_asked


def test_those_for_whom_there_is_no_place_are_asked_to_come_again() -> None:
    replies: list[Reply] = []

    def ask_meanwhile(desk: Desk) -> None:
        replies.append(desk.ask(POD))
        desk.service.answer()

    desk = Desk(interrupt=ask_meanwhile, most_waiting=1)
    desk.passed(a_scenario(TOO_LARGE))
    assert [desk.ask(POD).missing, *(reply.missing for reply in replies)] == ["", BUSY]
    assert desk.ask(POD).explanation is not None


def test_explanations_take_a_tenth_of_the_time_at_most() -> None:
    desk = Desk(TickingClock(0.25))
    desk.passed(a_scenario(TOO_LARGE))
    assert desk.ask("node/other").explanation is None
    assert desk.slept == []
    desk.ask("node/other")
    looks = 2  # when the work began, and for its deadline
    assert desk.slept == [9 * looks * 0.25 - 0.25]


@pytest.mark.parametrize(
    ("document", "target"),
    [
        pytest.param(TOO_LARGE, POD, id="pod"),
        pytest.param(TOO_LARGE, "group/g", id="group"),
        pytest.param(standing(running(), home="0"), NODE, id="node"),
    ],
)
def test_one_that_takes_too_long_is_given_up(document: dict[str, Any], target: str) -> None:
    desk = Desk(TickingClock(2.0))
    desk.passed(a_scenario(document))
    assert desk.ask(target).missing == TOO_LONG
