"""Decodes a scenario file to a `Scenario`: fills in defaults, and reports all errors at once."""

import gc
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.load import from_options
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import ConfigMap
from autoscaler.ports import ExpanderAnswer
from autoscaler.scenario.clouds import check_membership, drivers_of_templates, read_cloud, read_instances
from autoscaler.scenario.defaults import Defaults
from autoscaler.scenario.file_reader import Shape, parse, read_bytes
from autoscaler.scenario.format import ChangeEntry
from autoscaler.scenario.kinds import OF_DEVICES, RELATED
from autoscaler.scenario.objects import ObjectReader
from autoscaler.scenario.scenario import (
    MEMORY_VERSION,
    PRIORITIES,
    PRIORITY_CONFIG,
    Answered,
    ClusterChange,
    RecordedMemory,
    Scenario,
    config_maps_key,
    machine_of,
)
from autoscaler.snapshot.cluster import Related
from cloudprovider.duration import parse_duration_s
from cloudprovider.moment import parse_time
from cloudprovider.quoted import quoted
from cloudprovider.static.spec import CloudSpec
from cloudprovider.structure import key_of, worded

NO_OVERRIDES: Mapping[str, Any] = {}
_YEARS = range(1971, 9000)
"""Room on both sides for times before and after `now`."""
_LONGEST_STEP_S = 366 * 86400.0


def load(path: str, overrides: Mapping[str, Any] = NO_OVERRIDES) -> Scenario:
    """Read a scenario file. `overrides` are options by flag name that go before the file's own.

    Raises `ConfigError` with a line `FILE: path: problem` for everything that is wrong.
    """
    return decode(read_bytes(path), path, overrides)


def decode(body: bytes, name: str, overrides: Mapping[str, Any] = NO_OVERRIDES) -> Scenario:
    """Decode the content of a scenario file called `name`; otherwise as `load`."""
    with collector_paused():
        shape = parse(body, name)
        config = _config(shape, overrides)
        scenario = build(shape, Path(name).stem, config)
    if shape.problems:
        raise ConfigError(f"{name}: {problem}" for problem in shape.problems)
    return scenario


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the cycle collector off: of 150,000 pods in the making none is garbage, and looking doubles the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def build(shape: Shape, stem: str, config: Config) -> Scenario:
    """Check a file's content and turn it into what the engine uses; what is wrong goes to the problems of `shape`.

    `stem` names a file that has no name of its own; its options are not looked at, `config` stands for them.
    """
    file = shape.file
    now_s = _time_s(shape, "now", file.now)
    interner = PodInterner()
    defaults = Defaults(now_s, interner, file.complete)
    reader = ObjectReader(shape, defaults)
    nodes = reader.nodes("nodes", file.nodes)
    pods = reader.pods("pods", file.pods)
    cloud = read_cloud(shape, defaults)
    check_membership(shape, "nodeToGroup", file.node_to_group, {group.id for group in cloud.groups})
    changes = _changes(shape, reader, cloud, nodes, config)
    return Scenario(
        name=file.name or stem,
        kind=file.class_,
        description=file.description,
        now_s=now_s,
        config=config,
        cloud=cloud,
        nodes=nodes,
        pods=pods,
        related=_related(
            shape, reader, defaults, config, [*pods, *(pod for change in changes for pod in change.add_pods)], cloud
        ),
        runs=file.runs,
        step_s=_step_s(shape),
        changes=changes,
        answers=_answers(shape, {group.id for group in cloud.groups}),
        memory=_memory(shape),
        interner=interner,
        warnings=(*_warnings(shape, nodes, pods, changes), *_unheeded(shape, config)),
    )


def _time_s(shape: Shape, path: str, text: str) -> float:
    try:
        time = parse_time(text)
    except ValueError as error:
        shape.problems.append(f"{path}: {quoted(text)} {error}")
        return 0.0
    if time.year not in _YEARS:
        shape.problems.append(f"{path}: {text!r} is not within the years {_YEARS[0]} to {_YEARS[-1]}")
        return 0.0
    return time.timestamp()


def _step_s(shape: Shape) -> float:
    try:
        seconds = parse_duration_s(shape.file.step)
    except ValueError as error:
        shape.problems.append(f"step: {quoted(shape.file.step)} {error}")
        return 1.0
    if not 0 < seconds <= _LONGEST_STEP_S:
        shape.problems.append(f"step: {shape.file.step} is not above 0 and at most a year")
    return seconds


def _config(shape: Shape, overrides: Mapping[str, Any]) -> Config:
    try:
        return from_options({**shape.file.options, **overrides})
    except ConfigError as error:
        shape.problems.extend(error.problems)
        return Config()


def _related(
    shape: Shape, reader: ObjectReader, defaults: Defaults, config: Config, pods: Sequence[Pod], cloud: CloudSpec
) -> Related:
    file = shape.file
    config_maps = {}
    if file.priority_config is not None:
        meta = ObjectMeta(name=PRIORITY_CONFIG, namespace=config.kube.namespace)
        config_maps[config_maps_key(meta.namespace)] = ConfigMap(metadata=meta, data={PRIORITIES: file.priority_config})
    if file.pause_config_map is not None:
        pauses = _pauses(file.pause_config_map, config)
        config_maps[pauses.key] = pauses
    related: dict[str, Any] = {
        kind.related: reader.named(key_of(kind.field), getattr(file, kind.field), name if kind.in_namespace else None)
        for name, kind in RELATED.items()
    }
    if config.device_claims_count:
        drivers = (one.spec.driver for one in related["resource_slices"].values())
        related["device_classes"] = defaults.device_classes(
            related["device_classes"], (*drivers, *drivers_of_templates(cloud))
        )
    else:
        related |= {RELATED[name].related: {} for name in OF_DEVICES}
    if not config.gangs_count:
        related |= {"pod_groups": {}, "workloads": {}}
    related["namespaces"] = defaults.namespaces(related["namespaces"], {pod.namespace for pod in pods})
    deployments = reader.named("deployments", file.deployments, "Deployment")
    scalables = {f"Deployment/{key}": deployment for key, deployment in deployments.items()}
    return Related(**related, config_maps=config_maps, scalables=scalables)


