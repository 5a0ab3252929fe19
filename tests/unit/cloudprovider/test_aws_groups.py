"""Which groups are found, how often they are read, and what is known of their machines."""

import pytest

from cloudprovider.interface import (
    ErrorClass,
    Misconfigured,
    NodeRef,
    NotFound,
    ProviderError,
    State,
    Throttled,
    Transient,
)
from tests.fakes.aws import ZONE, FakeAws, an_error

_ENABLED = "k8s.io/cluster-autoscaler/enabled"
_MINE = "k8s.io/cluster-autoscaler/mine"


def sizes(provider: object) -> dict[str, tuple[int, int, int]]:
    groups = provider.groups()  # type: ignore[attr-defined]
    return {group.id: (group.min_size, group.target_size(), group.max_size) for group in groups}


def ref(instance: str, zone: str = ZONE) -> NodeRef:
    return NodeRef(f"ip-{instance}", f"aws:///{zone}/{instance}")


# Finding groups


def test_named_groups_have_the_sizes_given_as_far_as_their_own_allow() -> None:
    cloud = FakeAws()
    cloud.add_group("web", 3, least=2, most=8)
    cloud.add_group("batch", 3, least=1, most=20)
    cloud.add_group("unnamed", 1)
    assert sizes(cloud.open("0:10:web", "2:5:batch")) == {"batch": (2, 3, 5), "web": (2, 3, 8)}


def test_discovered_groups_have_every_tag_and_their_own_sizes() -> None:
    cloud = FakeAws()
    cloud.add_group("web", 1, least=1, most=4, tags={_ENABLED: "yes", _MINE: "owned"})
    cloud.add_group("their", tags={_ENABLED: "yes"})
    cloud.add_group("off", tags={_ENABLED: "no", _MINE: "owned"})
    assert sizes(cloud.open(discovery=[f"asg:tag={_ENABLED}=yes,{_MINE}"])) == {"web": (1, 1, 4)}
    assert sizes(cloud.open(discovery=[f"asg:tag={_ENABLED}=yes", f"asg:tag={_MINE}"])) == {"web": (1, 1, 4)}


def test_a_group_that_is_named_and_discovered_is_one() -> None:
    cloud = FakeAws()
    cloud.add_group("web", most=9, tags={_ENABLED: ""})
    assert sizes(cloud.open("1:5:web", discovery=[f"asg:tag={_ENABLED}"])) == {"web": (1, 0, 5)}


def test_hundreds_of_groups_are_read_in_batches_and_pages() -> None:
    cloud = FakeAws(page=40)
    for number in range(250):
        cloud.add_group(f"g{number:03}", tags={_ENABLED: ""} if number >= 130 else {})
    provider = cloud.open(*(f"0:5:g{number:03}" for number in range(130)), discovery=[f"asg:tag={_ENABLED}"])
    assert [group.id for group in provider.groups()] == [f"g{number:03}" for number in range(250)]


def test_named_groups_that_cannot_be_scaled_are_all_told_at_the_start() -> None:
    cloud = FakeAws()
    cloud.add_group("small", most=3)
    cloud.add_group("units", DesiredCapacityType="vcpu")
    with pytest.raises(Misconfigured) as found:
        cloud.open("0:5:gone", "5:9:small", "0:5:units")
    lines = str(found.value).splitlines()
    assert [line.split()[0:2] for line in lines] == [["nodes:", "there"], ["nodes:", "small:"], ["nodes:", "units:"]]
    assert "no Auto Scaling group 'gone' in eu-west-1" in lines[0]
    assert "5:9 is outside the group's own 0:3" in lines[1]
    assert "units of capacity" in lines[2]


@pytest.mark.parametrize(
    "code", ["AccessDenied", "UnauthorizedOperation", "InvalidClientTokenId", "SignatureDoesNotMatch"]
)
def test_credentials_that_do_not_suffice_end_the_start(code: str) -> None:
    cloud = FakeAws()
    cloud.fail("describe_auto_scaling_groups", an_error(code))
    with pytest.raises(Misconfigured, match=code):
        cloud.open("0:5:web")


def test_a_cloud_that_is_away_at_the_start_is_no_mistake_of_the_operator() -> None:
    cloud = FakeAws()
    cloud.fail("describe_auto_scaling_groups", an_error("InternalFailure", status=500))
    with pytest.raises(Transient):
        cloud.open("0:5:web")


def test_discovered_groups_with_weights_are_left_out_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    cloud = FakeAws()
    overrides = [{"InstanceType": "m5.large", "WeightedCapacity": "2"}]
    template = {"LaunchTemplateSpecification": {"LaunchTemplateName": "t", "Version": "1"}, "Overrides": overrides}
    cloud.add_group("web", tags={_ENABLED: ""}, MixedInstancesPolicy={"LaunchTemplate": template})
    provider = cloud.open(discovery=[f"asg:tag={_ENABLED}"])
    provider.refresh(cloud.now + 100)
    assert provider.groups() == ()
    assert [record.message for record in caplog.records] == ["aws.group_left_out"]


