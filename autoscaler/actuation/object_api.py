"""Access to objects of any kind on any API server, for providers that scale groups by changing such objects."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from autoscaler.actuation.node_api import as_provider_errors
from autoscaler.errors import RetryLater
from autoscaler.kube import paths
from autoscaler.kube.listing import read_all
from autoscaler.kube.reader import ApiReader
from autoscaler.kube.whole_objects import json_object, json_objects
from cloudprovider.interface import NotFound, ObjectKind, Scale


class ObjectWrites(Protocol):
    """The writes that providers may make to objects; see `autoscaler.kube.writes.Writes`."""

    def annotate(self, where: str, uid: str, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of the object at a path if its uid matches; write the object back even if nothing changes."""
        ...

    def put_scale(self, where: str, name: str, namespace: str, replicas: int, resource_version: str) -> None:
        """Set the replicas of the object at a path if it still has that resource version."""
        ...


class ClusterObjectApi:
    """A `cloudprovider.interface.ObjectApi` on an API server; it calls `writes` when it first needs to write."""

    def __init__(self, client: ApiReader, writes: Callable[[], ObjectWrites]) -> None:
        self._client = client
        self._writes = writes

    def kinds(self, group: str, version: str | None = None) -> Mapping[str, ObjectKind]:
        """Return the namespaced kinds of an API group by name, each in the version that the server prefers."""
        with as_provider_errors():
            versions = (version,) if version is not None else self._versions(group)
            kinds: dict[str, ObjectKind] = {}
            for served in versions:
                for kind, plural in self._served(group, served):
                    kinds.setdefault(kind, ObjectKind(group, served, plural))
            return kinds

    def _versions(self, group: str) -> Sequence[str]:
        described = json_object(self._client.get(f"/apis/{paths.quoted(group)}"))
        try:
            preferred = [described["preferredVersion"]["version"]] if described.get("preferredVersion") else []
            served = [entry["version"] for entry in described["versions"]]
        except (KeyError, TypeError) as error:
            raise RetryLater(f"the API server describes the group {group} in a way that is not understood") from error
        return tuple(dict.fromkeys((*preferred, *served)))

    def _served(self, group: str, version: str) -> Sequence[tuple[str, str]]:
        listed = json_object(self._client.get(f"/apis/{paths.quoted(group)}/{paths.quoted(version)}"))
        try:
            return [
                (resource["kind"], resource["name"])
                for resource in listed.get("resources") or ()
                if resource.get("namespaced") and "/" not in resource["name"]
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise RetryLater(f"the API server describes {group}/{version} in a way that is not understood") from error

    def list_objects(
        self, kind: ObjectKind, namespace: str | None = None, label_selector: str = ""
    ) -> Sequence[Mapping[str, Any]]:
        """Return all objects of a kind, or only those of one namespace."""
        where = paths.custom(kind.group, kind.version, kind.plural, namespace or "")
        selection = {"labelSelector": label_selector} if label_selector else {}
        with as_provider_errors():
            return [obj for page in read_all(self._client, where, selection) for obj in json_objects(page)]

    def annotate_object(
        self, kind: ObjectKind, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]
    ) -> None:
        """Set annotations by reading the object and writing it back."""
        with as_provider_errors():
            self._writes().annotate(_path(kind, namespace, name), uid, annotations)

    def get_scale(self, kind: ObjectKind, namespace: str, name: str) -> Scale:
        """Return the scale subresource of an object."""
        with as_provider_errors():
            scale = json_object(self._client.get(f"{_path(kind, namespace, name)}/scale"))
            try:
                replicas = (scale.get("spec") or {}).get("replicas", 0)  # which leaves out zero
                return Scale(int(replicas), str(scale["metadata"]["resourceVersion"]))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise RetryLater(f"the scale of {kind.plural} {namespace}/{name} is not understood") from error

    def set_scale(self, kind: ObjectKind, namespace: str, name: str, scale: Scale) -> None:
        """Set the replicas, unless the object has changed since `scale` was read."""
        with as_provider_errors():
            where = _path(kind, namespace, name)
            self._writes().put_scale(where, name, namespace, scale.replicas, scale.resource_version)


def _path(kind: ObjectKind, namespace: str, name: str) -> str:
    if not (namespace and name):
        raise NotFound(f"an object of {kind.plural} without a namespace or a name cannot be there")
    return paths.custom(kind.group, kind.version, kind.plural, namespace, name)
