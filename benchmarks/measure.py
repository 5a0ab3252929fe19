"""Timing, memory and the one table that every benchmark prints."""

import gc
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from autoscaler.stopwatch import stopwatch


class Row(msgspec.Struct, frozen=True):
    """One measurement. `ratio` says how many times faster than `against` it is, on the same machine."""

    what: str
    count: int
    unit: str
    seconds: float
    ratio: float | None = None
    against: str = ""
    note: str = ""


def seconds_of(work: Callable[[], object], repeat: int = 1) -> float:
    """The shortest of several runs, garbage of earlier ones collected before each."""
    times = []
    for _ in range(repeat):
        gc.collect()
        start = stopwatch()
        work()
        times.append(stopwatch() - start)
    return min(times)


def resident_mib() -> float:
    """Memory that this process holds now, where the system can tell; 0 elsewhere."""
    return memory_mib("VmRSS", "self")


def memory_mib(what: str, pid: int | str) -> float:
    """Return a figure of a process's memory, as Linux names it: `VmRSS` now, `VmHWM` at most; 0 on other systems."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    line = next(line for line in status.read_text().splitlines() if line.startswith(f"{what}:"))
    return int(line.split()[1]) / 1024


def show(title: str, rows: Iterable[Row]) -> None:
    print(f"\n{title}")
    print(f"  {'what':<52} {'size':>18} {'seconds':>9} {'per second':>12}  ratio")
    for row in rows:
        rate = row.count / row.seconds if row.seconds else 0.0
        ratio = "" if row.ratio is None else f"{row.ratio:,.1f}x {row.against}"
        note = f"  ({row.note})" if row.note else ""
        print(f"  {row.what:<52} {row.count:>9,} {row.unit:<8} {row.seconds:>9.4f} {rate:>12,.0f}  {ratio}{note}")
