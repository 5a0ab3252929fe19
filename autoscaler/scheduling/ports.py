"""Ports that pods claim on the node itself."""

import numpy as np

from autoscaler.objects.pod import PodClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import Bound, gate
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Positions, Trial


class PortGuard:
    """Keeps a class off nodes where a pod holds one of its ports. Source: the scheduler's NodePorts plug-in."""

    def __init__(self, cls: PodClass, trial: Trial) -> None:
        self._cls = cls
        self._taken: Positions = np.zeros(trial.count, dtype=np.int64)
        view = trial.view
        clashing = np.fromiter(
            (self._clashes(other) for other in view.classes), dtype=np.bool_, count=len(view.classes)
        )
        if clashing.any():
            np.add.at(self._taken, view.pod_nodes[clashing[view.pod_classes]], 1)
        for other, positions, counts in trial.moves():
            self.moved(other, positions, counts)
        trial.watch(self)

    def _clashes(self, other: PodClass) -> bool:
        return any(wanted.clashes(taken) for wanted in self._cls.host_ports for taken in other.host_ports)

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        self._cover(window.stop)
        free: Mask = self._taken[window] == 0
        return free

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        if self.mask(slice(position, position + 1))[0]:
            return None
        ports = ", ".join(f"{port.port}/{port.protocol}" for port in self._cls.host_ports)
        message = "node(s) didn't have free ports for the requested pod ports"
        return Rejection(NoFit.PORTS, message, f"one of the host ports {ports} is taken")

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Follow a placement; see `overlay.Watcher`."""
        if cls.host_ports and self._clashes(cls):
            self._cover(int(positions.max(initial=-1)) + 1)
            np.add.at(self._taken, positions, counts)

    def counts(self, cls: PodClass) -> bool:
        """Whether the class holds one of the ports; see `overlay.Watcher`."""
        return bool(cls.host_ports) and self._clashes(cls)

    def felt_elsewhere(self, cls: PodClass) -> bool:
        """Ports are taken on one node only; see `placement.Guard`."""
        return False

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come: one per node, where the ports are free."""
        return gate(self.mask(window), bool(self.mask(slice(fresh, fresh + 1))[0]), 1)

    def _cover(self, count: int) -> None:
        if count > len(self._taken):
            self._taken = np.concatenate([self._taken, np.zeros(count + count // 2, dtype=np.int64)])
