"""Graces of blocked drains as people write them."""

import msgspec
import pytest

from autoscaler.config.document import to_options
from autoscaler.config.drain_grace import DrainGrace, grace_of, parse_grace
from autoscaler.config.load import from_options, load
from autoscaler.errors import ConfigError
from autoscaler.reasons import ReplacementTrigger

EXPIRED, UNHEALTHY = ReplacementTrigger.EXPIRED, ReplacementTrigger.UNHEALTHY


@pytest.mark.parametrize(
    ("text", "grace"),
    [
        pytest.param("expiry=24h", DrainGrace(EXPIRED, 86400.0), id="people are told"),
        pytest.param("repair=0s;overrule", DrainGrace(UNHEALTHY, 0.0, None, True), id="at once"),
        pytest.param(
            " expiry=90m ; overrule ; group=a/b=c ", DrainGrace(EXPIRED, 5400.0, "a/b=c", True), id="of one group"
        ),
    ],
)
def test_a_grace_is_read(text: str, grace: DrainGrace) -> None:
    config = load([f"--drain-grace={text}"])
    assert config.replacement.drain_grace == (grace,)
    assert from_options(to_options(config)) == msgspec.structs.replace(config, given=("drain-grace",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("24h", "is not reason=grace", id="no reason"),
        pytest.param("age=24h", 'reason "age" that is not one of drift, expiry', id="unknown reason"),
        pytest.param("expiry=soon", 'grace "soon" that is not a duration', id="no duration"),
        pytest.param("expiry=745h", "from 0 to 744h", id="over a month"),
        pytest.param("expiry=1h;group=", 'part "group=" that is neither', id="no group"),
        pytest.param("expiry=1h;force", 'part "force" that is neither group=name nor overrule', id="unknown part"),
        pytest.param("expiry=1h;overrule;overrule", 'part "overrule" that is neither', id="twice"),
    ],
)
def test_a_grace_that_cannot_be_read_is_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load([f"--drain-grace={text}"])
    (line,) = caught.value.problems
    assert words in line


def test_a_group_has_its_own_grace_or_that_of_all() -> None:
    graces = (*parse_grace("expiry=1h"), *parse_grace("expiry=2h;group=g"), *parse_grace("repair=3h;group=g"))
    hours = {
        (trigger, group): grace and grace.grace_s / 3600
        for trigger in (EXPIRED, UNHEALTHY)
        for group in "gh"
        for grace in [grace_of(graces, trigger, group)]
    }
    assert hours == {(EXPIRED, "g"): 2, (EXPIRED, "h"): 1, (UNHEALTHY, "g"): 3, (UNHEALTHY, "h"): None}
