"""Puts generated pods into a test cluster, waits for them, and takes them out again."""

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

import msgspec

from autoscaler.actuation.load import LoadPods, PolledPod
from autoscaler.actuation.waiting import NeverStarted, wait_started
from autoscaler.clock import Clock
from autoscaler.companions.load import Batch, Load, plan_load
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.kube.client import Client, ClientSettings
from autoscaler.kube.election import Unopposed
from autoscaler.kube.writes import Writes

_LOCAL = ("127.0.0.1", "::1", "localhost")


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of one pod: seconds until it left Pending, or why it never did."""

    pod: str
    started_s: float | None = None
    failure: str = ""


class Generator:
    """Speaks to one cluster. Raises `ConfigError` for a cluster that nobody named."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        sleep: Callable[[float], bool],
        *,
        namespace: str,
        allowed: Sequence[str] = (),
    ) -> None:
        """`allowed` are host names of API servers, beside this machine's own, that may get load."""
        kube = config.kube
        self._client = Client.connect(
            kube.kubeconfig,
            kube.kubernetes,
            clock=clock,
            sleep=sleep,
            settings=ClientSettings("autoscaler-load", kube.kube_client_qps, kube.kube_client_burst),
        )
        host = urlsplit(self._client.server).hostname or ""
        if host not in (*_LOCAL, *allowed):
            raise ConfigError(
                f"{self._client.server}: is not on this machine; if it is a test cluster, add --allow {host}"
            )
        self._clock = clock
        self._sleep = sleep
        self._pods = LoadPods(self._client, Writes(self._client, Unopposed(), clock, sleep), namespace)

    def create(self, load: Load, batch: str, most: int) -> Batch:
        """Make the pods of a batch, as many as fit under `most` generated pods in all."""
        plan = plan_load(load, batch, len(self._pods.live()), most, self._clock.now().wall)
        for pod in plan.pods:
            self._pods.create(pod)
        return plan

    def wait(self, batch: Batch, deadline_s: float) -> Iterator[Outcome]:
        """Yield what becomes of each pod; one that does not start in time is deleted."""
        began = self._clock.now().mono
        for pod in batch.pods:
            name = pod["metadata"]["name"]
            left_s = deadline_s - (self._clock.now().mono - began)
            try:
                wait_started(PolledPod(self._pods, name, self._clock, self._sleep), left_s, self._clock, self._sleep)
            except NeverStarted as error:
                yield Outcome(pod=name, failure=str(error))
            else:
                yield Outcome(pod=name, started_s=round(self._clock.now().mono - began, 1))

    def delete(self, batch: str) -> int:
        """Delete the pods of a batch; return how many there were."""
        return self._pods.delete_batch(batch)

    def close(self) -> None:
        """Drop connections."""
        self._client.close()
