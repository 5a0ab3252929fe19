"""Measures durations. Decisions may not import it; they ask `loop.pass_time`."""

import time


def stopwatch() -> float:
    """Return seconds on a high-resolution clock of arbitrary origin."""
    return time.perf_counter()


def stopped() -> float:
    """Return the same second always: for runs in which the speed of the machine decides nothing."""
    return 0.0
