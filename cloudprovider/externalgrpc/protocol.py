"""The service `CloudProvider` of Cluster Autoscaler's external gRPC provider, in both of its formats.

In 1.34 Kubernetes' own types inside the messages became bytes or `google.protobuf` types, under other numbers. Here
every message has the fields of both: what is written fills both, what is read takes whichever is there, so either side
may be of either version. Source: `cloudprovider/externalgrpc/protos/externalgrpc.proto`.
"""

from collections.abc import Mapping
from typing import Any

from cloudprovider.interface import ErrorClass, GroupSettings, Instance, InstanceError, NodeRef, NodeTemplate, State
from cloudprovider.interface import TaintSpec as Taint
from cloudprovider.protobuf import codec
from cloudprovider.protobuf.kubernetes import KUBERNETES
from cloudprovider.protobuf.schema import messages

SERVICE = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
MOST_BYTES = 128 << 20
"""Longest message that either side accepts."""

_OPTIONS = (
    "1 scaleDownUtilizationThreshold double; 2 scaleDownGpuUtilizationThreshold double; "
    "3 scaleDownUnneededTime Nanoseconds; 4 scaleDownUnreadyTime Nanoseconds; 5 maxNodeProvisionTime Nanoseconds; "
    "6 zeroOrMaxNodeScaling bool; 7 ignoreDaemonSetsUtilization bool; 8 scaleDownUnneededDuration Seconds; "
    "9 scaleDownUnreadyDuration Seconds; 10 maxNodeProvisionDuration Seconds"
)
_TABLE = messages(
    {
        "Empty": "",
        "Group": "1 id string; 2 minSize int; 3 maxSize int; 4 debug string",
        "Node": "1 providerID string; 2 name string; 3 labels {}string; 4 annotations {}string",
        "Instance": "1 id string; 2 status InstanceStatus",
        "InstanceStatus": "1 instanceState int; 2 errorInfo InstanceErrorInfo",
        "InstanceErrorInfo": "1 errorCode string; 2 errorMessage string; 3 instanceErrorClass int",
        "Options": _OPTIONS,
        "NodeGroupsResponse": "1 nodeGroups []Group",
        "NodeGroupForNodeRequest": "1 node Node",
        "NodeGroupForNodeResponse": "1 nodeGroup Group",
        "PricingNodePriceRequest": "1 node Node; 2 startTime Seconds; 3 endTime Seconds; 4 startTimestamp Seconds; "
        "5 endTimestamp Seconds",
        "PricingPodPriceRequest": "1 pod raw; 2 startTime Seconds; 3 endTime Seconds; 4 podBytes raw; "
        "5 startTimestamp Seconds; 6 endTimestamp Seconds",
        "Price": "1 price double",
        "GPULabelResponse": "1 label string",
        "GetAvailableGPUTypesResponse": "1 gpuTypes {}raw",
        "GroupRequest": "1 id string",
        "NodeGroupTargetSizeResponse": "1 targetSize int",
        "DeltaRequest": "1 delta int; 2 id string",
        "NodeGroupDeleteNodesRequest": "1 nodes []Node; 2 id string",
        "NodeGroupNodesResponse": "1 instances []Instance",
        "NodeGroupTemplateNodeInfoResponse": "1 nodeInfo raw; 2 nodeBytes raw",
        "NodeGroupAutoscalingOptionsRequest": "1 id string; 2 defaults Options",
        "NodeGroupAutoscalingOptionsResponse": "1 options Options",
    }
)
METHODS: Mapping[str, tuple[str, str]] = {
    "NodeGroups": ("Empty", "NodeGroupsResponse"),
    "NodeGroupForNode": ("NodeGroupForNodeRequest", "NodeGroupForNodeResponse"),
    "PricingNodePrice": ("PricingNodePriceRequest", "Price"),
    "PricingPodPrice": ("PricingPodPriceRequest", "Price"),
    "GPULabel": ("Empty", "GPULabelResponse"),
    "GetAvailableGPUTypes": ("Empty", "GetAvailableGPUTypesResponse"),
    "Cleanup": ("Empty", "Empty"),
    "Refresh": ("Empty", "Empty"),
    "NodeGroupTargetSize": ("GroupRequest", "NodeGroupTargetSizeResponse"),
    "NodeGroupIncreaseSize": ("DeltaRequest", "Empty"),
    "NodeGroupDeleteNodes": ("NodeGroupDeleteNodesRequest", "Empty"),
    "NodeGroupDecreaseTargetSize": ("DeltaRequest", "Empty"),
    "NodeGroupNodes": ("GroupRequest", "NodeGroupNodesResponse"),
    "NodeGroupTemplateNodeInfo": ("GroupRequest", "NodeGroupTemplateNodeInfoResponse"),
    "NodeGroupGetOptions": ("NodeGroupAutoscalingOptionsRequest", "NodeGroupAutoscalingOptionsResponse"),
}
"""The messages of each call: request and answer."""

