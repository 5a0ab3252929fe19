"""The part of a groups file that describes new nodes and the flags overridden for their group."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from cloudprovider.fields import Fields, Problems
from cloudprovider.interface import GroupSettings, NodeTemplate, TaintSpec
from cloudprovider.quantity import parse_quantity

_NODE_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_PODS = "110"
ZONE = "topology.kubernetes.io/zone"


class TaintEffect(StrEnum):
    """Kubernetes' taint effects."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


def decode_template(group: Fields, key: str, pods: Sequence[Mapping[str, Any]] = ()) -> NodeTemplate | None:
    """Decode a v1.Node, whose other fields do not matter here, or the strict short form; None where it is absent."""
    data = group.raw(key)
    if data is None:
        return None
    if isinstance(data, Mapping) and not _NODE_FIELDS.isdisjoint(data):
        metadata, spec, status = (
            Fields(data.get(part) or {}, f"{group.at(key)}.{part}", group.problems)
            for part in ("metadata", "spec", "status")
        )
        return _template(metadata, spec, status, pods, strict_taints=False)
    fields = Fields(data, group.at(key), group.problems)
    template = _template(fields, fields, fields, pods, strict_taints=True)
    fields.close()
    return template


def decode_settings(data: Any, path: str, problems: Problems) -> GroupSettings:
    """Decode overrides of flags, by the flags' names."""
    if data is None:
        return GroupSettings()
    fields = Fields(data, path, problems)
    settings = GroupSettings(
        scale_down_enabled=fields.flag("scale-down-enabled"),
        scale_down_utilization_threshold=fields.number("scale-down-utilization-threshold", most=1.0),
        scale_down_gpu_utilization_threshold=fields.number("scale-down-gpu-utilization-threshold", most=1.0),
        scale_down_unneeded_time_s=fields.duration_s("scale-down-unneeded-time"),
        scale_down_unready_time_s=fields.duration_s("scale-down-unready-time"),
        max_node_provision_time_s=fields.duration_s("max-node-provision-time"),
        max_node_startup_time_s=fields.duration_s("max-node-startup-time"),
        max_node_age_s=fields.duration_s("max-node-age"),
        ignore_daemonsets_utilization=fields.flag("ignore-daemonsets-utilization"),
        zero_or_max_node_scaling=fields.flag("zero-or-max-node-scaling") or False,
        allow_non_atomic_scale_up_to_max=fields.flag("allow-non-atomic-scale-up-to-max") or False,
    )
    fields.close()
    return settings


def _template(
    metadata: Fields, spec: Fields, status: Fields, pods: Sequence[Mapping[str, Any]], strict_taints: bool
) -> NodeTemplate:
    capacity, allocatable = status.quantities("capacity"), status.quantities("allocatable")
    if not capacity and not allocatable and not (status.has("capacity") or status.has("allocatable")):
        status.complain("capacity", "is required, or allocatable")
    allocatable = allocatable or dict(capacity)
    allocatable.setdefault("pods", capacity.get("pods", _PODS))
    capacity = capacity or dict(allocatable)
    capacity.setdefault("pods", allocatable["pods"])
    for name, amount in allocatable.items():
        if name in capacity and parse_quantity(amount) > parse_quantity(capacity[name]):
            status.complain(f"allocatable[{name}]", f"{amount} is above the capacity {capacity[name]}")
    return NodeTemplate(
        labels=metadata.string_map("labels"),
        annotations=metadata.string_map("annotations"),
        taints=tuple(_taint(Fields(item, path, spec.problems), strict_taints) for path, item in spec.entries("taints")),
        capacity=capacity,
        allocatable=allocatable,
        pods=tuple(pods),
        zones=_zones(spec),
    )


def _zones(spec: Fields) -> Mapping[str, Mapping[str, str]]:
    """Decode the zones that machines may be in: their names, or by name the labels of nodes there."""
    if isinstance(spec.raw("zones"), Mapping):
        zones = Fields(spec.mapping("zones"), spec.at("zones"), spec.problems)
        return {name: {ZONE: name, **zones.string_map(name)} for name in spec.mapping("zones")}
    return {name: {ZONE: name} for name in spec.texts("zones")}


def _taint(fields: Fields, strict: bool) -> TaintSpec:
    effect = fields.choice("effect", TaintEffect, required=True) or TaintEffect.NO_SCHEDULE
    taint = TaintSpec(fields.text("key", required=True) or "", fields.text("value") or "", effect.value)
    if strict:
        fields.close()
    return taint
