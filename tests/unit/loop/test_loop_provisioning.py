"""ProvisioningRequests through whole passes: served in turn, their capacity held, nothing bought twice."""

from typing import Any

import msgspec
import pytest

from autoscaler.config.load import from_options
from autoscaler.errors import AutoscalerError, Conflict, Gone, LeadershipLost, RetryLater
from autoscaler.kube.paths import ObjectRef
from autoscaler.objects.capacity import CONSUMES, ProvisioningRequest
from autoscaler.reasons import ScaleUpResult, UnremovableReason, Waiting
from autoscaler.sandbox.capacity_objects import put_objects
from cloudprovider.interface import ErrorClass, GroupSettings, InstanceError
from cloudprovider.static.spec import CreationFault, When
from tests.builders import a_node, a_pod
from tests.unit.capacity import ATOMIC, a_condition, a_request, a_template
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

OPTIONS = {"enable-provisioning-requests": True}


def a_world(*requests: ProvisioningRequest, nodes: int = 1, groups: Any = None, **options: Any) -> LoopWorld:
    """Return a world with a group of 4-CPU machines, some running, and requests for pods of 3 CPUs."""
    config = from_options({**OPTIONS, **options})
    standing = [(a_node(f"n{number}", created=NOW - 9000), "web") for number in range(nodes)]
    specs = groups if groups is not None else [a_spec(target=nodes)]
    world = LoopWorld(*specs, config=config, nodes=standing)
    put_objects(world.writes, a_template(), *requests)
    return world


def fresh(name: str = "job", count: int = 2, **more: Any) -> ProvisioningRequest:
    return a_request(name, count, **{"created": NOW - 60, **more})


def conditions(world: LoopWorld, name: str = "job") -> dict[str, tuple[str, str]]:
    """Return status and reason of each condition that the API server has."""
    held = world.writes.objects[ObjectRef("autoscaling.x-k8s.io/v1", "ProvisioningRequest", name, "default")]
    return {one["type"]: (one["status"], one["reason"]) for one in held.get("status", {}).get("conditions", [])}


ACCEPTED = ("True", "Accepted")
FOUND = ("True", "CapacityIsFound")
BOUGHT = ("True", "CapacityIsProvisioned")
NOT_FOUND = ("False", "CapacityIsNotFound")


class TestCheckCapacity:
    def test_finds_room_and_buys_nothing(self) -> None:
        world = a_world(fresh(count=2), nodes=2)
        report = world.run()
        assert conditions(world) == {"Accepted": ACCEPTED, "Provisioned": FOUND}
        assert (report.scale_up.result, world.calls) == (ScaleUpResult.SUCCESSFUL, [])
        assert report.acted

    def test_finds_none_and_buys_nothing(self) -> None:
        world = a_world(fresh(count=3), nodes=2)
        report = world.run()
        assert conditions(world) == {"Accepted": ACCEPTED, "Provisioned": NOT_FOUND}
        assert (report.scale_up.result, world.calls) == (ScaleUpResult.NO_OPTIONS, [])

    def test_is_tried_again_after_its_wait(self) -> None:
        world = a_world(fresh(count=2), nodes=1)
        world.run()
        world.cluster.put_node(a_node("more", created=NOW - 9000))
        assert world.run(after_s=60).requests_served == 0
        assert world.run(after_s=2).requests_served == 1
        assert conditions(world)["Provisioned"] == FOUND

    def test_counts_nodes_that_are_on_their_way(self) -> None:
        world = a_world(fresh(count=1), nodes=0)
        world.submit(waiting("web-0", cpu="1"))
        world.run(), world.run(after_s=15)
        assert world.calls == [("increase", "web", 1)]
        assert conditions(world)["Provisioned"] == NOT_FOUND  # it had the first turn
        world.run(after_s=60)
        assert conditions(world)["Provisioned"] == FOUND

    def test_in_batches_looks_for_several_in_one_pass(self) -> None:
        requests = [fresh(f"job-{number}", 1) for number in range(3)]
        world = a_world(*requests, nodes=2, **{"check-capacity-batch-processing": True})
        report = world.run()
        assert report.requests_served == 3
        assert [conditions(world, f"job-{n}")["Provisioned"] for n in range(3)] == [FOUND, FOUND, NOT_FOUND]


