"""Jobs: creates pods until enough have succeeded, or too many have failed."""

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject, rfc3339, unix_seconds
from autoscaler.sandbox.actors.event_recorder import Recorder
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.replicas import PodController, delete_pod, deletion_order, pod_for, report
from autoscaler.sandbox.actors.wire import (
    controller_of,
    holds,
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    key_of,
    new_condition,
    phase_of,
    uid_of,
)
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage

_JOBS = "jobs.batch"


class Jobs(PodController):
    """The Job controller. Completion indexes and pod failure policies are left out.

    A pod that is deleted before it ends is replaced and counts as neither success nor failure; one that ended counts
    even after its node took it along.
    """

    def __init__(self, storage: Storage, informers: SharedInformers, recorder: Recorder) -> None:
        self._ended: dict[str, dict[str, str]] = {}
        super().__init__(storage, informers, recorder, _JOBS)

    def _owner_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        super()._owner_changed(old, new)
        if old is not None and (new is None or uid_of(old) != uid_of(new)):
            self._ended.pop(uid_of(old), None)

    def _pod_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        for pod in (old, new):
            owner = controller_of(pod) if pod is not None else None
            if pod is None or owner is None or owner["kind"] != "Job":
                continue
            key = (key_of(pod)[0], str(owner["name"]))
            self._queue.add(key)
            if new is None and key not in self._owners.objects and not self._owned.of(owner["uid"]):
                self._ended.pop(owner["uid"], None)
            elif is_finished(pod):
                self._ended.setdefault(owner["uid"], {})[uid_of(pod)] = phase_of(pod)

    def _sync(self, key: Key, now: Instant) -> None:
        job = self._owners.objects.get(key)
        if job is None or is_terminating(job):
            return
        if holds(job, "Complete") or holds(job, "Failed"):
            self._expire(key, job, now)
            return
        spec, pods = job["spec"], self._owned.of(uid_of(job)).values()
        phases = list(self._ended.get(uid_of(job), {}).values())
        succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
        active = [pod for pod in pods if is_active(pod)]
        finished_type = _finished_type(spec, succeeded, failed, len(active))
        desired = 0 if finished_type is not None or spec.get("suspend") else _desired_pods(spec, succeeded)
        for pod in deletion_order(active)[: max(0, len(active) - desired)]:
            delete_pod(self._storage, pod)
        for _ in range(desired - len(active)):
            self._storage.create("pods", pod_for(job, spec["template"]))
        terminating = sum(is_terminating(pod) and not is_finished(pod) for pod in pods)
        running = active[:desired] if finished_type is not None else active
        counts = {"succeeded": succeeded, "failed": failed, "active": len(running), "terminating": terminating}
        status = {**counts, "ready": sum(is_ready(pod) for pod in running)}
        report(self._storage, _JOBS, job, {**status, **_finish_fields(job, finished_type, now)})

    def _expire(self, key: Key, job: JsonObject, now: Instant) -> None:
        """Delete a finished Job whose time to live is over."""
        lives_s, ended = job["spec"].get("ttlSecondsAfterFinished"), (job.get("status") or {}).get("completionTime")
        if lives_s is None or ended is None:
            return
        left_s = unix_seconds(ended) + lives_s - now.wall
        if left_s <= 0:
            self._storage.delete(_JOBS, key[1], namespace=key[0])
        else:
            self._queue.add_at(key, now.mono + left_s)


def _desired_pods(spec: JsonObject, succeeded: int) -> int:
    """Pods that should run now. Without completions, the first success starts no more."""
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    if completions is None:
        return 0 if succeeded else parallelism
    return max(0, min(parallelism, int(completions) - succeeded))


def _finished_type(spec: JsonObject, succeeded: int, failed: int, active: int) -> str | None:
    """`Complete`, `Failed`, or None while the Job goes on."""
    completions = spec.get("completions")
    complete = succeeded > 0 and active == 0 if completions is None else succeeded >= int(completions)
    if complete:
        return "Complete"
    return "Failed" if failed > int(spec.get("backoffLimit", 6)) else None


def _finish_fields(job: JsonObject, finished_type: str | None, now: Instant) -> JsonObject:
    status, timestamp = job.get("status") or {}, rfc3339(now.wall)
    suspended = bool(job["spec"].get("suspend"))
    fields: JsonObject = {}
    if not suspended and not status.get("startTime"):
        fields["startTime"] = timestamp
    if suspended and finished_type is None:
        message = "Job suspended"
        fields["conditions"] = [
            new_condition(job, "Suspended", holds=True, reason="JobSuspended", message=message, wall=now.wall)
        ]
    elif finished_type is None and status.get("conditions"):
        fields["conditions"] = [
            new_condition(job, "Suspended", holds=False, reason="JobResumed", message="Job resumed", wall=now.wall)
        ]
    if finished_type is not None:
        reason = "CompletionsReached" if finished_type == "Complete" else "BackoffLimitExceeded"
        message = "Reached expected number of succeeded pods"
        if finished_type == "Failed":
            message = "Job has reached the specified backoff limit"
        fields["completionTime"] = timestamp
        fields["conditions"] = [
            new_condition(job, finished_type, holds=True, reason=reason, message=message, wall=now.wall),
        ]
    return fields
