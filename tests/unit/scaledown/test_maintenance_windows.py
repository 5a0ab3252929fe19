from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from autoscaler.config.windows import MaintenanceWindow, parse_window
from autoscaler.scaledown.maintenance_windows import closed_for_s, windows_of

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600.0


def at(text: str, *, fold: int = 0, zone: ZoneInfo = BERLIN) -> float:
    """Unix seconds of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


def windows(*texts: str) -> list[MaintenanceWindow]:
    return [window for text in texts for window in parse_window(text)]


@pytest.mark.parametrize(
    ("moment", "left_s"),
    [
        pytest.param("2026-01-05T21:59:59", 1.0, id="a second before"),
        pytest.param("2026-01-05T22:00:00", 0.0, id="at the start"),
        pytest.param("2026-01-06T05:59:59", 0.0, id="the next morning, a second before the end"),
        pytest.param("2026-01-06T06:00:00", 16 * HOUR, id="at the end: until the evening"),
        pytest.param("2026-01-10T06:00:00", 64 * HOUR, id="at the end of the week: until Monday"),
    ],
)
def test_a_window_of_weekday_nights(moment: str, left_s: float) -> None:
    assert closed_for_s(windows("0 22 * * 1-5;8h;Europe/Berlin"), at(moment)) == left_s


def test_without_windows_there_is_no_waiting() -> None:
    assert closed_for_s([], 0.0) == 0.0


def test_a_window_without_a_zone_is_in_utc() -> None:
    assert closed_for_s(windows("0 22 * * *;1h"), at("2026-01-05T22:30:00")) == 0.5 * HOUR


@pytest.mark.parametrize(
    ("moment", "fold", "left_s"),
    [
        pytest.param("2026-03-29T01:59:59", 0, 1.0, id="a second before the gap"),
        pytest.param("2026-03-29T03:00:00", 0, 0.0, id="right behind it"),
        pytest.param("2026-03-29T03:59:59", 0, 0.0, id="for its whole length"),
        pytest.param("2026-03-29T04:00:00", 0, 22.5 * HOUR, id="and no longer"),
    ],
)
def test_a_start_that_the_clocks_skip_comes_right_behind_the_gap(moment: str, fold: int, left_s: float) -> None:
    assert closed_for_s(windows("30 2 * * *;1h;Europe/Berlin"), at(moment, fold=fold)) == left_s


@pytest.mark.parametrize(
    ("moment", "fold", "left_s"),
    [
        pytest.param("2026-10-25T02:29:59", 0, 1.0, id="not before the first"),
        pytest.param("2026-10-25T02:30:00", 0, 0.0, id="at the first"),
        pytest.param("2026-10-25T02:15:00", 1, 0.0, id="when the clocks were put back meanwhile"),
        pytest.param("2026-10-25T02:29:59", 1, 0.0, id="a real hour long"),
        pytest.param("2026-10-25T02:30:00", 1, 24 * HOUR, id="not again at the second"),
    ],
)
def test_a_start_that_comes_twice_counts_the_first_time(moment: str, fold: int, left_s: float) -> None:
    assert closed_for_s(windows("30 2 * * *;1h;Europe/Berlin"), at(moment, fold=fold)) == left_s


@pytest.mark.parametrize(
    ("start", "ends"),
    [
        pytest.param("2026-03-28T22:00:00", "2026-03-29T07:00:00", id="an hour later by the clock in spring"),
        pytest.param("2026-10-24T22:00:00", "2026-10-25T05:00:00", id="an hour earlier in autumn"),
    ],
)
def test_a_window_lasts_as_long_as_ever_when_the_clocks_change(start: str, ends: str) -> None:
    nightly = windows("0 22 * * *;8h;Europe/Berlin")
    assert closed_for_s(nightly, at(start)) == 0.0
    assert closed_for_s(nightly, at(ends) - 1) == 0.0
    assert closed_for_s(nightly, at(ends)) > 0.0


def test_an_hourly_window_is_open_in_both_hours_of_the_same_name() -> None:
    hourly = windows("0 * * * *;10m;Europe/Berlin")
    assert [closed_for_s(hourly, at("2026-10-25T02:05:00", fold=fold)) for fold in (0, 1)] == [0.0, 0.0]
    assert [closed_for_s(hourly, at("2026-10-25T02:10:00", fold=fold)) for fold in (0, 1)] == [50 * 60.0, 50 * 60.0]


def test_windows_that_overlap_are_open_as_one_and_the_first_to_come_counts() -> None:
    both = windows("0 22 * * *;2h", "30 23 * * *;2h", "0 12 * * *;10m")
    midnight = datetime(2026, 1, 6, tzinfo=UTC).timestamp()
    assert [closed_for_s(both, midnight + minutes * 60) for minutes in (-120, -30, 0, 89)] == [0.0] * 4
    assert closed_for_s(both, midnight + 90 * 60) == 10.5 * HOUR
    assert closed_for_s(both, midnight - 2 * HOUR - 1) == 1.0


def test_a_window_longer_than_its_period_is_always_open() -> None:
    always = windows("0 0 * * *;25h")
    assert all(closed_for_s(always, hour * HOUR) == 0.0 for hour in range(48))


def test_a_group_with_windows_of_its_own_keeps_to_those() -> None:
    every, own, other = windows("0 1 * * *;1h", "web=0 2 * * *;1h", "db=0 3 * * *;1h")
    assert windows_of([every, own, other], "web") == (own,)
    assert windows_of([every, own, other], "batch") == (every,)
    assert windows_of([own, other], "batch") == ()


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Africa/Cairo", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "0 0 * * *", "15 */2 * * *", "0 22 * * 1-5"])
def test_time_left_runs_down_to_the_start_and_never_misses_it(zone: str, cron: str) -> None:
    (window,) = windows(f"{cron};40m;{zone}")
    moment, end = datetime(2026, 3, 1, tzinfo=UTC), datetime(2027, 3, 1, tzinfo=UTC)
    while moment < end:
        left_s = closed_for_s([window], moment.timestamp())
        if left_s > 0:
            moment += timedelta(seconds=left_s)
            assert closed_for_s([window], moment.timestamp() - 1) == 1.0
            assert closed_for_s([window], moment.timestamp()) == 0.0
        moment += timedelta(hours=11)
