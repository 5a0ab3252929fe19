"""Scale sets as node groups: what is asked of Azure, in which order, and what is believed when answers are missing."""

from collections.abc import Callable
from typing import Any

import pytest

from cloudprovider.azure.provider import PricedAzureProvider, create, open_provider
from cloudprovider.interface import (
    ErrorClass,
    Misconfigured,
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
from tests.fakes.azure import ENVIRONMENT, FakeAzure, FakeScaleSet, StaticTokens, a_size, provider_id
from tests.unit.cloudprovider.azure_world import AzureWorld, node

_LIST = "GET /virtualMachineScaleSets"
_WEB = "GET /virtualMachineScaleSets/web"
_MACHINES = "GET /virtualMachineScaleSets/web/virtualMachines"
_PUT = "PUT /virtualMachineScaleSets/web"
_DELETE = "POST /virtualMachineScaleSets/web/delete"
_OPERATION = "GET /operations/op-0"


def a_world(capacity: int = 3, low: int = 0, high: int = 10, **more: Any) -> AzureWorld:
    return AzureWorld(FakeScaleSet("web", capacity=capacity, **more), nodes=[f"{low}:{high}:web"])


def web(world: AzureWorld) -> FakeScaleSet:
    return world.azure.scale_sets["web"]


# Starting


def opened(azure: FakeAzure, **more: Any) -> Any:
    context = ProviderContext(environment=ENVIRONMENT, now=lambda: azure.now, **more)
    return open_provider(context, lambda *_: (azure, StaticTokens()))


def test_starting_lists_the_scale_sets_once_and_the_first_refresh_starts_from_that() -> None:
    world = AzureWorld(FakeScaleSet("web"), FakeScaleSet("api"), nodes=["0:5:web"], refresh=False)
    assert world.azure.asked() == [_LIST]
    assert world.refresh() == [_MACHINES, "GET /providers/Microsoft.Compute/skus"]
    assert world.azure.requests[-1].query["$filter"] == "location eq 'westeurope'"


def test_groups_that_do_not_exist_are_named_all_at_once() -> None:
    azure = FakeAzure(FakeScaleSet("web"))
    with pytest.raises(Misconfigured) as caught:
        opened(azure, node_specs=["0:5:wob", "0:5:web", "0:5:api"])
    assert str(caught.value).splitlines() == [
        "nodes: MC_Shop has no scale set wob; it has: web",
        "nodes: MC_Shop has no scale set api; it has: web",
    ]


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "AuthorizationFailed", Misconfigured),
        (404, "ResourceGroupNotFound", Misconfigured),
        (429, "TooManyRequests", Throttled),
        (503, "ServiceUnavailable", Transient),
    ],
)
def test_what_azure_says_at_the_start(status: int, code: str, expected: type[ProviderError]) -> None:
    azure = FakeAzure(FakeScaleSet("web"))
    azure.fail("GET", status, code, "no", times=5)
    with pytest.raises(ProviderError, match=code) as caught:
        opened(azure, node_specs=["0:5:web"])
    assert type(caught.value) is expected


def test_a_configuration_without_groups_or_account_says_so_before_asking_azure() -> None:
    with pytest.raises(Misconfigured) as caught:
        create(ProviderContext(discovery_specs=["mig:x"], node_specs=["5:web"]))
    lines = str(caught.value).splitlines()
    assert any("subscriptionId" in line for line in lines)
    assert any(line.startswith("nodes: '5:web'") for line in lines)
    assert any(line.startswith("node-group-auto-discovery: 'mig:x'") for line in lines)
    with pytest.raises(Misconfigured, match="nodes: name scale sets, or let"):
        create(ProviderContext(environment=ENVIRONMENT))


def test_a_price_list_gives_prices(tmp_path: Any) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("instanceTypes: {Standard_D4s_v5: 0.25}")
    azure = FakeAzure(FakeScaleSet("web"))
    provider = opened(azure, node_specs=["0:5:web"], price_file=str(path))
    assert isinstance(provider, PricedAzureProvider)
    provider.refresh(azure.now)
    (template,) = (group.template() for group in provider.groups())
    assert template is not None
    assert provider.node_price(template, 2.0) == 0.5


# Discovery


