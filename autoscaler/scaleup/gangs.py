"""The gangs among pending pods: how many of each have room, and how many more need it at once.

A scheduler starts a gang once its minimum of pods can run (KEP-4671): pods that run already count, the others need room
at the same time, and on nodes that share a label if the gang has a topology constraint. So new nodes are worth their
price only if they complete the minimum. Beyond it, pods of a gang are pods like any other.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from autoscaler.objects.gang import GangRef, stated_minimum
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import PodVerdict
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import ABSENT
from autoscaler.snapshot.overlay import Trial

ANYWHERE = 0
"""The code of all nodes for a gang without a topology constraint."""


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A gang that needs new nodes."""

    name: str
    """`namespace/name`."""
    wanted: int
    """Its minimum of pods."""
    placed: int
    """Pods of it that have a node, or room on one that the gang keeps."""
    pods: tuple[Pod, ...]
    """The others that may get new nodes in this pass; they have no room yet."""
    topology_key: str = ""
    """The label whose value all its nodes share; empty: any nodes will do."""
    home: int | None = None
    """The code of that label on the nodes of the placed pods; None: there are none."""

    @property
    def missing(self) -> int:
        """How many of `pods` must get room; it may be more than there are, or below zero."""
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
    home: str | None = None
    """That value where pods of it have a node; None: none has."""
    failed: tuple[str, ...] = ()
    """Groups that could help and are in backoff."""

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
        why = f"; in backoff after failed scale-up: {', '.join(self.failed)}" if self.failed else ""
        return f"{self.wanted} wanted, {self.possible} possible{where}{why}"

    def __str__(self) -> str:
        """`gang training/job-1: 8 wanted, 5 possible`."""
        return f"gang {self.name}: {self.figures}"


def priority_of(pods: Iterable[Pod]) -> int:
    """Return the highest priority of some pods."""
    return max((pod.cls.priority or 0 for pod in pods), default=0)


class WaitingGang(msgspec.Struct, frozen=True):
    """A gang that does not run yet: fewer than `wanted` of its pods have a node."""

    name: str
    """`namespace/name`."""
    wanted: int
    running: int
    pending: int


class _Sizes:
    """How many pods gangs want and have."""

    def __init__(self, pods: Iterable[Pod], view: ClusterView) -> None:
        self._view = view
        self.refs: dict[str, GangRef] = {}
        for pod in pods:
            if pod.cls.gang is not None:
                self.refs.setdefault(pod.cls.gang.key, pod.cls.gang)
        self.running = _running(self.refs, view)
        self.pending = Counter(
            pod.cls.gang.key for pod in view.pending if pod.cls.gang is not None and pod.deleted is None
        )

    def wanted(self, name: str) -> int:
        """Return the minimum of a gang: all its pods if nothing states one."""
        related = self._view.related
        stated = stated_minimum(self.refs[name], related.pod_groups, related.workloads)
        return self.running[name] + self.pending[name] if stated is None else stated


def waiting_gangs(view: ClusterView) -> tuple[WaitingGang, ...]:
    """Return the gangs that wait for nodes or pods, by name."""
    sizes = _Sizes(view.pending, view)
    gangs = (
        WaitingGang(name, sizes.wanted(name), sizes.running[name], sizes.pending[name]) for name in sorted(sizes.refs)
    )
    return tuple(gang for gang in gangs if gang.running < gang.wanted > 1)


class GangCensus:
    """Where the pods of the gangs among pending pods are, on a trial that holds all pods that fit somewhere."""

    def __init__(self, pods: Sequence[Pod], view: ClusterView, trial: Trial) -> None:
        """`pods`: all that may belong to the gangs, apart from those that run."""
        self._view = view
        self._trial = trial
        self._sizes = _Sizes(pods, view)
        self._classes: dict[str, set[PodClass]] = {}
        for pod in pods:
            if pod.cls.gang is not None:
                self._classes.setdefault(pod.cls.gang.key, set()).add(pod.cls)

    def stranded(self) -> frozenset[str]:
        """Return the gangs that cannot start and have room for a part of their pods, which is of no use to them."""
        return frozenset(name for name in self._sizes.refs if self._is_stranded(name, self._pending_places(name)))

    def _is_stranded(self, name: str, places: Mapping[int, int]) -> bool:
        home, placed = self._placed(name)
        return any(places.values()) and (self._sizes.wanted(name) > placed or any(code != home for code in places))

    def gangs(self, pods: Iterable[Pod]) -> tuple[Gang, ...]:
        """Return the gangs for which these pods, which fit nowhere, get nodes together; the first is helped first."""
        members: dict[str, list[Pod]] = {}
        for pod in pods:
            if pod.cls.gang is not None and pod.cls.gang.key in self._sizes.refs:
                members.setdefault(pod.cls.gang.key, []).append(pod)
        gangs = []
        for name, needing in members.items():
            wanted, (home, placed), key = self._sizes.wanted(name), self._placed(name), self._key(name)
            if placed < wanted > 1 or key:
                needs = tuple(needing)
                gangs.append(Gang(name=name, wanted=wanted, placed=placed, pods=needs, topology_key=key, home=home))
        return tuple(sorted(gangs, key=lambda gang: gang.rank))

    def _key(self, name: str) -> str:
        pod_group = self._view.related.pod_groups.get(name)
        return "" if pod_group is None else pod_group.topology_key

    def _placed(self, name: str) -> tuple[int | None, int]:
        """Return where most pods of a gang are that have a node or room, and how many."""
        places = self._pending_places(name)
        if not self._key(name):
            return ANYWHERE, self._sizes.running[name] + sum(places.values())
        running = self._running_places(name)
        if running:  # the scheduler sends the others there, whatever room there is elsewhere
            home = max(running, key=lambda code: (running[code], -code))
            return home, running[home] + places[home]
        return max(((code, count) for code, count in places.items()), key=lambda item: item[1], default=(None, 0))

    def _pending_places(self, name: str) -> Counter[int]:
        """Return how many pods of a gang without a node have room, by the code of their nodes."""
        key, places = self._key(name), Counter[int]()
        for _, positions, counts in self._trial.moves(self._classes[name]):
            codes = self._trial.labels(key)[positions] if key else np.full(len(positions), ANYWHERE)
            for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
                places[code] += count
        places.pop(ABSENT, None)
        return places

    def _running_places(self, name: str) -> Counter[int]:
        view, codes = self._view, self._trial.labels(self._key(name))
        mine = np.array([cls.gang is not None and cls.gang.key == name for cls in view.classes], dtype=np.bool_)
        places = Counter(codes[view.pod_nodes[mine[view.pod_classes]]].tolist())
        for pod in view.terminating:
            if pod.cls.gang is not None and pod.cls.gang.key == name:
                places[int(codes[view.positions[pod.node or ""]])] -= 1
        return +places


def _running(names: Iterable[str], view: ClusterView) -> Mapping[str, int]:
    """Return how many pods of each gang have a node and stay there."""
    running = dict.fromkeys(names, 0)
    if not running:
        return running
    counts = np.bincount(view.pod_classes, minlength=len(view.classes))
    for number, cls in enumerate(view.classes):
        if cls.gang is not None and cls.gang.key in running:
            running[cls.gang.key] += int(counts[number])
    for pod in view.terminating:
        if pod.cls.gang is not None and pod.cls.gang.key in running:
            running[pod.cls.gang.key] -= 1
    return running