def test_a_group_that_is_being_deleted_or_gone_is_none_and_comes_back() -> None:
    cloud = FakeAws()
    group = cloud.add_group("web", 2)
    provider = cloud.open("0:5:web")
    (known,) = provider.groups()
    group["Status"] = "Delete in progress"
    provider.refresh(cloud.now + 100)
    assert provider.groups() == ()
    assert provider.group_of(ref(cloud.ids()[0])) is None
    with pytest.raises(NotFound):
        known.target_size()
    with pytest.raises(NotFound):
        known.increase(1)
    assert (known.min_size, known.max_size, known.template()) == (0, 0, None)
    del group["Status"]
    provider.refresh(cloud.now + 200)
    assert sizes(provider) == {"web": (0, 2, 5)}


# Reading as seldom as possible


def test_an_idle_refresh_costs_the_same_few_calls_and_only_each_minute() -> None:
    cloud = FakeAws()
    for name in ("web", "batch"):
        cloud.add_group(name, 2)
    provider = cloud.open("0:5:web", discovery=[f"asg:tag={_ENABLED}"])
    costs = []
    for _ in range(20):
        before = cloud.count()
        for step in (15, 30, 45, 60):
            provider.refresh(cloud.now + step)
        cloud.now += 60
        costs.append(cloud.count() - before)
    assert set(costs) == {2}, "one for the named groups, one for the tagged"


def test_a_group_that_is_changing_is_read_sooner_and_after_our_own_change_at_once() -> None:
    cloud = FakeAws()
    cloud.add_group("web", 2)
    provider = cloud.open("0:5:web")

    def reads_at(after_s: float) -> int:
        before = cloud.count("describe_auto_scaling_groups")
        provider.refresh(cloud.now + after_s)
        return cloud.count("describe_auto_scaling_groups") - before

    assert reads_at(15) == 0
    provider.groups()[0].increase(1)
    assert reads_at(16) == 1
    assert [reads_at(after) for after in (17, 25, 27)] == [0, 0, 1], "a machine is missing"
    cloud.deliver()
    assert [reads_at(after) for after in (40, 55, 101)] == [1, 0, 1], "nothing is going on any more"


def test_a_clock_that_is_set_back_does_not_stop_reading() -> None:
    cloud = FakeAws()
    cloud.add_group("web", 2)
    provider = cloud.open("0:5:web")
    before = cloud.count()
    provider.refresh(cloud.now - 3600)
    assert cloud.count() > before


def test_a_refresh_that_fails_changes_nothing_and_is_done_again_at_once() -> None:
    cloud = FakeAws()
    group = cloud.add_group("web", 2)
    provider = cloud.open("0:5:web")
    group["DesiredCapacity"] = 4
    cloud.fail("describe_auto_scaling_groups", an_error("Throttling", retry_after="7"))
    with pytest.raises(Throttled) as told:
        provider.refresh(cloud.now + 60)
    assert told.value.retry_after == 7.0
    assert sizes(provider) == {"web": (0, 2, 5)}
    provider.refresh(cloud.now + 61)
    assert sizes(provider) == {"web": (0, 4, 5)}


# Machines


@pytest.mark.parametrize(
    ("lifecycle", "state"),
    [
        ("Pending", State.CREATING),
        ("Pending:Wait", State.CREATING),
        ("Pending:Proceed", State.CREATING),
        ("InService", State.RUNNING),
        ("Terminating", State.DELETING),
        ("Terminating:Wait", State.DELETING),
        ("Terminating:Proceed", State.DELETING),
        ("Terminated", State.DELETING),
        ("Detaching", State.DELETING),
        ("Detached", State.DELETING),
    ],
)
def test_the_life_cycle_of_a_machine_is_told(lifecycle: str, state: State) -> None:
    cloud = FakeAws()
    group = cloud.add_group("web", 1)
    group["DesiredCapacity"] = 0 if state is State.DELETING else 1
    (machine,) = cloud.ids()
    cloud.machine(machine)["LifecycleState"] = lifecycle
    (known,) = cloud.open("0:5:web").groups()
    assert [(instance.provider_id, instance.state, instance.error) for instance in known.instances()] == [
        (f"aws:///{ZONE}/{machine}", state, None)
    ]


@pytest.mark.parametrize("lifecycle", ["Standby", "EnteringStandby", "Warmed:Stopped", "Warmed:Pending:Wait"])
def test_machines_out_of_service_belong_to_nobody_and_count_in_no_size(lifecycle: str) -> None:
    cloud = FakeAws()
    group = cloud.add_group("web", 3)
    aside = cloud.ids()[0]
    cloud.machine(aside)["LifecycleState"], group["DesiredCapacity"] = lifecycle, 2
    provider = cloud.open("0:5:web")
    (known,) = provider.groups()
    assert (known.target_size(), len(known.instances())) == (2, 2)
    assert provider.group_of(ref(aside)) is None
    assert provider.has_instance(ref(aside))
    with pytest.raises(ProviderError, match="not one of this group's"):
        known.delete([ref(aside)])


