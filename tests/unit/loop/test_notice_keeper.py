"""Notices of a cloud's queue end on the nodes that they are about, and are acknowledged only then."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from autoscaler.clock import Instant
from autoscaler.config.notices import NoticeOptions
from autoscaler.errors import AutoscalerError, Gone, RetryLater
from autoscaler.loop.notice_keeper import NoticeKeeper
from autoscaler.loop.stages import Observed
from autoscaler.objects.node import Node
from autoscaler.scaledown.notices import NOTICE
from cloudprovider.interface import Notice, NoticeKind, Transient
from tests.builders import a_node

NOW = Instant(1_785_585_600.0, 100.0)
SPOT = NoticeKind.SPOT_INTERRUPTION


class Queue:
    """A queue whose notices come again until they are acknowledged."""

    def __init__(self, *notices: Notice) -> None:
        self.waiting = list(notices)
        self.fails = False

    def receive(self, wait_s: float) -> Sequence[Notice]:
        if self.fails:
            raise Transient("no answer")
        return tuple(self.waiting)

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        self.waiting = [notice for notice in self.waiting if notice not in notices]


class Desk:
    """A keeper with the nodes that it writes to."""

    def __init__(self, queue: Queue, *names: str, annotations: Mapping[str, str] | None = None) -> None:
        self.written: dict[str, str | None] = {}
        self.woken = 0
        self.error: AutoscalerError | None = None
        self.keeper = NoticeKeeper(NoticeOptions(node_notices=(SPOT, NoticeKind.TERMINATION)), self.annotate, self.wake)
        self.keeper.queue = queue
        self.nodes = [a_node(name, annotations=annotations) for name in names]
        self.seen()

    def seen(self) -> None:
        """Let a pass see the nodes."""
        stage: Any = SimpleNamespace(view=SimpleNamespace(nodes=self.nodes))
        self.keeper.before_pass(cast("Observed", stage))

    def annotate(self, node: str, annotations: Mapping[str, str | None]) -> None:
        if self.error is not None:
            raise self.error
        self.written[node] = annotations[NOTICE]

    def wake(self) -> None:
        self.woken += 1


def about(node: Node | str, kind: NoticeKind = SPOT, **more: Any) -> Notice:
    """Return a notice about a node's machine."""
    return Notice(provider_id=node if isinstance(node, str) else node.provider_id, kind=kind, **more)


def test_a_notice_is_written_acknowledged_and_wakes_the_loop() -> None:
    queue = Queue(about(a_node("a"), deadline=NOW.wall + 120))
    desk = Desk(queue, "a", "b")
    desk.keeper.tick(NOW)
    assert desk.written == {"a": "spot-interruption@2026-08-01T12:02:00Z"}
    assert (queue.waiting, desk.woken) == ([], 1)


def test_what_cannot_be_written_is_not_acknowledged() -> None:
    queue = Queue(about(a_node("a")))
    desk = Desk(queue, "a")
    desk.error = RetryLater("busy")
    desk.keeper.tick(NOW)
    assert (len(queue.waiting), desk.woken) == (1, 0)
    desk.error = None
    desk.keeper.tick(NOW)
    assert (queue.waiting, desk.woken) == ([], 1)


def test_a_node_that_is_gone_needs_no_notice() -> None:
    queue = Queue(about(a_node("a")))
    desk = Desk(queue, "a")
    desk.error = Gone("no such node")
    desk.keeper.tick(NOW)
    assert queue.waiting == []


def test_a_machine_without_a_node_is_waited_for() -> None:
    queue = Queue(about(a_node("late")))
    desk = Desk(queue, "a")
    desk.keeper.tick(NOW)
    assert (len(queue.waiting), desk.written) == (1, {})
    desk.nodes.append(a_node("late"))
    desk.seen()
    desk.keeper.tick(NOW)
    assert desk.written == {"late": "spot-interruption"}


def test_kinds_that_were_not_chosen_are_dropped() -> None:
    queue = Queue(about(a_node("a"), NoticeKind.REBALANCE_RECOMMENDATION))
    desk = Desk(queue, "a")
    desk.keeper.tick(NOW)
    assert (queue.waiting, desk.written) == ([], {})


def test_a_less_urgent_notice_replaces_no_other() -> None:
    queue = Queue(about(a_node("a"), NoticeKind.TERMINATION))
    desk = Desk(queue, "a", annotations={NOTICE: "spot-interruption@2026-08-01T12:02:00Z"})
    desk.keeper.tick(NOW)
    assert (queue.waiting, desk.written) == ([], {})


def test_what_is_withdrawn_is_taken_off_the_node() -> None:
    queue = Queue(about(a_node("a"), withdrawn=True), about(a_node("b"), NoticeKind.TERMINATION, withdrawn=True))
    desk = Desk(queue, "a", "b", annotations={NOTICE: "spot-interruption"})
    desk.keeper.tick(NOW)
    assert (queue.waiting, desk.written) == ([], {"a": None})


def test_a_queue_that_does_not_answer_is_asked_again() -> None:
    queue = Queue(about(a_node("a")))
    desk = Desk(queue, "a")
    queue.fails = True
    desk.keeper.tick(NOW)
    queue.fails = False
    desk.keeper.tick(NOW)
    assert desk.written == {"a": "spot-interruption"}


def test_without_a_queue_nothing_happens() -> None:
    desk = Desk(Queue(about(a_node("a"))), "a")
    desk.keeper.queue = None
    desk.keeper.tick(NOW)
    assert desk.written == {}
