"""The part of a groups file that describes new nodes and the flags overridden for their group."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from cloudprovider.interface import GroupSettings, NodeTemplate, TaintSpec
from cloudprovider.problems import Problems
from cloudprovider.quantity import parse_quantity
from cloudprovider.structure import Count, Lenient, Quantity, Seconds, Share, Strict, StructReader

_NODE_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_PODS = "110"
ZONE = "topology.kubernetes.io/zone"


class TaintEffect(StrEnum):
    """Kubernetes' taint effects."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class _Taint(Lenient, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: TaintEffect


class _StrictTaint(Strict, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: TaintEffect


class _Metadata(Lenient, frozen=True, kw_only=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Spec(Lenient, frozen=True, kw_only=True):
    taints: list[_Taint] = []
    zones: Any = None
    attach_limits: dict[str, Count] = {}


class _Status(Lenient, frozen=True, kw_only=True):
    capacity: dict[str, Quantity] | None = None
    allocatable: dict[str, Quantity] | None = None
    declared_features: list[str] = []


class _Template(Strict, frozen=True, kw_only=True):
    """The short form; a v1.Node has the same in its parts."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: list[_StrictTaint] = []
    zones: Any = None
    """Names, or by name the labels of nodes there."""
    attach_limits: dict[str, Count] = {}
    """Volumes that a node can attach, by CSI driver."""
    declared_features: list[str] = []
    capacity: dict[str, Quantity] | None = None
    allocatable: dict[str, Quantity] | None = None


class GroupOptions(Strict, frozen=True, kw_only=True, rename=lambda field: field.removesuffix("_s").replace("_", "-")):
    """Overrides of flags, by the flags' names; `GroupSettings` says what they mean."""

    scale_down_enabled: bool | None = None
    scale_down_utilization_threshold: Share | None = None
    scale_down_gpu_utilization_threshold: Share | None = None
    scale_down_unneeded_time_s: Seconds | None = None
    scale_down_unready_time_s: Seconds | None = None
    max_node_provision_time_s: Seconds | None = None
    max_node_startup_time_s: Seconds | None = None
    max_node_age_s: Seconds | None = None
    ignore_daemonsets_utilization: bool | None = None
    zero_or_max_node_scaling: bool = False
    allow_non_atomic_scale_up_to_max: bool = False

    @property
    def settings(self) -> GroupSettings:
        """The same for the provider contract."""
        return GroupSettings(**msgspec.structs.asdict(self))


def decode_template(
    data: Any,
    path: str,
    problems: Problems,
    pods: Sequence[Mapping[str, Any]] = (),
    resource_slices: Sequence[Mapping[str, Any]] = (),
) -> NodeTemplate | None:
    """Decode a v1.Node, ignoring unused fields, or the strict short form; None if it is absent."""
    if data is None:
        return None
    reader = StructReader(problems)
    status = path
    if isinstance(data, Mapping) and not _NODE_FIELDS.isdisjoint(data):
        status = f"{path}.status"
        parts = ((_Metadata, "metadata"), (_Spec, "spec"), (_Status, "status"))
        fields = {
            name: value
            for kind, part in parts
            for name, value in reader.fields(kind, data.get(part) or {}, f"{path}.{part}").items()
        }
    else:
        fields = reader.fields(_Template, data, path)
    capacity, allocatable = _amounts(fields, status, problems)
    taints: Sequence[_Taint | _StrictTaint] = fields.get("taints", ())
    return NodeTemplate(
        labels=fields.get("labels", {}),
        annotations=fields.get("annotations", {}),
        taints=tuple(TaintSpec(taint.key, taint.value, taint.effect.value) for taint in taints),
        capacity=capacity,
        allocatable=allocatable,
        pods=tuple(pods),
        zones=_zones(fields.get("zones"), f"{path}.zones", reader),
        attach_limits=fields.get("attach_limits", {}),
        resource_slices=tuple(resource_slices),
        declared_features=tuple(fields.get("declared_features", ())),
    )


def _amounts(fields: Mapping[str, Any], path: str, problems: Problems) -> tuple[dict[str, str], dict[str, str]]:
    """Return capacity and allocatable, each of which defaults to the other."""
    if "capacity" not in fields and "allocatable" not in fields:
        problems.add(f"{path}.capacity", "is required, or allocatable")
    capacity, allocatable = dict(fields.get("capacity") or {}), dict(fields.get("allocatable") or {})
    allocatable = allocatable or dict(capacity)
    allocatable.setdefault("pods", capacity.get("pods", _PODS))
    capacity = capacity or dict(allocatable)
    capacity.setdefault("pods", allocatable["pods"])
    for name, amount in allocatable.items():
        if name in capacity and parse_quantity(amount) > parse_quantity(capacity[name]):
            problems.add(f"{path}.allocatable[{name}]", f"{amount} is above the capacity {capacity[name]}")
    return capacity, allocatable


def _zones(data: Any, path: str, reader: StructReader) -> Mapping[str, Mapping[str, str]]:
    """Decode the zones that machines may be in: their names, or by name the labels of nodes there."""
    if isinstance(data, Mapping):
        labels = {f"{name}": {} if of_zone is None else of_zone for name, of_zone in data.items()}
        zones: Mapping[str, Mapping[str, str]] = reader.value(dict[str, dict[str, str]], labels, path, default={})
        return {name: {ZONE: name, **of_zone} for name, of_zone in zones.items()}
    names: Sequence[str] = () if data is None else reader.value(list[str], data, path, default=[])
    return {name: {ZONE: name} for name in names}
