"""The status ConfigMap in the cluster."""

import contextlib
from collections.abc import Callable

from autoscaler.errors import Gone
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.writes import ClusterWrites
from autoscaler.ports import Subject

KEY = "status"
LAST_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"


class ClusterStatusMap:
    """Writes and removes the ConfigMap that holds the status text."""

    def __init__(
        self,
        writes: ClusterWrites,
        namespace: str,
        name: str,
        identified: Callable[[Subject], None] = lambda about: None,
    ) -> None:
        """`identified` receives the reference of the ConfigMap, so that events about it are shown with it."""
        self._identified = identified
        self._writes = writes
        self._namespace = namespace
        self._name = name

    def put(self, text: str, last_updated: str) -> None:
        """Write the text; raises `AutoscalerError`."""
        uid = self._writes.put_config_map(self._namespace, self._name, {KEY: text}, {LAST_UPDATED: last_updated})
        self._identified(Subject("ConfigMap", self._name, self._namespace, uid))

    def remove(self) -> None:
        """Delete the ConfigMap; succeeds if it does not exist; raises other `AutoscalerError`s."""
        with contextlib.suppress(Gone):
            self._writes.delete(ObjectRef("v1", "ConfigMap", self._name, self._namespace))
