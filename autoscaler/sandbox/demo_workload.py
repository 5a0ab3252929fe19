"""Parts of the clusters of `autoscaler demo`, and the first workload, which does not fit on one machine.

Web servers overflow the general machines. The replicas of the API need a machine each. A cache needs the tainted
machines with much memory. A report needs the tainted batch machines, which become unneeded when it is done.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.kubelet import DURATION
from cloudprovider.interface import NodeTemplate, TaintSpec
from cloudprovider.static.spec import GPU_LABEL, BootDelay, CloudSpec, GroupSpec, MachineSpec

NAMESPACES = ("shop", "reports")
"""The namespace of the demo's workload, except for the node agent."""

POOL = "sandbox.autoscaler/pool"
"""Label of nodes whose value is their group."""
SHOP = "shop"
GPU = "nvidia.com/gpu"
_DEDICATED = "dedicated"
_IMAGE = "registry.example/{name}:1.0"


def demo_cloud(seed: int = 0) -> CloudSpec:
    """Return three groups; only the general one has a machine at the start. Machines boot within five to
    eight seconds.
    """
    return cloud_of(
        node_group("general", min_size=1, price=0.19),
        node_group("memory", memory="64Gi", price=0.34, taints=(TaintSpec(_DEDICATED, "memory"),)),
        node_group("batch", cpu="8", price=0.12, taints=(TaintSpec(_DEDICATED, "batch"),)),
        seed=seed,
    )


def cloud_of(*groups: GroupSpec, seed: int = 0) -> CloudSpec:
    """Return a cloud with the minimum number of running machines in each group, named `<group>-0` and so on."""
    names = [(group.id, f"{group.id}-{number}") for group in groups for number in range(group.min_size)]
    machines = tuple(MachineSpec(group=group, provider_id=f"static://{name}", name=name) for group, name in names)
    return CloudSpec(groups=groups, machines=machines, seed=seed)


def demo_workload() -> list[JsonObject]:
    """Return the workload in an order in which it can be created."""
    return [
        *common_objects(NAMESPACES),
        deployment("web", replicas=10, cpu="500m", memory="512Mi"),
        deployment("api", replicas=3, cpu="750m", memory="1Gi", affinity=_anti_affinity("api")),
        deployment("cache", replicas=2, cpu="1", memory="24Gi", **_only_on("memory")),
        _budget("web", "75%"),
        _budget("api", 2),
        _report_job(),
    ]


def node_group(
    pool: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    min_size: int = 0,
    price: float,
    taints: Sequence[TaintSpec] = (),
    gpus: int = 0,
) -> GroupSpec:
    """Return a group of up to ten machines, with some resources reserved for the system."""
    zone = {"topology.kubernetes.io/region": "sandbox", "topology.kubernetes.io/zone": "sandbox-a"}
    labels = {POOL: pool, "node.kubernetes.io/instance-type": f"{pool}.{cpu}", **zone}
    capacity = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": "110"}
    if gpus:
        labels[GPU_LABEL] = "nvidia-tesla-t4"
        capacity[GPU] = str(gpus)
        taints = (*taints, TaintSpec(GPU, "present"))
    allocatable = {**capacity, "cpu": f"{int(cpu) * 1000 - 100}m", "memory": f"{int(memory.removesuffix('Gi')) - 1}Gi"}
    return GroupSpec(
        id=pool,
        min_size=min_size,
        max_size=10,
        template=NodeTemplate(labels=labels, taints=tuple(taints), capacity=capacity, allocatable=allocatable),
        price_per_hour=price,
        boot=BootDelay(5.0, 8.0),
        delete_s=2.0,
    )


def template(
    name: str, requests: Mapping[str, str], annotations: Mapping[str, str] | None = None, **spec: Any
) -> JsonObject:
    """Return the template of the pods of an app; `spec` is the pods' spec."""
    devices = {resource: amount for resource, amount in requests.items() if "/" in resource}
    resources = {"requests": dict(requests), **({"limits": devices} if devices else {})}
    container = {"name": name, "image": _IMAGE.format(name=name), "resources": resources}
    metadata = {"labels": {"app": name}, "annotations": dict(annotations or {})}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def deployment(name: str, *, replicas: int, cpu: str, memory: str, **spec: Any) -> JsonObject:
    """Return a Deployment of the shop; `spec` is its pods' spec."""
    selector = {"matchLabels": {"app": name}}
    metadata = {"name": name, "namespace": SHOP, "labels": {"app": name}}
    pods = template(name, {"cpu": cpu, "memory": memory}, **spec)
    workload_spec = {"replicas": replicas, "selector": selector, "template": pods}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": workload_spec}


def job(name: str, namespace: str, pods: int, pod_template: JsonObject) -> JsonObject:
    """Return a Job whose pods run in parallel."""
    spec = {"parallelism": pods, "completions": pods, "template": pod_template}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def common_objects(namespaces: Sequence[str] = (SHOP,)) -> list[JsonObject]:
    """Return what every cluster of the demo has: namespaces, and an agent on each node."""
    named = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces]
    return [*named, _node_agent()]


def _anti_affinity(name: str) -> JsonObject:
    """Return fields of a pod's spec that keep two replicas off the same node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _budget(name: str, min_available: int | str) -> JsonObject:
    spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": name}}}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def _node_agent() -> JsonObject:
    critical: JsonObject = {"priorityClassName": "system-node-critical", "tolerations": [{"operator": "Exists"}]}
    pods = template("node-agent", {"cpu": "100m", "memory": "128Mi"}, **critical)
    spec = {"selector": {"matchLabels": {"app": "node-agent"}}, "template": pods}
    metadata = {"name": "node-agent", "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


def _only_on(pool: str) -> dict[str, Any]:
    """Return fields of a pod's spec that send it to a dedicated group."""
    return {"nodeSelector": {POOL: pool}, "tolerations": [{"key": _DEDICATED, "value": pool}]}


def _report_job() -> JsonObject:
    requests = {"cpu": "1500m", "memory": "2Gi"}
    return job(
        "report",
        "reports",
        4,
        template("report", requests, {DURATION: "20s"}, restartPolicy="Never", **_only_on("batch")),
    )
