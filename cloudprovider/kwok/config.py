"""The kwok provider's two ConfigMaps, as Cluster Autoscaler's reads them: one chooses, one holds template nodes."""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from cloudprovider.document import parse_documents
from cloudprovider.interface import Misconfigured, NodeApi, NotFound
from cloudprovider.number import parse_count
from cloudprovider.problems import Problems
from cloudprovider.quoted import quoted
from cloudprovider.structure import Lenient, Quantity, StructReader

MANAGED_ANNOTATION = "kwok.x-k8s.io/node"
MANAGED_VALUE = "fake"
GROUP_ANNOTATION = "cluster-autoscaler.kwok.nodegroup/name"
MIN_ANNOTATION = "cluster-autoscaler.kwok.nodegroup/min-count"
MAX_ANNOTATION = "cluster-autoscaler.kwok.nodegroup/max-count"
DESIRED_ANNOTATION = "cluster-autoscaler.kwok.nodegroup/desired-count"
PROVIDER_ID_PREFIX = "kwok:"

_CONFIG_KEY = "config"
_TEMPLATES_KEY = "templates"
_TEMPLATES_CONFIG_MAP = "kwok-provider-templates"
_API_VERSION = "v1alpha1"
_DEFAULT_MAX = 200
_NAME_PREFIX = "kwok-fake-"
_TAINT = {"key": "kwok-provider", "value": "true", "effect": "NoSchedule"}
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,240}[a-z0-9])?")


class Source(StrEnum):
    """Where template nodes come from."""

    CONFIG_MAP = "configmap"
    CLUSTER = "cluster"


class KwokConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes are templates and how they form groups."""

    source: Source
    label_key: str | None
    annotation_key: str | None
    """Exactly one of the two keys is set. Nodes with the same value form the group of that name."""
    skip_taint: bool = False
    gpu_label: str | None = None
    gpu_types: Sequence[str] = ()
    templates_config_map: str = _TEMPLATES_CONFIG_MAP
    templates_key: str = _TEMPLATES_KEY

    def group_name(self, node: Mapping[str, Any]) -> str | None:
        """Return the group that a template node belongs to."""
        metadata = node.get("metadata") or {}
        if self.label_key is not None:
            return (metadata.get("labels") or {}).get(self.label_key) or None
        return (metadata.get("annotations") or {}).get(self.annotation_key) or None


class _Groups(Lenient, frozen=True, kw_only=True):
    from_node_label_key: str = ""
    from_node_annotation_key: str = ""


class _Gpu(Lenient, frozen=True, kw_only=True):
    gpu_label_key: str = ""
    available_gpu_types: Mapping[str, Any] = msgspec.field(default_factory=dict, name="availableGPUTypes")


class _Nodes(Lenient, frozen=True, kw_only=True):
    skip_taint: bool = False
    gpu_config: _Gpu = _Gpu()


class _Templates(Lenient, frozen=True, kw_only=True):
    name: str | None = None
    key: str = ""


class _File(Lenient, frozen=True, kw_only=True):
    """What the choosing ConfigMap holds."""

    api_version: str = _API_VERSION
    read_nodes_from: Source
    nodegroups: _Groups = _Groups()
    nodes: _Nodes = _Nodes()
    configmap: _Templates = _Templates()


class _Metadata(Lenient, frozen=True, kw_only=True):
    name: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class _Taint(Lenient, frozen=True, kw_only=True):
    key: str
    effect: str


class _Spec(Lenient, frozen=True, kw_only=True):
    taints: list[_Taint] = []


class _Status(Lenient, frozen=True, kw_only=True):
    node_info: Mapping[str, Any] = {}
    capacity: Mapping[str, Quantity] = {}
    allocatable: Mapping[str, Quantity] = {}


class KwokGroupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One group of fake nodes."""

    id: str
    min_size: int
    max_size: int
    initial_size: int
    node: Mapping[str, Any]
    """The prepared template, a v1.Node; each new node is a copy of it under another name."""


def read_config(api: NodeApi, namespace: str, name: str) -> KwokConfig:
    """Read the choosing ConfigMap. Raises one `Misconfigured` with a line for every problem."""
    where = f"ConfigMap {namespace}/{name}: {_CONFIG_KEY}"
    documents = _documents(_data(api, namespace, name), _CONFIG_KEY, where)
    problems = Problems()
    fields = StructReader(problems).fields(_File, documents[0] if documents else None, where)
    file = _File(**{"read_nodes_from": Source.CONFIG_MAP, **fields})
    if file.api_version != _API_VERSION:
        problems.add(f"{where}.apiVersion", f"is {file.api_version}, not {_API_VERSION}")
    label_key, annotation_key = file.nodegroups.from_node_label_key, file.nodegroups.from_node_annotation_key
    if bool(label_key) == bool(annotation_key):
        problems.add(f"{where}.nodegroups", "must have exactly one of fromNodeLabelKey and fromNodeAnnotationKey")
    if fields.get("read_nodes_from") is Source.CONFIG_MAP and file.configmap.name is None:
        problems.add(f"{where}.configmap.name", "is required")
    problems.raise_if_any()
    return KwokConfig(
        source=file.read_nodes_from,
        label_key=label_key or None,
        annotation_key=annotation_key or None,
        skip_taint=file.nodes.skip_taint,
        gpu_label=file.nodes.gpu_config.gpu_label_key or None,
        gpu_types=tuple(sorted(file.nodes.gpu_config.available_gpu_types)),
        templates_config_map=file.configmap.name or _TEMPLATES_CONFIG_MAP,
        templates_key=file.configmap.key or _TEMPLATES_KEY,
    )


