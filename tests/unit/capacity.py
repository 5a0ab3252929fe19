"""ProvisioningRequests, CapacityBuffers, CapacityQuotas and templates for tests."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.objects.capacity import (
    ATOMIC_SCALE_UP,
    CHECK_CAPACITY,
    CapacityBuffer,
    CapacityQuota,
    ProvisioningRequest,
    Scalable,
    StatusCondition,
    StoredTemplate,
)
from autoscaler.objects.meta import rfc3339

CHECK, ATOMIC = CHECK_CAPACITY, ATOMIC_SCALE_UP


def a_template(name: str = "worker", *, cpu: str = "3", **spec: Any) -> StoredTemplate:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    meta = {"name": name, "namespace": "default", "uid": f"t/{name}", "generation": 1}
    plain = {"metadata": meta, "template": {"spec": {"containers": containers, **spec}}}
    return msgspec.convert(plain, StoredTemplate)


def a_condition(kind: str, status: str = "True", *, since: float = 0.0, reason: str = "") -> StatusCondition:
    return StatusCondition(type=kind, status=status, reason=reason, last_transition_time=rfc3339(since))


def a_request(
    name: str = "job",
    count: int = 2,
    *,
    kind: str = CHECK,
    template: str = "worker",
    parameters: Mapping[str, str] | None = None,
    conditions: Sequence[StatusCondition] = (),
    created: float = 0.0,
) -> ProvisioningRequest:
    meta = {"name": name, "namespace": "default", "uid": f"r/{name}", "creationTimestamp": rfc3339(created)}
    spec = {
        "provisioningClassName": kind,
        "podSets": [{"count": count, "podTemplateRef": {"name": template}}],
        "parameters": dict(parameters or {}),
    }
    status = {"conditions": [msgspec.to_builtins(condition) for condition in conditions]}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, ProvisioningRequest)


def a_quota(
    name: str = "few",
    most: Mapping[str, Any] | None = None,
    *,
    selector: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **limits: Any,
) -> CapacityQuota:
    """Return a quota with these limits; a selector of labels may be written as such."""
    plain = selector if selector is None or "matchExpressions" in selector else {"matchLabels": dict(selector)}
    spec = {"selector": plain, "limits": {"resources": {**(most or {}), **limits}}}
    meta = {"name": name, "uid": f"q/{name}", "generation": 1}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status or {}}, CapacityQuota)


def a_buffer(
    name: str = "spare", *, status: Mapping[str, Any] | None = None, template: str | None = "worker", **spec: Any
) -> CapacityBuffer:
    meta = {"name": name, "namespace": "default", "uid": f"b/{name}"}
    named = {"podTemplateRef": {"name": template}} if template else {}
    return msgspec.convert({"metadata": meta, "spec": {**named, **spec}, "status": status or {}}, CapacityBuffer)


def a_scalable(name: str = "web", replicas: int = 4, *, cpu: str = "1") -> Scalable:
    containers = [{"name": "main", "image": "web", "resources": {"requests": {"cpu": cpu}}}]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}
    meta = {"name": name, "namespace": "default", "uid": f"d/{name}"}
    return msgspec.convert({"metadata": meta, "spec": {"replicas": replicas, "template": template}}, Scalable)


def a_definition(kind: str, plural: str, *versions: str, scope: str = "Namespaced") -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind in `autoscaling.x-k8s.io`, the newest version first."""
    served = [
        {"name": version, "served": True, "storage": number == 0, "subresources": {"status": {}}}
        for number, version in enumerate(versions)
    ]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    group = "autoscaling.x-k8s.io"
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": served},
    }


def request_definition(*versions: str) -> dict[str, Any]:
    """Return the definition of ProvisioningRequests."""
    return a_definition("ProvisioningRequest", "provisioningrequests", *(versions or ("v1", "v1beta1")))


def buffer_definition(*versions: str) -> dict[str, Any]:
    """Return the definition of CapacityBuffers."""
    return a_definition("CapacityBuffer", "capacitybuffers", *(versions or ("v1beta1", "v1alpha1")))


def quota_definition() -> dict[str, Any]:
    """Return the definition of CapacityQuotas."""
    return a_definition("CapacityQuota", "capacityquotas", "v1beta1", scope="Cluster")
