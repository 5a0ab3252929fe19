"""The state of pod start estimates after one pass."""

import heapq
from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.config.eta import PodStartEstimator
from autoscaler.eta.capacity import ClusterCapacity
from autoscaler.eta.estimate import LoopIntervals, StartEstimate
from autoscaler.eta.gangs import GangStart
from autoscaler.eta.history import PodRecord
from autoscaler.eta.placements import PassOutcome
from autoscaler.eta.ratio import RatioConstants
from autoscaler.eta.samples import DurationSpread, Knowledge
from autoscaler.objects.pod import Pod
from autoscaler.snapshot.cluster import ClusterView


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How accurate past estimates were."""

    pods: int = 0
    within_worst: int = 0
    late: int = 0
    abs_error_s: float = 0.0
    """Sum over all pods."""

    def counted(self, error_s: float, within: bool) -> "Accuracy":
        """Return the score with one more pod."""
        return Accuracy(
            pods=self.pods + 1,
            within_worst=self.within_worst + within,
            late=self.late + (error_s > 0),
            abs_error_s=self.abs_error_s + abs(error_s),
        )


class EtaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state after one pass. A standby replica knows nothing."""

    estimator: PodStartEstimator
    ratio: RatioConstants = RatioConstants()
    """Constants of the ratio formula, if that is the estimator."""
    computed_at: float | None = None
    capacity: ClusterCapacity | None = None
    estimates: Mapping[str, StartEstimate] = {}
    """By pod key."""
    gangs: tuple[GangStart, ...] = ()
    outcome: PassOutcome | None = None
    knowledge: Knowledge = Knowledge()
    times: LoopIntervals = LoopIntervals()
    boots: Mapping[str, DurationSpread] = {}
    view: ClusterView | None = None
    live: Mapping[str, PodRecord] = {}
    ended: tuple[PodRecord, ...] = ()
    accuracy: Accuracy = Accuracy()


def active_rows(view: ClusterView, *, everything: bool) -> Sequence[tuple[str, float | None]]:
    """Return name and request time of the pods that have not ended, oldest first.

    There are at most six rows. Of more pods, the first three and the last three are shown, and a row in between says
    how many are left out; its time is None.
    """
    pods = [pod for part in (view.pending, *view.pods) for pod in part]

    def key(pod: Pod) -> tuple[float, str]:
        return pod.created, pod.key

    if everything or len(pods) <= 6:
        return [(pod.key, pod.created) for pod in sorted(pods, key=key)]
    first, last = heapq.nsmallest(3, pods, key=key), heapq.nlargest(3, pods, key=key)[::-1]
    between = (f"... {len(pods) - 6} of {len(pods)} total omitted ...", None)
    return [*((pod.key, pod.created) for pod in first), between, *((pod.key, pod.created) for pod in last)]
