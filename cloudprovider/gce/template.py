"""Builds the template of a managed instance group, from its instance template and machine type."""

from collections.abc import Mapping
from typing import Any

import msgspec

from cloudprovider.gce.kube_env import KubeEnv
from cloudprovider.gce.machine_types import MachineType, attached_gpus
from cloudprovider.gce.refs import Place
from cloudprovider.gce.reserved import (
    GIB,
    LOCAL_SSD_BYTES,
    allocatable,
    boot_disk_overhead,
    kernel_memory,
    local_ssd_overhead,
)
from cloudprovider.interface import NodeTemplate
from cloudprovider.kube_proxy import kube_proxy

BOOT_DISK_SIZE = "cluster-autoscaler/gce/boot-disk-size"
BOOT_DISK_TYPE = "cluster-autoscaler/gce/boot-disk-type"
LOCAL_SSDS = "cluster-autoscaler/gce/local-ssd-count"
SPOT = "cluster-autoscaler/gce/provisioning-model"
"""Annotations that only templates have. Prices are computed from them."""
_PODS = 110
_GPU = "nvidia.com/gpu"


class Blueprint(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded instance template and the machine type that it names."""

    properties: Mapping[str, Any]
    env: KubeEnv
    machine: MachineType


def node_template(blueprint: Blueprint, place: Place, zones: tuple[str, ...], group_id: str) -> NodeTemplate:
    """Return the node of a group in `place`, which spreads over `zones`.

    If the group spreads over several zones, no label gives the zone of a new node.
    """
    env, machine, properties = blueprint.env, blueprint.machine, blueprint.properties
    arch = env.arch or machine.arch or "amd64"
    capacity = _capacity(blueprint, arch)
    left = allocatable(capacity, env)
    extended = dict(env.extended_resources)
    labels = {
        **env.labels,
        "kubernetes.io/arch": arch,
        "kubernetes.io/os": env.os,
        "node.kubernetes.io/instance-type": machine.name,
        "topology.kubernetes.io/region": place.region,
    }
    in_zones = {zone: {"topology.kubernetes.io/zone": zone, "topology.gke.io/zone": zone} for zone in zones}
    if len(zones) == 1:
        labels |= in_zones[zones[0]]
    return NodeTemplate(
        labels=labels,
        annotations=_annotations(properties),
        taints=env.taints,
        capacity={**{name: str(amount) for name, amount in capacity.items()}, **extended},
        allocatable={**{name: _text(amount) for name, amount in left.items()}, **extended},
        pods=(kube_proxy(group_id.rpartition("/")[2]),),
        zones=in_zones,
    )


def _capacity(blueprint: Blueprint, arch: str) -> dict[str, int]:
    env, machine, properties = blueprint.env, blueprint.machine, blueprint.properties
    capacity = {
        "pods": env.max_pods or _PODS,
        "cpu": machine.cpus,
        "memory": machine.memory_bytes - kernel_memory(env.os, env.distribution, arch, machine.memory_bytes),
    }
    gpus = machine.gpus or attached_gpus(properties)
    if gpus:
        capacity[_GPU] = gpus
    storage = _storage(env, properties, arch)
    if storage is not None:
        capacity["ephemeral-storage"] = max(storage, 0)
    return capacity


def _storage(env: KubeEnv, properties: Mapping[str, Any], arch: str) -> int | None:
    disks = env.local_ssds_for_storage
    if disks:
        if _local_ssds(properties) < disks:
            raise ValueError(f"ephemeral storage is to be on {disks} local SSDs, and there are fewer")
        return disks * LOCAL_SSD_BYTES - local_ssd_overhead(env.distribution, disks)
    size = int(_boot_disk(properties).get("diskSizeGb") or 0) * GIB
    if not (env.storage_on_boot_disk and size):
        return None
    return size - boot_disk_overhead(env.distribution, arch, size)


def _boot_disk(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    for disk in properties.get("disks") or []:
        if disk.get("boot"):
            return disk.get("initializeParams") or {}
    return {}


def _local_ssds(properties: Mapping[str, Any]) -> int:
    return sum(
        disk.get("type") == "SCRATCH"
        and str((disk.get("initializeParams") or {}).get("diskType", "")).endswith("local-ssd")
        for disk in properties.get("disks") or []
    )


def _annotations(properties: Mapping[str, Any]) -> dict[str, str]:
    disk, scheduling = _boot_disk(properties), properties.get("scheduling") or {}
    annotations: dict[str, str] = {}
    if disk.get("diskSizeGb"):
        annotations[BOOT_DISK_SIZE] = str(disk["diskSizeGb"])
    if disk.get("diskType"):
        annotations[BOOT_DISK_TYPE] = str(disk["diskType"]).rpartition("/")[2]
    if disks := _local_ssds(properties):
        annotations[LOCAL_SSDS] = str(disks)
    if scheduling.get("preemptible") or scheduling.get("provisioningModel") == "SPOT":
        annotations[SPOT] = "SPOT"
    return annotations


def _text(amount: float) -> str:
    return str(int(amount)) if amount == int(amount) else f"{round(amount * 1000)}m"
