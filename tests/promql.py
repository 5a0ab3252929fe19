"""A small Prometheus: it keeps what was scraped, evaluates the part of PromQL that our rules use, and tells alerts.

Of the language: selectors with `=`, `!=` and `=~`, ranges, `rate`, `increase`, `absent`, `histogram_quantile`,
`time()`, aggregation with `by`, arithmetic, comparisons that filter, `and`, `or`, `unless`. Anything else is a
`ValueError`, so that a rule cannot leave this part unnoticed. Results have no metric names, as alerts have none.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

LOOKBACK_S = 300.0
"""How long a sample stands for its series where none follows it."""

Labels = frozenset[tuple[str, str]]
Vector = Mapping[Labels, float]
Value = float | Vector

_AGGREGATES: Mapping[str, Callable[[Iterable[float]], float]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "count": lambda values: float(len(list(values))),
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
}
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right if right else math.nan,
}
_SETS = ("and", "or", "unless")
_PRECEDENCE = (("or",), ("and", "unless"), tuple(_COMPARISONS), ("+", "-"), ("*", "/"))
_FUNCTIONS = ("rate", "increase", "absent", "histogram_quantile", "time")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TOKEN = re.compile(r'\s*(\d+[smhd](?!\w)|\d+(?:\.\d+)?|"[^"]*"|[A-Za-z_:][\w:]*|==|!=|=~|>=|<=|[-+*/<>=(){}\[\],])')


def seconds(text: str) -> float:
    """Return how long a duration such as `15m` is."""
    return float(text[:-1]) * _SECONDS[text[-1]]


# What expressions consist of


class Number(msgspec.Struct, frozen=True):
    """A scalar."""

    value: float


class Selector(msgspec.Struct, frozen=True):
    """Series by name and labels; `range_s` None: their newest samples."""

    name: str
    equal: Mapping[str, str] = {}
    unequal: Mapping[str, str] = {}
    alike: Mapping[str, str] = {}
    """Regular expressions that match the whole of a value."""
    range_s: float | None = None

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether a series of this name is selected."""
        same = all(labels.get(label, "") == value for label, value in self.equal.items())
        alike = all(re.fullmatch(pattern, labels.get(label, "")) for label, pattern in self.alike.items())
        return same and alike and all(labels.get(label, "") != value for label, value in self.unequal.items())


class Call(msgspec.Struct, frozen=True):
    """A function of values."""

    function: str
    arguments: tuple[Any, ...]


class Aggregate(msgspec.Struct, frozen=True):
    """One value for all series that agree in some labels."""

    function: str
    by: tuple[str, ...]
    inner: Any


class Binary(msgspec.Struct, frozen=True):
    """Two values and what is done with them."""

    operator: str
    left: Any
    right: Any


Expression = Number | Selector | Call | Aggregate | Binary


def parse(text: str) -> Expression:
    """Return what the text says; raises ValueError for what is not in our part of the language."""
    parser = _Parser(text)
    found = parser.binary(0)
    if parser.rest:
        raise ValueError(f"not understood from {parser.rest[0]!r} on: {text}")
    return found


def parts(expression: Expression) -> Iterator[Expression]:
    """Return the expression and everything in it."""
    yield expression
    match expression:
        case Call(arguments=inner):
            yield from (part for one in inner for part in parts(one))
        case Aggregate(inner=inner):
            yield from parts(inner)
        case Binary(left=left, right=right):
            yield from (*parts(left), *parts(right))


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.rest: list[str] = []
        end = 0
        while found := _TOKEN.match(text, end):
            self.rest.append(found[1])
            end = found.end()
        if text[end:].strip():
            raise ValueError(f"not understood from {text[end:]!r} on: {text}")

    def taken(self, *wanted: str) -> str | None:
        return self.rest.pop(0) if self.rest and self.rest[0] in wanted else None

    def want(self, *wanted: str) -> str:
        found = self.taken(*wanted)
        if found is None:
            raise ValueError(f"{' or '.join(wanted)} is missing before {self.rest[:1]}: {self.text}")
        return found

    def word(self) -> str:
        if not self.rest:
            raise ValueError(f"it ends too early: {self.text}")
        return self.rest.pop(0)

    def binary(self, level: int) -> Expression:
        if level == len(_PRECEDENCE):
            return self.single()
        left = self.binary(level + 1)
        while operator := self.taken(*_PRECEDENCE[level]):
            left = Binary(operator, left, self.binary(level + 1))
        return left

    def single(self) -> Expression:
        if self.taken("("):
            inner = self.binary(0)
            self.want(")")
            return inner
        word = self.word()
        if word[0].isdigit():
            return Number(float(word))
        if not re.fullmatch(r"[A-Za-z_:][\w:]*", word):
            raise ValueError(f"{word!r} is no name: {self.text}")
        if word in _AGGREGATES:
            return self.aggregate(word)
        if word in _FUNCTIONS or self.rest[:1] == ["("]:
            return self.call(word)
        return self.selector(word)

    def aggregate(self, function: str) -> Aggregate:
        by = self.names() if self.taken("by") else ()
        self.want("(")
        inner = self.binary(0)
        self.want(")")
        return Aggregate(function, by, inner)

    def names(self) -> tuple[str, ...]:
        self.want("(")
        found = [self.word()]
        while self.taken(","):
            found.append(self.word())
        self.want(")")
        return tuple(found)

    def call(self, function: str) -> Call:
        if function not in _FUNCTIONS:
            raise ValueError(f"{function} is not known here: {self.text}")
        self.want("(")
        arguments = []
        while not self.taken(")"):
            arguments.append(self.binary(0))
            self.taken(",")
        return Call(function, tuple(arguments))

    def selector(self, name: str) -> Selector:
        wanted: dict[str, dict[str, str]] = {"=": {}, "!=": {}, "=~": {}}
        if self.taken("{"):
            while not self.taken("}"):
                label, operator = self.word(), self.want(*wanted)
                wanted[operator][label] = self.word().strip('"')
                self.taken(",")
        range_s = None
        if self.taken("["):
            range_s = seconds(self.word())
            self.want("]")
        return Selector(name, wanted["="], wanted["!="], wanted["=~"], range_s)