_STATES = {1: State.RUNNING, 2: State.CREATING, 3: State.DELETING}
_NUMBERS = {state: number for number, state in _STATES.items()}
_OUT_OF_RESOURCES, _OTHER = 1, 99


def request(method: str, fields: Mapping[str, Any]) -> bytes:
    """Encode a request."""
    return codec.encode(METHODS[method][0], fields, _TABLE)


def read_request(method: str, content: bytes) -> dict[str, Any]:
    """Decode a request; raises `ValueError`."""
    return codec.decode(METHODS[method][0], content, _TABLE)


def response(method: str, fields: Mapping[str, Any]) -> bytes:
    """Encode an answer."""
    return codec.encode(METHODS[method][1], fields, _TABLE)


def read_response(method: str, content: bytes) -> dict[str, Any]:
    """Decode an answer; raises `ValueError`."""
    return codec.decode(METHODS[method][1], content, _TABLE)


def node_fields(node: NodeRef) -> dict[str, Any]:
    """Return the message `ExternalGrpcNode` of a node."""
    return {
        "providerID": node.provider_id,
        "name": node.name,
        "labels": dict(node.labels),
        "annotations": dict(node.annotations),
    }


def node_of(fields: Mapping[str, Any]) -> NodeRef:
    """Return the node of a message."""
    return NodeRef(
        name=fields.get("name", ""),
        provider_id=fields.get("providerID", ""),
        labels=fields.get("labels", {}),
        annotations=fields.get("annotations", {}),
    )


def instance_fields(instance: Instance) -> dict[str, Any]:
    """Return the message of an instance. It has no status if the state is not known."""
    if instance.state is None:
        return {"id": instance.provider_id}
    status: dict[str, Any] = {"instanceState": _NUMBERS[instance.state]}
    if instance.error is not None:
        short = instance.error.error_class is ErrorClass.OUT_OF_RESOURCES
        status["errorInfo"] = {
            "errorCode": instance.error.code or "OTHER",
            "errorMessage": instance.error.message,
            "instanceErrorClass": _OUT_OF_RESOURCES if short else _OTHER,
        }
    return {"id": instance.provider_id, "status": status}


def instance_of(fields: Mapping[str, Any]) -> Instance:
    """Return the instance of a message. An error without a code is ignored."""
    status = fields.get("status", {})
    info = status.get("errorInfo", {})
    error = None
    if code := info.get("errorCode", ""):
        short = info.get("instanceErrorClass") == _OUT_OF_RESOURCES
        error_class = ErrorClass.OUT_OF_RESOURCES if short else ErrorClass.OTHER
        error = InstanceError(error_class, code, info.get("errorMessage", ""))
    return Instance(fields.get("id", ""), _STATES.get(status.get("instanceState", 0)), error)


