"""What one node adds to the cluster's limited resources, and whether it is a GPU node."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ResourceLimits
from autoscaler.config.syntax import Range
from autoscaler.objects import quantity
from autoscaler.objects.node import Node
from autoscaler.snapshot.groups import Group

CLUSTER_WIDE = "cluster-wide"
"""What messages call the limits that flags set."""


class Limit(NamedTuple):
    """A resource that is limited, and the quota that limits it."""

    resource: str
    quota: str = CLUSTER_WIDE


CORES = Limit("cpu")
MEMORY = Limit("memory")
NVIDIA = "nvidia.com/gpu"
DIRECTX = "microsoft.com/directx"
ALL_GPU_RESOURCES = (NVIDIA, "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", DIRECTX)
_VIRTUAL_KUBELET = "virtual-kubelet"
_GIB = 1024**3


class Contribution(msgspec.Struct, frozen=True):
    """The contribution of one node: whole cores, bytes of memory, number of GPUs."""

    cores: int
    memory_bytes: int
    gpu_type: str | None = None
    gpus: int | None = 0
    """None if the node should have GPUs but their number is unknown."""
    of_quotas: tuple[tuple[Limit, int | None], ...] = ()
    """What it adds to the limits of CapacityQuotas."""

    def shares(self) -> tuple[tuple[Limit, int | None], ...]:
        """Return limits and amounts in the order that messages use: cores, memory, then GPUs under their type; last
        come the limits of CapacityQuotas.
        """
        gpus = () if self.gpu_type is None else ((Limit(self.gpu_type), self.gpus),)
        return (CORES, self.cores), (MEMORY, self.memory_bytes), *gpus, *self.of_quotas


def totals(limits: Iterable[Limit], counted: Iterable[tuple[Contribution, int]]) -> dict[Limit, int | None]:
    """Return what counts towards these limits; each contribution comes with a number of nodes.

    None if a contribution is unknown.
    """
    sums: dict[Limit, int | None] = dict.fromkeys(limits, 0)
    for node, count in counted:
        if count <= 0:
            continue
        for name, share in node.shares():
            if name in sums:
                before = sums[name]
                sums[name] = None if before is None or share is None else before + share * count
    return sums


def bounds(limits: ResourceLimits) -> Mapping[Limit, Range]:
    """Return the minimum and maximum of each limited resource, in the units of contributions; 0 means no bound."""
    memory = Range(limits.memory_total.min * _GIB, limits.memory_total.max * _GIB)
    gpus = {Limit(limit.gpu_type): Range(limit.min, limit.max) for limit in limits.gpu_total}
    return {CORES: limits.cores_total, MEMORY: memory, **gpus}


def gpu_resources(rules: Rules) -> tuple[str, ...]:
    """Return the extended resources that count as GPUs, in order of precedence."""
    return ALL_GPU_RESOURCES if rules.all_gpu_vendors else (NVIDIA, DIRECTX)


def allocatable_gpus(node: Node, resources: tuple[str, ...]) -> int:
    """Return the amount of the first of these resources that the node has; 0 if it has none."""
    return next((count for name in resources if (count := node.allocatable.get(name, 0)) > 0), 0)


def has_gpu(node: Node, gpu_label: str, resources: tuple[str, ...]) -> bool:
    """Whether the node has the provider's GPU label, or offers GPUs to pods."""
    return _labelled(node, gpu_label) or allocatable_gpus(node, resources) > 0


def gpus_missing(node: Node, gpu_label: str, resources: tuple[str, ...]) -> bool:
    """Whether the label promises GPUs that the node does not offer yet; such a node counts as not ready."""
    return _labelled(node, gpu_label) and allocatable_gpus(node, resources) == 0


def virtual_kubelet(node: Node) -> bool:
    """Whether the node has no machine behind it; limits do not count such nodes."""
    return node.labels.get("type") == _VIRTUAL_KUBELET


def cores_of(node: Node) -> int:
    """Return the node's CPU capacity, rounded up to whole cores."""
    return -(-node.capacity.get(quantity.CPU, 0) // 1000)


def contribution(node: Node, group: Group | None, gpu_label: str, resources: tuple[str, ...]) -> Contribution:
    """Return what a node or a template node adds. `group` is its group, None if it is not autoscaled.

    If the label promises GPUs that the node does not offer yet (drivers are being installed), the GPUs come from the
    template of the group.
    """
    cores, memory_bytes = cores_of(node), node.capacity.get(quantity.MEMORY, 0)
    if not _labelled(node, gpu_label):
        return Contribution(cores, memory_bytes)
    gpus: int | None = allocatable_gpus(node, resources)
    if gpus == 0:
        gpus = _promised(group, resources)
    return Contribution(cores, memory_bytes, node.labels[gpu_label], gpus)


def _labelled(node: Node, gpu_label: str) -> bool:
    return gpu_label != "" and gpu_label in node.labels


def _promised(group: Group | None, resources: tuple[str, ...]) -> int | None:
    if group is None or group.template is None:
        return None
    capacity = group.template.capacity
    amount = next((capacity[name] for name in resources if name in capacity), "0")
    try:
        return quantity.whole(amount)
    except ValueError:
        return None
