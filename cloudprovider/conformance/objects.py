"""Objects of any kind in memory, for providers that control other controllers through them."""

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from cloudprovider.interface import Conflict, NotFound, ObjectKind, ProviderError, Scale

T = TypeVar("T")
_Key = tuple[str, str, str]
"""Plural, namespace and name."""


class _Failure:
    """A planned failure of a request."""

    def __init__(self, call: str, error: ProviderError, skip: int, *, afterwards: bool) -> None:
        self.call = call
        self.error = error
        self.skip = skip
        self.afterwards = afterwards


class MemoryObjectApi:
    """An `ObjectApi` without a cluster. `calls` counts requests for `CountsCalls`."""

    def __init__(self, kinds: Mapping[str, ObjectKind], replicas: Sequence[str] = ()) -> None:
        """`kinds` are the served kinds by name, the preferred version first; `replicas` the plurals with a scale."""
        self._kinds = dict(kinds)
        self._scaled = frozenset(replicas)
        self._lock = threading.RLock()
        self._objects: dict[_Key, dict[str, Any]] = {}
        self._version = 0
        self._failures: list[_Failure] = []
        self.calls: list[str] = []
        """Verb and plural of each request."""

    def put(self, plural: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object as an API server would, and return the stored object."""
        with self._lock:
            stored = copy.deepcopy(dict(obj))
            metadata = stored["metadata"]
            key = (plural, metadata.setdefault("namespace", "default"), metadata["name"])
            before = self._objects.get(key)
            same = before is not None and before["metadata"]["uid"] == metadata.get("uid", before["metadata"]["uid"])
            self._version += 1
            metadata["uid"] = before["metadata"]["uid"] if same and before is not None else f"uid-{self._version}"
            metadata["resourceVersion"] = str(self._version)
            self._objects[key] = stored
            return copy.deepcopy(stored)

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """Remove an object."""
        with self._lock:
            del self._objects[plural, namespace, name]

    def objects(self, plural: str) -> list[dict[str, Any]]:
        """Return the stored objects, without counting a request."""
        with self._lock:
            return [copy.deepcopy(obj) for (kind, _, _), obj in self._objects.items() if kind == plural]

    def fail(self, call: str, error: ProviderError, *, skip: int = 0, afterwards: bool = False) -> None:
        """Make the next request of that verb and plural fail, after `skip` successful ones.

        `afterwards`: the request fails after it took effect, as with a lost answer.
        """
        self._failures.append(_Failure(call, error, skip, afterwards=afterwards))

    def kinds(self, group: str, version: str | None = None) -> Mapping[str, ObjectKind]:
        """Return the kinds of a group."""
        kinds = {
            name: kind for name, kind in self._kinds.items() if kind.group == group and version in (None, kind.version)
        }
        return self._request("kinds", group, lambda: kinds or _absent(f"the server serves no {group} {version or ''}"))

    def list_objects(
        self, kind: ObjectKind, namespace: str | None = None, label_selector: str = ""
    ) -> Sequence[Mapping[str, Any]]:
        """Return objects. The only supported selector is `key in (a,b)`."""
        label, _, values = label_selector.partition(" in ")
        allowed = values.strip("()").split(",")

        def select() -> list[Mapping[str, Any]]:
            return [
                obj
                for obj in self.objects(kind.plural)
                if namespace in (None, obj["metadata"]["namespace"])
                and (not label or (obj["metadata"].get("labels") or {}).get(label) in allowed)
            ]

        return self._request("list", kind.plural, select)

    def annotate_object(
        self, kind: ObjectKind, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]
    ) -> None:
        """Set annotations; `Conflict` if another object has the name."""

        def update() -> None:
            held = self._held(kind, namespace, name)
            if held["metadata"]["uid"] != uid:
                raise Conflict(f"{kind.plural} {namespace}/{name}: the uid is another")
            self.put(kind.plural, _merged(held, {"metadata": {"annotations": annotations}}))

        self._request("update", kind.plural, update)

    def get_scale(self, kind: ObjectKind, namespace: str, name: str) -> Scale:
        """Return the replicas."""

        def read() -> Scale:
            held = self._scalable(kind, namespace, name)
            return Scale(held["spec"].get("replicas") or 0, held["metadata"]["resourceVersion"])

        return self._request("get scale", kind.plural, read)

    def set_scale(self, kind: ObjectKind, namespace: str, name: str, scale: Scale) -> None:
        """Set the replicas; `Conflict` if the object has another version."""

        def write() -> None:
            held = self._scalable(kind, namespace, name)
            if held["metadata"]["resourceVersion"] != scale.resource_version:
                raise Conflict(f"{kind.plural} {namespace}/{name}: changed since it was read")
            self.put(kind.plural, _merged(held, {"spec": {"replicas": scale.replicas}}))

        self._request("set scale", kind.plural, write)

    def _request(self, verb: str, plural: str, serve: Callable[[], T]) -> T:
        with self._lock:
            call = f"{verb} {plural}"
            self.calls.append(call)
            due = [fault for fault in self._failures if fault.call == call]
            for fault in due:
                fault.skip -= 1
            planned = next((fault for fault in due if fault.skip < 0), None)
            if planned is None:
                return serve()
            self._failures.remove(planned)
            if planned.afterwards:
                serve()
            raise planned.error

    def _scalable(self, kind: ObjectKind, namespace: str, name: str) -> dict[str, Any]:
        if kind.plural not in self._scaled:
            raise NotFound(f"{kind.plural} have no scale")
        return self._held(kind, namespace, name)

    def _held(self, kind: ObjectKind, namespace: str, name: str) -> dict[str, Any]:
        held = self._objects.get((kind.plural, namespace, name))
        return _absent(f"{kind.plural} {namespace}/{name} is not there") if held is None else copy.deepcopy(held)


def _absent(message: str) -> NoReturn:
    raise NotFound(message)


def _merged(held: Any, change: Any) -> Any:
    """Apply an RFC 7386 merge patch."""
    if not isinstance(change, Mapping):
        return change
    result = dict(held) if isinstance(held, Mapping) else {}
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result
