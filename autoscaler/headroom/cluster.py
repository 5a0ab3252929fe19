"""Reads and writes the objects of headroom; each write is guarded by a resourceVersion or uid."""

from collections.abc import Mapping
from typing import Protocol

from autoscaler.errors import Gone
from autoscaler.kube import paths
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.reader import ApiReader
from autoscaler.kube.whole_objects import whole_object, whole_objects
from autoscaler.kube.writes import ClusterWrites
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.pod import GIVEN_UP, Pod

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_CHEAP = "-100"


class HeadroomObjects(Protocol):
    """What headroom reads and writes. Any call may raise `LeadershipLost`, `RetryLater` or `Refused`."""

    def deployment(self, namespace: str, name: str) -> JsonObject | None:
        """Return a Deployment; None where there is none."""
        ...

    def deployments(self, namespace: str, labels: Mapping[str, str]) -> list[JsonObject]:
        """Return the Deployments with these labels, of all namespaces where `namespace` is empty."""
        ...

    def priority_class(self, name: str) -> JsonObject | None:
        """Return a PriorityClass; None where there is none."""
        ...

    def create(self, obj: JsonObject) -> None:
        """Create an object; `Conflict` if the name is taken, `Gone` if its namespace is not there."""
        ...

    def replace(self, obj: JsonObject) -> None:
        """Replace an object; `Conflict` if it changed since it was read, `Gone` if it is not there any more."""
        ...

    def delete_deployment(self, namespace: str, name: str, uid: str) -> None:
        """Delete the Deployment of that uid; it being gone already is fine."""
        ...

    def mark(self, pod: Pod, *, given_up: bool) -> None:
        """Tell controllers, and ourselves, that a pause pod goes first, or no longer does; `Gone` if it is gone."""
        ...


class ClusterHeadroom:
    """`HeadroomObjects` on an API server."""

    def __init__(self, reads: ApiReader, writes: ClusterWrites) -> None:
        self._reads = reads
        self._writes = writes

    def deployment(self, namespace: str, name: str) -> JsonObject | None:
        """Return a Deployment; None where there is none."""
        return self._found(ObjectRef("apps/v1", "Deployment", name, namespace))

    def deployments(self, namespace: str, labels: Mapping[str, str]) -> list[JsonObject]:
        """Return the Deployments with these labels, of all namespaces where `namespace` is empty."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        body = self._reads.get(paths.collection("apps/v1", "Deployment", namespace), {"labelSelector": selector})
        return [{"apiVersion": "apps/v1", "kind": "Deployment", **deployment} for deployment in whole_objects(body)]

    def priority_class(self, name: str) -> JsonObject | None:
        """Return a PriorityClass; None where there is none."""
        return self._found(ObjectRef("scheduling.k8s.io/v1", "PriorityClass", name))

    def create(self, obj: JsonObject) -> None:
        """Create an object."""
        self._writes.create(obj)

    def replace(self, obj: JsonObject) -> None:
        """Replace an object."""
        self._writes.replace(obj)

    def delete_deployment(self, namespace: str, name: str, uid: str) -> None:
        """Delete the Deployment of that uid; it being gone already is fine."""
        try:
            self._writes.delete(ObjectRef("apps/v1", "Deployment", name, namespace), uid)
        except Gone:
            return

    def mark(self, pod: Pod, *, given_up: bool) -> None:
        """Tell controllers, and ourselves, that a pause pod goes first, or no longer does."""
        notes: dict[str, str | None] = {_DELETION_COST: _CHEAP, GIVEN_UP: "true"}
        if not given_up:
            notes = dict.fromkeys(notes)
        self._writes.annotate_pod(pod.namespace, pod.name, pod.uid, notes)

    def _found(self, ref: ObjectRef) -> JsonObject | None:
        try:
            return whole_object(self._reads.get(paths.path(ref)))
        except Gone:
            return None
