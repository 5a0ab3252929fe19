"""One managed instance group: what it buys, deletes and refuses, and what it believes after failures."""

import random
import threading
from collections.abc import Callable

import pytest

from cloudprovider.gce.provider import GceProvider
from cloudprovider.gce.settings import read_settings
from cloudprovider.gce.transport import Answer
from cloudprovider.interface import (
    NodeRef,
    NotFound,
    OutOfCapacity,
    ProviderContext,
    ProviderError,
    QuotaExceeded,
    State,
    Throttled,
    Transient,
)
from tests.fakes.gce import ZONE, FakeGce, Group, Machine, a_group, a_regional_group, failure, provider_id


def opened(api: FakeGce, low: int = 0, high: int = 10) -> GceProvider:
    specs = [f"{low}:{high}:{group.id}" for group in api.groups.values()]
    provider = GceProvider(api.client, read_settings(ProviderContext(node_specs=specs)), rng=random.Random(7))
    provider.refresh(1_000.0)
    return provider


def node(name: str, zone: str = ZONE) -> NodeRef:
    return NodeRef(name, provider_id(name, zone))


def test_machines_are_added_by_name_and_seen_at_once() -> None:
    api = FakeGce(a_group(base="gke-web"))
    group = opened(api).groups()[0]
    group.increase(3)
    sent = len(api.requests)
    assert group.target_size() == 3
    assert [instance.state for instance in group.instances()] == [State.CREATING] * 3
    assert {instance.provider_id for instance in group.instances()} == {
        provider_id(name) for name in api.group("web").machines
    }
    assert all(name.startswith("gke-web-") and len(name) == len("gke-web-") + 4 for name in api.group("web").machines)
    assert len(api.requests) == sent
    assert api.count("resize") == 0


def test_names_in_use_are_not_taken_twice() -> None:
    api = FakeGce(a_group())
    taken = {"".join(("web-", *random.Random(7).choices("bcdfghjklmnpqrstvwxz2456789", k=4)))}
    api.add_machines("web", *taken)
    opened(api).groups()[0].increase(1)
    assert len(api.group("web").machines) == 2


def test_thousands_are_ordered_in_parts() -> None:
    api = FakeGce(a_group(), page=500)
    opened(api, high=3000).groups()[0].increase(2500)
    assert [len(body["instances"]) for body in api.bodies if body] == [1000, 1000, 500]
    assert api.group("web").target == 2500


def test_what_was_ordered_before_a_failure_counts() -> None:
    api = FakeGce(a_group(), page=500)
    group = opened(api, high=3000).groups()[0]
    original = api.client.create_instances
    calls: list[int] = []

    def second_fails(ref: object, names: list[str]) -> None:
        calls.append(len(names))
        if len(calls) == 2:
            raise QuotaExceeded("no")
        original(ref, names)  # type: ignore[arg-type]

    api.client.create_instances = second_fails  # type: ignore[method-assign, assignment]
    with pytest.raises(QuotaExceeded):
        group.increase(2500)
    assert group.target_size() == 1000


@pytest.mark.parametrize("make", [a_regional_group, lambda: a_group(base="web-####")], ids=["regional", "pattern"])
def test_groups_that_take_no_names_are_resized(make: Callable[[], Group]) -> None:
    api = FakeGce(make())
    group = opened(api).groups()[0]
    group.increase(2)
    assert api.count("createInstances") == 0
    assert group.target_size() == 2
    assert len(group.instances()) == 2


def test_suspended_machines_count_in_the_target_and_survive_a_resize() -> None:
    api = FakeGce(a_regional_group(target=3, suspended=2))
    group = opened(api).groups()[0]
    assert group.target_size() == 3
    group.increase(1)
    assert (api.group("web").target, api.group("web").suspended) == (4, 2)


def test_the_maximum_holds_for_what_others_bought_since_the_refresh() -> None:
    api = FakeGce(a_group())
    group = opened(api, high=3).groups()[0]
    api.add_machines("web", "web-a", "web-b")
    with pytest.raises(ProviderError, match=r"2 \+ 2 is above the maximum size 3"):
        group.increase(2)
    assert api.count("createInstances") == 0
    assert group.target_size() == 2


def test_a_lost_answer_is_made_good_by_reading() -> None:
    api = FakeGce(a_group())
    group = opened(api).groups()[0]
    api.fail("createInstances", Transient("timed out"), takes_effect=True)
    with pytest.raises(Transient):
        group.increase(2)
    assert group.target_size() == 2
    assert len(group.instances()) == 2
    assert api.count("createInstances") == 1


