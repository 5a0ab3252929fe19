"""The daemon's part of the watchdog: its reports to the process that watches it, and its end from outside.

`watchdog_process` is the other part; `docs/decisions/watchdog.md` explains both.
"""

import contextlib
import ctypes
import faulthandler
import mmap
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator

from autoscaler import current_step
from autoscaler.app import watchdog_process
from autoscaler.config.process import Loop
from autoscaler.logs import Log

log = Log(__name__)

_SLOWEST_PULSE_S = 1.0


class NoWatchdog:
    """The watchdog of a daemon without one: on a thread of another program."""

    def start(self) -> None:
        """Do nothing."""

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Do nothing before and after the block."""
        yield

    def stopping(self) -> None:
        """Do nothing."""


class Watchdog(NoWatchdog):
    """Ends the process from outside if it is stuck."""

    def __init__(self, loop: Loop) -> None:
        self._limits_s = (loop.max_stall_time_s, loop.max_pass_time_s, loop.max_termination_time_s)
        self._board_fd = os.memfd_create("watchdog")
        os.ftruncate(self._board_fd, watchdog_process.SIZE)
        self._board = mmap.mmap(self._board_fd, watchdog_process.SIZE)
        self._busy = 0

    def start(self) -> None:
        """Start the watchdog; call this on the main thread, which does the work.

        From now on, SIGABRT from any process writes all stacks to standard error and exits.
        """
        current_step.keep_notes_on(self._board, watchdog_process.NOTE_AT)
        _exit_on_abort()
        read_fd, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        numbers = (os.getpid(), self._board_fd, read_fd, *self._limits_s)
        watching = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog_process.__file__, *map(str, numbers)],
            pass_fds=(self._board_fd, read_fd),
        )
        os.close(read_fd)
        threading.Thread(target=self._pulse, args=(watching,), name="pulse", daemon=True).start()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Apply the limit of a pass to the block."""
        self._put(watchdog_process.BUSY_AT, self._busy + 1)
        try:
            yield
        finally:
            self._busy += 2
            self._put(watchdog_process.BUSY_AT, self._busy)

    def stopping(self) -> None:
        """Apply the limit of an orderly end to the process, from now on."""
        self._put(watchdog_process.STOPPING_AT, 1)

    def _pulse(self, watching: "subprocess.Popen[bytes]") -> None:
        """Report that threads still run."""
        stall_s = self._limits_s[0]
        pause_s = min(_SLOWEST_PULSE_S, stall_s / 8) if stall_s > 0 else _SLOWEST_PULSE_S
        never, count = threading.Event(), 0
        while watching.poll() is None:
            count += 1
            self._put(watchdog_process.PULSE_AT, count)
            never.wait(pause_s)
        log.error(
            "watchdog.gone", status=watching.returncode, next="nothing but the liveness probe ends a stuck process"
        )

    def _put(self, offset: int, number: int) -> None:
        struct.pack_into("Q", self._board, offset, number)


def _exit_on_abort() -> None:
    """Make SIGABRT write the stacks of all threads and then exit, entirely in C.

    For the first process of a container, the kernel drops deadly signals without a handler, even SIGKILL from inside. A
    Python handler would need the interpreter's lock. So the handler is `_exit` itself, and `faulthandler` comes before
    it and calls the previous handler. The exit status is 6.
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    faulthandler.disable()
    libc.signal(signal.SIGABRT, ctypes.cast(libc._exit, ctypes.c_void_p))
    faulthandler.enable(all_threads=True)
