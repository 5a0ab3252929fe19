"""The life cycle of replacements as a function of what is remembered, what a simulation shows, and the time."""

import msgspec
import pytest

from autoscaler.clock import Instant
from autoscaler.config.scaledown import ReplacementOptions as Options
from autoscaler.reasons import ReplacementHold, ReplacementStage, ReplacementTrigger, UnremovableNode, UnremovableReason
from autoscaler.scaledown import consolidation_backoff
from autoscaler.scaledown import replacement as states
from autoscaler.scaledown.replacement import (
    Purchase,
    Replacement,
    ReplacementBackoff,
    ReplacementForecast,
    ReplacementMemory,
    UnprovenConsolidation,
    advance,
    hurried,
)
from autoscaler.scaledown.replacement_record import STATE, record_of, restored
from autoscaler.snapshot.groups import Group
from cloudprovider.interface import GroupSettings
from tests.builders import a_group, a_node, a_pod
from tests.unit.scaledown.pieces import NOW, a_removal

OPTIONS = Options()
STANDS = (a_removal("old", drained=True),)
POD = a_pod("app", node="old")


def a_replacement(**about: object) -> Replacement:
    fields = {"trigger": ReplacementTrigger.EXPIRED, "nodes": ("old",), "began": NOW, **about}
    return Replacement(**fields)  # type: ignore[arg-type]


def paid(**about: object) -> Replacement:
    return a_replacement(stage=ReplacementStage.BOUGHT, bought=(Purchase("g", 1),), buys=1, **about)


@pytest.mark.parametrize(
    ("one", "seen", "stage", "hold"),
    [
        pytest.param(paid(), ReplacementForecast(), ReplacementStage.DONE, None, id="all old nodes are gone"),
        pytest.param(
            a_replacement(),
            ReplacementForecast(removals=STANDS),
            ReplacementStage.READY,
            None,
            id="everything fits as it is",
        ),
        pytest.param(
            a_replacement(),
            ReplacementForecast(removals=STANDS, unplaced=(POD,)),
            ReplacementStage.PROPOSED,
            ReplacementHold.NO_CAPACITY,
            id="pods need room",
        ),
        pytest.param(
            a_replacement(),
            ReplacementForecast(removals=STANDS, short={"g": 1}),
            ReplacementStage.PROPOSED,
            ReplacementHold.NO_CAPACITY,
            id="below minimum",
        ),
        pytest.param(
            paid(),
            ReplacementForecast(removals=STANDS, awaited=1),
            ReplacementStage.BOUGHT,
            ReplacementHold.NOT_READY,
            id="pods wait for it",
        ),
        pytest.param(
            paid(),
            ReplacementForecast(removals=STANDS, arrived=False),
            ReplacementStage.BOUGHT,
            ReplacementHold.NOT_READY,
            id="what was bought has not come",
        ),
        pytest.param(paid(), ReplacementForecast(removals=STANDS), ReplacementStage.READY, None, id="it has come"),
        pytest.param(
            paid(), ReplacementForecast(leaving=("old",)), ReplacementStage.DRAINING, None, id="its removal has begun"
        ),
        pytest.param(
            paid(),
            ReplacementForecast(kept=UnremovableNode("old", UnremovableReason.BLOCKED_BY_POD)),
            ReplacementStage.BOUGHT,
            ReplacementHold.NODE_KEPT,
            id="a pod keeps it",
        ),
        pytest.param(
            paid(),
            ReplacementForecast(removals=STANDS, withdrawn=True),
            ReplacementStage.ABANDONED,
            ReplacementHold.WITHDRAWN,
            id="nobody wants it",
        ),
        pytest.param(
            paid(),
            ReplacementForecast(leaving=("old",), withdrawn=True),
            ReplacementStage.DRAINING,
            None,
            id="too late to withdraw",
        ),
        pytest.param(
            msgspec.structs.replace(paid(), buys=3),
            ReplacementForecast(removals=STANDS, unplaced=(POD,)),
            ReplacementStage.ABANDONED,
            ReplacementHold.NEVER_CAME,
            id="bought often enough",
        ),
    ],
)
def test_stages(
    one: Replacement, seen: ReplacementForecast, stage: ReplacementStage, hold: ReplacementHold | None
) -> None:
    after = advance(one, seen, NOW.later(60), OPTIONS)
    assert (after.stage, after.hold) == (stage, hold)


def test_what_takes_too_long_is_given_up_unless_its_pods_are_leaving() -> None:
    late = NOW.later(OPTIONS.replacement_timeout_s + 1)
    assert (
        advance(paid(), ReplacementForecast(removals=STANDS, awaited=1), late, OPTIONS).hold
        is ReplacementHold.TIMED_OUT
    )
    assert advance(paid(), ReplacementForecast(leaving=("old",)), late, OPTIONS).stage is ReplacementStage.DRAINING


def test_a_node_rests_twice_as_long_each_time_but_not_without_end() -> None:
    rest: ReplacementBackoff | None = None
    delays = []
    for _ in range(8):
        rest = states.next_backoff(rest, paid(), NOW, OPTIONS)
        delays.append(rest.until.mono - NOW.mono)
    assert delays[:3] == [1800, 3600, 7200]
    assert delays[-1] == delays[-2] == 1800 * 32