def test_an_order_that_was_refused_leaves_the_target() -> None:
    api = FakeGce(a_group())
    group = opened(api).groups()[0]
    api.fail("createInstances", failure(403, "quotaExceeded", "Quota 'CPUS' exceeded"))
    with pytest.raises(QuotaExceeded, match="Quota 'CPUS' exceeded"):
        group.increase(2)
    assert group.target_size() == 0


@pytest.mark.parametrize(
    ("code", "error", "named"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", OutOfCapacity, "RESOURCE_POOL_EXHAUSTED"),
        ("QUOTA_EXCEEDED", QuotaExceeded, "QUOTA_EXCEEDED"),
        ("PERMISSIONS_ERROR", ProviderError, "PERMISSIONS_ERROR"),
        ("INTERNAL_ERROR", ProviderError, "OTHER"),
    ],
)
def test_a_failed_operation_is_named_for_what_to_do(code: str, error: type[ProviderError], named: str) -> None:
    api = FakeGce(a_group())
    group = opened(api).groups()[0]
    api.operation_error = {"errors": [{"code": code, "message": "so it is"}]}
    with pytest.raises(error, match="so it is") as caught:
        group.increase(1)
    assert caught.value.code == named


def test_operations_are_waited_for() -> None:
    api = FakeGce(a_group())
    api.waits_needed = 3
    opened(api).groups()[0].increase(1)
    assert api.count("wait") == 3


def test_an_operation_that_does_not_end_is_uncertain_and_soon_given_up() -> None:
    api = FakeGce(a_group())
    api.waits_needed = 10_000
    group = opened(api).groups()[0]
    with pytest.raises(Transient, match="not done after 20 s"):
        group.increase(1)
    assert api.waiting.clock <= 21
    assert group.target_size() == 1


@pytest.mark.parametrize(
    "answer", [failure(403, "forbidden"), failure(429, "rateLimitExceeded"), failure(404, "notFound"), Answer(502)]
)
def test_an_operation_that_cannot_be_looked_at_is_no_refusal(answer: Answer) -> None:
    api = FakeGce(a_group())
    api.waits_needed = 1
    group = opened(api).groups()[0]
    api.fail("wait", answer, times=1_000)
    with pytest.raises(Transient):
        group.increase(1)
    assert group.target_size() == 1


def test_exactly_the_machines_asked_for_are_deleted() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a", "web-b", "web-c")
    group = opened(api).groups()[0]
    group.delete([node("web-b")])
    assert {name: one.action for name, one in api.group("web").machines.items()} == {
        "web-a": "NONE",
        "web-b": "DELETING",
        "web-c": "NONE",
    }
    sent = len(api.requests)
    assert group.target_size() == 2
    states = {instance.provider_id: instance.state for instance in group.instances()}
    assert states[provider_id("web-b")] is State.DELETING
    assert len(api.requests) == sent


def test_a_machine_on_its_way_out_is_not_counted_twice() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a", "web-b", "web-c")
    group = opened(api, low=1).groups()[0]
    group.delete([node("web-b"), node("web-b")])
    group.delete([node("web-b")])
    assert api.count("deleteInstances") == 1
    assert api.group("web").target == group.target_size() == 2


def test_a_machine_that_somebody_else_deletes_is_left_to_them() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a", "web-b")
    group = opened(api, low=1).groups()[0]
    api.group("web").machines["web-b"].action = "DELETING"
    api.group("web").target -= 1
    group.delete([node("web-b")])
    assert api.count("deleteInstances") == 0
    assert group.target_size() == 1


def test_a_deletion_whose_answer_was_lost_is_not_repeated() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a", "web-b", "web-c")
    group = opened(api, low=2).groups()[0]
    api.fail("deleteInstances", Transient("timed out"), takes_effect=True)
    with pytest.raises(Transient):
        group.delete([node("web-a")])
    assert group.target_size() == 2
    group.delete([node("web-a")])
    assert api.count("deleteInstances") == 1
    assert group.target_size() == 2


def test_one_stranger_among_the_nodes_saves_them_all() -> None:
    api = FakeGce(a_group(), a_group("batch"))
    api.add_machines("web", "web-a")
    api.add_machines("batch", "batch-a")
    group = opened(api).groups()[0]
    strangers = {
        "batch-a": (node("batch-a"), "belongs to .*batch"),
        "gone": (node("web-z"), "there is no machine"),
        "elsewhere": (NodeRef("i-1", "aws:///us-east-1a/i-1"), "no machine of Compute Engine"),
    }
    for stranger, why in strangers.values():
        with pytest.raises(ProviderError, match=why):
            group.delete([node("web-a"), stranger])
    assert api.count("deleteInstances") == 0


