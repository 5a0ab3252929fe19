"""The scale subresource (autoscaling/v1) over anything with spec.replicas."""

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import invalid, invalid_value
from autoscaler.sandbox.apiserver.kinds import Kind

_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: JsonObject) -> JsonObject:
    """Return the Scale object of a workload."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _IDENTITY if key in metadata},
        "spec": {"replicas": int(spec.get("replicas") or 0)},
        "status": {
            "replicas": int(status.get("replicas") or 0),
            "selector": _selector_text(spec.get("selector") or {}),
        },
    }


def rescaled(kind: Kind, obj: JsonObject, scale: JsonObject) -> JsonObject:
    """Return the workload with the replicas that the Scale asks for; raises ApiError 422."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if not isinstance(replicas, int) or replicas < 0:
        problem = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(kind, obj["metadata"]["name"], [problem])
    metadata = dict(obj["metadata"])
    metadata["resourceVersion"] = (scale.get("metadata") or {}).get("resourceVersion") or metadata["resourceVersion"]
    return {**obj, "metadata": metadata, "spec": {**obj.get("spec", {}), "replicas": replicas}}


def _selector_text(selector: JsonObject) -> str:
    if not selector.keys() & {"matchLabels", "matchExpressions"}:
        return ",".join(f"{key}={value}" for key, value in selector.items() if isinstance(value, str))
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for requirement in selector.get("matchExpressions") or ():
        values = ",".join(requirement.get("values") or ())
        texts = {"In": f"{requirement['key']} in ({values})", "NotIn": f"{requirement['key']} notin ({values})"}
        texts |= {"Exists": requirement["key"], "DoesNotExist": f"!{requirement['key']}"}
        terms.append(texts[requirement["operator"]])
    return ",".join(terms)
