"""Reads a node and its pods again before each step of a removal, because the plan may be minutes old."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from autoscaler.actuation.removal_job import FreshReader, RemovalJob
from autoscaler.actuation.removal_outcome import Aborted, AbortReason
from autoscaler.actuation.write_gate import WriteGate
from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import Drain
from autoscaler.errors import Refused, RetryLater
from autoscaler.objects.node import TO_BE_DELETED, Node
from autoscaler.objects.pod import DO_NOT_DISRUPT, Pod
from autoscaler.scaledown.drain import (
    BlockingPod,
    DrainContext,
    DrainVerdict,
    NodeDrain,
    departure,
    judge,
    judge_at_end,
    without_budgets,
)
from autoscaler.scaledown.eligibility import SCALE_DOWN_DISABLED
from autoscaler.scaledown.notices import notice_of
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.protection import protected_node
from autoscaler.scaleup.pending import expendable
from cloudprovider.interface import NoticeKind

_READ_PAUSE_S = 5.0
_READ_PATIENCE_S = 60.0

T = TypeVar("T")


class RecheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options by which a fresh read is judged."""

    drain: Drain
    rules: Rules
    notices: tuple[NoticeKind, ...] = ()
    """Kinds of notice that tell that a machine leaves."""
    expendable_below: int
    """Pods with a lower priority may be lost with their node."""


