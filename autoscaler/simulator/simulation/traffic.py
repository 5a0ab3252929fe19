"""Computes in advance the workloads of a simulation: their objects, and all of their changes."""

import math
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from autoscaler.config.cron import parse_period
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.kubelet import DURATION
from autoscaler.simulator.simulation.file import (
    JobStream,
    Simulation,
    Wave,
    Workload,
    days_in,
    minute_of,
    minutes_of,
)
from cloudprovider.duration import parse_duration_s

WORKLOAD = "simulation.autoscaler/workload"
"""Label of measured pods; its value is the workload."""
_DAY_S = 86400.0
_CLEAN_UP_AFTER_S = 600.0
"""Seconds that a Job remains after its pods should have ended."""


class WorkloadResize(msgspec.Struct, frozen=True):
    """A workload gets another number of replicas, this many seconds into the simulation."""

    at_s: float
    namespace: str
    name: str
    replicas: int


class JobRun(msgspec.Struct, frozen=True):
    """A Job is created, and deleted later. Times are seconds into the simulation."""

    at_s: float
    until_s: float
    job: JsonObject


def objects_of(simulation: Simulation) -> Iterator[JsonObject]:
    """Yield the objects that exist from the start: namespaces, workloads, budgets, then the file's own objects."""
    file = simulation.file
    namespaces = {workload.namespace for workload in file.workloads} | {stream.namespace for stream in file.jobs}
    for name in sorted(namespaces - {"default", "kube-system"}):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for workload in file.workloads:
        first = next((resize.replicas for resize in resizes_of(simulation, workload, 0) if resize.at_s <= 0), None)
        yield _deployment(workload, workload.replicas if first is None else first)
        if workload.min_available is not None:
            yield _budget(workload)
    yield from file.objects


