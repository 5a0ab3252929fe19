"""Signals that end a command, handed to a thread.

A handler runs in the middle of whatever the main thread does, perhaps while it holds the very lock that an event's
`set` needs; so the handler only puts the signal into a queue that is made for that.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue

INTERRUPTED = 130
"""Exit status of a command that was asked to stop before it was done."""


def on_signals(numbers: Iterable[signal.Signals], action: Callable[[], None]) -> None:
    """Call `action`, on a thread of its own, whenever one of the signals comes. For the main thread only."""
    come: SimpleQueue[int] = SimpleQueue()
    for number in numbers:
        signal.signal(number, lambda which, _frame: come.put(which))

    def listen() -> None:
        while True:
            come.get()
            action()

    threading.Thread(target=listen, name="signals", daemon=True).start()


@contextlib.contextmanager
def quiet_exit() -> Iterator[None]:
    """Let Ctrl-C end the process at once and without a word, while nothing is under way that would need an end.

    While modules are imported, for a `KeyboardInterrupt` may then surface as any error of theirs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
