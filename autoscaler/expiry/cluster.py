"""Reads and deletes pods for the clean-up of expired pods."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from autoscaler.errors import RetryLater
from autoscaler.expiry.plan import Expired, ExpiringPod
from autoscaler.kube import paths
from autoscaler.kube.listing import read_all
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.reader import ApiReader
from autoscaler.kube.writes import ClusterWrites
from autoscaler.objects.decode import WireDecoder


class SweptPods(Protocol):
    """Reads and writes of a sweep. Any call may raise `AutoscalerError`."""

    def all(self, namespaces: Sequence[str]) -> list[ExpiringPod]:
        """Return the pods of these namespaces; without namespaces, the pods of all."""
        ...

    def delete(self, pod: Expired) -> None:
        """Delete the pod as it was read; raises `Conflict` if it has changed, and `Gone` if it no longer exists."""
        ...


class ClusterPods:
    """`SweptPods` on an API server."""

    def __init__(self, reads: ApiReader, writes: ClusterWrites) -> None:
        self._decoder = WireDecoder(ExpiringPod, lambda wire: wire)
        self._reads = reads
        self._writes = writes

    def all(self, namespaces: Sequence[str]) -> list[ExpiringPod]:
        """Return the pods of these namespaces; without namespaces, the pods of all."""
        pods: list[ExpiringPod] = []
        for namespace in namespaces or ("",):
            for body in read_all(self._reads, paths.collection("v1", "Pod", namespace)):
                try:
                    pods += self._decoder.page(body).items
                except msgspec.MsgspecError as error:
                    raise RetryLater(f"the API server sent something that is no list of pods: {error}") from error
        return pods

    def delete(self, pod: Expired) -> None:
        """Delete the pod as it was read."""
        ref = ObjectRef("v1", "Pod", pod.name, pod.namespace)
        self._writes.delete(ref, pod.uid, pod.resource_version)