def _deployment(workload: Workload, replicas: int) -> JsonObject:
    metadata = {"name": workload.name, "namespace": workload.namespace, "labels": {"app": workload.name}}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": workload.name}},
        "template": _template(workload.name, workload.requests, workload.spec, workload.annotations),
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _template(
    name: str, requests: Mapping[str, str], spec: Mapping[str, Any], annotations: Mapping[str, str]
) -> JsonObject:
    container = {"name": name, "image": f"{name}:1", "resources": {"requests": dict(requests)}}
    metadata = {"labels": {"app": name, WORKLOAD: name}, "annotations": dict(annotations)}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def _budget(workload: Workload) -> JsonObject:
    spec = {"minAvailable": workload.min_available, "selector": {"matchLabels": {"app": workload.name}}}
    metadata = {"name": workload.name, "namespace": workload.namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def resizes_of(simulation: Simulation, workload: Workload, seed: int) -> Iterator[WorkloadResize]:
    """Yield the changes of one workload in order of time; one at or before 0 sets the size at the start."""
    sizes = [(parse_duration_s(step.at), step.replicas) for step in workload.steps]
    for daily in workload.daily:
        days, minute = days_in(daily.days), minute_of(daily.time)
        sizes.extend((at_s, daily.replicas) for at_s in _times_of_day(simulation, days, minute))
    if workload.wave is not None:
        sizes.extend(
            _wave_sizes(simulation, workload.wave, random.Random(f"{seed}/{workload.namespace}/{workload.name}"))
        )
    sizes.sort(key=lambda size: size[0])
    for at_s, replicas in sizes:
        if at_s <= simulation.duration_s:
            yield WorkloadResize(at_s, workload.namespace, workload.name, replicas)


def _times_of_day(simulation: Simulation, days: frozenset[int], minute: int) -> Iterator[float]:
    """Yield the seconds into the simulation at which a time of day occurs on such days; none before the start."""
    for midnight in _midnights(simulation):
        moment = midnight.replace(hour=minute // 60, minute=minute % 60)
        at_s = moment.timestamp() - simulation.start_s
        if moment.weekday() in days and 0 <= at_s <= simulation.duration_s:
            yield at_s


def _midnights(simulation: Simulation) -> Iterator[datetime]:
    """Yield the beginning of each day that the simulation touches, in its time zone."""
    first = datetime.fromtimestamp(simulation.start_s, UTC).astimezone(simulation.zone)
    day = first.replace(hour=0, minute=0, second=0, microsecond=0)
    while day.timestamp() <= simulation.start_s + simulation.duration_s:
        yield day
        day = (day + timedelta(days=1)).replace(hour=0)


def _wave_sizes(simulation: Simulation, wave: Wave, rng: random.Random) -> Iterator[tuple[float, int]]:
    every_s, peak_s = parse_duration_s(wave.every), 60.0 * minute_of(wave.peak)
    for number in range(int(simulation.duration_s // every_s) + 1):
        at_s = number * every_s
        local = datetime.fromtimestamp(simulation.start_s + at_s, UTC).astimezone(simulation.zone)
        time_of_day_s = local.hour * 3600 + local.minute * 60 + local.second
        share = (1 + math.cos(2 * math.pi * (time_of_day_s - peak_s) / _DAY_S)) / 2
        exact = wave.low + (wave.high - wave.low) * share
        yield at_s, max(0, round(exact * (1 + wave.noise * rng.uniform(-1, 1))))


def job_runs_of(simulation: Simulation, stream: JobStream, seed: int) -> Iterator[JobRun]:
    """Yield the Jobs of one stream in the order in which they are due, without jitter."""
    rng = random.Random(f"{seed}/{stream.namespace}/{stream.name}")
    jitter_s, runs_s = parse_duration_s(stream.jitter), parse_duration_s(stream.runs_for)
    days, (first, last) = days_in(stream.days), minutes_of(stream.between)
    for number, due_s in enumerate(_due(simulation, stream)):
        at_s = due_s + rng.uniform(0, jitter_s)
        local = datetime.fromtimestamp(simulation.start_s + at_s, UTC).astimezone(simulation.zone)
        minute = 60 * local.hour + local.minute
        if local.weekday() in days and first <= minute <= last and at_s <= simulation.duration_s:
            yield JobRun(at_s, at_s + max(3600.0, 10 * runs_s) + _CLEAN_UP_AFTER_S, _job(stream, number, runs_s))


def _due(simulation: Simulation, stream: JobStream) -> Iterator[float]:
    """Yield when Jobs of a stream are due, in seconds into the simulation, on any day and at any time of day."""
    if stream.cron:
        yield from _cron_moments(simulation, stream.cron)
        return
    first_s = parse_duration_s(stream.at) if stream.at else 0.0
    if not stream.every:
        yield first_s
        return
    every_s = parse_duration_s(stream.every)
    for number in range(int(max(0.0, simulation.duration_s - first_s) // every_s) + 1):
        yield first_s + number * every_s


def _cron_moments(simulation: Simulation, text: str) -> Iterator[float]:
    period = parse_period(text)
    for at_s in range(int(-simulation.start_s % 60), int(simulation.duration_s) + 1, 60):
        if period.holds(datetime.fromtimestamp(simulation.start_s + at_s, UTC).astimezone(simulation.zone)):
            yield float(at_s)


def never_due(simulation: Simulation, seed: int) -> Iterator[str]:
    """Yield a line for each stream that creates no Job, because that is probably a mistake in the file."""
    for index, stream in enumerate(simulation.file.jobs):
        if next(job_runs_of(simulation, stream, seed), None) is None:
            yield f"jobs[{index}].{_why_never(simulation, stream)}"


def too_late(simulation: Simulation) -> Iterator[str]:
    """Yield a line for each step and each event after the end of the simulation."""
    times = [
        (f"workloads[{index}].steps[{number}].at", step.at)
        for index, workload in enumerate(simulation.file.workloads)
        for number, step in enumerate(workload.steps)
    ]
    times += [(f"events[{index}].at", event.at) for index, event in enumerate(simulation.file.events)]
    for field_path, moment in times:
        if parse_duration_s(moment) > simulation.duration_s:
            yield f"{field_path}: {moment} is {_after_the_end(simulation)}"


def _after_the_end(simulation: Simulation) -> str:
    return (
        f"after the end and does not happen; make duration ({simulation.file.duration}) longer, or let it come earlier"
    )


def _why_never(simulation: Simulation, stream: JobStream) -> str:
    """Return the field that prevents every Job of a stream, and the correction."""
    due = list(_due(simulation, stream))
    if stream.at and due[0] > simulation.duration_s:
        return f"at: {stream.at} is {_after_the_end(simulation)}"
    if stream.cron and not due:
        return f"cron: {stream.cron} holds at no minute of the simulation; change it, or make duration longer"
    start = datetime.fromtimestamp(simulation.start_s + due[0], UTC).astimezone(simulation.zone)
    field, value = ("between", stream.between) if stream.between else ("days", stream.days)
    return (
        f"{field}: no Job of {stream.name} comes within {value}: the first is due on {start:%a} at {start:%H:%M} "
        f"({simulation.file.time_zone}); write for example cron: {_suggested_cron(stream)}"
    )


def _suggested_cron(stream: JobStream) -> str:
    first, _ = minutes_of(stream.between)
    days = ",".join(str((day + 1) % 7) for day in sorted(days_in(stream.days)))
    return f'"{first % 60} {first // 60} * * {days if len(days) < 13 else "*"}"'


def _job(stream: JobStream, number: int, runs_s: float) -> JsonObject:
    template = _template(stream.name, stream.requests, {"restartPolicy": "Never", **stream.spec}, {})
    template["metadata"]["annotations"][DURATION] = f"{runs_s:g}s"
    spec = {"parallelism": stream.pods, "completions": stream.pods, "template": template}
    metadata = {"name": f"{stream.name}-{number}", "namespace": stream.namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
