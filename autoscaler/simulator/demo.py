"""The sandbox: cluster, cloud and the real daemon in one process, connected by HTTP."""

import tempfile
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from autoscaler.app.daemon import Daemon
from autoscaler.clock import Clock
from autoscaler.config.arguments import parse_flags
from autoscaler.config.load import load
from autoscaler.config.tree import Config
from autoscaler.errors import AutoscalerError, ConfigError
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.cluster import SandboxCluster
from autoscaler.simulator.demo_stories import BASIC, STORIES
from autoscaler.simulator.storyteller import Say, Storyteller
from cloudprovider.static.cloud import open_cloud

OPTIONS: Mapping[str, Any] = {
    "cloud-provider": "static",
    "scan-interval": "3s",
    "expander": "cost",
    "scale-down-unneeded-time": "10s",
    "scale-down-delay-after-add": "10s",
    "unremovable-node-recheck-timeout": "10s",
}
"""Flags that make nodes come and go while the user watches."""
_SERVICE = "cluster-autoscaler"
"""Name under which the API server's proxy reaches the daemon."""
_PATIENCE_S = 60.0


class DemoProgress(msgspec.Struct, frozen=True, rename="camel"):
    """The progress of the demo."""

    settled: bool
    """Whether the story has ended and every pod runs or has completed."""
    seconds: float
    nodes_bought: int
    pods_running: int
    pods_pending: int
    nodes_removed: int
    story: str


class _Advice(msgspec.Struct, frozen=True):
    text: str


class _PodAdvice(msgspec.Struct, frozen=True):
    remedy: _Advice | None = None


class _ExplainAnswer(msgspec.Struct, frozen=True):
    """The part of the daemon's answer to `/api/v1/explain` that the demo reads."""

    explanation: _PodAdvice | None = None


class Demo:
    """A context manager: everything runs inside the block, and stops in order at its end."""

    def __init__(
        self, clock: Clock, flags: tuple[str, ...], *, address: str, api_port: int = 0, story: str = BASIC
    ) -> None:
        """`flags` are Cluster Autoscaler's and override the demo's own. Raises `ConfigError` for invalid ones."""
        self._clock = clock
        self._name, self.story = story, STORIES[story]()
        self._storage = Storage(clock)
        self._server = _api_server(self._storage, api_port)
        self._folder = tempfile.TemporaryDirectory(prefix="autoscaler-demo-")
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"
        self.log = Path(self._folder.name) / "log"
        """Called with information for the log."""
        self._cloud = open_cloud(self.story.cloud, now=lambda: clock.now().wall)
        self._cluster = SandboxCluster(clock, self._cloud, storage=self._storage)
        self._options = {**OPTIONS, "address": address, "kubeconfig": str(self.kubeconfig)}
        self._flags = flags
        self._daemon: Daemon | None = None
        self._thread: threading.Thread | None = None
        self._error: AutoscalerError | None = None
        self._started_at = clock.now()

    def __enter__(self) -> "Demo":
        self._server.start()
        self._server.write_kubeconfig(self.kubeconfig)
        try:
            load_config = partial(load, [*self._own_flags(), *self._flags])
            config = load_config()
            if problems := list(_foreign_options(config, str(self.kubeconfig))):
                raise ConfigError(problems)
            self._daemon = Daemon(config, self._clock, {}, load_config)
            self._server.expose(config.kube.namespace, _SERVICE, self._daemon_url)
        except AutoscalerError:
            self._stop_cluster()
            raise
        self._cluster.apply(self.story.objects)
        self._cluster.step()
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

    def _own_flags(self) -> list[str]:
        """Return the demo's flags, and write the story's configuration file; raises `ConfigError`."""
        options = dict(self._options)
        if self.story.document:
            if "config" in parse_flags(self._flags).values:
                raise ConfigError(f"--config: the story {self._name} has a configuration file of its own")
            file = Path(self._folder.name) / "config.yaml"
            file.write_text(self.story.document)
            options["config"] = str(file)
        return [f"--{name}={value}" for name, value in options.items()]

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
        """The address at which kubectl finds the cluster."""
        return self._server.url

    def storyteller(self, say: Say, *, attended: bool) -> Storyteller:
        """Return the storyteller of this demo; call it inside the context."""
        return Storyteller(self.story, self._cluster, self._cloud, self._advice, say, attended=attended)

    def look(self, teller: Storyteller) -> DemoProgress:
        """Advance the story, and return the progress; raises the error that ended the daemon."""
        if self._error is not None:
            raise self._error
        seconds = self._clock.now().mono - self._started_at.mono
        teller.look(seconds)
        return DemoProgress(
            settled=teller.ended and teller.scene.settled,
            seconds=round(seconds, 1),
            nodes_bought=teller.nodes_bought,
            pods_running=teller.scene.running,
            pods_pending=teller.scene.pending,
            nodes_removed=teller.nodes_removed,
            story=self._name,
        )

    def _daemon_url(self) -> str:
        return "" if self._daemon is None else f"http://127.0.0.1:{self._daemon.port}"

    def _advice(self, pod: str) -> str | None:
        """Ask the daemon over HTTP, as any client would, for the change that would help a pod."""
        where = f"{self._daemon_url()}/api/v1/explain"
        try:
            answer = urllib3.request("GET", where, fields={"pod": pod}, timeout=_PATIENCE_S, retries=False)
        except HTTPError:
            return None
        if answer.status != HTTPStatus.OK:
            return None
        explained = msgspec.json.decode(answer.data, type=_ExplainAnswer).explanation
        return None if explained is None or explained.remedy is None else explained.remedy.text


def _foreign_options(config: Config, kubeconfig: str) -> Iterator[str]:
    """Yield a line for each option that names a cloud or a cluster. The demo has its own, and changes no other."""
    provider, kube = config.provider, config.kube
    if provider.cloud_provider != OPTIONS["cloud-provider"]:
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