def read_groups(api: NodeApi, namespace: str, config: KwokConfig) -> Sequence[KwokGroupSpec]:
    """Read the template nodes and form groups, in the order in which they appear; raises as `read_config`."""
    if config.source is Source.CLUSTER:
        nodes = [node for node in api.list_nodes() if not is_fake(node)]
        where = "cluster"
    else:
        nodes = _template_nodes(api, namespace, config)
        where = f"ConfigMap {namespace}/{config.templates_config_map}"
    members: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        group = config.group_name(node)
        if group is not None:
            members.setdefault(group, []).append(node)
    problems = Problems()
    if not members:
        problems.add(where, f"no node has the key {config.label_key or config.annotation_key} to form a group by")
    groups = [_group(name, fields, config, f"{where}, group {name}", problems) for name, fields in members.items()]
    problems.raise_if_any()
    return groups


def is_fake(node: Mapping[str, Any]) -> bool:
    """Whether a v1.Node was made by a kwok provider."""
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    provider_id = (node.get("spec") or {}).get("providerID") or ""
    return annotations.get(MANAGED_ANNOTATION) == MANAGED_VALUE and provider_id.startswith(PROVIDER_ID_PREFIX)


def _data(api: NodeApi, namespace: str, name: str) -> Mapping[str, str]:
    try:
        return api.get_config_map(namespace, name).get("data") or {}
    except NotFound as error:
        raise Misconfigured(f"the kwok provider needs the ConfigMap {namespace}/{name}: {error}") from error


def _documents(data: Mapping[str, str], key: str, where: str) -> Sequence[Any]:
    if not data.get(key):
        raise Misconfigured(f"{where}: is missing or empty")
    try:
        return parse_documents(data[key])
    except ValueError as error:
        raise Misconfigured(f"{where}: {error}") from error


def _template_nodes(api: NodeApi, namespace: str, config: KwokConfig) -> list[Mapping[str, Any]]:
    name = config.templates_config_map
    data = _data(api, namespace, name)
    # The original reads the key `templates` whatever the configuration says, so that is where old set-ups have them.
    key = config.templates_key if config.templates_key in data else _TEMPLATES_KEY
    where = f"ConfigMap {namespace}/{name}: {key}"
    nodes = list(_nodes_in(_documents(data, key, where)))
    if not nodes:
        raise Misconfigured(f"{where}: holds no v1.Node")
    problems = Problems()
    for index, node in enumerate(nodes):
        _check_shape(node, f"{where}, node {index}", problems)
    problems.raise_if_any()
    return nodes


def _check_shape(node: Mapping[str, Any], where: str, problems: Problems) -> None:
    """Report the used fields of a hand-written node that are not as in a v1.Node."""
    reader = StructReader(problems)
    for kind, part in ((_Metadata, "metadata"), (_Spec, "spec"), (_Status, "status")):
        reader.fields(kind, node.get(part) or {}, f"{where}: {part}")


def _nodes_in(documents: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for document in documents:
        match document:
            case {"kind": "List" | "NodeList", "items": list(items)}:
                yield from (item for item in items if isinstance(item, Mapping) and item.get("kind", "Node") == "Node")
            case {"kind": "Node"}:
                yield document


def _group(
    name: str, nodes: Sequence[Mapping[str, Any]], config: KwokConfig, where: str, problems: Problems
) -> KwokGroupSpec:
    template = nodes[0]
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    if not _NODE_NAME.fullmatch(name):
        problems.add(where, "the name cannot begin a node's name: use lower case letters, digits, '-' and '.'")
    low = _count(annotations, MIN_ANNOTATION, 0, where, problems)
    high = _count(annotations, MAX_ANNOTATION, _DEFAULT_MAX, where, problems)
    desired = _count(annotations, DESIRED_ANNOTATION, low, where, problems)
    if high < low:
        problems.add(where, f"max-count {high} is below min-count {low}")
    elif not low <= desired <= high:
        problems.add(where, f"desired-count {desired} is not within min-count {low} and max-count {high}")
    # Nodes of the cluster beyond the first stand there already, whereas those of a ConfigMap ask to be made.
    further = len(nodes) - 1 if config.source is Source.CONFIG_MAP else 0
    return KwokGroupSpec(
        id=name,
        min_size=low,
        max_size=high,
        initial_size=min(desired + further, high),
        node=_prepared(template, name, config.skip_taint),
    )


def _count(annotations: Mapping[str, Any], key: str, default: int, where: str, problems: Problems) -> int:
    text = str(annotations.get(key) or default)
    if (count := parse_count(text)) is None:
        problems.add(where, f"annotation {key}: {quoted(text)} is not a whole number from 0")
        return default
    return count


def _prepared(node: Mapping[str, Any], group: str, skip_taint: bool) -> Mapping[str, Any]:
    """Turn a node into a template: nothing in it identifies the node that it was made from."""
    fake: dict[str, Any] = copy.deepcopy(dict(node))
    fake["apiVersion"], fake["kind"] = "v1", "Node"
    metadata, spec, status = (fake.setdefault(part, None) or {} for part in ("metadata", "spec", "status"))
    fake["metadata"], fake["spec"], fake["status"] = metadata, spec, status
    for field in ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"):
        metadata.pop(field, None)
    for field in ("podCIDR", "podCIDRs"):
        spec.pop(field, None)
    name = f"{_NAME_PREFIX}{metadata.get('name') or group}"
    metadata["name"] = name
    metadata["labels"] = metadata.get("labels") or {}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        MANAGED_ANNOTATION: MANAGED_VALUE,
        GROUP_ANNOTATION: group,
    }
    spec["providerID"] = PROVIDER_ID_PREFIX + name
    if not skip_taint:
        spec["taints"] = [*(spec.get("taints") or []), dict(_TAINT)]
    status["nodeInfo"] = {**(status.get("nodeInfo") or {}), "kubeletVersion": "fake"}
    return fake
