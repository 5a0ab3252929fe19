"""The samples behind estimates, updated in each pass. Owned by the deciding thread."""

from autoscaler.eta.boot_times import Samples
from autoscaler.eta.calibration import calibrated
from autoscaler.eta.estimate import WaitLevel
from autoscaler.eta.history import PodRecord
from autoscaler.eta.placements import has_image, workload
from autoscaler.eta.samples import ALL, Knowledge, Ring, Rings, Sample, group_key
from autoscaler.objects.node import readiness
from autoscaler.objects.pod import Pod
from autoscaler.snapshot.cluster import ClusterView


class StartLearning:
    """Samples of boots, starts, binds and runs."""

    def __init__(self) -> None:
        self._boots = Rings()
        self._warm, self._cold = Rings(), Rings()
        self._bind, self._runs = Ring(), Ring()
        self._excess = 1.0
        self.boot_samples: Samples = {}
        """Boots of every group. Each update replaces the whole value, so that another thread may read it."""

    def take(self, loaded: Samples) -> None:
        """Add the samples of an earlier process, which are older than all others."""
        own, self._boots = self._boots.samples(), Rings()
        for samples in (loaded, own):
            for group, of_group in samples.items():
                for sample in of_group:
                    self._boots.add(group, sample)
        self.boot_samples = self._boots.samples()

    def booted(self, group: str, sample: Sample) -> None:
        """Add the boot time of a node."""
        self._boots.add(group, sample)
        self.boot_samples = self._boots.samples()

    def started(self, pod: Pod, record: PodRecord, view: ClusterView, wall: float) -> None:
        """Add a pod that became ready; a pod with unknown times gives no sample."""
        if record.ready_at is None or record.scheduled_at is None or pod.node is None:
            return
        sample = Sample(wall, max(0.0, record.ready_at - record.scheduled_at))
        rings = self._warm if has_image(view, pod.node, pod) else self._cold
        group = view.groups.of_node.get(pod.node)
        for key in (workload(pod), *(() if group is None else (group_key(group),)), ALL):
            rings.add(key, sample)
        room = self._room_appeared(pod, record, view)
        if room is not None:
            self._bind.add(Sample(wall, max(0.0, record.scheduled_at - room)))

    def ran(self, pod: Pod, sample: Sample) -> None:
        """Add the run time of a pod that completed."""
        self._runs.add(sample)

    def calibrate(self, within: float) -> None:
        """Add the share of the pods on one node that were ready by their worst case."""
        self._excess = calibrated(self._excess, within)

    def knowledge(self, wall: float) -> Knowledge:
        """Return the present samples."""
        return Knowledge(
            boots=self._boots.ordered(wall),
            warm=self._warm.ordered(wall),
            cold=self._cold.ordered(wall),
            bind=self._bind.ordered(wall),
            runs=self._runs.ordered(wall),
            excess=self._excess,
        )

    def _room_appeared(self, pod: Pod, record: PodRecord, view: ClusterView) -> float | None:
        """Return when the pod could have been bound at the earliest; None if unknown."""
        node = view.node(pod.node or "")
        since = None if node is None else readiness(node).since
        if since is not None and since > pod.created:
            return since
        if record.unschedulable_at is None or record.estimate_level is WaitLevel.ROOM:
            return pod.created
        return None
