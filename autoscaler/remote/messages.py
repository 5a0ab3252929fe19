"""Encodes and decodes messages of the service `grpcplugin.Expander`.

Cluster Autoscaler changed the format in 1.34: nodes and pods were messages inside the message. Now they are bytes that
contain the same message, under other field numbers. Both forms look alike on the wire, so only the numbers differ here.
Source: Cluster Autoscaler's `expander/grpcplugin/protos/expander.proto`.
"""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.objects.encode import PodForms, node_form
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.template import Template
from cloudprovider.protobuf import codec, wire

METHOD = "/grpcplugin.Expander/BestOptions"
_OPTIONS = 1
_GROUP_ID, _NODE_COUNT = 1, 2


class FieldNumbers(msgspec.Struct, frozen=True):
    """Field numbers that depend on the version."""

    nodes: int
    """Number of the field in `BestOptionsRequest` that holds nodes by group id."""
    pods: int
    """Number of the field in `Option` that holds its pods."""


AS_MESSAGES = FieldNumbers(nodes=2, pods=4)
AS_BYTES = FieldNumbers(nodes=3, pods=5)


def request(options: Sequence[Option], templates: Mapping[str, Template], form: FieldNumbers) -> bytes:
    """Return a BestOptionsRequest with the options and a node of every group."""
    pods = _Pods(form.pods)
    parts = [wire.block(_OPTIONS, _option(option, pods)) for option in options]
    for group_id, template in templates.items():
        parts.append(wire.block(form.nodes, wire.text(1, group_id) + wire.block(2, _node(template.node))))
    return b"".join(parts)


def _option(option: Option, pods: "_Pods") -> bytes:
    parts = [wire.text(_GROUP_ID, option.group.id), wire.varint(_NODE_COUNT, option.nodes)]
    parts += map(pods.field, option.pods)
    return b"".join(parts)


def _node(node: Node) -> bytes:
    return codec.encode("Node", node_form(node))


class _Pods:
    """Encodes each pod once for all options that could take it, and each class's spec once for all its pods."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._forms = PodForms()
        self._specs: dict[tuple[PodClass, str | None], bytes] = {}
        self._fields: dict[str, bytes] = {}

    def field(self, pod: Pod) -> bytes:
        """Return the field of an option that holds the pod."""
        known = self._fields.get(pod.key)
        if known is None:
            known = self._fields[pod.key] = wire.block(self._number, self._write(pod))
        return known

    def _write(self, pod: Pod) -> bytes:
        form = self._forms.form(pod)
        spec = self._specs.get((pod.own_class, pod.node))
        if spec is None:
            spec = self._specs[pod.own_class, pod.node] = codec.encode("PodSpec", form["spec"])
        meta, status = codec.encode("ObjectMeta", form["metadata"]), codec.encode("PodStatus", form["status"])
        return wire.block(1, meta) + wire.block(2, spec) + wire.block(3, status)


def named_groups(response: bytes) -> tuple[str, ...]:
    """Return the group ids of a BestOptionsResponse, in its order; raises `ValueError` if it is unreadable."""
    return tuple(_group_id(content) for number, content in wire.fields(response) if number == _OPTIONS)


def _group_id(option: int | bytes) -> str:
    if isinstance(option, int):
        raise ValueError("an option is no message")
    contents = [content for number, content in wire.fields(option) if number == _GROUP_ID]
    if not contents:
        return ""
    if not isinstance(contents[-1], bytes):
        raise ValueError("a group id is no text")
    return contents[-1].decode()
