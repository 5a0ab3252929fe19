"""Memory and CPU of the whole daemon, within the limits of its manifest, against an API server in another process."""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from autoscaler.stopwatch import stopwatch
from benchmarks.confined import Confined, Share, confinement, share_of_manifest
from benchmarks.measure import Row, memory_mib, seconds_of, show

SIZES = (1_000, 5_000)
_PATIENCE_S = 1800.0
_TICK_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_FLAGS = (
    "--cloud-provider=kwok",
    "--leader-elect=false",
    "--write-status-configmap=false",
    "--scale-down-delay-after-add=24h",
    "--logging-format=json",
)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon used; memory in MiB, CPU in seconds."""

    nodes: int
    pods: int
    how: str
    """How it was held to the limit."""
    limit_mib: float
    killed: int
    first_pass_s: float
    """From its start until the first pass had succeeded."""
    first_pass_cpu_s: float
    resident_mib: float
    peak_mib: float
    passes: int
    """Passes after the first in the time that was watched."""
    cpu_s: float
    watched_s: float


class Ended(Exception):
    """A process came to its end, or did not get ready in time; the text is what it said last."""


def measure(
    nodes: int, per_node: int, changes: int, watched_s: float, *, pending: int = 0, share: Share | None = None
) -> Usage:
    """Run the daemon beside a cluster of this size and return what it used; raises `Ended`."""
    share = share or share_of_manifest()
    with (
        tempfile.TemporaryDirectory() as name,
        serving(Path(name), nodes, per_node, changes, pending) as (_, kubeconfig),
        confinement(share) as confined,
        _daemon(Path(name), kubeconfig, confined, share) as (process, port),
    ):
        began = stopwatch()
        _wait(process, lambda: _succeeded(port) > 0, Path(name) / "daemon.err")
        first_s, first_cpu_s, first = stopwatch() - began, _cpu_s(process.pid), _succeeded(port)
        _watch(process, watched_s, Path(name) / "daemon.err")
        cpu_s, took_s = _cpu_s(process.pid) - first_cpu_s, stopwatch() - began - first_s
        return Usage(
            nodes=nodes,
            pods=nodes * per_node,
            how=confined.how,
            limit_mib=share.memory_bytes / 2**20,
            killed=confined.killed,
            first_pass_s=first_s,
            first_pass_cpu_s=first_cpu_s,
            resident_mib=memory_mib("VmRSS", process.pid),
            peak_mib=memory_mib("VmHWM", process.pid),
            passes=_succeeded(port) - first,
            cpu_s=cpu_s,
            watched_s=took_s,
        )


@contextlib.contextmanager
def serving(
    folder: Path, nodes: int, per_node: int, changes: int = 0, pending: int = 0
) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """Run the API server; yields its process and the kubeconfig. Raises `Ended`."""
    kubeconfig = folder / "kubeconfig"
    sizes = (f"--nodes={nodes}", f"--per-node={per_node}", f"--changes={changes}", f"--pending={pending}")
    with (
        (folder / "server.err").open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.served", *sizes, f"--kubeconfig={kubeconfig}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise Ended((folder / "server.err").read_text()[-2000:])
            yield process, kubeconfig
        finally:
            process.kill()


@contextlib.contextmanager
def _daemon(
    folder: Path, kubeconfig: Path, confined: Confined, share: Share
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the daemon as the manifests do; yields its process and its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    words = ["run", f"--kubeconfig={kubeconfig}", f"--address=127.0.0.1:{port}", *_FLAGS]
    with (
        (folder / "daemon.err").open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "autoscaler", *words], stdout=subprocess.DEVNULL, stderr=errors
        ) as process,
    ):
        try:
            confined.join(process.pid, share)
            yield process, port
        finally:
            process.kill()


def _wait(process: "subprocess.Popen[bytes]", condition: Any, said: Path) -> None:
    pause, deadline = threading.Event(), stopwatch() + _PATIENCE_S
    while not condition():
        if process.poll() is not None or stopwatch() > deadline:
            raise Ended(f"exit status {process.returncode}: {said.read_text()[-2000:]}")
        pause.wait(0.05)


def _watch(process: "subprocess.Popen[bytes]", seconds: float, said: Path) -> None:
    """Let the daemon run for so long; raises `Ended` if it comes to its end before."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        raise Ended(f"exit status {process.returncode}: {said.read_text()[-2000:]}")


def _succeeded(port: int) -> int:
    """Return how many passes have succeeded; 0 also where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60):
            pass
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/status", timeout=60) as answer:
            return int(json.load(answer)["lastPass"]["number"])
    except (OSError, urllib.error.HTTPError, KeyError, TypeError):
        return 0


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK_S


def calibration() -> list[Row]:
    """Time fixed work of this machine, so that figures of two machines can be held against each other."""
    table = np.arange(400 * 400, dtype=np.float64).reshape(400, 400)

    def add() -> int:
        total = 0
        for number in range(10_000_000):
            total += number
        return total

    return [
        Row("calibration: additions in a Python loop", 10_000_000, "adds", seconds_of(add, repeat=3)),
        Row(
            "calibration: NumPy product of 400 x 400, ten times",
            10,
            "products",
            seconds_of(lambda: [table @ table for _ in range(10)], repeat=3),
        ),
    ]


def rows(usage: Usage) -> list[Row]:
    memory = f"{usage.resident_mib:,.0f} MiB resident, {usage.peak_mib:,.0f} at most, limit {usage.limit_mib:,.0f}"
    cores = f"{usage.cpu_s / usage.watched_s:.2f} cores, {usage.passes} passes in {usage.watched_s:.0f} s"
    size = f"{usage.nodes:,} nodes"
    return [
        Row(f"{size}: until the first pass succeeded", usage.pods, "pods", usage.first_pass_s, note=memory),
        Row(f"{size}: CPU for that", usage.pods, "pods", usage.first_pass_cpu_s),
        Row(f"{size}: CPU from then on", usage.passes, "passes", usage.cpu_s, note=cores),
    ]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.daemon", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--per-node", type=int, default=30)
    parser.add_argument("--changes", type=int, default=20, help="pods that change in a second")
    parser.add_argument("--pending", type=int, default=0, help="pods that need new nodes in the first pass")
    parser.add_argument("--watch", type=float, default=60.0, help="seconds to watch after the first pass")
    sizes = parser.parse_args(argv)
    measured = [
        measure(nodes, sizes.per_node, sizes.changes, sizes.watch, pending=sizes.pending) for nodes in sizes.nodes
    ]
    show(
        f"Daemon, {measured[0].how}", [*calibration(), *(row for measurement in measured for row in rows(measurement))]
    )


if __name__ == "__main__":
    main()