def test_scale_sets_are_found_by_tags_and_named_ones_come_first() -> None:
    on = {"on": "yes", "min": "1", "max": "4"}
    world = AzureWorld(
        FakeScaleSet("b", tags=on),
        FakeScaleSet("a", tags=on),
        FakeScaleSet("named", tags=on),
        FakeScaleSet("other"),
        FakeScaleSet("unsized", tags={"on": "yes"}),
        nodes=["0:9:named"],
        discovery=["label:on=yes"],
    )
    sizes = {group.id: (group.min_size, group.max_size) for group in world.provider.groups()}
    assert list(sizes.items()) == [("named", (0, 9)), ("a", (1, 4)), ("b", (1, 4))]
    world.azure.scale_sets["a"].tags["max"] = "7"
    del world.azure.scale_sets["b"]
    world.refresh(after_s=61.0)
    assert {group.id: group.max_size for group in world.provider.groups()} == {"named": 9, "a": 7}


def test_a_scale_set_that_is_ignored_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    world = AzureWorld(FakeScaleSet("a", tags={"on": "yes"}), discovery=["label:on=yes"])
    world.refresh(after_s=61.0)
    assert [record.message for record in caplog.records] == ["azure.scale_set_ignored"]
    assert world.provider.groups() == ()


# Calls


def test_an_idle_refresh_asks_as_little_as_the_ages_allow() -> None:
    world = AzureWorld(*(FakeScaleSet(name, capacity=2) for name in "abc"), nodes=[f"0:5:{name}" for name in "abc"])
    assert world.refresh(after_s=15.0) == []
    assert world.refresh(after_s=46.0) == [_LIST]
    asked = [call for _ in range(20) for call in world.refresh(after_s=15.0)]
    assert asked.count(_LIST) == 5
    assert len(asked) == 5 + 3  # and each scale set's machines once in five minutes


def test_machines_are_listed_again_while_something_is_going_on() -> None:
    world = a_world()
    world.group("web").increase(2)
    assert world.refresh(after_s=15.0) == [_OPERATION, _LIST, _MACHINES]
    assert world.refresh(after_s=50.0) == [_OPERATION, _LIST, _MACHINES]
    assert world.states("web") == dict.fromkeys("01234", State.RUNNING)
    assert world.refresh(after_s=15.0) == []


def test_machines_are_listed_again_when_others_changed_the_capacity() -> None:
    world = a_world()
    web(world).capacity = 4
    world.azure.add_machine(web(world)).ready_at = 0.0
    assert world.refresh(after_s=61.0) == [_LIST, _MACHINES]
    assert world.group("web").target_size() == 4


# Growing


def test_an_increase_reads_first_and_guards_with_the_entity_tag() -> None:
    world = a_world()
    before = len(world.azure.requests)
    world.group("web").increase(2)
    assert world.azure.asked(before) == [_WEB, _PUT]
    put = world.azure.requests[-1]
    assert put.headers["If-Match"] == '"1"'
    assert put.body == {
        "location": "westeurope",
        "sku": {"name": "Standard_D4s_v5", "tier": "Standard", "capacity": 5},
    }
    assert world.group("web").target_size() == 5
    assert world.states("web") == {**dict.fromkeys("012", State.RUNNING), **dict.fromkeys("34", State.CREATING)}


def test_without_etags_nothing_is_guarded() -> None:
    world = AzureWorld(FakeScaleSet("web"), nodes=["0:5:web"], environment={"AZURE_ENABLE_VMSS_ETAG": "false"})
    world.group("web").increase(1)
    assert "If-Match" not in world.azure.requests[-1].headers


@pytest.mark.parametrize(
    ("others", "delta", "expected"),
    [
        pytest.param(2, 3, 6, id="machines that others added count"),
        pytest.param(4, 3, 7, id="enough are there"),
        pytest.param(-1, 3, 5, id="machines that others took away are not replaced"),
    ],
)
def test_changes_by_others_are_neither_overwritten_nor_added_to(others: int, delta: int, expected: int) -> None:
    world = a_world()
    web(world).capacity += others
    for _ in range(others):
        world.azure.add_machine(web(world))
    if others < 0:
        del web(world).machines[others:]
    world.group("web").increase(delta)
    assert (web(world).capacity, world.group("web").target_size()) == (expected, expected)
    assert [machine.gone_at for machine in web(world).machines if machine.gone_at] == []


def test_a_change_between_read_and_write_is_read_again() -> None:
    world = a_world()
    original = world.azure._get_set

    def racing(seen: Any, name: str) -> Any:
        reply = original(seen, name)
        if web(world).capacity == 3:
            web(world).capacity = 4
            world.azure.add_machine(web(world))
            web(world).touched()
        return reply

    world.azure._get_set = racing  # type: ignore[method-assign]
    world.group("web").increase(3)
    assert web(world).capacity == 6
    assert [seen.headers.get("If-Match") for seen in world.azure.requests if seen.method == "PUT"] == ['"1"', '"2"']


