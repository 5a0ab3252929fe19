"""From one moment of a cluster to a scenario file that replays it: the flight recorder's format.

Only what the engine keeps of an object is written, so no environment variable, secret or image ever is. The file is
marked `complete`: what an object leaves out stays left out when it is read again.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.meta import ObjectMeta, OwnerReference, rfc3339
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.podspec import (
    Affinity,
    Container,
    PodSpec,
    ResourceClaimRef,
    SpreadConstraint,
    Toleration,
    Volume,
)
from autoscaler.scenario.scenario import PRIORITIES, PRIORITY_CONFIG
from autoscaler.snapshot.cluster import ClusterView, Related
from autoscaler.snapshot.groups import Group, Groups
from cloudprovider.interface import GroupSettings, Instance, NodeTemplate, State

Plain = dict[str, Any]
_BEFORE_FIRST_RUN_S = 1.0
_RELATED = {
    "namespaces": "namespaces",
    "podDisruptionBudgets": "budgets",
    "daemonSets": "daemon_sets",
    "replicaSets": "replica_sets",
    "statefulSets": "stateful_sets",
    "replicationControllers": "replication_controllers",
    "jobs": "jobs",
    "priorityClasses": "priority_classes",
    "persistentVolumeClaims": "claims",
    "persistentVolumes": "volumes",
    "storageClasses": "storage_classes",
    "csiNodes": "csi_nodes",
}


class _ClassForm(msgspec.Struct, frozen=True, array_like=True):
    """The parts of `PodClass.key`, in their order there."""

    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    owner: OwnerReference | None
    containers: list[Container]
    init_containers: list[Container]
    overhead: dict[str, str | int | float]
    resources: Any
    node_selector: dict[str, str]
    affinity: Affinity | None
    tolerations: list[Toleration]
    topology_spread_constraints: list[SpreadConstraint]
    volumes: list[Volume]
    claims: list[str]
    resource_claims: list[ResourceClaimRef]
    node_name: str
    priority: int | None
    priority_class_name: str
    preemption_policy: str | None
    scheduler_name: str
    restart_policy: str
    termination_grace_period_seconds: int | None
    allocated: dict[str, dict[str, str | int | float]] | None


_TAKEN_OVER = tuple(name for name in PodSpec.__struct_fields__ if name in _ClassForm.__struct_fields__)


def encode(view: ClusterView, *, name: str, at_s: float, options: Mapping[str, Any], description: str = "") -> bytes:
    """Return a file (JSON) whose only run sees this view at `at_s`, Unix seconds.

    `options` are flags by name, as `config.document.to_options` has them. Pods that the view leaves out (finished
    ones, expendable ones that run) are not in the file; neither is what earlier passes remembered.
    """
    pods = [pod for on_node in view.pods for pod in on_node]
    document: Plain = {
        "name": name,
        "description": description,
        "now": _exact_time(at_s - _BEFORE_FIRST_RUN_S),
        "complete": True,
        "options": dict(options),
        "gpuLabel": view.groups.gpu_label,
        "nodeGroups": [_group(group) for group in view.groups.all],
        "nodeToGroup": dict(view.groups.of_node),
        "missingInstances": sorted(view.groups.gone),
        "instances": _instances(view.groups, view.nodes),
        "nodes": [_node(node) for node in view.nodes],
        "pods": _pods([*pods, *view.pending]),
        **_related(view.related),
    }
    return msgspec.json.encode({key: value for key, value in document.items() if value not in ([], {})})


def _related(related: Related) -> Plain:
    found: Plain = {key: list(getattr(related, field).values()) for key, field in _RELATED.items()}
    for config_map in related.config_maps.values():
        if config_map.name == PRIORITY_CONFIG and PRIORITIES in config_map.data:
            found["priorityConfig"] = config_map.data[PRIORITIES]
    return found


def _node(node: Node) -> Plain:
    return {
        "metadata": ObjectMeta(
            name=node.name,
            uid=node.uid,
            labels=dict(node.labels),
            annotations=dict(node.annotations),
            creation_timestamp=rfc3339(node.created),
            deletion_timestamp=_optional_time(node.deleted),
        ),
        "spec": {"providerID": node.provider_id, "unschedulable": node.unschedulable, "taints": node.taints},
        "status": {
            "capacity": _amounts(node.capacity),
            "allocatable": _amounts(node.allocatable),
            "conditions": node.conditions,
        },
    }


def _pods(pods: Iterable[Pod]) -> list[Plain]:
    forms: dict[PodClass, _ClassForm] = {}
    decoder = msgspec.msgpack.Decoder(_ClassForm)
    written = []
    for pod in pods:
        form = forms.get(pod.cls)
        if form is None:
            form = forms[pod.cls] = decoder.decode(pod.cls.key)
        written.append(_pod(pod, form))
    return written


def _pod(pod: Pod, form: _ClassForm) -> Plain:
    status: Plain = {"phase": pod.phase}
    if pod.unscheduled is not None:
        condition = {"type": "PodScheduled", "status": "False", "reason": pod.unscheduled.reason}
        if pod.unscheduled.since is not None:
            condition["lastTransitionTime"] = rfc3339(pod.unscheduled.since)
        status["conditions"] = [condition]
    if pod.nominated_node is not None:
        status["nominatedNodeName"] = pod.nominated_node
    if pod.started is not None:
        status["startTime"] = rfc3339(pod.started)
    if form.allocated:
        status["containerStatuses"] = [
            {"name": container, "allocatedResources": amounts} for container, amounts in form.allocated.items()
        ]
    spec: Plain = {field: getattr(form, field) for field in _TAKEN_OVER}
    spec["node_name"] = pod.node or ""
    return {
        "metadata": ObjectMeta(
            name=pod.name,
            namespace=form.namespace,
            uid=pod.uid,
            labels=form.labels,
            annotations=form.annotations,
            owner_references=[] if form.owner is None else [form.owner],
            creation_timestamp=rfc3339(pod.created),
            deletion_timestamp=_optional_time(pod.deleted),
        ),
        "spec": PodSpec(**spec),
        "status": status,
    }


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
        entry["templatePods"] = list(group.template.pods)
    if group.node_price is not None:
        entry["pricePerHour"] = group.node_price
    return entry


def _template(template: NodeTemplate) -> Plain:
    return {
        "labels": dict(template.labels),
        "annotations": dict(template.annotations),
        "taints": template.taints,
        "capacity": dict(template.capacity),
        "allocatable": dict(template.allocatable),
    }


def _settings(settings: GroupSettings) -> Plain:
    """Return the overrides by flag name; durations as Go writes them."""
    written: Plain = {}
    for field, value in msgspec.structs.asdict(settings).items():
        if value is None or value is False:
            continue
        timed = field.endswith("_s")
        written[field.removesuffix("_s").replace("_", "-")] = f"{value:f}s" if timed else value
    return written


def _instances(groups: Groups, nodes: Iterable[Node]) -> list[Plain]:
    """Return the instances that reading the nodes does not bring back: no node, or not simply running."""
    registered = {node.provider_id for node in nodes}
    return [
        _instance(group, instance)
        for group in groups.all
        for instance in group.instances
        if instance.provider_id not in registered or instance.state not in (None, State.RUNNING) or instance.error
    ]


def _instance(group: Group, instance: Instance) -> Plain:
    entry: Plain = {"group": group.id, "id": instance.provider_id, "state": instance.state or State.RUNNING}
    if instance.error is not None:
        entry["errorClass"] = instance.error.error_class
        entry["errorCode"] = instance.error.code
        entry["errorMessage"] = instance.error.message
    return entry


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {resource: quantity.text(resource, value) for resource, value in amounts.items()}


def _optional_time(wall_s: float | None) -> str | None:
    return None if wall_s is None else rfc3339(wall_s)


def _exact_time(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).isoformat().replace("+00:00", "Z")
