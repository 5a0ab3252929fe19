"""Anonymizes scenario files: replaces every user-chosen name, and keeps decisions the same.

A name has the same pseudonym everywhere, also inside composed names, such as those of template nodes. Pseudonyms sort
in the order of the names, so decisions that depend on the order stay the same. They end in a keyed hash, so names are
recognisable in another file with the same key. These texts are kept: keys of labels, labels of machine kinds and zones,
resources, numbers, the namespaces that every cluster has, drivers and attributes of devices, words of the selectors for
them, and words of the format. Texts from a cloud or a kubelet are dropped.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, get_args

import msgspec
import yaml

from autoscaler.actuation.answer_log import TYPES
from autoscaler.config.flags import flags
from autoscaler.config.headroom import MANAGER
from autoscaler.loop.pass_memory import PassMemory
from autoscaler.objects.class_form import ClassForm
from autoscaler.scaledown import pause
from autoscaler.scenario.format import ScenarioFile
from autoscaler.snapshot.template import suffix_of, template_name
from cloudprovider.document import parse_yaml
from cloudprovider.expression import Expression

_KEPT_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that rules name, sorted, because pseudonyms keep their position among them."""
_KEPT_WORDS = frozenset(
    ("", "true", "false", MANAGER, "default-scheduler", "system-cluster-critical", "system-node-critical")
)
_NUMBER = re.compile(r"[+-]?[0-9]+")
_NAME_KEYS = frozenset(
    (
        "claimName",
        "diskName",
        "diskURI",
        "id",
        "image",
        "iqn",
        "name",
        "namespace",
        "node",
        "nodeName",
        "node_name",
        "nominatedNodeName",
        "nominated_node",
        "pdName",
        "persistentVolumeName",
        "priorityClassName",
        "priority_class_name",
        "providerID",
        "provider_id",
        "schedulerName",
        "scheduler_name",
        "storageClassName",
        "template",
        "uid",
        "volumeHandle",
        "volumeID",
        "volumeName",
        "volumePath",
    )
)
"""Keys whose text is a name."""
_NAME_LISTS = frozenset(("claims", "missingInstances", "namespaces", "own_claims"))
_LABEL_MAPS = frozenset(("labels", "matchLabels", "match_labels", "nodeSelector", "node_selector"))
_FREE_TEXTS = frozenset(("description", "errorMessage", "message", "messages"))
_MACHINE_LABEL_DOMAINS = (
    "topology.kubernetes.io",
    "topology.beta.kubernetes.io",
    "failure-domain.kubernetes.io",
    "failure-domain.beta.kubernetes.io",
    "node.kubernetes.io",
    "node.beta.kubernetes.io",
    "beta.kubernetes.io",
)
_MACHINE_LABELS = ("kubernetes.io/arch", "kubernetes.io/os")
_MACHINE_LABEL_WORDS = ("accelerator", "capacity-type", "capacitytype", "nvidia")
"""Labels whose values describe a machine and not its owner: by domain, by whole key, or by a part of the key."""
_NAMING_FLAGS = frozenset(
    (
        "allowed-scheduler-names",
        "bypassed-scheduler-names",
        "cluster-name",
        "max-node-deletions-per-minute",
        "namespace",
        "node-group-auto-discovery",
        "nodes",
        "pause-config-map-name",
        "scale-down-window",
        "status-config-map-name",
    )
)
_TOKEN = re.compile(r"[^,:=\s]+")
_WORD = re.compile(r"[\w.-]+")


def anonymize(body: bytes, key: bytes) -> bytes:
    """Return a recording (JSON) with pseudonyms; the owner of the `key` can compute the pseudonym of any name."""
    return msgspec.json.encode(with_pseudonyms(msgspec.json.decode(body), key))


def with_pseudonyms(document: dict[str, Any], key: bytes) -> dict[str, Any]:
    """Return the content of a file with pseudonyms."""
    return _Renamer(document, key).document()


