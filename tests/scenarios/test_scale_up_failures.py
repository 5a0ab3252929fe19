"""Every way in which a scale-up can fail, as whole passes in virtual time.

Each shows what people are told (event, metric), what the pass reports, how the group stands, and the sizes in the end.
"""

from collections.abc import Callable

import msgspec
import pytest

from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaleup import Balancing, GroupsPerPass, HealthOptions, ScaleUp
from autoscaler.config.tree import Config
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.reasons import ScaleUpResult, Skip, Waiting
from autoscaler.registry.state import GroupState
from autoscaler.sandbox.recorded_cloud import CloudCall, RecordedGroup
from autoscaler.scaleup.plan import ScaleUpPlan
from cloudprovider.interface import (
    ErrorClass,
    GroupSettings,
    InstanceError,
    NotFound,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
)
from cloudprovider.static.cloud import StaticCloud
from cloudprovider.static.group import StaticGroup
from cloudprovider.static.spec import Call, CallFault
from tests.builders import a_node, replicas
from tests.unit.loop.loop_world import LoopWorld, a_spec, waiting
from tests.unit.observe.published_world import CloudWithout, PublishedWorld

PROVISION_S = HealthOptions().max_node_provision_time_s
BACKOFF_S = HealthOptions().initial_node_group_backoff_duration_s
PASS_S = 15.0
BROKEN = CallFault(call=Call.INCREASE, message="broken")
STOCK_OUT = InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "no more machines")


