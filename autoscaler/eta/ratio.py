"""Estimates a pod's start from the ratio of requested to available CPU, for comparison and for saturated clusters."""

import math

import msgspec

from autoscaler.eta.samples import DurationSpread


class CpuTotals(msgspec.Struct, frozen=True):
    """CPU of the cluster, in thousandths of a core."""

    nodes: int
    provisioned_milli: int
    pending_milli: int
    running_milli: int


class RatioConstants(msgspec.Struct, frozen=True):
    """The constants of the formula."""

    run_s: float = 600.0
    start_s: float = 90.0
    node_overhead_cpu: float = 2.0


def ratio_start(totals: CpuTotals, request_milli: int, ratio: RatioConstants) -> DurationSpread | None:
    """Return how long a pod takes to start, in whole seconds; None if no usable capacity is left.

    Each total is rounded up to whole cores by itself. If the pod does not fit into the usable capacity, its start
    takes `run_s` times the ratio of demand to usable capacity, but never less than on a free cluster.
    """
    wanted = math.ceil(totals.pending_milli / 1000) + math.ceil(totals.running_milli / 1000)
    usable = math.ceil(totals.provisioned_milli / 1000) - ratio.node_overhead_cpu * totals.nodes
    if usable <= 0:
        return None
    seconds = ratio.start_s
    if request_milli / 1000 + wanted >= usable:
        seconds = max(ratio.start_s, float(math.floor(wanted / usable * ratio.run_s)))
    return DurationSpread(seconds, seconds)
