"""Encodes one moment of a cluster as a scenario file that replays it: the flight recorder's format.

Only what the engine keeps of an object is written, so no environment variable, secret or image ever is. The file is
marked `complete`: what an object leaves out stays left out when it is read again.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec

from autoscaler.objects.encode import Plain, PodForms, node_form
from autoscaler.objects.meta import read_annotations
from autoscaler.objects.node import Node
from autoscaler.ports import ExpanderAnswer
from autoscaler.scenario.bare import bare_node, bare_object, bare_pod
from autoscaler.scenario.kinds import RELATED
from autoscaler.scenario.scenario import PRIORITIES, PRIORITY_CONFIG, now_before
from autoscaler.snapshot.cluster import ClusterView, Related
from autoscaler.snapshot.groups import Group, Groups
from cloudprovider.interface import GroupSettings, Instance, MachineVersion, NodeTemplate, State
from cloudprovider.structure import key_of

DRIFT = "drift"
"""The flag whose decisions depend on the readiness of pods."""


def encode(
    view: ClusterView,
    *,
    name: str,
    at_s: float,
    options: Mapping[str, Any],
    description: str = "",
    answers: Iterable[ExpanderAnswer] = (),
    memory: Mapping[str, Any] | None = None,
) -> bytes:
    """Return a file (JSON) whose only run sees this view at `at_s`, Unix seconds.

    `options` are flags by name, as `config.document.to_options` has them; `answers` are those of `ScaleUpPlan`. Pods
    that the view leaves out (finished ones, expendable ones that run) are not in the file. `memory` is what earlier
    passes remembered (`recording.pass_file`); without it the replay is that of a process that has just started.
    """
    forms = PodForms(with_readiness=DRIFT in options)
    pods = [pod for on_node in view.pods for pod in on_node]
    document: Plain = {
        "name": name,
        "description": description,
        "now": now_before(at_s),
        "complete": True,
        "options": dict(options),
        "gpuLabel": view.groups.gpu_label,
        "nodeGroups": [_group(group) for group in view.groups.all],
        "nodeToGroup": dict(view.groups.of_node),
        "missingInstances": sorted(view.groups.gone),
        "instances": _instances(view.groups, view.nodes),
        "machineVersions": _machine_versions(view.groups),
        "impairedMachines": {
            instance.provider_id: instance.impaired
            for group in view.groups.all
            for instance in group.instances
            if instance.impaired
        },
        "nodes": [node_form(bare_node(node)) for node in view.nodes],
        "pods": [forms.form(pod) for pod in (*pods, *view.pending)],
        **_related(view.related),
        "expanderAnswers": list(answers),
        "memory": dict(memory or {}),
    }
    return msgspec.json.encode({key: value for key, value in document.items() if value not in ([], {})})


def _related(related: Related) -> Plain:
    written: Plain = {
        key_of(kind.field): [bare_object(resource) for resource in getattr(related, kind.related).values()]
        for kind in RELATED.values()
    }
    for config_map in related.config_maps.values():
        if config_map.name == PRIORITY_CONFIG:
            written["priorityConfig"] = config_map.data.get(PRIORITIES, [])
        else:
            written["pauseConfigMap"] = bare_object(config_map)
    return written


def _group(group: Group) -> Plain:
    entry: Plain = {
        "id": group.id,
        "minSize": group.min_size,
        "maxSize": group.max_size,
        "targetSize": group.target_size,
        "template": None if group.template is None else _template(group.template),
        "options": _settings(group.settings),
    }
    if group.template is not None and group.template.pods:
        entry["templatePods"] = [bare_pod(pod) for pod in group.template.pods]
    if group.template is not None and group.template.resource_slices:
        entry["templateResourceSlices"] = list(group.template.resource_slices)
    if group.node_price is not None:
        entry["pricePerHour"] = group.node_price
    if group.versions:
        entry["versions"] = [_version(version) for version in group.versions]
    return entry


def _template(template: NodeTemplate) -> Plain:
    return {
        "labels": dict(template.labels),
        "annotations": read_annotations(template.annotations),
        "taints": template.taints,
        "capacity": dict(template.capacity),
        "allocatable": dict(template.allocatable),
        **({"attachLimits": dict(template.attach_limits)} if template.attach_limits else {}),
        **({"declaredFeatures": list(template.declared_features)} if template.declared_features else {}),
        **({"zones": {zone: dict(labels) for zone, labels in template.zones.items()}} if template.zones else {}),
    }


def _settings(settings: GroupSettings) -> Plain:
    """Return the overrides by flag name; durations as Go writes them."""
    written: Plain = {}
    flags = GroupSettings()
    for field, value in msgspec.structs.asdict(settings).items():
        if value == getattr(flags, field):
            continue
        timed = field.endswith("_s")
        written[field.removesuffix("_s").replace("_", "-")] = f"{value:f}s" if timed else value
    return written


def _instances(groups: Groups, nodes: Iterable[Node]) -> list[Plain]:
    """Return the instances that reading the nodes does not bring back: no node, or not simply running.

    Those that it brings back come after these, in the order of the nodes; a group of another order is written whole.
    """
    registered = {node.provider_id: position for position, node in enumerate(nodes)}
    written: list[Plain] = []
    for group in groups.all:
        order = [
            -1 if _is_special(instance, registered) else registered[instance.provider_id]
            for instance in group.instances
        ]
        whole = order != sorted(order)
        written += [
            _instance(group, instance) for instance in group.instances if whole or _is_special(instance, registered)
        ]
    return written


def _machine_versions(groups: Groups) -> Plain:
    return {
        instance.provider_id: _version(instance.version)
        for group in groups.all
        for instance in group.instances
        if instance.version is not None
    }


def _version(version: MachineVersion) -> Plain:
    return {key_of(field): text for field, text in msgspec.structs.asdict(version).items() if text}


def _is_special(instance: Instance, registered: Container[str]) -> bool:
    running = instance.state in (None, State.RUNNING) and instance.error is None
    return instance.provider_id not in registered or not running


def _instance(group: Group, instance: Instance) -> Plain:
    entry: Plain = {"group": group.id, "id": instance.provider_id, "state": instance.state or State.RUNNING}
    if instance.error is not None:
        entry["errorClass"] = instance.error.error_class
        entry["errorCode"] = instance.error.code
        entry["errorMessage"] = instance.error.message
    return entry
