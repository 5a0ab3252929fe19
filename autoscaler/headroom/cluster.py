"""Reads and writes the objects of headroom; each write is guarded by a resourceVersion or uid."""

from collections.abc import Mapping

from autoscaler.errors import Gone
from autoscaler.kube import paths
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.reader import ApiReader
from autoscaler.kube.whole_objects import whole_object, whole_objects
from autoscaler.kube.writes import ClusterWrites
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.pod import DELETION_COST, GIVEN_UP, Pod

_CHEAP = "-100"


class ClusterHeadroom:
    """Reads and writes of headroom. Any call may raise `LeadershipLost`, `RetryLater` or `Refused`."""

    def __init__(self, reads: ApiReader, writes: ClusterWrites) -> None:
        self._reads = reads
        self._writes = writes

    def deployment(self, namespace: str, name: str) -> JsonObject | None:
        """Return a Deployment; None if it does not exist."""
        return self._found(ObjectRef("apps/v1", "Deployment", name, namespace))

    def deployments(self, namespace: str, labels: Mapping[str, str]) -> list[JsonObject]:
        """Return the Deployments with these labels; an empty `namespace` means all namespaces."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        body = self._reads.get(paths.collection("apps/v1", "Deployment", namespace), {"labelSelector": selector})
        return [{"apiVersion": "apps/v1", "kind": "Deployment", **deployment} for deployment in whole_objects(body)]

    def priority_class(self, name: str) -> JsonObject | None:
        """Return a PriorityClass; None if it does not exist."""
        return self._found(ObjectRef("scheduling.k8s.io/v1", "PriorityClass", name))

    def create(self, obj: JsonObject) -> None:
        """Create an object; raises `Conflict` if the name is taken, `Gone` if its namespace does not exist."""
        self._writes.create(obj)

    def replace(self, obj: JsonObject) -> None:
        """Replace an object; raises `Conflict` if it changed since it was read, `Gone` if it no longer exists."""
        self._writes.replace(obj)

    def delete_deployment(self, namespace: str, name: str, uid: str) -> None:
        """Delete the Deployment with that uid; succeeds if it no longer exists."""
        try:
            self._writes.delete(ObjectRef("apps/v1", "Deployment", name, namespace), uid)
        except Gone:
            return

    def mark(self, pod: Pod, *, given_up: bool) -> None:
        """Mark a pause pod as the first to be deleted, or remove the mark; raises `Gone` if it no longer exists."""
        notes: dict[str, str | None] = {DELETION_COST: _CHEAP, GIVEN_UP: "true"}
        if not given_up:
            notes = dict.fromkeys(notes)
        self._writes.annotate_pod(pod.namespace, pod.name, pod.uid, notes)

    def _found(self, ref: ObjectRef) -> JsonObject | None:
        try:
            return whole_object(self._reads.get(paths.path(ref)))
        except Gone:
            return None
