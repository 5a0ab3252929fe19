"""All writes to the cluster except the lease's, in one class that shows everything the autoscaler can change.

Nodes and ConfigMaps are read, changed and replaced with their resourceVersion, so no concurrent change is lost. The
permissions of a stock Cluster Autoscaler installation (get and update, no patch) are enough. Every write requires
leadership, checked right before it is sent, after any wait for the rate limit.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from autoscaler.clock import Clock
from autoscaler.errors import Conflict, Gone, LeadershipLost
from autoscaler.kube import paths
from autoscaler.kube.call import APPLY_PATCH, MERGE_PATCH, Call
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.whole_objects import json_object, whole_object
from autoscaler.objects.meta import JsonObject, rfc3339
from autoscaler.objects.node import Taint
from autoscaler.ports import EventType, Leadership, Subject

if TYPE_CHECKING:
    from autoscaler.kube.client import Client

_FIELD_MANAGER = "cluster-autoscaler"
_WRITE_TIMEOUTS_S = (10.0, 5.0, 2.5)
_CONFLICT_PAUSE_S = 0.75
_CONFLICT_PATIENCE_S = 5.0

Texts = Mapping[str, str | None]
"""New texts by key; None removes one."""

_encode = msgspec.json.encode


class EventRecord(msgspec.Struct, frozen=True):
    """One event as stored; it happened `count` times between its first and last time (Unix seconds)."""

    name: str
    about: Subject
    kind: EventType
    reason: str
    message: str
    first_wall: float
    last_wall: float
    count: int = 1
    component: str = "cluster-autoscaler"

    @property
    def namespace(self) -> str:
        """The namespace of the event: that of its object, or `default` for objects without a namespace."""
        return self.about.namespace or "default"


class ClusterWrites(Protocol):
    """The changes that the autoscaler can make to a cluster. Any call may raise `LeadershipLost`, `RetryLater` or
    `Refused`.

    After `RetryLater` the write may have happened: read the object before deciding again.
    """

    def evict(self, namespace: str, name: str, uid: str, grace_s: int | None) -> None:
        """Evict the pod with that uid; raises `Blocked` for a disruption budget, `Gone` if it does not exist."""
        ...

    def delete_pod(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> None:
        """Delete the pod with that uid, ignoring disruption budgets; raises `Gone` if it does not exist."""
        ...

    def add_taint(self, node: str, taint: Taint, *, cordon: bool = False) -> bool:
        """Taint the node and optionally cordon it; return False if that changed nothing. Raises `Gone` if it does not
        exist.

        An existing taint with the same key and effect stays as it is, including its time stamp.
        """
        ...

    def remove_taint(self, node: str, key: str, *, uncordon: bool = False) -> bool:
        """Remove the taints with that key; if there were any and `uncordon` is set, uncordon the node.

        Returns False if there was nothing to remove, also if the node does not exist.
        """
        ...

    def annotate_node(self, node: str, annotations: Texts) -> bool:
        """Set annotations; return False if that changed nothing.

        Raises `Gone` if the node does not exist.
        """
        ...

    def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Texts) -> None:
        """Set annotations of the pod with that uid; raises `Gone` if it does not exist."""
        ...

    def create_event(self, event: EventRecord) -> None:
        """Store a new event."""
        ...

    def repeat_event(self, event: EventRecord) -> None:
        """Update the count, last time and message of a stored event; create it again if it has expired."""
        ...

    def put_config_map(self, namespace: str, name: str, data: Texts, annotations: Texts | None = None) -> str:
        """Create the ConfigMap, or put `data` and annotations into it; all else stays.

        Returns its uid.
        """
        ...

    def create(self, obj: Mapping[str, Any]) -> JsonObject:
        """Create an object (nodes of the kwok provider, ConfigMaps, ...); raises `Conflict` if the name is taken."""
        ...

    def try_create(self, obj: Mapping[str, Any]) -> JsonObject:
        """Return the object as the server would store it, after defaults and admission; nothing is stored."""
        ...

    def replace(self, obj: Mapping[str, Any]) -> JsonObject:
        """Replace an object; raises `Conflict` if it changed after the resourceVersion in its metadata."""
        ...

    def apply(self, obj: Mapping[str, Any]) -> JsonObject:
        """Set the object's fields by server-side apply, even if another manager owns them."""
        ...

    def edit_status(self, ref: ObjectRef, uid: str, change: Callable[[JsonObject], bool]) -> bool:
        """Let `change` modify the object and store its status; return False if `change` makes no change.

        `change` may run several times, each time on the current object. Raises `Gone` if no object with that uid
        exists.
        """
        ...

    def delete(self, ref: ObjectRef, uid: str | None = None, resource_version: str | None = None) -> None:
        """Delete an object if its uid or version still matches; raises `Gone` if it does not exist."""
        ...