def test_a_scale_set_that_never_stands_still_is_left_alone() -> None:
    world = a_world()
    world.azure.fail("PUT", 412, "ConditionNotMet", times=9)
    with pytest.raises(Transient, match="ConditionNotMet"):
        world.group("web").increase(1)
    assert world.azure.asked().count(_PUT) == 3
    assert world.group("web").target_size() == 3


@pytest.mark.parametrize("takes_effect", [True, False])
def test_after_a_lost_answer_the_target_is_read_back(takes_effect: bool) -> None:
    world = a_world()
    world.azure.lose("PUT", takes_effect=takes_effect)
    with pytest.raises(Transient):
        world.group("web").increase(2)
    assert world.group("web").target_size() == (5 if takes_effect else 3)
    asked = len(world.azure.requests)
    assert world.group("web").target_size() == (5 if takes_effect else 3)
    assert len(world.azure.requests) == asked


def test_while_azure_is_away_the_target_is_not_known_after_a_lost_answer() -> None:
    world = a_world()
    world.azure.lose("PUT", takes_effect=True)
    with pytest.raises(Transient):
        world.group("web").increase(2)
    world.azure.lose("GET", times=2)
    with pytest.raises(Transient):
        world.group("web").target_size()
    world.refresh()
    assert world.group("web").target_size() == 5


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (409, "OperationNotAllowed", "Cores quota exceeded", QuotaExceeded),
        (409, "SkuNotAvailable", "", OutOfCapacity),
        (429, "TooManyRequests", "", Throttled),
        (403, "AuthorizationFailed", "", ProviderError),
    ],
)
def test_a_refused_increase_changes_nothing(
    status: int, code: str, message: str, expected: type[ProviderError]
) -> None:
    world = a_world()
    world.azure.fail("PUT", status, code, message, headers={"retry-after": "7"})
    with pytest.raises(expected) as caught:
        world.group("web").increase(2)
    assert not isinstance(caught.value, Throttled) or caught.value.retry_after == 7.0
    assert world.group("web").target_size() == 3


def test_an_old_answer_does_not_undo_an_increase() -> None:
    world = a_world()
    stale = world.azure._set_json(web(world))
    world.group("web").increase(2)
    fresh = world.azure._set_json
    world.azure._set_json = lambda one: stale  # type: ignore[method-assign]
    world.refresh(after_s=15.0)
    assert world.group("web").target_size() == 5
    world.azure._set_json = fresh  # type: ignore[method-assign]
    world.refresh(after_s=15.0)
    assert world.group("web").target_size() == 5


# Machines that do not come


def test_machines_that_azure_does_not_have_are_listed_as_failed_as_soon_as_it_says_so() -> None:
    world = a_world(stock=4)
    world.group("web").increase(3)
    world.refresh(after_s=90.0)
    group = world.group("web")
    failed = [instance for instance in group.instances() if instance.error is not None]
    assert len(failed) == 2
    assert {(one.state, one.error and one.error.error_class, one.error and one.error.code) for one in failed} == {
        (State.CREATING, ErrorClass.OUT_OF_RESOURCES, "AllocationFailed")
    }
    assert group.target_size() == 6
    assert {world.provider.group_of(NodeRef(one.provider_id, one.provider_id)) for one in failed} == {"web"}


def test_deleting_the_stand_ins_lowers_the_capacity_and_touches_no_machine() -> None:
    world = a_world(stock=4)
    world.group("web").increase(3)
    world.refresh(after_s=90.0)
    failed = [instance.provider_id for instance in world.group("web").instances() if instance.error is not None]
    world.group("web").delete([NodeRef(one, one) for one in failed])
    assert (web(world).capacity, world.group("web").target_size(), len(web(world).machines)) == (4, 4, 4)
    assert [machine.gone_at for machine in web(world).machines] == [None] * 4
    world.refresh(after_s=90.0)
    assert [instance.error for instance in world.group("web").instances()] == [None] * 4


def test_a_second_failure_has_stand_ins_of_its_own() -> None:
    world = a_world(stock=3)
    seen: list[set[str]] = []
    for _ in range(2):
        world.group("web").increase(1)
        world.refresh(after_s=90.0)
        failed = [instance.provider_id for instance in world.group("web").instances() if instance.error is not None]
        world.group("web").delete([NodeRef(one, one) for one in failed])
        world.refresh(after_s=90.0)
        seen.append(set(failed))
    assert [len(ids) for ids in seen] == [1, 1]
    assert seen[0] & seen[1] == set()


