"""The capacity of the cluster and the requests of pods, by resource. These figures are for people: no decision reads
them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.pod import Pod
from autoscaler.objects.requests import Requests
from autoscaler.registry.readiness import Readings
from autoscaler.registry.state import Registry
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import Amounts
from autoscaler.snapshot.overlay import Positions
from autoscaler.snapshot.template import Template

NO_GROUP = ""
_SHOWN = (quantity.CPU, quantity.MEMORY)


class ResourceTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts by resource, in the engine's units (milli-CPU, bytes, pieces)."""

    nodes: int = 0
    """Number of ready nodes that stay."""
    provisioned: Requests = {}
    """Allocatable amounts of these nodes."""
    capacity: Requests = {}
    """CPU and memory capacity of these nodes, for display and for the ratio."""
    upcoming: Requests = {}
    """Allocatable amounts of requested nodes that are not ready."""
    running: Requests = {}
    starting: Requests = {}
    """Requests of pods that have a node and do not run yet."""
    pending: Requests = {}
    headroom_running: Requests = {}
    """Requests of pause pods that have a node; the other fields exclude them."""
    headroom_pending: Requests = {}

    def wanted_ratio(self, resource: str) -> float:
        """Return the ratio of the pods' requests to the provisioned amount; infinite if nothing is provisioned."""
        wanted = sum(part.get(resource, 0) for part in (self.running, self.starting, self.pending))
        there = self.provisioned.get(resource, 0)
        if there:
            return wanted / there
        return float("inf") if wanted else 0.0


class ClusterCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """The totals at one moment (Unix seconds); each update replaces the whole value."""

    at: float
    cluster: ResourceTotals = ResourceTotals()
    groups: Mapping[str, ResourceTotals] = {}
    """Totals by node group; nodes that are not autoscaled are under `NO_GROUP`. Pending pods belong to no group."""
    unknown: int = 0
    """Number of pods in a phase that the API does not define."""

    @property
    def resources(self) -> tuple[str, ...]:
        """Every resource that any node offers."""
        return tuple(dict.fromkeys((quantity.CPU, quantity.MEMORY, *self.cluster.provisioned)))


def capacity(
    view: ClusterView,
    readings: Readings | None,
    starting: Iterable[Pod],
    at: float,
    *,
    registry: Registry | None = None,
    templates: Mapping[str, Template] | None = None,
) -> ClusterCapacity:
    """Return the totals of a view. `starting` are its pods that have a node and do not run yet; it has no finished
    pods.

    Pods of an unknown phase are counted, but their requests are in no sum.
    """
    sums = _of_nodes(view, readings)
    unknown = _add_starting(sums, view, starting)
    for group, count in ({} if registry is None else registry.upcoming).items():
        template = (templates or {}).get(group)
        if template is not None:
            sums.setdefault(group, _Sums()).add("upcoming", template.node.allocatable, count)
    cluster = _Sums()
    for own in sums.values():
        cluster.take(own)
    pending = Counter(pod.cls for pod in view.pending if pod.phase == "Pending")
    for cls, number in pending.items():
        part = "pending" if cls.headroom is None else "headroom_pending"
        cluster.add(part, {**cls.requests, quantity.PODS: 1}, number)
    unknown += len(view.pending) - pending.total()
    totals = {group: own.totals() for group, own in sums.items()}
    return ClusterCapacity(at=at, cluster=cluster.totals(), groups=totals, unknown=unknown)


class _Sums:
    def __init__(self) -> None:
        self.nodes = 0
        self._parts: dict[str, dict[str, int]] = {}

    def add(self, part: str, amounts: Requests, times: int = 1) -> None:
        total = self._parts.setdefault(part, {})
        for resource, value in amounts.items():
            total[resource] = total.get(resource, 0) + value * times

    def take(self, other: "_Sums") -> None:
        self.nodes += other.nodes
        for part, amounts in other._parts.items():
            self.add(part, amounts)

    def totals(self) -> ResourceTotals:
        return ResourceTotals(nodes=self.nodes, **self._parts)


def _of_nodes(view: ClusterView, readings: Readings | None) -> dict[str, _Sums]:
    """Return capacity and requests on the nodes of each group."""
    if not view.nodes:
        return {}
    codes: dict[str, int] = {}
    group_of = np.fromiter(
        (codes.setdefault(view.groups.of_node.get(node.name, NO_GROUP), len(codes)) for node in view.nodes),
        dtype=np.int64,
        count=len(view.nodes),
    )
    sums = {group: _Sums() for group in codes}
    if readings is not None:
        _add_provisioned(sums, view, readings, group_of)
    _add_used(sums, view, group_of)
    return sums


def _add_starting(sums: dict[str, _Sums], view: ClusterView, starting: Iterable[Pod]) -> int:
    """Move pods that do not run yet from `running` to `starting`; return the number of pods in an unknown phase."""
    unknown = 0
    for pod in starting:
        own = sums.setdefault(view.groups.of_node.get(pod.node or "", NO_GROUP), _Sums())
        if pod.cls.headroom is not None:
            continue
        requests = {**pod.cls.requests, quantity.PODS: 1}
        own.add("running", requests, -1)
        if pod.phase == "Pending":
            own.add("starting", requests)
        else:
            unknown += 1
    return unknown


def _add_provisioned(sums: dict[str, _Sums], view: ClusterView, readings: Readings, group_of: Positions) -> None:
    """Add the capacity of ready nodes that stay; `sums` are in the order of the codes in `group_of`."""
    counted = np.fromiter(
        (
            reading.readiness.ready and not reading.to_be_deleted and reading.node.deleted is None
            for reading in readings.items
        ),
        dtype=np.bool_,
        count=len(view.nodes),
    )
    by_name = [(name, [reading.node.capacity.get(name, 0) for reading in readings.items]) for name in _SHOWN]
    capacities = [(name, np.array(amounts, dtype=np.int64)) for name, amounts in by_name]
    for code, own in enumerate(sums.values()):
        mine = counted & (group_of == code)
        own.nodes = int(np.count_nonzero(mine))
        own.add("provisioned", _named(view, view.columns.allocatable[:, mine]))
        own.add("capacity", {name: int(amounts[mine].sum()) for name, amounts in capacities})


def _add_used(sums: dict[str, _Sums], view: ClusterView, group_of: Positions) -> None:
    """Add the requests of placed pods to `running`, and those of pause pods separately."""
    for code, own in enumerate(sums.values()):
        own.add("running", _named(view, view.columns.used[:, group_of == code]))
    for number, cls in enumerate(view.classes):
        if cls.headroom is None:
            continue
        asked = {**cls.requests, quantity.PODS: 1}
        counts = np.bincount(group_of[view.pod_nodes[view.pod_classes == number]], minlength=len(sums))
        for code, own in enumerate(sums.values()):
            own.add("running", asked, -int(counts[code]))
            own.add("headroom_running", asked, int(counts[code]))


def _named(view: ClusterView, amounts: Amounts) -> dict[str, int]:
    """Return the sum of some columns by resource; resources without any amount are left out."""
    totals = amounts.sum(axis=1)
    rows = tuple(view.columns.vocabulary.rows.items())
    return {name: int(totals[row]) for name, row in rows if row < len(totals) and totals[row]}
