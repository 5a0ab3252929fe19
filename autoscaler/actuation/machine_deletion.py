"""Deletes machines, after one more check of each node. No other module deletes machines."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from autoscaler.actuation.cloud import BELOW_MINIMUM, DeleteResult, ref_of
from autoscaler.actuation.evict import Evictor
from autoscaler.actuation.recheck import Recheck
from autoscaler.actuation.removal_job import RemovalJob
from autoscaler.actuation.removal_outcome import Aborted, AbortReason
from autoscaler.actuation.write_gate import WriteGate
from autoscaler.config.process import Leader
from autoscaler.logs import Log
from autoscaler.objects.pod import Pod
from cloudprovider.interface import NodeRef, ProviderError, Transient

CALL_S = 10.0
"""Seconds for which the lease must still be valid when a deletion is sent to the cloud; less for a short lease."""
_SHARE_OF_LEASE = 2 / 3
_LOOKS = 3
_SETTLE_PAUSE_S = 10.0
_SETTLE_PATIENCE_S = 600.0

log = Log(__name__)


def call_s(leader: Leader) -> float:
    """Return the seconds for which the lease must still be valid when a deletion is sent to the cloud.

    For a short lease this is two thirds of its duration. The lease could rarely satisfy the full time between two
    renewals.
    """
    return min(CALL_S, leader.leader_elect_lease_duration_s * _SHARE_OF_LEASE) if leader.leader_elect else CALL_S


class MachineDeleter(Protocol):
    """Deletes machines; `actuation.cloud.Cloud` is one. May be called beside the deciding thread."""

    def delete_nodes(self, group_id: str, nodes: Sequence[NodeRef], *, force: bool = False) -> DeleteResult:
        """Delete machines with their nodes; never raises `ProviderError`."""
        ...

    def prepare_delete(self, group_id: str, nodes: Sequence[NodeRef]) -> None:
        """Raise the `ProviderError` that a deletion would raise, if the group can tell in advance."""
        ...

    def gone_of(self, group_id: str, nodes: Sequence[NodeRef]) -> frozenset[str] | None:
        """Return the names of those nodes whose machine is gone or being deleted; None if the cloud cannot tell now."""
        ...


class DeletionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that are being deleted, and the nodes that stay with the reason."""

    going: tuple[RemovalJob, ...] = ()
    kept: tuple[tuple[RemovalJob, Aborted], ...] = ()


class MachineDeletion:
    """Deletes the machines of nodes that are ready for deletion. Threads may share it."""

    def __init__(
        self, machines: MachineDeleter, recheck: Recheck, evictor: Evictor, gate: WriteGate, call_s: float
    ) -> None:
        """`call_s`: seconds for which the lease must still be valid when a deletion is sent to the cloud."""
        self._machines = machines
        self._recheck = recheck
        self._evictor = evictor
        self._gate = gate
        self._call_s = call_s

    def prepare(self, job: RemovalJob) -> None:
        """Ask the cloud in advance whether it would refuse the deletion, so that no pod is evicted in vain.

        Raises `Aborted`.
        """
        try:
            self._machines.prepare_delete(job.removal.group, (ref_of(job.removal.node),))
        except Transient as error:
            raise Aborted(AbortReason.UNREADABLE, f"the cloud cannot be asked: {error}") from error
        except ProviderError as error:
            raise Aborted(AbortReason.REFUSED_AHEAD, str(error)) from error

    def delete(self, jobs: Sequence[RemovalJob]) -> DeletionResult:
        """Delete the machines of one group's nodes in one call. Raises `LeadershipLost` and `Stopping`."""
        refs, kept = self._last_look(jobs)
        if not refs:
            return DeletionResult(kept=tuple(kept))
        deleted = self._machines.delete_nodes(jobs[0].removal.group, tuple(refs.values()))
        if not deleted.certain:
            deleted = self._settled(jobs[0].removal.group, tuple(refs.values()), deleted)
        sent = [job for job in jobs if job.name in refs]
        kept += [(job, _refusal(deleted)) for job in sent if job.name not in deleted.gone]
        return DeletionResult(going=tuple(job for job in sent if job.name in deleted.gone), kept=tuple(kept))

    def _last_look(self, jobs: Sequence[RemovalJob]) -> tuple[dict[str, NodeRef], list[tuple[RemovalJob, Aborted]]]:
        """Check every node again, and once more if the lease became short in the meantime.

        Returns the nodes that may be deleted now, and those that may not.
        """
        for _ in range(_LOOKS):
            if not self._gate.wait_for_lease(self._call_s):
                break
            refs, kept = self._checked(jobs)
            if not refs or self._gate.lease_lasts(self._call_s):
                return refs, kept
        short = Aborted(AbortReason.NO_LEASE, f"the lease never outlasts a call of {self._call_s:g} s")
        return {}, [(job, short) for job in jobs]

    def _checked(self, jobs: Sequence[RemovalJob]) -> tuple[dict[str, NodeRef], list[tuple[RemovalJob, Aborted]]]:
        refs: dict[str, NodeRef] = {}
        kept: list[tuple[RemovalJob, Aborted]] = []
        returned: list[Pod] = []
        for job in jobs:
            try:
                node, pods = self._recheck.before_deletion(job)
            except Aborted as aborted:
                kept.append((job, aborted))
                if job.batch is not None:
                    broken = Aborted(
                        AbortReason.ATOMIC, f"node {job.name} of the same group has to stay: {aborted.message}"
                    )
                    return {}, [*kept, *((other, broken) for other in jobs if other is not job)]
            else:
                refs[job.name] = ref_of(node)
                returned += pods
        self._evictor.last_call(returned)
        return refs, kept

    def _settled(self, group: str, refs: Sequence[NodeRef], deleted: DeleteResult) -> DeleteResult:
        """Ask the cloud which machines are being deleted, until it can tell or the waiting time is over."""
        give_up = self._gate.now().mono + _SETTLE_PATIENCE_S
        while self._gate.now().mono < give_up:
            self._gate.pause(_SETTLE_PAUSE_S)
            gone = self._machines.gone_of(group, refs)
            if gone is not None:
                return DeleteResult(gone, deleted.error)
        log.error("scale_down.outcome_unknown", group=group, nodes=[ref.name for ref in refs])
        return deleted


def _refusal(deleted: DeleteResult) -> Aborted:
    error = deleted.error
    if error is None:
        return Aborted(AbortReason.REFUSED, "the cloud kept the machine")
    why = AbortReason.MIN_SIZE if error.code == BELOW_MINIMUM else AbortReason.REFUSED
    return Aborted(why, error.message or error.code, certain=deleted.certain)
