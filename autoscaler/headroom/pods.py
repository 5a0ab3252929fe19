"""Finds the pods of a pool, and the pods of its work, in a view of the cluster."""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from autoscaler.config.headroom import Headroom, HeadroomPool
from autoscaler.eta.lead_time import Ahead
from autoscaler.eta.placements import pause_workload
from autoscaler.headroom.objects import owned, template
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.quantity import CPU, MEMORY
from autoscaler.objects.workload import PodTemplate
from autoscaler.snapshot.cluster import ClusterView


class PoolPods(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one pool; terminating pods are not included."""

    active: int = 0
    """Number of running and starting pods of the work."""
    lowest_active: int | None = None
    """Lowest priority among them."""
    bound: tuple[Pod, ...] = ()
    """Pause pods on a node."""
    pending: tuple[Pod, ...] = ()
    """Pause pods without a node."""


def class_of(pool: HeadroomPool, headroom: Headroom, interner: PodInterner) -> PodClass | None:
    """Return the class of a pool's pause pods; None if the API server would also reject the pods."""
    try:
        read = msgspec.convert(template(pool, headroom), PodTemplate, strict=False)
    except msgspec.ValidationError:
        return None
    meta = ObjectMeta(name=f"headroom-{pool.name}", namespace=pool.namespace, labels=read.metadata.labels)
    return interner.class_of(meta, read.spec)


def ahead_of(pool: HeadroomPool, headroom: Headroom) -> Ahead:
    """Return the lead of a pool: its pods are to run when a policy begins."""
    return Ahead(asks_s=headroom.reconcile_interval_s, workload=pause_workload(pool.namespace, pool.name))


def pods_of(view: ClusterView, pool: HeadroomPool, headroom: Headroom) -> PoolPods:
    """Return the pods of one pool. Work is counted by its classes, so pods of other classes cost no time."""
    labels = owned(pool, headroom)

    def is_pause(cls: PodClass) -> bool:
        return cls.namespace == pool.namespace and labels.items() <= cls.labels.items()

    namespaces = pool.active.namespaces or (pool.namespace,)

    def is_work(cls: PodClass) -> bool:
        return cls.namespace in namespaces and cls.headroom is None and pool.active.selector.selects(cls.labels)

    active = [pod for pod in _of(view, {cls for cls in view.classes if is_work(cls)}) if _counts(pod)]
    return PoolPods(
        active=len(active),
        lowest_active=min((pod.cls.priority or 0 for pod in active), default=None),
        bound=tuple(pod for pod in _of(view, {cls for cls in view.classes if is_pause(cls)}) if _counts(pod)),
        pending=tuple(pod for pod in view.pending if pod.deleted is None and is_pause(pod.cls)),
    )


def _of(view: ClusterView, wanted: set[PodClass]) -> Iterator[Pod]:
    """Yield the placed pods of some classes."""
    if not wanted:
        return
    numbers = [number for number, cls in enumerate(view.classes) if cls in wanted]
    for position in np.unique(view.pod_nodes[np.isin(view.pod_classes, numbers)]).tolist():
        yield from (pod for pod in view.pods[position] if pod.cls in wanted)


def _counts(pod: Pod) -> bool:
    return pod.deleted is None and pod.phase in ("Running", "Pending")


def to_give_up(view: ClusterView, pods: PoolPods, target: int) -> frozenset[str]:
    """Return the keys of pause pods to delete so that `target` stay; whole nodes are emptied first.

    The controller deletes pods without a node first, so they are counted but not returned. Nodes come in the order in
    which scale-down is likely to remove them: first those without work, then the least used.
    """
    return frozenset(pod.key for pod in _by_node(view, pods.bound)[: max(0, len(pods.bound) - target)])


def _by_node(view: ClusterView, bound: Iterable[Pod]) -> list[Pod]:
    by_node: dict[str, list[Pod]] = {}
    for pod in bound:
        by_node.setdefault(pod.node or "", []).append(pod)
    order = sorted(by_node, key=lambda name: (*_usage(view, name), len(by_node[name]), name))
    return [pod for name in order for pod in sorted(by_node[name], key=lambda pod: pod.key)]


def _usage(view: ClusterView, name: str) -> tuple[bool, float]:
    """Return whether a node runs work, and the share of its scarcer resource that the work requests."""
    node = view.node(name)
    if node is None:
        return False, 0.0
    work = [pod.cls for pod in view.pods_on(name) if pod.cls.headroom is None]
    work = [cls for cls in work if not (cls.daemonset or cls.mirror)]
    shares = [
        sum(cls.requests.get(resource, 0) for cls in work) / max(1, node.allocatable.get(resource, 0))
        for resource in (CPU, MEMORY)
    ]
    return bool(work), max(shares)
