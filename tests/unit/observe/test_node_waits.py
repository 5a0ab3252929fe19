"""How long scale-down keeps nodes waiting."""

from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.observe.metrics.node_waits import NodeWait, RemovalWaits, SkippedNodes
from autoscaler.observe.report import PassReport, ScaleDownReport
from autoscaler.reasons import UnremovableNode, UnremovableReason
from autoscaler.scaledown.plan import NodesToDelete, Removal
from tests.builders import a_node

START = Instant(1_700_000_000.0, 100.0)


def a_pass(after_s: float, *unneeded: str, going: tuple[str, ...] = (), **kept: UnremovableReason) -> PassReport:
    """A pass so many seconds after the first that found these nodes unneeded, and began to remove some."""
    removals = {name: Removal(node=a_node(name), group="web") for name in (*unneeded, *going)}
    return PassReport(
        now=START.later(after_s),
        scale_down=ScaleDownReport(
            unneeded=tuple(removals.values()),
            unremovable={name: UnremovableNode(name, reason) for name, reason in kept.items()},
            deletions=NodesToDelete(empty=tuple(removals[name] for name in going)),
        ),
    )


def test_a_wait_begins_once_a_node_has_been_unneeded_for_long_enough() -> None:
    waits = RemovalWaits()
    assert list(waits.pass_ended(a_pass(0, "a", a=UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH))) == []
    assert list(waits.pass_ended(a_pass(600, "a", a=UnremovableReason.MIN_SIZE))) == []
    assert list(waits.pass_ended(a_pass(630, going=("a",)))) == [NodeWait(True, UnremovableReason.MIN_SIZE, 30.0)]
    assert list(waits.pass_ended(a_pass(645))) == []


def test_a_node_that_is_needed_again_ends_its_wait_too() -> None:
    waits = RemovalWaits()
    assert list(waits.pass_ended(a_pass(0, "a"))) == []
    assert list(waits.pass_ended(a_pass(15))) == [NodeWait(False, "none", 15.0)]


def test_a_node_that_goes_at_once_has_not_waited() -> None:
    assert list(RemovalWaits().pass_ended(a_pass(0, going=("a",)))) == [NodeWait(True, "none", 0.0)]


def test_nodes_that_the_simulation_did_not_come_to() -> None:
    skipped = SkippedNodes()
    assert skipped.longest_s(["a", "b"], a_pass(0, "a", b=UnremovableReason.MIN_SIZE)) == 0.0
    assert skipped.longest_s(["a", "b"], a_pass(15, "a")) == 15.0
    assert skipped.longest_s(["a", "b"], a_pass(45, "a", b=UnremovableReason.NOT_TRIED)) == 45.0
    stays = {"b": UnremovableNode("b", UnremovableReason.MIN_SIZE)}
    report = a_pass(60, "a")
    report = replace(report, scale_down=replace(report.scale_down, unremovable=stays))
    assert skipped.longest_s(["a", "b"], report) == 0.0
