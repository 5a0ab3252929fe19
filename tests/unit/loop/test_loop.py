"""Whole passes against a simulated cloud: their order, where they end early, and what they remember."""

import msgspec
import pytest

from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaleup import GroupsPerPass, HealthOptions, Pods, ResourceLimits, ScaleUp
from autoscaler.config.tree import Config
from autoscaler.errors import ErrorType
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.observe.report import PassEnd
from autoscaler.ports import EventType, Subject
from autoscaler.reasons import ScaleUpResult, Skip, Waiting
from autoscaler.scaleup.choice import ExpanderWarning
from autoscaler.scaleup.plan import ScaleUpPlan
from autoscaler.scaleup.priority import CONFIG_MAP, PriorityWarning
from cloudprovider.interface import ErrorClass, InstanceError, OutOfCapacity, ProviderError, Transient
from cloudprovider.static.spec import Call
from tests.builders import a_node, replicas
from tests.unit.loop.loop_world import NOW, LoopWorld, Told, a_spec, waiting

PROVISION_S = HealthOptions().max_node_provision_time_s


def test_pods_that_fit_nowhere_get_nodes_and_hear_of_it() -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(*replicas(waiting("web"), 2))
    report = world.run()
    assert (report.end, report.scale_up.result) == (PassEnd.COMPLETE, ScaleUpResult.SUCCESSFUL)
    assert world.calls == [("increase", "web", 2)]
    assert world.reasons("Pod") == ["TriggeredScaleUp"] * 2
    assert world.messages("TriggeredScaleUp")[0] == "pod triggered scale-up: [{web 0->2 (max: 10)}]"
    assert world.messages("ScaledUpGroup") == [
        "Scale-up: setting group web size to 2 instead of 0 (max: 10)",
        "Scale-up: group web size set to 2 instead of 0 (max: 10)",
    ]


def test_nodes_on_their_way_are_not_asked_for_twice() -> None:
    world = LoopWorld(a_spec("web", boot_s=90))
    world.submit(*replicas(waiting("web"), 2))
    world.run()
    second = world.run(after_s=15)
    assert second.scale_up.result is ScaleUpResult.NOT_NEEDED
    assert set(second.pods.waiting.values()) == {Waiting.FITS}
    assert world.calls == [("increase", "web", 2)]


def test_a_node_that_registered_but_is_not_ready_stays_counted_once() -> None:
    world = LoopWorld(a_spec("web", boot_s=30), make_node=lambda name, now: a_node(name, ready=False, created=now))
    world.submit(waiting("web"))
    world.run()
    world.clock.advance(30)
    world.boot()
    world.submit(waiting("more", cpu="2"))
    world.run(after_s=5)
    assert world.calls == [("increase", "web", 1), ("increase", "web", 1)]


def test_repairs_come_before_scale_up() -> None:
    """Unregistered machines go, then failed ones, and only then are more asked for."""
    world = LoopWorld(a_spec("late", cpu="2", boot_s=0), a_spec("broken", cpu="3", boot_s=60), a_spec("good", cpu="16"))
    world.static.group("late").increase(1)
    world.run()
    world.static.fail_next("broken", InstanceError(ErrorClass.OTHER, "BAD_IMAGE", "no such image"))
    world.clock.advance(PROVISION_S + 1)
    world.static.group("broken").increase(1)
    world.submit(waiting("web", cpu="12"))
    report = world.run()
    assert world.calls == [("delete", "late", -1), ("delete", "broken", -1), ("increase", "good", 1)]
    assert [one.removal.group for one in report.repairs.unregistered_removed] == ["late"]
    assert [one.removal.group for one in report.repairs.failed_removed] == ["broken"]
    assert "DeleteUnregistered" in world.reasons("ConfigMap")


