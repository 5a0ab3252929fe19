"""`kubectl autoscaler`: kubectl finds the programs of the package, runs one, and completes with the other."""

import configparser
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.clock import SystemClock
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage

ROOT = Path(__file__).parents[2]
Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
]


def install_programs(folder: Path) -> None:
    """Write the programs that setup.cfg declares, as an installation would."""
    config = configparser.ConfigParser(delimiters=("=",))
    config.read(ROOT / "setup.cfg")
    for line in config["options.entry_points"]["console_scripts"].strip().splitlines():
        name, _, target = line.partition(" = ")
        module, _, function = target.partition(":")
        program = folder / name
        program.write_text(f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
        program.chmod(0o755)


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    install_programs(tmp_path)
    storage = Storage(SystemClock())
    storage.create("nodes", {"metadata": {"name": "n1"}})
    with ApiServer(storage) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        environment = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "KUBECONFIG": str(tmp_path / "kubeconfig"),
            "PYTHONPATH": str(ROOT),
        }
        yield lambda *words: subprocess.run(
            ["kubectl", *words], env=environment, capture_output=True, text=True, timeout=60, check=False
        )


def test_it_explains(kubectl: Kubectl) -> None:
    done = kubectl("autoscaler", "explain", "node/n1")
    assert done.returncode == 0, done.stderr
    assert ": node/n1: " in done.stdout.splitlines()[0]


def test_a_mistake_names_the_plugin(kubectl: Kubectl) -> None:
    done = kubectl("autoscaler", "explian")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "explian: unknown subcommand; did you mean explain? (kubectl autoscaler --help lists them)\n"
    )


def test_it_completes(kubectl: Kubectl) -> None:
    done = kubectl("__complete", "autoscaler", "explain", "--daemon=")
    assert done.stdout.splitlines()[-1] == ":4"
    done = kubectl("__complete", "autoscaler", "provider", "ser")
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == ["serve", ":4"]
