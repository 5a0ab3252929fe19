"""The sandbox: cluster, cloud and the real daemon in one process, connected by HTTP."""

import tempfile
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from autoscaler.app.daemon import Daemon
from autoscaler.clock import Clock
from autoscaler.config.load import load
from autoscaler.config.tree import Config
from autoscaler.errors import AutoscalerError, ConfigError
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.cluster import SandboxCluster
from autoscaler.sandbox.demo_workload import demo_cloud, demo_workload
from cloudprovider.static.cloud import open_cloud

_OPTIONS: Mapping[str, Any] = {"cloud-provider": "static", "scan-interval": "3s", "expander": "least-waste"}


class DemoProgress(msgspec.Struct, frozen=True, rename="camel"):
    """How far the demo has come."""

    settled: bool
    """Whether every pod of the workload runs, or has run to its end."""
    seconds: float
    nodes_bought: int
    pods_running: int
    pods_pending: int


class Demo:
    """A context: inside it everything runs; leaving it stops everything in order."""

    def __init__(self, clock: Clock, flags: tuple[str, ...], *, address: str, api_port: int = 0) -> None:
        """`flags` are Cluster Autoscaler's and win over the demo's own. Raises `ConfigError` for bad ones."""
        self._clock = clock
        self._storage = Storage(clock)
        self._server = _api_server(self._storage, api_port)
        self._folder = tempfile.TemporaryDirectory(prefix="autoscaler-demo-")
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"
        self._cloud = open_cloud(demo_cloud(), now=lambda: clock.now().wall)
        self._cluster = SandboxCluster(clock, self._cloud, storage=self._storage)
        self._options = {**_OPTIONS, "address": address, "kubeconfig": str(self.kubeconfig)}
        self._flags = flags
        self._daemon: Daemon | None = None
        self._thread: threading.Thread | None = None
        self._error: AutoscalerError | None = None
        self._started_at = clock.now()
        self._initial_machines = len(self._cloud.machines())

    def __enter__(self) -> "Demo":
        self._server.start()
        self._server.write_kubeconfig(self.kubeconfig)
        try:
            demo_flags = [f"--{name}={value}" for name, value in self._options.items()]
            load_config = partial(load, [*demo_flags, *self._flags])
            config = load_config()
            if problems := list(_foreign_options(config, str(self.kubeconfig))):
                raise ConfigError(problems)
            self._daemon = Daemon(config, self._clock, {}, load_config)
        except AutoscalerError:
            self._stop_cluster()
            raise
        self._cluster.apply(demo_workload())
        self._cluster.start()
        self._thread = threading.Thread(target=self._run_daemon, args=(self._daemon,), name="daemon")
        self._thread.start()
        self._started_at = self._clock.now()
        return self

    def __exit__(self, *_: object) -> None:
        if self._daemon is not None:
            self._daemon.stop()
        if self._thread is not None:
            self._thread.join()
        self._stop_cluster()

    def _run_daemon(self, daemon: Daemon) -> None:
        try:
            daemon.run(self._cloud)
        except AutoscalerError as error:
            self._error = error

    def _stop_cluster(self) -> None:
        self._cluster.stop()
        self._server.stop()
        self._folder.cleanup()

    @property
    def api_url(self) -> str:
        """Where kubectl finds the cluster."""
        return self._server.url

    def progress(self) -> DemoProgress:
        """Return how far things are; raises what ended the daemon."""
        if self._error is not None:
            raise self._error
        counts = self._cluster.counts()
        machines_added = len(self._cloud.machines()) - self._initial_machines
        return DemoProgress(
            settled=counts.pending == 0 and self._all_ready(),
            seconds=round(self._clock.now().mono - self._started_at.mono, 1),
            nodes_bought=max(0, machines_added),
            pods_running=counts.pods.get("Running", 0),
            pods_pending=counts.pending,
        )

    def _all_ready(self) -> bool:
        """Whether every controller has as many ready pods as it wants."""
        for workload in self._storage.list("deployments.apps"):
            if workload.get("status", {}).get("readyReplicas", 0) < workload["spec"].get("replicas", 1):
                return False
        for workload in self._storage.list("daemonsets.apps"):
            status = workload.get("status", {})
            if not 0 < status.get("desiredNumberScheduled", 0) <= status.get("numberReady", 0):
                return False
        for job in self._storage.list("jobs.batch"):
            status = job.get("status", {})
            if status.get("ready", 0) + status.get("succeeded", 0) < 1:
                return False
        return True


def _foreign_options(config: Config, kubeconfig: str) -> Iterator[str]:
    """Yield a line for each option that names a cloud or a cluster: the demo has its own, and acts on no other."""
    provider, kube = config.provider, config.kube
    if provider.cloud_provider != _OPTIONS["cloud-provider"]:
        yield (
            f"--cloud-provider: the demo has a simulated cloud of its own; leave the flag out, or run the daemon with "
            f"{provider.cloud_provider}: autoscaler run --cloud-provider={provider.cloud_provider}"
        )
    options = {
        "cloud-config": provider.cloud_config,
        "nodes": provider.nodes,
        "node-group-auto-discovery": provider.node_group_auto_discovery,
        "kubeconfig": kube.kubeconfig if kube.kubeconfig != kubeconfig else None,
        "kubernetes": kube.kubernetes,
    }
    for name, value in options.items():
        if value:
            yield f"--{name}: the demo has a cluster and a cloud of its own; leave the flag out, or use autoscaler run"


def _api_server(storage: Storage, port: int) -> ApiServer:
    try:
        return ApiServer(storage, port=port)
    except OSError as error:
        raise ConfigError(f"--api-port: {port} cannot be listened on: {error.strerror or error}") from error
