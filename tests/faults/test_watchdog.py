"""A daemon that is stuck, in C code or in Python, ends within its limits and reports where it was."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.replica import Process, Sandbox, until

PLUGIN = '''
import os, re, sys, time
from cloudprovider.static import create as create_static

def holds_the_lock():
    """Python's regular expressions take the lock of the interpreter along for as long as they look."""
    re.match("(a+)+$", "a" * 80 + "!")

def waits():
    while True:
        time.sleep(60.0)

def is_slow():
    ends = time.monotonic() + 3.0
    while time.monotonic() < ends:
        sum(range(1000))

def create(context):
    cloud = create_static(context)
    work = {"holds": holds_the_lock, "waits": waits, "slow": is_slow}[context.config_file.rpartition(".")[2]]
    def refresh(now):
        print("stuck now", file=sys.stderr, flush=True)
        work()
    cloud.refresh = refresh
    return cloud
'''
GROUPS = "{groups: [{id: web, minSize: 0, maxSize: 3, template: {capacity: {cpu: 4, memory: 16Gi, pods: 110}}}]}"
ABORTED = 6
NO_LIMIT = ("--max-stall-time=0", "--max-pass-time=0", "--max-termination-time=0")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with Sandbox(tmp_path) as made:
        yield made


def stuck(folder: Path, sandbox: Sandbox, how: str, *limits: str) -> Process:
    """Start a daemon whose provider does not come back, or late."""
    plugins = folder / "plugins"
    about = plugins / "stuck-1.0.dist-info"
    about.mkdir(parents=True)
    (plugins / "stuck.py").write_text(PLUGIN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[autoscaler.cloudprovider]\nstuck = stuck:create\n")
    groups = folder / f"groups.{how}"
    groups.write_text(GROUPS)
    flags = ("run", "--leader-elect=false", "--cloud-provider=stuck", f"--cloud-config={groups}", *NO_LIMIT, *limits)
    return Process.daemon(folder, sandbox.kubeconfig, *flags, plugins=plugins)


@pytest.mark.parametrize(
    ("how", "limit", "why", "where"),
    [
        pytest.param("holds", "--max-stall-time=1s", "no Python code has run", "in holds_the_lock", id="lock held"),
        pytest.param(
            "holds", "--max-pass-time=1s", "a pass has taken more", "in holds_the_lock", id="lock, by the pass"
        ),
        pytest.param("waits", "--max-pass-time=1s", "a pass has taken more", "in waits", id="waits for ever"),
    ],
)
def test_a_stuck_pass_ends_the_process_and_leaves_its_stacks(
    tmp_path: Path, sandbox: Sandbox, how: str, limit: str, why: str, where: str
) -> None:
    with stuck(tmp_path, sandbox, how, limit) as daemon:
        assert daemon.end() == ABORTED
    told = [line for line in daemon.err.splitlines() if line.startswith("watchdog: ")]
    assert len(told) == 1
    assert why in told[0]
    assert "in hand: Observing.run" in told[0]
    assert where in daemon.err


@pytest.mark.parametrize("how", ["holds", "waits"])
def test_a_signal_ends_a_process_that_is_stuck(tmp_path: Path, sandbox: Sandbox, how: str) -> None:
    with stuck(tmp_path, sandbox, how, "--max-termination-time=1s") as daemon:
        daemon.until_says("stuck now")
        daemon.send(signal.SIGTERM)
        assert daemon.end() == ABORTED
    assert "watchdog: it was asked to end" in daemon.err
    assert "in refresh" in daemon.err


def test_a_slow_pass_that_lives_is_left_alone(tmp_path: Path, sandbox: Sandbox) -> None:
    limits = ("--max-stall-time=2s", "--max-pass-time=60s", "--max-termination-time=60s", "--v=4")
    with stuck(tmp_path, sandbox, "slow", *limits) as daemon:
        daemon.until_says("pass.done")
        daemon.send(signal.SIGTERM)
        assert daemon.end() == 0, daemon.err
    assert "watchdog" not in daemon.err


def watchman_of(daemon: Process) -> int:
    """Return the process that watches the daemon."""
    (child,) = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
    return int(child)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_the_watching_process_goes_with_a_daemon_that_is_killed(tmp_path: Path, sandbox: Sandbox) -> None:
    with stuck(tmp_path, sandbox, "waits") as daemon:
        daemon.until_says("stuck now")
        pid = watchman_of(daemon)
        daemon.send(signal.SIGKILL)
        daemon.end()
        until(lambda: not is_there(pid), "the watching process ends")


def test_a_daemon_whose_watching_process_is_gone_says_so(tmp_path: Path, sandbox: Sandbox) -> None:
    with stuck(tmp_path, sandbox, "waits") as daemon:
        daemon.until_says("stuck now")
        os.kill(watchman_of(daemon), signal.SIGKILL)
        daemon.until_says("watchdog.gone")
        assert daemon.alive
