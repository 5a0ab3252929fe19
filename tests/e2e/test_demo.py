"""`autoscaler demo`, as somebody types it."""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from autoscaler.clock import SystemClock
from autoscaler.errors import ConfigError
from autoscaler.simulator.demo import Demo
from tests.e2e.replica import Process, free_port, get, get_json, until

FIRST_NODE = "general-0"


def left_behind(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith("autoscaler")]


def api_port(said: str) -> int:
    found = re.search(r"API server +http://127\.0\.0\.1:(\d+)", said)
    assert found is not None, said
    return int(found[1])


def test_it_settles_and_says_how(tmp_path: Path) -> None:
    port = free_port()
    words = ("demo", "--story", "stuck", "--until-settled", "--timeout", "90s", "-o", "json", "--port", str(port))
    with Process(tmp_path, *words) as demo:
        until(lambda: get(port, "/status")[0] == 200, "the status page is served")
        demo.until_says("export KUBECONFIG=")
        assert left_behind(tmp_path) != []
        until(lambda: get_json(port, "/api/v1/status")["totals"]["nodes"] > 1, "nodes are bought")
        assert demo.end() == 0, demo.err
    answer = json.loads(demo.out)
    assert list(answer) == [
        *("settled", "seconds", "nodesBought", "podsRunning", "podsPending"),
        *("nodesRemoved", "story"),
    ]
    assert (answer["settled"], answer["podsPending"], answer["story"]) == (True, 0, "stuck")
    assert answer["nodesBought"] >= 2
    assert 0 < answer["seconds"] < 90
    assert (left_behind(tmp_path), get(port, "/status")[0]) == ([], 0)
    for advised in ("pod/shop/search-", "pod/shop/monolith-"):
        assert f"autoscaler explain {advised}" in demo.err
    advice = demo.err[demo.err.index("pod/shop/monolith-") : demo.err.index("follow the advice")]
    assert "cpu" in advice.lower(), "the daemon's own advice"
    assert not re.search(r"^[IWE]\d{4} ", demo.err, re.MULTILINE), "the log is in a file"
    assert "Traceback" not in demo.err


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")
def test_what_it_shows_can_be_pasted(tmp_path: Path) -> None:
    with Process(tmp_path, "demo", "--story", "stuck", "--port", str(free_port())) as demo:
        demo.until_says("set resources")
        explain = f"{sys.executable} -m autoscaler explain group/general"
        pod = re.search(r"pod/shop/search-\S+[^:\s]", demo.err)
        assert pod is not None
        exported = re.search(r"export KUBECONFIG=\S+", demo.err)
        assert exported is not None
        pasted = demo.err[demo.err.index("  kubectl -n shop patch") :]
        script = f"set -e\n{exported[0]}\nkubectl get nodes,pods -A\nkubectl top nodes\n{explain} {pod[0]}\n{pasted}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert FIRST_NODE in done.stdout
        assert f"{pod[0]}: NoGroupFits" in done.stdout
        demo.until_says("The story ends")
        demo.send(signal.SIGTERM)
        assert demo.end() == 0, demo.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    with Process(tmp_path, "demo", "--port", str(port)) as demo:
        demo.until_says("Ctrl-C")
        until(lambda: get(port, "/status")[0] == 200, "the status page is served")
        demo.send(number)
        assert demo.end() == 0, demo.err
    assert left_behind(tmp_path) == []
    assert (get(port, "/status")[0], get(api_port(demo.err), "/readyz")[0]) == (0, 0)
    assert "Traceback" not in demo.err


def test_out_of_time_is_told_and_a_failure(tmp_path: Path) -> None:
    words = ("demo", "--until-settled", "--timeout", "1s", "-o", "json", "--port", str(free_port()))
    with Process(tmp_path, *words) as demo:
        assert demo.end() == 1, demo.err
    assert json.loads(demo.out)["settled"] is False
    assert left_behind(tmp_path) == []


class TestInProcess:
    def test_leaving_it_ends_every_thread(self) -> None:
        before = set(threading.enumerate())
        with Demo(SystemClock(), (), address="127.0.0.1:0") as demo:
            folder = demo.kubeconfig.parent
            assert folder.is_dir()
            assert not demo.look(demo.storyteller(print, attended=True)).settled
            assert set(threading.enumerate()) > before
        assert set(threading.enumerate()) - before == set()
        assert not folder.exists()

    @pytest.mark.parametrize(
        ("flags", "problem"),
        [
            pytest.param(("--scan-interval=soon",), "--scan-interval", id="a bad value"),
            pytest.param(("--scan-intervall=1s",), "did you mean", id="a misspelt flag"),
            pytest.param(("--config=mine.yaml",), "the story headroom has", id="a file beside that of the story"),
        ],
    )
    def test_bad_flags_leave_nothing_running(self, flags: tuple[str, ...], problem: str) -> None:
        before = set(threading.enumerate())
        demo = Demo(SystemClock(), flags, address="127.0.0.1:0", story="headroom")
        with pytest.raises(ConfigError, match=problem):
            demo.__enter__()
        assert set(threading.enumerate()) - before == set()
        assert not demo.kubeconfig.parent.exists()
