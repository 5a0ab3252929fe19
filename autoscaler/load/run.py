"""Creates generated pods in a test cluster, waits for them, keeps them for a while, and deletes them."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from urllib.parse import urlsplit

import msgspec

from autoscaler.clock import Clock
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError, Gone, NeverStarted, Refused, Stopped
from autoscaler.kube.client import Client, ClientSettings
from autoscaler.kube.election import Unopposed
from autoscaler.kube.writes import Writes
from autoscaler.load.cluster import LoadPods, PolledPod
from autoscaler.load.spec import LoadSpec, PodBatch, plan_load
from autoscaler.load.waiting import insist, wait_started

_LOCAL = ("127.0.0.1", "::1", "localhost")


class LoadOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome of one pod: seconds until it left Pending, or why it never did."""

    pod: str
    started_s: float | None = None
    failure: str = ""


def connect(config: Config, clock: Clock, sleep: Callable[[float], bool], allowed: Sequence[str] = ()) -> Client:
    """Connect to a cluster for the load; raises `ConfigError` for a cluster that is not allowed.

    `allowed` are host names of API servers that may get load, in addition to this machine.
    """
    kube = config.kube
    client = Client.connect(
        kube.kubeconfig,
        kube.kubernetes,
        clock=clock,
        sleep=sleep,
        settings=ClientSettings("autoscaler-load", kube.kube_client_qps, kube.kube_client_burst),
    )
    host = urlsplit(client.server).hostname or ""
    if host not in (*_LOCAL, *allowed):
        client.close()
        raise ConfigError(f"{client.server}: is not on this machine; if it is a test cluster, add --allow {host}")
    return client


class Generator:
    """Creates load in one namespace of one cluster."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        sleep: Callable[[float], bool],
        steady_sleep: Callable[[float], bool],
        namespace: str,
    ) -> None:
        """`sleep` returns False after a stop was requested. `steady_sleep` never does; the clean-up uses it."""
        self._clock = clock
        self._sleep = sleep
        self._steady_sleep = steady_sleep
        self._pods = LoadPods(client, Writes(client, Unopposed(), clock, steady_sleep), namespace)

    def run(self, load: LoadSpec, batch: str, most: int) -> tuple[PodBatch, list[LoadOutcome]]:
        """Create the pods of a batch, up to a total of `most` generated pods, and wait for them.

        Return the created pods and the outcome of each. Raises `Stopped`, and `RetryLater` if the API server is
        unreachable for more than 7 seconds.
        """
        plan = plan_load(load, batch, self._pods.live(), most, self._clock.now().wall)
        began = self._clock.now().mono
        refused = dict(self._create(plan))
        outcomes = [LoadOutcome(pod=name, failure=cause) for name, cause in refused.items()]
        for pod in plan.pods:
            name = pod["metadata"]["name"]
            if name not in refused:
                outcomes.append(self._wait(name, began, load.deadline_s))
        return plan, outcomes

    def keep(self, seconds: float) -> None:
        """Leave the load in place for this time; raises `Stopped`."""
        if not self._sleep(seconds):
            raise Stopped("stopped while the load was kept")

    def _create(self, plan: PodBatch) -> Iterator[tuple[str, str]]:
        """Create pods; yield name and cause for each pod that the API server rejects."""
        for pod in plan.pods:
            if not self._sleep(0.0):
                raise Stopped("stopped while pods were created")
            try:
                insist(partial(self._pods.create, pod), self._sleep)
            except (Refused, Gone) as error:
                yield pod["metadata"]["name"], f"it cannot be created: {error}"

    def _wait(self, name: str, began: float, deadline_s: float) -> LoadOutcome:
        pod = PolledPod(self._pods, name, self._clock, self._sleep)
        try:
            wait_started(pod, deadline_s, self._clock, self._sleep, began)
        except NeverStarted as error:
            return LoadOutcome(pod=name, failure=str(error))
        return LoadOutcome(pod=name, started_s=round(self._clock.now().mono - began, 1))

    def delete(self, batch: str) -> int:
        """Delete the pods of a batch, with the retries of `insist`; return their number."""
        there: list[int] = []
        insist(lambda: there.append(self._pods.delete_batch(batch)), self._steady_sleep)
        return there[-1]
