"""Plays a simulation: the real loop against the sandbox cluster, in virtual time."""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from autoscaler.config.tree import Config
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.scaledown.notices import NOTICE, annotation_of
from autoscaler.simulator.simulation.events import Interruption, ScheduledEvent, Unhealthy, condition_and_status
from autoscaler.simulator.simulation.file import JobStream, Simulation, seconds_of
from autoscaler.simulator.simulation.measure import MeasuringListener, Meter
from autoscaler.simulator.simulation.result import SimulationResult, assertion_of, wait_histogram
from autoscaler.simulator.simulation.traffic import (
    JobRun,
    WorkloadResize,
    job_runs_of,
    objects_of,
    resizes_of,
    too_late,
)
from autoscaler.simulator.simulation.windows import WindowMeter
from autoscaler.simulator.world import Attached, World
from cloudprovider.duration import parse_duration_s, show_duration
from cloudprovider.interface import NotFound, NoticeKind, State

SimulationProgress = Callable[[int, int], None]
"""Called with the number of measurements so far, and their total."""
_TIMING = Timing(pull_s=5.0, start_s=1.0, register_s=5.0, ready_s=10.0)


def simulate(
    simulation: Simulation,
    config: Config,
    *,
    seed: int | None = None,
    configuration: str = "",
    progress: SimulationProgress = lambda done, total: None,
) -> SimulationResult:
    """Play a simulation under a configuration. The same arguments give the same result, to the byte.

    `seed` overrides the file's own. Raises `ConfigError` if the configuration does not suit the cloud.
    """
    effective_seed = simulation.file.seed if seed is None else seed
    cloud = msgspec.structs.replace(simulation.cloud, seed=effective_seed)
    listener = MeasuringListener()
    with World(
        config,
        cloud,
        objects_of(simulation),
        seed=effective_seed,
        wall=simulation.start_s,
        timing=_TIMING,
        attached=Attached(listener),
    ) as world:
        windows = WindowMeter(world, config, simulation.start_s, simulation.duration_s)
        meter = Meter(world, listener, windows, simulation.sample_s)
        without_machines: dict[str, list[float]] = {}
        _schedule(simulation, world, effective_seed, without_machines)
        samples = int(simulation.duration_s // simulation.sample_s)
        for number in range(samples):
            world.run_for(simulation.sample_s)
            meter.sample()
            progress(number + 1, samples)
        summary = meter.summary()
        meter.close()
    return SimulationResult(
        scenario=simulation.name,
        seed=effective_seed,
        configuration=configuration,
        summary=summary,
        assertions=[assertion_of(expected, summary) for expected in simulation.file.assertions],
        waits=wait_histogram(meter.waits),
        timeline=meter.timeline(),
        warnings=[
            *too_late(simulation),
            *(_no_machine(place, times) for place, times in without_machines.items()),
        ],
    )


def _no_machine(place: str, times_s: Sequence[float]) -> str:
    first, more = show_duration(times_s[0]), len(times_s) - 1
    again = f" and {more} more times" if more else ""
    return f"{place}: the group had no machine at {first}{again}; choose a time when it has some"


def _schedule(simulation: Simulation, world: World, seed: int, without_machines: dict[str, list[float]]) -> None:
    """Schedule the actions of the file; `without_machines` collects places of events that found no machine."""
    for workload in simulation.file.workloads:
        for resize in resizes_of(simulation, workload, seed):
            if resize.at_s > 0:
                world.at(resize.at_s, partial(_resize, world, resize))
    for stream in simulation.file.jobs:
        _schedule_jobs(simulation, world, stream, seed)
    for index, event in enumerate(simulation.file.events):
        for at_s in _event_times(event, simulation.duration_s):
            world.at(at_s, partial(_trigger, world, event))
            for key, blow in (("interruption", event.interruption), ("unhealthy", event.unhealthy)):
                if blow is not None:
                    world.at(at_s, partial(_strike, world, blow, without_machines, f"events[{index}].{key}"))


def _schedule_jobs(simulation: Simulation, world: World, stream: JobStream, seed: int) -> None:
    announced = stream.announced
    for job in job_runs_of(simulation, stream, seed):
        world.at(job.at_s, partial(world.apply, job.job))
        if announced is not None:
            announced_s = max(0.0, job.at_s - parse_duration_s(announced.ahead))
            lasts_s = parse_duration_s(announced.lasts)
            world.at(announced_s, partial(world.announce, announced.target, stream.pods, lasts_s))
        if job.until_s < simulation.duration_s:
            world.at(job.until_s, partial(_clean_up, world, job))


def _resize(world: World, resize: WorkloadResize) -> None:
    world.scale(resize.name, resize.replicas, namespace=resize.namespace)


def _clean_up(world: World, job: JobRun) -> None:
    metadata = job.job["metadata"]
    world.delete("jobs.batch", metadata["name"], namespace=metadata["namespace"])


def _event_times(event: ScheduledEvent, duration_s: float) -> list[float]:
    first = parse_duration_s(event.at)
    if not event.every:
        return [first]
    every_s = parse_duration_s(event.every)
    return [first + number * every_s for number in range(int(max(0.0, duration_s - first) // every_s) + 1)]


def _trigger(world: World, event: ScheduledEvent) -> None:
    if event.api_down:
        world.disconnect_api(parse_duration_s(event.api_down))
    if event.leader_lost:
        world.lose_leadership(parse_duration_s(event.leader_lost))
    if event.restart:
        world.restart(parse_duration_s(event.restart))
    if event.clock_jump:
        world.jump_clock(seconds_of(event.clock_jump))
    if event.release is not None:
        world.cloud.group(event.release.group).release([version.version for version in event.release.versions])
    if event.apply:
        world.apply(*event.apply)


def _strike(world: World, blow: Interruption | Unhealthy, without_machines: dict[str, list[float]], place: str) -> None:
    """Let it happen to the oldest machines of its group. The group's target stays, as in a real cloud."""
    mine = [
        machine for machine in world.cloud.machines() if machine.group == blow.group and machine.state is State.RUNNING
    ]
    if not mine:
        without_machines.setdefault(place, []).append(world.elapsed_s)
    for machine in sorted(mine, key=lambda machine: (machine.born_s, machine.name))[: blow.nodes]:
        if isinstance(blow, Unhealthy):
            world.set_condition(machine.name, *condition_and_status(blow.condition))
        elif blow.notice:
            ahead_s = seconds_of(blow.notice)
            _announce(world, machine.name, ahead_s)
            world.at(ahead_s, partial(_take_back, world, machine.provider_id))
        else:
            world.cloud.remove_machine(machine.provider_id)


def _announce(world: World, node: str, ahead_s: float) -> None:
    """Write the notice to the node, if the machine has become one."""
    text = annotation_of(NoticeKind.SPOT_INTERRUPTION, world.clock.now().wall + ahead_s)
    with contextlib.suppress(ApiError):
        world.storage.patch("nodes", node, {"metadata": {"annotations": {NOTICE: text}}})


def _take_back(world: World, provider_id: str) -> None:
    with contextlib.suppress(NotFound):  # the autoscaler has deleted it in the meantime
        world.cloud.remove_machine(provider_id)
