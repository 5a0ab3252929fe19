"""The management cluster's API server: its versions, lists, marks on Machines, and scales."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cloudprovider.clusterapi.keys import Keys
from cloudprovider.clusterapi.objects import (
    DEPLOYMENT,
    MACHINE,
    POOL,
    SET,
    Machine,
    Scalable,
    decode_machine,
    decode_scalable,
)
from cloudprovider.clusterapi.selection import Selection
from cloudprovider.interface import (
    Conflict,
    Misconfigured,
    NotFound,
    ObjectApi,
    ObjectKind,
    ProviderError,
    Scale,
    Transient,
)


class Listed(msgspec.Struct, frozen=True):
    """The objects that one refresh listed."""

    scalables: Sequence[Scalable]
    """MachineSets, then MachineDeployments, then MachinePools."""
    machines: Sequence[Machine]


class Management:
    """Reads and writes the objects of Cluster API."""

    def __init__(self, api: ObjectApi, keys: Keys, selection: Selection, kinds: Mapping[str, ObjectKind]) -> None:
        self.api = api
        self.keys = keys
        self.selection = selection
        self._kinds = kinds

    @classmethod
    def open(cls, api: ObjectApi, keys: Keys, selection: Selection, version: str | None) -> "Management":
        """Read which kinds the server serves; `Misconfigured` if Cluster API is not installed or not permitted."""
        what = keys.group if version is None else f"{keys.group}/{version}"
        try:
            kinds = api.kinds(keys.group, version)
        except NotFound as error:
            why = f"the management cluster does not serve {what}: is Cluster API installed there?"
            raise Misconfigured(f"{why} (--cloud-config names its kubeconfig) {error}") from error
        except (Transient, Misconfigured):
            raise
        except ProviderError as error:
            raise Misconfigured(f"the management cluster does not say what it serves of {what}: {error}") from error
        if missing := [kind for kind in (SET, MACHINE) if kind not in kinds]:
            raise Misconfigured(f"the management cluster serves {what}, and no {' and no '.join(missing)} in it")
        return cls(api, keys, selection, kinds)

    def list_all(self) -> Listed:
        """List every kind once for each selected namespace."""
        scalables = [
            decode_scalable(kind, obj, self.keys)
            for kind in (SET, DEPLOYMENT, POOL)
            if kind in self._kinds
            for obj in self._objects(kind)
        ]
        return Listed(scalables, [decode_machine(obj, self.keys) for obj in self._objects(MACHINE, self._of_clusters)])

    def machines_in(self, namespace: str) -> Sequence[Machine]:
        """List the Machines of one namespace."""
        listed = self.api.list_objects(self._kinds[MACHINE], namespace, self._of_clusters)
        return [decode_machine(obj, self.keys) for obj in listed]

    def mark(self, machine: Machine, when: str) -> None:
        """Mark a Machine, so that Cluster API deletes it first when its owner shrinks."""
        self._annotate(machine, {self.keys.delete: when})

    def unmark(self, machine: Machine) -> None:
        """Remove the mark. Does nothing if the Machine no longer exists."""
        try:
            self._annotate(machine, {self.keys.delete: None})
        except NotFound:
            return

    def try_mark(self, machine: Machine) -> None:
        """Write a Machine back unchanged to raise what `mark` would raise. A missing or changing one is no error."""
        with contextlib.suppress(NotFound, Conflict):
            self._annotate(machine, {})

    def try_rescale(self, scalable: Scalable) -> None:
        """Set the replicas to their current number, to raise what a change would raise."""
        with contextlib.suppress(Conflict):
            read = self.scale_of(scalable)
            self.rescale(scalable, read, read.replicas)

    def scale_of(self, scalable: Scalable) -> Scale:
        """Read a group's desired replicas."""
        return self.api.get_scale(self._kinds[scalable.kind], scalable.namespace, scalable.name)

    def rescale(self, scalable: Scalable, read: Scale, replicas: int) -> None:
        """Set the replicas; `Conflict` if the object changed since the scale was read."""
        scale = Scale(replicas, read.resource_version)
        self.api.set_scale(self._kinds[scalable.kind], scalable.namespace, scalable.name, scale)

    @property
    def _of_clusters(self) -> str:
        """Label selector for the Machines of the selected clusters; Cluster API labels every Machine."""
        clusters = self.selection.clusters
        return f"{self.keys.cluster} in ({','.join(clusters)})" if clusters else ""

    def _objects(self, kind: str, label_selector: str = "") -> list[Mapping[str, Any]]:
        return [
            obj
            for namespace in self.selection.namespaces
            for obj in self.api.list_objects(self._kinds[kind], namespace, label_selector)
        ]

    def _annotate(self, machine: Machine, annotations: Mapping[str, str | None]) -> None:
        # With get and update: roles that were made for Cluster Autoscaler do not let it patch Machines.
        namespace, name = machine.key
        self.api.annotate_object(self._kinds[MACHINE], namespace, name, machine.uid, annotations)