class TestEndsEarly:
    def test_when_the_provider_cannot_be_refreshed(self) -> None:
        world = LoopWorld(a_spec("web"))
        world.submit(waiting("web"))
        world.run()
        before = world.remembered
        world.static.fail_next("web", ProviderError("down for maintenance"), Call.REFRESH)
        report = world.run(after_s=15)
        assert (report.end, report.error_type) == (PassEnd.FAILED, ErrorType.CLOUD_PROVIDER)
        assert "down for maintenance" in report.error
        assert (report.view, report.registry, report.scale_up.result) == (None, None, None)
        assert world.remembered is before
        assert world.run(after_s=15).end is PassEnd.COMPLETE

    def test_when_the_cluster_cannot_be_observed(self) -> None:
        world = LoopWorld(a_spec("web"))
        world.unreachable = "watch of pods is behind"
        report = world.run()
        assert (report.end, report.error_type) == (PassEnd.FAILED, ErrorType.API_CALL)
        assert report.error == "watch of pods is behind"

    def test_when_too_many_nodes_are_unready_but_late_machines_still_go(self) -> None:
        nodes = [(a_node(f"n{number}", ready=number > 4), "web") for number in range(8)]
        world = LoopWorld(a_spec("web"), a_spec("late", boot_s=0), nodes=nodes)
        world.static.group("late").increase(1)
        world.submit(waiting("big", cpu="3900m"))
        world.run()
        report = world.run(after_s=PROVISION_S + 1)
        assert report.end is PassEnd.UNHEALTHY
        assert report.scale_up.result is ScaleUpResult.NOT_TRIED
        assert world.calls == [("delete", "late", -1)]
        assert world.messages("ClusterUnhealthy") == ["Cluster is unhealthy"] * 2

    def test_after_target_sizes_were_fixed(self) -> None:
        world = LoopWorld(a_spec("web", target=3), nodes=[(a_node("n1", cpu="1"), "web")])
        world.submit(waiting("web"))
        assert world.run().end is PassEnd.COMPLETE
        world.cloud.calls.clear()
        report = world.run(after_s=PROVISION_S + 1)
        assert report.end is PassEnd.SIZES_FIXED
        assert report.scale_up.result is ScaleUpResult.NOT_TRIED
        assert [(one.group, one.before, one.after) for one in report.repairs.corrections] == [("web", 3, 1)]
        assert report.registry is not None
        assert report.registry.groups["web"].acceptable.target == 1

    def test_when_a_target_size_cannot_be_fixed(self) -> None:
        world = LoopWorld(a_spec("web", target=3), nodes=[(a_node("n1"), "web")])
        world.run()
        world.static.fail_next("web", ProviderError("not now"), Call.DECREASE_TARGET)
        report = world.run(after_s=PROVISION_S + 1)
        assert (report.end, report.error_type) == (PassEnd.FAILED, ErrorType.CLOUD_PROVIDER)
        assert "web" in report.error


class TestEmptyCluster:
    CONFIG = Config(scale_up=ScaleUp(scale_up_from_zero=False))

    def test_without_ready_nodes_nothing_is_tried(self) -> None:
        world = LoopWorld(a_spec("web"), config=self.CONFIG, nodes=[(a_node("n1", ready=False), "web")])
        world.submit(waiting("web"))
        report = world.run()
        assert report.end is PassEnd.EMPTY_CLUSTER
        assert report.registry is None
        assert (world.calls, world.events) == ([], [])

    def test_it_is_news_only_after_ten_minutes(self) -> None:
        world = LoopWorld(a_spec("web"), config=self.CONFIG, nodes=[(a_node("n1", ready=False), "web")])
        world.run()
        world.run(after_s=600)
        assert world.events == []
        world.run(after_s=1)
        assert world.messages("ClusterUnhealthy") == ["Cluster has no ready nodes."]

    def test_a_cluster_without_nodes_is_news_at_once(self) -> None:
        world = LoopWorld(a_spec("web"), config=self.CONFIG)
        assert world.run().end is PassEnd.EMPTY_CLUSTER
        assert world.messages("ClusterUnhealthy") == ["Cluster has no nodes."]

    def test_by_default_the_first_node_is_bought(self) -> None:
        world = LoopWorld(a_spec("web"))
        world.submit(waiting("web"))
        assert world.run().end is PassEnd.COMPLETE
        assert world.calls == [("increase", "web", 1)]


