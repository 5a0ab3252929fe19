"""Deletes objects: graceful termination, finalizers, garbage collection, namespaces, CRDs."""

from enum import StrEnum

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import forbidden, precondition_failed
from autoscaler.sandbox.apiserver.journal import Journal
from autoscaler.sandbox.apiserver.kinds import Kind, KindRegistry
from autoscaler.sandbox.apiserver.records import Stored

_FOREGROUND = "foregroundDeletion"
PERMANENT_NAMESPACES = ("default", "kube-system", "kube-public")
CRD_ID = "customresourcedefinitions.apiextensions.k8s.io"


class Propagation(StrEnum):
    """What happens to the dependents."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class DeleteOptions(msgspec.Struct, frozen=True):
    """`metav1.DeleteOptions`, decoded; `grace_s` None means the object's own grace period."""

    grace_s: int | None = None
    propagation: Propagation = Propagation.BACKGROUND
    uid: str | None = None
    resource_version: str | None = None


class DeletedObject(msgspec.Struct, frozen=True):
    """The last known state, and whether the object is gone or only terminating."""

    object: JsonObject
    gone: bool


class Deletion:
    """Performs deletions. Calls run inside the journal's transaction."""

    def __init__(self, journal: Journal, registry: KindRegistry) -> None:
        self._journal = journal
        self._registry = registry

    def delete(self, kind: Kind, record: Stored, options: DeleteOptions, *, dry_run: bool = False) -> DeletedObject:
        """Delete, or mark for deletion what must first be finalized; raises ApiError 403 or 409."""
        check_preconditions(kind, record, options)
        if kind.id == "namespaces" and record.key[1] in PERMANENT_NAMESPACES:
            raise forbidden(kind, record.key[1], "this namespace may not be deleted")
        obj = record.decoded(kind)
        if dry_run:
            return DeletedObject(obj, gone=True)
        grace_s = _grace_s(kind, obj, options)
        finalizers = list(obj["metadata"].get("finalizers") or ())
        if kind.id != "namespaces":
            self._hold_for_dependents(record, options.propagation, finalizers)
        if grace_s == 0 and not finalizers and kind.id != "namespaces":
            return self._finish(kind, record, options.propagation)
        obj["metadata"]["finalizers"] = finalizers
        if not finalizers:
            del obj["metadata"]["finalizers"]
        marked = self._mark(kind, record, obj, grace_s)
        return self._continue(kind, marked, options.propagation)

    def finalized(self, kind: Kind, record: Stored) -> None:
        """Remove an object if its deletion was waiting only for finalizers and they are gone."""
        metadata = record.decoded(kind)["metadata"]
        if metadata.get("deletionTimestamp") is None or metadata.get("finalizers"):
            return
        if kind.id == "namespaces":
            self.finish_namespace(record.key[1])
        elif not metadata.get("deletionGracePeriodSeconds"):
            self._finish(kind, record, Propagation.BACKGROUND)

    def empty_namespace(self, namespace: str) -> bool:
        """Whether no namespaced object is left there."""
        return not any(store.kind.namespaced and store.any_in(namespace) for store in self._journal.stores())

    def finish_namespace(self, namespace: str) -> None:
        """Remove a terminating namespace when it is empty."""
        kind = self._registry.resolve("namespaces")
        record = self._journal.store(kind).get(("", namespace))
        if record is None or record.fields["status.phase"] != "Terminating" or not self.empty_namespace(namespace):
            return
        if not record.decoded(kind)["metadata"].get("finalizers"):
            self._journal.remove(kind, record)

    def _hold_for_dependents(self, record: Stored, propagation: Propagation, finalizers: list[str]) -> None:
        if propagation is Propagation.ORPHAN:
            self._orphan(record.uid)
        elif propagation is Propagation.FOREGROUND and _FOREGROUND not in finalizers:
            finalizers.extend([_FOREGROUND] if self._journal.dependents(record.uid) else [])

    def _mark(self, kind: Kind, record: Stored, obj: JsonObject, grace_s: int) -> Stored:
        metadata = obj["metadata"]
        previous = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") is None or (previous is not None and grace_s < previous):
            metadata["deletionTimestamp"] = self._journal.timestamp(grace_s)
            metadata["deletionGracePeriodSeconds"] = grace_s
            if kind.generation:
                metadata["generation"] = metadata.get("generation", 0) + 1
        if kind.id == "namespaces":
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return record if obj == record.decoded(kind) else self._journal.put(kind, obj)

    def _continue(self, kind: Kind, record: Stored, propagation: Propagation) -> DeletedObject:
        obj = record.decoded(kind)
        if kind.id == "namespaces":
            self._delete_content(record.key[1])
            self.finish_namespace(record.key[1])
        elif kind.id == CRD_ID:
            self._delete_custom_objects(obj)
        elif _FOREGROUND in (obj["metadata"].get("finalizers") or ()):
            for store, dependent in self._journal.dependents(record.uid):
                self.delete(store.kind, dependent, DeleteOptions(propagation=propagation))
        return DeletedObject(obj, gone=self._journal.store(kind).get(record.key) is None)

    def _finish(self, kind: Kind, record: Stored, propagation: Propagation) -> DeletedObject:
        if kind.id == CRD_ID:
            self._delete_custom_objects(record.decoded(kind))
        last = self._journal.remove(kind, record)
        if propagation is not Propagation.ORPHAN:
            self._collect(record.uid)
        if record.owners:
            for owner in last.decoded(kind)["metadata"]["ownerReferences"]:
                self._release_foreground(owner, record.key[0])
        if record.key[0]:
            self.finish_namespace(record.key[0])
        return DeletedObject(last.decoded(kind), gone=True)

    def _collect(self, uid: str) -> None:
        """Delete dependents whose last owner was deleted; the others only lose the reference."""
        for store, dependent in self._journal.dependents(uid):
            if len(dependent.owners) == 1:
                self.delete(store.kind, dependent, DeleteOptions())
            else:
                self._drop_reference(store.kind, dependent, uid)

    def _orphan(self, uid: str) -> None:
        for store, dependent in self._journal.dependents(uid):
            self._drop_reference(store.kind, dependent, uid)

    def _drop_reference(self, kind: Kind, dependent: Stored, uid: str) -> None:
        obj = dependent.decoded(kind)
        metadata = obj["metadata"]
        metadata["ownerReferences"] = [
            reference for reference in metadata["ownerReferences"] if reference["uid"] != uid
        ]
        if not metadata["ownerReferences"]:
            del metadata["ownerReferences"]
        self._journal.put(kind, obj)

    def _release_foreground(self, owner: JsonObject, namespace: str) -> None:
        """Remove an owner that waited for its dependents when the last of them is gone."""
        group, _, version = str(owner.get("apiVersion", "")).rpartition("/")
        expected = (group, version, owner.get("kind"))
        kind = next((row for row in self._registry.rows if (row.group, row.version, row.kind) == expected), None)
        if kind is None or self._journal.dependents(owner["uid"]):
            return
        record = self._journal.store(kind).get((namespace if kind.namespaced else "", owner["name"]))
        if record is None or record.uid != owner["uid"]:
            return
        obj = record.decoded(kind)
        finalizers = obj["metadata"].get("finalizers") or []
        if _FOREGROUND in finalizers and obj["metadata"].get("deletionTimestamp") is not None:
            obj["metadata"]["finalizers"] = [finalizer for finalizer in finalizers if finalizer != _FOREGROUND]
            if not obj["metadata"]["finalizers"]:
                del obj["metadata"]["finalizers"]
            self.finalized(kind, self._journal.put(kind, obj))

    def _delete_content(self, namespace: str) -> None:
        for store in self._journal.stores():
            if store.kind.namespaced:
                for record in store.in_namespace(namespace):
                    current = store.get(record.key)
                    if current is not None:
                        self.delete(store.kind, current, DeleteOptions())

    def _delete_custom_objects(self, crd: JsonObject) -> None:
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        rows = [row for row in self._registry.rows if row.custom and (row.group, row.plural) == (group, plural)]
        if not rows:
            return
        store = self._journal.store(rows[0])
        for record in store.in_namespace(None):
            current = store.get(record.key)
            if current is not None:
                self._journal.remove(store.kind, current)
        self._registry.remove(group, plural)


def check_preconditions(kind: Kind, record: Stored, options: DeleteOptions) -> None:
    """Raise ApiError 409 unless the object is the one, in the state, that the caller wants to delete."""
    if options.uid is not None and options.uid != record.uid:
        raise precondition_failed(kind, record.key[1], "UID", options.uid, record.uid)
    expected, actual = options.resource_version, str(record.revision)
    if expected is not None and expected != actual:
        raise precondition_failed(kind, record.key[1], "ResourceVersion", expected, actual)


def _grace_s(kind: Kind, obj: JsonObject, options: DeleteOptions) -> int:
    """Return the grace period in seconds; it is 0 unless the object is a pod that a kubelet has to stop."""
    if kind.id != "pods":
        return 0
    if not obj["spec"].get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_s is not None:
        return max(0, options.grace_s)
    grace_s = obj["spec"].get("terminationGracePeriodSeconds")
    return 30 if grace_s is None else int(grace_s)