def options_fields(settings: GroupSettings) -> dict[str, Any]:
    """Return the message of a group's options, with durations in both formats."""
    unneeded, unready = settings.scale_down_unneeded_time_s, settings.scale_down_unready_time_s
    provision = settings.max_node_provision_time_s
    return {
        "scaleDownUtilizationThreshold": settings.scale_down_utilization_threshold,
        "scaleDownGpuUtilizationThreshold": settings.scale_down_gpu_utilization_threshold,
        "scaleDownUnneededTime": unneeded,
        "scaleDownUnreadyTime": unready,
        "maxNodeProvisionTime": provision,
        "zeroOrMaxNodeScaling": settings.zero_or_max_node_scaling or None,
        "ignoreDaemonSetsUtilization": settings.ignore_daemonsets_utilization or None,
        "scaleDownUnneededDuration": unneeded,
        "scaleDownUnreadyDuration": unready,
        "maxNodeProvisionDuration": provision,
    }


def settings_of(fields: Mapping[str, Any]) -> GroupSettings:
    """Return the options of a message. Absent options and zeros are None, so the flag applies.

    Cluster Autoscaler takes such options as 0; on the wire a threshold or a switch that was not set looks the same.
    """

    def either(older: str, newer: str) -> float | None:
        value = fields.get(newer, fields.get(older))
        return None if value is None else float(value)

    return GroupSettings(
        scale_down_utilization_threshold=fields.get("scaleDownUtilizationThreshold") or None,
        scale_down_gpu_utilization_threshold=fields.get("scaleDownGpuUtilizationThreshold") or None,
        scale_down_unneeded_time_s=either("scaleDownUnneededTime", "scaleDownUnneededDuration"),
        scale_down_unready_time_s=either("scaleDownUnreadyTime", "scaleDownUnreadyDuration"),
        max_node_provision_time_s=either("maxNodeProvisionTime", "maxNodeProvisionDuration"),
        ignore_daemonsets_utilization=fields.get("ignoreDaemonSetsUtilization"),
        zero_or_max_node_scaling=fields.get("zeroOrMaxNodeScaling", False),
    )


def template_bytes(name: str, template: NodeTemplate) -> bytes:
    """Return a new node of a group as a v1.Node in the encoding of `k8s.io/api`. The template's pods are left out."""
    node = {
        "metadata": {"name": name, "labels": dict(template.labels), "annotations": dict(template.annotations)},
        "spec": {
            "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in template.taints],
        },
        "status": {
            "capacity": dict(template.capacity),
            "allocatable": {**template.capacity, **template.allocatable},
            "conditions": [{"type": "Ready", "status": "True"}],
            "declaredFeatures": list(template.declared_features),
        },
    }
    return codec.encode("Node", node, KUBERNETES)


def template_of(content: bytes) -> NodeTemplate:
    """Return the template that a v1.Node describes; raises `ValueError`."""
    node = codec.decode("Node", content, KUBERNETES)
    metadata, status = node.get("metadata", {}), node.get("status", {})
    taints = node.get("spec", {}).get("taints", [])
    return NodeTemplate(
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
        taints=tuple(Taint(taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")) for taint in taints),
        capacity=status.get("capacity", {}),
        allocatable=status.get("allocatable", {}),
        declared_features=tuple(status.get("declaredFeatures", ())),
    )


def pod_bytes(requests: Mapping[str, str]) -> bytes:
    """Return a v1.Pod with one container that has these requests."""
    container = {"name": "main", "resources": {"requests": dict(requests)}}
    return codec.encode("Pod", {"metadata": {"name": "pod"}, "spec": {"containers": [container]}}, KUBERNETES)


def containers_of(content: bytes) -> list[Mapping[str, str]]:
    """Return the requests of each container of a v1.Pod; raises `ValueError`."""
    pod = codec.decode("Pod", content, KUBERNETES)
    return [
        container.get("resources", {}).get("requests", {}) for container in pod.get("spec", {}).get("containers", [])
    ]
