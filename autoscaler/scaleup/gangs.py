"""The gangs among pending pods: how many of each have room, and how many more need it at once.

A scheduler starts a gang once its minimum of pods can run (KEP-4671): pods that run already count, the others need room
at the same time. So new nodes are worth their price only if they complete the minimum. Beyond it, pods of a gang are
pods like any other.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from autoscaler.objects.gang import GangRef, stated_minimum
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import PodVerdict
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.overlay import Trial


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A gang that needs new nodes before it can start."""

    name: str
    """`namespace/name`."""
    wanted: int
    """Its minimum of pods, at least two."""
    placed: int
    """Pods of it that run, or fit on existing and upcoming nodes; fewer than wanted."""
    pods: tuple[Pod, ...]
    """The others that may get new nodes in this pass."""
    topology_key: str = ""
    """The label whose value all its nodes share; empty: any nodes will do."""
    pending: tuple[Pod, ...] = ()
    """If it has such a label: all its pods without a node, those that fit somewhere included."""
    running: Mapping[str, int] = {}
    """If it has such a label: how many of its pods have a node, by the value there."""

    @property
    def missing(self) -> int:
        """How many of `pods` must get room; it may be more than there are."""
        return self.wanted - self.placed

    @property
    def rank(self) -> tuple[int, float, str]:
        """Gangs are helped in this order: by priority, then by age."""
        return -priority_of(self.pods), min(pod.created for pod in self.pods), self.name


class ShortGang(msgspec.Struct, frozen=True):
    """A gang for which nothing is bought."""

    name: str
    wanted: int
    missing: int
    """How many pods lack room."""
    possible: int
    """How many of its pods could run if everything were bought for it that may be bought."""
    incomplete: bool = False
    """Whether it lacks pods, not room."""
    sharing: str = ""
    """The label whose value all its nodes share."""

    @property
    def reason(self) -> PodVerdict:
        """What its pods are told."""
        return PodVerdict.GANG_INCOMPLETE if self.incomplete else PodVerdict.GANG_TOO_LARGE

    @property
    def figures(self) -> str:
        """`8 wanted, 5 possible`."""
        if self.incomplete:
            return f"{self.wanted} wanted, {self.possible} exist and ask for a node"
        where = f" on nodes that share {self.sharing}" if self.sharing else ""
        return f"{self.wanted} wanted, {self.possible} possible{where}"

    def __str__(self) -> str:
        """`gang training/job-1: 8 wanted, 5 possible`."""
        return f"gang {self.name}: {self.figures}"


def priority_of(pods: Iterable[Pod]) -> int:
    """Return the highest priority of some pods."""
    return max((pod.cls.priority or 0 for pod in pods), default=0)


def gangs_among(pods: Sequence[Pod], view: ClusterView, trial: Trial) -> tuple[Gang, ...]:
    """Return the gangs of these pods that cannot start without new nodes, those first that are helped first.

    The trial holds all other pods of the view that fit somewhere.
    """
    members: dict[str, list[Pod]] = {}
    refs: dict[str, GangRef] = {}
    for pod in pods:
        ref = pod.cls.gang
        if ref is not None:
            members.setdefault(ref.key, []).append(pod)
            refs.setdefault(ref.key, ref)
    if not members:
        return ()
    sizes, placed = _sizes(members, view), _placed(members, view, trial)
    related = view.related
    gangs = []
    for name, needing in members.items():
        stated = stated_minimum(refs[name], related.pod_groups, related.workloads)
        wanted = sizes[name] if stated is None else stated
        if placed[name] < wanted > 1:
            gang = Gang(name=name, wanted=wanted, placed=placed[name], pods=tuple(needing))
            gangs.append(_constrained(gang, view))
    return tuple(sorted(gangs, key=lambda gang: gang.rank))


def _sizes(names: Iterable[str], view: ClusterView) -> Mapping[str, int]:
    """Return how many pods there are of each gang."""
    sizes = _running(names, view)
    for pod in view.pending:
        if pod.cls.gang is not None and pod.cls.gang.key in sizes and pod.deleted is None:
            sizes[pod.cls.gang.key] += 1
    return sizes


def _placed(names: Iterable[str], view: ClusterView, trial: Trial) -> Mapping[str, int]:
    """Return how many pods of each gang are on nodes of the trial."""
    placed = _running(names, view)
    classes: dict[PodClass, str] = {}
    for cls in dict.fromkeys(pod.cls for pod in view.pending):
        if cls.gang is not None and cls.gang.key in placed:
            classes[cls] = cls.gang.key
    for cls, _, counts in trial.moves(classes):
        placed[classes[cls]] += int(counts.sum())
    return placed


def _running(names: Iterable[str], view: ClusterView) -> dict[str, int]:
    """Return how many pods of each gang have a node and stay there."""
    running = dict.fromkeys(names, 0)
    counts = np.bincount(view.pod_classes, minlength=len(view.classes))
    for number, cls in enumerate(view.classes):
        if cls.gang is not None and cls.gang.key in running:
            running[cls.gang.key] += int(counts[number])
    for pod in view.terminating:
        if pod.cls.gang is not None and pod.cls.gang.key in running:
            running[pod.cls.gang.key] -= 1
    return running


def _constrained(gang: Gang, view: ClusterView) -> Gang:
    """Return a gang with its topology constraint, if it has one."""
    pod_group = view.related.pod_groups.get(gang.name)
    key = "" if pod_group is None else pod_group.topology_key
    if not key:
        return gang
    pending = tuple(pod for pod in view.pending if _is_of(gang, pod))
    nodes = (node for node, pods in zip(view.nodes, view.pods, strict=True) for pod in pods if _is_of(gang, pod))
    running = Counter(node.labels.get(key, "") for node in nodes)
    return msgspec.structs.replace(gang, topology_key=key, pending=pending, running=running)


def _is_of(gang: Gang, pod: Pod) -> bool:
    return pod.cls.gang is not None and pod.cls.gang.key == gang.name and pod.deleted is None