class Writes:
    """`ClusterWrites` on an API server. Threads may share it."""

    def __init__(self, client: "Client", leadership: Leadership, clock: Clock, sleep: Callable[[float], bool]) -> None:
        """`sleep` waits that many seconds and returns False if the program is stopping."""
        self._client = client
        self._leadership = leadership
        self._clock = clock
        self._sleep = sleep
        self._write = Call(timeout_s=_WRITE_TIMEOUTS_S[0], guard=self._allowed)
        # The read before it already waited for the rate limit; a wait between the two would invite conflicts.
        self._write_back = Call(timeout_s=_WRITE_TIMEOUTS_S[0], guard=self._allowed, urgent=True)
        self._evict = Call(timeout_s=_WRITE_TIMEOUTS_S[0], guard=self._allowed, repeatable=False, eviction=True)

    def evict(self, namespace: str, name: str, uid: str, grace_s: int | None) -> None:
        """Evict the pod with that uid."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(grace_s, uid),
        }
        where = paths.pod(namespace, name)
        self._of_that_uid(where, uid, lambda: self._client.post(f"{where}/eviction", _encode(body), self._evict))

    def delete_pod(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> None:
        """Delete the pod with that uid, ignoring disruption budgets."""
        where = paths.pod(namespace, name)
        options = _encode(_delete_options(grace_s, uid))
        self._of_that_uid(where, uid, lambda: self._client.delete(where, options, self._write))

    def add_taint(self, node: str, taint: Taint, *, cordon: bool = False) -> bool:
        """Taint the node and optionally cordon it; return False if that changed nothing."""

        def change(node: JsonObject) -> bool:
            spec = node["spec"] = node.get("spec") or {}
            taints = spec.get("taints") or []
            tainted = any(t.get("key") == taint.key and t.get("effect") == taint.effect for t in taints)
            cordoned = not cordon or bool(spec.get("unschedulable"))
            if not tainted:
                spec["taints"] = [*taints, msgspec.to_builtins(taint)]
            if not cordoned:
                spec["unschedulable"] = True
            return not (tainted and cordoned)

        return self._edit(paths.node(node), change)

    def remove_taint(self, node: str, key: str, *, uncordon: bool = False) -> bool:
        """Remove the taints with that key; if there were any and `uncordon` is set, uncordon the node."""

        def change(node: JsonObject) -> bool:
            spec = node["spec"] = node.get("spec") or {}
            taints = spec.get("taints") or []
            spec["taints"] = [t for t in taints if t.get("key") != key]
            if len(spec["taints"]) == len(taints):
                return False
            if uncordon:
                spec.pop("unschedulable", None)
            return True

        try:
            return self._edit(paths.node(node), change)
        except Gone:
            return False

    def annotate_node(self, node: str, annotations: Texts) -> bool:
        """Set annotations; return False if that changed nothing."""

        def change(node: JsonObject) -> bool:
            return _annotated(node, annotations)

        return self._edit(paths.node(node), change)

    def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Texts) -> None:
        """Set annotations of the pod with that uid."""
        where = paths.pod(namespace, name)
        change = _encode({"metadata": {"uid": uid, "annotations": dict(annotations)}})
        self._of_that_uid(where, uid, lambda: self._client.patch(where, change, MERGE_PATCH, self._write))

    def create_event(self, event: EventRecord) -> None:
        """Store a new event."""
        where = paths.collection("v1", "Event", event.namespace)
        self._client.post(where, _encode(_event_object(event)), self._write)

    def repeat_event(self, event: EventRecord) -> None:
        """Update the count, last time and message of a stored event; create it again if it has expired."""
        where = paths.path(ObjectRef("v1", "Event", event.name, event.namespace))
        change = {"count": event.count, "lastTimestamp": rfc3339(event.last_wall), "message": event.message}
        try:
            self._client.patch(where, _encode(change), MERGE_PATCH, self._write)
        except Gone:
            self.create_event(event)

    def put_config_map(self, namespace: str, name: str, data: Texts, annotations: Texts | None = None) -> str:
        """Create the ConfigMap, or put `data` and annotations into it; all else stays.

        Returns its uid.
        """
        ref = ObjectRef("v1", "ConfigMap", name, namespace)
        noted = dict(annotations or {})
        uids: list[str] = []

        def change(held: JsonObject) -> bool:
            uids.append(held["metadata"].get("uid") or "")
            held["data"] = _merged(held.get("data") or {}, data)
            held["metadata"]["annotations"] = _merged(held["metadata"].get("annotations") or {}, noted)
            return True

        try:
            self._edit(paths.path(ref), change)
        except Gone:
            metadata = {"name": name, "namespace": namespace, "annotations": _merged({}, noted)}
            born = self.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": _merged({}, data)}
            )
            made = born.get("metadata")
            return str(made.get("uid") or "") if isinstance(made, dict) else ""
        return uids[-1]

    def create(self, obj: Mapping[str, Any]) -> JsonObject:
        """Create an object (nodes of the kwok provider, ConfigMaps, ...); raises `Conflict` if the name is taken."""
        ref = _ref(obj)
        where = paths.collection(ref.api_version, ref.kind, ref.namespace)
        return json_object(self._client.post(where, _encode(obj), self._write))

    def try_create(self, obj: Mapping[str, Any]) -> JsonObject:
        """Return the object as the server would store it, after defaults and admission; nothing is stored."""
        ref = _ref(obj)
        where = paths.collection(ref.api_version, ref.kind, ref.namespace)
        return whole_object(self._client.post(where, _encode(obj), self._write, {"dryRun": "All"}))

    def replace(self, obj: Mapping[str, Any]) -> JsonObject:
        """Replace an object; raises `Conflict` if it changed after the resourceVersion in its metadata.

        An object without a resourceVersion is refused here, because the server would overwrite concurrent changes.
        """
        if not obj["metadata"].get("resourceVersion"):
            raise ValueError("an object is replaced only by its resourceVersion")
        return json_object(self._client.put(paths.path(_ref(obj)), _encode(obj), self._write))

    def apply(self, obj: Mapping[str, Any]) -> JsonObject:
        """Set the object's fields by server-side apply, even if another manager owns them."""
        query = {"fieldManager": _FIELD_MANAGER, "force": "true"}
        return json_object(self._client.patch(paths.path(_ref(obj)), _encode(obj), APPLY_PATCH, self._write, query))

    def edit_status(self, ref: ObjectRef, uid: str, change: Callable[[JsonObject], bool]) -> bool:
        """Let `change` modify the object and store its status; return False if `change` makes no change."""
        where = paths.path(ref)

        def guarded(held: JsonObject) -> bool:
            if uid and held["metadata"].get("uid") != uid:
                raise Gone(f"{where}: the object of uid {uid} is gone, another has its name")
            return change(held)

        return self._edit(where, guarded, "/status")

    def delete(self, ref: ObjectRef, uid: str | None = None, resource_version: str | None = None) -> None:
        """Delete an object if its uid or version still matches; raises `Gone` if it does not exist."""
        self._client.delete(paths.path(ref), _encode(_delete_options(None, uid, resource_version)), self._write)

    def annotate(self, where: str, uid: str, annotations: Texts) -> None:
        """Set annotations of the object at a path; raises `Conflict` if its uid differs.

        The object is written back even if nothing changes, to find out whether the write is allowed.
        """

        def change(obj: JsonObject) -> bool:
            if obj["metadata"].get("uid") != uid:
                raise Conflict(f"{where}: another object has the name by now")
            _annotated(obj, annotations)
            return True

        self._edit(where, change)

    def put_scale(self, where: str, name: str, namespace: str, replicas: int, resource_version: str) -> None:
        """Set the replicas of the object at a path; raises `Conflict` if it changed after that version."""
        if not resource_version:
            raise ValueError("a scale is replaced only by its resourceVersion")
        metadata = {"name": name, "namespace": namespace, "resourceVersion": resource_version}
        head = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
        scale = {**head, "metadata": metadata, "spec": {"replicas": replicas}}
        self._client.put(f"{where}/scale", _encode(scale), self._write_back)

    def _edit(self, where: str, change: Callable[[JsonObject], bool], part: str = "") -> bool:
        """Read, change and replace the object, or a `part` such as `/status`; retry until no other change intervenes.

        Returns False if `change` makes no change.
        """
        give_up = self._clock.now().mono + _CONFLICT_PATIENCE_S
        while True:
            current = whole_object(self._client.get(where))
            if not change(current):
                return False
            try:
                self._client.put(where + part, _encode(current), self._write_back)
            except Conflict:
                if self._clock.now().mono + _CONFLICT_PAUSE_S > give_up or not self._sleep(_CONFLICT_PAUSE_S):
                    raise
            else:
                return True

    def _of_that_uid(self, where: str, uid: str, remove: Callable[[], object]) -> None:
        """Run `remove`. A conflict because another object has the name by now means that ours is gone."""
        try:
            remove()
        except Conflict as conflict:
            if uid and whole_object(self._client.get(where))["metadata"].get("uid") != uid:
                raise Gone(f"{where}: the object of uid {uid} is gone, another has its name") from conflict
            raise

    def _allowed(self) -> float:
        """Return the longest time-out for which the lease stays valid; it is short while a renewal is slow."""
        now = self._clock.now()
        for seconds in _WRITE_TIMEOUTS_S:
            if self._leadership.may_write(now, seconds):
                return seconds
        raise LeadershipLost("the lease is lost or about to run out: nothing is written")


