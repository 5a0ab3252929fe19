"""Writes kept objects in the API's form: for recordings, answers and remote expanders.

Only what the engine keeps of an object is written, so environment variables, secrets and images never are.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.class_form import ClassForm, spec_of
from autoscaler.objects.meta import ObjectMeta, rfc3339
from autoscaler.objects.node import Node
from autoscaler.objects.pod import DELETION_COST, Pod, PodClass
from autoscaler.objects.podspec import PodSpec, Quantities
from autoscaler.objects.requests import NO_RESIZE, PodResize, add_amounts

Plain = dict[str, Any]
"""An object with JSON's keys; parts of it may be structs that rename their fields to them."""


def node_form(node: Node) -> Plain:
    """Return a node as a v1.Node."""
    return {
        "metadata": ObjectMeta(
            name=node.name,
            uid=node.uid,
            labels=dict(node.labels),
            annotations=dict(node.annotations),
            creation_timestamp=_optional_time(node.created or None),
            deletion_timestamp=_optional_time(node.deleted),
        ),
        "spec": {"providerID": node.provider_id, "unschedulable": node.unschedulable, "taints": node.taints},
        "status": {
            "capacity": _amounts(node.capacity),
            "allocatable": _amounts(node.allocatable),
            "conditions": node.conditions,
            **({"declaredFeatures": sorted(node.declared_features)} if node.declared_features else {}),
        },
    }


class PodForms:
    """Turns pods into v1.Pods; the parts that a class shares are worked out once."""

    def __init__(self, *, with_readiness: bool = False) -> None:
        """`with_readiness` writes since when pods have been on their nodes, and ready, too."""
        self._with_readiness = with_readiness
        self._decoder = msgspec.msgpack.Decoder(ClassForm)
        self._classes: dict[PodClass, tuple[ClassForm, PodSpec]] = {}

    def form(self, pod: Pod) -> Plain:
        """Return a pod as a v1.Pod: `metadata`, `spec` and `status`."""
        shared, spec = self._of_class(pod.own_class)
        return {
            "metadata": ObjectMeta(
                name=pod.name,
                namespace=shared.namespace,
                uid=pod.uid,
                labels=shared.labels,
                annotations=_annotations(pod, shared),
                owner_references=[] if shared.owner is None else [shared.owner],
                creation_timestamp=_optional_time(pod.created or None),
                deletion_timestamp=_optional_time(pod.deleted),
            ),
            "spec": spec if pod.node is None else msgspec.structs.replace(spec, node_name=pod.node),
            "status": _status(pod, shared) | (_readiness(pod) if self._with_readiness else {}),
        }

    def _of_class(self, cls: PodClass) -> tuple[ClassForm, PodSpec]:
        known = self._classes.get(cls)
        if known is None:
            shared = self._decoder.decode(cls.key)
            known = self._classes[cls] = shared, spec_of(shared)
        return known


def _annotations(pod: Pod, shared: ClassForm) -> dict[str, str]:
    cost = {DELETION_COST: str(pod.deletion_cost)} if pod.deletion_cost else {}
    return {**shared.annotations, **cost}


def _status(pod: Pod, shared: ClassForm) -> Plain:
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
    if (resize := shared.resize) is not NO_RESIZE:
        status |= _resize_status(resize, shared.overhead)
    return status


def _readiness(pod: Pod) -> Plain:
    """Return the conditions of a pod that has a node; empty for others."""
    since = {"PodScheduled": pod.scheduled, "Ready": pod.ready}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": rfc3339(moment)}
        for kind, moment in since.items()
        if moment is not None
    ]
    return {"conditions": conditions} if conditions and pod.node is not None else {}


def _resize_status(resize: PodResize, overhead: Quantities) -> Plain:
    status: Plain = {
        "containerStatuses": [
            {"name": container, "allocatedResources": amounts} for container, amounts in resize.containers.items()
        ]
    }
    if resize.pending:
        status["resize"] = resize.pending
    if resize.pod:
        held = quantity.amounts(resize.pod)
        add_amounts(held, {name: value for name, value in quantity.amounts(overhead).items() if name in held})
        status["allocatedResources"] = _amounts(held)
    return status


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {resource: quantity.text(resource, value) for resource, value in amounts.items()}


def _optional_time(wall_s: float | None) -> str | None:
    return None if wall_s is None else rfc3339(wall_s)
