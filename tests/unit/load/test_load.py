"""Load for a test cluster: made, waited for, kept, and taken out again whatever happens."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import autoscaler
from autoscaler import errors
from autoscaler.cli.load import generate
from autoscaler.cli.output import OutputFormat
from autoscaler.clock import SystemClock, VirtualClock
from autoscaler.kube.client import ClientSettings
from autoscaler.load.run import Generator
from autoscaler.load.spec import LoadSpec
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.local_api import LocalApi

ROOT = Path(__file__).parents[3]


class TestCluster:
    """A cluster in memory on a virtual clock, in which `happens` whatever is asked for at each second slept."""

    __test__ = False

    def __init__(self) -> None:
        self.clock = VirtualClock(wall=1_800_000_000)
        self.storage = Storage(self.clock)
        self.storage.create("namespaces", {"metadata": {"name": "load"}})
        self.api = LocalApi(self.storage, self.clock)
        self.slept: list[float] = []
        self.stop_after_s: float | None = None
        self.happens: Callable[[], None] = self.all_run
        client = self.api.client(self.clock, self._pass_time, ClientSettings("test", 0.0))
        self.generator = Generator(client, self.clock, self._sleep, self._pass_time, "load")

    def _pass_time(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self.clock.advance(seconds)
        return True

    def _sleep(self, seconds: float) -> bool:
        if self.stop_after_s is not None and self.clock.now().mono + seconds >= self.stop_after_s:
            return False
        if seconds:
            self._pass_time(seconds)
            self.happens()
        return True

    def pods(self) -> list[dict[str, Any]]:
        return self.storage.list("pods", namespace="load")

    def all_are(self, **status: Any) -> None:
        for pod in self.pods():
            self.storage.update_status("pods", {**pod, "status": {**pod.get("status", {}), **status}})

    def all_run(self) -> None:
        self.all_are(phase="Running")

    def load(self, capsys: pytest.CaptureFixture[str], *, keep: bool = False, **shape: Any) -> tuple[int, Any, str]:
        load = LoadSpec(**{"count": 2, "duration_s": 300, "deadline_s": 60.0, **shape})
        args = argparse.Namespace(max_pods=50, keep=keep, output=OutputFormat.JSON)
        status = generate(self.generator, load, "b1", args)
        said = capsys.readouterr()
        return status, json.loads(said.out)[0] if said.out else None, said.err


@pytest.fixture
def cluster() -> TestCluster:
    return TestCluster()


def test_the_load_stays_for_its_duration_and_goes(cluster: TestCluster, capsys: pytest.CaptureFixture[str]) -> None:
    status, answer, said = cluster.load(capsys, duration_s=300)
    assert (status, answer["started"], answer["failed"], said) == (0, 2, 0, "")
    assert cluster.slept[-1] == 300
    assert cluster.pods() == []


def test_a_load_that_is_kept_is_not_waited_for(cluster: TestCluster, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, _ = cluster.load(capsys, keep=True)
    assert (status, cluster.slept, len(cluster.pods())) == (0, [1.0], 2)


def test_a_creation_that_breaks_is_tried_again(cluster: TestCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.api.faults.add(Fault(verb="create", resource="pods", drop=True, times=3))
    status, answer, _ = cluster.load(capsys, duration_s=1)
    assert (status, answer["started"]) == (0, 2)
    assert cluster.slept[:3] == [1.0, 2.0, 4.0]


def test_an_api_server_that_is_gone_for_long_ends_it(cluster: TestCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.api.faults.add(Fault(verb="create", resource="pods", drop=True))
    with pytest.raises(errors.RetryLater):
        cluster.load(capsys)
    assert cluster.slept == [1.0, 2.0, 4.0]


def test_a_pod_that_is_refused_is_named_with_the_cause_beside_others(
    cluster: TestCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.api.faults.add(Fault(verb="create", resource="pods", code=403, times=1))
    status, answer, said = cluster.load(capsys)
    assert (status, answer["started"], answer["failed"]) == (1, 1, 1)
    assert said.startswith("load-b1-0: it cannot be created: ")
    assert cluster.pods() == []


@pytest.mark.parametrize(
    ("happens", "cause"),
    [
        pytest.param(lambda one: None, "not within 60 s", id="stays pending"),
        pytest.param(
            lambda one: one.all_are(phase="Failed", reason="OutOfcpu", message="no room"),
            "failed: OutOfcpu: no room",
            id="fails",
        ),
        pytest.param(
            lambda one: [one.storage.delete("pods", pod["metadata"]["name"], namespace="load") for pod in one.pods()],
            "was deleted before it started",
            id="is deleted",
        ),
    ],
)
def test_causes_of_failures_are_printed(
    cluster: TestCluster,
    capsys: pytest.CaptureFixture[str],
    happens: Callable[[TestCluster], None],
    cause: str,
) -> None:
    cluster.happens = lambda: happens(cluster)
    status, answer, said = cluster.load(capsys)
    assert (status, answer["started"], answer["failed"], answer["longestStartSeconds"]) == (1, 0, 2, None)
    assert [cause in line for line in said.splitlines()] == [True, True]
    assert cluster.pods() == []
    assert 300 not in cluster.slept, "nothing runs that could be kept"


@pytest.mark.parametrize("stop_after_s", [0.0, 1.0, 100.0], ids=["creating", "waiting", "keeping"])
def test_who_stops_leaves_nothing_behind(
    cluster: TestCluster, capsys: pytest.CaptureFixture[str], stop_after_s: float
) -> None:
    cluster.stop_after_s = stop_after_s
    status, answer, said = cluster.load(capsys)
    assert (status, answer) == (130, None)
    assert said.startswith("stopped: ")
    assert cluster.pods() == []


def test_cleaning_up_outlasts_a_broken_connection(cluster: TestCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.stop_after_s = 100.0
    cluster.api.faults.add(Fault(verb="delete", drop=True, times=2))
    assert cluster.load(capsys)[0] == 130
    assert cluster.pods() == []


def test_what_can_go_wrong_is_importable_from_the_package() -> None:
    documented = {
        name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, Exception)
    }
    assert documented == set(autoscaler.__all__)
    for line in (errors.__doc__ or "").splitlines():
        name = line.strip("│├└─ ").split(" ")[0]
        assert line[:1] not in "├└│" or not line or getattr(autoscaler, name) is getattr(errors, name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cleans_up(tmp_path: Path, number: signal.Signals) -> None:
    storage = Storage(SystemClock())
    storage.create("namespaces", {"metadata": {"name": "load"}})
    created = threading.Event()
    storage.listen("pods", lambda change: created.set())
    with ApiServer(storage) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        words = ["load", "--count=2", f"--kubeconfig={tmp_path / 'kubeconfig'}"]
        with subprocess.Popen(
            [sys.executable, "-m", "autoscaler", *words],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert created.wait(60)
            process.send_signal(number)
            out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert said.startswith("stopped: ")
    assert len(said.splitlines()) == 1
    assert storage.list("pods", namespace="load") == []
