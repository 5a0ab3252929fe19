"""Removes nodes: taints, waits, checks, drains and deletes them, and reverses each step on failure.

`Deleter.start` runs on the deciding thread: it taints the nodes and starts one job per node. The results come back
through the `NodeDeletionTracker`. Order and rules are Cluster Autoscaler's (core/scaledown/actuation), with three
additions: a node is checked again right before its machine is deleted, a roll-back survives an outage of the API
server, and nothing is written after leadership is lost or the program stops.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from autoscaler.actuation.deletion_batcher import AtomicBatch, NodeDeletionBatcher
from autoscaler.actuation.deletion_tracker import NodeDeletionTracker
from autoscaler.actuation.drain import Drainer
from autoscaler.actuation.drain_rounds import DrainRounds
from autoscaler.actuation.evict import Evictor
from autoscaler.actuation.machine_deletion import CALL_S, MachineDeleter, MachineDeletion
from autoscaler.actuation.noticed_drain import LeavingMachine, NoticedDrain, NoticedDrainParts
from autoscaler.actuation.recheck import Recheck, RecheckOptions
from autoscaler.actuation.removal_events import RemovalEvents
from autoscaler.actuation.removal_job import FreshReader, RemovalJob
from autoscaler.actuation.removal_outcome import Aborted, AbortReason, Finished, RemovalOutcome
from autoscaler.actuation.taint_latency import TaintLatency
from autoscaler.actuation.taints import DeletionTaint, HardTaint
from autoscaler.actuation.write_gate import Stopping, WriteGate
from autoscaler.clock import Clock
from autoscaler.errors import AutoscalerError, LeadershipLost
from autoscaler.kube.writes import ClusterWrites
from autoscaler.logs import Log
from autoscaler.objects.node import Node
from autoscaler.ports import Executor, Leadership
from autoscaler.scaledown.plan import NodesToDelete, Removal

_TAINTS_AT_ONCE = 5
_LATENCY_POLL_S = 0.1
_LONGEST_LATENCY_S = 60.0

_NOT_OURS = (AbortReason.NODE_GONE, AbortReason.TAINT_LOST)
"""Reasons after which no taint of ours remains to be removed."""

log = Log(__name__)

JobBatch = AtomicBatch[RemovalJob]


class RemovalPorts(msgspec.Struct, frozen=True, kw_only=True):
    """The outside world as removals use it."""

    writes: ClusterWrites
    machines: MachineDeleter
    fresh: FreshReader
    events: RemovalEvents
    executor: Executor
    clock: Clock
    leadership: Leadership
    call_s: float = CALL_S
    """Seconds for which the lease must still be valid when a deletion is sent to the cloud."""


class StartedRemovals(msgspec.Struct, frozen=True, kw_only=True):
    """The result of starting a plan; the removals continue on their own threads."""

    empty: tuple[Removal, ...] = ()
    drained: tuple[Removal, ...] = ()
    error: str = ""
    """Why the remaining removals did not start; empty if all started."""


class Deleter:
    """Removes nodes. `start` belongs to the deciding thread; any thread may read the tracker."""

    def __init__(self, ports: RemovalPorts, tracker: NodeDeletionTracker, options: RecheckOptions) -> None:
        config, rules = options.drain, options.rules
        self.tracker = tracker
        self._config = config
        self._events = ports.events
        self._executor = ports.executor
        self._gate = WriteGate(ports.executor, ports.clock, ports.leadership)
        self._hard_taint = HardTaint(ports.writes, self._gate, cordon=config.cordon_node_before_terminating)
        self._recheck = Recheck(ports.fresh, self._gate, options)
        evictor = Evictor(ports.writes, self._gate, ports.events, tracker)
        self._drainer = Drainer(evictor, self._recheck, self._gate, config)
        self._commit = MachineDeletion(ports.machines, self._recheck, evictor, self._gate, ports.call_s)
        self._noticed = NoticedDrain(
            NoticedDrainParts(
                gate=self._gate,
                hard_taint=self._hard_taint,
                recheck=self._recheck,
                evictor=evictor,
                commit=self._commit,
            ),
            ports.events,
            config,
            self._removed,
        )
        self._rounds = DrainRounds(ports.executor, ports.clock)
        self._windows: NodeDeletionBatcher[RemovalJob] = NodeDeletionBatcher()
        self._latency = TaintLatency()
        self._taints_at_once = _TAINTS_AT_ONCE if rules.parallel_tainting else 1

    def start(self, plan: NodesToDelete) -> StartedRemovals:
        """Begin removals: first nodes whose machines leave anyway, then all empty nodes, then all nodes to drain.
        Raises `LeadershipLost`.

        If a node cannot be tainted, its phase and the next one stop, and the nodes tainted in the same phase are given
        back. Raises `ValueError` for a node that is already being removed.
        """
        under_way = self.tracker.under_way().nodes
        twice = under_way & {removal.node.name for removal in (*plan.empty, *plan.drained)}
        if twice:
            raise ValueError(f"already being removed: {', '.join(sorted(twice))}")
        self._events.listener.deletions_pending(len(under_way))
        for removal in (*plan.empty, *plan.drained):
            if removal.leave_by is not None:
                self._leave(removal)
        sizes = Counter(removal.group for removal in (*plan.empty, *plan.drained) if removal.atomic)
        batches = {group: JobBatch(group, size) for group, size in sizes.items()}
        error = self._begin([removal for removal in plan.empty if removal.leave_by is None], batches)
        if error:
            return StartedRemovals(error=error)
        error = self._begin([removal for removal in plan.drained if removal.leave_by is None], batches)
        if error:
            self._strand({removal.group for removal in plan.drained if removal.atomic}, batches)
            return StartedRemovals(empty=plan.empty, error=error)
        return StartedRemovals(empty=plan.empty, drained=plan.drained)

    def _leave(self, removal: Removal) -> None:
        """Empty a node before its machine leaves; also the taint is put beside the pass, as there may be many."""
        leaving = LeavingMachine(RemovalJob(removal, self._hard_taint.mark(removal.node), None))
        self.tracker.started(removal)
        self._events.started(removal)
        self._rounds.add(lambda: self._round(leaving))

    def _round(self, leaving: LeavingMachine) -> float | None:
        """Return the seconds until the next round; None if the removal has ended."""
        waits: list[float] = []
        self._guarded((leaving.job,), lambda: waits.append(self._noticed.round(leaving)))
        return None if leaving.job.ended else waits[0]

    def _begin(self, removals: Sequence[Removal], batches: Mapping[str, JobBatch]) -> str:
        """Taint nodes, then start a job for each; return the error, or an empty text."""
        marks: dict[str, DeletionTaint] = {}

        def tainting(node: Node) -> Callable[[], None]:
            def taint() -> None:
                marks[node.name] = self._hard_taint.mark(node)
                self._hard_taint.put(node, marks[node.name])

            return taint

        try:
            self._gate.pause(0.0)
            works = [tainting(removal.node) for removal in removals]
            errors = self._gate.beside(works, self._taints_at_once)
        except Stopping:
            return "the program is stopping"
        if any(error is not None for error in errors):
            return self._taint_failed([removal.node for removal in removals], marks, errors)
        for removal in removals:
            self._events.tainted(removal.node)
        for removal in removals:
            job = RemovalJob(removal, marks[removal.node.name], batches.get(removal.group) if removal.atomic else None)
            self.tracker.started(removal)
            self._events.started(removal)
            self._executor.submit(self._removing(job))
        return ""

    def _taint_failed(
        self, nodes: Sequence[Node], marks: Mapping[str, DeletionTaint], errors: Sequence[Exception | None]
    ) -> str:
        """Give back every node that was or may have been tainted; return the first error's text."""
        messages: list[str] = []
        for node, error in zip(nodes, errors, strict=True):
            if error is None:
                continue
            if isinstance(error, LeadershipLost) or not isinstance(error, AutoscalerError):
                raise error
            messages.append(str(error))
            self._events.taint_failed(node, str(error))
        tried = [(node, marks[node.name]) for node in nodes if node.name in marks]

        def give_back() -> None:
            with contextlib.suppress(Stopping, LeadershipLost):
                self._gate.pause(0.0)
                self._hard_taint.release(tried)

        self._executor.submit(give_back)
        return messages[0]

    def _removing(self, job: RemovalJob) -> Callable[[], None]:
        return lambda: self._guarded((job,), lambda: self._remove(job))

    def _remove(self, job: RemovalJob) -> None:
        """Remove one node from start to end; raises `Aborted`, `LeadershipLost` and `Stopping`."""
        self._settle(job)
        leaving = self._recheck.before_eviction(job)
        self._commit.prepare(job)
        self._drainer.empty(job, leaving)
        self._drainer.await_consent(job)
        if job.batch is not None:
            self._delete(job.batch.join(job))
            return
        interval_s = self._config.node_deletion_batcher_interval_s
        if interval_s <= 0:
            self._delete((job,))
        elif self._windows.join(job.removal.group, job):
            # Windows of different groups close independently, and nodes that join later need no thread.
            open_still = self._executor.sleep(interval_s)
            jobs = self._windows.close(job.removal.group)
            if open_still:
                self._delete(jobs)
            else:
                self._abandon(jobs)

    def _strand(self, groups: Iterable[str], batches: Mapping[str, JobBatch]) -> None:
        """Stop the empty nodes of groups that are deleted as a whole: the drained nodes they wait for will not come."""
        stays = Aborted(AbortReason.ATOMIC, "another node of the same group could not be tainted")
        waiting = [(job, stays) for group in sorted(groups) for job in batches[group].fail()]
        if waiting:
            jobs = [job for job, _ in waiting]
            self._executor.submit(lambda: self._guarded(jobs, lambda: self._roll_back(waiting)))

    def _settle(self, job: RemovalJob) -> None:
        """Wait until the scheduler has probably seen the taint, estimated from measured watch latencies."""
        wait_s = self._config.node_delete_delay_after_taint_s
        if self._config.dynamic_node_delete_delay_after_taint_enabled:
            self._measure(job)
            measured = self._latency.wait_s(self._gate.now())
            wait_s = wait_s if measured is None else measured
        self._gate.pause(wait_s)

    def _measure(self, job: RemovalJob) -> None:
        began = job.mark.at.mono
        while (took := self._gate.now().mono - began) < _LONGEST_LATENCY_S:
            if self._recheck.taint_seen(job):
                self._latency.took(took, self._gate.now())
                return
            self._gate.pause(_LATENCY_POLL_S)

    def _delete(self, jobs: Sequence[RemovalJob]) -> None:
        if jobs:
            self._guarded(jobs, lambda: self._commit_all(jobs))

    def _commit_all(self, jobs: Sequence[RemovalJob]) -> None:
        committed = self._commit.delete(jobs)
        for job in committed.going:
            self._removed(job)
        self._roll_back(committed.kept)

    def _removed(self, job: RemovalJob) -> None:
        self._events.removed(job.removal)
        self._end(job, RemovalOutcome.DELETED)

    def _guarded(self, jobs: Sequence[RemovalJob], work: Callable[[], None]) -> None:
        """Do the work and handle every exception: this is the top of the thread."""
        try:
            work()
        except Aborted as aborted:
            self._roll_back([(job, aborted) for job in jobs])
        except (Stopping, LeadershipLost):
            self._abandon(jobs)
        except Exception as error:  # noqa: BLE001  # the top of a thread
            log.crashed("scale_down.crashed", nodes=[job.name for job in jobs])
            bug = Aborted(AbortReason.BUG, f"unexpected error: {error}")
            self._roll_back([(job, bug) for job in jobs if not job.ended])

    def _roll_back(self, kept: Sequence[tuple[RemovalJob, Aborted]]) -> None:
        """Give nodes back, together with all nodes that cannot be deleted without them."""
        if not kept:
            return
        kept = [*kept, *self._left_alone(kept)]
        try:
            self._gate.pause(0.0)  # raises if the program stops or has lost leadership; only after that may it write
            for job, aborted in kept:
                log.warning("scale_down.aborted", node=job.name, reason=aborted.why, message=aborted.message)
                self._events.aborted(job.removal, aborted.why, aborted.message)
            ours = [(job.removal.node, job.mark) for job, aborted in kept if aborted.why not in _NOT_OURS]
            free = self._hard_taint.release(ours)
        except (Stopping, LeadershipLost):
            self._abandon([job for job, _ in kept])
            return
        for job, aborted in kept:
            self._end(job, aborted.outcome, aborted, rolled_back=job.name in free)

    def _left_alone(self, kept: Sequence[tuple[RemovalJob, Aborted]]) -> list[tuple[RemovalJob, Aborted]]:
        """Break the batches of these nodes; return the jobs that waited there."""
        staying = {job.name for job, _ in kept}
        return [
            (other, Aborted(AbortReason.ATOMIC, f"node {job.name} of the same group has to stay: {aborted.message}"))
            for job, aborted in kept
            if job.batch is not None
            for other in job.batch.fail()
            if other.name not in staying
        ]

    def _abandon(self, jobs: Sequence[RemovalJob]) -> None:
        """Stop without writing anything: the next leader cleans up."""
        waiting = [other for job in jobs if job.batch is not None for other in job.batch.fail()]
        for job in (*jobs, *waiting):
            if not job.ended:
                log.warning("scale_down.abandoned", node=job.name)
                self._end(job, RemovalOutcome.ABANDONED)

    def _end(
        self, job: RemovalJob, outcome: RemovalOutcome, aborted: Aborted | None = None, *, rolled_back: bool = False
    ) -> None:
        job.ended = True
        self.tracker.ended(
            Finished(
                removal=job.removal,
                outcome=outcome,
                at=self._gate.now(),
                why=None if aborted is None else aborted.why,
                message="" if aborted is None else aborted.message,
                evictions=tuple(job.evictions),
                rolled_back=rolled_back,
                certain=aborted is None or aborted.certain,
            )
        )
