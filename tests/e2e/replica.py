"""Clusters to run daemons against, and daemons: on threads of the test, or as processes of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autoscaler.app.daemon import Daemon
from autoscaler.clock import SystemClock
from autoscaler.config.load import load
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.request_log import RequestAttributes
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.cluster import SandboxCluster
from cloudprovider.interface import CloudProvider, NodeTemplate
from cloudprovider.static.cloud import StaticCloud, open_cloud
from cloudprovider.static.spec import BootDelay, CloudSpec, GroupSpec

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
HOME = "kube-system"
LEASE_S, RETRY_S = 6.0, 0.5
READING = {"get", "list", "watch"}

QUICK = (
    "--scan-interval=500ms",
    "--min-pass-interval=200ms",
    "--bypassed-scheduler-names=nobody",  # which also lifts the wait until pods are two seconds old
    "--kube-client-qps=100",
    "--kube-client-burst=100",
    f"--leader-elect-lease-duration={LEASE_S:g}s",
    "--leader-elect-renew-deadline=4s",
    f"--leader-elect-retry-period={RETRY_S:g}s",
)
"""Everything faster than usual."""
PATIENT_LEADER = ("--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=80s")
"""Outlives an API server that is gone for a while."""

_TIMING = Timing(
    cloud_poll_s=0.1, register_s=0.1, ready_s=0.2, lost_s=0.2, orphan_s=0.2, pull_s=0.1, start_s=0.1, stop_s=0.1
)
_KWOK_CONFIG = """
apiVersion: v1alpha1
readNodesFrom: configmap
nodegroups: {fromNodeLabelKey: pool}
nodes: {skipTaint: true}
configmap: {name: kwok-provider-templates}
"""
_KWOK_TEMPLATE = """
apiVersion: v1
kind: Node
metadata:
  name: worker
  labels: {pool: worker}
  annotations: {cluster-autoscaler.kwok.nodegroup/min-count: "%d"}
status:
  allocatable: {cpu: "1", memory: 4Gi, pods: "110"}
  capacity: {cpu: "1", memory: 4Gi, pods: "110"}
"""


def until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until the condition holds."""
    pause = threading.Event()
    deadline = SystemClock().now().mono + patience_s
    while not condition():
        if SystemClock().now().mono > deadline:
            pytest.fail(f"not within {patience_s:g} s: {what}")
        pause.wait(0.02)


def now_wall() -> float:
    """Return Unix seconds."""
    return SystemClock().now().wall


def a_cloud(*groups: str) -> StaticCloud:
    """Start a cloud of `a_spec`."""
    return open_cloud(a_spec(*groups), now=now_wall)


def a_spec(*groups: str) -> CloudSpec:
    """Return groups of machines on which one pod of 1 CPU fits; they boot within half a second."""
    amounts = {"cpu": "1", "memory": "4Gi", "pods": "110"}
    specs = [
        GroupSpec(
            id=group,
            min_size=0,
            max_size=10,
            template=NodeTemplate(labels={"pool": group}, capacity=amounts, allocatable=amounts),
            boot=BootDelay(0.2, 0.5),
        )
        for group in groups
    ]
    return CloudSpec(groups=specs)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(port: int, path: str) -> tuple[int, str]:
    """Ask a daemon's HTTP server; 0 where it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def get_json(port: int, path: str) -> Any:
    """Ask a daemon's HTTP server for what has to be there."""
    status, body = get(port, path)
    assert status == 200, body
    return json.loads(body)