class Recheck:
    """Raises `Aborted` if a fresh read contradicts a removal. Threads may share it."""

    def __init__(self, fresh: FreshReader, gate: WriteGate, options: RecheckOptions) -> None:
        self._fresh = fresh
        self._gate = gate
        self._drain = options.drain
        self._rules = options.rules
        self._notices = options.notices
        self._expendable_below = options.expendable_below

    def before_eviction(self, job: RemovalJob) -> NodeDrain:
        """Check a removal before its first eviction; return the planned pods that are still on the node."""
        self._still_ours(job, self._read(lambda: self._fresh.node(job.name)))
        pods = self._running(job)
        leaving = self._judged(job, pods)
        planned = {pod.uid for pod in job.removal.pods}
        _no_newcomers([pod for pod in leaving.move if pod.uid not in planned])
        return leaving

    def before_deletion(self, job: RemovalJob) -> tuple[Node, tuple[Pod, ...]]:
        """Check a removal right before its machine is deleted.

        Returns the node as it is now, and the evicted pods that came back because they tolerate the taint. Such pods
        come back for as long as the node exists. They cannot block the deletion, but they are evicted one last time.
        """
        if job.removal.leave_by is not None:
            return self._before_it_leaves(job), ()
        node = self._still_ours(job, self._read(lambda: self._fresh.node(job.name)))
        pods = self._running(job)
        if job.removal.forced:
            # Their objects go after the machine and its node, so that no StatefulSet starts a pod twice.
            pods = [pod for pod in pods if pod.deleted is None]
        returned = [pod for pod in pods if _came_back(pod, job)]
        back = {pod.uid for pod in returned}
        _no_newcomers(self._judged(job, [pod for pod in pods if pod.uid not in back]).move)
        self._judged(job, returned, spent_budgets_count=False)
        return node, tuple(returned)

    def spent_budget(self, pod: Pod) -> str | None:
        """Return the name of a disruption budget that forbids to evict the pod now; None if there is none."""
        budget = RemainingPdbTracker(self._read(self._fresh.budgets)).spent(pod.cls)
        return None if budget is None else budget.key

    def until_it_leaves(self, job: RemovalJob) -> tuple[Node, tuple[Pod, ...]] | None:
        """Return a node, and the pods that have to leave it before its machine does; None if it cannot be read now.

        Raises `Aborted` if the node is gone or no longer ours, or if no notice says any more that its machine leaves.
        """
        try:
            node = self._still_ours(job, self._fresh.node(job.name))
            pods = self._fresh.pods_on(job.name)
        except (RetryLater, Refused):
            return None
        if notice_of(node, self._notices) is None:
            raise Aborted(AbortReason.NOTICE_WITHDRAWN, "no notice says any more that the machine leaves")
        terms = DrainContext(options=self._drain, rules=self._rules, wall=self._gate.now().wall)
        leaving = departure([pod for pod in pods if not pod.finished], partial(judge_at_end, terms=terms))
        return node, leaving.move if isinstance(leaving, NodeDrain) else ()

    def while_draining(self, job: RemovalJob) -> Node | None:
        """Check only the node and return it; None if it cannot be read now. A later call may succeed."""
        try:
            node = self._fresh.node(job.name)
        except (RetryLater, Refused):
            return None
        return self._still_ours(job, node)

    def remaining(self, job: RemovalJob, pods: Sequence[Pod]) -> tuple[Pod, ...] | None:
        """Return the pods that are still on the node; None if it cannot be read now."""
        try:
            there = {pod.uid for pod in self._fresh.pods_on(job.name)}
        except (RetryLater, Refused):
            return None
        return tuple(pod for pod in pods if pod.uid in there)

    def taint_seen(self, job: RemovalJob) -> bool:
        """Whether the watch has reported our taint."""
        node = self._fresh.last_seen(job.name)
        return node is not None and _is_ours(job, node)

    def _before_it_leaves(self, job: RemovalJob) -> Node:
        there = self.until_it_leaves(job)
        if there is None:
            raise Aborted(AbortReason.UNREADABLE, "the cluster cannot be read")
        node, pods = there
        _no_newcomers(pods)
        return node

    def _running(self, job: RemovalJob) -> list[Pod]:
        """Return the pods that matter: neither finished nor expendable."""
        pods = self._read(lambda: self._fresh.pods_on(job.name))
        return [pod for pod in pods if not pod.finished and not expendable(pod, self._expendable_below)]

    def _still_ours(self, job: RemovalJob, node: Node | None) -> Node:
        planned = job.removal.node
        if node is None or node.uid != planned.uid:
            raise Aborted(AbortReason.NODE_GONE, f"node {planned.name} does not exist any more")
        if not _is_ours(job, node):
            raise Aborted(AbortReason.TAINT_LOST, f"somebody else changed the taint {TO_BE_DELETED}")
        if node.annotations.get(SCALE_DOWN_DISABLED) == "true" and job.removal.leave_by is None:
            raise Aborted(AbortReason.DISABLED, f"annotation {SCALE_DOWN_DISABLED} was set")
        if self._rules.do_not_disrupt_counts and not job.removal.urgent and protected_node(node) is not None:
            raise Aborted(AbortReason.DISABLED, f"annotation {DO_NOT_DISRUPT} was set")
        return node

    def _judged(self, job: RemovalJob, pods: Sequence[Pod], *, spent_budgets_count: bool = True) -> NodeDrain:
        budgets = self._read(self._fresh.budgets) if pods else ()
        if not spent_budgets_count:
            lifted = len(pods)
            budgets = [replace(budget, status=replace(budget.status, disruptions_allowed=lifted)) for budget in budgets]
        terms = DrainContext(
            options=self._drain,
            rules=self._rules,
            wall=self._gate.now().wall,
            related=self._fresh.related(),
            urgent=job.removal.urgent,
            budgets=RemainingPdbTracker(budgets),
        )
        judge_pod: Callable[[Pod], DrainVerdict] = lambda pod: judge(pod, terms)  # noqa: E731
        leaving = departure(pods, without_budgets(judge_pod) if job.removal.overrules else judge_pod)
        if isinstance(leaving, BlockingPod):
            raise Aborted(AbortReason.BLOCKED, f"pod {leaving.pod.key} blocks: {leaving.verdict.detail}")
        if leaving.wait_for:
            raise Aborted(AbortReason.ON_COMPLETION, f"pod {leaving.wait_for[0].key} has to run to its end")
        return leaving

    def _read(self, read: Callable[[], T]) -> T:
        """Read, and retry failed reads for a while."""
        give_up = self._gate.now().mono + _READ_PATIENCE_S
        while True:
            try:
                return read()
            except RetryLater as error:
                if self._gate.now().mono >= give_up:
                    raise Aborted(AbortReason.UNREADABLE, f"the cluster cannot be read: {error}") from error
            except Refused as error:
                raise Aborted(AbortReason.UNREADABLE, f"the cluster cannot be read: {error}") from error
            self._gate.pause(_READ_PAUSE_S)


def _is_ours(job: RemovalJob, node: Node) -> bool:
    taint = node.taint(TO_BE_DELETED)
    return taint is not None and taint.value == job.mark.taint.value


def _no_newcomers(pods: Sequence[Pod]) -> None:
    if pods:
        raise Aborted(AbortReason.NEW_PODS, f"new pods scheduled: {', '.join(pod.key for pod in pods)}")


def _came_back(pod: Pod, job: RemovalJob) -> bool:
    """Whether this is a new pod of a controller whose pod we evicted, and it tolerates the taint."""
    planned = job.removal.pods
    if pod.uid in {other.uid for other in planned} or not pod.cls.tolerates(job.mark.taint):
        return False
    return _owner(pod) is not None and _owner(pod) in {_owner(other) for other in planned}


def _owner(pod: Pod) -> tuple[str, str, str, str] | None:
    owner = pod.cls.owner
    return None if owner is None else (pod.namespace, owner.kind, owner.name, owner.uid)
