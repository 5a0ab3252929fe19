"""The headroom section of the configuration file: what it means, and everything that can be wrong with it."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.config.cron import parse_period
from autoscaler.config.headroom import Headroom, OnShutdown, read_headroom, warnings
from autoscaler.config.load import load, load_file
from autoscaler.config.selector import parse_selector
from autoscaler.errors import ConfigError

BASE = {"name": "base", "periods": ["* * * * *"], "timezone": "UTC", "idleCount": 0}
OFFICE = {"name": "office", "periods": ["* 8-17 * * mon-fri"], "idleCount": 5, "idleTime": "30m", "scaleFactor": "0.5"}


def a_pool(**fields: Any) -> dict[str, Any]:
    pool = {"name": "ci", "namespace": "ci", "resources": {"cpu": "2"}, "policies": [BASE, OFFICE], **fields}
    return {key: value for key, value in pool.items() if value is not None}


def read(*pools: dict[str, Any], cutoff: int = -10, **fields: Any) -> Headroom:
    return read_headroom({"pools": list(pools), **fields}, cutoff)


def problems(*pools: dict[str, Any], cutoff: int = -10, **fields: Any) -> tuple[str, ...]:
    try:
        read(*pools, cutoff=cutoff, **fields)
    except ConfigError as error:
        return error.problems
    return ()


def test_defaults() -> None:
    headroom = read(a_pool(policies=[{}]))
    pool = headroom.pools[0]
    assert (headroom.reconcile_interval_s, headroom.on_shutdown, headroom.orphan_after_s) == (10, OnShutdown.KEEP, 3600)
    assert (pool.priority_value, pool.priority_class, pool.image) == (
        -10,
        "cluster-headroom",
        "registry.k8s.io/pause:3.10",
    )
    policy = pool.policies[0]
    assert (policy.name, policy.timezone.key, policy.idle_time_s) == ("policy-0", "UTC", 300)
    assert (policy.scale_factor, policy.always) == (Decimal(0), True)


def test_a_file_with_flags_and_headroom_is_read_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "autoscaler.yaml"
    path.write_text(yaml.safe_dump({"loop": {"scanInterval": "20s"}, "headroom": {"pools": [a_pool()]}}))
    config = load(["--config", str(path)])
    assert config.loop.scan_interval_s == 20
    assert config.headroom is not None
    assert config.headroom.pools[0].policies[1].scale_factor == Decimal("0.5")
    assert load([]).headroom is None


def test_every_problem_of_a_file_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "autoscaler.yaml"
    bad = {"loop": {"scanInterval": 20}, "headroom": {"pools": [a_pool(idleCuont=3, namespace=None, resources=[])]}}
    path.write_text(yaml.safe_dump(bad))
    with pytest.raises(ConfigError) as caught:
        load_file(str(path))
    named = [line.split(": ")[1] for line in caught.value.problems]
    assert named == [
        "loop.scanInterval",
        "headroom.pools[0].idleCuont",
        "headroom.pools[0].namespace",
        "headroom.pools[0].resources",
    ]


def test_b2_a_policy_that_a_later_one_always_beats_is_an_error() -> None:
    unreachable = "unreachable, policies[1] always matches and the last match wins"
    assert problems(a_pool(policies=[OFFICE, BASE])) == (f"config: headroom.pools[0].policies[0]: {unreachable}",)


def test_a_later_policy_without_periods_beats_the_earlier_ones_too() -> None:
    found = problems(a_pool(policies=[BASE, OFFICE, {"name": "x"}]))
    assert [line.split(": ")[1] for line in found] == [f"headroom.pools[0].policies[{n}]" for n in (0, 1)]


@pytest.mark.parametrize(
    ("period", "says"),
    [
        ("invalid", "is not five fields but 1; write minute, hour, day of month, month, day of week"),
        ("60 * * * *", "minute: 60 is not within 0-59"),
        ("* * * * * *", "is not five fields but 6"),
        ("@daily", "is not five fields but 1"),
        ("* fri-mon * * *", "hour: fri-mon is not within 0-23; write a value, a-b or *"),
        ("* * * * fri-mon", "day of week: fri-mon is not within 0-7 or sun-sat"),
        ("*/0 * * * *", "minute: */0 is not within 0-59"),
        ("* * 15W * *", "day of month: 15W is not within the days 1-31 of those months"),
        ("* * ? * *", "day of month: ? is not within"),
        ("* * * 0 *", "month: 0 is not within 1-12 or jan-dec"),
        ("* * * * 8", "day of week: 8 is not within 0-7 or sun-sat"),
        ("* * * * mon,", "day of week: mon, is not within"),
        ("٣ * * * *", "minute: ٣ is not within"),
        ("0 0 30 2 *", "day of month: 30 is not within the days 1-31 of those months"),
    ],
)
def test_bad_periods_name_their_place_the_field_and_what_is_allowed(period: str, says: str) -> None:
    (line,) = problems(a_pool(policies=[{"periods": ["* * * * *", period]}]))
    assert line.startswith("config: headroom.pools[0].policies[0].periods[1]: ")
    assert says in line


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        pytest.param(
            {"timezone": "Mars/Base"},
            'timezone: "Mars/Base" is not a known time zone; write for example Europe/Berlin',
            id="zone",
        ),
        pytest.param(
            {"timezone": "../etc/passwd"},
            'timezone: "../etc/passwd" is not a known time zone; write for example Europe/Berlin',
            id="path",
        ),
        pytest.param({"idleCount": -1}, 'idleCount: "-1" is too small; write 0 or more', id="idle count"),
        pytest.param({"idleCount": 1.5}, "idleCount: 1.5 is not a whole number", id="fraction"),
        pytest.param({"idleCount": True}, "idleCount: true is not a whole number", id="boolean"),
        pytest.param({"scaleFactor": "-0.5"}, 'scaleFactor: "-0.5" is not within 0..1000000', id="negative factor"),
        pytest.param(
            {"scaleFactor": float("nan")},
            'scaleFactor: "nan" is not a number; write for example 0.5',
            id="not a number",
        ),
        pytest.param({"scaleFactorLimit": -1}, 'scaleFactorLimit: "-1" is too small; write 0 or more', id="limit"),
        pytest.param({"idleTime": "-5m"}, 'idleTime: "-5m" is too small; write 0 or more', id="negative time"),
        pytest.param(
            {"idleTime": 30},
            "idleTime: 30 is not a duration; write text with a unit, such as 90s, 10m or 1h30m",
            id="time without unit",
        ),
        pytest.param({"name": "none"}, 'name: "none" stands for no policy in metrics; choose another', id="none"),
    ],
)
def test_bad_policies(fields: dict[str, Any], line: str) -> None:
    assert problems(a_pool(policies=[fields])) == (f"config: headroom.pools[0].policies[0].{line}",)


@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        pytest.param({"maxPods": -1}, "maxPods: ", id="negative maximum"),
        pytest.param({"resources": {}}, "resources: needs cpu or memory", id="no requests"),
        pytest.param({"resources": {"nvidia.com/gpu": 1}}, "resources: needs cpu or memory", id="only devices"),
        pytest.param({"resources": {"cpu": 0}}, "resources.cpu: must be more than 0", id="zero"),
        pytest.param({"resources": {"cpu": "two"}}, "resources.cpu: 'two' is not a quantity", id="no quantity"),
        pytest.param({"name": "CI"}, 'name: "CI" is not a DNS label of at most 40', id="capitals"),
        pytest.param({"name": "x" * 41}, "name: ", id="long name"),
        pytest.param({"priorityValue": 0}, "priorityValue: priority 0 is not below 0", id="zero priority"),
        pytest.param({"podLabels": {"headroom-pool": "x"}}, "podLabels.headroom-pool: is set by", id="our label"),
        pytest.param({"active": {"selector": "a in b"}}, "active.selector: ", id="selector"),
        pytest.param({"policies": "office"}, "policies: must be a list, not a string", id="no list"),
    ],
)
def test_bad_pools(fields: dict[str, Any], begins: str) -> None:
    (line,) = problems(a_pool(**fields))
    assert line.startswith(f"config: headroom.pools[0].{begins}")


def test_b18_pause_pods_below_the_cutoff_are_an_error() -> None:
    (line,) = problems(a_pool(priorityValue=-1), cutoff=0)
    assert line == (
        "config: headroom.pools[0].priorityValue: priority -1 is below expendable-pods-priority-cutoff 0: "
        "headroom would never trigger scale-up"
    )
    assert problems(a_pool(priorityValue=-11)) != ()
    assert problems(a_pool(priorityValue=-10)) == ()
    assert problems(a_pool(priorityValue=-11, priorityClassName="own")) == ()


def test_pools_that_would_share_a_deployment_or_fight_over_the_class_are_errors() -> None:
    found = problems(a_pool(), a_pool(), a_pool(name="other", priorityValue=-1))
    assert [line.split(": ")[1] for line in found] == ["headroom.pools[1].name", "headroom.pools[2].priorityValue"]


@pytest.mark.parametrize("text", ["500ms", "6m"])
def test_the_interval_has_bounds(text: str) -> None:
    (line,) = problems(reconcileInterval=text)
    assert line.startswith("config: headroom.reconcileInterval: ")


def test_odd_things_are_warned_of() -> None:
    headroom = read(a_pool(maxPods=3), a_pool(name="idle", policies=None))
    assert list(warnings(headroom)) == [
        "headroom.pools[0].policies[1].idleCount: 5 is capped to 3",
        "headroom.pools[1].policies: there are none, the pool idles at 0",
    ]


@pytest.mark.parametrize(
    ("period", "matches", "misses"),
    [
        ("* 8-17 * * *", ["2026-11-20 08:00", "2026-11-20 17:59"], ["2026-11-20 07:59", "2026-11-20 18:00"]),
        ("*/15 * * * *", ["2026-11-20 08:45"], ["2026-11-20 08:46"]),
        ("5-10/2 * * * *", ["2026-11-20 08:07"], ["2026-11-20 08:08", "2026-11-20 08:11"]),
        ("* * * * SAT,7", ["2026-11-21 00:00", "2026-11-22 00:00"], ["2026-11-23 00:00"]),
        ("* * * * 5-7", ["2026-11-22 00:00"], ["2026-11-23 00:00"]),
        ("* * * Nov-dec *", ["2026-11-22 00:00"], ["2026-10-23 00:00"]),
        ("* * 13 * 5", ["2026-11-20 00:00", "2026-12-13 00:00"], ["2026-11-21 00:00"]),
        ("* * */2 * 5", ["2026-11-13 00:00"], ["2026-11-20 00:00", "2026-11-15 00:00"]),
        ("* * L * *", ["2026-11-30 00:00"], ["2026-11-29 00:00"]),
        ("* * * * 5#2", ["2026-11-13 00:00"], ["2026-11-06 00:00", "2026-11-14 00:00"]),
    ],
)
def test_periods(period: str, matches: list[str], misses: list[str]) -> None:
    parsed = parse_period(period)
    assert [parsed.holds(datetime.fromisoformat(text).replace(tzinfo=UTC)) for text in matches] == [True] * len(matches)
    assert [parsed.holds(datetime.fromisoformat(text).replace(tzinfo=UTC)) for text in misses] == [False] * len(misses)


@pytest.mark.parametrize("text", ["* * * * *", "*/1 0-23 1-31 * *", "* * 1-31 * 5", "* * 3 1-12 0-6", "* * 3 * 1-7"])
def test_periods_that_always_hold_are_seen_as_such(text: str) -> None:
    assert parse_period(text).always


@pytest.mark.parametrize(
    "text", ["* * L * *", "* * * * 1-6", "* * * * 1L,2-7", "*/2 * * * *", "* * * 1-11 *", "* * 1-31 * */2"]
)
def test_periods_that_end_are_seen_as_such(text: str) -> None:
    assert not parse_period(text).always


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", {"a", "b", "none"}),
        ("app=a", {"a"}),
        ("app==a,tier", {"a"}),
        ("app!=a", {"b", "none"}),
        ("app in (a, b)", {"a", "b"}),
        ("app notin (a)", {"b", "none"}),
        ("!app", {"none"}),
        ("app in (a,b),!tier", {"b"}),
    ],
)
def test_selectors(text: str, selected: set[str]) -> None:
    pods = {"a": {"app": "a", "tier": "x"}, "b": {"app": "b"}, "none": {"other": "1"}}
    assert {name for name, labels in pods.items() if parse_selector(text).selects(labels)} == selected


@pytest.mark.parametrize("text", ["=", "a in b", "!a=b", "a=b=c", "a,,b", "a in (b", "a=ü"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"selector|value"):
        parse_selector(text)