def count(world: PublishedWorld, name: str, **labels: str) -> float:
    """Sum of the series of a metric that have these labels."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    series = {text: value for text, value in world.series().items() if text.startswith(name)}
    return sum(value for text, value in series.items() if all(label in text for label in wanted))


def sizes(world: LoopWorld) -> dict[str, int]:
    return {group.id: group.target_size() for group in world.static.groups()}


def increases(world: LoopWorld) -> list[tuple[str, int]]:
    """Every increase of the latest pass: group and by how much it grew."""
    return [(increase.group, increase.after - increase.before) for increase in world.reports[-1].increases]


def state(world: LoopWorld, group: str) -> GroupState:
    registry = world.reports[-1].registry
    assert registry is not None
    return registry.groups[group]


def plan_of(report: PassReport) -> ScaleUpPlan:
    assert report.scale_up.plan is not None
    return report.scale_up.plan


def first_fails(error: ProviderError, *, takes_effect: bool = False, config: Config = Config()) -> PublishedWorld:  # noqa: B008
    """Two groups could help one pod; the tighter one, which is chosen, fails once."""
    world = PublishedWorld(a_spec("tight", cpu="4", boot_s=60), a_spec("roomy", cpu="8", boot_s=60), config=config)
    world.static.fail_next("tight", error, takes_effect=takes_effect)
    world.submit(waiting("web"))
    return world


class TestRefusedIncrease:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            pytest.param(ProviderError("broken"), "cloudProviderError", id="an error of the provider"),
            pytest.param(QuotaExceeded("over quota"), "QUOTA_EXCEEDED", id="a quota"),
            pytest.param(OutOfCapacity("none left"), "OUT_OF_RESOURCES", id="a stock-out"),
            pytest.param(Transient("no answer"), "TRANSIENT", id="a time-out without effect"),
        ],
    )
    def test_another_group_helps_in_the_same_pass(self, error: ProviderError, code: str) -> None:
        world = first_fails(error)
        report = world.run()
        assert (report.end, report.scale_up.result, report.scale_up.error) == (
            PassEnd.COMPLETE,
            ScaleUpResult.SUCCESSFUL,
            str(error),
        )
        assert increases(world) == [("tight", 0), ("roomy", 1)]
        assert sizes(world) == {"tight": 0, "roomy": 1}
        assert world.messages("FailedToScaleUpGroup") == [f"Scale-up failed for group tight: {error}"]
        assert world.messages("TriggeredScaleUp") == ["pod triggered scale-up: [{roomy 0->1 (max: 10)}]"]
        assert count(world, "failed_scale_ups_total", reason=code) == 1
        assert count(world, "scaled_up_nodes_total") == 1
        pause = state(world, "tight").backoff
        assert pause is not None
        assert (pause.error.code, pause.duration_s) == (code, BACKOFF_S)
        assert state(world, "roomy").upcoming == 1

    def test_nothing_is_bought_again_in_the_next_pass(self) -> None:
        world = first_fails(ProviderError("broken"))
        world.run()
        report = world.run(PASS_S)
        assert report.scale_up.result is ScaleUpResult.NOT_NEEDED
        assert report.pods.waiting == {"default/web": Waiting.FITS}
        assert sizes(world) == {"tight": 0, "roomy": 1}

    def test_a_group_that_fails_always_is_asked_once_a_pass(self) -> None:
        groups = [a_spec(f"g{number}", cpu=str(4 + number), call_faults=[BROKEN]) for number in range(4)]
        world = PublishedWorld(*groups)
        world.submit(waiting("web"))
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.ERROR
        assert increases(world) == [("g0", 0), ("g1", 0), ("g2", 0), ("g3", 0)]
        assert count(world, "failed_scale_ups_total", reason="cloudProviderError") == 4
        assert world.reasons("Pod") == []
        assert world.run(PASS_S).scale_up.result is ScaleUpResult.NO_OPTIONS
        assert increases(world) == []

    def test_what_failed_and_what_helped_are_both_in_the_report(self) -> None:
        world = first_fails(QuotaExceeded("over quota"))
        report = world.run()
        plan = plan_of(report)
        assert [(one.group, one.delta) for one in plan.increases] == [("tight", 1), ("roomy", 1)]
        assert [[pod.name for pod in each.helped] for each in plan.rounds] == [[], ["web"]]
        assert [pod.name for pod in plan.triggered] == ["web"]
        assert [(one.group, one.reason) for one in plan.skipped] == [("tight", Skip.BACKED_OFF)]
        assert report.refused == {"tight"}

    def test_other_increases_of_the_plan_are_carried_out(self) -> None:
        world = PublishedWorld(a_spec("a", cpu="4"), a_spec("b", cpu="8", call_faults=[BROKEN]), a_spec("c", cpu="16"))
        world.submit(waiting("s", cpu="3500m"), waiting("m", cpu="7500m"), waiting("l", cpu="15500m"))
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.SUCCESSFUL
        assert increases(world) == [("a", 1), ("b", 0), ("c", 1), ("c", 1)]
        assert sizes(world) == {"a": 1, "b": 0, "c": 2}
        assert sorted(world.messages("TriggeredScaleUp")) == [
            "pod triggered scale-up: [{a 0->1 (max: 10)}]",
            "pod triggered scale-up: [{c 0->1 (max: 10)}]",
            "pod triggered scale-up: [{c 1->2 (max: 10)}]",
        ]

    def test_pods_that_no_other_group_can_take_make_it_an_error_and_the_others_have_their_nodes(self) -> None:
        world = PublishedWorld(a_spec("small", cpu="4"), a_spec("large", cpu="16", call_faults=[BROKEN]))
        world.submit(waiting("s", cpu="3500m"), waiting("l", cpu="15500m"))
        report = world.run()
        assert (report.scale_up.result, report.scale_up.error) == (ScaleUpResult.ERROR, "broken")
        assert sizes(world) == {"small": 1, "large": 0}
        assert world.messages("TriggeredScaleUp") == ["pod triggered scale-up: [{small 0->1 (max: 10)}]"]
        assert world.remembered.registry.scale_ups["small"].increase == 1
        assert world.remembered.registry.last.scale_up == report.now, "scale-down waits for nodes that come"
        assert world.run(PASS_S).pods.waiting["default/s"] is Waiting.FITS

    def test_a_throttled_cloud_is_left_alone_until_the_next_pass(self) -> None:
        world = first_fails(Throttled("slow down", retry_after=20.0))
        report = world.run()
        assert (report.scale_up.result, report.scale_up.error) == (ScaleUpResult.ERROR, "slow down")
        assert increases(world) == [("tight", 0)]
        world.run(PASS_S)
        assert sizes(world) == {"tight": 0, "roomy": 1}

    @pytest.mark.parametrize(
        "config",
        [
            pytest.param(Config(scale_up=ScaleUp(groups_per_pass=GroupsPerPass.ONE)), id="one group in a pass"),
            pytest.param(Config(rules=rules_of_1_31()), id="as 1.31 does"),
            pytest.param(
                Config(rules=msgspec.structs.replace(Rules(), next_group_after_failed_increase=False)), id="by the rule"
            ),
        ],
    )
    def test_the_next_pass_takes_another_group_where_asked_for(self, config: Config) -> None:
        world = first_fails(ProviderError("broken"), config=config)
        first = world.run()
        assert (first.scale_up.result, sizes(world)) == (ScaleUpResult.ERROR, {"tight": 0, "roomy": 0})
        assert first.end is (PassEnd.FAILED if config.rules.return_scale_up_error else PassEnd.COMPLETE)
        second = world.run(PASS_S)
        assert (second.scale_up.result, sizes(world)) == (ScaleUpResult.SUCCESSFUL, {"tight": 0, "roomy": 1})


class TestPartialIncrease:
    """The call fails although, or after, the target has grown."""

    def test_what_grew_is_counted_and_only_the_rest_is_bought_elsewhere(self) -> None:
        world = PublishedWorld(a_spec("half", cpu="4", max_size=3, boot_s=60), a_spec("roomy", cpu="9", boot_s=60))
        world.static.fail_next("half", OutOfCapacity("no more than one"), takes_effect=True, at_most=1)
        world.submit(*replicas(waiting("web"), 2))
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.SUCCESSFUL
        assert increases(world) == [("half", 1), ("roomy", 1)]
        assert sizes(world) == {"half": 1, "roomy": 1}
        assert world.remembered.registry.scale_ups["half"].increase == 1
        half = state(world, "half")
        assert half.backoff is not None
        assert half.upcoming == 1
        assert count(world, "failed_scale_ups_total", reason="OUT_OF_RESOURCES") == 1
        assert count(world, "scaled_up_nodes_total") == 2
        assert sorted(world.messages("TriggeredScaleUp")) == [
            "pod triggered scale-up: [{half 0->2 (max: 3)}]",
            "pod triggered scale-up: [{roomy 0->1 (max: 10)}]",
        ]
        assert world.run(PASS_S).scale_up.result is ScaleUpResult.NOT_NEEDED
        assert sizes(world) == {"half": 1, "roomy": 1}

    def test_an_error_that_took_full_effect_leaves_machines_to_count_on_and_a_group_to_leave_alone(
        self,
    ) -> None:
        world = first_fails(OutOfCapacity("none left"), takes_effect=True)
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.SUCCESSFUL
        assert sizes(world) == {"tight": 1, "roomy": 0}
        assert state(world, "tight").backoff is not None
        assert world.run(PASS_S).scale_up.result is ScaleUpResult.NOT_NEEDED
        assert sizes(world) == {"tight": 1, "roomy": 0}

    def test_an_earlier_request_of_the_refusing_group_is_still_counted_on(self) -> None:
        world = PublishedWorld(a_spec("tight", cpu="4", boot_s=60), a_spec("roomy", cpu="8", boot_s=60))
        world.submit(waiting("early"))
        world.run()
        world.static.fail_next("tight", QuotaExceeded("over quota"))
        world.submit(waiting("late"))
        world.run(PASS_S)
        assert sizes(world) == {"tight": 1, "roomy": 1}
        assert world.run(PASS_S).scale_up.result is ScaleUpResult.NOT_NEEDED
        assert sizes(world) == {"tight": 1, "roomy": 1}


class TestLostAnswer:
    def test_a_time_out_that_took_effect_is_a_success(self) -> None:
        world = first_fails(Transient("no answer"), takes_effect=True)
        report = world.run()
        assert (report.scale_up.result, report.scale_up.error) == (ScaleUpResult.SUCCESSFUL, "")
        assert sizes(world) == {"tight": 1, "roomy": 0}
        assert state(world, "tight").backoff is None
        assert world.messages("ScaledUpGroup")[-1] == "Scale-up: group tight size set to 1 instead of 0 (max: 10)"
        assert count(world, "failed_scale_ups_total") == 0
        assert count(world, "scaled_up_nodes_total") == 1

    def test_of_one_that_took_half_effect_the_rest_is_bought_elsewhere(self) -> None:
        world = PublishedWorld(a_spec("half", cpu="4", max_size=3, boot_s=60), a_spec("roomy", cpu="9", boot_s=60))
        world.static.fail_next("half", Transient("no answer"), takes_effect=True, at_most=1)
        world.submit(*replicas(waiting("web"), 2))
        assert world.run().scale_up.result is ScaleUpResult.SUCCESSFUL
        assert increases(world) == [("half", 1), ("roomy", 1)]
        assert world.run(PASS_S).scale_up.result is ScaleUpResult.NOT_NEEDED


class ForgetfulGroup(RecordedGroup):
    """Takes the next increase, loses the answer, and cannot be read until the next refresh."""

    def __init__(self, inner: StaticGroup, calls: list[CloudCall], now: Callable[[], float]) -> None:
        super().__init__(inner, calls, now)
        self.loses_answer = False
        self.unreadable = False

    def target_size(self) -> int:
        if self.unreadable:
            raise Transient("no answer either")
        return super().target_size()

    def increase(self, delta: int) -> None:
        super().increase(delta)
        if self.loses_answer:
            self.loses_answer, self.unreadable = False, True
            raise Transient("no answer")


class ForgetfulCloud(CloudWithout):
    def __init__(self, inner: StaticCloud) -> None:
        super().__init__(inner)
        self.forgetful = tuple(ForgetfulGroup(group, self.calls, lambda: inner.now_s) for group in inner.groups())

    def groups(self) -> tuple[ForgetfulGroup, ...]:
        return self.forgetful

    def refresh(self, now: float) -> None:
        for group in self.forgetful:
            group.unreadable = False
        super().refresh(now)


def test_an_increase_of_which_nobody_can_tell_what_became_is_waited_for() -> None:
    world = PublishedWorld(
        a_spec("tight", cpu="4", boot_s=60), a_spec("roomy", cpu="8", boot_s=60), cloud=ForgetfulCloud
    )
    assert isinstance(world.cloud, ForgetfulCloud)
    world.cloud.forgetful[0].loses_answer = True
    world.submit(waiting("web"))
    first = world.run()
    assert (first.scale_up.result, increases(world)) == (ScaleUpResult.ERROR, [("tight", 0)])
    assert world.messages("FailedToScaleUpGroup") == ["Scale-up failed for group tight: no answer"]
    assert count(world, "failed_scale_ups_total", reason="TRANSIENT") == 1
    second = world.run(PASS_S)
    assert (second.scale_up.result, second.pods.waiting["default/web"]) == (ScaleUpResult.NOT_NEEDED, Waiting.FITS)
    assert state(world, "tight").backoff is not None
    assert sizes(world) == {"tight": 1, "roomy": 0}


class TestCrash:
    """The process dies after the cloud has taken a request and before anything was remembered."""

    def test_a_restart_believes_the_target_and_buys_nothing_twice(self) -> None:
        world = PublishedWorld(a_spec("web", boot_s=120))
        world.submit(*replicas(waiting("web"), 2))
        world.run()
        world.restart()
        report = world.run(PASS_S)
        assert report.scale_up.result is ScaleUpResult.NOT_NEEDED
        assert sizes(world) == {"web": 2}
        assert (state(world, "web").upcoming, world.remembered.registry.scale_ups["web"].increase) == (2, 2)
        assert count(world, "scaled_up_nodes_total") == 2

    def test_what_a_restart_waits_for_in_vain_is_given_up(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.submit(waiting("web"))
        world.run()
        world.restart()
        world.run(PASS_S)
        world.run(PROVISION_S + 1)
        assert world.reasons("ConfigMap").count("ScaleUpTimedOut") == 1
        assert state(world, "web").backoff is not None
        assert sizes(world) == {"web": 0}


class TestVanishedGroup:
    def test_a_group_that_goes_between_plan_and_resize_is_one_that_failed(self) -> None:
        error = NotFound("node group tight was not found")
        world = first_fails(error)
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.SUCCESSFUL
        assert increases(world) == [("tight", 0), ("roomy", 1)]
        assert world.messages("FailedToScaleUpGroup") == [f"Scale-up failed for group tight: {error}"]
        assert count(world, "failed_scale_ups_total", reason="NOT_FOUND") == 1


class TestMachinesThatFail:
    def test_they_are_deleted_and_another_group_helps(self) -> None:
        world = PublishedWorld(a_spec("tight", cpu="4", boot_s=60), a_spec("roomy", cpu="8", boot_s=60))
        world.static.fail_next("tight", STOCK_OUT)
        world.submit(waiting("web"))
        world.run()
        assert sizes(world) == {"tight": 1, "roomy": 0}
        report = world.run(PASS_S)
        assert [one.removal.group for one in report.repairs.failed_removed] == ["tight"]
        assert report.scale_up.result is ScaleUpResult.SUCCESSFUL
        assert sizes(world) == {"tight": 0, "roomy": 1}
        assert world.messages("ScaleUpFailed") == [
            "Failed adding 1 nodes to group tight due to OutOfResource.STOCKOUT; source errors: no more machines"
        ]
        assert count(world, "failed_scale_ups_total", reason="other") == 1  # no cloud has this code
        assert count(world, "failed_node_creations_total", reason="other") == 1  # no cloud has this code
        pause = state(world, "tight").backoff
        assert pause is not None
        assert pause.error.code == "STOCKOUT"

    def test_the_ones_that_have_not_failed_yet_are_not_counted_on_meanwhile(self) -> None:
        world = PublishedWorld(a_spec("tight", cpu="4", boot_s=60), a_spec("roomy", cpu="8", boot_s=60))
        world.static.fail_next("tight", STOCK_OUT)
        world.submit(*replicas(waiting("web"), 2))
        world.run()
        world.run(PASS_S)
        assert sizes(world) == {"tight": 1, "roomy": 1}
        assert state(world, "tight").upcoming == 0

    @pytest.mark.parametrize(
        ("settings", "left"),
        [
            pytest.param(GroupSettings(zero_or_max_node_scaling=True), 0, id="an all-or-nothing group loses all"),
            pytest.param(
                GroupSettings(zero_or_max_node_scaling=True, allow_non_atomic_scale_up_to_max=True),
                3,
                id="unless it may stay incomplete",
            ),
        ],
    )
    def test_of_an_all_or_nothing_group(self, settings: GroupSettings, left: int) -> None:
        world = PublishedWorld(a_spec("gang", cpu="4", max_size=3, boot_s=60, settings=settings))
        world.static.fail_next("gang", STOCK_OUT)
        world.submit(waiting("web"))
        world.run()
        assert sizes(world) == {"gang": 3}
        report = world.run(PASS_S)
        assert [len(one.removal.instances) for one in report.repairs.failed_removed] == ([3] if left == 0 else [])
        assert sizes(world) == {"gang": left}
        assert state(world, "gang").backoff is not None
        assert count(world, "failed_scale_ups_total", reason="other") == 1  # no cloud has this code


class TestMachinesThatNeverRegister:
    def test_they_are_deleted_and_the_request_is_given_up(self) -> None:
        world = PublishedWorld(a_spec("web", boot_s=30))
        world.submit(waiting("web"))
        world.run()
        world.run(60)
        late = world.run(PROVISION_S + 61)
        assert [one.removal.group for one in late.repairs.unregistered_removed] == ["web"]
        assert sizes(world) == {"web": 0}
        assert state(world, "web").backoff is not None
        assert world.reasons("ConfigMap").count("ScaleUpTimedOut") == 1
        assert world.messages("DeleteUnregistered") == ["Removed unregistered node static://web-1"]
        assert count(world, "old_unregistered_nodes_removed_count") == 1

    def test_a_request_that_no_machine_answers_times_out_and_is_reverted(self) -> None:
        world = PublishedWorld(a_spec("web"), a_spec("other", cpu="8"))
        world.submit(waiting("web"))
        world.run()
        report = world.run(PROVISION_S + 1)
        assert [(one.group, one.before, one.after) for one in report.repairs.corrections] == [("web", 1, 0)]
        assert world.messages("ScaleUpTimedOut") == ["Nodes added to group web failed to register within 15m1s"]
        assert count(world, "failed_scale_ups_total", reason="timeout") == 1
        assert sizes(world) == {"web": 0, "other": 1}
        pause = state(world, "web").backoff
        assert pause is not None
        assert pause.error.code == "timeout"

    def test_a_revert_that_fails_is_told_and_made_up_for(self) -> None:
        world = PublishedWorld(a_spec("web"))
        world.submit(waiting("web"))
        world.run()
        world.static.fail_next("web", ProviderError("not now"), Call.DECREASE_TARGET)
        world.run(PROVISION_S + 1)
        assert world.messages("FailedToRevertScaleUp") == [
            "Failed to decrease target size for group web after scale-up timeout: not now"
        ]
        assert sizes(world) == {"web": 1}
        world.run(PASS_S)
        world.run(PROVISION_S + 1)
        assert sizes(world)["web"] == 0


class TestBackoff:
    def test_doubles_with_each_failure_and_is_forgotten_after_three_hours(self) -> None:
        world = PublishedWorld(a_spec("web", call_faults=[BROKEN]))
        world.submit(waiting("web"))
        lengths = []
        for _ in range(5):
            world.run()
            pause = state(world, "web").backoff
            assert pause is not None
            lengths.append(pause.duration_s)
            world.run(pause.duration_s - 1)
            assert increases(world) == []
            world.clock.advance(2)
        assert lengths == [300, 600, 1200, 1800, 1800]
        assert count(world, "failed_scale_ups_total") == 5
        world.clock.advance(HealthOptions().node_group_backoff_reset_timeout_s)
        world.run()
        pause = state(world, "web").backoff
        assert pause is not None
        assert pause.duration_s == BACKOFF_S


class TestGates:
    def test_an_unhealthy_cluster_buys_nothing(self) -> None:
        nodes = [(a_node(f"n{number}", ready=number > 4), "web") for number in range(8)]
        world = PublishedWorld(a_spec("web"), a_spec("other", cpu="8"), nodes=nodes)
        world.submit(waiting("web", cpu="3900m"))
        report = world.run()
        assert (report.end, report.scale_up.result) == (PassEnd.UNHEALTHY, ScaleUpResult.NOT_TRIED)
        assert world.messages("ClusterUnhealthy") == ["Cluster is unhealthy"]
        assert count(world, "cluster_safe_to_autoscale") == 0
        assert world.calls == []

    def test_an_unhealthy_group_is_passed_over(self) -> None:
        sick = [(a_node(f"s{number}", cpu="1", ready=False), "sick") for number in range(5)]
        fine = [(a_node(f"f{number}", cpu="1"), "fine") for number in range(10)]
        world = PublishedWorld(
            a_spec("sick"), a_spec("fine", cpu="1", max_size=20), a_spec("other", cpu="8"), nodes=sick + fine
        )
        world.submit(waiting("web"))
        report = world.run()
        assert (report.end, report.scale_up.result) == (PassEnd.COMPLETE, ScaleUpResult.SUCCESSFUL)
        assert [(one.group, one.reason) for one in plan_of(report).skipped] == [("sick", Skip.NOT_READY)]
        assert increases(world) == [("other", 1)]
        assert not state(world, "sick").healthy


class TestBalancedIncrease:
    def test_the_share_of_a_group_that_fails_goes_to_the_others(self) -> None:
        balanced = Config(balancing=Balancing(balance_similar_node_groups=True))
        groups = [a_spec(group, cpu="4", boot_s=60) for group in ("a", "b", "c")]
        world = PublishedWorld(*groups, config=balanced)
        world.static.fail_next("b", OutOfCapacity("none left"))
        world.submit(*replicas(waiting("web"), 6))
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.SUCCESSFUL
        assert sizes(world) == {"a": 3, "b": 0, "c": 3}
        assert sum(len(each.helped) for each in plan_of(report).rounds) == 6
        assert world.reasons("Pod") == ["TriggeredScaleUp"] * 6
        assert world.run(PASS_S).scale_up.result is ScaleUpResult.NOT_NEEDED
        assert sizes(world) == {"a": 3, "b": 0, "c": 3}


class TestAtTheSameTime:
    """`--parallel-scale-up`"""

    CONFIG = Config(scale_up=ScaleUp(parallel_scale_up=True))
    OLD = Config(scale_up=ScaleUp(parallel_scale_up=True), rules=rules_of_1_31())

    def test_all_groups_are_announced_before_any_is_done(self) -> None:
        world = PublishedWorld(a_spec("a", cpu="4"), a_spec("b", cpu="8"), config=self.CONFIG)
        world.submit(waiting("s", cpu="3500m"), waiting("m", cpu="7500m"))
        assert world.run().scale_up.result is ScaleUpResult.SUCCESSFUL
        assert sizes(world) == {"a": 1, "b": 1}
        assert [text.split(": ")[1].split(" size")[0] for text in world.messages("ScaledUpGroup")] == [
            "setting group a",
            "setting group b",
            "group a",
            "group b",
        ]

    def test_errors_are_combined_and_every_group_is_tried(self) -> None:
        broken = [
            a_spec("a", cpu="4", call_faults=[CallFault(call=Call.INCREASE, message="worse")]),
            a_spec("b", cpu="8", call_faults=[CallFault(call=Call.INCREASE, message="bad")]),
        ]
        config = Config(
            scale_up=ScaleUp(parallel_scale_up=True),
            rules=msgspec.structs.replace(Rules(), next_group_after_failed_increase=False),
        )
        world = PublishedWorld(*broken, a_spec("c", cpu="16"), config=config)
        world.submit(waiting("s", cpu="3500m"), waiting("m", cpu="7500m"), waiting("l", cpu="15500m"))
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.ERROR
        assert report.scale_up.error == 'bad ...and other concurrent errors: ["worse"]'
        assert increases(world) == [("a", 0), ("b", 0), ("c", 1)]

    def test_another_group_makes_up_for_one_that_fails(self) -> None:
        world = first_fails(ProviderError("broken"), config=self.CONFIG)
        assert world.run().scale_up.result is ScaleUpResult.SUCCESSFUL
        assert sizes(world) == {"tight": 0, "roomy": 1}