def _pauses(config_map: ConfigMap, config: Config) -> ConfigMap:
    """Return the ConfigMap of pauses under the name that the configuration gives it."""
    meta = msgspec.structs.replace(
        config_map.metadata, name=config.observe.pause_config_map_name, namespace=config.kube.namespace
    )
    return msgspec.structs.replace(config_map, metadata=meta)


def _changes(
    shape: Shape, reader: ObjectReader, cloud: CloudSpec, nodes: Sequence[Node], config: Config
) -> tuple[ClusterChange, ...]:
    known = {node.name: node for node in nodes}
    changes = []
    for index, entry in enumerate(shape.file.changes):
        change = _change(shape, shape.path("changes", index), entry, reader, cloud, known)
        known.update((node.name, node) for node in change.add_nodes)
        if entry.pause_config_map is not None:
            change = msgspec.structs.replace(change, pauses=_pauses(entry.pause_config_map, config))
        changes.append(change)
    return tuple(changes)


def _change(
    shape: Shape, path: str, entry: ChangeEntry, reader: ObjectReader, cloud: CloudSpec, known: Mapping[str, Node]
) -> ClusterChange:
    group_ids = {group.id for group in cloud.groups}
    check_membership(shape, f"{path}.nodeToGroup", entry.node_to_group, group_ids)
    for position, key in enumerate(entry.remove_pods):
        if key.count("/") != 1:
            shape.problems.append(f"{path}.removePods[{position}]: {key!r} is not namespace/name")
    add_nodes = reader.nodes(f"{path}.addNodes", entry.add_nodes)
    here = {**known, **{node.name: node for node in add_nodes}}
    members = []
    for name, group in entry.node_to_group.items():
        owner = shape.file.node_to_group.get(name, group)
        if owner != group:
            shape.problems.append(f"{path}.nodeToGroup.{name}: belongs to {owner} already")
        elif name in here:
            members.append(machine_of(here[name], group))
        else:
            shape.problems.append(f"{path}.nodeToGroup.{name}: there is no such node by then")
    return ClusterChange(
        before_run=entry.before_run,
        remove_pods=tuple(entry.remove_pods),
        update_nodes=reader.nodes(f"{path}.updateNodes", entry.update_nodes),
        add_nodes=add_nodes,
        add_machines=(*members, *read_instances(shape, f"{path}.addInstances", entry.add_instances, group_ids)),
        add_pods=reader.pods(f"{path}.addPods", entry.add_pods),
    )


def _answers(shape: Shape, group_ids: Container[str]) -> tuple[Answered, ...]:
    answers = []
    for index, entry in enumerate(shape.file.expander_answers):
        path = shape.path("expanderAnswers", index)
        if entry.run >= shape.file.runs:
            shape.problems.append(f"{path}.run: {entry.run}: the runs are 0 to {shape.file.runs - 1}")
        for position, group_id in enumerate(entry.asked):
            if group_id not in group_ids:
                shape.problems.append(f"{path}.asked[{position}]: there is no group {group_id}")
        answer = ExpanderAnswer(asked=tuple(entry.asked), named=tuple(entry.named), error=entry.error)
        answers.append(Answered(entry.run, answer))
    return tuple(answers)


def _memory(shape: Shape) -> RecordedMemory | None:
    memory = shape.file.memory
    if memory is None:
        return None
    if memory.get("version") != MEMORY_VERSION:
        shape.problems.append(
            f"memory.version: {memory.get('version')!r}: this release replays {MEMORY_VERSION}; take the release that "
            "recorded it, or remove memory to plan as a process that has just started"
        )
        return None
    try:
        now = msgspec.convert(memory.get("now"), Instant)
    except msgspec.ValidationError as error:
        shape.problems.append(worded(str(error), "memory.now"))
        return None
    return RecordedMemory(now, memory)


def _unheeded(shape: Shape, config: Config) -> Iterator[str]:
    if shape.file.capacity_quotas and not config.limits.capacity_quotas_enabled:
        yield "CapacityQuotas limit nothing without --capacity-quotas-enabled"
    if "grpc" in config.scale_up.expander and not shape.file.expander_answers:
        yield "the grpc expander is not asked offline, and expanderAnswers has no answer: it leaves all options"


def _warnings(
    shape: Shape, nodes: Sequence[Node], pods: Sequence[Pod], changes: Sequence[ClusterChange]
) -> Iterator[str]:
    names = {node.name for node in nodes} | {node.name for change in changes for node in change.add_nodes}
    for pod in (*pods, *(pod for change in changes for pod in change.add_pods)):
        if pod.node is not None and pod.node not in names:
            yield f"pod {pod.key} is on node {pod.node}, which is not in the file: it is left out"
    for name in shape.file.node_to_group:
        if name not in names:
            yield f"nodeToGroup.{name}: there is no such node"
    for change in changes:
        if change.before_run >= shape.file.runs:
            yield f"a change before run {change.before_run} never happens: there are {shape.file.runs} runs"
        for node in change.update_nodes:
            if node.name not in names:
                yield f"updateNodes before run {change.before_run}: there is no node {node.name}"
