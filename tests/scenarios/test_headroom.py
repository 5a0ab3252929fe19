"""Headroom beside the node loop, hour by hour in virtual time. Names of acceptance tests begin with their id."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autoscaler.objects.meta import rfc3339
from tests.headroom_world import FRIDAY, HeadroomWorld, a_pool, always, copy_of

BASE = {"name": "base", "periods": ["* * * * *"], "timezone": "UTC", "idleCount": 0}
OFFICE = {"name": "office", "periods": ["* 8-17 * * mon-fri"], "timezone": "UTC", "idleCount": 5, "idleTime": "30m"}
QUARTER_TO_SIX = FRIDAY + 7 * 3600 + 50 * 60
"""17:50."""
SIX = QUARTER_TO_SIX + 600
MINUTE = 60.0

Make = Callable[..., HeadroomWorld]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[HeadroomWorld] = []

    def build(*args: Any, **kwargs: Any) -> HeadroomWorld:
        made.append(HeadroomWorld(*args, **kwargs))
        return made[-1]

    yield build
    for world in made:
        world.close()


def office(**fields: Any) -> dict[str, Any]:
    return a_pool(policies=[BASE, OFFICE], **fields)


# Time and leaders.


def test_b11_capacity_of_the_office_goes_half_an_hour_after_it_closes(make: Make) -> None:
    world = make(office(), wall=QUARTER_TO_SIX, scan_s=60.0)
    world.run_for(1)
    assert world.replicas == 5
    world.until(SIX + 29 * MINUTE + 49)
    assert world.replicas == 5
    world.until(SIX + 29 * MINUTE + 51)
    assert world.replicas == 0


def test_b12_wanting_fewer_for_a_while_writes_nothing_but_heartbeats(make: Make) -> None:
    pool = a_pool(policies=[always(0, scaleFactor=1)], active={"selector": "app=web"})
    world = make(pool, cpu="16", machines=1)
    world.work("web", 5, cpu="100m")
    world.run_for(30)
    assert world.replicas == 5
    for replicas in (3, 5):
        world.client.asked.clear()
        world.storage.scale("deployments.apps", "web", replicas, namespace="ci")
        world.run_for(120)
        assert world.client.written("deployments") == ["update"] * 2
        assert world.replicas == 5


def test_b13_a_new_leader_continues_the_cool_down(make: Make) -> None:
    world = make(office(), wall=QUARTER_TO_SIX, scan_s=60.0)
    world.until(SIX + 10 * MINUTE)
    world.lease.held = False
    world.until(SIX + 11 * MINUTE)
    world.lease.held = True
    world.lead()
    world.until(SIX + 29 * MINUTE + 39)
    assert world.replicas == 5
    world.until(SIX + 30 * MINUTE + 1)
    assert world.replicas == 0


# One pool.


def test_b14_nothing_is_made_for_nothing(make: Make) -> None:
    world = make(a_pool(policies=[always(0)]))
    world.run_for(30)
    assert world.deployment() is None
    assert make(a_pool(policies=[always(3)])).deployment() is None
    three = make(a_pool(policies=[always(3)]))
    three.run_for(5)
    assert three.replicas == 3


def test_what_is_made_gives_way_and_is_locked_down(make: Make) -> None:
    world = make(
        a_pool(policies=[always(1)], podLabels={"team": "x"}, nodeSelector={"pool": "web"}), clusterName="prod"
    )
    world.run_for(5)
    deployment = world.deployment()
    assert deployment is not None
    labels = {
        "app.kubernetes.io/managed-by": "cluster-autoscaler",
        "headroom-pool": "ci",
        "headroom-cluster": "prod",
    }
    spec, pod = deployment["spec"], deployment["spec"]["template"]["spec"]
    assert deployment["metadata"]["labels"] == labels
    assert spec["selector"] == {"matchLabels": labels}
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": "100%"}
    assert spec["template"]["metadata"]["labels"] == {**labels, "team": "x"}
    assert (pod["terminationGracePeriodSeconds"], pod["nodeSelector"]) == (0, {"pool": "web"})
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert pod["securityContext"]["runAsNonRoot"] is True
    (pause,) = world.pods("headroom")
    assert (pause["spec"]["priority"], pause["spec"]["preemptionPolicy"]) == (-10, "Never")
    classes = {
        priority_class["metadata"]["name"]: priority_class for priority_class in world.storage.list("priorityclasses")
    }
    assert (classes["cluster-headroom"]["value"], classes["cluster-headroom"]["globalDefault"]) == (-10, False)


def test_b15_what_others_change_is_put_back_and_counted(make: Make) -> None:
    world = make(a_pool(policies=[always(5)]))
    world.run_for(30)
    world.storage.scale("deployments.apps", "headroom-ci", 9, namespace="ci")
    world.run_for(10)
    assert world.replicas == 5
    world.storage.delete("deployments.apps", "headroom-ci", namespace="ci")
    world.run_for(10.5)
    assert world.replicas == 5
    changed = world.deployment()
    assert changed is not None
    changed = copy_of(changed)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "something/else"
    world.storage.update("deployments.apps", changed)
    world.run_for(10.5)
    restored = world.deployment()
    assert restored is not None
    assert restored["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.k8s.io/pause:3.10"
    series = world.series()
    assert {name: value for name, value in series.items() if name.startswith("headroom_drift")} == {
        f'headroom_drift_corrected_total{{pool="ci",field="{field}"}}': 1
        for field in ("replicas", "template", "deleted")
    }
    assert series['headroom_scale_operations_total{pool="ci",direction="up"}'] == 1


def test_a_fight_over_the_deployment_is_told_once(make: Make) -> None:
    world = make(a_pool(policies=[always(2)]))
    world.run_for(5)
    for _ in range(8):
        world.storage.scale("deployments.apps", "headroom-ci", 4, namespace="ci")
        world.run_for(10)
    assert world.events.count("HeadroomContended") == 1


def test_a_changed_configuration_is_no_drift(make: Make) -> None:
    world = make(a_pool(policies=[always(2)]))
    world.run_for(5)
    world.fresh_config = world.parsed(a_pool(policies=[always(2)], image="mirror/pause:3.10"))
    world.run_for(11)
    deployment = world.deployment()
    assert deployment is not None
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "mirror/pause:3.10"
    assert not any(name.startswith("headroom_drift") for name in world.series())


def test_a_paused_deployment_is_left_alone_and_told(make: Make) -> None:
    world = make(a_pool(policies=[always(2)]))
    world.run_for(5)
    world.storage.patch("deployments.apps", "headroom-ci", {"spec": {"paused": True}}, namespace="ci")
    world.storage.scale("deployments.apps", "headroom-ci", 4, namespace="ci")
    world.run_for(70)
    assert world.replicas == 4
    assert world.keeper.status.pools[0].troubles == ("paused",)


def test_b16_a_deployment_of_somebody_else_is_not_touched(make: Make) -> None:
    world = make(a_pool(policies=[always(3)]), a_pool("other", policies=[always(1)]))
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "headroom-ci", "namespace": "ci"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }
    world.apply(theirs)
    before = world.deployment()
    world.run_for(70)
    after = world.deployment()
    assert before is not None
    assert after is not None
    assert before["spec"] == after["spec"]
    assert not any("headroom" in key for key in after["metadata"].get("annotations", {}))
    assert world.series()['headroom_reconcile_errors_total{pool="ci",reason="name_conflict"}'] > 0
    assert [pool.troubles for pool in world.keeper.status.pools] == [("name_conflict",), ()]
    assert world.deployment("headroom-other") is not None


@pytest.mark.parametrize(
    ("conflicts", "replicas"), [pytest.param(1, 5, id="once"), pytest.param(4, 2, id="until the next look")]
)
def test_b17_a_conflict_is_settled_in_the_same_look(make: Make, conflicts: int, replicas: int) -> None:
    world = make(a_pool(policies=[always(2)]))
    world.run_for(30)
    world.fresh_config = world.parsed(a_pool(policies=[always(5)]))
    world.client.fail("update", "deployments", 409, times=conflicts)
    world.companions.tick(world.keeper, world.clock.now())
    assert world.replicas == replicas
    world.run_for(10)
    assert world.replicas == 5
    errors = world.series().get('headroom_reconcile_errors_total{pool="ci",reason="apply_state"}', 0)
    assert errors == (conflicts == 4)


@pytest.mark.parametrize(
    ("verb", "code", "reason"),
    [
        *(("get", code, "get_deployment") for code in (403, 429, 500)),
        *(("update", code, "apply_state") for code in (403, 404, 410, 422, 429, 500)),
    ],
)
def test_a_failing_server_loses_nothing(make: Make, verb: str, code: int, reason: str) -> None:
    world = make(a_pool(policies=[always(2)]), a_pool("other", policies=[always(1)]))
    world.run_for(30)
    world.fresh_config = world.parsed(a_pool(policies=[always(5)]), a_pool("other", policies=[always(1)]))
    world.client.fail(verb, "deployments", code)
    world.companions.tick(world.keeper, world.clock.now())
    assert world.replicas == 2
    assert [pool.troubles for pool in world.keeper.status.pools] == [(reason,), ()]
    world.run_for(10.5)
    assert world.replicas == 5
    assert [pool.troubles for pool in world.keeper.status.pools] == [(), ()]


def test_a_namespace_that_is_missing_degrades_its_pool_until_it_is_there(make: Make) -> None:
    world = make(a_pool(policies=[always(1)], namespace="late"), a_pool("other", policies=[always(1)]))
    world.run_for(30)
    assert [pool.troubles for pool in world.keeper.status.pools] == [("apply_state",), ()]
    world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}})
    world.run_for(10.5)
    assert world.deployment() is not None


# The PriorityClass.


def a_class(value: int) -> dict[str, Any]:
    metadata = {"name": "cluster-headroom"}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


@pytest.mark.parametrize(
    ("value", "troubles", "made"),
    [
        pytest.param(-1, ("priority_class_mismatch",), True, id="another value that would do"),
        pytest.param(-11, ("priority_unsuitable",), False, id="expendable"),
        pytest.param(5, ("priority_unsuitable",), False, id="above ordinary pods"),
    ],
)
def test_a_class_with_another_value_is_not_replaced(
    make: Make, value: int, troubles: tuple[str, ...], made: bool
) -> None:
    world = make(a_pool(policies=[always(1)]))
    world.apply(a_class(value))
    world.run_for(5)
    assert world.keeper.status.pools[0].troubles == troubles
    assert (world.deployment() is not None) is made
    assert "priorityclasses" not in {kind for verb, kind in world.client.asked if verb not in ("get", "list")}


def test_a_class_that_may_not_be_made_or_seen_is_told(make: Make) -> None:
    unseen = make(a_pool(policies=[always(1)]))
    unseen.apply(a_class(-10))
    unseen.client.fail("get", "priorityclasses", 403, times=9)
    unseen.run_for(5)
    assert unseen.keeper.status.pools[0].troubles == ("priority_class",)
    assert unseen.replicas == 1
    unmade = make(a_pool(policies=[always(1)]))
    unmade.client.fail("create", "priorityclasses", 403, times=9)
    unmade.run_for(5)
    assert unmade.keeper.status.pools[0].troubles == ("priority_class",)
    assert unmade.deployment() is None


# With the node loop.


def test_b19_pause_pods_without_room_buy_a_node(make: Make) -> None:
    world = make(a_pool(policies=[always(2)]), machines=1)
    world.work("web", 4)
    world.run_for(15)
    world.run_for(180)
    assert world.bought == 1
    assert sum(world.on_nodes("headroom").values()) == 2


def b20(make: Make, **fields: Any) -> HeadroomWorld:
    """Return two nodes, each with 2 CPUs of work and two pause pods of 1 CPU."""
    world: HeadroomWorld = make(a_pool(policies=[always(4)]), machines=2, **fields)
    apart = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
                ]
            }
        }
    }
    world.work("web", 2, cpu="2", **apart)
    world.run_for(60)
    assert sorted(world.on_nodes("headroom").values()) == [2, 2]
    assert world.bought == 0
    return world


def test_b20_work_takes_the_room_at_once_and_one_node_is_bought_for_what_went(make: Make) -> None:
    world = b20(make)
    world.work("more", 1, cpu="2")
    world.run_for(12)
    assert list(world.on_nodes("more").values()) == [1]
    assert not set(world.on_nodes("more")) - {"web-0", "web-1"}
    world.run_for(240)
    assert world.bought == 1
    assert sum(world.on_nodes("headroom").values()) == 4
    assert world.series()['headroom_preempted_total{pool="ci"}'] == 2


def test_b21_at_the_maximum_work_runs_and_unneeded_nodes_still_go(make: Make) -> None:
    world = b20(make, max_size=2, flags=["--scale-down-unneeded-time=2m", "--scale-down-delay-after-add=0s"])
    world.work("more", 1, cpu="2")
    world.run_for(30)
    assert list(world.on_nodes("more").values()) == [1]
    assert sum(world.on_nodes("headroom").values()) == 2
    assert len(world.pods("headroom")) == 4
    assert world.report.pods.waiting == {} or "default/more" not in world.report.pods.waiting
    assert world.report.scale_down.result is not None
    assert world.bought == 0


def test_b22_nodes_that_held_only_headroom_go_in_bounded_time(make: Make) -> None:
    flags = ["--scale-down-delay-after-add=0s", "--node-delete-delay-after-taint=0s"]
    day = {"name": "day", "periods": ["* 10 * * *"], "idleCount": 4, "idleTime": "5m"}
    pool = a_pool(cpu="2", policies=[{**BASE, "idleTime": "0s"}, day])
    world = make(pool, machines=2, flags=flags, wall=FRIDAY + 55 * MINUTE)
    world.until(FRIDAY + 3600 - 0.25)
    assert sorted(world.on_nodes("headroom").values()) == [2, 2]
    last_wanted = world.look_at - 10 + world.clock.now().wall - world.clock.now().mono
    deleted_at: list[float] = []
    while len(deleted_at) < 2 and world.clock.now().wall < last_wanted + 1200:
        world.run_for(0.5)
        deletes = [call for call in world.cloud.calls if call.verb.value == "delete"]
        while len(deleted_at) < sum(len(call.nodes) for call in deletes):
            deleted_at.append(world.clock.now().wall - last_wanted)
    assert len(deleted_at) == 2
    assert all(900 <= seconds <= 946 for seconds in deleted_at), deleted_at


def test_b23_whole_nodes_are_emptied(make: Make) -> None:
    pool = a_pool(
        policies=[{"name": "on", "scaleFactor": 1, "idleTime": "30s"}], active={"selector": "app=web"}, cpu="2"
    )
    world = make(pool, machines=2, cpu="5", flags=["--scale-down-unneeded-time=1m", "--scale-down-delay-after-add=0s"])
    world.work("web", 4, cpu="100m")
    world.run_for(60)
    assert sorted(world.on_nodes("headroom").values()) == [2, 2]
    world.storage.scale("deployments.apps", "web", 2, namespace="ci")
    world.run_for(60)
    assert list(world.on_nodes("headroom").values()) == [2]
    world.run_for(300)
    assert len(world.nodes) == 1


def test_b24_pause_pods_do_not_make_a_node_needed(make: Make) -> None:
    flags = ["--scale-down-unneeded-time=2m", "--scale-down-delay-after-add=0s"]
    world = make(a_pool(policies=[always(1)], cpu="3600m"), machines=2, flags=flags)
    world.run_for(60)
    (held,) = world.on_nodes("headroom")
    empty = next(name for name in world.nodes if name != held)
    world.run_for(30)
    scale_down = world.report.scale_down
    assert scale_down.unneeded
    assert held not in scale_down.unremovable or scale_down.unremovable[held].reason.value != "NotUnderutilized"
    world.run_for(400)
    assert len(world.nodes) == 1
    assert sum(world.on_nodes("headroom").values()) == 1
    assert world.bought == 0
    assert empty


def test_counted_they_make_it_needed(make: Make) -> None:
    world = make(a_pool(policies=[always(1)], cpu="3600m"), machines=1, flags=["--count-headroom-in-utilization=true"])
    world.run_for(90)
    (held,) = world.on_nodes("headroom")
    assert world.report.scale_down.unremovable[held].reason.value == "NotUnderutilized"


# The end of a leader, orphans, reloads.


@pytest.mark.parametrize(("how", "replicas"), [("delete", None), ("keep", 3), ("scaleToZero", 0)])
def test_b25_on_shutdown_what_is_configured_is_done(make: Make, how: str, replicas: int | None) -> None:
    world = make(a_pool(policies=[always(3)]), onShutdown=how)
    world.run_for(30)
    world.client.asked.clear()
    world.companions.leave()
    assert world.replicas == replicas
    assert (world.client.asked == []) is (how == "keep")


def test_what_cannot_be_deleted_on_shutdown_ends_nothing(make: Make) -> None:
    world = make(a_pool(policies=[always(3)]), a_pool("other", policies=[always(1)]), onShutdown="delete")
    world.run_for(30)
    world.client.fail("delete", "deployments", 500)
    world.companions.leave()
    assert (world.replicas, world.deployment("headroom-other")) == (3, None)
    assert world.failed == []


def test_b26_without_the_lease_nothing_is_written(make: Make) -> None:
    world = make(a_pool(policies=[always(3)]), onShutdown="delete")
    world.run_for(30)
    world.fresh_config = world.parsed(a_pool(policies=[always(9)]))
    world.client.asked.clear()
    world.lease.held = False
    world.companions.tick(world.keeper, world.clock.now())
    world.run_for(60)
    assert world.client.written("deployments") == []
    assert world.failed == ["headroom"]
    assert world.replicas == 3


@pytest.mark.parametrize(
    ("heartbeat", "stays"),
    [
        pytest.param(61 * MINUTE, False, id="silent for too long"),
        pytest.param(59 * MINUTE, True, id="not yet"),
        pytest.param("yesterday", True, id="unreadable"),
    ],
)
def test_b27_orphans_go_when_they_have_been_silent(make: Make, heartbeat: float | str, stays: bool) -> None:
    old = make(a_pool("old", policies=[always(1)]))
    old.run_for(5)
    orphan = old.deployment("headroom-old")
    assert orphan is not None
    world = make(a_pool(policies=[always(1)]))
    text = heartbeat if isinstance(heartbeat, str) else rfc3339(world.clock.now().wall - heartbeat)
    orphan = copy_of(orphan)
    orphan["metadata"] = {
        "name": "headroom-old",
        "namespace": "ci",
        "labels": orphan["metadata"]["labels"],
        "annotations": {"cluster-autoscaler.kubernetes.io/headroom-heartbeat": text},
    }
    world.storage.create("deployments.apps", orphan)
    world.run_for(5)
    assert (world.deployment("headroom-old") is not None) is stays
    assert world.series()["headroom_orphans_deleted_total"] == (not stays)


def test_orphans_of_another_cluster_or_without_labels_are_nobodys_business(make: Make) -> None:
    world = make(a_pool(policies=[always(1)]), clusterName="mine")
    old = make(a_pool("old", policies=[always(1)]), clusterName="theirs")
    old.run_for(5)
    orphan = old.deployment("headroom-old")
    assert orphan is not None
    orphan = copy_of(orphan)
    orphan["metadata"] = {"name": "x", "namespace": "ci", "labels": orphan["metadata"]["labels"]}
    world.storage.create("deployments.apps", orphan)
    world.run_for(5)
    assert world.deployment("x") is not None


def test_a_new_configuration_holds_from_the_next_look_on(make: Make) -> None:
    world = make(a_pool(policies=[always(3)]))
    world.run_for(30)
    assert (world.replicas, world.keeper.status.pools[0].policy) == (3, "always")
    world.fresh_config = world.parsed(a_pool(policies=[always(4)]))
    world.run_for(20)
    assert world.replicas == 4


def test_a_pool_taken_out_of_the_configuration_loses_its_deployment_at_once(make: Make) -> None:
    world = make(a_pool(policies=[always(3)]), a_pool("other", policies=[always(1)]))
    world.run_for(30)
    world.fresh_config = world.parsed(a_pool("other", policies=[always(1)]))
    world.run_for(11)
    assert world.deployment() is None
    assert world.deployment("headroom-other") is not None
    assert not any('pool="ci"' in name for name in world.series() if name.startswith("headroom_pods"))


def test_a_fault_of_headroom_never_stops_the_node_loop(make: Make) -> None:
    world = make(a_pool(policies=[always(1)]))
    world.work("web", 1, cpu="3")
    world.client.fail("get", "deployments", 500, times=1000)
    world.client.fail("get", "priorityclasses", 500, times=1000)
    world.run_for(120)
    assert world.bought == 1
    assert sum(world.on_nodes("web").values()) == 1