class TestFailedIncrease:
    def test_backs_the_group_off_and_tries_again_later(self) -> None:
        world = LoopWorld(a_spec("web"))
        world.static.fail_next("web", OutOfCapacity("no m5 left"))
        world.submit(waiting("web"))
        first = world.run()
        assert (first.end, first.scale_up.result, first.scale_up.error) == (
            PassEnd.COMPLETE,
            ScaleUpResult.ERROR,
            "no m5 left",
        )
        assert world.messages("FailedToScaleUpGroup") == ["Scale-up failed for group web: no m5 left"]
        second = world.run(after_s=15)
        assert second.scale_up.result is ScaleUpResult.NO_OPTIONS
        assert second.scale_up.plan is not None
        assert [one.reason for one in second.scale_up.plan.skipped] == [Skip.BACKED_OFF]
        third = world.run(after_s=HealthOptions().initial_node_group_backoff_duration_s)
        assert third.scale_up.result is ScaleUpResult.SUCCESSFUL
        assert [call[2] for call in world.calls] == [0, 1]

    def test_pods_do_not_hear_of_an_error(self) -> None:
        world = LoopWorld(a_spec("web"))
        world.static.fail_next("web", OutOfCapacity("no m5 left"))
        world.submit(waiting("web"))
        world.run()
        assert world.reasons("Pod") == []

    def test_ends_the_scale_up_where_rules_say_so_and_keeps_what_was_done(self) -> None:
        old = Config(rules=msgspec.structs.replace(Rules(), next_group_after_failed_increase=False))
        world = LoopWorld(a_spec("a", cpu="4"), a_spec("b", cpu="8"), a_spec("c", cpu="16"), config=old)
        world.static.fail_next("b", ProviderError("broken"))
        world.submit(waiting("s", cpu="3500m"), waiting("m", cpu="7500m"), waiting("l", cpu="15500m"))
        report = world.run()
        assert report.scale_up.plan is not None
        assert [one.group for one in report.scale_up.plan.increases] == ["a", "b", "c"]
        assert [(one.group, one.after) for one in report.increases] == [("a", 1), ("b", 0)]
        assert report.scale_up.result is ScaleUpResult.ERROR
        assert set(world.remembered.registry.scale_ups) == {"a"}

    def test_a_time_out_that_took_effect_is_a_success(self) -> None:
        world = LoopWorld(a_spec("web"))
        world.static.fail_next("web", Transient("timed out"), takes_effect=True)
        world.submit(waiting("web"))
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.SUCCESSFUL
        assert world.remembered.registry.scale_ups["web"].increase == 1
        assert world.remembered.registry.backoffs == {}
        assert world.reasons("Pod") == ["TriggeredScaleUp"]

    def test_a_time_out_that_did_not_is_a_failure(self) -> None:
        world = LoopWorld(a_spec("web"))
        world.static.fail_next("web", Transient("timed out"))
        world.submit(waiting("web"))
        assert world.run().scale_up.result is ScaleUpResult.ERROR
        assert set(world.remembered.registry.backoffs) == {"web"}


def test_machines_that_cannot_be_created_are_deleted_and_another_group_helps() -> None:
    world = LoopWorld(a_spec("cheap", cpu="4", boot_s=60), a_spec("other", cpu="6", boot_s=60))
    world.static.fail_next("cheap", InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "no more"))
    world.submit(waiting("web"))
    world.run()
    report = world.run(after_s=15)
    assert world.calls == [("increase", "cheap", 1), ("delete", "cheap", -1), ("increase", "other", 1)]
    assert world.messages("ScaleUpFailed") == [
        "Failed adding 1 nodes to group cheap due to OutOfResource.STOCKOUT; source errors: no more"
    ]
    assert report.registry is not None
    assert report.registry.groups["cheap"].backoff is not None


