"""Drains a node before its deletion: evicts pods by priority, and waits for each priority group."""

from collections.abc import Iterable, Sequence

import msgspec

from autoscaler.actuation.evict import EvictionRetry, Evictor
from autoscaler.actuation.recheck import Recheck
from autoscaler.actuation.removal_job import RemovalJob
from autoscaler.actuation.removal_outcome import Aborted, AbortReason, Eviction
from autoscaler.actuation.write_gate import WriteGate
from autoscaler.config.scaledown import Drain
from autoscaler.config.syntax import DrainPriority
from autoscaler.logs import Log
from autoscaler.objects.pod import ENABLE_DS_EVICTION, Pod
from autoscaler.scaledown.drain import NodeDrain

DELAY_DELETION = "delay-deletion.cluster-autoscaler.kubernetes.io/"

_POLL_S = 5.0
_HEADROOM_S = 30.0
_RETRY_S = 10.0
_DAEMON_PATIENCE = EvictionRetry(10.0, 3.0)

log = Log(__name__)


class DrainGroup(msgspec.Struct, frozen=True):
    """Pods that are evicted together; `limit_s` caps their termination time in seconds, 0 means no cap."""

    pods: tuple[Pod, ...]
    limit_s: int


def by_priority(pods: Iterable[Pod], priorities: Sequence[DrainPriority]) -> tuple[DrainGroup, ...]:
    """Group pods by priority, ascending. Each pod uses the highest entry that is not above its own priority.

    Pods below every entry use the lowest. `priorities` ascend. The behaviour is that of Cluster Autoscaler's
    --drain-priority-config.
    """
    groups: dict[DrainPriority, list[Pod]] = {entry: [] for entry in priorities}
    for pod in pods:
        priority = pod.cls.priority or 0
        reached = [entry for entry in priorities if entry.priority <= priority]
        groups[reached[-1] if reached else priorities[0]].append(pod)
    return tuple(DrainGroup(tuple(some), entry.max_graceful_termination_sec) for entry, some in groups.items() if some)


def daemons_to_evict(daemons: Iterable[Pod], by_default: bool) -> tuple[Pod, ...]:
    """Return the DaemonSet pods to evict: an annotation on the pod overrides the flag both ways."""
    overrides = {"true": True, "false": False}
    return tuple(pod for pod in daemons if overrides.get(pod.cls.annotations.get(ENABLE_DS_EVICTION, ""), by_default))


class Drainer:
    """Drains nodes. Threads may share it; raises `Aborted`, `LeadershipLost` and `Stopping`."""

    def __init__(self, evictor: Evictor, recheck: Recheck, gate: WriteGate, config: Drain) -> None:
        self._evictor = evictor
        self._recheck = recheck
        self._gate = gate
        self._config = config

    def empty(self, job: RemovalJob, leaving: NodeDrain) -> None:
        """Evict every pod that must leave the node, and DaemonSet pods as configured, and wait until they are gone."""
        config, drained = self._config, job.removal.drained
        by_default = (
            config.daemonset_eviction_for_occupied_nodes if drained else config.daemonset_eviction_for_empty_nodes
        )
        daemons = daemons_to_evict(leaving.daemons, by_default)
        if drained and config.drain_priority_config:
            for group in by_priority((*leaving.move, *daemons), config.drain_priority_config):
                self._evict_group(job, group, ())
        elif leaving.move:
            self._evict_group(job, DrainGroup(leaving.move, config.max_graceful_termination_sec), daemons)
        else:
            self._evict_daemons(job, daemons)

    def await_consent(self, job: RemovalJob) -> None:
        """Wait while annotations on the node delay its deletion, up to the configured time."""
        give_up = self._gate.now().mono + self._config.node_deletion_delay_timeout_s
        while True:
            node = self._recheck.while_draining(job)
            if node is not None and not any(key.startswith(DELAY_DELETION) for key in node.annotations):
                return
            if self._gate.now().mono >= give_up:
                log.warning("scale_down.delay_over", node=job.name)
                return
            self._gate.pause(_POLL_S)

    def _evict_daemons(self, job: RemovalJob, daemons: Sequence[Pod]) -> None:
        self._evictor.evict(
            job,
            (),
            daemons,
            limit_s=self._config.max_graceful_termination_sec,
            patience=_DAEMON_PATIENCE,
            check=lambda: self._recheck.while_draining(job),
        )

    def _evict_group(self, job: RemovalJob, group: DrainGroup, optional: Sequence[Pod]) -> None:
        results = self._evictor.evict(
            job,
            group.pods,
            optional,
            limit_s=group.limit_s,
            patience=EvictionRetry(self._config.max_pod_eviction_time_s, _RETRY_S),
            check=lambda: self._recheck.while_draining(job),
        )
        failed = [f"{result.pod.key}: {result.error}" for result in self._overruled(job, group, results)]
        if failed:
            raise Aborted(AbortReason.NOT_EVICTED, f"failed to evict {len(failed)} pods: {'; '.join(failed)}")
        self._await_departure(job, group)

    def _overruled(self, job: RemovalJob, group: DrainGroup, results: Sequence[Eviction]) -> list[Eviction]:
        """Delete pods that a spent budget keeps if the removal overrules budgets; return the other failures."""
        failed = [result for result in results if not result.succeeded]
        if not job.removal.overrules:
            return failed
        return [again for result in failed if not (again := self._insist(job, group, result.pod)).succeeded]

    def _insist(self, job: RemovalJob, group: DrainGroup, pod: Pod) -> Eviction:
        self._recheck.while_draining(job)
        budget = self._recheck.spent_budget(pod)
        return self._evictor.insist(job, pod, budget, limit_s=group.limit_s)

    def _await_departure(self, job: RemovalJob, group: DrainGroup) -> None:
        """Wait until all pods of a group have ended or left the node; a forced removal goes on when time is up."""
        own_s = max((pod.cls.grace_s for pod in group.pods), default=0)
        longest_s = min(own_s, group.limit_s or own_s) if job.removal.forced else group.limit_s or own_s
        give_up = self._gate.now().mono + longest_s + _HEADROOM_S
        pods: Sequence[Pod] = group.pods
        while True:
            remaining = self._recheck.remaining(job, pods)
            if remaining is not None:
                pods = remaining
            if not pods:
                return
            if self._gate.now().mono >= give_up:
                names = ", ".join(pod.key for pod in pods)
                if job.removal.forced:
                    log.warning("scale_down.pods_left", node=job.name, pods=[pod.key for pod in pods])
                    return
                raise Aborted(AbortReason.PODS_REMAIN, f"pods remaining after timeout: {names}")
            self._gate.pause(_POLL_S)
            self._recheck.while_draining(job)
