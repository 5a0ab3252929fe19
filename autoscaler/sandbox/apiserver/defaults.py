"""Defaults that the API server fills in, per kind: those that clients rely on."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from autoscaler.objects.meta import JsonObject

_ROLLING = {"maxUnavailable": "25%", "maxSurge": "25%"}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_CRITICAL_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def fill(target: JsonObject, values: Mapping[str, Any]) -> None:
    """Set what is missing or null."""
    for key, value in values.items():
        if target.get(key) is None:
            target[key] = value


def _containers(spec: JsonObject) -> list[JsonObject]:
    return [
        container
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
        if isinstance(container, dict)
    ]


def pod_spec(spec: JsonObject) -> None:
    """Defaults shared by pods and pod templates."""
    fill(
        spec,
        {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
        },
    )
    for container in _containers(spec):
        _container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or ():
        if set(volume) == {"name"}:
            volume["emptyDir"] = {}
        if isinstance(volume.get("hostPath"), dict):
            fill(volume["hostPath"], {"type": ""})
        if isinstance(volume.get("ephemeral"), dict):
            _claim_template((volume["ephemeral"] or {}).get("volumeClaimTemplate"))
        _field_refs((volume.get("projected") or {}).get("sources"))
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            if isinstance(volume.get(source), dict):
                fill(volume[source], {"defaultMode": 420})


def _claim_template(template: Any) -> None:
    if isinstance(template, dict):
        _born(template)
        fill(template, {"spec": {}})
        fill(template["spec"], {"volumeMode": "Filesystem"})


def _field_refs(sources: Any) -> None:
    for source in sources or ():
        for item in ((source or {}).get("downwardAPI") or {}).get("items") or ():
            if isinstance(item.get("fieldRef"), dict):
                fill(item["fieldRef"], {"apiVersion": "v1"})


def _born(template: JsonObject) -> None:
    """Templates are encoded with a creationTimestamp that is never set."""
    fill(template, {"metadata": {}})
    template["metadata"].setdefault("creationTimestamp", None)


def _container(container: JsonObject, *, host_network: bool) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition(":")[2]
    floating = "@" not in image and tag in ("", "latest")
    fill(
        container,
        {
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always" if floating else "IfNotPresent",
        },
    )
    for port in container.get("ports") or ():
        fill(port, {"protocol": "TCP"})
        if host_network:
            fill(port, {"hostPort": port.get("containerPort")})
    for probe in _PROBES:
        if isinstance(container.get(probe), dict):
            fill(container[probe], _PROBE)


def _pod(pod: JsonObject) -> None:
    spec = pod["spec"]
    pod_spec(spec)
    fill(spec, {"enableServiceLinks": True, "serviceAccountName": "default"})
    fill(spec, {"serviceAccount": spec["serviceAccountName"]})
    for container in _containers(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    tolerations = spec.get("tolerations") or []
    for taint in _CRITICAL_TAINTS:
        if not any(_tolerates_eviction(toleration, taint) for toleration in tolerations):
            toleration = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations = [*tolerations, toleration]
    spec["tolerations"] = tolerations
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}


def _tolerates_eviction(toleration: JsonObject, taint: str) -> bool:
    return toleration.get("key") in (taint, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def qos_class(spec: JsonObject) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    amounts = [container.get("resources") or {} for container in _containers(spec)]
    requests = [resources.get("requests") or {} for resources in amounts]
    limits = [resources.get("limits") or {} for resources in amounts]
    if not any(name in resources for resources in (*requests, *limits) for name in ("cpu", "memory")):
        return "BestEffort"
    pairs = zip(requests, limits, strict=True)
    alike = all(name in limit and request.get(name) == limit[name] for request, limit in pairs for name in _QOS)
    return "Guaranteed" if alike else "Burstable"


_QOS = ("cpu", "memory")


def _template(obj: JsonObject) -> None:
    template = obj["spec"].get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        _born(template)
        pod_spec(template["spec"])


def _deployment(obj: JsonObject) -> None:
    spec = obj["spec"]
    fill(spec, {"replicas": 1, "strategy": {}, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    fill(spec["strategy"], {"type": "RollingUpdate"})
    if spec["strategy"]["type"] == "RollingUpdate":
        fill(spec["strategy"], {"rollingUpdate": {}})
        fill(spec["strategy"]["rollingUpdate"], _ROLLING)
    _template(obj)


def _replica_set(obj: JsonObject) -> None:
    fill(obj["spec"], {"replicas": 1})
    _template(obj)


def _replication_controller(obj: JsonObject) -> None:
    spec = obj["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    fill(spec, {"replicas": 1, "selector": labels})
    fill(obj["metadata"], {"labels": labels} if labels else {})
    _template(obj)


def _stateful_set(obj: JsonObject) -> None:
    spec = obj["spec"]
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    keep = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    fill(spec, {"replicas": 1, "podManagementPolicy": "OrderedReady", "updateStrategy": rolling})
    fill(spec, {"revisionHistoryLimit": 10, "persistentVolumeClaimRetentionPolicy": keep})
    for claim in spec.get("volumeClaimTemplates") or ():
        _claim_template(claim)
        fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}})
    _template(obj)


def _daemon_set(obj: JsonObject) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    fill(obj["spec"], {"updateStrategy": rolling, "revisionHistoryLimit": 10})
    _template(obj)


def _job(obj: JsonObject) -> None:
    spec = obj["spec"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    backoff_limit = 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1
    fill(spec, {"parallelism": 1, "backoffLimit": backoff_limit, "completionMode": "NonIndexed", "suspend": False})
    fill(spec, {"podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"})
    fill(spec, {"manualSelector": False})
    _template(obj)
    if spec.get("manualSelector") or not isinstance(spec.get("template"), dict):
        return
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    metadata = spec["template"].setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels, "controller-uid": uid, "job-name": name}
    fill(obj["metadata"], {"labels": metadata["labels"]})
    fill(spec, {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}})


def _cron_job(obj: JsonObject) -> None:
    history = {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
    fill(obj["spec"], {"concurrencyPolicy": "Allow", "suspend": False, **history})
    job = obj["spec"].get("jobTemplate")
    if isinstance(job, dict) and isinstance(job.get("spec"), dict):
        _born(job)
        _template(job)


def _pod_template(obj: JsonObject) -> None:
    if isinstance(obj.get("template"), dict):
        _template({"spec": obj})


def _node(obj: JsonObject) -> None:
    """A node has a spec; the rest of it is the kubelet's."""


