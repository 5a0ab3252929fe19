"""Passes signals that end a command to a thread.

A handler interrupts the main thread anywhere, perhaps while that thread holds the lock that an event's `set` needs. So
the handler only puts the signal into a queue that is made for this purpose.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue

INTERRUPTED = 130
"""Exit status of a command that was interrupted."""


def on_signals(numbers: Iterable[signal.Signals], action: Callable[[], None]) -> None:
    """Call `action`, on a thread of its own, for each of these signals. Only the main thread may call this."""
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
    """Let Ctrl-C end the process at once and silently, while no work needs an orderly end.

    This matters while modules are imported, because there a `KeyboardInterrupt` may become any other error.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
