"""Writes the two taints: one keeps pods off nodes to be deleted, the other asks the scheduler to prefer other nodes."""

from collections.abc import Callable, Collection, Iterable
from functools import partial

import msgspec

from autoscaler.actuation.removal_events import RemovalEvents
from autoscaler.actuation.write_gate import WriteGate
from autoscaler.clock import Clock, Instant
from autoscaler.config.scaledown import ScaleDown
from autoscaler.errors import AutoscalerError, LeadershipLost, RetryLater
from autoscaler.kube.writes import ClusterWrites
from autoscaler.logs import Log
from autoscaler.objects.node import DELETION_CANDIDATE, TO_BE_DELETED, Node, Taint, TaintEffect
from autoscaler.scaledown.taints import SoftTaint, SoftTaints, taint_time

_RELEASE_PAUSE_S = 10.0
_RELEASE_PATIENCE_S = 900.0

log = Log(__name__)


class DeletionTaint(msgspec.Struct, frozen=True):
    """A hard taint that we write."""

    taint: Taint
    at: Instant
    uncordon: bool
    """Whether giving the node back also uncordons it: true if we cordoned it and it was not cordoned before."""


class HardTaint:
    """Taints nodes for deletion and gives them back. Threads may share it."""

    def __init__(self, writes: ClusterWrites, gate: WriteGate, *, cordon: bool) -> None:
        self._writes = writes
        self._gate = gate
        self._cordon = cordon

    def mark(self, node: Node) -> DeletionTaint:
        """Return the taint for `put` to write now."""
        now = self._gate.now()
        taint = Taint(TO_BE_DELETED, TaintEffect.NO_SCHEDULE, str(int(now.wall)))
        ours = node.taint(TO_BE_DELETED) is not None or not node.unschedulable
        return DeletionTaint(taint, now, uncordon=self._cordon and ours)

    def put(self, node: Node, mark: DeletionTaint) -> None:
        """Taint a node, and cordon it if configured; raises `AutoscalerError`.

        An existing taint comes from a removal that was aborted. It is replaced, so that its age counts from now.
        """
        if node.taint(TO_BE_DELETED) is not None:
            self._writes.remove_taint(node.name, TO_BE_DELETED)
        self._writes.add_taint(node.name, mark.taint, cordon=self._cordon)

    def release(self, marked: Iterable[tuple[Node, DeletionTaint]]) -> frozenset[str]:
        """Remove the taint from nodes, retrying through an outage of the API server; return the names of nodes without
        it.

        Raises `LeadershipLost` and `Stopping`.
        """
        waiting = list(marked)
        free: set[str] = set()
        give_up = self._gate.now().mono + _RELEASE_PATIENCE_S
        while waiting:
            again = []
            for node, mark in waiting:
                try:
                    self._writes.remove_taint(node.name, TO_BE_DELETED, uncordon=mark.uncordon)
                    free.add(node.name)
                except LeadershipLost:
                    raise
                except RetryLater:
                    again.append((node, mark))
                except AutoscalerError as error:
                    log.error("scale_down.taint_stays", node=node.name, error=str(error))
            waiting = again
            if waiting and self._gate.now().mono >= give_up:
                log.error("scale_down.taint_stays", nodes=[node.name for node, _ in waiting], error="no API server")
                break
            if waiting:
                self._gate.pause(_RELEASE_PAUSE_S)
        return frozenset(free)


class SoftTainted(msgspec.Struct, frozen=True, kw_only=True):
    """The soft taints that one pass changed; names of nodes."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    left: int = 0
    """Number of changes for which no time was left."""


def apply_soft_taints(writes: ClusterWrites, clock: Clock, plan: SoftTaints, time_s: float) -> SoftTainted:
    """Add and remove soft taints for at most `time_s` seconds; nodes that are needed again come first.

    Raises `LeadershipLost`; the next pass retries other failures.
    """
    give_up = clock.now().mono + time_s
    failed: list[str] = []
    late: list[str] = []

    def change(node: str, write: Callable[[], object]) -> bool:
        if clock.now().mono >= give_up:
            late.append(node)
            return False
        try:
            write()
        except LeadershipLost:
            raise
        except AutoscalerError as error:
            log.warning("scale_down.soft_taint_failed", node=node, error=str(error))
            failed.append(node)
            return False
        return True

    def taint(soft: SoftTaint) -> None:
        writes.add_taint(soft.node, Taint(DELETION_CANDIDATE, TaintEffect.PREFER_NO_SCHEDULE, str(soft.since)))

    def untaint(node: str) -> None:
        writes.remove_taint(node, DELETION_CANDIDATE)

    removed = tuple(node for node in plan.untaint if change(node, partial(untaint, node)))
    added = tuple(soft.node for soft in plan.taint if change(soft.node, partial(taint, soft)))
    return SoftTainted(added=added, removed=removed, failed=tuple(failed), left=len(late))


class CleanUp:
    """Removes, once after the start, the taints that an earlier process left."""

    def __init__(self, writes: ClusterWrites, clock: Clock, events: RemovalEvents) -> None:
        self._writes = writes
        self._clock = clock
        self._events = events

    def hard_taints(self, nodes: Iterable[Node], managed: Collection[str], *, cordoned: bool) -> tuple[str, ...]:
        """Give back every node of a group (`managed` holds their names); return the names of nodes that failed.

        With `cordoned`, also uncordon them, because it is unknown who cordoned them. Raises `LeadershipLost`.
        """
        mine = [node for node in nodes if node.name in managed]
        return self._clean(mine, TO_BE_DELETED, uncordon=cordoned)

    def soft_taints(self, nodes: Iterable[Node], config: ScaleDown) -> tuple[str, ...]:
        """If soft taints are switched off, remove those older than their configured lifetime; return the names of
        failed nodes.

        Raises `LeadershipLost`.
        """
        if config.max_bulk_soft_taint_count != 0:
            return ()
        oldest = self._clock.now().wall - config.node_deletion_candidate_ttl_s
        return self._clean([node for node in nodes if _older(node, oldest)], DELETION_CANDIDATE, uncordon=False)

    def _clean(self, nodes: Iterable[Node], key: str, *, uncordon: bool) -> tuple[str, ...]:
        failed = []
        for node in nodes:
            if node.taint(key) is None:
                continue
            try:
                self._writes.remove_taint(node.name, key, uncordon=uncordon)
                self._events.cleaned_up(node, key)
            except LeadershipLost:
                raise
            except AutoscalerError as error:
                self._events.clean_up_failed(node, key, str(error))
                failed.append(node.name)
        return tuple(failed)


def _older(node: Node, oldest_wall: float) -> bool:
    """Whether the soft taint is older than `oldest_wall`; a taint without a time counts as older."""
    if node.taint(DELETION_CANDIDATE) is None:
        return False
    written = taint_time(node, DELETION_CANDIDATE)
    return written is None or written <= oldest_wall
