"""The simulation file: a cloud, changing workloads, faults, and assertions about the outcome.

JSON or YAML, camelCase keys, unknown keys are errors. Times into the simulation and durations are Go durations (`90s`,
`36h`); times of day are `HH:MM` in the file's time zone. Node groups, prices and options have the form of a scenario
file, and `settings` has the form of a configuration file.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import yaml

from autoscaler.config.cron import parse_period
from autoscaler.config.load import from_documents
from autoscaler.config.syntax import parse_zone
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.objects import quantity
from autoscaler.objects.meta import unix_seconds
from autoscaler.scenario.file_reader import decode_strict, read_bytes
from autoscaler.simulator.simulation.events import (
    HAPPENINGS,
    Interruption,
    ScheduledEvent,
    Unhealthy,
    condition_and_status,
)
from cloudprovider.duration import parse_duration_s
from cloudprovider.prices import decode_prices
from cloudprovider.problems import Problems
from cloudprovider.quoted import quoted
from cloudprovider.static.file import decode_group
from cloudprovider.static.spec import GPU_LABEL, BootDelay, CloudSpec, GroupSpec, MachineSpec
from cloudprovider.structure import Strict

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_BOOT = BootDelay(60.0, 60.0)
"""Boot time of groups that do not set one."""
_MAX_S = 366 * 86400.0


class DailyStep(Strict, frozen=True, kw_only=True):
    """A number of replicas from a time of day on."""

    time: str
    replicas: int
    days: str = "mon-sun"
    """Days and ranges of days, such as `mon-fri` or `sat,sun`."""


class ReplicaStep(Strict, frozen=True, kw_only=True):
    """A number of replicas from a moment of the simulation on."""

    at: str
    replicas: int


class Wave(Strict, frozen=True, kw_only=True):
    """Replicas that swing between two numbers once a day."""

    low: int
    high: int
    peak: str = "14:00"
    every: str = "10m"
    noise: float = 0.0
    """Maximum share by which each number deviates, uniformly distributed."""


class Workload(Strict, frozen=True, kw_only=True):
    """A Deployment whose size changes."""

    name: str
    namespace: str = "default"
    requests: dict[str, str] = {}
    replicas: int = 0
    spec: dict[str, Any] = {}
    """Further fields of the pods' spec."""
    annotations: dict[str, str] = {}
    """Annotations of the pods."""
    min_available: int | str | None = None
    """Creates a PodDisruptionBudget."""
    daily: list[DailyStep] = []
    steps: list[ReplicaStep] = []
    wave: Wave | None = None


class AnnouncedWork(Strict, frozen=True, kw_only=True):
    """Work that is announced to reservations before it begins."""

    target: str
    """A name in `reservations.targets` of the settings, or of a configuration to compare."""
    ahead: str = "3m"
    """Time between announcement and beginning."""
    lasts: str = "10m"
    """How long the room is reserved."""


class JobStream(Strict, frozen=True, kw_only=True):
    """Jobs that are created again and again."""

    name: str
    namespace: str = "default"
    requests: dict[str, str] = {}
    at: str = ""
    """Time of the first one. If empty, the first one of `every` comes at the start."""
    every: str = ""
    """Time between two of them; if empty, only the one at `at`."""
    cron: str = ""
    """A cron expression of five fields, in the file's time zone, instead of `at` and `every`."""
    pods: int = 1
    runs_for: str = "5m"
    days: str = "mon-sun"
    between: str = ""
    """Times of day, such as `08:00-18:00`; if empty, always."""
    jitter: str = "0s"
    """Maximum delay of each one, uniformly distributed."""
    announced: AnnouncedWork | None = None
    """None if the work is not announced."""
    spec: dict[str, Any] = {}
    """Further fields of the pods' spec."""


class Expectation(Strict, frozen=True, kw_only=True):
    """The expected value of a figure of the summary."""

    that: str
    """The path of the figure, such as `pendingSeconds.p99`."""
    at_most: float | None = None
    at_least: float | None = None


class SimulationFile(Strict, frozen=True, kw_only=True):
    """The whole file."""

    name: str | None = None
    """None means the name of the file without its ending."""
    description: str = ""
    start: str = "2026-01-05T00:00:00Z"
    duration: str = "24h"
    time_zone: str = "UTC"
    seed: int = 0
    sample: str = "1m"
    """Time between two measurements."""
    options: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    node_groups: list[Any] = []
    prices: Any = None
    gpu_label: str | None = None
    objects: list[dict[str, Any]] = []
    workloads: list[Workload] = []
    jobs: list[JobStream] = []
    events: list[ScheduledEvent] = []
    assertions: list[Expectation] = []


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """A checked simulation. Times are seconds."""

    name: str
    file: SimulationFile
    start_s: float
    """Unix seconds."""
    duration_s: float
    sample_s: float
    zone: ZoneInfo
    cloud: CloudSpec

    def config(self, documents: Mapping[str, str] = {}) -> Config:  # never changed
        """Return the configuration: the file's options and settings, then the texts of configuration files, by name.

        Raises `ConfigError` with every problem.
        """
        own = {f"{self.name}: settings": yaml.safe_dump(self.file.settings)} if self.file.settings else {}
        return from_documents({"cloud-provider": "static", **self.file.options}, {**own, **documents})


