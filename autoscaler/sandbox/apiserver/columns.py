"""The columns that `kubectl get` shows, per kind."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.pod_status import ready_count, restarts, status_text
from autoscaler.sandbox.apiserver.printers import PrinterColumn, age, duration, elapsed, labels_text, named, seconds

Cells = Callable[[JsonObject, float], list[Any]]


class Layout(msgspec.Struct, frozen=True):
    """Columns and how to fill them."""

    columns: tuple[PrinterColumn, ...]
    cells: Cells


def _name(obj: JsonObject) -> str:
    return str(obj["metadata"]["name"])


def _spec(obj: JsonObject) -> JsonObject:
    return obj.get("spec") or {}


def _status(obj: JsonObject) -> JsonObject:
    return obj.get("status") or {}


def _containers(obj: JsonObject) -> list[str]:
    """Names and images of the template's containers."""
    containers = ((_spec(obj).get("template") or {}).get("spec") or {}).get("containers") or ()
    names = ",".join(str(container.get("name")) for container in containers)
    return [names, ",".join(str(container.get("image")) for container in containers)]


def _selector(obj: JsonObject) -> str:
    selector = _spec(obj).get("selector") or {}
    return labels_text(selector.get("matchLabels", {} if "matchExpressions" in selector else selector))


def _pod(pod: JsonObject, now: float) -> list[Any]:
    spec, status = _spec(pod), _status(pod)
    gates = spec.get("readinessGates") or ()
    return [
        _name(pod),
        ready_count(pod),
        status_text(pod),
        restarts(pod),
        age(pod, now),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"0/{len(gates)}" if gates else "<none>",
    ]


