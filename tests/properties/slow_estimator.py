"""Packing pods onto new nodes, one pod at a time over the slow scheduler: the slow twin of `scaleup.estimator`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.objects.pod import PodClass
from autoscaler.scaleup.estimator import PodGroup
from autoscaler.snapshot.template import Template
from tests.properties.slow_scheduler import SKEWED, SlowCluster


class SlowEstimate(NamedTuple):
    """New nodes that received pods, and names of the pods placed, in order."""

    nodes: int
    pods: list[str]


class _Packing:
    def __init__(self, cluster: SlowCluster, template: Template, limit: int | None) -> None:
        self.cluster = cluster
        self.template = template
        self.limit = limit
        self.new: list[int] = []
        self.used: set[int] = set()
        self.may_add = True

    @property
    def last(self) -> int | None:
        return self.new[-1] if self.new else None

    def put(self, cls: PodClass, at: int) -> None:
        self.cluster.place(cls, at)
        if at in self.new:
            self.used.add(at)

    def somewhere(self, cls: PodClass, acceptable: Callable[[int], bool]) -> bool:
        at = self.cluster.search(cls, acceptable)
        if at is not None:
            self.put(cls, at)
        return at is not None

    def on_last(self, cls: PodClass) -> bool:
        if self.last is None or not self.cluster.fits(cls, self.last):
            return False
        self.put(cls, self.last)
        return True

    def add(self) -> bool:
        if self.limit is not None and len(self.new) >= self.limit:
            return False
        name = f"e-{len(self.new)}"
        node: Node = msgspec.structs.replace(
            self.template.node, name=name, labels={**self.template.node.labels, HOSTNAME: name}
        )
        self.new.append(self.cluster.add(node, self.template))
        return True


def slow_estimate(
    cluster: SlowCluster, template: Template, groups: Sequence[PodGroup], limit: int | None, *, topology_fallback: bool
) -> SlowEstimate:
    """Return what the estimator should; `cluster` is used up."""
    packing = _Packing(cluster, template, limit)
    placed: list[str] = []
    for group in sorted(groups, key=lambda group: -_score(group.cls, template)):
        remaining = [pod.name for pod in group.pods]
        while remaining and packing.somewhere(group.cls, lambda at: at in packing.new):
            placed.append(remaining.pop(0))
        if packing.may_add:
            placed.extend(_on_new_nodes(packing, group.cls, remaining, topology_fallback=topology_fallback))
    return SlowEstimate(len(packing.used), placed)


def _on_new_nodes(packing: _Packing, cls: PodClass, pods: list[str], *, topology_fallback: bool) -> list[str]:
    placed: list[str] = []
    for pod in pods:
        if packing.on_last(cls):
            placed.append(pod)
            continue
        last = packing.last
        if last is not None and topology_fallback and any(one.topology_key == HOSTNAME for one in cls.spread):
            skewed = packing.cluster.objections(cls, last)[0] == SKEWED
            if skewed and packing.somewhere(cls, lambda at, last=last: at != last):  # type: ignore[misc]
                placed.append(pod)
                continue
        if last is not None and last not in packing.used:
            return placed
        if not packing.add():
            packing.may_add = False
            return placed
        if not packing.on_last(cls):
            return placed
        placed.append(pod)
    return placed


def _score(cls: PodClass, template: Template) -> float:
    allocatable = template.node.allocatable
    shares = [cls.requests.get(one, 0) / allocatable[one] for one in ("cpu", "memory") if allocatable.get(one)]
    return sum(shares)