class Pseudonyms:
    """The replacement of every name of a file."""

    def __init__(self, names: Iterable[str], groups: Iterable[str], key: bytes) -> None:
        sorted_names = sorted(names)
        self._pseudonyms = {name: _pseudonym(name, rank, key) for rank, name in enumerate(sorted_names)}
        groups = [group for group in groups if group in self._pseudonyms]
        self._templates = {template_name(group): template_name(self._pseudonyms[group]) for group in groups}
        self._suffixes = {f"-{suffix_of(group)}": f"-{suffix_of(self._pseudonyms[group])}" for group in groups}

    def of(self, text: str) -> str:
        """Return a text with pseudonyms for names: for the whole text, or for its parts in one of the known
        compositions.
        """
        if text in self._pseudonyms:
            return self._pseudonyms[text]
        for old, new in self._templates.items():
            if text.startswith(old):
                return new + text[len(old) :]
        for old, new in self._suffixes.items():
            if text.endswith(old):
                return self.of(text[: -len(old)]) + new
        if "/" in text:
            return "/".join(map(self.of, text.split("/")))
        return text

    def within(self, text: str) -> str:
        """Return a list of words, as in flags and annotations, with pseudonyms."""
        return _TOKEN.sub(lambda match: self.of(match[0]), text)


def _pseudonym(name: str, rank: int, key: bytes) -> str:
    preceding = max((namespace for namespace in _KEPT_NAMESPACES if namespace < name), default="")
    digest = hmac.new(key, name.encode(), hashlib.sha256).hexdigest()[:8]
    return f"{preceding}{rank:07d}{digest}"


