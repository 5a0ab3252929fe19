"""Worlds to test with: groups, workloads and budgets that take only what a test is about.

Times of the sandbox are kept short where a test is not about them: machines boot within a minute, pods stop at once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.config.load import from_options
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.records import StoreChange
from autoscaler.simulator.world import World
from cloudprovider.interface import NodeTemplate, TaintSpec
from cloudprovider.static.spec import BootDelay, CallFault, CloudSpec, CreationFault, GroupSpec, MachineSpec

QUICK: Mapping[str, Any] = {
    "cloud-provider": "static",
    "scale-down-unneeded-time": "2m",
    "scale-down-delay-after-add": "2m",
    "unremovable-node-recheck-timeout": "1m",
}
"""Options under which a node that nobody needs is gone within minutes."""


def a_group(
    group_id: str = "web",
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    min_size: int = 0,
    max_size: int = 10,
    boot: tuple[float, float] = (30.0, 60.0),
    delete_s: float = 5.0,
    price: float | None = None,
    labels: Mapping[str, str] | None = None,
    taint: TaintSpec | None = None,
    zones: Sequence[str] = (),
    stock: int | None = None,
    call_faults: Sequence[CallFault] = (),
    creation_faults: Sequence[CreationFault] = (),
) -> GroupSpec:
    """Return a group of machines; `stock` is how many the cloud has."""
    capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
    return GroupSpec(
        id=group_id,
        min_size=min_size,
        max_size=max_size,
        template=NodeTemplate(
            capacity=capacity,
            labels={"pool": group_id, **(labels or {})},
            taints=() if taint is None else (taint,),
            zones={zone: {"topology.kubernetes.io/zone": zone} for zone in zones},
        ),
        price_per_hour=price,
        boot=BootDelay(*boot),
        delete_s=delete_s,
        stock_out_after=stock,
        call_faults=call_faults,
        creation_faults=creation_faults,
    )


def a_cloud(*groups: GroupSpec, machines: Mapping[str, int] | None = None, seed: int = 0) -> CloudSpec:
    """Return a cloud in which so many machines of each group run from the start, named `<group>-0` and so on."""
    started = [
        MachineSpec(group=group, provider_id=f"static://{group}-m{number}", name=f"{group}-m{number}")
        for group, count in (machines or {}).items()
        for number in range(count)
    ]
    return CloudSpec(groups=groups, machines=started, seed=seed)


def a_deployment(
    name: str = "app",
    replicas: int = 1,
    *,
    cpu: str = "1",
    memory: str = "256Mi",
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> JsonObject:
    """Return a Deployment whose pods carry the label `app`; `spec` is the pods'."""
    template = _template(name, cpu, memory, annotations, spec)
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": wanted}


def a_daemon_set(name: str = "agent", *, cpu: str = "50m", namespace: str = "kube-system") -> JsonObject:
    """Return a DaemonSet with a pod on every node."""
    template = _template(name, cpu, "32Mi", None, {"tolerations": [{"operator": "Exists"}]})
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


def a_job(name: str, *, pods: int = 1, cpu: str = "1", lasts: str = "5m") -> JsonObject:
    """Return a Job whose pods run side by side for so long."""
    template = _template(name, cpu, "64Mi", {"sandbox.autoscaler/duration": lasts}, {"restartPolicy": "Never"})
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _template(
    name: str, cpu: str, memory: str, annotations: Mapping[str, str] | None, spec: Mapping[str, Any]
) -> JsonObject:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}
    metadata = {"labels": {"app": name}, "annotations": dict(annotations or {})}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def a_budget(app: str, *, namespace: str = "default", **spec: Any) -> JsonObject:
    """Return a PodDisruptionBudget for the pods of an app: `minAvailable=1`, `maxUnavailable="20%"`."""
    metadata = {"name": app, "namespace": namespace}
    selected = {"selector": {"matchLabels": {"app": app}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": selected}


def a_world(
    cloud: CloudSpec,
    *objects: JsonObject,
    seed: int = 0,
    timing: Timing = Timing(),  # noqa: B008 - frozen
    **options: Any,
) -> World:
    """Return a world under `QUICK` options and these, spelled with underscores."""
    wanted = {**QUICK, **{name.replace("_", "-"): value for name, value in options.items()}}
    return World(from_options(wanted, ()), cloud, objects, seed=seed, timing=timing)


def pods_of(world: World, app: str) -> list[JsonObject]:
    """Return the pods of an app that are there to stay."""
    pods = world.storage.list("pods", label_selector=f"app={app}")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def running(world: World, app: str) -> int:
    """Count the pods of an app that run."""
    return sum((pod.get("status") or {}).get("phase") == "Running" for pod in pods_of(world, app))


def targets(world: World) -> dict[str, int]:
    """Return the target size of each group."""
    return {group.id: group.target_size() for group in world.cloud.groups()}


def nodes(world: World) -> list[str]:
    """Return the names of all nodes."""
    return [node["metadata"]["name"] for node in world.storage.list("nodes")]


def tainted(world: World) -> list[str]:
    """Return the nodes that carry the autoscaler's deletion taint."""
    return [
        node["metadata"]["name"]
        for node in world.storage.list("nodes")
        if any(taint["key"] == "ToBeDeletedByClusterAutoscaler" for taint in node["spec"].get("taints") or ())
    ]


class History:
    """Everything that changes in a world's storage from now on, as one digest."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._hash = hashlib.sha256()
        for kind in world.storage.registry.rows:
            world.storage.listen(kind, self._hear)

    def _hear(self, change: StoreChange) -> None:
        self._hash.update(f"{change.kind.id} {change.type} {change.revision} ".encode() + change.now.tail)

    def digest(self) -> str:
        """Return the digest of all changes, cloud calls and events so far."""
        whole = self._hash.copy()
        whole.update(repr((self._world.calls, self._world.events, self._world.passes)).encode())
        return whole.hexdigest()
