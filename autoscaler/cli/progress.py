"""A progress bar on the terminal for long tasks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from autoscaler.stopwatch import stopwatch

_PATIENCE_S = 2.0
_WIDTH = 30


class ProgressBar:
    """Draws a bar after two seconds; draws nothing if the stream is no terminal."""

    def __init__(self, what: str, out: TextIO) -> None:
        self._what = what
        self._out = out
        self._began = stopwatch()
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` steps are done."""
        if not self._out.isatty() or stopwatch() - self._began < _PATIENCE_S:
            return
        full = _WIDTH * done // max(total, 1)
        self._out.write(f"\r{self._what} [{'#' * full}{' ' * (_WIDTH - full)}] {100 * done // max(total, 1)} %")
        self._out.flush()
        self._drawn = True

    def clear(self) -> None:
        """Remove the bar."""
        if self._drawn:
            self._out.write("\r" + " " * (len(self._what) + _WIDTH + 12) + "\r")
            self._out.flush()


@contextmanager
def progress(what: str, out: TextIO | None = None) -> Iterator[ProgressBar]:
    """Yield a bar on standard error, and remove it at the end of the block."""
    bar = ProgressBar(what, out or sys.stderr)
    try:
        yield bar
    finally:
        bar.clear()