def test_a_machine_that_came_since_the_refresh_is_found_before_it_is_refused() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a")
    group = opened(api).groups()[0]
    api.add_machines("web", "web-new")
    group.delete([node("web-new")])
    assert api.group("web").machines["web-new"].action == "DELETING"


def test_the_minimum_holds_for_what_others_took_since_the_refresh() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a", "web-b", "web-c")
    group = opened(api, low=1).groups()[0]
    api.group("web").machines["web-c"].action = "DELETING"
    api.group("web").target -= 1
    with pytest.raises(ProviderError, match="deleting 2 of 2 breaks the minimum size 1"):
        group.delete([node("web-a"), node("web-b")])
    assert api.count("deleteInstances") == 0
    group.force_delete([node("web-a"), node("web-b")])
    assert api.group("web").target == 0


def test_failed_machines_can_be_deleted_by_their_placeholder() -> None:
    api = FakeGce(a_group(stock_out=[{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no room"}]))
    provider = opened(api)
    group = provider.groups()[0]
    group.increase(2)
    provider.refresh(1_060.0)
    failed = group.instances()
    assert [one.error.code for one in failed if one.error] == ["RESOURCE_POOL_EXHAUSTED"] * 2
    group.delete([NodeRef(one.provider_id, one.provider_id) for one in failed])
    assert api.group("web").target == group.target_size() == 0


def test_machines_of_a_region_are_deleted_in_their_zones() -> None:
    api = FakeGce(a_regional_group())
    api.add_machines("web", "web-a", zone="us-central1-a")
    api.add_machines("web", "web-f", zone="us-central1-f")
    opened(api).groups()[0].delete([node("web-f", "us-central1-f")])
    machines = api.group("web").machines
    assert (machines["web-a"].action, machines["web-f"].action) == ("NONE", "DELETING")


def test_thousands_are_deleted_in_parts() -> None:
    api = FakeGce(a_group(), page=500)
    names = [f"web-{number:04}" for number in range(1500)]
    api.add_machines("web", *names)
    opened(api, high=2000).groups()[0].delete([node(name) for name in names])
    assert [len(body["instances"]) for body in api.bodies if body] == [1000, 500]
    assert api.group("web").target == 0


def test_only_requests_that_no_machine_answers_are_cancelled() -> None:
    api = FakeGce(a_group(target=3))
    api.group("web").machines = {"web-a": Machine(ZONE, "NONE", "RUNNING"), "web-b": Machine(ZONE, "DELETING")}
    group = opened(api).groups()[0]
    with pytest.raises(ProviderError, match="3 - 3 is below the 1 machines that exist"):
        group.decrease_target(3)
    assert api.count("resize") == 0
    group.decrease_target(2)
    assert group.target_size() == api.group("web").target == 1
    assert api.group("web").machines["web-a"].action == "NONE"


def test_a_machine_that_came_since_the_refresh_is_not_cancelled() -> None:
    api = FakeGce(a_group(target=1))
    group = opened(api).groups()[0]
    api.group("web").machines["web-a"] = Machine(ZONE, "CREATING")
    with pytest.raises(ProviderError, match="below the 1 machines"):
        group.decrease_target(1)


def test_throttling_says_how_long_to_wait_and_orders_are_not_repeated() -> None:
    api = FakeGce(a_group())
    group = opened(api).groups()[0]
    api.fail("createInstances", failure(429, "rateLimitExceeded", headers={"retry-after": "7"}))
    with pytest.raises(Throttled) as caught:
        group.increase(1)
    assert caught.value.retry_after == 7
    assert api.count("createInstances") == 1
    assert api.waiting.slept == []


def test_a_group_that_vanished_is_not_found() -> None:
    api = FakeGce(a_group())
    group = opened(api).groups()[0]
    api.groups.clear()
    with pytest.raises(NotFound):
        group.increase(1)


def test_what_is_written_during_a_refresh_is_not_overwritten_by_what_was_read_before() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a", "web-b")
    provider = opened(api)
    group = provider.groups()[0]
    reading, written = threading.Event(), threading.Event()
    list_machines = api.client.managed_instances

    def slow(ref: object) -> object:
        found = list_machines(ref)  # type: ignore[arg-type]
        if threading.current_thread() is refreshing:
            reading.set()
            assert written.wait(30)
        return found

    api.client.managed_instances = slow  # type: ignore[method-assign, assignment]
    refreshing = threading.Thread(target=provider.refresh, args=(2_000.0,), daemon=True)
    refreshing.start()
    assert reading.wait(30)
    group.delete([node("web-a")])
    written.set()
    refreshing.join(30)
    assert group.target_size() == 1
    assert {instance.provider_id: instance.state for instance in group.instances()}[
        provider_id("web-a")
    ] is State.DELETING
