"""Pods that sweeps read and delete."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from autoscaler.errors import RetryLater
from autoscaler.expiry.plan import Expired, ExpiringPod
from autoscaler.kube import paths
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.writes import ClusterWrites
from autoscaler.objects.decode import WireDecoder

_PAGE = 500


class ExpiryReads(Protocol):
    """Answers GET requests; `kube.client.Client` is one."""

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the body; raises `AutoscalerError`."""
        ...


class SweptPods(Protocol):
    """What sweeps read and write. Any call may raise `AutoscalerError`."""

    def all(self, namespaces: Sequence[str]) -> list[ExpiringPod]:
        """Return the pods of these namespaces; of every one where there are none."""
        ...

    def delete(self, pod: Expired) -> None:
        """Delete this very pod, as it was read: `Conflict` if it has changed, `Gone` if it is not there any more."""
        ...


class ClusterPods:
    """`SweptPods` on an API server."""

    def __init__(self, reads: ExpiryReads, writes: ClusterWrites) -> None:
        self._decoder = WireDecoder(ExpiringPod, lambda wire: wire)
        self._reads = reads
        self._writes = writes

    def all(self, namespaces: Sequence[str]) -> list[ExpiringPod]:
        """Return the pods of these namespaces, of every one where there are none."""
        found: list[ExpiringPod] = []
        for namespace in namespaces or ("",):
            more = ""
            while True:
                query = {"limit": str(_PAGE), **({"continue": more} if more else {})}
                body = self._reads.get(paths.collection("v1", "Pod", namespace), query)
                try:
                    page = self._decoder.page(body)
                except msgspec.MsgspecError as error:
                    raise RetryLater(f"the API server sent something that is no list of pods: {error}") from error
                found += page.items
                more = page.continue_token
                if not more:
                    break
        return found

    def delete(self, pod: Expired) -> None:
        """Delete this very pod, as it was read."""
        ref = ObjectRef("v1", "Pod", pod.name, pod.namespace)
        self._writes.delete(ref, pod.uid, pod.resource_version)


class DryRunPods(ClusterPods):
    """The same for a dry run: nothing is deleted."""

    def delete(self, pod: Expired) -> None:
        """Delete nothing."""