def test_a_scale_up_that_never_comes_is_reverted() -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(waiting("web"))
    world.run()
    report = world.run(after_s=PROVISION_S + 1)
    assert [(one.group, one.before, one.after) for one in report.repairs.corrections][:1] == [("web", 1, 0)]
    assert world.reasons("ConfigMap").count("ScaleUpTimedOut") == 1


class TestMinimumSizes:
    ASKED = Config(scale_up=ScaleUp(enforce_node_group_min_size=True))

    def test_are_not_enforced_by_default(self) -> None:
        world = LoopWorld(a_spec("web", min_size=2))
        world.run()
        assert world.calls == []

    def test_are_enforced_where_asked_for(self) -> None:
        world = LoopWorld(a_spec("web", min_size=2), config=self.ASKED)
        report = world.run()
        assert world.calls == [("increase", "web", 2)]
        assert report.scale_up.result is ScaleUpResult.SUCCESSFUL

    def test_count_what_the_scale_up_has_bought(self) -> None:
        world = LoopWorld(a_spec("web", min_size=3), config=self.ASKED)
        world.submit(*replicas(waiting("web"), 2))
        world.run()
        assert world.calls == [("increase", "web", 2), ("increase", "web", 1)]

    @pytest.mark.parametrize(
        ("rules", "end"),
        [
            pytest.param(Rules(), PassEnd.COMPLETE, id="which the status shows"),
            pytest.param(
                Rules(return_min_size_error=True), PassEnd.FAILED, id="which fails the pass where rules say so"
            ),
        ],
    )
    def test_may_fail(self, rules: Rules, end: PassEnd) -> None:
        config = msgspec.structs.replace(self.ASKED, rules=rules)
        world = LoopWorld(a_spec("base", min_size=1), a_spec("other", min_size=1), config=config)
        world.static.fail_next("base", ProviderError("broken"))
        report = world.run()
        assert (report.end, report.scale_up.result, report.scale_up.error) == (end, ScaleUpResult.ERROR, "broken")
        assert world.calls == [("increase", "base", 0), ("increase", "other", 1)]

    def test_do_not_hide_an_earlier_error(self) -> None:
        world = LoopWorld(a_spec("web", min_size=0), a_spec("base", cpu="1", min_size=1), config=self.ASKED)
        world.static.fail_next("web", ProviderError("broken"))
        world.submit(waiting("web"))
        report = world.run()
        assert world.calls == [("increase", "web", 0), ("increase", "base", 1)]
        assert (report.scale_up.result, report.scale_up.error) == (ScaleUpResult.ERROR, "broken")


class TestHeldBack:
    def test_by_the_largest_number_of_nodes(self) -> None:
        config = Config(limits=ResourceLimits(max_nodes_total=1))
        world = LoopWorld(a_spec("web"), config=config, nodes=[(a_node("n1", cpu="1"), "web")])
        world.submit(waiting("web"))
        assert world.run().scale_up.result is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
        assert world.messages("MaxNodesTotalReached") == ["Max total nodes in cluster reached: 1"]
        assert world.calls == []

    def test_by_the_largest_number_of_nodes_as_1_31_says_it(self) -> None:
        config = Config(limits=ResourceLimits(max_nodes_total=1), rules=rules_of_1_31())
        world = LoopWorld(a_spec("web"), config=config, nodes=[(a_node("n1", cpu="1"), "web")])
        world.submit(waiting("web"))
        assert world.run().scale_up.result is ScaleUpResult.NO_OPTIONS
        assert world.events == []

    def test_while_all_pods_are_new(self) -> None:
        world = LoopWorld(a_spec("web"))
        world.submit(waiting("web", created=NOW))
        assert world.run(after_s=1).scale_up.result is ScaleUpResult.IN_COOLDOWN
        assert world.calls == []
        assert world.run(after_s=1).scale_up.result is ScaleUpResult.SUCCESSFUL

    def test_not_when_one_pod_is_older(self) -> None:
        world = LoopWorld(a_spec("web"))
        world.submit(waiting("new", created=NOW), waiting("old"))
        assert world.run(after_s=1).scale_up.result is ScaleUpResult.SUCCESSFUL

    def test_for_pods_younger_than_the_delay(self) -> None:
        config = Config(pods=Pods(new_pod_scale_up_delay_s=60))
        world = LoopWorld(a_spec("web"), config=config)
        world.submit(waiting("young", created=NOW), waiting("old"))
        report = world.run(after_s=60)
        assert report.pods.waiting == {"default/young": Waiting.TOO_YOUNG}
        assert [pod.name for pod in report.pods.unschedulable] == ["young", "old"]
        assert world.calls == [("increase", "web", 1)]
        world.run(after_s=1)
        assert world.calls == [("increase", "web", 1), ("increase", "web", 1)]