class TestAtomicScaleUp:
    def test_buys_what_is_missing_in_one_group(self) -> None:
        world = a_world(fresh(count=3, kind=ATOMIC), nodes=1)
        report = world.run()
        assert (report.scale_up.result, world.calls) == (ScaleUpResult.SUCCESSFUL, [("increase", "web", 2)])
        assert conditions(world) == {"Accepted": ACCEPTED, "Provisioned": BOUGHT}

    def test_buys_nothing_where_all_fits(self) -> None:
        world = a_world(fresh(count=1, kind=ATOMIC), nodes=1)
        report = world.run()
        assert (report.scale_up.result, world.calls) == (ScaleUpResult.NOT_NEEDED, [])
        assert conditions(world)["Provisioned"] == FOUND

    @pytest.mark.parametrize(
        ("limit", "options"),
        [
            ("the group's maximum", {}),
            ("max-nodes-total", {"max-nodes-total": 4}),
            ("cores-total", {"cores-total": "0:16"}),
            ("max-nodes-per-scaleup", {"max-nodes-per-scaleup": 2}),
        ],
    )
    def test_buys_nothing_where_not_all_can_be_had(self, limit: str, options: dict[str, Any]) -> None:
        most = 4 if not options else 10
        world = a_world(fresh(count=5, kind=ATOMIC), nodes=1, groups=[a_spec(target=1, max_size=most)], **options)
        world.run()
        assert world.calls == [], limit
        assert conditions(world)["Provisioned"] == NOT_FOUND

    def test_groups_do_not_share_a_request_unless_they_are_alike(self) -> None:
        groups = [a_spec("a", max_size=2), a_spec("b", max_size=2)]
        apart = a_world(fresh(count=4, kind=ATOMIC), nodes=0, groups=groups)
        apart.run()
        assert apart.calls == []
        together = a_world(fresh(count=4, kind=ATOMIC), nodes=0, groups=groups, **{"balance-similar-node-groups": True})
        together.run()
        assert sorted(together.calls) == [("increase", "a", 2), ("increase", "b", 2)]

    def test_of_a_group_that_goes_whole_takes_no_more_than_it_has(self) -> None:
        whole = a_spec(max_size=3, settings=GroupSettings(zero_or_max_node_scaling=True))
        world = a_world(fresh(count=3, kind=ATOMIC), fresh("more", 4, kind=ATOMIC), nodes=0, groups=[whole])
        world.run(), world.run(after_s=15)
        assert world.calls == [("increase", "web", 3)]
        assert (conditions(world)["Provisioned"], conditions(world, "more")["Provisioned"]) == (BOUGHT, NOT_FOUND)

    def test_that_the_cloud_can_deliver_in_part_only_is_no_purchase(self) -> None:
        short = InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "one of them is not to be had")
        faults = [CreationFault(error=short, when=When(every=2))]
        world = a_world(fresh(count=2, kind=ATOMIC), nodes=0, groups=[a_spec(creation_faults=faults)])
        report = world.run()
        assert report.scale_up.result is ScaleUpResult.ERROR
        assert conditions(world)["Provisioned"] == NOT_FOUND
        assert world.static.groups()[0].target_size() == 0

    def test_waits_for_no_maturity_of_pods(self) -> None:
        world = a_world(fresh(count=1, kind=ATOMIC, created=NOW), nodes=0)
        world.submit(waiting("young", created=NOW))
        world.run()
        assert conditions(world)["Provisioned"] == BOUGHT


class TestTurns:
    def test_a_request_and_pods_take_turns(self) -> None:
        world = a_world(fresh("a", 1, kind=ATOMIC), fresh("b", 1, kind=ATOMIC), nodes=0)
        world.submit(waiting("web-0"), waiting("web-1"))
        served = []
        for _ in range(3):
            report = world.run(after_s=15)
            served.append(report.requests_served)
        assert served == [1, 0, 1]
        assert world.calls == [("increase", "web", 1)] * 3

    def test_other_classes_and_instances_are_left_untouched(self) -> None:
        world = a_world(
            fresh("other", 1, kind="queue.example.com"), fresh("theirs", 1, parameters={"processorInstance": "b"})
        )
        world.run()
        assert (conditions(world, "other"), conditions(world, "theirs")) == ({}, {})

    def test_without_the_flag_nothing_happens(self) -> None:
        world = a_world(fresh(), **{"enable-provisioning-requests": False})
        world.run()
        assert conditions(world) == {}

    def test_a_request_without_its_template_fails_and_the_next_is_served(self) -> None:
        world = a_world(fresh("broken", 1, template="gone"), fresh("sound", 1))
        world.run()
        assert conditions(world, "broken") == {"Failed": ("True", "FailedToCreatePods")}
        assert conditions(world, "sound")["Provisioned"] == FOUND


