"""From policies, active pods and the time to a number of pause pods. Names of acceptance tests begin with their id."""

import random
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest

from autoscaler.clock import Instant
from autoscaler.config.headroom import HeadroomPool, read_headroom
from autoscaler.headroom.policy import CoolDown, adopted, desired, policy_at, restored, want
from autoscaler.reasons import Headcount
from tests.seeds import seeds

BASE = {"name": "base", "periods": ["* * * * *"], "timezone": "UTC", "idleCount": 0}
OFFICE = {
    "name": "office",
    "periods": ["* 8-17 * * mon-fri"],
    "timezone": "UTC",
    "idleCount": 5,
    "idleTime": "30m",
    "scaleFactor": "0.5",
    "scaleFactorLimit": 20,
}


def a_pool(*policies: dict[str, Any], **fields: Any) -> HeadroomPool:
    data = {"name": "ci", "namespace": "ci", "resources": {"cpu": "2"}, "policies": list(policies), **fields}
    return read_headroom({"pools": [data]}, -10).pools[0]


def at(text: str) -> Instant:
    wall = datetime.fromisoformat(text).timestamp()
    return Instant(wall, wall - 1_000_000)


def holding(pool: HeadroomPool, *times: str) -> list[str]:
    found = [policy_at(pool, at(time).wall) for time in times]
    return ["none" if policy is None else policy.name for policy in found]


def test_b1_office_hours_begin_and_end_by_the_minute() -> None:
    pool = a_pool(BASE, OFFICE, maxPods=10)
    times = ("2026-11-20T10:00Z", "2026-11-20T17:59:59Z", "2026-11-20T18:00Z", "2026-11-21T10:00Z")
    assert holding(pool, *times) == ["office", "office", "base", "base"]


def test_b3_without_a_policy_that_holds_nothing_is_wanted_and_five_minutes_are_the_cool_down() -> None:
    now = at("2026-11-21T10:00Z")
    wanted = want(a_pool(OFFICE), 9, CoolDown(0, now), now)
    assert (wanted.policy, wanted.desired, wanted.reason) == ("none", 0, Headcount.NO_POLICY)
    assert wanted.held.allowed.mono - now.mono == 300


@pytest.mark.parametrize(
    ("active", "count", "reason"),
    [
        (0, 2, Headcount.IDLE_COUNT),
        (3, 2, Headcount.IDLE_COUNT),
        (5, 3, Headcount.SCALE_FACTOR),
        (7, 4, Headcount.SCALE_FACTOR),
        (16, 8, Headcount.SCALE_FACTOR),
        (40, 8, Headcount.MAX_PODS),
    ],
)
def test_b4_the_larger_of_idle_count_and_factor_within_the_caps(active: int, count: int, reason: Headcount) -> None:
    pool = a_pool({"idleCount": 2, "scaleFactor": "0.5", "scaleFactorLimit": 10}, maxPods=8)
    assert desired(pool, pool.policies[0], active) == (count, reason)


@pytest.mark.parametrize("factor", ["0.07", 0.07])
def test_b5_the_factor_is_multiplied_exactly(factor: object) -> None:
    pool = a_pool({"scaleFactor": factor})
    assert desired(pool, pool.policies[0], 100)[0] == 7


def test_b6_no_caps_are_no_caps() -> None:
    pool = a_pool({"scaleFactor": 1})
    assert desired(pool, pool.policies[0], 250)[0] == 250


def test_the_limit_of_the_factor_does_not_limit_the_idle_count() -> None:
    pool = a_pool({"idleCount": 6, "scaleFactor": 1, "scaleFactorLimit": 4})
    assert desired(pool, pool.policies[0], 100) == (6, Headcount.IDLE_COUNT)


def berlin() -> HeadroomPool:
    return a_pool({"name": "night", "periods": ["* 2 * * *"], "timezone": "Europe/Berlin"})


def test_b7_an_hour_that_the_clocks_leave_out_never_holds() -> None:
    assert holding(berlin(), "2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z") == ["none"] * 3


def test_b8_an_hour_that_comes_twice_holds_twice() -> None:
    times = [f"2026-10-25T{hour:02}:{minute:02}Z" for hour in range(3) for minute in range(60)]
    held = [time for time in times if holding(berlin(), time) == ["night"]]
    assert held == times[:120]


