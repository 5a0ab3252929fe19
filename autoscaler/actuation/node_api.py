"""Nodes and ConfigMaps for providers that keep their state in the cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from autoscaler.errors import AutoscalerError, Gone, RetryLater
from autoscaler.errors import Conflict as ObjectChanged
from autoscaler.kube import paths
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.reader import ApiReader
from autoscaler.kube.whole_objects import json_object, json_objects
from autoscaler.kube.writes import ClusterWrites
from cloudprovider.interface import Conflict, NotFound, ProviderError, Transient


@contextmanager
def as_provider_errors() -> Iterator[None]:
    """Convert errors of the API server to errors of the provider contract."""
    try:
        yield
    except Gone as error:
        raise NotFound(str(error)) from error
    except ObjectChanged as error:
        raise Conflict(str(error)) from error
    except RetryLater as error:
        raise Transient(str(error)) from error
    except AutoscalerError as error:
        raise ProviderError(str(error)) from error


class ClusterNodeApi:
    """A `cloudprovider.interface.NodeApi` on the API server; it calls `writes` when it first needs to write."""

    def __init__(self, client: ApiReader, writes: Callable[[], ClusterWrites]) -> None:
        self._client = client
        self._writes = writes

    def get_config_map(self, namespace: str, name: str) -> Mapping[str, Any]:
        """Return a v1.ConfigMap."""
        with as_provider_errors():
            return json_object(self._client.get(paths.path(ObjectRef("v1", "ConfigMap", name, namespace))))

    def list_nodes(self) -> Sequence[Mapping[str, Any]]:
        """Return all v1.Nodes."""
        with as_provider_errors():
            return json_objects(self._client.get(paths.collection("v1", "Node")))

    def create_node(self, node: Mapping[str, Any]) -> None:
        """Create a v1.Node."""
        with as_provider_errors():
            self._writes().create({"apiVersion": "v1", "kind": "Node", **node})

    def delete_node(self, name: str) -> None:
        """Delete a v1.Node; succeeds if it does not exist."""
        with as_provider_errors():
            try:
                self._writes().delete(ObjectRef("v1", "Node", name))
            except Gone:
                return
