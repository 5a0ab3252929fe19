"""The cluster of `autoscaler demo`: a small cloud with one running machine, and a workload that does not fit on it.

Web servers overflow the general machines; the API's replicas want a machine each; a cache needs the machines with
much memory, and a report the tainted batch machines, which nobody needs once it is done.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.kubelet import DURATION
from cloudprovider.interface import NodeTemplate, TaintSpec
from cloudprovider.static.spec import BootDelay, CloudSpec, GroupSpec, MachineSpec

NAMESPACES = ("shop", "reports")
"""Where the demo's workload lives, but for the node agent."""

_POOL = "sandbox.autoscaler/pool"
_DEDICATED = "dedicated"
_IMAGE = "registry.example/{name}:1.0"


def demo_cloud(seed: int = 0) -> CloudSpec:
    """Three groups; only the general one has a machine at the start. Machines boot within five to eight seconds."""
    return CloudSpec(
        groups=(
            _group("general", cpu="4", memory="16Gi", min_size=1, price=0.19),
            _group("memory", cpu="4", memory="64Gi", min_size=0, price=0.34),
            _group("batch", cpu="8", memory="16Gi", min_size=0, price=0.12, dedicated=True),
        ),
        machines=(MachineSpec(group="general", provider_id="static://general-0", name="general-0"),),
        seed=seed,
    )


def demo_workload() -> list[JsonObject]:
    """Return the workload, in an order in which it can be created."""
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES),
        _node_agent(),
        _deployment("web", replicas=10, cpu="500m", memory="512Mi"),
        _deployment("api", replicas=3, cpu="750m", memory="1Gi", affinity=_anti_affinity("api")),
        _deployment("cache", replicas=2, cpu="1", memory="24Gi", nodeSelector={_POOL: "memory"}),
        _budget("web", "75%"),
        _budget("api", 2),
        _report_job(),
    ]


def _group(pool: str, *, cpu: str, memory: str, min_size: int, price: float, dedicated: bool = False) -> GroupSpec:
    zone = {"topology.kubernetes.io/region": "sandbox", "topology.kubernetes.io/zone": "sandbox-a"}
    labels = {_POOL: pool, "node.kubernetes.io/instance-type": f"{pool}.{cpu}", **zone}
    capacity = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": "110"}
    allocatable = {**capacity, "cpu": f"{int(cpu) * 1000 - 100}m", "memory": f"{int(memory.removesuffix('Gi')) - 1}Gi"}
    taints = (TaintSpec(_DEDICATED, pool),) if dedicated else ()
    return GroupSpec(
        id=pool,
        min_size=min_size,
        max_size=10,
        template=NodeTemplate(labels=labels, taints=taints, capacity=capacity, allocatable=allocatable),
        price_per_hour=price,
        boot=BootDelay(5.0, 8.0),
        delete_s=2.0,
    )


def _container(name: str, cpu: str, memory: str) -> JsonObject:
    requests = {"cpu": cpu, "memory": memory}
    return {"name": name, "image": _IMAGE.format(name=name), "resources": {"requests": requests}}


def _template(name: str, cpu: str, memory: str, **spec: Any) -> JsonObject:
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [_container(name, cpu, memory)], **spec}}


def _deployment(name: str, *, replicas: int, cpu: str, memory: str, **spec: Any) -> JsonObject:
    selector = {"matchLabels": {"app": name}}
    metadata = {"name": name, "namespace": "shop", "labels": {"app": name}}
    workload_spec = {"replicas": replicas, "selector": selector, "template": _template(name, cpu, memory, **spec)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": workload_spec}


def _anti_affinity(name: str) -> JsonObject:
    """No two replicas on one node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _budget(name: str, min_available: int | str) -> JsonObject:
    spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": name}}}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def _node_agent() -> JsonObject:
    tolerations: Sequence[Mapping[str, str]] = ({"operator": "Exists"},)
    critical = {"priorityClassName": "system-node-critical", "tolerations": list(tolerations)}
    template = _template("node-agent", "100m", "128Mi", **critical)
    spec = {"selector": {"matchLabels": {"app": "node-agent"}}, "template": template}
    metadata = {"name": "node-agent", "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


def _report_job() -> JsonObject:
    placement = {"nodeSelector": {_POOL: "batch"}, "tolerations": [{"key": _DEDICATED, "value": "batch"}]}
    template = _template("report", "1500m", "2Gi", restartPolicy="Never", **placement)
    template["metadata"]["annotations"] = {DURATION: "20s"}
    spec = {"parallelism": 4, "completions": 4, "template": template}
    metadata = {"name": "report", "namespace": "reports"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
