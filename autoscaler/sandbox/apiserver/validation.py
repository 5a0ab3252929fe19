"""Validation rules per kind, those that clients meet in practice. Results are causes for a 422."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver import selectors
from autoscaler.sandbox.apiserver.errors import (
    cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from autoscaler.sandbox.apiserver.names import dns_label_problem, key_problem, label_causes, name_problem

Causes = Iterator[JsonObject]

_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MOST_DATA_BYTES = 1024 * 1024
_MAX_USER_PRIORITY = 1_000_000_000
_MUTABLE_POD_FIELDS = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")


def metadata_causes(kind_id: str, obj: JsonObject) -> Causes:
    """Rules for every kind: name, labels, annotations."""
    metadata = obj["metadata"]
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif (problem := name_problem(kind_id, name)) is not None:
        yield invalid_value("metadata.name", name, problem)
    yield from label_causes(metadata.get("labels"), "metadata.labels")
    for key, value in (metadata.get("annotations") or {}).items():
        if (problem := key_problem(key.lower())) is not None:
            yield invalid_value("metadata.annotations", key, problem)
        if not isinstance(value, str):
            yield invalid_value("metadata.annotations", value, "must be a string")


def pod_spec_causes(spec: Any, path: str) -> Causes:
    """Rules for pods and pod templates."""
    if not isinstance(spec, dict) or not spec.get("containers"):
        yield required(f"{path}.containers")
        return
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(field) or ()):
            yield from _container_causes(container, f"{path}.{field}[{position}]", names)
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        yield not_supported(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    if int(spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield invalid_value(
            f"{path}.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"], "must be greater than 0"
        )
    yield from label_causes(spec.get("nodeSelector"), f"{path}.nodeSelector")


def _container_causes(container: JsonObject, path: str, names: set[str]) -> Causes:
    name = container.get("name")
    if not name:
        yield required(f"{path}.name")
    elif (problem := dns_label_problem(name)) is not None:
        yield invalid_value(f"{path}.name", name, problem)
    elif name in names:
        yield duplicate(f"{path}.name", name)
    else:
        names.add(name)
    if not container.get("image"):
        yield required(f"{path}.image")
    resources = container.get("resources") or {}
    for part in ("requests", "limits"):
        for resource, amount in (resources.get(part) or {}).items():
            if not _QUANTITY.fullmatch(str(amount)) or str(amount).startswith("-"):
                yield invalid_value(f"{path}.resources.{part}[{resource}]", amount, "must be a quantity of at least 0")


def _pod(pod: JsonObject, old: JsonObject | None) -> Causes:
    if old is None:
        yield from pod_spec_causes(pod.get("spec"), "spec")
    elif _immutable_part(pod["spec"]) != _immutable_part(old["spec"]):
        yield forbidden_field(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )
    elif any(
        toleration not in (pod["spec"].get("tolerations") or ()) for toleration in old["spec"].get("tolerations") or ()
    ):
        yield forbidden_field(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )


def _immutable_part(spec: JsonObject) -> JsonObject:
    part = {key: value for key, value in spec.items() if key not in _MUTABLE_POD_FIELDS and value not in (None, [], {})}
    for field in ("containers", "initContainers"):
        if field in part:
            part[field] = [{**container, "image": ""} for container in part[field]]
    return part


def _node(node: JsonObject, old: JsonObject | None) -> Causes:
    yield from _taint_causes(node)
    if old is not None:  # an update is validated as a node and as a change
        yield from _taint_causes(node)


def _taint_causes(node: JsonObject) -> Causes:
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        path, key, effect = f"metadata.taints[{position}]", taint.get("key", ""), taint.get("effect")
        if (problem := key_problem(key)) is not None:
            yield invalid_value(f"{path}.key", key, problem)
        if effect not in _TAINT_EFFECTS:
            yield not_supported(f"{path}.effect", effect or "", _TAINT_EFFECTS)
        elif (key, effect) in seen:
            yield duplicate(path, f"{key}:{effect}")
        seen.add((key, effect))


def _workload(obj: JsonObject, old: JsonObject | None) -> Causes:
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template")
    if not selector:
        yield required("spec.selector")
    if not isinstance(template, dict) or not template:
        yield required("spec.template")
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    parsed = selectors.from_object(selector if _is_label_selector(selector) else {"matchLabels": selector})
    if selector and parsed is not None and not selectors.labels_match(parsed, labels):
        yield invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if int(spec.get("replicas") or 0) < 0:
        yield invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    yield from pod_spec_causes(template.get("spec"), "spec.template.spec")
    if old is not None and old["spec"].get("selector") != selector and _is_label_selector(selector):
        yield invalid_value("spec.selector", selector, "field is immutable")


def _is_label_selector(selector: Any) -> bool:
    return isinstance(selector, dict) and bool(selector.keys() & {"matchLabels", "matchExpressions"})


def _job(obj: JsonObject, old: JsonObject | None) -> Causes:
    template = (obj.get("spec") or {}).get("template")
    if not isinstance(template, dict):
        yield required("spec.template")
        return
    yield from pod_spec_causes(template.get("spec"), "spec.template.spec")
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy == "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
    if old is not None and old["spec"].get("template") != template:
        yield invalid_value("spec.template", "", "field is immutable")


def _budget(obj: JsonObject, _old: JsonObject | None) -> Causes:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid_value("spec", "", "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, str) and not re.fullmatch(r"\d{1,3}%", value):
            yield invalid_value(f"spec.{field}", value, "a valid percent string must be a number followed by '%'")
        if isinstance(value, int) and value < 0:
            yield invalid_value(f"spec.{field}", value, "must be greater than or equal to 0")


def _autoscaler(obj: JsonObject, _old: JsonObject | None) -> Causes:
    spec = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas")
    if not isinstance(most, int) or most < 1:
        yield invalid_value("spec.maxReplicas", most, "must be greater than 0")
    elif not isinstance(least, int) or least < 1:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
    elif most < least:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    for field in ("kind", "name"):
        if not (spec.get("scaleTargetRef") or {}).get(field):
            yield required(f"spec.scaleTargetRef.{field}")


def _event(obj: JsonObject, _old: JsonObject | None) -> Causes:
    about = (obj.get("involvedObject") or {}).get("namespace") or ""
    if obj["metadata"].get("namespace") != (about or "default"):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")


def _config_map(obj: JsonObject, _old: JsonObject | None) -> Causes:
    return _size_causes(obj, "[]")


def _secret(obj: JsonObject, _old: JsonObject | None) -> Causes:
    return _size_causes(obj, "data")


def _size_causes(obj: JsonObject, field: str) -> Causes:
    values = [str(value) for part in ("data", "binaryData") for value in (obj.get(part) or {}).values()]
    if sum(len(value.encode()) for value in values) > _MOST_DATA_BYTES:
        yield cause("FieldValueTooLong", field, f"Too long: may not be more than {_MOST_DATA_BYTES} bytes")


def _priority_class(obj: JsonObject, old: JsonObject | None) -> Causes:
    name, value = obj["metadata"].get("name", ""), obj.get("value")
    if not isinstance(value, int):
        yield required("value")
    elif old is not None and old.get("value") != value:
        yield forbidden_field("value", "may not be changed in an update.")
    elif not name.startswith("system-") and value > _MAX_USER_PRIORITY:
        yield forbidden_field("value", f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}")
    if old is None and name.startswith("system-"):
        yield forbidden_field("metadata.name", "priority class names with 'system-' prefix are reserved for system use")


def _custom_resource_definition(obj: JsonObject, _old: JsonObject | None) -> Causes:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    for field in ("plural", "kind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    for field in ("group", "scope", "versions"):
        if not spec.get(field):
            yield required(f"spec.{field}")
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if names.get("plural") and spec.get("group") and obj["metadata"].get("name") != expected:
        yield invalid_value("metadata.name", obj["metadata"].get("name"), "must be spec.names.plural+'.'+spec.group")
    if spec.get("versions") and sum(bool(version.get("storage")) for version in spec["versions"]) != 1:
        yield invalid_value("spec.versions", "", "must have exactly one version marked as storage version")


BY_KIND: Mapping[str, Callable[[JsonObject, JsonObject | None], Causes]] = {
    "configmaps": _config_map,
    "customresourcedefinitions.apiextensions.k8s.io": _custom_resource_definition,
    "daemonsets.apps": _workload,
    "deployments.apps": _workload,
    "events": _event,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "jobs.batch": _job,
    "nodes": _node,
    "poddisruptionbudgets.policy": _budget,
    "pods": _pod,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "replicasets.apps": _workload,
    "replicationcontrollers": _workload,
    "secrets": _secret,
    "statefulsets.apps": _workload,
}


def causes(kind_id: str, obj: JsonObject, old: JsonObject | None) -> list[JsonObject]:
    """Everything wrong with a new object (`old` is None) or with an update of `old`."""
    problems = list(metadata_causes(kind_id, obj))
    rule = BY_KIND.get(kind_id)
    return [*problems, *rule(obj, old)] if rule is not None else problems
