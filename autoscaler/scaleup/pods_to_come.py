"""Counts the pods that controllers have yet to create, as fake pods (`--enable-proactive-scaleup`).

Source: Cluster Autoscaler's `processors/podinjection`. A controller without any pod is left alone: nothing tells what
its pods are like. Unlike there, so is one that is suspended, is being deleted, or whose newest pod is gated.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from autoscaler.objects.class_form import ClassForm
from autoscaler.objects.pod import FAKE_POD, Pod, PodClass, Unscheduled
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import Job, Replicated
from autoscaler.scaleup.fake_pods import to_come
from autoscaler.snapshot.cluster import ClusterView, Related

_PARALLEL = "Parallel"


def pods_to_come(view: ClusterView, limit: int, interner: PodInterner) -> tuple[Pod, ...]:
    """Return pods like the newest of each controller, as many as it lacks; at most `limit` in all, so that no number
    of replicas costs more.
    """
    wanted = {uid: count for uid, count in _wanted(view.related) if count > 0}
    have = Counter(uid for pod in _pods(view) if (uid := _controller(pod.cls)) in wanted)
    missing = {uid: wanted[uid] - count for uid, count in have.items() if wanted[uid] > count}
    samples: dict[str, Pod] = {}
    for pod in _pods(view) if missing else ():
        uid = _controller(pod.cls)
        if uid in missing and (uid not in samples or pod.created > samples[uid].created):
            samples[uid] = pod
    pods: list[Pod] = []
    for uid, sample in samples.items():
        if sample.unscheduled is None or sample.unscheduled.reason != "SchedulingGated":
            pods.extend(_copies(uid, sample, min(missing[uid], limit - len(pods)), interner))
    return tuple(pods)


def within_limit(pods: tuple[Pod, ...], limit: int) -> tuple[Pod, ...]:
    """Return the pods without as many of those to come as there are too many; the first go first."""
    excess = len(pods) - limit
    kept: list[Pod] = []
    for pod in pods:
        if excess > 0 and to_come(pod.cls):
            excess -= 1
        else:
            kept.append(pod)
    return tuple(kept)


def _wanted(related: Related) -> Iterator[tuple[str, int]]:
    """Yield the uid of each controller and how many pods it wants."""
    parallel = (one for one in related.stateful_sets.values() if one.spec.pod_management_policy == _PARALLEL)
    replicated: Iterable[Replicated] = chain(related.replica_sets.values(), parallel)
    for controller in replicated:
        if controller.metadata.deletion_timestamp is None:
            yield controller.uid, controller.spec.replicas or 0
    for job in related.jobs.values():
        if job.metadata.deletion_timestamp is None and not job.spec.suspend:
            yield job.uid, _pods_of(job)


def _pods_of(job: Job) -> int:
    """Return how many pods a Job wants at a time; one without completions wants no more once a pod has succeeded."""
    spec, succeeded = job.spec, job.status.succeeded
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None and spec.parallelism is not None and succeeded == 0:
        return parallelism
    return min((1 if spec.completions is None else spec.completions) - succeeded, parallelism)


def _pods(view: ClusterView) -> Iterator[Pod]:
    """Yield the pods that exist, without those that the scheduler has not judged: they count as yet to come."""
    yield from chain.from_iterable(view.pods)
    yield from (pod for pod in view.pending if pod.unscheduled is not None)


def _controller(cls: PodClass) -> str:
    return "" if cls.owner is None else cls.owner.uid


def _copies(uid: str, sample: Pod, count: int, interner: PodInterner) -> Iterator[Pod]:
    form = msgspec.msgpack.decode(sample.cls.key, type=ClassForm)
    cls = interner.class_from(msgspec.structs.replace(form, annotations={**form.annotations, **FAKE_POD}))
    for number in range(1, count + 1):
        yield Pod(
            name=f"{sample.name}-copy-{number}",
            cls=cls,
            uid=f"{uid}-{number}",
            created=sample.created,
            unscheduled=Unscheduled("Unschedulable", None),
        )