class TestPodsNobodyCanHelp:
    def test_hear_how_many_groups_had_which_reason(self) -> None:
        world = LoopWorld(a_spec("small", cpu="2"), a_spec("tiny", cpu="1"), a_spec("full", cpu="64", max_size=0))
        world.submit(waiting("huge", cpu="32"))
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.NO_OPTIONS
        assert world.messages("NotTriggerScaleUp") == [
            "pod didn't trigger scale-up: 2 Insufficient cpu, 1 max node group size reached"
        ]
        assert world.events[0].kind is EventType.NORMAL

    def test_hear_nothing_while_others_are_helped(self) -> None:
        world = LoopWorld(a_spec("small"))
        world.submit(waiting("huge", cpu="32"), waiting("web"))
        world.run()
        assert world.reasons("Pod") == ["TriggeredScaleUp"]


def test_status_events_go_with_the_status_config_map() -> None:
    quiet = msgspec.structs.replace(Config().observe, write_status_configmap=False)
    world = LoopWorld(a_spec("web"), config=Config(observe=quiet))
    world.submit(waiting("web"))
    world.run()
    assert {one.about.kind for one in world.events} == {"Pod"}


@pytest.mark.parametrize(
    ("mode", "grown"),
    [
        pytest.param(GroupsPerPass.ALL, ["a", "b"], id="every group that is needed grows at once"),
        pytest.param(GroupsPerPass.ONE, ["a"], id="one group grows in a pass"),
    ],
)
def test_groups_per_pass(mode: GroupsPerPass, grown: list[str]) -> None:
    world = LoopWorld(a_spec("a", cpu="4"), a_spec("b", cpu="8"), config=Config(scale_up=ScaleUp(groups_per_pass=mode)))
    world.submit(waiting("small", cpu="3500m"), waiting("large", cpu="7500m"))
    assert [one.group for one in world.run().increases] == grown


def test_a_dry_run_changes_nothing() -> None:
    dry = msgspec.structs.replace(Config().loop, dry_run=True)
    world = LoopWorld(a_spec("web"), config=Config(loop=dry))
    world.submit(waiting("web"))
    report = world.run()
    assert world.calls == []
    assert [(one.group, one.before, one.wanted, one.after) for one in report.increases] == [("web", 0, 1, 0)]


def test_the_report_shows_groups_as_they_are_when_the_pass_ends() -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(waiting("web"))
    report = world.run()
    assert report.registry is not None
    state = report.registry.groups["web"]
    assert (state.acceptable.target, state.scaling_up, state.upcoming) == (1, True, 1)


def test_warnings_of_expanders_become_events() -> None:
    world = LoopWorld(a_spec("web"))
    about = Subject(kind="ConfigMap", name=CONFIG_MAP, namespace="kube-system")
    occurrence = ExpanderWarning(about, PriorityWarning.INVALID, "is not YAML")
    PassEventWriter(Config(), world).expanders(ScaleUpPlan(result=ScaleUpResult.SUCCESSFUL, occurrences=(occurrence,)))
    assert world.events == [Told(about, EventType.WARNING, "PriorityConfigMapInvalid", "is not YAML")]