def test_an_operation_that_a_later_one_replaced_has_not_failed() -> None:
    world = a_world()
    world.group("web").increase(1)
    world.azure.works["op-0"].failure = {"code": "OperationPreempted", "message": "by a more recent one"}
    web(world).machines.pop()
    world.refresh(after_s=90.0)
    assert [instance.error for instance in world.group("web").instances()] == [None] * 3


def test_a_machine_that_azure_failed_to_create_is_deleted_for_good() -> None:
    world = a_world()
    world.group("web").increase(1)
    last = web(world).machines[-1]
    last.failed, last.power = "ZonalAllocationFailed", None
    world.refresh(after_s=90.0)
    (failed,) = (instance for instance in world.group("web").instances() if instance.error is not None)
    assert failed.error is not None
    assert failed.error.error_class is ErrorClass.OUT_OF_RESOURCES
    world.group("web").delete([NodeRef(failed.provider_id, failed.provider_id)])
    assert (web(world).capacity, world.group("web").target_size()) == (3, 3)


# Cancelling


def test_requests_that_no_machine_answers_can_be_cancelled() -> None:
    world = a_world(stock=3)
    world.azure.boot_s = 0.0
    world.group("web").increase(2)
    world.group("web").decrease_target(2)
    assert (web(world).capacity, world.group("web").target_size(), len(web(world).machines)) == (3, 3, 3)


def test_nothing_is_cancelled_while_machines_may_still_come() -> None:
    world = a_world(stock=3)
    world.group("web").increase(2)
    with pytest.raises(ProviderError, match="before that is over"):
        world.group("web").decrease_target(1)
    assert web(world).capacity == 5


def test_cancelling_never_removes_a_machine_that_was_not_known_yet() -> None:
    world = a_world()
    web(world).capacity = 4
    world.azure.add_machine(web(world))
    with pytest.raises(ProviderError, match="below the 4 machines there are"):
        world.group("web").decrease_target(1)
    assert world.azure.asked()[-1] == _MACHINES
    with pytest.raises(ProviderError, match="must be positive"):
        world.group("web").decrease_target(0)


# Deleting


def test_machines_are_deleted_in_one_call_and_the_target_follows_at_once() -> None:
    world = a_world(5, low=1)
    before = len(world.azure.requests)
    world.group("web").delete([node("web", 1), node("web", 3), node("web", 1)])
    assert world.azure.asked(before) == [_WEB, _MACHINES, _DELETE]
    assert world.azure.requests[-1].body == {"instanceIds": ["1", "3"]}
    assert world.azure.requests[-1].query == {"api-version": "2024-07-01"}
    assert world.group("web").target_size() == 3
    assert [name for name, state in world.states("web").items() if state is State.DELETING] == ["1", "3"]


@pytest.mark.parametrize("counts_deleting", [True, False])
def test_whenever_azure_lowers_the_capacity_the_target_is_lowered_once(counts_deleting: bool) -> None:
    world = a_world(5)
    world.azure.counts_deleting = counts_deleting
    world.group("web").delete([node("web", 1), node("web", 3)])
    targets = []
    for _ in range(8):
        world.refresh(after_s=15.0)
        targets.append(world.group("web").target_size())
    assert targets == [3] * 8
    assert set(world.states("web")) == {"0", "2", "4"}


@pytest.mark.parametrize("counts_deleting", [True, False])
def test_growing_while_machines_are_deleted_costs_no_machine(counts_deleting: bool) -> None:
    world = a_world(5)
    world.azure.counts_deleting = counts_deleting
    world.group("web").delete([node("web", 1), node("web", 3)])
    world.group("web").increase(1)
    assert world.group("web").target_size() == 4
    for _ in range(3):
        world.refresh(after_s=61.0)
    assert world.group("web").target_size() == 4
    assert {"0", "2", "4"} <= set(world.states("web"))


def test_a_machine_on_its_way_is_not_counted_twice() -> None:
    world = a_world(5)
    world.group("web").delete([node("web", 1)])
    world.group("web").delete([node("web", 1)])
    world.group("web").delete([node("web", 1), node("web", 2)])
    assert [seen.body for seen in world.azure.requests if seen.method == "POST"] == [
        {"instanceIds": ["1"]},
        {"instanceIds": ["2"]},
    ]
    assert world.group("web").target_size() == 3


