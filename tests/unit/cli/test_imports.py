"""The modules that a command imports before its work. A heavy package that it does not need takes most of its time."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLAN = ("plan", "--scenario", "docs/scenarios/pending-pods.yaml")
NETWORK = frozenset({"kubernetes", "urllib3", "prometheus_client", "http.client", "ssl"})
DAEMON = frozenset({"autoscaler.app.daemon", "autoscaler.kube.client", "autoscaler.observe.http.server"})
CLOUDS = frozenset({"boto3", "google.auth", "grpc", "azure.identity", "importlib.metadata"})
ENGINE = frozenset({"numpy", "autoscaler.loop", "autoscaler.scaleup", "autoscaler.scaledown", "autoscaler.explain"})
FLAGS = frozenset({"autoscaler.config.tree", "autoscaler.config.load", "autoscaler.cli.completion", "yaml", "tempfile"})
COMPLETION = ("__complete", "explain", "--")


def imported_by(words: tuple[str, ...]) -> frozenset[str]:
    """Return the modules that a process has imported when the command has done its work."""
    program = (
        "import sys\n"
        "from autoscaler.__main__ import run\n"
        f"sys.argv = ['autoscaler', *{words!r}]\n"
        "status = run()\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout
    return frozenset(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        pytest.param(("--help",), NETWORK | DAEMON | CLOUDS | ENGINE | FLAGS, id="help"),
        pytest.param(("config", "rules"), NETWORK | DAEMON | CLOUDS | ENGINE, id="config rules"),
        pytest.param(("config", "flags"), NETWORK | DAEMON | CLOUDS | ENGINE, id="config flags"),
        pytest.param(COMPLETION, NETWORK | DAEMON | CLOUDS | {"autoscaler.explain.explain"}, id="completion"),
        pytest.param(PLAN, NETWORK | DAEMON | CLOUDS | {"numpy.ma", "autoscaler.explain.node"}, id="plan"),
    ],
)
def test_a_command_imports_nothing_that_it_does_not_use(words: tuple[str, ...], spared: frozenset[str]) -> None:
    assert imported_by(words) & spared == set()


@pytest.mark.parametrize("name", sorted(NETWORK | DAEMON | CLOUDS | ENGINE | FLAGS))
def test_what_is_spared_exists(name: str) -> None:
    assert find_spec(name) is not None
