"""Turns a dump of a cluster into a scenario file: infers node groups and the time, and supplies missing objects.

A dump shows a cluster as the API server does, so nothing is filled in but what decisions would otherwise stumble
over: namespaces, and controllers of a kind that the dump leaves out altogether. Both are warned about.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.config.document import to_options
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.objects.meta import ObjectMeta, controller_of, read_annotations, unix_seconds
from autoscaler.objects.node import NodeWire
from autoscaler.objects.pod_interner import relevant_annotations
from autoscaler.objects.podspec import PodWire
from autoscaler.objects.workload import DaemonSet, Job, Namespace, Replicated
from autoscaler.scenario.codec import build
from autoscaler.scenario.defaults import NAMESPACE_LABEL
from autoscaler.scenario.dump import Dump
from autoscaler.scenario.file_reader import Shape
from autoscaler.scenario.format import InstanceEntry, ScenarioFile
from autoscaler.scenario.inference import GroupSizes, Inference, ObservedNode, infer_groups
from autoscaler.scenario.kinds import KINDS
from autoscaler.scenario.scenario import PRIORITIES, Scenario, config_maps_key, now_before
from cloudprovider.number import parse_int
from cloudprovider.structure import key_of

_NAMES_SHOWN = 5
_OWNERS: Mapping[str, type[Replicated] | type[Job] | type[DaemonSet]] = {
    "ReplicaSet": Replicated,
    "StatefulSet": Replicated,
    "ReplicationController": Replicated,
    "Job": Job,
    "DaemonSet": DaemonSet,
}
"""Controllers that drain rules look up."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a dump, beside the objects in it."""

    name: str
    config: Config = Config()
    groups: Mapping[str, Any] | None = None
    """The content of a groups file that was found good; None: groups are inferred."""
    now_s: float | None = None
    """Unix seconds of the first run; None: the latest moment that an object speaks of."""
    runs: int = 1
    step_s: float = 10.0


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A dump as a scenario."""

    file: ScenarioFile
    scenario: Scenario
    inference: Inference | None = None
    """The groups that were told from nodes; None where a file names them."""
    warnings: tuple[str, ...] = ()


def import_dump(dump: Dump, wishes: ImportOptions) -> Imported:
    """Turn a dump into a scenario. Raises `ConfigError` with a line for everything in it that makes no sense."""
    inference = None if wishes.groups is not None else _inferred(dump, wishes.config)
    made_up, warnings = _made_up(dump)
    file = msgspec.structs.replace(
        ScenarioFile(now=_time(dump, wishes), name=wishes.name, complete=True),
        options=to_options(wishes.config),
        runs=wishes.runs,
        step=f"{wishes.step_s:f}s",
        priority_config=_priorities(dump, wishes.config),
        pause_config_map=dump.config_maps.get(
            f"{wishes.config.kube.namespace}/{wishes.config.observe.pause_config_map_name}"
        ),
        **{kind.field: [*dump.named(name), *made_up.get(name, ())] for name, kind in KINDS.items()},
        **_cloud(wishes.groups, inference),
    )
    file = msgspec.structs.replace(file, nodes=[_identified(node) for node in file.nodes])
    places: dict[str, Sequence[str]] = {
        key_of(kind.field): list(dump.places[name].values()) for name, kind in KINDS.items() if name in dump.places
    }
    shape = Shape(file, places=places)
    scenario = build(shape, wishes.name, wishes.config)
    if shape.problems:
        raise ConfigError(shape.problems)
    seen = (*dump.warnings, *warnings, *_inference_warnings(inference), *scenario.warnings)
    return Imported(file=file, scenario=scenario, inference=inference, warnings=seen)


def publishable(file: ScenarioFile) -> ScenarioFile:
    """Return a file without annotations that no decision reads: some hold whole manifests, environment and all."""
    replace = msgspec.structs.replace

    def bare(resource: Any, keep: Callable[[Mapping[str, str]], dict[str, str]]) -> Any:
        return replace(resource, metadata=replace(resource.metadata, annotations=keep(resource.metadata.annotations)))

    return replace(
        file,
        **{
            kind.field: [
                bare(resource, relevant_annotations if name == "Pod" else read_annotations)
                for resource in getattr(file, kind.field)
            ]
            for name, kind in KINDS.items()
        },
    )


def _time(dump: Dump, wishes: ImportOptions) -> str:
    if wishes.now_s is None and not dump.newest:
        raise ConfigError(
            f"{wishes.name}: no object in it tells what time it was; name it with --now, as 2026-01-05T12:00:00Z"
        )
    now_s = unix_seconds(dump.newest) if wishes.now_s is None else wishes.now_s
    return now_before(now_s)


def _cloud(groups: Mapping[str, Any] | None, inference: Inference | None) -> dict[str, Any]:
    if inference is not None:
        entries = [{"id": group.id, "minSize": group.min_size, "maxSize": group.max_size} for group in inference.groups]
        return {"node_groups": entries, "node_to_group": dict(inference.of_node)}
    assert groups is not None
    known = {info.encode_name for info in msgspec.structs.fields(InstanceEntry)}
    instances = [
        {key: value for key, value in instance.items() if key in known} for instance in groups.get("instances") or ()
    ]
    return {
        "node_groups": groups["groups"],
        "missing_instances": groups.get("missingInstances") or [],
        "instances": msgspec.convert(instances, list[InstanceEntry]),
        "prices": groups.get("prices"),
        "gpu_label": groups.get("gpuLabel"),
    }


def _inferred(dump: Dump, config: Config) -> Inference:
    nodes = [
        ObservedNode(node.metadata.name, node.metadata.labels, node.metadata.annotations) for node in dump.named("Node")
    ]
    return infer_groups(nodes, dict(map(_sizes, config.provider.nodes)))


def _sizes(spec: str) -> tuple[str, GroupSizes]:
    least, most, name = spec.split(":", 2)
    return name, GroupSizes(parse_int(least), parse_int(most))


def _priorities(dump: Dump, config: Config) -> str | None:
    config_map = dump.config_maps.get(config_maps_key(config.kube.namespace))
    return None if config_map is None else config_map.data.get(PRIORITIES)


def _identified(node: NodeWire) -> NodeWire:
    """Return a node with a provider id: clusters without a cloud have none, and then the name will do."""
    if node.spec.provider_id:
        return node
    replace = msgspec.structs.replace
    return replace(node, spec=replace(node.spec, provider_id=node.metadata.name))


def _made_up(dump: Dump) -> tuple[dict[str, list[Any]], list[str]]:
    """Return objects that pods refer to and that a dump without any of their kind cannot have, and what to say."""
    pods: Sequence[PodWire] = dump.named("Pod")
    made: dict[str, list[Any]] = {}
    warnings: list[str] = []
    if not dump.named("Namespace"):
        names = sorted({pod.metadata.namespace for pod in pods})
        made["Namespace"] = [
            Namespace(metadata=ObjectMeta(name=name, labels={NAMESPACE_LABEL: name})) for name in names
        ]
        warnings.append("no namespaces in the input: those of its pods are taken to have no labels but their names")
    for kind, make in _OWNERS.items():
        wanted = {} if dump.named(kind) else _owned_by(kind, pods)
        if wanted:
            made[kind] = [make(metadata=ObjectMeta(name=name, namespace=space)) for space, name in wanted]
            warnings.append(f"no {kind}s in the input: those that pods name are taken to be there, and large enough")
    if pods and not dump.named("PodDisruptionBudget"):
        warnings.append("no PodDisruptionBudgets in the input: removals are judged as if there were none")
    return made, warnings


def _owned_by(kind: str, pods: Sequence[PodWire]) -> Sequence[tuple[str, str]]:
    owners: dict[tuple[str, str], None] = {}
    for pod in pods:
        owner = controller_of(pod.metadata.owner_references)
        if owner is not None and owner.kind == kind:
            owners[pod.metadata.namespace, owner.name] = None
    return list(owners)


def _inference_warnings(inference: Inference | None) -> Iterator[str]:
    if inference is None:
        return
    if inference.ungrouped:
        names = ", ".join(inference.ungrouped[:_NAMES_SHOWN])
        more = len(inference.ungrouped) - _NAMES_SHOWN
        yield (
            f"{len(inference.ungrouped)} nodes carry no label that tells their group, so none of them is removed and "
            f"none like them bought: {names}{f' and {more} more' if more > 0 else ''}"
        )
