"""Reservations in plans: times in seconds, entries as (effective, expiration). Names of acceptance tests begin with
their id."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from autoscaler.config.overrides import Frequency, Override, Recurrence
from autoscaler.config.reservations import RemovalOrder, ReservationTarget
from autoscaler.reasons import NoReservation
from autoscaler.reservations.plan import JobAttempt, Operation, OperationVerdict, ReservationPlan, plan
from autoscaler.reservations.pods import demand
from autoscaler.reservations.state import (
    LARGEST_BYTES,
    LEDGER_ROWS,
    AnnouncementSource,
    Reservation,
    TargetState,
    Unreadable,
    ledger_key,
    read_state,
    write_state,
)
from tests.seeds import seeds

DAY = 86_400.0
ONE_SLOT = ReservationTarget(name="t", max_replicas=1)
UNLIMITED = ReservationTarget(name="t")


def entries(*spans: tuple[float, float]) -> TargetState:
    return TargetState(
        entries=tuple(
            Reservation(id=str(number), accepted=start, length_s=end - start, activated=start)
            for number, (start, end) in enumerate(spans)
        )
    )


T = entries((0, 10), (3, 13))


def change(amount: int, length_s: float = 10.0, *, delivery: str = "", job: int = 0, kind: str = "queued") -> Operation:
    keys = JobAttempt(ledger_key("queued", job), ledger_key("completed", job)) if job else None
    return Operation(
        target="t",
        amount=amount,
        length_s=length_s,
        seed=f"{amount}/{length_s}/{delivery}/{job}/{kind}",
        delivery=delivery,
        job=keys,
    )


def planned(
    state: TargetState, now: float, *operations: Operation, target: ReservationTarget = ONE_SLOT
) -> ReservationPlan:
    return plan(state, operations, target, now, 3 * DAY)


def shown(state: TargetState, now: float) -> list[tuple[float, float]]:
    return [entry.shown(now) for entry in state.entries]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        pytest.param([(1, 10)], [(0, 10), (6, 16), (6, 16)], id="c1 what waits is extended, what is new waits too"),
        pytest.param([(1, 11)], [(0, 10), (6, 16), (6, 17)], id="c2 an extension keeps the old length"),
        pytest.param([(-1, 10)], [(6, 16)], id="c3 the oldest goes, the next takes its slot"),
        pytest.param([(0, 10)], [(0, 10), (6, 16)], id="c4 nothing but time"),
        pytest.param([(-5, 10), (1, 10)], [(6, 16)], id="c5 the rest of a large removal is forgotten"),
        pytest.param([(1, 10), (-5, 10)], [], id="c5 in order of arrival"),
    ],
)
def test_operations(amounts: Sequence[tuple[int, float]], expected: list[tuple[float, float]]) -> None:
    done = planned(T, 6, *(change(amount, length) for amount, length in amounts if amount))
    assert shown(done.state, 6) == expected


def test_c6_an_entry_expires_at_its_very_end_and_the_next_takes_its_slot() -> None:
    done = planned(T, 10)
    assert shown(done.state, 10) == [(10, 20)]
    assert (done.expired, done.extended, done.changed) == (1, 1, True)


def test_c7_without_a_maximum_nothing_waits() -> None:
    done = planned(T, 10, target=UNLIMITED)
    assert shown(done.state, 10) == [(3, 13)]
    assert done.extended == 0


@pytest.mark.parametrize(("amounts", "left"), [((-1, 1), 1), ((1, -1), 0)])
def test_c8_order_matters_at_zero(amounts: Sequence[int], left: int) -> None:
    assert len(planned(TargetState(), 0, *map(change, amounts)).state.entries) == left


def test_c9_an_amount_makes_as_many_entries() -> None:
    state = planned(TargetState(), 0, change(3), target=UNLIMITED).state
    assert len({entry.id for entry in state.entries}) == 3


def test_c10_what_waits_does_not_age() -> None:
    target = ReservationTarget(name="t", max_replicas=3)
    state = planned(TargetState(), 0, change(5, 600), target=target).state
    counts = []
    for now in range(0, 3601, 15):
        state = planned(state, now, target=target).state
        wanted = demand(target, state, 0, now)
        counts.append((wanted.active, wanted.queued))
    assert counts[:40] == [(3, 2)] * 40
    assert counts[40:80] == [(2, 0)] * 40
    assert counts[80:] == [(0, 0)] * (241 - 80)


def test_c18_a_delivery_counts_once() -> None:
    first = planned(TargetState(), 0, change(1, delivery="a"), change(1, delivery="a"), target=UNLIMITED)
    assert [effect.verdict for effect in first.effects] == [OperationVerdict.ADDED, OperationVerdict.DUPLICATE]
    again = planned(read_state(write_state(first.state)), 1, change(1, delivery="a"), target=UNLIMITED)
    assert (again.effects[0].verdict, again.changed) == (OperationVerdict.DUPLICATE, False)
    later = planned(first.state, 3 * DAY + 2, change(1, delivery="a"), target=UNLIMITED)
    assert later.effects[0].verdict is OperationVerdict.ADDED


@pytest.mark.parametrize(("removal", "left"), [(RemovalOrder.MATCHED, 1), (RemovalOrder.OLDEST, 0)])
def test_c19_ends_of_other_jobs_sent_again_cancel_nothing(removal: RemovalOrder, left: int) -> None:
    target = ReservationTarget(name="t", removal=removal)
    before = TargetState()
    for job in range(1, 6):
        before = planned(before, 0, change(1, job=job), target=target).state
        before = planned(before, 1, change(-1, job=job), target=target).state
    assert before.entries == ()
    done = planned(before, 2, change(1, job=101), *(change(-1, job=job) for job in range(1, 6)), target=target)
    assert len(done.state.entries) == left
    if removal is RemovalOrder.MATCHED:
        assert {effect.verdict for effect in done.effects[1:]} == {OperationVerdict.DUPLICATE}


def test_c20_the_end_of_a_job_may_come_before_its_beginning() -> None:
    before = planned(TargetState(), 0, change(1, job=1), target=UNLIMITED).state
    early = planned(before, 1, change(-1, job=7), target=UNLIMITED)
    assert early.effects[0].reason is NoReservation.UNKNOWN_JOB
    late = planned(early.state, 2, change(1, job=7), target=UNLIMITED)
    assert late.effects[0].reason is NoReservation.JOB_COMPLETED
    assert late.state.entries == before.entries
    forgotten = planned(early.state, 603, change(1, job=7), target=UNLIMITED)
    assert forgotten.effects[0].verdict is OperationVerdict.ADDED


def test_a_job_frees_its_own_entry_wherever_it_stands_and_once() -> None:
    state = planned(TargetState(), 0, *(change(1, job=job) for job in (1, 2, 3)), target=UNLIMITED).state
    done = planned(state, 1, change(-1, job=2, kind="completed"), target=UNLIMITED)
    assert [entry.job for entry in done.state.entries] == [ledger_key("queued", 1), ledger_key("queued", 3)]
    again = planned(done.state, 2, change(1, job=2), change(-1, job=2), target=UNLIMITED)
    assert again.state.entries == done.state.entries


def test_c30_the_floor_takes_its_share_of_the_maximum() -> None:
    target = ReservationTarget(name="t", min_replicas=1, max_replicas=3)
    state = planned(TargetState(), 0, change(3), target=target).state
    wanted = demand(target, state, 0, 0)
    assert (wanted.planned, wanted.active, wanted.queued, wanted.slots) == (3, 2, 1, 2)


def test_a_lower_maximum_puts_the_newest_back_and_their_clocks_begin_anew() -> None:
    state = planned(TargetState(), 0, change(3), target=ReservationTarget(name="t", max_replicas=3)).state
    lowered = planned(state, 5, target=ONE_SLOT).state
    assert [entry.activated for entry in lowered.entries] == [0, None, None]
    assert shown(planned(lowered, 10, target=ONE_SLOT).state, 10) == [(10, 20), (10, 20)]


def test_the_newest_are_refused_beyond_what_may_wait_and_may_come_again() -> None:
    target = ReservationTarget(name="t", max_replicas=1, max_queued=1)
    done = planned(TargetState(), 0, change(1), change(3, delivery="a"), change(1, delivery="b"), target=target)
    assert [effect.amount for effect in done.effects] == [1, 1, 0]
    assert done.effects[2].reason is NoReservation.QUEUE_LIMIT
    assert "a" in done.state.deliveries
    assert "b" not in done.state.deliveries


def test_what_waits_longer_than_anything_may_last_is_dropped() -> None:
    target = ReservationTarget(name="t", max_replicas=1, max_duration_s=100.0)
    state = planned(TargetState(), 0, change(2, 90), target=target).state
    for now in (50, 90):
        state = planned(state, now, change(-1) if now == 50 else change(1, 100), target=target).state
    assert planned(state, 101, target=target).too_old == 0
    assert planned(planned(TargetState(), 0, change(2, 100), target=target).state, 101, target=target).too_old == 1


def test_c24_what_is_stored_reads_as_it_was() -> None:
    state = TargetState(
        entries=(
            Reservation(
                id="a", accepted=1.5, length_s=0.25, activated=2.125, source=AnnouncementSource("github", "a/b", 3, 1)
            ),
            Reservation(id="b", accepted=3.001, length_s=600.0, job="j"),
        ),
        deliveries={"x": 5},
        jobs={"y": 6},
    )
    assert read_state(write_state(state)) == state


@pytest.mark.parametrize("text", ["{", "[]", '{"schemaVersion": 2}', '{"schemaVersion": 1, "entries": [{}]}', "{}"])
def test_c25_what_cannot_be_understood_is_told(text: str) -> None:
    with pytest.raises(Unreadable):
        read_state(text)


def test_ledgers_give_way_before_entries_do() -> None:
    rows = {f"{number:016x}": 10**9 + number for number in range(3 * LEDGER_ROWS)}
    kept = read_state(write_state(TargetState(deliveries=rows)))
    assert set(kept.deliveries) == {f"{number:016x}" for number in range(2 * LEDGER_ROWS, 3 * LEDGER_ROWS)}
    full = planned(TargetState(), 0, *(change(1000, delivery=str(number)) for number in range(10)), target=UNLIMITED)
    assert len(write_state(full.state)) <= LARGEST_BYTES
    assert full.effects[-1].reason is NoReservation.QUEUE_LIMIT
    assert 2000 < len(full.state.entries) < 10_000


def test_overrides_change_the_floor_and_the_first_that_holds_wins() -> None:
    def moment(day: int, hour: int) -> datetime:
        return datetime(2026, 11, day, hour, tzinfo=UTC)

    target = ReservationTarget(
        name="t",
        max_replicas=5,
        scheduled_overrides=(
            Override(start_time=moment(20, 10), end_time=moment(20, 12), min_replicas=2),
            Override(
                start_time=moment(20, 9),
                end_time=moment(20, 18),
                min_replicas=4,
                recurrence_rule=Recurrence(frequency=Frequency.DAILY, until_time=moment(22, 0)),
            ),
        ),
    )
    floors = {(20, 8): 0, (20, 9): 4, (20, 10): 2, (20, 12): 4, (20, 18): 0, (21, 9): 4, (22, 9): 0}
    assert {when: target.floor_at(moment(*when).timestamp()) for when in floors} == floors
    assert target.slots_at(moment(20, 10).timestamp()) == 3


def test_the_window_of_an_override_is_that_of_the_occurrence_in_force() -> None:
    began = datetime(2026, 11, 20, 22, tzinfo=UTC).timestamp()
    nightly = Override(
        start_time=datetime(2026, 11, 20, 22, tzinfo=UTC),
        end_time=datetime(2026, 11, 21, 2, tzinfo=UTC),
        recurrence_rule=Recurrence(frequency=Frequency.DAILY),
    )
    hour = 3600.0
    assert nightly.window(began - 1) is None
    assert nightly.window(began) == (began, began + 4 * hour)
    assert nightly.window(began + 4 * hour) is None
    assert nightly.window(began + DAY + 3 * hour) == (began + DAY, began + DAY + 4 * hour)


def test_a_higher_floor_counts_from_the_lead_time_on_and_takes_no_slots_until_it_holds() -> None:
    def moment(hour: int, minute: int = 0) -> float:
        return datetime(2026, 11, 20, hour, minute, tzinfo=UTC).timestamp()

    def override(first: int, last: int, floor: int) -> Override:
        begin, end = (datetime(2026, 11, 1, hour, tzinfo=UTC) for hour in (first, last))
        rule = Recurrence(frequency=Frequency.DAILY)
        return Override(start_time=begin, end_time=end, min_replicas=floor, recurrence_rule=rule)

    target = ReservationTarget(
        name="t", min_replicas=1, max_replicas=9, scheduled_overrides=(override(8, 18, 6), override(2, 5, 0))
    )

    def wanted(hour: int, minute: int, lead_s: float) -> tuple[int, int | None, float | None]:
        one = demand(target, TargetState(), 0, moment(hour, minute), lead_s)
        return one.planned, one.slots, one.early_from

    assert wanted(7, 55, 299) == (1, 8, None)
    assert wanted(7, 55, 300) == (6, 8, moment(8))
    assert wanted(8, 0, 300) == (6, 3, None)
    assert wanted(17, 58, 300) == (6, 3, None)
    assert wanted(18, 0, 300) == (1, 8, None)
    assert wanted(1, 58, 300) == (1, 8, None)
    assert wanted(4, 58, 300) == (1, 9, moment(5)), "the end of an override that lowers the floor raises it again"
    assert wanted(7, 59, 0) == (1, 8, None)


def test_a_floor_about_to_hold_is_used_up_by_real_pods_and_capped_like_any_other() -> None:
    begin = datetime(2026, 11, 20, 8, tzinfo=UTC)
    target = ReservationTarget(
        name="t",
        max_replicas=5,
        scheduled_overrides=(Override(start_time=begin, end_time=begin.replace(hour=9), min_replicas=4),),
    )
    now = begin.timestamp() - 60
    state = plan(TargetState(), [Operation(target="t", amount=3, length_s=600.0, seed="s")], target, now, 60.0).state
    one = demand(target, state, 2, now, 90.0)
    assert (one.floor, one.active, one.planned, one.virtual) == (4, 3, 5, 3)


@pytest.mark.parametrize("seed", seeds(40))
def test_beginnings_and_ends_are_enough_to_find_the_highest_floor_ahead(seed: int) -> None:
    rng = random.Random(seed)
    first = datetime(2026, 1, 31, tzinfo=UTC)

    def override() -> Override:
        begin = first + timedelta(minutes=rng.randrange(3 * 1440))
        frequency = rng.choice([None, *Frequency])
        rule = None if frequency is None else Recurrence(frequency=frequency)
        end = begin + timedelta(minutes=rng.randint(1, 1440))
        return Override(start_time=begin, end_time=end, min_replicas=rng.randint(0, 9), recurrence_rule=rule)

    overrides = tuple(override() for _ in range(rng.randint(1, 5)))
    target = ReservationTarget(name="t", min_replicas=2, scheduled_overrides=overrides)
    for _ in range(20):
        wall = (first + timedelta(minutes=rng.randrange(60 * 1440))).timestamp()
        lead_s = 60.0 * rng.randint(1, 60)
        slow = max(target.floor_at(wall + 60 * minute) for minute in range(int(lead_s // 60) + 1))
        floor, since = target.floor_ahead(wall, lead_s)
        assert (floor, target.floor_at(since)) == (slow, slow)


def test_months_without_the_day_are_left_out() -> None:
    monthly = Override(
        start_time=datetime(2026, 1, 31, tzinfo=UTC),
        end_time=datetime(2026, 2, 1, tzinfo=UTC),
        recurrence_rule=Recurrence(frequency=Frequency.MONTHLY),
    )
    held = [
        month
        for month in range(1, 13)
        for day in (28, 30, 31)
        if not (month == 2 and day > 28)
        and not (day == 31 and month in (4, 6, 9, 11))
        and monthly.active(datetime(2026, month, day, 12, tzinfo=UTC).timestamp())
    ]
    assert held == [1, 3, 5, 7, 8, 10, 12]