def test_a_machine_that_is_gone_costs_nothing() -> None:
    world = a_world(3, low=2)
    del web(world).machines[0]
    web(world).capacity = 2
    world.group("web").delete([node("web", 0)])
    assert [seen for seen in world.azure.requests if seen.method == "POST"] == []
    assert world.group("web").target_size() == 2


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([node("web", 0), node("api", 0)], id="of another group"),
        pytest.param([node("web", 0), NodeRef("n", "aws:///x")], id="of another cloud"),
        pytest.param([node("web", 0), NodeRef("n", "")], id="without a provider id"),
        pytest.param([node("web", 0), NodeRef("n", provider_id("webby", 0))], id="of a group with a longer name"),
        pytest.param([node("web", 0), node("web", 1), node("web", 2)], id="below the minimum"),
    ],
)
def test_what_may_not_be_deleted_keeps_all_from_being_deleted(nodes: list[NodeRef]) -> None:
    world = AzureWorld(FakeScaleSet("web", capacity=3), FakeScaleSet("api", capacity=1), nodes=["1:5:web", "0:5:api"])
    with pytest.raises(ProviderError):
        world.group("web").delete(nodes)
    assert [seen for seen in world.azure.requests if seen.method != "GET"] == []
    assert world.group("web").target_size() == 3


def test_the_minimum_is_measured_by_what_is_there_now() -> None:
    world = a_world(4, low=2)
    del web(world).machines[2:]
    web(world).capacity = 2
    with pytest.raises(ProviderError, match="breaks the minimum size 2"):
        world.group("web").delete([node("web", 0)])
    assert _DELETE not in world.azure.asked()


def test_force_deletes_below_the_minimum() -> None:
    world = a_world(1, low=1)
    world.group("web").force_delete([node("web", 0)])
    assert world.group("web").target_size() == 0


@pytest.mark.parametrize(("dedicated", "forced"), [(False, "true"), (True, None)])
def test_azure_is_told_to_use_force_where_that_is_configured_and_possible(dedicated: bool, forced: str | None) -> None:
    properties = {"hostGroup": {"id": "h"}} if dedicated else {}
    world = AzureWorld(
        FakeScaleSet("web", capacity=1, properties=properties),
        nodes=["0:5:web"],
        environment={"AZURE_ENABLE_FORCE_DELETE": "true"},
    )
    world.group("web").delete([node("web", 0)])
    assert world.azure.requests[-1].query.get("forceDeletion") == forced


@pytest.mark.parametrize("takes_effect", [True, False])
def test_after_a_lost_deletion_machines_and_target_are_read_back(takes_effect: bool) -> None:
    world = a_world()
    world.azure.lose("POST", takes_effect=takes_effect)
    with pytest.raises(Transient):
        world.group("web").delete([node("web", 1)])
    assert world.group("web").target_size() == (2 if takes_effect else 3)
    assert world.states("web")["1"] is (State.DELETING if takes_effect else State.RUNNING)


def test_a_deletion_that_azure_gives_up_leaves_the_machine_there() -> None:
    world = a_world()
    world.group("web").delete([node("web", 1)])
    world.azure.works["op-0"] = type(world.azure.works["op-0"])("web", 0.0, {"code": "OperationPreempted"})
    web(world).machines[1].gone_at = None
    web(world).capacity = 3
    world.refresh(after_s=15.0)
    assert world.group("web").target_size() == 3
    assert world.states("web")["1"] is State.RUNNING


# Nodes


def test_nodes_belong_by_their_provider_id_in_whatever_case() -> None:
    world = a_world()
    upper = NodeRef("n", provider_id("web", 0).upper().replace("AZURE://", "azure://"))
    unlisted = node("web", 99)
    other_group = NodeRef("n", provider_id("web", 0).replace("mc_shop", "mc_other"))
    asked = len(world.azure.requests)
    assert [world.provider.group_of(one) for one in (node("web", 0), upper, unlisted)] == ["web"] * 3
    assert [world.provider.group_of(one) for one in (other_group, NodeRef("n", ""), node("api", 0))] == [None] * 3
    assert len(world.azure.requests) == asked


def test_a_machine_is_not_said_to_be_gone_before_its_scale_set_is_listed_again() -> None:
    world = a_world()
    world.refresh(after_s=15.0)
    world.azure.add_machine(web(world))
    assert world.provider.has_instance(node("web", 3))
    asked = len(world.azure.requests)
    assert [world.provider.has_instance(node("web", number)) for number in (7, 8, 0)] == [False, False, True]
    assert world.azure.asked(asked) == []
    assert world.provider.has_instance(NodeRef("n", "kwok:somebody-else"))


