"""The scheduling queue: pods to try next, and pods that wait until something changes."""

from collections.abc import Callable

from autoscaler.objects.pod import Pod, PodClass


class SchedulingQueue:
    """Unassigned pods of one scheduler, by `namespace/name`."""

    def __init__(self) -> None:
        self._active: dict[str, Pod] = {}
        self._unschedulable: dict[str, Pod] = {}

    @property
    def idle(self) -> bool:
        """Whether no pod is to be tried."""
        return not self._active

    @property
    def has_unschedulable(self) -> bool:
        """Whether a pod waits until something changes."""
        return bool(self._unschedulable)

    def has(self, key: str) -> bool:
        """Whether the pod is to be tried, or waits."""
        return key in self._active or key in self._unschedulable

    def add(self, pod: Pod) -> None:
        """Try this pod next."""
        self._unschedulable.pop(pod.key, None)
        self._active[pod.key] = pod

    def update(self, pod: Pod) -> None:
        """Replace a pod by its newer self, wherever it is."""
        for pods in (self._active, self._unschedulable):
            if pod.key in pods:
                pods[pod.key] = pod

    def add_unschedulable(self, pod: Pod) -> None:
        """Leave this pod until it is woken."""
        self._unschedulable[pod.key] = pod

    def delete(self, key: str) -> None:
        """Forget a pod."""
        self._active.pop(key, None)
        self._unschedulable.pop(key, None)

    def activate(self, which: Callable[[PodClass], bool] | None = None) -> None:
        """Try parked pods again: all of them, or those of some classes."""
        if not self._unschedulable:
            return
        activated = [pod for pod in self._unschedulable.values() if which is None or which(pod.cls)]
        for pod in activated:
            self.add(pod)

    def pop_all(self) -> list[Pod]:
        """Take out the pods to try: by priority, then by age, then in the order in which they came."""
        pods = sorted(self._active.values(), key=lambda pod: (-priority_of(pod), pod.created))
        self._active.clear()
        return pods


def priority_of(pod: Pod) -> int:
    """The pod's priority; none counts as 0."""
    return pod.cls.priority or 0
