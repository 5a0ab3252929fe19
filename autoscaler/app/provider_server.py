"""Serves a cloud provider over gRPC: `autoscaler provider serve`."""

import threading
from collections.abc import Mapping

from autoscaler.app.provider import provider_context, provider_maker
from autoscaler.app.provider_clusters import ProviderClusters
from autoscaler.clock import Clock, ThreadExecutor
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.kube.client import Client
from autoscaler.kube.election import Unopposed
from autoscaler.logs import Log
from cloudprovider.externalgrpc.server import Credentials, Server
from cloudprovider.interface import Misconfigured, ProviderError

log = Log(__name__)
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


class ProviderServer:
    """Serves one provider at one address, until `stop`."""

    def __init__(
        self,
        config: Config,
        address: str,
        credentials: Credentials | None,
        clock: Clock,
        environment: Mapping[str, str],
    ) -> None:
        self._config = config
        self._address = address
        self._credentials = credentials
        self._clock = clock
        self._environment = environment
        self._stopping = threading.Event()
        self._listening = threading.Event()
        self._port = 0

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stopping.set()

    @property
    def port(self) -> int:
        """The port of the server; waits until it listens."""
        self._listening.wait()
        return self._port

    def run(self) -> None:
        """Answer calls until `stop`. Raises `ConfigError`, and `RetryLater` if the cloud is unreachable at
        the start.
        """
        executor = ThreadExecutor(1)
        client = self._client(executor)
        clusters = ProviderClusters(self._config, client, Unopposed(), self._clock, executor.sleep)
        try:
            context = provider_context(self._config, self._clock, clusters, self._environment)
            provider = provider_maker(self._config, context, None, has_remote=False)()
            try:
                server = Server(provider, self._address, self._credentials, lambda: self._clock.now().wall)
            except Misconfigured as error:
                raise ConfigError(str(error)) from error
            try:
                provider.refresh(self._clock.now().wall)
            except ProviderError as error:
                log.warning("provider.unavailable", error=str(error), next="waiting for clients to ask")
            server.start()
            self._port = server.port
            log.info(
                "provider.served", provider=provider.name, port=server.port, encrypted=self._credentials is not None
            )
            self._listening.set()
            self._stopping.wait()
            server.stop()
            provider.close()
        finally:
            self._listening.set()
            executor.stop()
            clusters.close()
            if client is not None:
                client.close()

    def _client(self, executor: ThreadExecutor) -> Client | None:
        """Connect to the cluster if one is named or this is a pod of one; some providers store their state there."""
        kube = self._config.kube
        if not (kube.kubeconfig or kube.kubernetes or self._environment.get(_IN_CLUSTER)):
            return None
        return Client.connect(kube.kubeconfig, kube.kubernetes, clock=self._clock, sleep=executor.sleep)