def test_b9_office_hours_follow_the_local_clock_through_the_year() -> None:
    pool = a_pool({"name": "on", "periods": ["* 8-17 * * mon-fri"], "timezone": "America/New_York"})
    times = ("2026-03-06T12:59Z", "2026-03-06T13:00Z", "2026-03-09T11:59Z", "2026-03-09T12:00Z")
    assert holding(pool, *times) == ["none", "on", "none", "on"]


def test_b10_either_day_field_suffices() -> None:
    pool = a_pool({"name": "on", "periods": ["0 0 13 * 5"]})
    times = ("2026-11-20T00:00Z", "2026-11-13T00:00Z", "2026-12-13T00:00Z", "2026-12-14T00:00Z")
    assert holding(pool, *times) == ["on", "on", "on", "none"]


def test_the_default_zone_is_utc() -> None:
    assert holding(a_pool({"name": "on", "periods": ["* 8 * * *"]}), "2026-07-01T08:30Z") == ["on"]


# The cool-down.


def targets(pool: HeadroomPool, ticks: Iterable[tuple[float, int]]) -> list[int]:
    """Return the targets of looks at (seconds, active pods)."""
    start = at("2026-11-20T10:00Z")
    held, found = CoolDown(0, start), []
    for seconds, active in ticks:
        wanted = want(pool, active, held, start.later(seconds))
        held = wanted.held
        found.append(wanted.target)
    return found


def one_to_one(idle: str) -> HeadroomPool:
    return a_pool({"scaleFactor": 1, "idleTime": idle})


def test_raising_is_immediate_and_lowering_waits_for_the_idle_time() -> None:
    assert targets(one_to_one("60s"), [(0, 3), (10, 5), (20, 2), (69, 2), (70, 2)]) == [3, 5, 5, 5, 2]


def test_wanting_as_many_again_starts_the_idle_time_anew() -> None:
    assert targets(one_to_one("60s"), [(0, 5), (50, 3), (55, 5), (70, 3), (114, 3), (115, 3)]) == [5, 5, 5, 5, 5, 3]


def test_an_idle_time_of_zero_lowers_at_once() -> None:
    assert targets(one_to_one("0s"), [(0, 5), (10, 2)]) == [5, 2]


def test_the_time_in_force_is_that_of_the_policy_that_wanted_the_pods() -> None:
    pool = a_pool({**BASE, "idleTime": "0s"}, OFFICE)
    before, after = at("2026-11-20T17:59:50Z"), at("2026-11-20T18:00Z")
    held = want(pool, 0, CoolDown(0, before), before).held
    wanted = want(pool, 0, held, after)
    assert (wanted.policy, wanted.desired, wanted.target, wanted.reason) == ("base", 0, 5, Headcount.COOL_DOWN)
    assert want(pool, 0, held, at("2026-11-20T18:29:49Z")).target == 5
    assert want(pool, 0, held, at("2026-11-20T18:29:50Z")).target == 0


def test_a_stored_cool_down_goes_on_where_it_was() -> None:
    now = at("2026-11-20T18:11Z")
    held = restored(a_pool(BASE, OFFICE), 5, at("2026-11-20T18:29:50Z").wall, now)
    assert (held.count, held.allowed.mono - now.mono) == (5, 1130)


def test_a_clock_that_jumped_makes_no_cool_down_last_for_ever() -> None:
    now = at("2026-11-20T18:11Z")
    assert restored(a_pool(OFFICE), 5, now.wall + 1e9, now).allowed.mono - now.mono == 1800


def test_replicas_of_which_nothing_is_known_stay_for_the_idle_time() -> None:
    now = at("2026-11-20T10:00Z")
    held = adopted(a_pool(BASE, OFFICE), 7, now)
    assert (held.count, held.allowed.mono - now.mono) == (7, 1800)


# Before a policy begins.


def early(pool: HeadroomPool, time: str, lead_s: float, active: int = 0) -> tuple[int, str | None]:
    now = at(time)
    wanted = want(pool, active, CoolDown(0, now), now, lead_s)
    return wanted.desired, None if wanted.early is None else wanted.early.policy


def test_a_policy_is_served_from_its_lead_time_on_and_not_sooner() -> None:
    pool = a_pool(BASE, OFFICE)
    assert early(pool, "2026-11-20T07:55:59Z", 240) == (0, None)
    assert early(pool, "2026-11-20T07:56:00Z", 240) == (5, "office")
    assert early(pool, "2026-11-20T07:59:59Z", 240) == (5, "office")
    assert early(pool, "2026-11-20T08:00:00Z", 240) == (5, None)
    assert early(pool, "2026-11-20T07:59:59Z", 0) == (0, None)