def _node(node: JsonObject, now: float) -> list[Any]:
    status, labels = _status(node), node["metadata"].get("labels") or {}
    ready = next((condition for condition in status.get("conditions") or () if condition.get("type") == "Ready"), None)
    words = ["Unknown"] if ready is None else ["Ready" if ready.get("status") == "True" else "NotReady"]
    if _spec(node).get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix)
    addresses = {address.get("type"): address.get("address") for address in status.get("addresses") or ()}
    info = status.get("nodeInfo") or {}
    return [
        _name(node),
        ",".join(words),
        ",".join(roles) or "<none>",
        age(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or "<none>",
        addresses.get("ExternalIP") or "<none>",
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _deployment(obj: JsonObject, now: float) -> list[Any]:
    status, desired = _status(obj), int(_spec(obj).get("replicas") or 0)
    ready = f"{status.get('readyReplicas') or 0}/{desired}"
    counts = [int(status.get(key) or 0) for key in ("updatedReplicas", "availableReplicas")]
    return [_name(obj), ready, *counts, age(obj, now), *_containers(obj), _selector(obj)]


def _replica_set(obj: JsonObject, now: float) -> list[Any]:
    status = _status(obj)
    counts = [int(status.get(key) or 0) for key in ("replicas", "readyReplicas")]
    return [_name(obj), int(_spec(obj).get("replicas") or 0), *counts, age(obj, now), *_containers(obj), _selector(obj)]


def _stateful_set(obj: JsonObject, now: float) -> list[Any]:
    ready = f"{_status(obj).get('readyReplicas') or 0}/{_spec(obj).get('replicas') or 0}"
    return [_name(obj), ready, age(obj, now), *_containers(obj)]


_DAEMON_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def _daemon_set(obj: JsonObject, now: float) -> list[Any]:
    template = (_spec(obj).get("template") or {}).get("spec") or {}
    counts = [int(_status(obj).get(key) or 0) for key in _DAEMON_COUNTS]
    where = labels_text(template.get("nodeSelector"))
    return [_name(obj), *counts, where, age(obj, now), *_containers(obj), _selector(obj)]


def _job(obj: JsonObject, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    desired = spec.get("completions") or spec.get("parallelism") or 1
    conditions = [
        condition.get("type") for condition in status.get("conditions") or () if condition.get("status") == "True"
    ]
    state = next((kind for kind in ("Complete", "Failed", "Suspended") if kind in conditions), "Running")
    start, end = seconds(status.get("startTime")), seconds(status.get("completionTime"))
    took = "" if start is None else duration((now if end is None else end) - start)
    completed = f"{status.get('succeeded') or 0}/{desired}"
    return [_name(obj), state, completed, took, age(obj, now), *_containers(obj), _selector(obj)]


def _cron_job(obj: JsonObject, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    last = status.get("lastScheduleTime")
    suspended = str(bool(spec.get("suspend")))
    zone = spec.get("timeZone") or "<none>"
    seen = elapsed(last, now) if last else "<none>"
    return [_name(obj), spec.get("schedule"), zone, suspended, len(status.get("active") or ()), seen, age(obj, now)]


def _event(event: JsonObject, now: float) -> list[Any]:
    about = event.get("involvedObject") or {}
    source = event.get("source") or {}
    last = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    first = event.get("firstTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    count = int((event.get("series") or {}).get("count") or event.get("count") or 1)
    seen = elapsed(last, now) if count == 1 else f"{elapsed(last, now)} (x{count} over {elapsed(first, now)})"
    component = event.get("reportingComponent") or ", ".join(
        str(source[key]) for key in ("component", "host") if source.get(key)
    )
    subject = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
    message = str(event.get("message", "")).strip()
    shown = [seen, event.get("type"), event.get("reason"), subject]
    return [*shown, about.get("fieldPath", ""), component, message, elapsed(first, now), count, _name(event)]


def _budget(obj: JsonObject, now: float) -> list[Any]:
    spec = _spec(obj)
    bounds = [str(spec[key]) if spec.get(key) is not None else "N/A" for key in ("minAvailable", "maxUnavailable")]
    return [_name(obj), *bounds, int(_status(obj).get("disruptionsAllowed") or 0), age(obj, now)]


def _priority_class(obj: JsonObject, now: float) -> list[Any]:
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    return [_name(obj), obj.get("value"), bool(obj.get("globalDefault")), age(obj, now), policy]


def _autoscaler(obj: JsonObject, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    target = spec.get("scaleTargetRef") or {}
    measured = {entry["resource"]["name"]: entry["resource"]["current"] for entry in status.get("currentMetrics") or ()}
    shown = []
    for metric in spec.get("metrics") or ():
        resource = metric.get("resource") or {}
        name, wanted, current = resource.get("name"), resource.get("target") or {}, measured.get(resource.get("name"))
        if (percent := wanted.get("averageUtilization")) is not None:
            used = "<unknown>" if current is None else f"{current.get('averageUtilization')}%"
            shown.append(f"{name}: {used}/{percent}%")
        else:
            used = "<unknown>" if current is None else current.get("averageValue")
            shown.append(f"{name}: {used}/{wanted.get('averageValue')}")
    bounds = [spec.get("minReplicas"), spec.get("maxReplicas"), int(status.get("currentReplicas") or 0)]
    reference = f"{target.get('kind')}/{target.get('name')}"
    return [_name(obj), reference, ", ".join(shown) or "<none>", *bounds, age(obj, now)]


def _service(obj: JsonObject, now: float) -> list[Any]:
    spec = _spec(obj)
    ports = ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in spec.get("ports") or ())
    address = spec.get("clusterIP") or "<none>"
    return [_name(obj), spec.get("type"), address, "<none>", ports or "<none>", age(obj, now), _selector(obj)]


def _claim(obj: JsonObject, now: float) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    capacity = (status.get("capacity") or {}).get("storage", "")
    modes = _modes(status.get("accessModes"))
    storage_class = spec.get("storageClassName") or ""
    return [
        _name(obj),
        status.get("phase"),
        spec.get("volumeName") or "",
        capacity,
        modes,
        storage_class,
        age(obj, now),
    ]


def _volume(obj: JsonObject, now: float) -> list[Any]:
    spec, claim = _spec(obj), _spec(obj).get("claimRef") or {}
    capacity, modes = (spec.get("capacity") or {}).get("storage", ""), _modes(spec.get("accessModes"))
    owner = f"{claim['namespace']}/{claim['name']}" if claim else ""
    policy, phase = spec.get("persistentVolumeReclaimPolicy"), _status(obj).get("phase")
    return [_name(obj), capacity, modes, policy, phase, owner, spec.get("storageClassName") or "", age(obj, now)]


def _modes(modes: list[str] | None) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(mode, mode) for mode in modes or ())


def _storage_class(obj: JsonObject, now: float) -> list[Any]:
    expands = bool(obj.get("allowVolumeExpansion"))
    shown = [obj.get("provisioner"), obj.get("reclaimPolicy"), obj.get("volumeBindingMode"), expands]
    return [_name(obj), *shown, age(obj, now)]


_CONTAINERS = ("Containers", "Images")
_SELECTED = ("Containers", "Images", "Selector")

COLUMNS: Mapping[str, Layout] = {
    "pods": Layout(
        named("Name", "Ready", "Status", "Restarts", "Age", wide=("IP", "Node", "Nominated Node", "Readiness Gates")),
        _pod,
    ),
    "nodes": Layout(
        named(
            *("Name", "Status", "Roles", "Age", "Version"),
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    "deployments.apps": Layout(named("Name", "Ready", "Up-to-date", "Available", "Age", wide=_SELECTED), _deployment),
    "replicasets.apps": Layout(named("Name", "Desired", "Current", "Ready", "Age", wide=_SELECTED), _replica_set),
    "replicationcontrollers": Layout(named("Name", "Desired", "Current", "Ready", "Age", wide=_SELECTED), _replica_set),
    "statefulsets.apps": Layout(named("Name", "Ready", "Age", wide=_CONTAINERS), _stateful_set),
    "daemonsets.apps": Layout(
        named(
            *("Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age"), wide=_SELECTED
        ),
        _daemon_set,
    ),
    "jobs.batch": Layout(named("Name", "Status", "Completions", "Duration", "Age", wide=_SELECTED), _job),
    "cronjobs.batch": Layout(
        named("Name", "Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age"), _cron_job
    ),
    "events": Layout(
        (
            *named("Last Seen", "Type", "Reason", "Object"),
            *named(wide=("Subobject", "Source")),
            *named("Message"),
            *named(wide=("First Seen", "Count", "Name")),
        ),
        _event,
    ),
    "poddisruptionbudgets.policy": Layout(
        named("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _budget
    ),
    "namespaces": Layout(
        named("Name", "Status", "Age"), lambda obj, now: [_name(obj), _status(obj).get("phase"), age(obj, now)]
    ),
    "configmaps": Layout(
        named("Name", "Data", "Age"),
        lambda obj, now: [_name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)],
    ),
    "secrets": Layout(
        named("Name", "Type", "Data", "Age"),
        lambda obj, now: [_name(obj), obj.get("type"), len(obj.get("data") or ()), age(obj, now)],
    ),
    "leases.coordination.k8s.io": Layout(
        named("Name", "Holder", "Age"), lambda obj, now: [_name(obj), _spec(obj).get("holderIdentity"), age(obj, now)]
    ),
    "priorityclasses.scheduling.k8s.io": Layout(
        named("Name", "Value", "Global-Default", "Age", "PreemptionPolicy"), _priority_class
    ),
    "services": Layout(
        named("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)), _service
    ),
    "persistentvolumeclaims": Layout(
        named("Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "Age"), _claim
    ),
    "persistentvolumes": Layout(
        named("Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass", "Age"), _volume
    ),
    "horizontalpodautoscalers.autoscaling": Layout(
        named("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"), _autoscaler
    ),
    "storageclasses.storage.k8s.io": Layout(
        named("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
        _storage_class,
    ),
    "csinodes.storage.k8s.io": Layout(
        named("Name", "Drivers", "Age"),
        lambda obj, now: [_name(obj), len(_spec(obj).get("drivers") or ()), age(obj, now)],
    ),
    "customresourcedefinitions.apiextensions.k8s.io": Layout(
        named("Name", "Created At"), lambda obj, _: [_name(obj), obj["metadata"].get("creationTimestamp")]
    ),
}
"""By store id; kinds that are not listed show name and age."""