def load(path: str) -> Simulation:
    """Read a simulation file; raises `ConfigError` with a line `FILE: path: problem` for each problem."""
    file = decode_strict(read_bytes(path), path, SimulationFile)
    checks = _Checks()
    zone = checks.zone("timeZone", file.time_zone)
    start_s = checks.read("start", file.start, unix_seconds)
    duration_s = checks.positive("duration", file.duration)
    sample_s = checks.positive("sample", file.sample)
    cloud = checks.cloud(file)
    for index, workload in enumerate(file.workloads):
        checks.workload(f"workloads[{index}]", workload)
    for index, stream in enumerate(file.jobs):
        checks.jobs(f"jobs[{index}]", stream)
    for index, event in enumerate(file.events):
        checks.event(f"events[{index}]", event, {group.id for group in cloud.groups})
    for index, expected in enumerate(file.assertions):
        if expected.at_most is None and expected.at_least is None:
            checks.problems.append(f"assertions[{index}]: needs atMost or atLeast")
    if checks.problems:
        raise ConfigError(f"{path}: {line}" for line in checks.problems)
    simulation = Simulation(
        name=file.name or Path(path).stem,
        file=file,
        start_s=start_s,
        duration_s=duration_s,
        sample_s=sample_s,
        zone=zone,
        cloud=cloud,
    )
    simulation.config()
    return simulation


def days_in(text: str) -> frozenset[int]:
    """Return the days of the week, Monday first, in `mon-fri` or `sat,sun`; raises `ValueError`."""
    days: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().lower().partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError(f"{part!r} is not a day or a range of days such as mon-fri")
        begin, end = DAYS.index(first), DAYS.index(last if dash else first)
        days.update(day % 7 for day in range(begin, end + 1 if end >= begin else end + 8))
    return frozenset(days)