class _Renamer:
    def __init__(self, document: dict[str, Any], key: bytes) -> None:
        self._document = document
        self._gpu_label = document.get("gpuLabel") or ""
        self._groups = [group["id"] for group in document.get("nodeGroups") or () if "id" in group]
        chosen = {name for name in self._names_in(document) if _is_chosen(name)} - set(_device_words(document))
        # A composition of names alone follows from them, wherever it appears.
        chosen = {name for name in chosen if "/" not in name or not chosen.issuperset(_chosen_parts(name))}
        self._names = Pseudonyms(chosen | {group for group in self._groups if _is_chosen(group)}, self._groups, key)

    def document(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            key: self._names.of(value) if key == "name" else self._renamed(value)
            for key, value in self._document.items()
            if key not in ("description", "options", "priorityConfig")
        }
        if (options := self._document.get("options")) is not None:
            content["options"] = {flag: self._option(flag, value) for flag, value in options.items()}
        if (priorities := self._document.get("priorityConfig")) is not None:
            content["priorityConfig"] = self._priorities(priorities)
        return content

    def _names_in(self, data: Any, key: str = "") -> Iterator[str]:
        """Yield the texts in places for names."""
        if isinstance(data, list):
            for item in data:
                if isinstance(item, str) and key in _NAME_LISTS:
                    yield item
                yield from self._names_in(item, key)
        elif isinstance(data, Mapping):
            yield from self._expression(data)
            for name, item in data.items():
                if isinstance(item, str) and name in _NAME_KEYS:
                    yield item
                elif name in _LABEL_MAPS and isinstance(item, Mapping):
                    yield from (value for label, value in item.items() if not self._keeps_value(label))
                elif name == "nodeToGroup":
                    yield from item
                else:
                    yield from self._names_in(item, name)

    def _expression(self, data: Mapping[str, Any]) -> Iterator[str]:
        """Yield the values of a label expression, a taint or a toleration."""
        label = data.get("key")
        if isinstance(label, str) and not self._keeps_value(label):
            values = data.get("values") or ()
            yield from (value for value in (*values, data.get("value")) if isinstance(value, str))

    def _keeps_value(self, label: str) -> bool:
        return label == self._gpu_label or _describes_machine(label.lower())

    def _renamed(self, data: Any) -> Any:
        if isinstance(data, str):
            return self._names.of(data)
        if isinstance(data, list):
            return [self._renamed(item) for item in data]
        if not isinstance(data, Mapping):
            return data
        content: dict[str, Any] = {}
        for key, item in data.items():
            if key in _FREE_TEXTS:
                content[key] = "" if isinstance(item, str) else []
            elif key == "pauseConfigMap" and isinstance(item, Mapping):
                content[key] = self._pauses(item)
            elif key in ("annotations", "detail", "error") and isinstance(item, Mapping | str):
                content[key] = self._renamed_words(item)
            else:
                content[self._names.of(key)] = self._renamed(item)
        return content

    def _renamed_words(self, item: Any) -> Any:
        if isinstance(item, str):
            return self._names.within(item)
        return (
            {key: self._renamed_words(value) if isinstance(value, str) else value for key, value in item.items()}
            if all(isinstance(value, str) for value in item.values())
            else self._renamed(item)
        )

    def _option(self, flag: str, value: Any) -> Any:
        if flag not in _NAMING_FLAGS:
            return value
        return (
            [self._names.within(f"{item}") for item in value]
            if isinstance(value, list)
            else self._names.within(f"{value}")
        )

    def _priorities(self, text: str) -> str:
        """Return priorities that name the groups that the patterns match; an invalid text is left out."""
        try:
            levels = parse_yaml(text)
            groups_by_level = {
                level: [f"^{re.escape(self._names.of(group))}$" for group in self._groups if _matches(patterns, group)]
                for level, patterns in levels.items()
            }
        except (ValueError, AttributeError, TypeError):
            return ""
        return yaml.safe_dump({level: groups for level, groups in groups_by_level.items() if groups})

    def _pauses(self, config_map: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ConfigMap of pauses without names of people and reasons; unreadable entries stay unreadable."""
        meta = config_map.get("metadata") or {}
        annotations = {
            key: text for key, text in (meta.get("annotations") or {}).items() if key not in (pause.REASON, pause.BY)
        }
        entries = (pause.read_entry(name, text) for name, text in (config_map.get("data") or {}).items())
        data = {f"pause-{number:03d}": self._pause(entry) for number, entry in enumerate(entries)}
        return {"metadata": {"name": "pauses", "annotations": annotations}, "data": data}

    def _pause(self, entry: pause.Pause) -> str:
        if entry.problem:
            return "unreadable"
        groups = tuple(map(self._names.of, entry.groups))
        return pause.entry_of(msgspec.structs.replace(entry, groups=groups, reason="", by=""))


def _matches(patterns: Iterable[str], group: str) -> bool:
    return any(Expression(pattern).found_in(group) for pattern in patterns)


def _device_words(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what selectors for devices compare: drivers, names of attributes, and every word of a selector."""
    for resource_slice in document.get("resourceSlices") or ():
        spec = resource_slice.get("spec") or {}
        yield spec.get("driver") or ""
        for device in spec.get("devices") or ():
            body = device.get("basic") or device
            for name in (*(body.get("attributes") or ()), *(body.get("capacity") or ())):
                yield from name.split("/")
    for expression in _expressions(document):
        for word in _WORD.findall(expression):
            yield from (word, *word.split("."))


def _expressions(data: Any) -> Iterator[str]:
    if isinstance(data, list):
        for item in data:
            yield from _expressions(item)
    elif isinstance(data, Mapping):
        for key, item in data.items():
            if key == "expression" and isinstance(item, str):
                yield item
            else:
                yield from _expressions(item)


def _describes_machine(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    if slash and any(domain == known or domain.endswith(f".{known}") for known in _MACHINE_LABEL_DOMAINS):
        return True
    return label in _MACHINE_LABELS or any(word in label for word in _MACHINE_LABEL_WORDS)


def _is_chosen(name: str) -> bool:
    """Whether a user chose the name: it is neither a number nor a word of ours or of Kubernetes."""
    return not (name in _KEPT_NAMESPACES or name in _KEPT_WORDS or name in _reserved() or _NUMBER.fullmatch(name))


def _chosen_parts(name: str) -> list[str]:
    return [part for part in name.split("/") if part not in _KEPT_NAMESPACES]


@cache
def _reserved() -> frozenset[str]:
    """Return the words of the format: keys and values of a fixed set, resources, flags."""
    words: set[str] = set(flags())
    seen: set[Any] = set()

    def visit(kind: Any) -> None:
        for part in get_args(kind):
            visit(part)
        if not isinstance(kind, type) or kind in seen:
            return
        seen.add(kind)
        if issubclass(kind, Enum):
            words.update(f"{member.value}" for member in kind)
        elif issubclass(kind, msgspec.Struct):
            for field in msgspec.structs.fields(kind):
                words.update((field.name, field.encode_name))
                visit(field.type)

    for root in (ScenarioFile, PassMemory, ClassForm, *TYPES.values()):
        visit(root)
    return frozenset(words | {"cpu", "memory", "pods", "ephemeral-storage", "static", "capacity", "template"})
