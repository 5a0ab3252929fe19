"""The other part of `watchdog`: a small process that ends the daemon if it is stuck. It runs as a file on its own.

It imports only built-in modules, so it is small. It shares no lock with the daemon, so it works while a C extension
holds the interpreter's lock. It measures only the time in which it runs itself, so a frozen machine or container
exceeds no limit. `docs/decisions/watchdog.md` says how it ends the daemon, and why.
"""

import mmap
import os
import select
import signal
import struct
import sys

SIZE = 4096
"""Size of the shared board in bytes: counters first, the note of the current step from `NOTE_AT` on."""
PULSE_AT, BUSY_AT, STOPPING_AT, NOTE_AT = 0, 8, 16, 64
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals that ask for an orderly end."""

_LONGEST_TICK_S = 1.0
_LAST_WORDS_S = 5.0


class UnchangedTimer:
    """Measures how long a value stays unchanged; time with an exempt value does not count."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.lasted_s = 0.0
        self._value = 0

    def seen(self, value: int, passed_s: float, *, counts: bool) -> bool:
        """Record the value after `passed_s` more seconds; return whether it has been unchanged beyond the limit (0:
        no limit).
        """
        self.lasted_s = self.lasted_s + passed_s if counts and value == self._value else 0.0
        self._value = value
        return 0 < self.limit_s < self.lasted_s


class Watch:
    """Reads the board and finds problems."""

    def __init__(self, board: mmap.mmap, stall_s: float, pass_s: float, end_s: float) -> None:
        self._board = board
        self._stall, self._pass, self._end = UnchangedTimer(stall_s), UnchangedTimer(pass_s), UnchangedTimer(end_s)
        self.stopping = False

    def look(self, passed_s: float) -> str | None:
        """Return why the daemon must end, `passed_s` seconds after the last check; None if it may continue."""
        pulse, busy = self._number(PULSE_AT), self._number(BUSY_AT)
        self.stopping = self.stopping or self._number(STOPPING_AT) > 0
        stalled = self._stall.seen(pulse, passed_s, counts=True)
        late = self._pass.seen(busy, passed_s, counts=busy % 2 == 1)
        unended = self._end.seen(1, passed_s, counts=self.stopping)
        if unended:
            return f"it was asked to end more than {self._end.limit_s:g} s ago (--max-termination-time)"
        if stalled:
            return f"no Python code has run for more than {self._stall.limit_s:g} s (--max-stall-time)"
        if late:
            return f"a pass has taken more than {self._pass.limit_s:g} s (--max-pass-time)"
        return None

    def note(self) -> str:
        """Return the daemon's current step, as one line."""
        text = self._board[NOTE_AT:SIZE].rstrip(b"\0").decode("utf-8", "replace")
        return "".join(letter if letter.isprintable() else "?" for letter in text) or "nothing"

    def _number(self, offset: int) -> int:
        (number,) = struct.unpack_from("Q", self._board, offset)
        return int(number)


def main(pid: int, board_fd: int, signals_fd: int, *limits_s: float) -> int:
    """Watch the process until it ends: its stop, pass and termination limits in seconds, 0 for none."""
    for number in (
        *ENDING,
        signal.SIGHUP,
    ):  # A terminal sends them to both processes; this process ends after the other one.
        signal.signal(number, signal.SIG_IGN)
    watch = Watch(mmap.mmap(board_fd, SIZE, prot=mmap.PROT_READ), *limits_s)
    tick_s = min([_LONGEST_TICK_S, *(limit_s / 8 for limit_s in limits_s if limit_s > 0)])
    while True:
        if select.select([signals_fd], [], [], tick_s)[0]:
            numbers = os.read(signals_fd, 512)
            if not numbers:
                return 0
            watch.stopping = watch.stopping or any(number in ENDING for number in numbers)
        elif (why := watch.look(tick_s)) is not None:
            os.write(2, f"watchdog: {why}; in hand: {watch.note()}; the process is ended\n".encode())
            return _end(pid, signals_fd)


def _end(pid: int, signals_fd: int) -> int:
    """Let the process write its stacks and exit; kill it if it does neither."""
    os.kill(pid, signal.SIGABRT)
    while select.select([signals_fd], [], [], _LAST_WORDS_S)[0]:
        if not os.read(signals_fd, 512):
            return 0
    os.kill(pid, signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:4]), *(float(word) for word in sys.argv[4:])))
