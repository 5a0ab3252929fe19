"""Builds templates from the machine, the group's tags, and the managed node group, which overrides the others."""

from collections.abc import Sequence

from cloudprovider.aws.asg import Asg
from cloudprovider.aws.machine_types import Shape
from cloudprovider.aws.nodegroups import Nodegroup
from cloudprovider.aws.tags import attach_limits_of, labels_of, resources_of, taints_of
from cloudprovider.interface import NodeTemplate, ProviderError, TaintSpec
from cloudprovider.kube_proxy import kube_proxy
from cloudprovider.prices import INSTANCE_TYPE

_PODS = "110"
_NEEDED = ("cpu", "memory")


def template_of(asg: Asg, shape: Shape | None, nodegroup: Nodegroup | None, region: str) -> NodeTemplate:
    """Return a new node of the group; `ProviderError` if neither machine nor tags give its cpu and memory.

    All of the capacity and 110 pods are allocatable, unless a resource tag says otherwise.
    """
    nodegroup = nodegroup or Nodegroup()
    capacity = {"pods": _PODS, **_amounts(shape), **resources_of(asg.tags), **resources_of(nodegroup.tags)}
    lacking = [name for name in _NEEDED if name not in capacity]
    if lacking:
        raise ProviderError(f"{' and '.join(lacking)} of its nodes are not known")
    return NodeTemplate(
        labels={**_generic(asg, shape, nodegroup, region), **labels_of(asg.tags), **nodegroup.labels},
        taints=_merged(taints_of(asg.tags), nodegroup.taints),
        capacity=capacity,
        allocatable=capacity,
        pods=(kube_proxy(asg.name),),
        zones={zone: _zone_labels(zone) for zone in asg.zones},
        attach_limits={**attach_limits_of(asg.tags), **attach_limits_of(nodegroup.tags)},
    )


def _amounts(shape: Shape | None) -> dict[str, str]:
    if shape is None:
        return {}
    accelerators = {name: str(count) for name, count in shape.accelerators.items() if count}
    return {"cpu": str(shape.cpus), "memory": str(shape.memory_bytes), **accelerators}


def _generic(asg: Asg, shape: Shape | None, nodegroup: Nodegroup, region: str) -> dict[str, str]:
    labels = {"kubernetes.io/os": nodegroup.os, "topology.kubernetes.io/region": region}
    if shape is not None:
        labels["kubernetes.io/arch"] = shape.arch
        if shape.instance_type:
            labels[INSTANCE_TYPE] = shape.instance_type
    if asg.zones:
        labels |= _zone_labels(asg.zones[0])
    return labels


def _zone_labels(zone: str) -> dict[str, str]:
    return {"topology.kubernetes.io/zone": zone, "topology.ebs.csi.aws.com/zone": zone}


def _merged(ours: Sequence[TaintSpec], managed: Sequence[TaintSpec]) -> tuple[TaintSpec, ...]:
    """Return both. Of two taints with the same key and effect, the managed node group's wins."""
    return tuple({(taint.key, taint.effect): taint for taint in (*ours, *managed)}.values())