def minute_of(text: str) -> int:
    """Return the minute of the day of `HH:MM`; raises `ValueError`."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time of day such as 08:30")
    return 60 * int(match[1]) + int(match[2])


def minutes_of(text: str) -> tuple[int, int]:
    """Return first and last minute of `HH:MM-HH:MM`; the whole day for an empty text. Raises `ValueError`."""
    if not text:
        return 0, 24 * 60
    first, _, last = text.partition("-")
    return minute_of(first), minute_of(last)


def seconds_of(text: str) -> float:
    """Return a Go duration in seconds; it may be negative. Raises `ValueError`."""
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise ValueError(f"{quoted(text)} {error}") from None


def _moment_s(text: str) -> float:
    if (seconds := seconds_of(text)) < 0:
        raise ValueError(f"{text} is before the start")
    return seconds


def _length_s(text: str) -> float:
    seconds = seconds_of(text)
    if not 0 < seconds <= _MAX_S:
        raise ValueError(f"{text} is not above 0 and at most a year")
    return seconds


class _Checks:
    """Collects problems. It replaces unreadable values, so that the rest can be checked too."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, path: str, text: str, reader: Callable[[str], Any]) -> Any:
        try:
            return reader(text)
        except (ValueError, OverflowError) as error:
            self.problems.append(f"{path}: {error}")
            return 0.0

    def positive(self, path: str, text: str) -> float:
        return float(self.read(path, text, _length_s))

    def zone(self, path: str, name: str) -> ZoneInfo:
        try:
            return parse_zone(name)
        except ValueError as error:
            self.problems.append(f"{path}: {quoted(name)} {error}")
            return ZoneInfo("UTC")

    def requests(self, path: str, requests: Mapping[str, str]) -> None:
        for resource, text in requests.items():
            self.read(f"{path}.requests[{resource}]", text, lambda value, name=resource: quantity.amount(name, value))  # type: ignore[misc]

    def count(self, path: str, number: int, minimum: int = 0) -> None:
        if number < minimum:
            self.problems.append(f"{path}: {number} is below {minimum}")

    def workload(self, path: str, spec: Workload) -> None:
        self.requests(path, spec.requests)
        self.count(f"{path}.replicas", spec.replicas)
        for index, daily in enumerate(spec.daily):
            self.read(f"{path}.daily[{index}].time", daily.time, minute_of)
            self.read(f"{path}.daily[{index}].days", daily.days, days_in)
            self.count(f"{path}.daily[{index}].replicas", daily.replicas)
        for index, step in enumerate(spec.steps):
            self.read(f"{path}.steps[{index}].at", step.at, _moment_s)
            self.count(f"{path}.steps[{index}].replicas", step.replicas)
        if spec.wave is not None:
            self.read(f"{path}.wave.peak", spec.wave.peak, minute_of)
            self.positive(f"{path}.wave.every", spec.wave.every)
            self.count(f"{path}.wave.low", spec.wave.low)
            self.count(f"{path}.wave.high", spec.wave.high, spec.wave.low)
            if not 0 <= spec.wave.noise <= 1:
                self.problems.append(f"{path}.wave.noise: {spec.wave.noise} is not from 0 to 1")

    def jobs(self, path: str, stream: JobStream) -> None:
        self.requests(path, stream.requests)
        self._moments(path, stream)
        self.read(f"{path}.runsFor", stream.runs_for, seconds_of)
        self.read(f"{path}.jitter", stream.jitter, seconds_of)
        self.read(f"{path}.days", stream.days, days_in)
        self.read(f"{path}.between", stream.between, minutes_of)
        if stream.announced is not None:
            self.read(f"{path}.announced.ahead", stream.announced.ahead, seconds_of)
            self.positive(f"{path}.announced.lasts", stream.announced.lasts)
        self.count(f"{path}.pods", stream.pods, 1)

    def _moments(self, path: str, stream: JobStream) -> None:
        if stream.cron:
            self.read(f"{path}.cron", stream.cron, parse_period)
            if stream.at or stream.every:
                self.problems.append(f"{path}.cron: goes without at and every; drop one or the other")
        elif not (stream.at or stream.every):
            self.problems.append(f"{path}: no Job comes; write every, at or cron, such as cron: 0 2 * * *")
        if stream.at:
            self.read(f"{path}.at", stream.at, _moment_s)
        if stream.every:
            self.positive(f"{path}.every", stream.every)

    def event(self, path: str, spec: ScheduledEvent, groups: set[str]) -> None:
        self.read(f"{path}.at", spec.at, _moment_s)
        if spec.every:
            self.positive(f"{path}.every", spec.every)
        for key, text in (("apiDown", spec.api_down), ("leaderLost", spec.leader_lost), ("restart", spec.restart)):
            if text:
                self.read(f"{path}.{key}", text, seconds_of)
        if spec.clock_jump:
            self.read(f"{path}.clockJump", spec.clock_jump, seconds_of)
        if spec.interruption is not None:
            self.struck(f"{path}.interruption", spec.interruption, groups)
            if spec.interruption.notice:
                self.read(f"{path}.interruption.notice", spec.interruption.notice, seconds_of)
        if spec.unhealthy is not None:
            self.struck(f"{path}.unhealthy", spec.unhealthy, groups)
            self.read(f"{path}.unhealthy.condition", spec.unhealthy.condition, condition_and_status)
        if spec.release is not None and spec.release.group not in groups:
            self.problems.append(f"{path}.release.group: there is no node group {spec.release.group}")
        if not spec.happens:
            self.problems.append(f"{path}: nothing happens; write {', '.join(HAPPENINGS[:-1])} or {HAPPENINGS[-1]}")

    def struck(self, path: str, blow: Interruption | Unhealthy, groups: set[str]) -> None:
        self.count(f"{path}.nodes", blow.nodes, 1)
        if blow.group not in groups:
            self.problems.append(f"{path}.group: there is no node group {blow.group}")

    def cloud(self, file: SimulationFile) -> CloudSpec:
        problems = Problems()
        groups = [decode_group(raw, f"nodeGroups[{index}]", problems) for index, raw in enumerate(file.node_groups)]
        prices = None if file.prices is None else decode_prices(file.prices, "prices", problems)
        self.problems.extend(problems.lines)
        if not groups:
            self.problems.append("nodeGroups: needs at least one group")
        for index, group in enumerate(groups):
            if group.template is None:
                self.problems.append(f"nodeGroups[{index}].template: is required")
        return CloudSpec(
            groups=[_with_boot_delay(group) for group in groups],
            machines=[machine for group in groups for machine in _machines(group)],
            machine_versions={
                machine.provider_id: group.versions[0]
                for group in groups
                if group.versions
                for machine in _machines(group)
            },
            prices=prices,
            gpu_label=file.gpu_label or GPU_LABEL,
            seed=file.seed,
        )


def _with_boot_delay(group: GroupSpec) -> GroupSpec:
    return msgspec.structs.replace(group, boot=group.boot or _BOOT, target_size=None)


def _machines(group: GroupSpec) -> Iterator[MachineSpec]:
    """Yield the machines that a group has from the start: as many as its target size."""
    for number in range(group.target_size or 0):
        name = f"{group.id}-start-{number}"
        yield MachineSpec(group=group.id, provider_id=f"static://{name}", name=name)