def _annotated(obj: JsonObject, annotations: Texts) -> bool:
    """Set annotations (None removes one) on an object; return False if that changed nothing."""
    present = obj["metadata"].get("annotations") or {}
    wanted = _merged(present, annotations)
    obj["metadata"]["annotations"] = wanted
    return bool(wanted != present)


def _merged(present: Mapping[str, str], changes: Texts) -> dict[str, str]:
    """Return texts by key after changes; None removes one."""
    return {key: text for key, text in {**present, **changes}.items() if text is not None}


def _ref(obj: Mapping[str, Any]) -> ObjectRef:
    metadata = obj["metadata"]
    return ObjectRef(obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace", ""))


def _delete_options(grace_s: int | None, uid: str | None, resource_version: str | None = None) -> JsonObject:
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    conditions = {"uid": uid, "resourceVersion": resource_version}
    if only := {name: value for name, value in conditions.items() if value}:
        options["preconditions"] = only
    return options


def _event_object(event: EventRecord) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event.name, "namespace": event.namespace},
        "involvedObject": {
            "apiVersion": event.about.api_version,
            "kind": event.about.kind,
            "name": event.about.name,
            **({"namespace": event.about.namespace} if event.about.namespace else {}),
            **({"uid": event.about.uid} if event.about.uid else {}),
        },
        "type": str(event.kind),
        "reason": event.reason,
        "message": event.message,
        "source": {"component": event.component},
        "reportingComponent": event.component,
        "firstTimestamp": rfc3339(event.first_wall),
        "lastTimestamp": rfc3339(event.last_wall),
        "count": event.count,
    }