# What was scraped


class Series:
    """One series: samples in the order of time; a value that is not a number says that the series ended."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.values: list[float] = []

    def put(self, at: float, value: float) -> None:
        """Add a sample."""
        self.times.append(at)
        self.values.append(value)

    def newest(self, at: float) -> float:
        """Return the value at some moment; not a number where there is none."""
        place = bisect_right(self.times, at) - 1
        return self.values[place] if place >= 0 and self.times[place] > at - LOOKBACK_S else math.nan

    def within(self, after: float, until: float) -> list[tuple[float, float]]:
        """Return the samples of a range."""
        first, end = bisect_right(self.times, after), bisect_right(self.times, until)
        samples = zip(self.times[first:end], self.values[first:end], strict=True)
        return [(at, value) for at, value in samples if not math.isnan(value)]


class Database:
    """All series by name."""

    def __init__(self) -> None:
        self.series: dict[str, dict[Labels, Series]] = {}
        self._alive: dict[Labels, set[tuple[str, Labels]]] = {}

    def scraped(self, at: float, target: Mapping[str, str], samples: Iterable[tuple[str, Labels, float]]) -> None:
        """Keep what a target showed; what it showed before and does not any more has ended."""
        own = frozenset(target.items())
        alive = set()
        for name, labels, value in samples:
            key = own | labels
            self.series.setdefault(name, {}).setdefault(key, Series()).put(at, value)
            alive.add((name, key))
        for name, key in self._alive.get(own, set()) - alive:
            self.series[name][key].put(at, math.nan)
        self._alive[own] = alive

    def value(self, expression: Expression, at: float) -> Value:
        """Return the value of an expression at some moment."""
        match expression:
            case Number(value=value):
                return value
            case Selector(range_s=None):
                newest = {labels: series.newest(at) for labels, series in self._selected(expression)}
                return {labels: value for labels, value in newest.items() if not math.isnan(value)}
            case Call():
                return self._called(expression, at)
            case Aggregate(function=function, by=by, inner=inner):
                return _aggregated(function, by, _vector(self.value(inner, at)))
            case Binary(operator=operator, left=left, right=right):
                return _combined(operator, self.value(left, at), self.value(right, at))
        raise ValueError(f"a range is no value: {expression}")

    def _selected(self, selector: Selector) -> Iterator[tuple[Labels, Series]]:
        for labels, series in self.series.get(selector.name, {}).items():
            if selector.takes(dict(labels)):
                yield labels, series

    def _called(self, call: Call, at: float) -> Value:
        match call:
            case Call("time", ()):
                return at
            case Call("rate" | "increase" as function, (Selector(range_s=float() as range_s) as selector,)):
                grown = {
                    labels: increase(series.within(at - range_s, at), at - range_s, at)
                    for labels, series in self._selected(selector)
                }
                divisor = range_s if function == "rate" else 1.0
                return {labels: value / divisor for labels, value in grown.items() if value is not None}
            case Call("absent", (inner,)):
                # The labels that Prometheus adds from the selector are of no use to us.
                return {} if _vector(self.value(inner, at)) else {frozenset(): 1.0}
            case Call("histogram_quantile", (Number(value=quantile), inner)):
                return _quantiles(quantile, _vector(self.value(inner, at)))
        raise ValueError(f"not a call that is known here: {call}")


def increase(samples: Sequence[tuple[float, float]], start: float, end: float) -> float | None:
    """Return how much a counter grew, extrapolated to the range as Prometheus does; None from fewer than two samples.

    Source: `extrapolatedRate` in Prometheus' promql/functions.go.
    """
    if len(samples) < 2:
        return None
    (first_at, first), (last_at, last) = samples[0], samples[-1]
    grown = last - first + sum(before for (_, before), (_, after) in pairwise(samples) if after < before)
    sampled_s = last_at - first_at
    step_s = sampled_s / (len(samples) - 1)
    near_s = 1.1 * step_s
    before_s = first_at - start if first_at - start < near_s else step_s / 2
    after_s = end - last_at if end - last_at < near_s else step_s / 2
    if grown > 0 and first >= 0:
        before_s = min(before_s, sampled_s * first / grown)
    return grown * (sampled_s + before_s + after_s) / sampled_s


def _vector(value: Value) -> Vector:
    if isinstance(value, float):
        raise ValueError("a scalar where series are wanted")
    return value


def _aggregated(function: str, by: Sequence[str], inner: Vector) -> Vector:
    members: dict[Labels, list[float]] = {}
    for labels, value in inner.items():
        members.setdefault(frozenset(pair for pair in labels if pair[0] in by), []).append(value)
    return {labels: _AGGREGATES[function](values) for labels, values in members.items()}


def _combined(operator: str, left: Value, right: Value) -> Value:
    if operator in _SETS:
        one, other = _vector(left), _vector(right)
        match operator:
            case "and":
                return {labels: value for labels, value in one.items() if labels in other}
            case "unless":
                return {labels: value for labels, value in one.items() if labels not in other}
        return {**other, **one}
    if operator in _COMPARISONS:
        return _filtered(_COMPARISONS[operator], left, right)
    compute = _ARITHMETIC[operator]
    if isinstance(left, float):
        if isinstance(right, float):
            return compute(left, right)
        return {labels: compute(left, value) for labels, value in right.items()}
    if isinstance(right, float):
        return {labels: compute(value, right) for labels, value in left.items()}
    return {labels: compute(value, right[labels]) for labels, value in left.items() if labels in right}


def _filtered(holds: Callable[[float, float], bool], left: Value, right: Value) -> Vector:
    if isinstance(left, float):
        return {labels: value for labels, value in _vector(right).items() if holds(left, value)}
    if isinstance(right, float):
        return {labels: value for labels, value in left.items() if holds(value, right)}
    return {labels: value for labels, value in left.items() if labels in right and holds(value, right[labels])}


def _quantiles(quantile: float, buckets: Vector) -> Vector:
    """Return the quantile of each histogram, interpolated within its bucket."""
    histograms: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        bound = float(dict(labels)["le"])
        histograms.setdefault(frozenset(pair for pair in labels if pair[0] != "le"), []).append((bound, count))
    return {labels: _quantile(quantile, sorted(counts)) for labels, counts in histograms.items()}


def _quantile(quantile: float, counts: Sequence[tuple[float, float]]) -> float:
    rank = quantile * counts[-1][1]
    place = bisect_left([count for _, count in counts], rank)
    if not counts[-1][1] or len(counts) < 2:
        return math.nan
    if place >= len(counts) - 1:
        return counts[-2][0]
    bound, count = counts[place]
    lower, below = counts[place - 1] if place else (0.0, 0.0)
    return lower + (bound - lower) * (rank - below) / (count - below)


# Alerts


class Alert(msgspec.Struct, frozen=True):
    """An alerting rule."""

    name: str
    expression: Expression
    for_s: float = 0.0


def alerts_of(groups: Iterable[Mapping[str, Any]]) -> list[Alert]:
    """Return the alerts of a rules file's groups."""
    return [
        Alert(rule["alert"], parse(rule["expr"]), seconds(rule.get("for", "0s")))
        for group in groups
        for rule in group["rules"]
    ]


class Watchman:
    """Evaluates alerts again and again; an alert fires once its expression has held for long enough."""

    def __init__(self, alerts: Sequence[Alert]) -> None:
        self.alerts = alerts
        self._since: dict[tuple[str, Labels], float] = {}
        self.looked: list[float] = []
        self.firing: dict[str, dict[float, set[Labels]]] = {}
        """When each alert that ever fired did, and with which labels."""

    def looks(self, database: Database, at: float) -> None:
        """Evaluate everything once."""
        self.looked.append(at)
        held = {}
        for alert in self.alerts:
            for labels in _vector(database.value(alert.expression, at)):
                key = alert.name, labels
                held[key] = self._since.get(key, at)
                if at - held[key] >= alert.for_s:
                    self.firing.setdefault(alert.name, {}).setdefault(at, set()).add(labels)
        self._since = held