class Sandbox:
    """A cluster behind an API server; inside the context it runs."""

    def __init__(self, folder: Path, cloud: StaticCloud | None = None, *, port: int = 0, kwok_min: int = 0) -> None:
        clock = SystemClock()
        self.cloud = cloud
        self.storage = Storage(clock)
        self.server = ApiServer(self.storage, port=port, bookmark_every_s=1.0)
        self.cluster = SandboxCluster(clock, cloud, storage=self.storage, timing=_TIMING)
        self.kubeconfig = folder / "kubeconfig"
        if cloud is None:
            self._put_kwok_groups(kwok_min)

    def __enter__(self) -> "Sandbox":
        self.server.start()
        self.server.write_kubeconfig(self.kubeconfig)
        self.cluster.start(tick_s=0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.faults.clear()
        self.cluster.stop()
        self.server.stop()

    def _put_kwok_groups(self, min_size: int) -> None:
        texts = {
            "kwok-provider-config": {"config": _KWOK_CONFIG},
            "kwok-provider-templates": {"templates": _KWOK_TEMPLATE % min_size},
        }
        for name, data in texts.items():
            self.storage.create("configmaps", {"metadata": {"name": name, "namespace": HOME}, "data": data})

    def deploy(self, name: str, replicas: int, *, cpu: str = "900m", **spec: Any) -> None:
        """Ask for replicas and wait until their pods are there; each needs a whole machine unless told otherwise."""
        requests = {"requests": {"cpu": cpu, "memory": "1Gi"}}
        pod = {"containers": [{"name": "main", "image": "none", "resources": requests}], **spec}
        labels = {"app": name}
        self.cluster.apply(
            [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": name, "namespace": "default", "labels": labels},
                    "spec": {
                        "replicas": replicas,
                        "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": pod},
                    },
                }
            ]
        )
        until(lambda: self._pods_of(name) == replicas, f"there are {replicas} pods of {name}")

    def _pods_of(self, app: str) -> int:
        return sum(pod["metadata"].get("labels", {}).get("app") == app for pod in self.storage.list("pods"))

    def running(self) -> int:
        """Count the pods that run."""
        return self.cluster.counts().pods.get("Running", 0)

    def until_running(self, count: int) -> None:
        """Wait until that many pods run and none waits."""
        until(lambda: self.running() == count, f"{count} pods run: {self.cluster.counts()}")

    def targets(self) -> dict[str, int]:
        """Return the cloud's target sizes."""
        assert self.cloud is not None
        return {group.id: group.target_size() for group in self.cloud.groups()}

    def nodes(self) -> list[str]:
        """Return the names of the nodes."""
        return [node["metadata"]["name"] for node in self.storage.list("nodes")]

    def lease(self) -> dict[str, Any]:
        """Return what the lease says; empty where there is none."""
        leases = self.storage.list("leases", namespace=HOME)
        return dict(leases[0]["spec"]) if leases else {}

    def holder(self) -> str:
        """Return who holds the lease; empty where nobody does."""
        return str(self.lease().get("holderIdentity") or "")

    def status_map(self) -> dict[str, Any] | None:
        """Return the status ConfigMap."""
        found = [
            config_map
            for config_map in self.storage.list("configmaps")
            if config_map["metadata"]["name"].endswith("-status")
        ]
        return found[0] if found else None

    def asked(self, user_agent: str) -> list[RequestAttributes]:
        """Return what a replica asked the API server."""
        return self.server.requests.entries(user_agent=user_agent)

    def written(self, user_agent: str) -> list[tuple[str, str]]:
        """Return verb and resource of what a replica asked to be changed."""
        return [(one.verb, one.resource) for one in self.asked(user_agent) if one.verb not in READING]


class Replica:
    """A daemon on a thread; leaving the context stops it. What ended it is kept."""

    def __init__(
        self, kubeconfig: Path, *flags: str, provider: CloudProvider | None = None, name: str = "replica"
    ) -> None:
        words = [f"--kubeconfig={kubeconfig}", "--address=127.0.0.1:0", f"--user-agent={name}", *QUICK, *flags]
        self.name = name
        read = partial(load, words)
        self.daemon = Daemon(read(), SystemClock(), {}, read)
        self.status: int | None = None
        self.error: BaseException | None = None
        self._provider = provider
        self._thread = threading.Thread(target=self._run, name=name)

    def _run(self) -> None:
        try:
            self.status = self.daemon.run(self._provider)
        except BaseException as error:  # noqa: BLE001 - the top of a thread: the test looks at it
            self.error = error

    def start(self) -> "Replica":
        self._thread.start()
        return self

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> int | None:
        """Stop it and return the exit status."""
        self.daemon.stop()
        return self.end()

    def end(self) -> int | None:
        """Wait for its end and return the exit status."""
        self._thread.join(PATIENCE_S)
        assert not self.alive, "the daemon does not end"
        if self.error is not None:
            raise self.error
        return self.status

    def get(self, path: str) -> tuple[int, str]:
        return get(self.daemon.port, path)

    def json(self, path: str) -> Any:
        return get_json(self.daemon.port, path)

    def __enter__(self) -> "Replica":
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.alive:
            self.stop()


class Process:
    """The command as a process; leaving the context kills what is left of it."""

    def __init__(self, folder: Path, *words: str, name: str = "command", plugins: Path | None = None) -> None:
        """`plugins` has distributions beside those that are installed."""
        self.name = name
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder)}
        if plugins is not None:
            environment["PYTHONPATH"] = str(plugins)
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "autoscaler", *words], cwd=ROOT, env=environment, stdout=out, stderr=err
            )

    @classmethod
    def daemon(
        cls, folder: Path, kubeconfig: Path, *flags: str, name: str = "replica", plugins: Path | None = None
    ) -> "Process":
        """Start the daemon."""
        usual = (f"--kubeconfig={kubeconfig}", "--address=127.0.0.1:0", f"--user-agent={name}", *QUICK)
        given = (flag for flag in flags if flag.startswith("--"))
        return cls(folder, *_spread(flags), *usual, *given, name=name, plugins=plugins)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Wait for its end and return the exit status."""
        return self._process.wait(PATIENCE_S)

    def until_says(self, text: str) -> None:
        """Wait until it has written this to standard error."""
        until(lambda: text in self.err or not self.alive, f"{self.name} says {text!r}; it said: {self.err}")
        assert text in self.err

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self.alive:
            self._process.kill()
        self._process.wait(PATIENCE_S)


def _spread(flags: Sequence[str]) -> list[str]:
    """Return the words before the flags: the subcommand, if there is one."""
    return [word for word in flags if not word.startswith("--")]
