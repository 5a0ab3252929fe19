"""Small clusters and objects for these tests; each has only what a test is about."""

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.clock import VirtualClock
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.cluster import SandboxCluster
from cloudprovider.interface import NodeTemplate, TaintSpec
from cloudprovider.static.cloud import StaticCloud, open_cloud
from cloudprovider.static.spec import BootDelay, CloudSpec, GroupSpec, MachineSpec

Json = dict[str, Any]
NOW = 1_700_000_000.0
BOOT_S = 10.0


def a_group(
    name: str = "general",
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[TaintSpec] = (),
    static_pods: Sequence[Json] = (),
) -> GroupSpec:
    capacity = {"cpu": cpu, "memory": memory, "pods": pods}
    template = NodeTemplate(labels=labels or {}, taints=taints, capacity=capacity, pods=static_pods)
    return GroupSpec(id=name, min_size=0, max_size=50, template=template, boot=BootDelay(BOOT_S, BOOT_S))


def a_cluster(*groups: GroupSpec, running: int = 1, timing: Timing | None = None) -> SandboxCluster:
    """A cluster after its first seconds, with machines of every group running: `general-0` and so on."""
    specs = groups or (a_group(),)
    machines = [
        MachineSpec(group=group.id, provider_id=f"static://{group.id}-{i:02}", name=f"{group.id}-{i:02}")
        for group in specs
        for i in range(running)
    ]
    clock = VirtualClock(wall=NOW)
    cloud = open_cloud(CloudSpec(groups=specs, machines=machines), now=lambda: clock.now().wall)
    cluster = SandboxCluster(clock, cloud, timing=timing or Timing())
    cluster.run_for(1)
    return cluster


def the_cloud(cluster: SandboxCluster) -> StaticCloud:
    assert cluster.cloud is not None
    return cluster.cloud


def a_spec(cpu: str | None = None, memory: str | None = None, **spec: Any) -> Json:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    resources = {"resources": {"requests": requests}} if requests else {}
    return {"containers": [{"name": "c", "image": "app:1", **resources}], **spec}


def a_template(name: str, annotations: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"labels": {"app": name}, "annotations": annotations or {}}, "spec": a_spec(**spec)}


def a_workload(
    kind: str, name: str = "web", replicas: int | None = 1, *, extra: Json | None = None, **pod: Any
) -> Json:
    spec: Json = {"selector": {"matchLabels": {"app": name}}, "template": a_template(name, **pod), **(extra or {})}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def a_job(name: str = "job", *, lasts: str | None = None, code: str | None = None, **spec: Any) -> Json:
    annotations = {"sandbox.autoscaler/duration": lasts, "sandbox.autoscaler/exit-code": code}
    template = a_template(name, {key: value for key, value in annotations.items() if value}, restartPolicy="Never")
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


def a_priority(name: str, value: int, **fields: Any) -> Json:
    identity = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**identity, "value": value, **fields}


def pod(cluster: SandboxCluster, name: str = "p") -> Json:
    return cluster.storage.get("pods", name)


def node_of(cluster: SandboxCluster, name: str = "p") -> str | None:
    found: str | None = pod(cluster, name)["spec"].get("nodeName")
    return found


def condition(obj: Json, kind: str) -> tuple[str, str | None]:
    found = next(one for one in obj["status"]["conditions"] if one["type"] == kind)
    return found["status"], found.get("reason")


def pods_of(cluster: SandboxCluster, app: str) -> list[Json]:
    return cluster.storage.list("pods", label_selector=f"app={app}")


def status(cluster: SandboxCluster, resource: str, name: str) -> Json:
    found: Json = cluster.storage.get(resource, name)["status"]
    return found


def taint_keys(cluster: SandboxCluster, node: str) -> list[str]:
    taints = cluster.storage.get("nodes", node)["spec"].get("taints") or []
    return sorted(taint["key"] for taint in taints)


def events(cluster: SandboxCluster, reason: str) -> list[Json]:
    return [event for event in cluster.storage.list("events") if event["reason"] == reason]
