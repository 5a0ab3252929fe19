"""Strips objects of everything that no decision reads, before they are written to a file."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from autoscaler.objects.meta import Resource, published, read_annotations
from autoscaler.objects.node import Node
from autoscaler.objects.pod_interner import relevant_annotations
from autoscaler.objects.podspec import PodWire
from autoscaler.objects.workload import DaemonSet

R = TypeVar("R", bound=Resource)


def bare_object(resource: R) -> R:
    """Return an object, and the pod template of a DaemonSet, without the annotations that are never read."""
    resource = published(resource)
    if not isinstance(resource, DaemonSet):
        return resource
    replace, template = msgspec.structs.replace, resource.spec.template
    kept = relevant_annotations(template.metadata.annotations)
    template = replace(template, metadata=replace(template.metadata, annotations=kept))
    return replace(resource, spec=replace(resource.spec, template=template))


def bare_node(node: Node) -> Node:
    """Return a node without the annotations that are never read."""
    return msgspec.structs.replace(node, annotations=read_annotations(node.annotations))


def bare_pod(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a v1.Pod without images, environment and foreign annotations; one that is no pod says nothing."""
    try:
        wire = msgspec.convert(pod, PodWire)
    except msgspec.ValidationError:
        return {}
    meta = wire.metadata
    kept = msgspec.structs.replace(meta, annotations=relevant_annotations(meta.annotations))
    plain: Mapping[str, Any] = msgspec.to_builtins(msgspec.structs.replace(wire, metadata=kept))
    return plain
