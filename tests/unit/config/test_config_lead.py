"""How long before a window: `leadTime` of pools and targets."""

from typing import Any

import pytest

from autoscaler.config.headroom import read_headroom
from autoscaler.config.reservations import read_reservations
from autoscaler.errors import ConfigError

PLACES = ("headroom.pools[0].leadTime", "reservations.targets[0].leadTime")


def read(value: object) -> tuple[list[Any], list[str]]:
    """Return what a pool and a target make of a value, and what is wrong with it in their lines."""
    own = {} if value is None else {"leadTime": value}
    pool = {"name": "ci", "namespace": "ci", "resources": {"cpu": 1}, **own}
    container = {"name": "c", "resources": {"requests": {"cpu": 1}}}
    target = {"name": "ci", "podTemplate": {"spec": {"containers": [container]}}, **own}
    found: list[Any] = []
    problems: list[str] = []
    try:
        found.append(read_headroom({"pools": [pool]}, -10).pools[0].lead_time_s)
    except ConfigError as error:
        problems += error.problems
    try:
        found.append(read_reservations({"targets": [target]}, -10).targets[0].lead_time_s)
    except ConfigError as error:
        problems += error.problems
    return found, problems


@pytest.mark.parametrize(
    ("value", "seconds"), [(None, None), ("auto", None), ("0s", 0.0), ("4m", 240.0), ("90s", 90.0), ("1h", 3600.0)]
)
def test_it_is_learned_or_set(value: object, seconds: float | None) -> None:
    assert read(value) == ([seconds, seconds], [])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("soon", '"soon" is neither auto nor a duration such as 5m; write 0s to wait for the window'),
        ("30", '"30" is neither auto nor a duration such as 5m; write 0s to wait for the window'),
        (30, "30 is not a duration; write text with a unit, such as 90s, 10m or 1h30m"),
        ("-5m", '"-5m" is not within 0s..1h; let the window itself begin earlier'),
        ("61m", '"61m" is not within 0s..1h; let the window itself begin earlier'),
        (True, "true is not a duration; write text with a unit, such as 90s, 10m or 1h30m"),
        (["4m"], "a list is not a duration; write text with a unit, such as 90s, 10m or 1h30m"),
    ],
)
def test_what_will_not_do_is_told_with_its_place_and_what_would(value: object, says: str) -> None:
    assert read(value) == ([], [f"config: {place}: {says}" for place in PLACES])