def _csi_node(obj: JsonObject) -> None:
    """Empty lists are stored as none, and these are encoded nevertheless."""
    drivers = obj["spec"].get("drivers") or None
    obj["spec"]["drivers"] = drivers
    for driver in drivers or ():
        driver["topologyKeys"] = driver.get("topologyKeys") or None


def _csi_driver(obj: JsonObject) -> None:
    flags = ("podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity")
    fill(obj["spec"], {"attachRequired": True, **dict.fromkeys(flags, False)})
    fill(obj["spec"], {"fsGroupPolicy": "ReadWriteOnceWithFSType", "volumeLifecycleModes": ["Persistent"]})


def _service(obj: JsonObject) -> None:
    spec = obj["spec"]
    fill(spec, {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"})
    for port in spec.get("ports") or ():
        fill(port, {"protocol": "TCP", "targetPort": port.get("port")})


def _namespace(obj: JsonObject) -> None:
    metadata = obj["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    obj["spec"].setdefault("finalizers", ["kubernetes"])
    obj["status"] = {"phase": "Active"}


def _claim(obj: JsonObject) -> None:
    fill(obj["spec"], {"volumeMode": "Filesystem"})
    obj["status"] = {"phase": "Pending"}


def _volume(obj: JsonObject) -> None:
    fill(obj["spec"], {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"})
    obj["status"] = {"phase": "Pending"}


def _storage_class(obj: JsonObject) -> None:
    fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def _priority_class(obj: JsonObject) -> None:
    fill(obj, {"preemptionPolicy": "PreemptLowerPriority"})


def _secret(obj: JsonObject) -> None:
    for key, text in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
    fill(obj, {"type": "Opaque"})


def _autoscaler(obj: JsonObject) -> None:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    fill(obj["spec"], {"minReplicas": 1, "metrics": [{"type": "Resource", "resource": cpu}]})


def _event(obj: JsonObject) -> None:
    obj.setdefault("eventTime", None)
    fill(obj, {"reportingComponent": "", "reportingInstance": ""})


BY_KIND: Mapping[str, Callable[[JsonObject], None]] = {
    "cronjobs.batch": _cron_job,
    "csidrivers.storage.k8s.io": _csi_driver,
    "csinodes.storage.k8s.io": _csi_node,
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "events": _event,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "jobs.batch": _job,
    "namespaces": _namespace,
    "nodes": _node,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "pods": _pod,
    "podtemplates": _pod_template,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "replicasets.apps": _replica_set,
    "replicationcontrollers": _replication_controller,
    "secrets": _secret,
    "services": _service,
    "statefulsets.apps": _stateful_set,
    "storageclasses.storage.k8s.io": _storage_class,
}
"""Defaulting by kind id, for new objects with uid and name set."""

ON_UPDATE: Mapping[str, Callable[[JsonObject], None]] = {
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "replicasets.apps": _replica_set,
    "secrets": _secret,
    "services": _service,
    "statefulsets.apps": _stateful_set,
}
"""Defaulting that also runs on updates: whole specs that clients send without the defaulted fields."""

_WITHOUT_SPEC = (
    "events",
    "podtemplates",
    "priorityclasses.scheduling.k8s.io",
    "secrets",
    "storageclasses.storage.k8s.io",
)


def apply_defaults(kind_id: str, obj: JsonObject, *, creating: bool) -> None:
    """Fill in the kind's defaults, in place."""
    rule = (BY_KIND if creating else ON_UPDATE).get(kind_id)
    if rule is None:
        return
    if kind_id not in _WITHOUT_SPEC:
        if obj.get("spec") is None:
            obj["spec"] = {}
        if not isinstance(obj["spec"], dict):
            return
    rule(obj)
