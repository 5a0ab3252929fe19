"""Computes the utilisation of each node, which decides whether the node may be unneeded.

A GPU node is judged by its GPUs alone, one with pools of devices by the fullest of these, any other by CPU or memory,
whichever is scarcer. Requested / allocatable; pods
that should have terminated by now do not count; DaemonSet and mirror pods may be left out of both numbers. Behaviour
as Cluster Autoscaler's `simulator/utilization`.
"""

from collections.abc import Callable, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from autoscaler.objects import quantity
from autoscaler.objects.pod import PodClass
from autoscaler.scaledown.arrivals import Arrivals
from autoscaler.scaledown.devices import DeviceUse, device_uses
from autoscaler.scaledown.drain import long_terminating
from autoscaler.snapshot.columns import Amounts, Mask
from autoscaler.snapshot.overlay import Trial

Shares = NDArray[np.float64]


class UncountedPods(msgspec.Struct, frozen=True):
    """Which pods do not count, neither as requested nor as allocatable."""

    daemonsets: Mask
    """By node: whether its DaemonSet pods are left out."""
    mirrors: bool = False
    headroom: bool = True
    """Pause pods do not count as requested; their room stays allocatable."""


class Utilization(msgspec.Struct, frozen=True):
    """Requested / allocatable of every node of a trial's view, by position."""

    share: Shares
    """0 where `unknown`."""
    unknown: Mask
    """Nodes that say nothing of their CPU or memory."""
    gpu: Mask
    """Nodes judged by their GPUs."""
    by_cpu: Mask
    """Nodes whose CPU is scarcer than their memory."""
    devices: Mapping[int, DeviceUse] = {}
    """Nodes judged by devices that are claimed, by position."""

    def resource(self, position: int) -> str:
        """Return what a node was judged by."""
        if position in self.devices:
            return self.devices[position].pool
        if self.gpu[position]:
            return "GPU"
        return quantity.CPU if self.by_cpu[position] else quantity.MEMORY


def _pauses(cls: PodClass) -> bool:
    return cls.headroom is not None


class _Counter:
    """Sums of requests by node: of everything on the trial, and of what does not count."""

    def __init__(self, trial: Trial, arrivals: Arrivals, left_out: UncountedPods, wall: float) -> None:
        self._trial = trial
        self._left_out = left_out
        self._placed = arrivals.counts
        self._mirrors = self._chosen(lambda cls: cls.mirror) if left_out.mirrors else []
        self._daemons = self._chosen(self._counted_as_daemon) if left_out.daemonsets.any() else []
        self._pauses = self._chosen(_pauses) if left_out.headroom else []
        self._overdue = [
            (pod.cls, position)
            for pod in trial.view.terminating
            if long_terminating(pod, wall) and (position := trial.view.positions.get(pod.node or "")) is not None
        ]

    def _chosen(self, wanted: Callable[[PodClass], bool]) -> list[int]:
        return [number for number, cls in enumerate(self._trial.view.classes) if wanted(cls)]

    def _counted_as_daemon(self, cls: PodClass) -> bool:
        return cls.daemonset and not (self._left_out.mirrors and cls.mirror)

    def share(self, row: int) -> Shares:
        """Return requested / allocatable of one resource."""
        base = self._trial.base
        allocatable = self._trial.view.columns.allocatable[row]
        excluded = self._excluded(row)
        requested = allocatable - self._trial.free[row, :base] - excluded - self._overdue_sum(row)
        if self._left_out.headroom:
            requested = requested - self._sum(row, self._pauses, _pauses)
        available = allocatable - excluded
        share: Shares = requested / np.maximum(available, 1)
        # Pods that do not count may ask for all there is, or more: what remains is used in full, or not at all.
        share = np.where(available == 0, np.minimum(share, 1.0), share)
        return np.where(available >= 0, share, 0.0)

    def _excluded(self, row: int) -> Amounts:
        excluded = np.zeros(self._trial.base, dtype=np.int64)
        if self._left_out.daemonsets.any():
            daemons = self._sum(row, self._daemons, self._counted_as_daemon)
            excluded += np.where(self._left_out.daemonsets, daemons, 0)
        if self._left_out.mirrors:
            excluded += self._sum(row, self._mirrors, lambda cls: cls.mirror)
        return excluded

    def _sum(self, row: int, numbers: list[int], wanted: Callable[[PodClass], bool]) -> Amounts:
        """Sum the requests of some classes, given by number for the view's pods and by name for placed ones."""
        view = self._trial.view
        amounts = np.zeros(len(view.classes), dtype=np.int64)
        amounts[numbers] = [self._amount(view.classes[number], row) for number in numbers]
        total = np.zeros(self._trial.base, dtype=np.int64)
        by_pod = amounts[view.pod_classes]
        counted = np.flatnonzero(by_pod)
        np.add.at(total, view.pod_nodes[counted], by_pod[counted])
        for cls, position, count in self._placed:
            if wanted(cls):
                total[position] += self._amount(cls, row) * count
        return total

    def _overdue_sum(self, row: int) -> Amounts:
        total = np.zeros(self._trial.base, dtype=np.int64)
        for cls, position in self._overdue:
            if self._left_out.headroom and _pauses(cls):
                continue
            as_daemon = cls.daemonset and self._left_out.daemonsets[position]
            if not as_daemon and not (cls.mirror and self._left_out.mirrors):
                total[position] += self._amount(cls, row)
        return total

    def _amount(self, cls: PodClass, row: int) -> int:
        vector = self._trial.vocabulary.vector(cls)
        return int(vector[row]) if row < len(vector) else 0


def utilization(
    trial: Trial,
    arrivals: Arrivals,
    wall: float,
    left_out: UncountedPods,
    gpu_label: str,
    gpu_resources: tuple[str, ...],
) -> Utilization:
    """Return how much of each node of the view is asked for, trial placements, the `arrivals`, included.

    `gpu_label` marks GPU nodes (empty: no label does), and so do `gpu_resources`, of which the first that a node has
    counts; only where there are none of those, GPUs that are claimed as devices. A node whose GPUs are not there yet is
    not used at all.
    """
    counter, base, rows = _Counter(trial, arrivals, left_out, wall), trial.base, trial.vocabulary.rows
    allocatable = trial.view.columns.allocatable
    cpu_row, memory_row = rows[quantity.CPU], rows[quantity.MEMORY]
    cpu, memory = counter.share(cpu_row), counter.share(memory_row)
    by_cpu = cpu > memory
    share = np.where(by_cpu, cpu, memory)
    gpu = trial.labels(gpu_label)[:base] >= 0 if gpu_label else np.zeros(base, dtype=np.bool_)
    share = np.where(gpu, 0.0, share)
    extended = np.zeros(base, dtype=np.bool_)
    for resource in reversed(gpu_resources):
        row = rows.get(resource)
        if row is not None and row < len(allocatable) and (having := allocatable[row] > 0).any():
            share = np.where(having, counter.share(row), share)
            extended |= having
    gpu = gpu | extended
    unknown = ~gpu & ((allocatable[cpu_row] == 0) | (allocatable[memory_row] == 0))
    share = np.where(unknown, 0.0, share)
    devices: dict[int, DeviceUse] = {}
    for position, use in device_uses(trial.view).items():
        if not extended[position] and (use.gpus or not gpu[position]):
            devices[position] = use
            share[position], unknown[position] = use.share, False
    return Utilization(share=share, unknown=unknown, gpu=gpu, by_cpu=by_cpu, devices=devices)
