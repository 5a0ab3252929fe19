"""Objects as they stand in a scenario file or are sent to an API server: each builder takes only what a test is about.

Names are the API's; whatever a builder has no argument for is a further field of `spec`, or of the group.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def named(name: str, namespace: str = "default", **spec: Any) -> Json:
    """Return an object of any kind in a namespace."""
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def owner_of(owner: str) -> Json:
    """Return the reference to a controller, which is written `Kind/name`."""
    kind, _, name = owner.partition("/")
    api = "apps/v1" if kind in ("ReplicaSet", "StatefulSet", "DaemonSet") else "v1"
    return {"kind": kind, "name": name, "apiVersion": api, "controller": True}


def a_pod(
    name: str = "web-0",
    cpu: str = "1",
    *,
    owner: str | None = None,
    more: Mapping[str, str] | None = None,
    container: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """Return a pod; `web-0` is of ReplicaSet `web` unless `owner` names another, or "" nobody.

    `more` are further resources that it asks for, `container` further fields of its container. Without `labels` it has
    `app`, which for `web-0` is `web`.
    """
    app = name.partition("-")[0]
    owners = [owner_of(f"ReplicaSet/{app}" if owner is None else owner)] if owner != "" else []
    requests = {**({"cpu": cpu} if cpu else {}), **(more or {})}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}, **(container or {})}
    about = {"labels": {"app": app} if labels is None else dict(labels), "annotations": dict(annotations or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **about, "ownerReferences": owners, **(meta or {})},
        "spec": {"containers": [container], **spec},
        **({"status": dict(status)} if status else {}),
    }


def a_bare_pod(name: str = "p", cpu: str = "", **fields: Any) -> Json:
    """Return a pod that nobody would make again, and that asks for nothing; `fields` as for `a_pod`."""
    return a_pod(name, cpu, owner="", **fields)


def replicas(app: str, count: int, cpu: str = "1", **fields: Any) -> list[Json]:
    """Return pods of a ReplicaSet: `web-0`, `web-1` and so on; `fields` as for `a_pod`."""
    return [a_pod(f"{app}-{number}", cpu, **fields) for number in range(count)]


def running(
    name: str = "web-0",
    node: str = "n",
    *,
    cpu: str = "100m",
    owner: str = "ReplicaSet/web",
    labels: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Json:
    """Return a small pod of `web` on a node; `fields` as for `a_pod`."""
    labels, meta = labels or {"app": "web"}, {"namespace": "default", **(meta or {})}
    return a_pod(name, cpu, owner=owner, labels=labels, meta=meta, nodeName=node, **fields)


def a_node(
    name: str = "n",
    cpu: str = "4",
    *,
    memory: str = "16Gi",
    more: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """Return a node; `more` are further resources."""
    capacity = {"cpu": cpu, "memory": memory, "pods": "110", **(more or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **(meta or {})},
        "spec": spec,
        "status": {"capacity": capacity, **(status or {})},
    }


def a_template(
    cpu: str = "4",
    memory: str = "8Gi",
    *,
    labels: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return what a new node of a group looks like; `more` are further resources."""
    capacity = {"cpu": cpu, "memory": memory, "pods": "110", **(more or {})}
    return {"metadata": {"labels": dict(labels or {})}, "spec": spec, "status": {"capacity": capacity}}


def a_group(name: str = "g", template: Json | None = None, **fields: Any) -> Json:
    """Return a node group of a scenario file, which has no nodes yet and may have five."""
    limits = {"minSize": 0, "maxSize": 5, "targetSize": 0}
    return {"id": name, **limits, "template": template or a_template(), **fields}


def a_budget(
    allowed: int, *, name: str = "web", namespace: str = "default", labels: Mapping[str, str] | None = None
) -> Json:
    """Return a PodDisruptionBudget that allows so many disruptions now, by default of the pods of its own name."""
    selector = {"matchLabels": {"app": name} if labels is None else dict(labels)}
    return {**named(name, namespace, selector=selector), "status": {"disruptionsAllowed": allowed}}
