"""Which fake nodes exist: what the last refresh listed, corrected by what was created and deleted since."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from cloudprovider.interface import NodeApi, NodeRef
from cloudprovider.kwok.config import GROUP_ANNOTATION, PROVIDER_ID_PREFIX, is_fake


class Roster:
    """The fake nodes of every group by name. Every method is safe from any thread and holds the lock only briefly."""

    def __init__(self, api: NodeApi, groups: Iterable[str]) -> None:
        self.api = api
        self._groups = frozenset(groups)
        self._lock = threading.Lock()
        self._live: dict[str, str] = {}
        self._deleting: dict[str, str] = {}
        self._changed: dict[str, str | None] = {}

    def refresh(self) -> None:
        """List the cluster's nodes. Nodes that other threads create or delete in the meantime override the list."""
        with self._lock:
            self._changed.clear()
        listed = [node for node in self.api.list_nodes() if is_fake(node)]
        live, deleting = self._sorted(listed)
        with self._lock:
            for name, group in self._changed.items():
                if group is None:
                    live.pop(name, None)
                else:
                    live[name] = group
            self._live, self._deleting = live, deleting

    def created(self, name: str, group: str) -> None:
        """Note a new node."""
        with self._lock:
            self._live[name] = self._changed[name] = group

    def deleted(self, name: str) -> None:
        """Note that a node was deleted."""
        with self._lock:
            self._live.pop(name, None)
            self._changed[name] = None

    def is_taken(self, name: str) -> bool:
        """Whether a fake node has this name."""
        with self._lock:
            return name in self._live or name in self._deleting

    def live(self, group: str) -> list[str]:
        """Return the names of a group's nodes that are not being deleted."""
        with self._lock:
            return [name for name, owner in self._live.items() if owner == group]

    def deleting(self, group: str) -> list[str]:
        """Return the names of a group's nodes whose deletion waits for something, such as a finalizer."""
        with self._lock:
            return [name for name, owner in self._deleting.items() if owner == group]

    def owner(self, node: NodeRef) -> str | None:
        """Return the group of a fake node, by its provider id. Placeholders have the id as their name, too."""
        name = name_of(node)
        with self._lock:
            return None if name is None else self._live.get(name) or self._deleting.get(name)

    def _sorted(self, nodes: Iterable[Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
        live: dict[str, str] = {}
        deleting: dict[str, str] = {}
        for node in nodes:
            metadata = node["metadata"]
            group = metadata["annotations"].get(GROUP_ANNOTATION)
            if group in self._groups:
                (deleting if metadata.get("deletionTimestamp") else live)[metadata["name"]] = group
        return live, deleting


def name_of(node: NodeRef) -> str | None:
    """Return the name of the fake node; None if the provider id is of another kind of node."""
    if not node.provider_id.startswith(PROVIDER_ID_PREFIX):
        return None
    return node.provider_id.removeprefix(PROVIDER_ID_PREFIX)
