"""The cloud of a scenario file: node groups, instances, prices."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.objects.devices import described_slice
from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.podspec import PodWire
from autoscaler.scenario.defaults import Defaults
from autoscaler.scenario.file_reader import Shape
from autoscaler.scenario.format import InstanceEntry
from autoscaler.scenario.objects import unreadable_values
from cloudprovider.interface import InstanceError
from cloudprovider.prices import decode_prices
from cloudprovider.problems import Problems
from cloudprovider.static.file import decode_group, versions_of
from cloudprovider.static.spec import GPU_LABEL, CloudSpec, GroupSpec, MachineSpec
from cloudprovider.structure import worded

GROUPS = "nodeGroups"
LARGEST_GROUP = 1_000_000
"""More than any cluster has; keeps a slip of the pen from filling the memory with nodes on their way."""


def read_cloud(shape: Shape, defaults: Defaults) -> CloudSpec:
    """Return the cloud at the start. Machines of nodes are not listed: the groups claim them by the nodes' names."""
    file = shape.file
    problems = Problems()
    groups = [_group(raw, index, defaults, problems) for index, raw in enumerate(file.node_groups)]
    if file.memory is not None:
        groups = [_as_told(group, raw) for group, raw in zip(groups, file.node_groups, strict=True)]
    prices = None if file.prices is None else decode_prices(file.prices, "prices", problems)
    shape.problems.extend(problems.lines)
    shape.problems.extend(_contradictions(groups))
    ids = {group.id for group in groups}
    return CloudSpec(
        groups=[_with_members(group, file.node_to_group) for group in groups],
        machines=read_instances(shape, "instances", file.instances, ids),
        missing=tuple(file.missing_instances),
        machine_versions=versions_of(file.machine_versions),
        impaired_machines=file.impaired_machines,
        prices=prices,
        gpu_label=GPU_LABEL if file.gpu_label is None else file.gpu_label,
    )


def read_instances(
    shape: Shape, path: str, entries: Sequence[InstanceEntry], group_ids: set[str]
) -> tuple[MachineSpec, ...]:
    """Return the machines without a node that the list at `path` has."""
    machines: dict[str, MachineSpec] = {}
    for index, entry in enumerate(entries):
        where = shape.path(path, index)
        if entry.group not in group_ids:
            shape.problems.append(f"{where}.group: there is no node group {entry.group}")
        if entry.id in machines:
            shape.problems.append(f"{where}.id: {entry.id} is used by an earlier instance")
        if entry.error_class is None and (entry.error_code or entry.error_message):
            shape.problems.append(f"{where}.errorClass: is required beside errorCode and errorMessage")
        machines[entry.id] = _machine(entry)
    return tuple(machines.values())


def drivers_of_templates(cloud: CloudSpec) -> Iterator[str]:
    """Yield the drivers of the devices that new nodes bring."""
    templates = (group.template for group in cloud.groups if group.template is not None)
    return (described_slice(one).spec.driver for template in templates for one in template.resource_slices)


def check_membership(shape: Shape, path: str, node_to_group: Mapping[str, str], group_ids: set[str]) -> None:
    """Complain about nodes in unknown groups."""
    for node, group in node_to_group.items():
        if group not in group_ids:
            shape.problems.append(f"{path}.{node}: there is no node group {group}")


def _machine(entry: InstanceEntry) -> MachineSpec:
    error = None
    if entry.error_class is not None:
        error = InstanceError(entry.error_class, entry.error_code or "OTHER", entry.error_message or "")
    return MachineSpec(group=entry.group, provider_id=entry.id, state=entry.state, error=error)


def _group(raw: Any, index: int, defaults: Defaults, problems: Problems) -> GroupSpec:
    path = f"{GROUPS}[{index}]"
    if isinstance(raw, Mapping) and isinstance(raw.get("templatePods"), list):
        pods = [
            _template_pod(pod, f"{path}.templatePods[{position}]", position, defaults, problems)
            for position, pod in enumerate(raw["templatePods"])
        ]
        raw = {**raw, "templatePods": pods}
    if isinstance(raw, Mapping) and isinstance(raw.get("templateResourceSlices"), list):
        slices = [
            _template_slice(part, f"{path}.templateResourceSlices[{position}]", problems)
            for position, part in enumerate(raw["templateResourceSlices"])
        ]
        raw = {**raw, "templateResourceSlices": slices}
    group = decode_group(raw, path, problems)
    if defaults.complete or group.template is None or HOSTNAME in group.template.labels:
        return group
    labels = {**group.template.labels, HOSTNAME: f"{group.id}-template"}
    return msgspec.structs.replace(group, template=msgspec.structs.replace(group.template, labels=labels))


def _as_told(group: GroupSpec, raw: Any) -> GroupSpec:
    """Return the group of a recording with the very amounts that the cloud told, not with what follows from them."""
    if group.template is None:
        return group
    given = raw["template"]
    template = msgspec.structs.replace(
        group.template, capacity=given.get("capacity") or {}, allocatable=given.get("allocatable") or {}
    )
    return msgspec.structs.replace(group, template=template)


def _template_pod(raw: Any, path: str, position: int, defaults: Defaults, problems: Problems) -> Any:
    """Return a static pod with its defaults, as plain data."""
    if isinstance(raw, Mapping):
        raw = {"metadata": {}, **raw}
    try:
        wire = msgspec.convert(raw, PodWire)
    except msgspec.ValidationError as error:
        problems.add("", worded(str(error), path))
        return {}
    for field, text in unreadable_values(msgspec.to_builtins(wire)):
        problems.add(path + field, text)
    return defaults.template_pod(wire, position)


def _template_slice(raw: Any, path: str, problems: Problems) -> Any:
    """Return it as it is where it can be read, or is not even an object, which the group's reader complains about."""
    if isinstance(raw, Mapping):
        try:
            described_slice(raw)
        except msgspec.ValidationError as error:
            problems.add("", worded(str(error), path))
            return {}
    return raw


def _contradictions(groups: Sequence[GroupSpec]) -> Iterator[str]:
    seen: set[str] = set()
    for index, group in enumerate(groups):
        if group.id in seen:
            yield f"{GROUPS}[{index}].id: {group.id} is used by an earlier group"
        seen.add(group.id)
        sizes = {"minSize": group.min_size, "maxSize": group.max_size, "targetSize": group.target_size or 0}
        for field, size in sizes.items():
            if size > LARGEST_GROUP:
                yield f"{GROUPS}[{index}].{field}: {size} is above {LARGEST_GROUP}"
        if group.max_size < group.min_size:
            yield f"{GROUPS}[{index}].maxSize: {group.max_size} is below minSize {group.min_size}"


def _with_members(group: GroupSpec, node_to_group: Mapping[str, str]) -> GroupSpec:
    members = [node for node, owner in node_to_group.items() if owner == group.id]
    return msgspec.structs.replace(group, node_names=(*group.node_names, *members))
