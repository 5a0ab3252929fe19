"""The commands of the walk-throughs and of the migration, word for word, against the sandbox's API server.

What needs a cloud or a real kubelet is left out: blocks with other programs than kubectl and the shell's.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from autoscaler.config.load import load
from tests.e2e.replica import HOME, Sandbox

ROOT = Path(__file__).parents[2]
OVERLAYS = sorted(path.name for path in (ROOT / "manifests" / "overlays").iterdir())
_SHELL = {"kubectl", "mkdir", "cp", "sed", "cat"}
_NOT_HERE = re.compile(r" logs | port-forward |demo\.kubeconfig|kubectl (patch|delete) cluster")
_VALUES = {
    "CLUSTER": "demo",
    "REGION": "eu-west-1",
    "ACCOUNT": "111122223333",
    "PROJECT": "my-project",
    "SUBSCRIPTION": "00000000-0000-0000-0000-000000000000",
    "NODES": "MC_demo_demo_westeurope",
    "CLIENT": "00000000-0000-0000-0000-000000000001",
    "IMAGE": "registry.example.com/node-autoscaler",
}
"""What commands that need a cloud would have put into the environment."""
_READY = {
    "conditions": [{"type": "Ready", "status": "True"}],
    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
}

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
]


class Shell:
    """Runs blocks of a page in a copy of what a clone has."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.storage = sandbox.storage
        self._folder = folder
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            **_VALUES,
            "KUBECONFIG": str(sandbox.kubeconfig),
        }

    def __call__(self, block: str) -> str:
        """Run it, expect success, return what it printed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        return done.stdout

    def words(self, deployment: str) -> list[str]:
        """Return the image of a Deployment, and its command line."""
        container = self.storage.get("deployments", deployment, namespace=HOME)["spec"]["template"]["spec"][
            "containers"
        ][0]
        return [container["image"], *container.get("command", []), *container.get("args", [])]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Sandbox(tmp_path) as sandbox:
        annotations = {"kwok.x-k8s.io/node": "fake"}  # so that its kubelet is played
        sandbox.storage.create("nodes", {"metadata": {"name": "n1", "annotations": annotations}, "status": _READY})
        sandbox.storage.create("leases", {"metadata": {"name": "cluster-autoscaler", "namespace": HOME}})
        shutil.copytree(ROOT / "manifests", tmp_path / "clone" / "manifests")
        yield Shell(sandbox, tmp_path / "clone")


def blocks(page: str) -> list[str]:
    """Return the blocks of a page that can run here."""
    found = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    return [block for block in found if not _NOT_HERE.search(block) and programs(block) <= _SHELL]


def programs(block: str) -> set[str]:
    """Return the first words of the commands of a block."""
    commands = re.sub(r"<<'?END'?\n.*?\nEND\n", "\n", block, flags=re.DOTALL).replace("\\\n", " ").splitlines()
    return {command.split()[0] for command in commands if command.strip()}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_api_server_takes_every_overlay(shell: Shell, overlay: str) -> None:
    done = shell(f"kubectl apply -k manifests/overlays/{overlay}").splitlines()
    assert any(line.startswith("deployment.apps/") for line in done)
    shell(f"kubectl delete -k manifests/overlays/{overlay}")
    assert shell.storage.list("deployments") == []


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs" / "walkthroughs").iterdir()))
def test_a_walkthrough_installs_what_it_says_and_leaves_nothing(shell: Shell, page: str) -> None:
    ran: Sequence[str] = blocks(f"walkthroughs/{page}")
    applied = next(number for number, block in enumerate(ran) if "kubectl apply -k" in block)
    for block in ran[: applied + 1]:
        shell(block)
    image, *words = shell.words("cluster-autoscaler")
    assert not any("YOUR" in word or "my-cluster" in word for word in words)
    config = load([word for word in words if word.startswith("--")])
    assert config.scale_down.scale_down_unneeded_time_s in (60.0, 120.0)
    assert image.endswith(":0.1.0")
    for block in ran[applied + 1 :]:
        shell(block)
    assert shell.storage.list("deployments") == shell.storage.list("clusterroles") == []
    assert shell.storage.list("leases") == [] or page == "cluster-api.md"  # there it is in the other cluster


CLUSTER_AUTOSCALER = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system, labels: {app: cluster-autoscaler}}
spec:
  selector: {matchLabels: {app: cluster-autoscaler}}
  template:
    metadata: {labels: {app: cluster-autoscaler}}
    spec:
      containers:
        - name: cluster-autoscaler
          image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0
          command: [./cluster-autoscaler, --cloud-provider=kwok, --namespace=kube-system, --logtostderr=true, --v=4]
"""


def test_the_migration_works_word_for_word(shell: Shell) -> None:
    shell(f"kubectl apply -f - <<'END'\n{CLUSTER_AUTOSCALER}\nEND\n")
    before = shell.words("cluster-autoscaler")
    keep, dry_run, *trial, change, back = blocks("migrating-from-cluster-autoscaler.md")
    shell(keep)
    shell(dry_run)
    image, *words = shell.words("cluster-autoscaler-dry-run")
    assert words == [*before[1:], "--dry-run", "--scan-interval=2s"]
    assert load(words[1:]).loop.dry_run
    assert shell.words("cluster-autoscaler") == before
    for block in trial:
        shell(block)
    shell(change)
    assert shell.words("cluster-autoscaler") == [image, *before[1:]]
    assert [found["metadata"]["name"] for found in shell.storage.list("deployments")] == ["cluster-autoscaler"]
    shell(back)
    assert shell.words("cluster-autoscaler") == before
