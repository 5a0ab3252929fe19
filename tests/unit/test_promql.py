"""Our small Prometheus: every form that it knows, and that it refuses the others."""

import math

import pytest

from tests.promql import Alert, Database, Labels, Value, Watchman, increase, parse, parts


def labels(**pairs: str) -> Labels:
    return frozenset(pairs.items())


def a_database() -> Database:
    """Return ten minutes of two pods: a gauge, a counter that is reset once, and a histogram."""
    database = Database()
    for step in range(11):
        at = 60.0 * step
        for pod, grows in (("a", 1.0), ("b", 3.0)):
            shown = [("size", labels(kind="x"), grows), ("size", labels(kind="y"), 10 * grows)]
            shown += [("made_total", labels(), grows * (step if step < 6 else step - 6))]
            shown += [("took_bucket", labels(le=le), count * step) for le, count in BUCKETS.items()]
            database.scraped(at, {"pod": pod}, shown)
    return database


BUCKETS = {"1.0": 1.0, "2.0": 3.0, "+Inf": 4.0}


def value(text: str, at: float = 600.0) -> Value:
    return a_database().value(parse(text), at)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3 - 8 / 4", 5.0),
        ("(1 + 2) * 3", 9.0),
        ("time() - 100", 500.0),
        ('size{kind="x"}', {labels(pod="a", kind="x"): 1.0, labels(pod="b", kind="x"): 3.0}),
        ('size{kind!="x", pod="a"}', {labels(pod="a", kind="y"): 10.0}),
        ('size{kind=~"[xz]", pod="b"}', {labels(pod="b", kind="x"): 3.0}),
        ('size{kind=~"."} == 1', {labels(pod="a", kind="x"): 1.0}),
        ("sum(size)", {labels(): 44.0}),
        ("sum by (pod) (size)", {labels(pod="a"): 11.0, labels(pod="b"): 33.0}),
        ("min by (kind, pod) (size) < 2", {labels(pod="a", kind="x"): 1.0}),
        ("max(size) - min(size)", {labels(): 29.0}),
        ("count(size) == 4", {labels(): 4.0}),
        ("2 * max(size) / sum(size)", {labels(): 60 / 44}),
        ("30 <= size", {labels(pod="b", kind="y"): 30.0}),
        ("sum by (pod) (size) > max by (pod) (size)", {labels(pod="a"): 11.0, labels(pod="b"): 33.0}),
        ("size > 2 and size < 10", {labels(pod="b", kind="x"): 3.0}),
        ("size unless size > 2", {labels(pod="a", kind="x"): 1.0}),
        ("max(size) == 0 or min(size) == 1", {labels(): 1.0}),
        ("absent(size == 30)", {}),
        ("absent(size == 31)", {labels(): 1.0}),
        ("absent(nothing)", {labels(): 1.0}),
        ("max(nothing) == 0", {}),
        ("sum(rate(made_total[5m])) * 300 == sum(increase(made_total[5m]))", {labels(): 16.0}),
        ("histogram_quantile(0.5, sum by (le) (took_bucket))", {labels(): 1.5}),
        ("histogram_quantile(0.99, sum by (le) (took_bucket))", {labels(): 2.0}),
    ],
)
def test_expressions_have_prometheus_values(text: str, result: Value) -> None:
    found = value(text)
    if isinstance(found, float) or isinstance(result, float):
        assert found == result
    else:
        assert found == pytest.approx(result)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sum(size",
        "size{kind=~'x'}",
        "avg(size)",
        "irate(made_total[5m])",
        "size offset 5m",
        "sum(size) bool > 1",
        "size > on (pod) size",
        "size 1",
        "size{kind}",
        "'x'",
    ],
)
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        value(text)


@pytest.mark.parametrize(
    "text", ["size[5m]", "rate(size)", "increase(sum(size)[5m])", "sum(1)", "histogram_quantile(1)"]
)
def test_what_has_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        value(text)


def test_every_part_of_an_expression_is_found() -> None:
    found = parts(parse("sum by (a) (rate(x[5m])) > 1 unless absent(y)"))
    assert [one.name for one in found if hasattr(one, "name")] == ["x", "y"]


@pytest.mark.parametrize(
    ("samples", "grown"),
    [
        pytest.param([(0.0, 5.0)], None, id="one sample says nothing"),
        pytest.param([(30.0, 100.0), (90.0, 101.0), (150.0, 102.0)], 3.0, id="extrapolated to both ends"),
        pytest.param([(30.0, 0.0), (90.0, 1.0), (150.0, 2.0)], 2.5, id="not to below zero"),
        pytest.param([(30.0, 7.0), (90.0, 1.0), (150.0, 2.0)], 3.0, id="a reset begins at zero"),
        pytest.param([(90.0, 100.0), (150.0, 101.0)], 2.0, id="half a step where it began within"),
    ],
)
def test_increases_are_extrapolated(samples: list[tuple[float, float]], grown: float | None) -> None:
    assert increase(samples, 0.0, 180.0) == (grown if grown is None else pytest.approx(grown))


def test_a_series_ends_when_it_is_not_shown_any_more_or_nobody_asks() -> None:
    database, size = Database(), parse("size")
    database.scraped(0.0, {"pod": "a"}, [("size", labels(kind="x"), 1.0), ("size", labels(kind="y"), 2.0)])
    database.scraped(60.0, {"pod": "a"}, [("size", labels(kind="x"), 1.0)])
    database.scraped(60.0, {"pod": "b"}, [("size", labels(kind="y"), 3.0)])
    kinds = [labels(pod="a", kind="x"), labels(pod="b", kind="y")]
    assert database.value(size, 60.0) == dict(zip(kinds, (1.0, 3.0), strict=True))
    assert database.value(size, 359.0) == dict(zip(kinds, (1.0, 3.0), strict=True))
    assert database.value(size, 361.0) == {}
    assert math.isnan(database.series["size"][labels(pod="a", kind="y")].newest(60.0))


def test_an_alert_fires_once_it_has_held_for_long_enough_and_without_a_break() -> None:
    database = Database()
    watchman = Watchman([Alert("Large", parse("size > 5"), for_s=120.0)])
    for minute, size in enumerate([9, 9, 1, 9, 9, 9, 9, 1]):
        database.scraped(60.0 * minute, {"pod": "a"}, [("size", labels(), float(size))])
        watchman.looks(database, 60.0 * minute)
    assert watchman.firing == {"Large": {300.0: {labels(pod="a")}, 360.0: {labels(pod="a")}}}
