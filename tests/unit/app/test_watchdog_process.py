"""The watching process: when it ends the daemon, and what it reports."""

import mmap
import struct

import pytest

from autoscaler import current_step
from autoscaler.app.watchdog_process import BUSY_AT, NOTE_AT, PULSE_AT, SIZE, STOPPING_AT, Watch


class Watched:
    """A daemon as its board shows it, looked at every second."""

    def __init__(self, *, stall_s: float = 0.0, pass_s: float = 0.0, end_s: float = 0.0) -> None:
        self.board = mmap.mmap(-1, SIZE)
        self.watch = Watch(self.board, stall_s, pass_s, end_s)
        self.pulse = 0

    def put(self, at: int, number: int) -> None:
        struct.pack_into("Q", self.board, at, number)

    def lives(self, seconds: int, *, pulse: bool = True) -> str | None:
        """Return what is said against it after so many seconds."""
        why = None
        for _ in range(seconds):
            self.pulse += pulse
            self.put(PULSE_AT, self.pulse)
            why = why or self.watch.look(1.0)
        return why


def test_a_daemon_without_limits_may_do_nothing_for_ever() -> None:
    watched = Watched()
    watched.put(BUSY_AT, 1)
    watched.put(STOPPING_AT, 1)
    assert watched.lives(10_000, pulse=False) is None


def test_exactly_at_the_limit_a_stall_is_borne() -> None:
    watched = Watched(stall_s=5.0)
    assert watched.lives(20) is None
    assert watched.lives(5, pulse=False) is None
    assert "--max-stall-time" in (watched.lives(1, pulse=False) or "")


def test_each_pass_has_the_limit_for_itself_and_the_time_between_passes_has_none() -> None:
    watched = Watched(pass_s=5.0)
    for number in range(1, 9):
        watched.put(BUSY_AT, number)
        assert watched.lives(4) is None
    watched.put(BUSY_AT, 10)
    assert watched.lives(100) is None
    watched.put(BUSY_AT, 11)
    assert "--max-pass-time" in (watched.lives(7) or "")


def test_an_end_that_was_asked_for_is_counted_from_then() -> None:
    watched = Watched(end_s=5.0)
    assert watched.lives(100) is None
    watched.watch.stopping = True
    assert watched.lives(5) is None
    assert "--max-termination-time" in (watched.lives(1) or "")


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        pytest.param("group", "web", "Growing.run: group web", id="as it is"),
        pytest.param("group", "a\nE watchdog: \x1b[2J", "Growing.run: group a?E watchdog: ?[2J", id="one line"),
        pytest.param("node", "größe", "Growing.run: node größe", id="any script"),
        pytest.param("node", "\ud800", "Growing.run: node ?", id="half a character"),
        pytest.param("pod", "x" * 10_000, "Growing.run: pod " + "x" * 239, id="cut where it is long"),
    ],
)
def test_the_note_says_what_is_in_hand(kind: str, name: str, shown: str) -> None:
    watched = Watched()
    assert watched.watch.note() == "nothing"
    current_step.keep_notes_on(watched.board, NOTE_AT)
    try:
        current_step.begin_step("Growing.run")
        current_step.in_hand("group", "longer than what follows")
        current_step.in_hand(kind, name)
    finally:
        current_step.keep_notes_on(None)
    assert watched.watch.note() == shown
    current_step.in_hand("group", "nobody reads it any more")
    assert watched.watch.note() == shown
