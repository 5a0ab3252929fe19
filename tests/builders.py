"""Builders of pods, nodes, groups and templates: each takes only what a test is about.

Pods and nodes go through the decoders, so that what a test builds is what the API server could have sent. A pod is a
replica of ReplicaSet `web` that asks for nothing; a node is ready, has 4 CPUs, 16Gi and 110 pod slots.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.objects.decode import WireDecoder
from autoscaler.objects.meta import ObjectMeta, rfc3339
from autoscaler.objects.node import HOSTNAME, ZONES, Node, node_decoder
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.podspec import PodWire
from autoscaler.objects.workload import ConfigMap, DisruptionBudget, plain_decoder
from autoscaler.registry.buckets import Buckets
from autoscaler.registry.requests import AcceptableRange
from autoscaler.registry.state import GroupState
from autoscaler.scaleup.capacity_quotas import NO_QUOTAS, Quotas
from autoscaler.scaleup.context import ScaleUpContext
from autoscaler.scaleup.limits import Allowance
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.template import Template
from cloudprovider.interface import GroupSettings, Instance, NodeTemplate
from tests import manifests

Json = dict[str, Any]
Labels = Mapping[str, str]

_ZONE = ZONES[0]
_INTERNER = PodInterner()
_NODE_DECODER = node_decoder()


def a_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    owner: str | None = "ReplicaSet",
    node: str | None = None,
    host_ports: Sequence[int | Json] = (),
    selector: Labels | None = None,
    node_terms: Sequence[Json] | None = None,
    near: Sequence[Json] = (),
    away: Sequence[Json] = (),
    spread: Sequence[Json] = (),
    tolerations: Sequence[Json] = (),
    volumes: Sequence[Json] = (),
    priority: int | None = None,
    scheduler: str | None = None,
    phase: str | None = None,
    unschedulable: bool = False,
    nominated: str | None = None,
    created: float = 0.0,
    deleted: float | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Pod:
    """Return a pod; equal arguments, name and times aside, give pods of one class.

    `owner` is `Kind` or `Kind/name`. `node_terms` are terms of the required node affinity; `near` and `away` terms of
    the required pod (anti-)affinity, as `term` makes them; `spread` constraints, as `over` makes them. Times are Unix
    seconds. `unschedulable` adds the scheduler's verdict; `spec` and `status` add or replace fields.
    """
    asked = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {}), **(requests or {})}
    ports = [{"hostPort": port, "containerPort": port} if isinstance(port, int) else port for port in host_ports]
    affinity = _affinity(node_terms, near, away)
    pod_spec: Json = {"containers": [{"name": "main", "resources": {"requests": asked}, "ports": ports}]}
    optional = {
        "nodeName": node,
        "nodeSelector": selector,
        "affinity": affinity,
        "topologySpreadConstraints": list(spread),
        "tolerations": list(tolerations),
        "volumes": list(volumes),
        "schedulerName": scheduler,
    }
    pod_spec |= {field: value for field, value in optional.items() if value}
    if priority is not None:
        pod_spec["priority"] = priority
    pod_status: Json = {"phase": phase or ("Running" if node else "Pending")}
    if unschedulable:
        pod_status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    if nominated is not None:
        pod_status["nominatedNodeName"] = nominated
    return pod_decoder().one(
        {
            "metadata": _pod_meta(name, namespace, labels, annotations, owner, created, deleted),
            "spec": {**pod_spec, **(spec or {})},
            "status": {**pod_status, **(status or {})},
        }
    )


def pod_decoder() -> WireDecoder[PodWire, Pod]:
    """Return the decoder that shares its classes with `a_pod`."""
    return _INTERNER.decoder()


def replicas(pod: Pod, count: int) -> list[Pod]:
    """Return that many pods like this one, named `<pod>-0` and so on."""
    names = [f"{pod.name}-{number}" for number in range(count)]
    return [msgspec.structs.replace(pod, name=name, uid=f"{pod.namespace}/{name}") for name in names]


def _affinity(node_terms: Sequence[Json] | None, near: Sequence[Json], away: Sequence[Json]) -> Json:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity: Json = {}
    if node_terms is not None:
        affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": list(node_terms)}}
    if near:
        affinity["podAffinity"] = {required: list(near)}
    if away:
        affinity["podAntiAffinity"] = {required: list(away)}
    return affinity


def _pod_meta(
    name: str,
    namespace: str,
    labels: Labels | None,
    annotations: Labels | None,
    owner: str | None,
    created: float,
    deleted: float | None,
) -> Json:
    meta: Json = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}/{name}",
        "creationTimestamp": rfc3339(created),
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    if owner is not None:
        kind, _, owner_name = owner.partition("/")
        owner_name = owner_name or "web"
        reference = {"kind": kind, "name": owner_name, "uid": f"{kind}/{owner_name}", "controller": True}
        meta["ownerReferences"] = [reference]
    if deleted is not None:
        meta["deletionTimestamp"] = rfc3339(deleted)
    return meta


def term(key: str = HOSTNAME, *, labels: Labels | None = None, **more: Any) -> Json:
    """Return a pod (anti-)affinity term about pods with these labels; `more` are fields as the API spells them."""
    about = {} if labels is None else {"labelSelector": {"matchLabels": dict(labels)}}
    return {"topologyKey": key, **about, **more}


def over(key: str = HOSTNAME, *, labels: Labels | None = None, max_skew: int = 1, **more: Any) -> Json:
    """Return a spread constraint that forbids, counting pods with these labels; `more` as for `term`."""
    about = {} if labels is None else {"labelSelector": {"matchLabels": dict(labels)}}
    return {"topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": "DoNotSchedule", **about, **more}


def expression(key: str, operator: str, *values: str) -> Json:
    """Return one requirement of a selector."""
    return {"key": key, "operator": operator, "values": list(values)}


def a_node(
    name: str = "node",
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    extra: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    labels: Labels | None = None,
    zone: str | None = None,
    annotations: Labels | None = None,
    taints: Sequence[str] = (),
    cordoned: bool = False,
    ready: bool | None = True,
    conditions: Sequence[Json] = (),
    since: float | None = None,
    created: float = 0.0,
    hostname: bool = True,
    features: Sequence[str] = (),
) -> Node:
    """Return a node.

    `extra` are further resources; `allocatable` is where that differs from the capacity; taints are written
    `key=value:Effect`, value and effect (NoSchedule) optional; `since` is when it became (not) ready, and
    `ready` None leaves the condition out.
    """
    own = {HOSTNAME: name} if hostname else {}
    own |= {_ZONE: zone} if zone is not None else {}
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), **(extra or {})}
    ready_condition: Json = {"type": "Ready", "status": "True" if ready else "False"}
    if since is not None:
        ready_condition["lastTransitionTime"] = rfc3339(since)
    return _NODE_DECODER.one(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {**own, **(labels or {})},
                "annotations": dict(annotations or {}),
                "creationTimestamp": rfc3339(created),
            },
            "spec": {
                "providerID": f"test://{name}",
                "unschedulable": cordoned,
                "taints": [_taint(text) for text in taints],
            },
            "status": {
                "capacity": amounts,
                "allocatable": {**amounts, **(allocatable or {})},
                "conditions": [*([] if ready is None else [ready_condition]), *conditions],
                "declaredFeatures": list(features),
            },
        }
    )


def _taint(text: str) -> Json:
    rest, _, effect = text.partition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect or "NoSchedule"}


def a_template(node: Node | None = None, *pods: Pod) -> Template:
    """Return a template, by default of a plain node, with the pods that come with it."""
    return Template(node or a_node("template"), pods)


def a_group(
    group_id: str = "group",
    *,
    min_size: int = 0,
    max_size: int = 10,
    target: int = 0,
    machines: Iterable[str | Instance] = (),
    template: NodeTemplate | None = None,
    price: float | None = None,
    settings: GroupSettings = GroupSettings(),  # noqa: B008 it is frozen
) -> Group:
    """Return a node group as a pass reads it; `machines` are instances, or provider ids of running ones."""
    return Group(
        id=group_id,
        min_size=min_size,
        max_size=max_size,
        target_size=target,
        instances=tuple(Instance(machine) if isinstance(machine, str) else machine for machine in machines),
        template=template,
        node_price=price,
        settings=settings,
    )


def an_option(
    name: str = "group",
    nodes: int = 1,
    pods: int = 1,
    *,
    node: Node | None = None,
    pod: Pod | None = None,
    **group: Any,
) -> Option:
    """Return an option: so many nodes of a group for so many pods like `pod`; `group` as for `a_group`."""
    return Option(
        group=a_group(name, **group),
        template=a_template(node or a_node(name)),
        nodes=nodes,
        pods=tuple(replicas(pod or a_pod(), pods)),
    )


def a_budget(
    allowed: int, *, name: str | None = None, namespace: str = "default", labels: Labels | None = None
) -> DisruptionBudget:
    """Return a budget that allows so many disruptions now, of pods with these labels, by default of all."""
    budget = manifests.a_budget(allowed, name=name or f"budget-{allowed}", namespace=namespace, labels=labels or {})
    return plain_decoder(DisruptionBudget).one(budget)


def a_situation(
    groups: Sequence[Group],
    templates: Mapping[str, Template],
    *,
    allowance: Allowance = Allowance(),  # noqa: B008 it is frozen
    max_nodes_total: int = 0,
    similar: Mapping[str, tuple[str, ...]] | None = None,
    quotas: Quotas = NO_QUOTAS,
) -> ScaleUpContext:
    """Return healthy groups that have no nodes yet, as a scale-up finds them."""
    state = GroupState(
        buckets=Buckets(),
        acceptable=AcceptableRange(0, 0, 0),
        healthy=True,
        scaling_up=False,
        upcoming=0,
        backoff=None,
    )
    return ScaleUpContext(
        groups=Groups(all=tuple(groups)),
        templates=templates,
        states={group.id: state for group in groups},
        allowance=allowance,
        present=0,
        max_nodes_total=max_nodes_total,
        similar=similar or {},
        quotas=quotas,
    )


def pauses(**entries: str) -> ConfigMap:
    """Return the ConfigMap of pauses with these entries."""
    meta = ObjectMeta(name="cluster-autoscaler-pause", namespace="kube-system")
    return ConfigMap(metadata=meta, data=entries)
