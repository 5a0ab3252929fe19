"""Samples of durations: rings, quantiles, and defaults while there are too few samples."""

import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

RING = 50
FEWEST = 5
"""With fewer samples, a more general distribution is used."""
MAX_AGE_S = 7 * 86400.0
_MOST_KEYS = 2000
EXPECTED, WORST = 0.5, 0.9


class DurationSpread(msgspec.Struct, frozen=True, gc=False):
    """Seconds that something takes: the expected value, and the value that nine of ten stay within."""

    expected: float
    worst: float

    def plus(self, other: "DurationSpread") -> "DurationSpread":
        """Return the sum of both, one after the other."""
        return DurationSpread(self.expected + other.expected, self.worst + other.worst)


NOTHING = DurationSpread(0.0, 0.0)
BOOT, BIND = DurationSpread(180.0, 300.0), DurationSpread(2.0, 5.0)
WARM_START, COLD_START = DurationSpread(5.0, 20.0), DurationSpread(20.0, 60.0)


def quantile(ordered: Sequence[float], q: float) -> float:
    """Return the nearest-rank quantile of sorted samples: element number `ceil(q * n)`, counted from 1."""
    return ordered[max(1, math.ceil(q * len(ordered) - 1e-9)) - 1]


def spread(ordered: Sequence[float]) -> DurationSpread:
    """Return both quantiles of sorted samples."""
    return DurationSpread(quantile(ordered, EXPECTED), quantile(ordered, WORST))


def first_known(candidates: Iterable[Sequence[float]]) -> Sequence[float]:
    """Return the first of several sorted lists of samples that is long enough; empty if none is."""
    return next((samples for samples in candidates if len(samples) >= FEWEST), ())


class Duration(msgspec.Struct, frozen=True, gc=False):
    """How long something takes, with the samples behind it."""

    spread: DurationSpread
    samples: Sequence[float] = ()
    """Sorted; empty if there are fewer than `FEWEST`."""
    assumed: bool = False
    """Whether the spread is a default, because there is no sample at all."""


def duration_of(candidates: Sequence[Sequence[float]], default: DurationSpread) -> Duration:
    """Return how long something takes, from the first of several sorted lists of samples that is long enough.

    If none is, the first non-empty list counts. Few samples say little about the worst case. So its worst case is the
    longest sample, multiplied by the default's ratio of worst to expected case.
    """
    if samples := first_known(candidates):
        return Duration(spread(samples), samples)
    few = next((samples for samples in candidates if samples), None)
    if few is None:
        return Duration(default, assumed=True)
    return Duration(DurationSpread(quantile(few, EXPECTED), few[-1] * default.worst / default.expected))


class Remaining(msgspec.Struct, frozen=True, gc=False):
    """How much longer something takes. It is `overdue` if it has already taken longer than every sample."""

    spread: DurationSpread
    overdue: bool = False


def remaining(boot: Duration, age_s: float, scan_s: float) -> Remaining:
    """Return how much longer it takes after `age_s`; only longer samples count.

    If there are none, it is overdue. It is then expected within a quarter of its age, or one scan interval if that is
    longer.
    """
    known = boot.samples or (boot.spread.expected, boot.spread.worst)
    longer = [seconds for seconds in known if seconds > age_s]
    if not longer:
        grace_s = max(scan_s, 0.25 * age_s)
        return Remaining(DurationSpread(grace_s, grace_s), overdue=True)
    left = spread(longer)
    return Remaining(DurationSpread(left.expected - age_s, left.worst - age_s))


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One duration in seconds, and when it ended (Unix seconds)."""

    at: float
    seconds: float


class Ring:
    """The newest samples of one kind."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._samples = deque(samples, RING)
        self._ordered: tuple[float, ...] | None = None

    def add(self, sample: Sample) -> None:
        """Add a sample."""
        self._samples.append(sample)
        self._ordered = None

    def samples(self) -> tuple[Sample, ...]:
        """Return the samples, oldest first."""
        return tuple(self._samples)

    def ordered(self, wall: float) -> tuple[float, ...]:
        """Return the seconds of the samples that are not too old, sorted."""
        while self._samples and wall - self._samples[0].at > MAX_AGE_S:
            self._samples.popleft()
            self._ordered = None
        if self._ordered is None:
            self._ordered = tuple(sorted(sample.seconds for sample in self._samples))
        return self._ordered


class Rings:
    """Rings by key. If there are too many, the one with the oldest news is dropped."""

    def __init__(self, most_keys: int = _MOST_KEYS) -> None:
        self._rings: OrderedDict[str, Ring] = OrderedDict()
        self._most = most_keys

    def add(self, key: str, sample: Sample) -> None:
        """Add a sample."""
        self._rings.setdefault(key, Ring()).add(sample)
        self._rings.move_to_end(key)
        while len(self._rings) > self._most:
            self._rings.popitem(last=False)

    def samples(self) -> Mapping[str, tuple[Sample, ...]]:
        """Return all samples."""
        return {key: ring.samples() for key, ring in self._rings.items()}

    def ordered(self, wall: float) -> Mapping[str, tuple[float, ...]]:
        """Return the seconds of each ring, sorted."""
        return {key: seconds for key, ring in self._rings.items() if (seconds := ring.ordered(wall))}


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    """The known durations at one moment: sorted seconds by their kind."""

    boots: Mapping[str, Sequence[float]] = {}
    """Boot times by node group."""
    warm: Mapping[str, Sequence[float]] = {}
    """Starts of pods whose image was on the node: by workload, by group (`group_key`), and of all pods (`ALL`)."""
    cold: Mapping[str, Sequence[float]] = {}
    """Starts of pods whose image had to be pulled."""
    bind: Sequence[float] = ()
    runs: Sequence[float] = ()
    """Run times of pods that completed."""
    excess: float = 1.0
    """Factor on worst cases, so that nine of ten pods stay within them; below 1 it narrows them."""

    @property
    def pooled_boots(self) -> Sequence[float]:
        """Boot times of all groups together."""
        return tuple(sorted(sample for samples in self.boots.values() for sample in samples))

    def boot(self, group: str) -> Duration:
        """Return how long a new node of a group takes, from its own samples or those of all groups."""
        return duration_of((self.boots.get(group, ()), self.pooled_boots), BOOT)

    def binding(self) -> Duration:
        """Return how long a pod waits for its node once there is room."""
        return duration_of((self.bind,), BIND)

    def start(self, workload: str, group: str | None, *, cold: bool) -> Duration:
        """Return how long a pod takes on its node until it is ready, from samples of its workload, its group, or all
        pods.
        """
        known = self.cold if cold else self.warm
        of_group = () if group is None else known.get(group_key(group), ())
        return duration_of((known.get(workload, ()), of_group, known.get(ALL, ())), COLD_START if cold else WARM_START)


ALL = ""


def group_key(group: str) -> str:
    """Return the key of a node group in mappings by workload."""
    return f"group:{group}"
