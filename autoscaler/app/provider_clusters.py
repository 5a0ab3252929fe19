"""The API servers that a provider may use: the autoscaled cluster's, and others to which the provider connects."""

from collections.abc import Callable

from autoscaler.actuation.node_api import ClusterNodeApi
from autoscaler.actuation.object_api import ClusterObjectApi
from autoscaler.clock import Clock
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.kube.client import Client, ClientSettings
from autoscaler.kube.dry_run import DryRunWrites, open_writes
from autoscaler.kube.writes import Writes
from autoscaler.ports import Leadership
from cloudprovider.interface import Misconfigured, NodeApi, ObjectApi


def client_settings(config: Config) -> ClientSettings:
    """Return the settings of connections to API servers."""
    kube = config.kube
    return ClientSettings(config.provider.user_agent, kube.kube_client_qps, kube.kube_client_burst)


class ProviderClusters:
    """Gives a provider access to clusters. Only the leader writes to any of them, and a dry run never writes."""

    def __init__(
        self, config: Config, own: Client | None, leadership: Leadership, clock: Clock, sleep: Callable[[float], bool]
    ) -> None:
        """`own` reaches the autoscaled cluster; None if there is no access to it.

        `sleep` waits for the given seconds and returns False if the program is stopping.
        """
        self._config = config
        self._own = own
        self._leadership = leadership
        self._clock = clock
        self._sleep = sleep
        self._others: list[Client] = []

    def node_api(self) -> NodeApi | None:
        """Return access to Nodes and ConfigMaps of the autoscaled cluster."""
        client = self._own
        return None if client is None else ClusterNodeApi(client, lambda: self._writes(client))

    def object_api(self) -> ObjectApi | None:
        """Return access to objects of any kind in the autoscaled cluster."""
        return None if self._own is None else self._objects(self._own)

    def connect(self, kubeconfig: str | None) -> ObjectApi:
        """Return access to another cluster; None means the one in which this pod runs. Raises `Misconfigured`."""
        try:
            client = Client.connect(
                kubeconfig, clock=self._clock, sleep=self._sleep, settings=client_settings(self._config)
            )
        except ConfigError as error:
            raise Misconfigured(str(error)) from error
        self._others.append(client)
        return self._objects(client)

    def close(self) -> None:
        """Close the connections to other clusters."""
        for client in self._others:
            client.close()

    def _objects(self, client: Client) -> ObjectApi:
        return ClusterObjectApi(client, lambda: self._writes(client))

    def _writes(self, client: Client) -> Writes | DryRunWrites:
        dry_run = self._config.loop.dry_run
        return open_writes(client, self._leadership, self._clock, self._sleep, dry_run=dry_run)
