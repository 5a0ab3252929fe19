"""ProvisioningRequests: which one is next, its pods, and the conditions it gets."""

import pytest

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaleup import Features
from autoscaler.objects.capacity import CLASS_NAME, CONSUMES, ProvisioningRequest, RequestCondition
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.reasons import RequestReason
from autoscaler.scaleup.provisioning import (
    MOST_UPDATES,
    NoPods,
    accepted,
    booked,
    due,
    found,
    not_found,
    pods_of,
    retired,
    served_here,
)
from autoscaler.scaleup.request_memory import RequestMemory, decided, told, tried, up_to_date
from tests.unit.capacity import ATOMIC, CHECK, a_condition, a_request, a_template

NOW = Instant(wall=1_000_000.0, mono=500.0)
DAY = 86400.0
FEATURES = Features()


def later(seconds: float) -> Instant:
    return NOW.later(seconds)


def names(requests: tuple[ProvisioningRequest, ...]) -> list[str]:
    return [request.name for request in requests]


@pytest.mark.parametrize(
    ("kind", "parameters", "instance", "served"),
    [
        (CHECK, {}, None, True),
        (ATOMIC, {}, None, True),
        ("other.example.com", {}, None, False),
        (CHECK, {"processorInstance": "b"}, None, False),
        (CHECK, {"processorInstance": "b"}, "b", True),
        (CHECK, {"processorInstance": "c"}, "b", False),
        (CHECK, {}, "b", False),
        (ATOMIC, {}, "b", False),
    ],
)
def test_a_process_serves_its_classes_and_its_instance(
    kind: str, parameters: dict[str, str], instance: str | None, served: bool
) -> None:
    features = Features(check_capacity_processor_instance=instance)
    assert served_here(a_request(kind=kind, parameters=parameters), features) is served


class TestRetirement:
    def test_a_booking_ends_after_ten_minutes(self) -> None:
        held = a_request(conditions=[a_condition("Provisioned", since=NOW.wall - 600)], created=NOW.wall)
        assert retired([held], NOW).changes == ()
        (change,) = retired([held], later(1)).changes
        (condition,) = change.conditions
        assert (condition.type, condition.status, condition.reason) == (
            "BookingExpired",
            "True",
            "CapacityReservationTimeExpired",
        )

    def test_a_request_fails_when_it_was_not_met_in_seven_days(self) -> None:
        waiting = a_request(conditions=[a_condition("Provisioned", "False")], created=NOW.wall - 7 * DAY)
        assert retired([waiting], NOW).changes == ()
        (change,) = retired([waiting], later(1)).changes
        assert [(condition.type, condition.reason) for condition in change.conditions] == [("Failed", "Expired")]

    @pytest.mark.parametrize("kind", ["BookingExpired", "Failed"])
    def test_a_request_that_is_over_goes_after_seven_more_days(self, kind: str) -> None:
        over = a_request(conditions=[a_condition(kind, since=NOW.wall - 7 * DAY)])
        assert retired([over], NOW) == retired([], NOW)
        assert retired([over], later(1)).deleted == (over,)

    def test_no_more_than_twenty_at_a_time(self) -> None:
        old = [a_request(f"r{number}", created=1.0) for number in range(25)]
        assert len(retired(old, NOW).changes) == MOST_UPDATES == 20


class TestTurns:
    def test_the_first_that_is_neither_met_nor_over_is_next(self) -> None:
        requests = [
            a_request("met", conditions=[a_condition("Provisioned")]),
            a_request("failed", conditions=[a_condition("Failed")]),
            a_request("next", conditions=[a_condition("Accepted")]),
            a_request("after"),
        ]
        assert names(due(requests, {}, FEATURES, NOW)) == ["next"]

    def test_a_failed_try_waits_one_minute_then_two_then_at_most_ten(self) -> None:
        memory, at = RequestMemory(), NOW
        waits = []
        for _ in range(6):
            request = a_request(conditions=[a_condition("Provisioned", "False", since=at.wall)])
            wait = next(s for s in range(1, 1200) if due([request], memory.waits, FEATURES, at.later(s)))
            waits.append(wait - 1)
            memory, at = tried(memory, request, FEATURES), at.later(wait)
        assert waits == [60, 120, 240, 480, 600, 600]

    def test_the_first_try_does_not_lengthen_the_wait(self) -> None:
        assert tried(RequestMemory(), a_request(), FEATURES).waits == {}

    def test_only_so_many_waits_are_remembered_the_latest(self) -> None:
        features = Features(provisioning_request_max_backoff_cache_size=2)
        memory = RequestMemory()
        for name in ("a", "b", "a", "c"):
            memory = tried(memory, a_request(name, conditions=[a_condition("Provisioned", "False")]), features)
        assert list(memory.waits) == ["r/a", "r/c"]

    def test_a_batch_is_of_check_capacity_requests(self) -> None:
        features = Features(check_capacity_batch_processing=True, check_capacity_provisioning_request_max_batch_size=2)
        checks = [a_request("a"), a_request("atomic", kind=ATOMIC), a_request("b"), a_request("c")]
        assert names(due(checks, {}, features, NOW)) == ["a", "b"]
        assert names(due(checks[1:], {}, features, NOW)) == ["atomic"]