class TestBooking:
    def test_holds_the_nodes_and_lets_them_go_when_it_ends(self) -> None:
        options = {
            "scale-down-unneeded-time": "1h",
            "scale-down-utilization-threshold": 0.9,
            "unremovable-node-recheck-timeout": "1s",
        }
        world = a_world(fresh(count=1), nodes=2, **options)
        report = world.run()
        assert [(name, kept.reason) for name, kept in report.scale_down.unremovable.items()] == [
            ("n0", UnremovableReason.BLOCKED_BY_POD)
        ]
        assert [one.node.name for one in report.scale_down.unneeded] == ["n1"]
        assert [one.node.name for one in world.run(after_s=400).scale_down.unneeded] == ["n1"]
        world.run(after_s=202)
        assert conditions(world)["BookingExpired"] == ("True", "CapacityReservationTimeExpired")
        assert {one.node.name for one in world.run(after_s=15).scale_down.unneeded} == {"n0", "n1"}

    def test_keeps_the_room_from_other_requests(self) -> None:
        world = a_world(fresh("first", 1), fresh("second", 1), nodes=1)
        world.run(), world.run(after_s=1)
        assert conditions(world, "first")["Provisioned"] == FOUND
        assert conditions(world, "second")["Provisioned"] == NOT_FOUND

    def test_ends_when_all_its_pods_are_scheduled(self) -> None:
        world = a_world(fresh(count=2), nodes=2)
        world.run()
        for number in range(2):
            assert "BookingExpired" not in conditions(world)
            world.submit(a_pod(f"p{number}", cpu="3", node=f"n{number}", annotations={CONSUMES: "job"}))
            world.run(after_s=15)
        assert conditions(world)["BookingExpired"] == ("True", "CapacityBookingConsumed")

    def test_pods_that_use_it_buy_nothing_and_say_so(self) -> None:
        world = a_world(fresh("full", 9), nodes=0)
        for number in range(60):
            world.submit(
                a_pod(f"p{number}", cpu="3", created=NOW - 600, unschedulable=True, annotations={CONSUMES: "full"})
            )
        report = world.run()
        assert world.calls == []
        assert set(report.pods.waiting.values()) == {Waiting.CONSUMES_REQUEST}
        told = [event for event in world.events if event.about.kind == "Pod"]
        assert (len(told), told[0].reason) == (50, "")
        assert "consuming ProvisioningRequest default/full" in told[0].message


class TestEnds:
    def test_an_old_request_is_deleted(self) -> None:
        over = a_condition("BookingExpired", since=NOW - 8 * 86400)
        world = a_world(fresh(conditions=[a_condition("Provisioned"), over]))
        world.run()
        assert all(ref.kind != "ProvisioningRequest" for ref in world.writes.objects)

    def test_in_trouble_too_requests_expire(self) -> None:
        world = a_world(fresh(created=1.0))
        for number in range(9):
            world.cluster.put_node(a_node(f"bad{number}", ready=False, created=NOW - 9000))
        world.run()
        assert conditions(world)["Failed"] == ("True", "Expired")


class TestFaults:
    def test_a_request_whose_acceptance_cannot_be_written_waits(self) -> None:
        world = a_world(fresh(count=2, kind=ATOMIC), nodes=0)
        world.writes.failures = [RetryLater("the API server is away")]
        assert world.run().requests_served == 0
        assert world.calls == []
        world.run(after_s=15)
        assert conditions(world)["Provisioned"] == BOUGHT

    @pytest.mark.parametrize("error", [RetryLater("away"), Conflict("changed"), LeadershipLost("late")])
    @pytest.mark.parametrize("took_effect", [False, True])
    def test_a_status_that_could_not_be_written_is_written_later(
        self, error: AutoscalerError, took_effect: bool
    ) -> None:
        world = a_world(fresh(count=2, kind=ATOMIC), nodes=0)
        world.writes.failures = [None, error]
        world.writes.lost_answers = took_effect
        world.run()
        assert ("Provisioned" in conditions(world)) is took_effect
        report = world.run(after_s=15)
        assert report.requests_served == 0
        assert world.calls == [("increase", "web", 2)]
        assert conditions(world)["Provisioned"] == BOUGHT

    def test_a_restart_between_the_purchase_and_its_status_buys_nothing_twice(self) -> None:
        world = a_world(fresh(count=2, kind=ATOMIC), nodes=0)
        world.writes.failures = [None, RetryLater("killed")]
        world.run()
        assert conditions(world) == {"Accepted": ACCEPTED}
        world.restart()
        world.run(after_s=5), world.run(after_s=5)
        assert world.calls == [("increase", "web", 2)]
        assert conditions(world)["Provisioned"] == FOUND

    def test_a_request_that_is_deleted_before_it_is_accepted_buys_nothing(self) -> None:
        world = a_world(fresh(count=2, kind=ATOMIC), nodes=0)
        world.writes.failures = [Gone("deleted")]
        report = world.run()
        assert (world.calls, report.requests_served) == ([], 0)

    def test_a_request_that_is_deleted_while_it_is_served_ends_there(self) -> None:
        world = a_world(fresh(count=2, kind=ATOMIC), nodes=0)
        world.writes.failures = [None, Gone("deleted")]
        world.run()
        assert world.remembered.requests.known == {}
        world.writes.objects.clear()
        world.run(after_s=15)
        assert world.calls == [("increase", "web", 2)]

    def test_a_dry_run_writes_nothing(self) -> None:
        world = a_world(fresh(count=2, kind=ATOMIC), nodes=0, **{"dry-run": True})
        report = world.run()
        assert (world.calls, conditions(world)) == ([], {})
        assert [condition.type for change in report.status_changes for condition in change.conditions] == [
            "Accepted",
            "Provisioned",
        ]


def test_as_version_1_31_a_request_waits_with_the_pods() -> None:
    young = msgspec.structs.replace(fresh(count=1, kind=ATOMIC), metadata=fresh(created=NOW).metadata)
    world = a_world(young, nodes=0, compatibility="1.31")
    assert world.run().scale_up.result is ScaleUpResult.IN_COOLDOWN
    assert world.run(after_s=10).scale_up.result is ScaleUpResult.SUCCESSFUL
