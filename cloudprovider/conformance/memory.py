"""A cluster's objects in memory, for providers that keep their state there."""

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from cloudprovider.interface import NotFound, ProviderError


class MemoryNodeApi:
    """A `NodeApi` without a cluster. `calls` counts requests for `CountsCalls`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, Mapping[str, Any]] = {}
        self._config_maps: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._failures: list[ProviderError] = []
        self.calls = 0

    def put_config_map(self, namespace: str, name: str, data: Mapping[str, str]) -> None:
        """Store a ConfigMap."""
        self._config_maps[(namespace, name)] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": namespace, "name": name},
            "data": dict(data),
        }

    def fail_next(self, error: ProviderError) -> None:
        """Make the next call that creates or deletes a node fail."""
        self._failures.append(error)

    def get_config_map(self, namespace: str, name: str) -> Mapping[str, Any]:
        """Return a v1.ConfigMap; `NotFound` if it does not exist."""
        with self._lock:
            self.calls += 1
            if (namespace, name) not in self._config_maps:
                raise NotFound(f'configmaps "{name}" not found')
            return copy.deepcopy(self._config_maps[(namespace, name)])

    def list_nodes(self) -> Sequence[Mapping[str, Any]]:
        """Return all v1.Nodes."""
        with self._lock:
            self.calls += 1
            return [copy.deepcopy(node) for node in self._nodes.values()]

    def create_node(self, node: Mapping[str, Any]) -> None:
        """Create a v1.Node; `ProviderError` if the name is taken."""
        with self._lock:
            self.calls += 1
            self._fail_if_told()
            name = node["metadata"]["name"]
            if name in self._nodes:
                raise ProviderError(f'nodes "{name}" already exists')
            self._nodes[name] = copy.deepcopy(dict(node))

    def delete_node(self, name: str) -> None:
        """Delete a v1.Node; absent is fine."""
        with self._lock:
            self.calls += 1
            self._fail_if_told()
            self._nodes.pop(name, None)

    def _fail_if_told(self) -> None:
        if self._failures:
            raise self._failures.pop(0)
