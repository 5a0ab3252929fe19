"""Generated pods in the cluster: created, watched until they start, deleted."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from autoscaler.clock import Clock
from autoscaler.errors import Conflict, Gone, NeverStarted, RetryLater, Stopped
from autoscaler.expiry.plan import MANAGED_BY, OURS
from autoscaler.kube import paths
from autoscaler.kube.client import Client
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.writes import ClusterWrites
from autoscaler.load.spec import BATCH

_POLL_S = 1.0


class _PodPhaseForm(msgspec.Struct, frozen=True):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}


class Generated(msgspec.Struct, frozen=True):
    """A generated pod in its present state."""

    metadata: _Meta
    status: _PodPhaseForm = _PodPhaseForm()


class _PodList(msgspec.Struct, frozen=True):
    items: list[Generated] = []


class LoadPods:
    """Creates, lists and deletes generated pods, and never touches any other pod."""

    def __init__(self, client: Client, writes: ClusterWrites, namespace: str) -> None:
        self._client = client
        self._writes = writes
        self._namespace = namespace

    def live(self) -> int:
        """Return the number of generated pods that have not ended."""
        return sum(
            pod.status.phase not in ("Succeeded", "Failed") for pod in self._list(f"{MANAGED_BY}={OURS},{BATCH}")
        )

    def _list(self, selector: str) -> list[Generated]:
        body = self._client.get(paths.collection("v1", "Pod", self._namespace), {"labelSelector": selector})
        try:
            return msgspec.json.decode(body, type=_PodList).items
        except msgspec.MsgspecError as error:
            raise RetryLater(f"the API server sent something that is no list of pods: {error}") from error

    def create(self, pod: Mapping[str, Any]) -> None:
        """Create one pod. An existing pod with its name counts as created, because an earlier call may only seem to
        have failed.
        """
        try:
            self._writes.create(pod)
        except Conflict:
            return

    def get(self, name: str) -> Generated | None:
        """Return one pod; None if it does not exist."""
        try:
            body = self._client.get(paths.pod(self._namespace, name))
        except Gone:
            return None
        try:
            return msgspec.json.decode(body, type=Generated)
        except msgspec.MsgspecError as error:
            raise RetryLater(f"the API server sent something that is no pod: {error}") from error

    def delete(self, name: str, uid: str = "") -> None:
        """Delete one pod; succeeds if it no longer exists."""
        try:
            self._writes.delete(ObjectRef("v1", "Pod", name, self._namespace), uid or None)
        except Gone:
            return

    def delete_batch(self, batch: str) -> int:
        """Delete the pods of a batch; return their number."""
        pods = self._list(f"{MANAGED_BY}={OURS},{BATCH}={batch}")
        for pod in pods:
            self.delete(pod.metadata.name, pod.metadata.uid)
        return len(pods)


class PolledPod:
    """`load.waiting.Watched` on an API server."""

    def __init__(self, pods: LoadPods, name: str, clock: Clock, sleep: Callable[[float], bool]) -> None:
        self._pods = pods
        self.name = name
        self._clock = clock
        self._sleep = sleep

    def until_left_pending(self, timeout_s: float) -> bool:
        """Check once a second until the pod is not Pending; return False if it still is at the end.

        Raises `NeverStarted` if the pod failed or no longer exists, and `Stopped` if the program is stopping.
        """
        give_up = self._clock.now().mono + timeout_s
        while True:
            pod = self._pods.get(self.name)
            if pod is None:
                raise NeverStarted(f'pod "{self.name}" was deleted before it started')
            if pod.status.phase == "Failed":
                said = ": ".join(word for word in (pod.status.reason, pod.status.message) if word)
                raise NeverStarted(f'pod "{self.name}" failed{said and f": {said}"}')
            if pod.status.phase != "Pending":
                return True
            if self._clock.now().mono >= give_up:
                return False
            if not self._sleep(_POLL_S):
                raise Stopped("stopped while waiting for a pod")

    def delete(self) -> None:
        """Delete the pod."""
        self._pods.delete(self.name)
