"""How many pods of some classes are on each node."""

from collections.abc import Callable

import numpy as np

from autoscaler.objects.pod import PodClass
from autoscaler.snapshot.overlay import Positions, Trial


class Presence:
    """Pods of some classes by node, following the trial."""

    def __init__(self, trial: Trial, chosen: Callable[[PodClass], bool]) -> None:
        self._chosen = chosen
        self._pods: Positions = np.zeros(trial.count, dtype=np.int64)
        self.total = 0
        view = trial.view
        present = np.fromiter((chosen(cls) for cls in view.classes), dtype=np.bool_, count=len(view.classes))
        if present.any():
            at = view.pod_nodes[present[view.pod_classes]]
            np.add.at(self._pods, at, 1)
            self.total = len(at)
        for cls, positions, counts in trial.moves():
            if chosen(cls):
                self.moved(cls, positions, counts)
        trial.watch(self)

    def counts(self, cls: PodClass) -> bool:
        """Whether pods of the class are counted; see `overlay.Watcher`."""
        return self._chosen(cls)

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Follow a placement; see `overlay.Watcher`."""
        self._cover(int(positions.max(initial=-1)) + 1)
        np.add.at(self._pods, positions, counts)
        self.total += int(counts.sum())

    def at(self, window: slice) -> Positions:
        """Return how many are on each node of the window."""
        self._cover(window.stop)
        return self._pods[window]

    def _cover(self, count: int) -> None:
        if count > len(self._pods):
            self._pods = np.concatenate([self._pods, np.zeros(count + count // 2, dtype=np.int64)])