class TestPods:
    def test_are_one_family_named_by_set_and_number(self) -> None:
        request = a_request(count=2, created=NOW.wall)
        templates = {"default/worker": a_template()}
        pods = pods_of(request, templates, PodInterner())
        assert [pod.key for pod in pods] == ["default/job-0-0", "default/job-0-1"]
        assert {pod.cls for pod in pods} == {pods[0].cls}
        owner = pods[0].cls.owner
        assert owner is not None
        assert (owner.kind, owner.name, owner.uid) == ("ProvisioningRequest", "job", "r/job")
        assert pods[0].cls.annotations == {CONSUMES: "job", CLASS_NAME: CHECK}
        assert pods[0].created == NOW.wall

    def test_cannot_be_made_without_their_template(self) -> None:
        with pytest.raises(NoPods, match="no PodTemplate worker"):
            pods_of(a_request(), {}, PodInterner())


class TestMemory:
    def test_what_was_decided_counts_until_it_is_seen(self) -> None:
        request = a_request()
        memory = decided(RequestMemory(), accepted(request, NOW), NOW, written=True)
        memory = decided(memory, found(request, NOW), NOW, written=False)
        (known,), memory = up_to_date({"default/job": request}, memory, later(1))
        assert known.has(RequestCondition.ACCEPTED)
        assert booked(known)
        (seen,), memory = up_to_date({"default/job": known}, memory, later(2))
        assert memory.known == {}
        assert seen == known

    def test_what_was_written_and_is_not_seen_after_a_minute_was_taken_back(self) -> None:
        request = a_request()
        memory = decided(RequestMemory(), found(request, NOW), NOW, written=True)
        assert up_to_date({"default/job": request}, memory, later(61))[0] == (request,)

    def test_what_was_not_written_is_never_given_up(self) -> None:
        request = a_request()
        memory = decided(RequestMemory(), found(request, NOW), NOW, written=False)
        (known,), memory = up_to_date({"default/job": request}, memory, later(3600))
        assert booked(known)
        assert list(memory.known) == [request.uid]

    def test_a_request_that_is_gone_is_forgotten(self) -> None:
        memory = decided(RequestMemory(waits={"r/job": 60.0}), found(a_request(), NOW), NOW, written=False)
        assert up_to_date({}, memory, NOW) == ((), RequestMemory())


@pytest.mark.parametrize("over", ["BookingExpired", "Failed", "CapacityRevoked"])
def test_capacity_is_held_while_provisioned_and_not_over(over: str) -> None:
    held = a_request(conditions=[a_condition("Provisioned")])
    assert booked(held)
    assert not booked(a_request(conditions=[a_condition("Provisioned"), a_condition(over)]))
    assert not booked(a_request(conditions=[a_condition("Provisioned", "False")]))


@pytest.mark.parametrize(
    ("kind", "rules", "outcome"),
    [
        (CHECK, Rules(), ("Failed", "True")),
        (CHECK, rules_of_1_31(), ("Provisioned", "False")),
        (ATOMIC, Rules(), ("Provisioned", "False")),
    ],
)
def test_a_check_that_wants_no_retry_fails_for_good(kind: str, rules: Rules, outcome: tuple[str, str]) -> None:
    change = not_found(a_request(kind=kind, parameters={"noRetry": "true"}), rules, NOW)
    assert [(condition.type, condition.status) for condition in change.conditions] == [outcome]
    assert change.conditions[0].reason == RequestReason.NOT_FOUND


def test_a_condition_takes_the_place_of_the_one_of_its_type() -> None:
    request = a_request(conditions=[a_condition("Accepted"), a_condition("Provisioned", "False")])
    now_met = told(request, found(request, NOW))
    assert [(condition.type, condition.status) for condition in now_met.status.conditions] == [
        ("Accepted", "True"),
        ("Provisioned", "True"),
    ]
