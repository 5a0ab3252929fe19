"""Stores reservations in one ConfigMap per target; a write fails if the ConfigMap has changed since it was read."""

import msgspec

from autoscaler.config.reservations import ReservationStoreOptions, TemplateRef
from autoscaler.errors import Gone
from autoscaler.kube import paths
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.reader import ApiReader
from autoscaler.kube.whole_objects import whole_object, whole_objects
from autoscaler.kube.writes import ClusterWrites
from autoscaler.objects.meta import JsonObject

STATE = "state.json"
_MANAGED = {
    "app.kubernetes.io/managed-by": "cluster-autoscaler",
    "app.kubernetes.io/component": "capacity-reservations",
}


class StoredTarget(msgspec.Struct, frozen=True):
    """The ConfigMap of one target as it was read."""

    obj: JsonObject

    @property
    def name(self) -> str:
        """Name of the ConfigMap."""
        return str(self.obj["metadata"].get("name") or "")

    @property
    def text(self) -> str | None:
        """The stored state; None if there is none."""
        return (self.obj.get("data") or {}).get(STATE)


class ConfigMapStore:
    """Reads and writes states. Any call may raise `RetryLater` or `Refused`."""

    def __init__(self, reads: ApiReader, writes: ClusterWrites, store: ReservationStoreOptions) -> None:
        """`writes` must not require leadership: every replica writes, guarded by the version of the object."""
        self._reads = reads
        self._writes = writes
        self._store = store

    def read(self, target: str) -> StoredTarget | None:
        """Return the stored state of a target; None if there is none."""
        return self._found(ObjectRef("v1", "ConfigMap", self._name(target), self._store.namespace))

    def read_all(self) -> dict[str, StoredTarget]:
        """Return the stored states by target, only from objects with our labels."""
        selector = ",".join(f"{key}={value}" for key, value in _MANAGED.items())
        body = self._reads.get(paths.collection("v1", "ConfigMap", self._store.namespace), {"labelSelector": selector})
        targets = (
            StoredTarget({"apiVersion": "v1", "kind": "ConfigMap", **config_map}) for config_map in whole_objects(body)
        )
        prefix = self._store.prefix
        return {stored.name.removeprefix(prefix): stored for stored in targets if stored.name.startswith(prefix)}

    def write(self, target: str, text: str, before: StoredTarget | None) -> None:
        """Store a state; raises `Conflict` if it has changed since it was read."""
        if before is None:
            metadata: JsonObject = {"name": self._name(target), "namespace": self._store.namespace, "labels": _MANAGED}
            self._writes.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {STATE: text}})
            return
        metadata = before.obj["metadata"]
        labels = {**(metadata.get("labels") or {}), **_MANAGED}
        data = {**(before.obj.get("data") or {}), STATE: text}
        self._writes.replace({**before.obj, "metadata": {**metadata, "labels": labels}, "data": data})

    def template(self, ref: TemplateRef) -> JsonObject | None:
        """Return the template of a PodTemplate; None if it does not exist."""
        stored = self._found(ObjectRef("v1", "PodTemplate", ref.name, ref.namespace))
        return None if stored is None else stored.obj.get("template") or {}

    def _found(self, ref: ObjectRef) -> StoredTarget | None:
        try:
            return StoredTarget(
                {**whole_object(self._reads.get(paths.path(ref))), "apiVersion": ref.api_version, "kind": ref.kind}
            )
        except Gone:
            return None

    def _name(self, target: str) -> str:
        return self._store.prefix + target
