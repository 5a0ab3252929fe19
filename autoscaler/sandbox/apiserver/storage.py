"""The API server without HTTP, for simulated controllers, schedulers and kubelets in the same process."""

from collections.abc import Callable, Iterable, Iterator

from autoscaler.clock import Clock
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver import apply, crd, eviction, scaling, selectors
from autoscaler.sandbox.apiserver.admission import Admission, deep_copy, set_namespace, stamp
from autoscaler.sandbox.apiserver.deletion import CRD_ID, DeletedObject, DeleteOptions, Deletion, check_preconditions
from autoscaler.sandbox.apiserver.errors import (
    already_exists,
    forbidden,
    from_the_future,
    invalid,
    no_such_resource,
    not_found,
    required,
)
from autoscaler.sandbox.apiserver.journal import ChangeListener, Journal, Subscription
from autoscaler.sandbox.apiserver.kinds import Kind, KindRegistry
from autoscaler.sandbox.apiserver.patch import PatchType, check_identity, patched
from autoscaler.sandbox.apiserver.records import Key, Stored
from autoscaler.sandbox.apiserver.store import ListPage, StoreSelection

JsonObjects = list[JsonObject]
KindOrName = str | Kind
"""A row of the table of kinds, or its name: `pods`, `deployments.apps`, `deployments`."""

_SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class Storage:
    """Kubernetes objects with the server's rules. Thread-safe; time comes from `clock`, randomness from `seed`.

    `namespace=None` means the object's own or `default` on writes and gets, and all namespaces on lists. Methods raise
    `ApiError`. What they return is the caller's to change; what they are given is not changed.
    `history_limit` is how many changes per kind a watch may lag behind before it gets 410.
    """

    def __init__(self, clock: Clock, *, history_limit: int = 10_000, seed: int = 0) -> None:
        self.registry = KindRegistry()
        self._journal = Journal(clock, history_limit)
        self._admission = Admission(seed, self._priority_classes)
        self._deletion = Deletion(self._journal, self.registry)
        for name in _FIRST_NAMESPACES:
            self.create("namespaces", {"metadata": {"name": name}})
        self._load_system_priorities()

    @property
    def revision(self) -> int:
        """The latest resource version."""
        return self._journal.revision

    def now(self) -> float:
        """Wall seconds by the storage's clock."""
        return self._journal.now()

    def kind(self, resource: KindOrName) -> Kind:
        """Return the row served under this name; raises ApiError 404."""
        if isinstance(resource, Kind):
            return resource
        try:
            return self.registry.resolve(resource)
        except KeyError:
            raise no_such_resource() from None

    def get(self, resource: KindOrName, name: str, namespace: str | None = None) -> JsonObject:
        """Return one object."""
        kind = self.kind(resource)
        return self.record(kind, name, namespace).decoded(kind)

    def list(
        self,
        resource: KindOrName,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> JsonObjects:
        """Return the selected objects, sorted by namespace and name."""
        kind = self.kind(resource)
        selection = self.select(kind, namespace, label_selector, field_selector)
        return [record.decoded(kind) for record in self.page(kind, selection).records]

    def create(
        self, resource: KindOrName, obj: JsonObject, *, namespace: str | None = None, dry_run: bool = False
    ) -> JsonObject:
        """Store a new object and return it with defaults, name and uid; status is dropped, as by the real server."""
        kind = self.kind(resource)
        journal = self._journal
        with journal.transaction():
            new = self._admission.new(kind, obj, namespace, journal.timestamp(), journal.revision + 1)
            metadata = new["metadata"]
            key = (metadata.get("namespace", ""), metadata["name"])
            self._require_namespace(kind, key)
            if journal.store(kind).get(key) is not None:
                raise already_exists(kind, key[1])
            if kind.id == CRD_ID:
                new["status"] = crd.established(new, journal.timestamp())
            if not dry_run:
                journal.put(kind, new)
                self._definition_changed(kind, new)
        return new

    def load(self, resource: KindOrName, objects: Iterable[JsonObject]) -> int:
        """Store objects as they are, status included, without admission, watch events or listeners; return how many.

        For filling a cluster quickly before anybody watches it. Uid and creationTimestamp are kept where given.
        """
        kind = self.kind(resource)
        count = 0
        with self._journal.transaction():
            for given in objects:
                obj = deep_copy(given)
                set_namespace(kind, obj["metadata"], None)
                kept = {key: obj["metadata"][key] for key in _KEPT_ON_LOAD if obj["metadata"].get(key)}
                stamp(kind, obj, self._journal.timestamp(), self._journal.revision + 1)
                obj["metadata"].update(kept)
                self._journal.load(kind, obj)
                count += 1
        return count

    def update(
        self,
        resource: KindOrName,
        obj: JsonObject,
        *,
        namespace: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> JsonObject:
        """Replace an object; a resourceVersion in it must be the current one (409 otherwise)."""
        kind = self.kind(resource)
        metadata = obj.get("metadata") or {}
        if not metadata.get("name"):
            raise invalid(kind, "", [required("metadata.name")])
        with self._journal.transaction():
            old = self.record(kind, metadata["name"], namespace or metadata.get("namespace"))
            return self._replace(kind, old, obj, subresource, dry_run=dry_run)

    def update_status(self, resource: KindOrName, obj: JsonObject, *, namespace: str | None = None) -> JsonObject:
        """Replace an object's status (and for built-in kinds labels and annotations), leaving spec alone."""
        return self.update(resource, obj, namespace=namespace, subresource="status")

    def patch(
        self,
        resource: KindOrName,
        name: str,
        patch: object,
        *,
        namespace: str | None = None,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> JsonObject:
        """Apply a patch to an object, its status, or its scale (the answer is then the Scale)."""
        kind = self.kind(resource)
        with self._journal.transaction():
            old = self.record(kind, name, namespace)
            obj = old.decoded(kind)
            is_scale = subresource == "scale"
            target = scaling.scale_of(obj) if is_scale else obj
            changed = patched(kind, target, patch, patch_type)
            if is_scale:
                changed = scaling.rescaled(kind, obj, changed)
                return scaling.scale_of(self._replace(kind, old, changed, "", dry_run=dry_run))
            check_identity(kind, obj, changed)
            return self._replace(kind, old, changed, subresource, dry_run=dry_run)

    def apply(
        self,
        resource: KindOrName,
        config: JsonObject,
        *,
        manager: str,
        namespace: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> tuple[JsonObject, bool]:
        """Server-side apply; returns the object and whether it was created."""
        kind = self.kind(resource)
        config = deep_copy(config)
        metadata = config.setdefault("metadata", {})
        set_namespace(kind, metadata, namespace)
        if not metadata.get("name"):
            raise invalid(kind, "", [required("metadata.name")])
        with self._journal.transaction():
            record = self._journal.store(kind).get((metadata.get("namespace", ""), metadata["name"]))
            if record is None:
                result = self.create(kind, config, dry_run=dry_run)
            else:
                before = self._journal.applied.get(record.uid, {}).get(manager)
                merged = apply.applied(record.decoded(kind), config, before, custom=kind.custom)
                result = self._replace(kind, record, merged, subresource, dry_run=dry_run)
            if not dry_run:
                self._journal.applied.setdefault(result["metadata"]["uid"], {})[manager] = config
        return result, record is None

    def delete(
        self,
        resource: KindOrName,
        name: str,
        *,
        namespace: str | None = None,
        options: DeleteOptions = DeleteOptions(),  # noqa: B008 - frozen
        grace_s: int | None = None,
        dry_run: bool = False,
    ) -> DeletedObject:
        """Delete an object; pods on a node, and objects with finalizers, may only start to terminate."""
        kind = self.kind(resource)
        if grace_s is not None:
            options = DeleteOptions(grace_s, options.propagation, options.uid, options.resource_version)
        with self._journal.transaction():
            record = self.record(kind, name, namespace)
            return self._deletion.delete(kind, record, options, dry_run=dry_run)

    def delete_collection(
        self, resource: KindOrName, selection: StoreSelection, options: DeleteOptions, *, dry_run: bool = False
    ) -> JsonObjects:
        """Delete everything selected; returns the objects as they were."""
        kind = self.kind(resource)
        with self._journal.transaction():
            store = self._journal.store(kind)
            records = list(store.records(selection))
            for record in records:
                current = store.get(record.key)
                if current is not None:
                    self._deletion.delete(kind, current, options, dry_run=dry_run)
        return [record.decoded(kind) for record in records]

    def evict(
        self,
        name: str,
        namespace: str = "default",
        *,
        options: DeleteOptions = DeleteOptions(),  # noqa: B008 - frozen
        dry_run: bool = False,
    ) -> None:
        """Evict a pod; raises ApiError 429 with cause DisruptionBudget while its budget forbids it."""
        pods, budgets = self.kind("pods"), self.kind("poddisruptionbudgets.policy")
        now = self._journal.timestamp()
        with self._journal.transaction():
            record = self.record(pods, name, namespace)
            check_preconditions(pods, record, options)
            pod = record.decoded(pods)
            if eviction.needs_budget(pod):
                budget = eviction.budget_of(pod, self.list(budgets, namespace=namespace))
                if budget is not None and not eviction.is_exempt(pod, budget):
                    used_budget = eviction.use_disruption(pod, budget, now)
                    if not dry_run:
                        self._journal.put(budgets, used_budget)
            if not dry_run:
                record = self._journal.put(pods, eviction.with_eviction_condition(pod, now))
            self._deletion.delete(pods, record, DeleteOptions(options.grace_s, options.propagation), dry_run=dry_run)

    def bind(self, name: str, node: str, *, namespace: str = "default", dry_run: bool = False) -> None:
        """Assign a pod to a node, which need not exist; raises ApiError 409 if it has one."""
        kind = self.kind("pods")
        with self._journal.transaction():
            pod = eviction.bound_to(kind, self.get(kind, name, namespace), node, self._journal.timestamp())
            if not dry_run:
                self._journal.put(kind, pod)

    def get_scale(self, resource: KindOrName, name: str, namespace: str | None = None) -> JsonObject:
        """Return the autoscaling/v1 Scale of a workload."""
        return scaling.scale_of(self.get(resource, name, namespace))

    def scale(self, resource: KindOrName, name: str, replicas: int, *, namespace: str | None = None) -> JsonObject:
        """Set a workload's replicas and return its Scale."""
        return self.replace_scale(resource, name, {"spec": {"replicas": replicas}}, namespace=namespace)

    def replace_scale(
        self,
        resource: KindOrName,
        name: str,
        scale: JsonObject,
        *,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> JsonObject:
        """Set a workload's replicas from a Scale object, whose resourceVersion counts if it has one."""
        kind = self.kind(resource)
        with self._journal.transaction():
            record = self.record(kind, name, namespace)
            changed = scaling.rescaled(kind, record.decoded(kind), scale)
            return scaling.scale_of(self._replace(kind, record, changed, "", dry_run=dry_run))

    def watch(
        self,
        resource: KindOrName,
        since: int | None = None,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Subscription:
        """Follow changes after a resource version; `None` first reports what exists as ADDED. Raises ApiError 410."""
        kind = self.kind(resource)
        return self.subscribe(kind, self.select(kind, namespace, label_selector, field_selector), since)

    def subscribe(self, kind: Kind, selection: StoreSelection, since: int | None) -> Subscription:
        """Follow changes of a selection."""
        return self._journal.subscribe(kind, selection, since)

    def listen(self, resource: KindOrName, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` with each Change of the kind, after the write that made it; the result stops that.

        Calls come in commit order, one at a time, on the writer's thread, without locks held; a listener may write.
        """
        return self._journal.listen(self.kind(resource), listener)

    def compact(self, resource: KindOrName | None = None) -> None:
        """Forget the history of one kind, or of all: watches and continue tokens from before get 410."""
        with self._journal.transaction():
            stores = self._journal.stores() if resource is None else [self._journal.store(self.kind(resource))]
            for store in stores:
                store.compact(self._journal.revision)

    def count(self, resource: KindOrName) -> int:
        """How many objects of the kind exist."""
        return len(self._journal.store(self.kind(resource)))

    def select(self, kind: Kind, namespace: str | None, labels: str = "", fields: str = "") -> StoreSelection:
        """Parse selectors; raises ApiError 400."""
        scope = namespace if kind.namespaced else ""
        return StoreSelection(scope, selectors.parse_labels(labels), selectors.parse_fields(fields, kind.fields))

    def record(self, kind: Kind, name: str, namespace: str | None) -> Stored:
        """Return one object as it rests; raises ApiError 404."""
        key = ((namespace or "default") if kind.namespaced else "", name)
        with self._journal.lock:
            record = self._journal.store(kind).get(key)
        if record is None:
            raise not_found(kind, name)
        return record

    def page(
        self,
        kind: Kind,
        selection: StoreSelection,
        *,
        limit: int | None = None,
        after: Key | None = None,
        revision: int | None = None,
    ) -> ListPage:
        """List a chunk as of a revision (now, if `None`); raises ApiError 410 or 504."""
        with self._journal.lock:
            current = self._journal.revision
            if revision is not None and revision > current:
                raise from_the_future(revision, current)
            return self._journal.store(kind).page(selection, revision or current, after, limit)

    def _replace(self, kind: Kind, old: Stored, obj: JsonObject, subresource: str, *, dry_run: bool) -> JsonObject:
        current = old.decoded(kind)
        new = self._admission.changed(kind, current, obj, subresource)
        if new == current or dry_run:
            return new
        record = self._journal.put(kind, new)
        self._definition_changed(kind, new)
        self._deletion.finalized(kind, record)
        return new

    def _definition_changed(self, kind: Kind, obj: JsonObject) -> None:
        if kind.id == CRD_ID:
            self.registry.add(crd.rows(obj))

    def _require_namespace(self, kind: Kind, key: Key) -> None:
        if not kind.namespaced:
            return
        record = self.record(self.kind("namespaces"), key[0], None)
        if record.fields["status.phase"] == "Terminating":
            why = f"unable to create new content in namespace {key[0]} because it is being terminated"
            raise forbidden(kind, key[1], why)

    def _priority_classes(self) -> Iterator[JsonObject]:
        yield from self.list("priorityclasses.scheduling.k8s.io")

    def _load_system_priorities(self) -> None:
        names = _SYSTEM_PRIORITIES.items()
        extra = {"preemptionPolicy": "PreemptLowerPriority"}
        objects = [{"metadata": {"name": name}, "value": value, **extra} for name, value in names]
        self.load("priorityclasses.scheduling.k8s.io", objects)


_KEPT_ON_LOAD = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
