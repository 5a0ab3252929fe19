"""Paths of objects on the API server."""

from urllib.parse import quote

import msgspec

_REQUESTS, _OTHERS = ("v1", "v1beta1"), ("v1beta1", "v1alpha1")
_RESOURCES = {
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "Event"): "events",
    ("v1", "Node"): "nodes",
    ("v1", "Pod"): "pods",
    ("apps/v1", "Deployment"): "deployments",
    ("coordination.k8s.io/v1", "Lease"): "leases",
    ("scheduling.k8s.io/v1", "PriorityClass"): "priorityclasses",
    ("v1", "PodTemplate"): "podtemplates",
    **{(f"autoscaling.x-k8s.io/{version}", "ProvisioningRequest"): "provisioningrequests" for version in _REQUESTS},
    **{(f"autoscaling.x-k8s.io/{version}", "CapacityBuffer"): "capacitybuffers" for version in _OTHERS},
    **{(f"autoscaling.x-k8s.io/{version}", "CapacityQuota"): "capacityquotas" for version in _OTHERS},
}


class ObjectRef(msgspec.Struct, frozen=True):
    """Names one object; `namespace` is empty for kinds without one."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""


def collection(api_version: str, kind: str, namespace: str = "") -> str:
    """Return the path of a collection. Raises `ValueError` for kinds that the autoscaler does not write."""
    resource = _RESOURCES.get((api_version, kind))
    if resource is None:
        raise ValueError(f"no path is known for {api_version} {kind}")
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{quoted(namespace)}/{resource}" if namespace else f"{root}/{resource}"


def path(ref: ObjectRef) -> str:
    """Return the path of one object."""
    return f"{collection(ref.api_version, ref.kind, ref.namespace)}/{quoted(ref.name)}"


def node(name: str) -> str:
    """Return the path of a node."""
    return path(ObjectRef("v1", "Node", name))


def pod(namespace: str, name: str) -> str:
    """Return the path of a pod."""
    return path(ObjectRef("v1", "Pod", name, namespace))


def custom(group: str, version: str, plural: str, namespace: str = "", name: str = "") -> str:
    """Return the path of a collection of any API group, or of one object in it."""
    scope = f"/namespaces/{quoted(namespace)}" if namespace else ""
    root = f"/apis/{quoted(group)}/{quoted(version)}{scope}/{quoted(plural)}"
    return f"{root}/{quoted(name)}" if name else root


def quoted(part: str) -> str:
    """Return one part of a path, escaped for a URL."""
    return quote(part, safe="")
