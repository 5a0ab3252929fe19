"""Changing sizes: what AWS is told, what it is not told, and what is known afterwards."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from cloudprovider.aws.group import AwsGroup
from cloudprovider.aws.provider import AwsProvider
from cloudprovider.interface import (
    AtomicIncrease,
    ForceDelete,
    GroupOptions,
    NodeRef,
    ProviderError,
    QuotaExceeded,
    State,
    Throttled,
    Transient,
)
from tests.fakes.aws import ZONE, FakeAws, an_error

SET, END = "set_desired_capacity", "terminate_instance_in_auto_scaling_group"


class OneAwsGroup:
    """One group and its provider."""

    def __init__(self, size: int = 4, least: int = 0, most: int = 10) -> None:
        self.cloud = FakeAws()
        self.group_data = self.cloud.add_group("web", size, least=least, most=most)
        self.provider: AwsProvider = self.cloud.open("0:100:web")

    @property
    def group(self) -> AwsGroup:
        return self.provider.groups()[0]

    def later(self, seconds: float = 61) -> None:
        self.cloud.now += seconds
        self.provider.refresh(self.cloud.now)

    def refs(self, *numbers: int) -> list[NodeRef]:
        return [NodeRef(f"node-{number}", f"aws:///{ZONE}/{self.cloud.ids()[number]}") for number in numbers]

    def placeholders(self) -> list[NodeRef]:
        found = [one.provider_id for one in self.group.instances() if "placeholder" in one.provider_id]
        return [NodeRef(one, one) for one in found]

    def states(self) -> list[State | None]:
        return [one.state for one in self.group.instances()]

    def told(self, operation: str) -> list[Mapping[str, Any]]:
        return [parameters for name, parameters in self.cloud.calls if name == operation]


def a_time_out() -> Exception:
    error: Exception = ReadTimeoutError(endpoint_url="https://autoscaling.eu-west-1.amazonaws.com/")
    return error


# Growing


def test_an_increase_sets_the_capacity_whatever_the_cool_down() -> None:
    world = OneAwsGroup(size=2)
    world.group.increase(3)
    assert world.told(SET) == [{"AutoScalingGroupName": "web", "DesiredCapacity": 5, "HonorCooldown": False}]
    assert world.group.target_size() == 5
    assert len(world.placeholders()) == 3


def test_an_increase_counts_before_aws_shows_it() -> None:
    world = OneAwsGroup(size=2)
    world.group.increase(3)
    world.group_data["DesiredCapacity"] = 2  # an older description
    assert world.group.target_size() == 5
    world.group.increase(1)
    assert world.told(SET)[-1]["DesiredCapacity"] == 3, "the next one never asks for more than the planner saw"


def test_machines_that_somebody_else_asked_for_are_not_taken_away() -> None:
    world = OneAwsGroup(size=2)
    world.group_data["DesiredCapacity"] = 8
    world.cloud.deliver()
    world.group.increase(3)
    assert world.told(SET) == [], "8 are more than the 5 that were wanted"
    assert world.group.target_size() == 8


def test_a_size_that_somebody_else_raised_counts_towards_an_increase() -> None:
    world = OneAwsGroup(size=2)
    world.group_data["DesiredCapacity"] = 4
    world.group.increase(3)
    assert world.told(SET)[0]["DesiredCapacity"] == 5


def test_a_size_that_somebody_else_lowered_is_raised_by_as_much_as_was_asked() -> None:
    world = OneAwsGroup(size=6)
    world.group_data["DesiredCapacity"] = 3
    world.group.increase(2)
    assert world.told(SET)[0]["DesiredCapacity"] == 5


def test_the_maximum_is_that_of_now() -> None:
    world = OneAwsGroup(size=2, most=10)
    world.group_data["MaxSize"] = 4
    with pytest.raises(ProviderError, match="5 is above the maximum size 4"):
        world.group.increase(3)
    assert world.told(SET) == []
    assert world.group.target_size() == 2


def test_an_increase_that_aws_refuses_changes_nothing() -> None:
    world = OneAwsGroup(size=2)
    world.cloud.fail(SET, an_error("VcpuLimitExceeded"))
    with pytest.raises(QuotaExceeded) as refused:
        world.group.increase(1)
    assert refused.value.code == "VcpuLimitExceeded"
    assert world.group.target_size() == 2


@pytest.mark.parametrize(("lost_answer", "size"), [(True, 5), (False, 2)])
def test_after_a_time_out_the_size_is_asked_for_anew(lost_answer: bool, size: int) -> None:
    world = OneAwsGroup(size=2)
    world.cloud.fail(SET, a_time_out(), lost_answer=lost_answer)
    with pytest.raises(Transient):
        world.group.increase(3)
    assert len(world.told(SET)) == 1, "it is not tried again by itself"
    assert world.group.target_size() == size


def test_a_size_that_cannot_be_asked_for_after_a_time_out_is_not_guessed() -> None:
    world = OneAwsGroup(size=2)
    world.cloud.fail(SET, a_time_out(), lost_answer=True)
    with pytest.raises(Transient):
        world.group.increase(3)
    world.cloud.fail("describe_auto_scaling_groups", a_time_out(), a_time_out())
    with pytest.raises(Transient):
        world.group.target_size()
    with pytest.raises(Transient):
        world.group.instances()
    assert world.group.target_size() == 5
    reads = world.cloud.count("describe_auto_scaling_groups")
    assert world.group.target_size() == 5
    assert world.cloud.count("describe_auto_scaling_groups") == reads, "known again"


# Shrinking


def test_exactly_these_machines_are_ended_and_the_size_follows_at_once() -> None:
    world = OneAwsGroup()
    chosen = world.refs(1, 2)
    world.group.delete(chosen)
    assert [one["InstanceId"] for one in world.told(END)] == [one.provider_id.rpartition("/")[2] for one in chosen]
    assert world.group.target_size() == 2
    assert world.states() == [State.RUNNING, State.DELETING, State.DELETING, State.RUNNING]


def test_machines_that_are_going_are_not_ended_twice() -> None:
    world = OneAwsGroup()
    world.group.delete(world.refs(0))
    world.group.delete(world.refs(0))
    world.cloud.machine(world.cloud.ids()[1])["LifecycleState"] = "Terminating:Wait"
    world.group_data["DesiredCapacity"] -= 1
    world.group.delete(world.refs(1, 2, 2))
    assert [one["InstanceId"] for one in world.told(END)] == [world.cloud.ids()[0], world.cloud.ids()[2]]
    assert world.group.target_size() == 1


def test_machines_that_are_gone_are_no_mistake() -> None:
    world = OneAwsGroup()
    first, second = world.refs(0, 1)
    world.group.delete([first])
    world.cloud.bury()
    world.later()
    world.group.delete([first])
    world.group_data["Instances"] = [
        one for one in world.group_data["Instances"] if one["InstanceId"] not in second.provider_id
    ]
    world.group.delete([second])
    assert len(world.told(END)) == 1


def test_an_end_that_finds_no_machine_lowers_no_size() -> None:
    world = OneAwsGroup()
    world.cloud.fail(END, an_error("ValidationError", "Instance Id not found - No managed instance found"))
    world.group.delete(world.refs(0))
    assert world.group.target_size() == 4
    assert world.states()[0] is State.DELETING


def test_one_foreign_machine_saves_all() -> None:
    world = OneAwsGroup()
    world.cloud.add_group("other", 1)
    world.provider = world.cloud.open("0:9:web", "0:9:other")
    foreign = NodeRef("foreign", f"aws:///{ZONE}/{world.cloud.ids('other')[0]}")
    for stranger in (foreign, NodeRef("x", ""), NodeRef("x", "aws:///z/i-placeholder-other-1")):
        web = next(group for group in world.provider.groups() if group.id == "web")
        with pytest.raises(ProviderError, match="not one of this group's"):
            web.delete([*world.refs(0), stranger])
    assert world.told(END) == world.told(SET) == []


def test_a_machine_put_on_standby_meanwhile_saves_all() -> None:
    world = OneAwsGroup()
    world.cloud.machine(world.cloud.ids()[1])["LifecycleState"] = "Standby"
    world.group_data["DesiredCapacity"] -= 1
    with pytest.raises(ProviderError, match="taken out of service"):
        world.group.delete(world.refs(0, 1))
    assert world.told(END) == []


def test_the_minimum_is_checked_against_what_is_true_now_before_anything_is_ended() -> None:
    world = OneAwsGroup(size=4, least=2)
    world.group_data["DesiredCapacity"] = 3
    with pytest.raises(ProviderError, match="below the minimum size 2"):
        world.group.delete(world.refs(0, 1))
    assert world.told(END) == []


def test_deleting_half_way_says_so_and_keeps_what_happened() -> None:
    world = OneAwsGroup()
    world.cloud.fail(END, None, None, an_error("ValidationError", "something else"))
    with pytest.raises(Transient, match="2 of 3 machines are being deleted"):
        world.group.delete(world.refs(0, 1, 2))
    assert world.group.target_size() == 2
    assert world.states() == [State.DELETING, State.DELETING, State.RUNNING, State.RUNNING]


def test_the_first_that_is_refused_is_refused_with_its_own_error() -> None:
    world = OneAwsGroup()
    world.cloud.fail(END, an_error("Throttling"))
    with pytest.raises(Throttled):
        world.group.delete(world.refs(0, 1))
    assert world.group.target_size() == 4
    assert set(world.states()) == {State.RUNNING}


@pytest.mark.parametrize(("lost_answer", "size"), [(True, 3), (False, 4)])
def test_after_a_time_out_the_machines_are_asked_for_anew(lost_answer: bool, size: int) -> None:
    world = OneAwsGroup()
    world.cloud.fail(END, a_time_out(), lost_answer=lost_answer)
    with pytest.raises(Transient):
        world.group.delete(world.refs(0))
    assert len(world.told(END)) == 1
    assert world.states()[0] is (State.DELETING if lost_answer else State.RUNNING)
    assert world.group.target_size() == size


def test_a_description_that_is_behind_does_not_bring_ended_machines_back() -> None:
    world = OneAwsGroup()
    world.group.delete(world.refs(0))
    world.cloud.machine(world.cloud.ids()[0])["LifecycleState"] = "InService"
    world.later(5)
    assert world.states()[0] is State.DELETING
    world.group.delete(world.refs(0))
    assert len(world.told(END)) == 1


def test_a_change_during_a_refresh_counts_more_than_what_was_read_before_it() -> None:
    world = OneAwsGroup()
    reached, go_on = threading.Event(), threading.Event()
    original = world.cloud.describe_auto_scaling_groups

    def slow(**parameters: Any) -> Mapping[str, Any]:
        answer = original(**parameters)
        if threading.current_thread() is not threading.main_thread():
            frozen = {
                "AutoScalingGroups": [
                    {**one, "Instances": [{**m} for m in one["Instances"]]} for one in answer["AutoScalingGroups"]
                ]
            }
            reached.set()
            assert go_on.wait(10)
            return frozen
        return answer

    world.cloud.describe_auto_scaling_groups = slow  # type: ignore[method-assign]
    refreshing = threading.Thread(target=lambda: world.provider.refresh(world.cloud.now + 61))
    refreshing.start()
    assert reached.wait(10)
    world.group.delete(world.refs(0))
    go_on.set()
    refreshing.join(10)
    assert world.group.target_size() == 3
    assert world.states()[0] is State.DELETING


# Cancelling


def a_shortage(size: int = 2, desired: int = 5, least: int = 0) -> OneAwsGroup:
    world = OneAwsGroup(size=size, least=least)
    world.group_data["DesiredCapacity"] = desired
    world.later()
    return world


def test_deleting_placeholders_lowers_the_size_by_as_many_and_ends_nothing() -> None:
    world = a_shortage()
    world.group.delete(world.placeholders()[:2])
    assert [one["DesiredCapacity"] for one in world.told(SET)] == [3]
    assert world.told(END) == []
    assert world.group.target_size() == 3
    assert len(world.placeholders()) == 1


def test_placeholders_and_machines_can_go_together() -> None:
    world = a_shortage()
    world.group.delete([*world.refs(0), *world.placeholders()])
    assert world.group_data["DesiredCapacity"] == 1
    assert [one["LifecycleState"] for one in world.group_data["Instances"]] == ["Terminating", "InService"]


def test_placeholders_count_against_the_minimum() -> None:
    world = a_shortage(least=2)
    with pytest.raises(ProviderError, match="below the minimum size 2"):
        world.group.delete([*world.refs(0), *world.placeholders()])
    assert world.told(SET) == world.told(END) == []


def test_a_request_that_was_met_meanwhile_costs_no_machine() -> None:
    world = a_shortage()
    placeholders = world.placeholders()
    world.cloud.deliver()
    with pytest.raises(Transient, match="3 requests were met"):
        world.group.delete(placeholders)
    assert world.told(SET) == world.told(END) == []
    assert world.states() == [State.RUNNING] * 5


@pytest.mark.parametrize(
    "cancel", [lambda w: w.group.decrease_target(1), lambda w: w.group.delete(w.placeholders()[:1])]
)
def test_nothing_is_cancelled_while_a_machine_is_on_its_way(cancel: Callable[[OneAwsGroup], None]) -> None:
    world = a_shortage()
    world.cloud.tried("web", "InProgress")
    with pytest.raises(Transient, match="being started"):
        cancel(world)
    assert world.told(SET) == []
    world.cloud.activities["web"].clear()
    world.cloud.tried("web", "InProgress", about=world.cloud.ids()[0])
    cancel(world)
    assert world.group.target_size() == 4


def test_decrease_target_spares_machines_that_came_since() -> None:
    world = a_shortage(size=2, desired=5)
    world.cloud.deliver()
    with pytest.raises(ProviderError, match="5 of 5 machines are there"):
        world.group.decrease_target(1)
    assert world.told(SET) == []


def test_decrease_target_gives_up_what_is_missing_and_no_more() -> None:
    world = a_shortage(size=2, desired=5)
    with pytest.raises(ProviderError, match="4 cannot be cancelled"):
        world.group.decrease_target(4)
    world.group.decrease_target(3)
    assert world.group_data["DesiredCapacity"] == world.group.target_size() == 2
    assert world.told(END) == []


def test_machines_being_replaced_are_not_machines_that_are_there() -> None:
    world = OneAwsGroup(size=3)
    world.cloud.machine(world.cloud.ids()[0])["LifecycleState"] = "Terminating"
    world.later()
    assert world.states() == [State.DELETING, State.RUNNING, State.RUNNING, State.CREATING]
    world.group.decrease_target(1)
    assert world.group_data["DesiredCapacity"] == 2


def test_a_group_has_the_abilities_that_aws_has() -> None:
    group = OneAwsGroup().group
    assert isinstance(group, GroupOptions)
    assert not isinstance(group, AtomicIncrease | ForceDelete)