def test_nodes_are_known_by_the_instance_in_their_provider_id() -> None:
    cloud = FakeAws()
    cloud.add_group("web", 1)
    provider = cloud.open("0:5:web")
    (machine,) = cloud.ids()
    assert provider.group_of(ref(machine)) == "web"
    assert provider.group_of(NodeRef(f"aws:///{ZONE}/{machine}", f"aws:///{ZONE}/{machine}")) == "web"
    for stranger in ("", "gce://project/zone/name", f"aws:///{ZONE}/", "aws:///x", f"aws:///{ZONE}/i-0", machine):
        assert provider.group_of(NodeRef("stranger", stranger)) is None, stranger


def test_machines_exist_while_their_group_lists_them_and_those_of_fargate_always() -> None:
    cloud = FakeAws()
    cloud.add_group("web", 1)
    provider = cloud.open("0:5:web")
    assert provider.has_instance(ref(cloud.ids()[0]))
    assert not provider.has_instance(ref("i-0"))
    assert not provider.has_instance(NodeRef("elsewhere", "gce://project/zone/name"))
    assert provider.has_instance(NodeRef("fargate-ip-10-0-0-1", f"aws:///{ZONE}/uuid/fargate-ip-10-0-0-1"))


def test_a_missing_machine_has_a_placeholder_that_belongs_to_the_group() -> None:
    cloud = FakeAws()
    group = cloud.add_group("team/web-1", 2)
    group["DesiredCapacity"] = 4
    provider = cloud.open("0:5:team/web-1")
    (known,) = provider.groups()
    placeholders = known.instances()[2:]
    assert [placeholder.provider_id for placeholder in placeholders] == [
        f"aws:///{ZONE}/i-placeholder-team/web-1-{number}" for number in (2, 3)
    ]
    assert {(placeholder.state, placeholder.error) for placeholder in placeholders} == {(State.CREATING, None)}
    for one in placeholders:
        assert provider.group_of(NodeRef(one.provider_id, one.provider_id)) == "team/web-1"


# What cannot be met


def a_shortage(cloud: FakeAws) -> None:
    cloud.add_group("web", 2)["DesiredCapacity"] = 4


def unmet(cloud: FakeAws) -> list[str]:
    (known,) = cloud.open("0:9:web").groups()
    return [instance.error.message for instance in known.instances() if instance.error is not None]


def test_a_launch_that_failed_lately_fails_every_placeholder_with_the_words_of_aws() -> None:
    cloud = FakeAws()
    a_shortage(cloud)
    cloud.tried("web", "Failed", "We currently do not have sufficient m5.large capacity")
    (known,) = cloud.open("0:9:web").groups()
    errors = [instance.error for instance in known.instances()][2:]
    assert [(error.error_class, error.code, error.message) for error in errors if error] == [
        (
            ErrorClass.OUT_OF_RESOURCES,
            "placeholder-cannot-be-fulfilled",
            "We currently do not have sufficient m5.large capacity",
        )
    ] * 2


def test_failures_of_long_ago_say_nothing_about_now() -> None:
    cloud = FakeAws()
    a_shortage(cloud)
    cloud.tried("web", "Failed", "no capacity", after_s=-3600)
    assert unmet(cloud) == []


def test_a_group_that_went_on_to_another_zone_is_still_trying() -> None:
    cloud = FakeAws()
    a_shortage(cloud)
    cloud.tried("web", "Failed", "no capacity in a")
    cloud.tried("web", "InProgress", after_s=2)
    assert unmet(cloud) == []
    cloud.tried("web", "Cancelled", after_s=3)
    assert unmet(cloud) == []
    cloud.tried("web", "Failed", "no capacity in b", after_s=4)
    assert unmet(cloud) == ["no capacity in b"] * 2


def test_failures_to_end_machines_are_not_failures_to_start_them() -> None:
    cloud = FakeAws()
    a_shortage(cloud)
    cloud.tried("web", "Failed")
    cloud.activities["web"][0]["Description"] = "Terminating EC2 instance: i-1"
    assert unmet(cloud) == []


def test_after_an_increase_only_attempts_since_then_count() -> None:
    cloud = FakeAws()
    cloud.add_group("web", 1)
    provider = cloud.open("0:9:web")
    cloud.tried("web", "Failed", "no capacity")
    cloud.now += 30
    (known,) = provider.groups()
    known.increase(1)
    provider.refresh(cloud.now)
    assert [instance.error for instance in known.instances()] == [None, None]
    cloud.tried("web", "Failed", "still none")
    provider.refresh(cloud.now + 11)
    assert [instance.error.message for instance in known.instances() if instance.error] == ["still none"]


def test_attempts_that_cannot_be_read_do_not_stop_the_refresh() -> None:
    cloud = FakeAws()
    a_shortage(cloud)
    cloud.fail("describe_scaling_activities", an_error("AccessDenied", status=403))
    assert unmet(cloud) == []


def test_attempts_are_asked_for_only_of_groups_that_are_short() -> None:
    cloud = FakeAws()
    a_shortage(cloud)
    cloud.add_group("batch", 3)
    cloud.open("0:9:web", "0:9:batch")
    asked = [parameters["AutoScalingGroupName"] for name, parameters in cloud.calls if name.endswith("activities")]
    assert asked == ["web"]