def test_purchases_for_one_group_add_up() -> None:
    one = states.bought(paid(), [Purchase("g", 2), Purchase("h", 1)])
    assert one.bought == (Purchase("g", 3), Purchase("h", 1))
    assert one.buys == 2


def test_a_process_that_starts_goes_on_with_what_nodes_say() -> None:
    both = paid(nodes=("a", "b"), price_before=2.0, price_after=1.0)
    nodes = [a_node(name, annotations={STATE: record_of(both)}) for name in ("a", "b")]
    later = Instant(NOW.wall + 100, 7.0)
    (one,) = restored(nodes, later).in_progress
    assert (one.nodes, one.bought, one.buys, one.saving) == (("a", "b"), (Purchase("g", 1),), 1, 1.0)
    assert one.began == Instant(NOW.wall, 7.0 - 100)
    assert restored(nodes[:1], later).in_progress == restored(nodes, later).in_progress, "the other node is gone by now"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="the other node says nothing: nothing was bought yet"),
        pytest.param("{}", id="the other node says something else"),
    ],
)
def test_a_record_that_not_all_nodes_carry_counts_for_nothing(text: str | None) -> None:
    record = record_of(paid(nodes=("a", "b")))
    other = a_node("b", annotations={} if text is None else {STATE: text})
    assert restored([a_node("a", annotations={STATE: record}), other], NOW) == ReplacementMemory()


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"trigger":"NodeExpired","nodes":[],"began":1}'])
def test_what_nobody_can_read_counts_for_nothing(text: str) -> None:
    assert restored([a_node("a", annotations={STATE: text})], NOW) == ReplacementMemory()


def test_a_rest_survives_a_restart() -> None:
    rest = ReplacementBackoff(until=NOW.later(600), hold=ReplacementHold.TIMED_OUT, failures=2)
    node = a_node("old", annotations={STATE: record_of(paid(), rest)})
    found = restored([node], NOW.later(100)).rests["old"]
    assert (found.until, found.hold, found.failures) == (NOW.later(600), ReplacementHold.TIMED_OUT, 2)


def test_a_group_may_have_its_own_age_or_none() -> None:
    def aged(own: float | None) -> Group:
        return msgspec.structs.replace(a_group(), settings=GroupSettings(max_node_age_s=own))

    options = Options(max_node_age_s=100.0)
    ages = [states.due_age_s(aged(own), options) for own in (None, 50.0, 0.0)]
    assert ages == [100.0, 50.0, None]


def unsettled(**about: object) -> ReplacementMemory:
    one = UnprovenConsolidation(id="old", classes=frozenset((POD.cls,)), workload=frozenset(((POD.cls, 1),)))
    return ReplacementMemory(settling=msgspec.structs.replace(one, **about))


def test_no_other_plan_is_made_before_the_last_one_has_settled() -> None:
    memory = consolidation_backoff.prove_or_back_off(unsettled(), frozenset(), NOW, OPTIONS)
    assert not consolidation_backoff.may_consolidate(memory, frozenset(), NOW, OPTIONS)
    memory = consolidation_backoff.prove_or_back_off(
        memory, frozenset(), NOW.later(OPTIONS.consolidation_interval_s), OPTIONS
    )
    assert consolidation_backoff.may_consolidate(
        memory, frozenset(), NOW.later(OPTIONS.consolidation_interval_s), OPTIONS
    )


def test_a_plan_that_scale_up_undid_is_not_repeated_for_the_same_pods_nor_soon_for_others() -> None:
    memory = consolidation_backoff.prove_or_back_off(unsettled(), frozenset((POD.cls,)), NOW, OPTIONS)
    same, other = frozenset(((POD.cls, 1),)), frozenset(((POD.cls, 2),))
    much_later = NOW.later(1e6)
    assert not consolidation_backoff.may_consolidate(memory, same, much_later, OPTIONS)
    assert not consolidation_backoff.may_consolidate(memory, other, NOW.later(60), OPTIONS)
    assert consolidation_backoff.may_consolidate(memory, other, much_later, OPTIONS)


def test_nodes_for_other_pods_do_not_speak_against_a_plan() -> None:
    other = a_pod("other", cpu="7").cls
    assert consolidation_backoff.prove_or_back_off(unsettled(), frozenset((other,)), NOW, OPTIONS).doubt is None


@pytest.mark.parametrize(
    ("one", "seen", "stage"),
    [
        pytest.param(paid(), {"unplaced": (POD,)}, ReplacementStage.READY, id="its pods have no place"),
        pytest.param(a_replacement(), {"awaited": 1}, ReplacementStage.READY, id="new nodes have not come"),
        pytest.param(
            paid(),
            {"kept": UnremovableNode("old", UnremovableReason.BLOCKED_BY_POD)},
            ReplacementStage.BOUGHT,
            id="a pod keeps it",
        ),
        pytest.param(
            a_replacement(stage=ReplacementStage.ABANDONED), {}, ReplacementStage.ABANDONED, id="it was given up"
        ),
    ],
)
def test_a_node_that_has_to_go_does_not_wait_for_new_nodes(
    one: Replacement, seen: dict[str, object], stage: ReplacementStage
) -> None:
    forecast = ReplacementForecast(removals=STANDS, leave_at=NOW.later(60), **seen)  # type: ignore[arg-type]
    assert hurried(one, forecast, NOW.later(59)) == one
    assert hurried(one, forecast, NOW.later(60)).stage is stage