def test_a_group_that_vanished_is_not_found() -> None:
    world = a_world()
    group = world.group("web")
    world.azure.scale_sets.clear()
    world.refresh(after_s=61.0)
    assert world.provider.groups() == ()
    calls: list[Callable[[], object]] = [
        group.target_size,
        group.instances,
        lambda: group.increase(1),
        lambda: group.delete([node("web", 0)]),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            call()
    assert group.template() is None


# Azure away


def test_old_answers_are_kept_for_a_quarter_of_an_hour() -> None:
    world = a_world()
    world.azure.lose("GET", times=99)
    world.refresh(after_s=61.0)
    assert world.group("web").target_size() == 3
    with pytest.raises(Transient):
        world.refresh(after_s=900.0)


def test_throttling_silences_reads_for_as_long_as_azure_asks() -> None:
    world = a_world()
    world.azure.fail(_LIST, 429, "TooManyRequests", headers={"retry-after": "100"})
    assert world.refresh(after_s=61.0) == [_LIST]
    assert world.refresh(after_s=61.0) == []
    assert world.refresh(after_s=61.0) == [_LIST]


def test_other_errors_of_a_refresh_are_told() -> None:
    world = a_world()
    world.azure.fail(_LIST, 403, "AuthorizationFailed", "the role is gone")
    with pytest.raises(ProviderError, match="the role is gone"):
        world.refresh(after_s=61.0)


def test_one_scale_set_that_cannot_be_listed_does_not_hold_up_the_others() -> None:
    world = AzureWorld(FakeScaleSet("web", capacity=1), FakeScaleSet("api"), nodes=["0:5:web", "0:5:api"])
    world.group("api").increase(1)
    world.azure.fail("/web/virtualMachines", 500, "InternalServerError", times=9)
    world.refresh(after_s=301.0)
    assert len(world.group("web").instances()) == 1
    assert len(world.group("api").instances()) == 1


def test_a_refresh_does_not_wait_for_every_scale_set_while_azure_is_away() -> None:
    names = [f"set{number}" for number in range(9)]
    world = AzureWorld(*(FakeScaleSet(name, capacity=1) for name in names), nodes=[f"0:5:{name}" for name in names])
    world.azure.lose("/virtualMachines$", times=99)
    assert len(world.refresh(after_s=301.0)) == 1 + 2 * 2
    assert [len(group.instances()) for group in world.provider.groups()] == [1] * 9


def test_progress_that_may_not_be_read_does_not_keep_an_operation_open() -> None:
    world = a_world()
    world.group("web").increase(1)
    world.azure.fail("/operations/", 403, "AuthorizationFailed", times=1)
    world.refresh(after_s=90.0)
    assert world.refresh(after_s=5.0) == []
    last = world.group("web").instances()[-1]
    assert (last.provider_id, last.state) == (provider_id("web", 3), State.RUNNING)


def test_without_permission_to_list_sizes_groups_have_no_template_and_work(caplog: pytest.LogCaptureFixture) -> None:
    world = AzureWorld(FakeScaleSet("web"), nodes=["0:5:web"], refresh=False)
    world.azure.fail("skus", 403, "AuthorizationFailed")
    world.refresh()
    assert [record.message for record in caplog.records] == ["azure.sizes_unknown"]
    assert world.group("web").template() is None
    world.refresh(after_s=1800.0)
    assert world.azure.asked().count("GET /providers/Microsoft.Compute/skus") == 1
    world.azure.sizes = [a_size("standard_d4S_V5", 4, 16)]
    world.refresh(after_s=1800.0)
    assert world.group("web").template() is not None


def test_a_change_made_during_a_refresh_counts_more_than_its_answers() -> None:
    world = a_world()
    group = world.group("web")
    original = world.azure._list_machines

    def meanwhile(seen: Any, name: str) -> Any:
        reply = original(seen, name)
        if world.azure.asked().count(_MACHINES) == 2:
            group.delete([node("web", 2)])
        return reply

    world.azure._list_machines = meanwhile  # type: ignore[method-assign]
    world.refresh(after_s=301.0)
    assert group.target_size() == 2
    assert world.states("web")["2"] is State.DELETING


def test_closing_closes_the_connections() -> None:
    world = a_world()
    world.provider.close()
    assert world.azure.closed
