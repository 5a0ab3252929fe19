"""The Kubernetes objects of a scenario file: fills in defaults and checks them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.meta import Resource, unix_seconds
from autoscaler.objects.node import Node, NodeWire
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.podspec import PodWire
from autoscaler.scenario.defaults import Defaults, check_node_times
from autoscaler.scenario.file_reader import Shape

_AMOUNTS = {"requests", "allocatable", "capacity", "overhead", "allocatedResources"}
_TIMES = ("Timestamp", "Time", "timeAdded")
R = TypeVar("R", bound=Resource)


class ObjectReader:
    """Keeps the objects of one file; what is wrong with them goes to the problems of `shape`."""

    def __init__(self, shape: Shape, defaults: Defaults) -> None:
        self._shape = shape
        self._defaults = defaults
        self._sound: set[PodClass] = set()

    def nodes(self, path: str, wires: Sequence[NodeWire]) -> tuple[Node, ...]:
        """Return the nodes of the list at `path`, each name once."""
        kept: dict[str, Node] = {}
        for index, wire in enumerate(wires):
            if self._is_new(wire.metadata.name, kept, path, index, "node"):
                try:
                    node = self._defaults.node(wire)
                    check_node_times(node)
                except (ValueError, OverflowError) as error:
                    self._unreadable(wire, path, index, error)
                    continue
                kept[node.name] = node
                self._check_signs(node.allocatable, path, index)
        return tuple(kept.values())

    def pods(self, path: str, wires: Sequence[PodWire]) -> tuple[Pod, ...]:
        """Return the pods of the list at `path`, each `namespace/name` once."""
        kept: dict[str, Pod] = {}
        for index, wire in enumerate(wires):
            try:
                pod = self._defaults.pod(wire)
            except (ValueError, OverflowError) as error:
                self._unreadable(wire, path, index, error)
                continue
            if self._is_new(pod.key if pod.name else "", kept, path, index, "pod"):
                kept[pod.key] = pod
                if pod.cls not in self._sound:
                    self._sound.add(pod.cls)
                    self._check_signs(pod.cls.requests, path, index)
        return tuple(kept.values())

    def named(self, path: str, resources: Sequence[R], kind: str | None = None) -> dict[str, R]:
        """Return other objects by key; `kind` is that of objects that live in a namespace."""
        kept: dict[str, R] = {}
        for index, given in enumerate(resources):
            resource = given if kind is None else self._defaults.owned_resource(given, kind)
            where = self._shape.path(path, index)
            self._shape.problems.extend(
                f"{where}{field}: {text}" for field, text in unreadable_values(msgspec.to_builtins(resource))
            )
            if self._is_new(resource.key if resource.name else "", kept, path, index, "entry"):
                kept[resource.key] = resource
        return kept

    def _is_new(self, key: str, kept: Mapping[str, object], path: str, index: int, noun: str) -> bool:
        if key and key not in kept:
            return True
        text = f"{key} is used by an earlier {noun}" if key else "is required"
        self._shape.problems.append(f"{self._shape.path(path, index)}.metadata.name: {text}")
        return False

    def _check_signs(self, amounts: Mapping[str, int], path: str, index: int) -> None:
        for resource, value in amounts.items():
            if value < 0:
                self._shape.problems.append(
                    f"{self._shape.path(path, index)}: {resource}: {quantity.text(resource, value)} is negative"
                )

    def _unreadable(self, wire: NodeWire | PodWire, path: str, index: int, error: Exception) -> None:
        where = self._shape.path(path, index)
        problems = [f"{where}{field}: {text}" for field, text in unreadable_values(msgspec.to_builtins(wire))]
        self._shape.problems.extend(problems or [f"{where}: {error}"])


def unreadable_values(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and complaint for every amount and time in an object that cannot be read."""
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from unreadable_values(item, f"{path}[{index}]")
    elif isinstance(data, Mapping):
        for key, item in data.items():
            item_path = f"{path}.{key}"
            if key in _AMOUNTS and isinstance(item, Mapping):
                yield from _bad_amounts(item, item_path)
            elif key.endswith(_TIMES) and isinstance(item, str):
                yield from _bad_time(item, item_path)
            else:
                yield from unreadable_values(item, item_path)


def _bad_amounts(amounts: Mapping[str, object], path: str) -> Iterator[tuple[str, str]]:
    for resource, text in amounts.items():
        if isinstance(text, Mapping):  # the capacity of a device, which its own type has read
            continue
        try:
            quantity.amount(resource, str(text))
        except ValueError as error:
            yield f"{path}[{resource}]", str(error)


def _bad_time(text: str, path: str) -> Iterator[tuple[str, str]]:
    try:
        unix_seconds(text)
    except (ValueError, OverflowError):
        yield path, f"{text!r} is not a time such as 2026-01-05T12:00:00Z"
