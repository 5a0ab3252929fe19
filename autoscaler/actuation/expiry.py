"""Pods that sweeps read and delete."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from autoscaler.companions.expiry import Candidate, Expired
from autoscaler.errors import RetryLater
from autoscaler.kube import paths
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.writes import ClusterWrites

_PAGE = 500


class Reads(Protocol):
    """Answers GET requests; `kube.client.Client` is one."""

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the body; raises `AutoscalerError`."""
        ...


class SweptPods(Protocol):
    """What sweeps read and write. Any call may raise `AutoscalerError`."""

    def all(self, namespaces: Sequence[str]) -> list[Candidate]:
        """Return the pods of these namespaces; of every one where there are none."""
        ...

    def delete(self, pod: Expired) -> None:
        """Delete this very pod, as it was read: `Conflict` if it has changed, `Gone` if it is not there any more."""
        ...


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, frozen=True):
    items: list[Candidate] = []
    metadata: _Meta = _Meta()


class ClusterPods:
    """`SweptPods` on an API server."""

    def __init__(self, reads: Reads, writes: ClusterWrites) -> None:
        self._reads = reads
        self._writes = writes

    def all(self, namespaces: Sequence[str]) -> list[Candidate]:
        """Return the pods of these namespaces, of every one where there are none."""
        found: list[Candidate] = []
        for namespace in namespaces or ("",):
            more = ""
            while True:
                query = {"limit": str(_PAGE), **({"continue": more} if more else {})}
                body = self._reads.get(paths.collection("v1", "Pod", namespace), query)
                try:
                    page = msgspec.json.decode(body, type=_Page)
                except msgspec.MsgspecError as error:
                    raise RetryLater(f"the API server sent something that is no list of pods: {error}") from error
                found += page.items
                more = page.metadata.continue_
                if not more:
                    break
        return found

    def delete(self, pod: Expired) -> None:
        """Delete this very pod, as it was read."""
        ref = ObjectRef("v1", "Pod", pod.name, pod.namespace)
        self._writes.delete(ref, pod.uid, pod.resource_version)


class RehearsedPods(ClusterPods):
    """The same for a dry run: nothing is deleted."""

    def delete(self, pod: Expired) -> None:
        """Delete nothing."""
