"""Nodes as NumPy columns: one number per node and property, so that one expression covers all nodes.

Amounts are int64 in the engine's units, with one row per resource: `amounts[resource, node]`. Labels and taints are
coded: each distinct value of a label key, and each distinct set of taints, has a small number. Rows and codes are only
added, so a number keeps its meaning for the life of a `Vocabulary`.
"""

import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autoscaler.objects import quantity
from autoscaler.objects.node import Node, Taint
from autoscaler.objects.pod import PodClass
from autoscaler.objects.requests import Requests

Amounts = NDArray[np.int64]
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]

ABSENT = -1
"""Code for nodes without the label."""
MOST = 1 << 53
"""Upper bound of amounts. No machine has more, and the sum of a thousand such amounts still fits int64."""
_SPARE_CODES = 1024
_MOST_ROWS = 256


class Vocabulary:
    """Numbers for resource names, label values and taint sets. All views of one cluster share it."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        for resource in (quantity.CPU, quantity.MEMORY, quantity.PODS, quantity.EPHEMERAL_STORAGE):
            self.row(resource)
        self.values: dict[str, dict[str, int]] = {}
        self.taint_sets: dict[tuple[tuple[str, str, str], ...], int] = {}
        self.taints: list[tuple[Taint, ...]] = []
        self._vectors: weakref.WeakKeyDictionary[PodClass, Amounts] = weakref.WeakKeyDictionary()

    def outgrown(self, nodes: int) -> bool:
        """Whether most names must be unused by now. A vocabulary only grows, so it is time for a new one."""
        coded = max(len(self.values), len(self.taint_sets), *map(len, self.values.values()))
        return len(self.rows) > _MOST_ROWS or coded > 4 * nodes + _SPARE_CODES

    def row(self, resource: str) -> int:
        """Return the row of a resource; a new name gets a new row."""
        return self.rows.setdefault(resource, len(self.rows))

    def code(self, key: str, value: str | None) -> int:
        """Return the code of a label value; a new value gets a new code."""
        if value is None:
            return ABSENT
        values = self.values.setdefault(key, {})
        return values.setdefault(value, len(values))

    def known(self, key: str, value: str) -> int | None:
        """Return the code of a label value; None if no node has ever had it."""
        return self.values.get(key, {}).get(value)

    def taint_code(self, taints: Sequence[Taint]) -> int:
        """Return the code of a set of taints, ignoring taints that are only preferences."""
        hard = tuple(taint for taint in taints if taint.hard)
        identity = tuple((taint.key, taint.value, taint.effect) for taint in hard)
        code = self.taint_sets.setdefault(identity, len(self.taint_sets))
        if code == len(self.taints):
            self.taints.append(hard)
        return code

    def amounts(self, resources: Requests) -> Amounts:
        """Return resources as a column: `(resources,)` int64, with one entry per known row."""
        for resource in resources:
            self.row(resource)
        column = np.zeros(len(self.rows), dtype=np.int64)
        for resource, value in resources.items():
            column[self.rows[resource]] = min(value, MOST)
        return column

    def vector(self, cls: PodClass) -> Amounts:
        """Return what one pod of the class takes from a node, including its pod slot: `(resources,)` int64. Do not
        modify it.

        Resources that no node has ever had are left out, because the number of names that pods may use is unlimited.
        """
        known = self._vectors.get(cls)
        if known is None or len(known) < len(self.rows):
            known = self.amounts({name: amount for name, amount in cls.requests.items() if name in self.rows})
            known[self.rows[quantity.PODS]] = 1
            self._vectors[cls] = known
        return known


class Columns:
    """The columns of a list of nodes. `used` is the total of the pods placed on them, `(resources, nodes)` int64."""

    def __init__(self, vocabulary: Vocabulary, nodes: Sequence[Node]) -> None:
        self.vocabulary = vocabulary
        amounts = [vocabulary.amounts(node.allocatable) for node in nodes]
        self.allocatable = np.zeros((len(vocabulary.rows), len(nodes)), dtype=np.int64)
        for position, column in enumerate(amounts):
            self.allocatable[: len(column), position] = column
        self.used = np.zeros_like(self.allocatable)
        self.counted = len(vocabulary.rows)
        """Number of rows of `used`. These nodes have no amounts of resources that were named later."""
        self.cordoned: Mask = np.fromiter((node.unschedulable for node in nodes), dtype=np.bool_, count=len(nodes))
        self.taint_codes: Codes = np.fromiter(
            (vocabulary.taint_code(node.taints) for node in nodes), dtype=np.int32, count=len(nodes)
        )
        self._nodes = nodes
        self._labels: dict[str, Codes] = {}
        self.keys = frozenset(key for node in nodes for key in node.labels)
        """Label keys that at least one node has."""
        self._absent: Codes = np.full(len(nodes), ABSENT, dtype=np.int32)

    def labels(self, key: str) -> Codes:
        """Return each node's code for this label key, `(nodes,)`, `ABSENT` if it has none; computed on first use.

        Keys that no node has share a column, because the number of keys that pods may ask for is unlimited.
        """
        if key not in self.keys:
            return self._absent
        known = self._labels.get(key)
        if known is None:
            code = self.vocabulary.code
            values = (code(key, node.labels.get(key)) for node in self._nodes)
            known = self._labels[key] = np.fromiter(values, dtype=np.int32, count=len(self._nodes))
        return known

    def widen(self) -> None:
        """Add rows for resources that were named in the meantime."""
        missing = len(self.vocabulary.rows) - len(self.allocatable)
        if missing > 0:
            more = np.zeros((missing, self.allocatable.shape[1]), dtype=np.int64)
            self.allocatable = np.vstack([self.allocatable, more])
            self.used = np.vstack([self.used, more])

    def copy(self) -> "Columns":
        """Return columns with an independent copy of `used`."""
        other = object.__new__(Columns)
        other.__dict__.update(self.__dict__)
        other.used = self.used.copy()
        return other

    def recount(self, position: int, classes: Sequence[PodClass]) -> None:
        """Set `used` of one node to the total of pods of these classes."""
        vectors = [self.vocabulary.vector(cls) for cls in classes]
        self.widen()
        column = np.zeros(len(self.used), dtype=np.int64)
        for vector in vectors:
            column[: len(vector)] += vector
        self.used[:, position] = column
        if any(cls.unmeasured for cls in classes):
            self.fill(position)

    def fill(self, positions: int | NDArray[np.int32]) -> None:
        """Mark nodes as full, regardless of what their pods are known to take."""
        self.used[:, positions] = np.maximum(self.used[:, positions], self.allocatable[:, positions])