def test_the_policy_that_holds_keeps_its_name_and_the_coming_one_tells_when_it_begins() -> None:
    now = at("2026-11-20T07:57:00Z")
    wanted = want(a_pool(BASE, OFFICE), 0, CoolDown(0, now), now, 240)
    assert (wanted.policy, wanted.target, wanted.reason) == ("base", 5, Headcount.IDLE_COUNT)
    assert wanted.early is not None
    assert wanted.early.starts_at == at("2026-11-20T08:00Z").wall


def test_nothing_is_given_up_early() -> None:
    pool = a_pool(BASE, OFFICE)
    assert early(pool, "2026-11-20T17:59:00Z", 900) == (5, None)
    assert early(pool, "2026-11-20T18:00:00Z", 900) == (0, None)


def test_the_largest_of_several_windows_ahead_counts_and_the_caps_with_it() -> None:
    eight = {"name": "eight", "periods": ["0 8 * * *"], "idleCount": 8}
    nine = {"name": "nine", "periods": ["2 8 * * *"], "idleCount": 9}
    pool = a_pool(BASE, eight, nine, OFFICE | {"periods": ["1 8 * * *"]})
    assert early(pool, "2026-11-20T07:59Z", 60) == (8, "eight")
    assert early(pool, "2026-11-20T07:59Z", 120) == (8, "eight")
    assert early(pool, "2026-11-20T07:59Z", 120, active=30) == (15, "office")
    assert early(pool, "2026-11-20T07:59Z", 180) == (9, "nine")
    assert early(a_pool(BASE, eight, maxPods=3), "2026-11-20T07:59Z", 60) == (3, "eight")


def test_windows_of_other_zones_begin_by_their_clock() -> None:
    berlin = a_pool(BASE, {**OFFICE, "timezone": "Europe/Berlin"})
    assert early(berlin, "2026-10-23T05:58Z", 120) == (5, "office")
    assert early(berlin, "2026-10-26T06:58Z", 120) == (5, "office")
    nepal = a_pool(BASE, {**OFFICE, "timezone": "Asia/Kathmandu"})
    assert early(nepal, "2026-10-26T02:14Z", 60) == (5, "office")
    assert early(nepal, "2026-10-26T02:13:59Z", 60) == (0, None)


def test_what_was_asked_for_early_stays_until_the_window_however_the_lead_time_shrinks() -> None:
    pool = a_pool({**BASE, "idleTime": "0s"}, {**OFFICE, "idleTime": "0s"})
    first = at("2026-11-20T07:55:00Z")
    held = want(pool, 0, CoolDown(0, first), first, 300).held
    assert want(pool, 0, held, at("2026-11-20T07:59:50Z"), 0).target == 5
    gone = a_pool({**BASE, "idleTime": "0s"})
    assert want(gone, 0, held, at("2026-11-20T08:00:00Z"), 300).target == 0


def test_the_idle_time_is_that_of_the_policy_that_asked_for_the_most() -> None:
    now = at("2026-11-20T07:59:00Z")
    held = want(a_pool(BASE, OFFICE), 0, CoolDown(0, now), now, 60).held
    assert held.allowed.mono - now.mono == 1800


@pytest.mark.parametrize("seed", seeds(30))
def test_minutes_are_enough_to_find_every_policy_ahead(seed: int) -> None:
    rng = random.Random(seed)
    policies = [BASE, *(_policy(rng, name) for name in "abc")]
    pool = a_pool(*policies)
    now = Instant(at("2026-11-20T07:30Z").wall + rng.uniform(0, 3600), 0.0)
    lead_s = float(rng.choice([0, 1, 59, 60, 240, 1199]))
    looks = [now.wall + number for number in range(int(lead_s) + 1)]
    slow = max(desired(pool, policy_at(pool, wall), 7)[0] for wall in looks)
    assert want(pool, 7, CoolDown(0, now), now, lead_s).desired == slow


def _policy(rng: random.Random, name: str) -> dict[str, Any]:
    minute, length = rng.randrange(60), rng.randint(1, 20)
    period = f"{minute}-{min(59, minute + length)} {rng.choice(['7', '8', '*'])} * * *"
    zone = rng.choice(["UTC", "Europe/Berlin", "Asia/Kathmandu"])
    return {"name": name, "periods": [period], "timezone": zone, "idleCount": rng.randint(0, 9), "scaleFactor": "0.3"}
