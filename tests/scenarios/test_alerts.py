"""Each alert on its own fault, and none on a day without faults: whole passes, real metrics, virtual time."""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.scaledown.notices import NOTICE, annotation_of
from autoscaler.simulator.world import World
from cloudprovider.interface import MachineVersion, NoticeKind
from cloudprovider.static.spec import Call, CallFault, CloudSpec, FaultKind, When
from tests.manifests import a_bare_pod
from tests.promql import alerts_of
from tests.promtool import disagreement
from tests.room import POOL, ROOM, a_stranger_knocks, post
from tests.scraping import Monitored
from tests.worlds import a_budget, a_cloud, a_deployment, a_group, a_job, nodes

RULES = Path(__file__).parents[2] / "manifests" / "prometheus" / "cluster-autoscaler.rules.yml"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = alerts_of(GROUPS)
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
STATIC = {"cloud-provider": "static"}

PAUSED_DRIFT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "cluster-autoscaler-pause", "namespace": "kube-system"},
    "data": {"drift": "{scope: drift, by: cluster-autoscaler, reason: a new node is not ready}"},
}
REPLICAS = (2, 2, 2, 2, 3, 5, 10, 20, 30, 40, 40, 44, 40, 38, 36, 40, 42, 38, 30, 20, 12, 8, 4, 2)
"""Web servers that a healthy day needs, hour by hour."""


def prometheus_objects(monitored: Monitored, folder: Path) -> str:
    """Return where Prometheus' own tool evaluates the alerts otherwise; nothing where it is not installed."""
    if shutil.which("promtool") is None:
        return ""
    return disagreement(GROUPS, monitored.database, monitored.watchman, folder)


def live_a_day(world: World) -> None:
    """A wave of web servers, jobs all the time, a new version and a change of leaders."""
    for hour, replicas in enumerate(REPLICAS):
        world.at(hour * HOUR_S + 1, partial(world.scale, "app", replicas))
    for number in range(int(DAY_S / 600)):
        job = a_job(f"job-{number}", pods=1 + number % 4, cpu="2", lasts="7m")
        world.at(number * 600 + 100, partial(world.apply, job))
        world.at(number * 600 + 10, partial(world.announce, "jobs", 1 + number % 4, 500.0))
        if number % 6 == 0:
            world.at(number * 600 + 50, partial(a_stranger_knocks, world, "jobs"))
    world.at(9.2 * HOUR_S, partial(world.restart, 20))
    world.at(15.1 * HOUR_S, partial(world.lose_leadership, 20))
    world.run_for(DAY_S)


def test_no_alert_fires_on_a_healthy_day(tmp_path: Path) -> None:
    groups = a_group(min_size=1, max_size=20, boot=(40.0, 120.0)), a_group("batch", cpu="16", max_size=5)
    cloud, app = a_cloud(*groups, machines={"web": 1}), a_deployment(replicas=2)
    with Monitored(ALERTS, STATIC, cloud, app, sections=ROOM) as monitored:
        live_a_day(monitored.world)
        assert len(monitored.world.calls) > 50, "nodes came and went"
        counted = companions_of(monitored)
        assert counted['headroom_scale_operations_total{pool="app",direction="down"}'] > 1
        assert counted['reservation_events_total{target="jobs",result="added",reason=""}'] > 100
        assert counted['pod_start_estimate_within_worst_total{result="yes"}'] > 20
        assert monitored.fired == set()
        assert prometheus_objects(monitored, tmp_path) == ""


def companions_of(monitored: Monitored) -> dict[str, float]:
    """Return what companions counted, by the text of each series without its prefix."""
    lines = monitored.world.metrics.scrape().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name.removeprefix("cluster_autoscaler_"): float(value) for name, value in pairs}


# Faults


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong, and which alerts are right about it."""

    fires: set[str]
    with_it: set[str] = set()
    """What fires besides, for it follows from the fault."""
    cloud: CloudSpec
    objects: tuple[JsonObject, ...] = (a_deployment(replicas=2),)
    options: Mapping[str, Any] = {}
    sections: Mapping[str, JsonObject] = {}
    timing: Timing = Timing(heartbeat_s=DAY_S)
    begins: Callable[[Monitored], object] = lambda monitored: None
    hours: float = 1.0


def one_machine(*faults: CallFault, **group: Any) -> CloudSpec:
    return a_cloud(a_group(min_size=1, call_faults=faults, **group), machines={"web": 1})


def with_an_old_machine() -> CloudSpec:
    group = msgspec.structs.replace(a_group(min_size=1), versions=(MachineVersion("v2"),))
    cloud = a_cloud(group, machines={"web": 1})
    return msgspec.structs.replace(cloud, machine_versions={"web-m0": MachineVersion("v1")})


def fails(call: Call, **when: Any) -> CallFault:
    return CallFault(call=call, when=When(**when))


def has_status(world: World, node: str, status: JsonObject) -> None:
    """Put it into the node's status, where it stays: kubelets have no other news in these worlds."""
    world.storage.patch("nodes", node, {"status": status}, patch_type=PatchType.STRATEGIC, subresource="status")


def most_nodes_go_silent(monitored: Monitored) -> None:
    world = monitored.world
    lost = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2025-06-15T15:08:00Z"}
    for name in nodes(world)[:6]:
        has_status(world, name, {"conditions": [lost]})


def kernels_hang(monitored: Monitored) -> None:
    world = monitored.world
    hangs = {"type": "KernelDeadlock", "status": "True", "lastTransitionTime": "2025-06-15T15:08:00Z"}
    for name in nodes(world)[:3]:
        has_status(world, name, {"conditions": [hangs]})


def a_machine_is_interrupted(world: World) -> None:
    """Announce that the first machine leaves, and let it leave two minutes later."""
    notice = annotation_of(NoticeKind.SPOT_INTERRUPTION, world.clock.now().wall + 120)
    world.storage.patch("nodes", "web-m0", {"metadata": {"annotations": {NOTICE: notice}}})
    world.at(120.0, lambda: world.cloud.remove_machine("static://web-m0"))


def nodes_come_small(monitored: Monitored) -> None:
    """Whatever the template says, a new node has two CPUs."""
    world = monitored.world
    for name in set(nodes(world)) - {"web-m0"}:
        has_status(world, name, {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}})
    world.at(1.0, lambda: nodes_come_small(monitored))


def evictions_fail(monitored: Monitored) -> None:
    api = monitored.world.api
    api.faults.add(Fault(verb="create", resource="pods", path_prefix="/api/v1/namespaces/default/pods/", code=500))
    monitored.world.at(15 * MINUTE_S, lambda: monitored.world.scale("app", 5))


def grows_step_by_step(monitored: Monitored) -> None:
    for step in range(1, 6):
        monitored.world.at(step * 300.0, partial(monitored.world.scale, "app", 1 + 6 * step))


def api_server_goes_away(monitored: Monitored) -> None:
    monitored.world.at(600.0, lambda: monitored.world.disconnect_api(900.0))


def from_ten_minutes_on(fault: Fault) -> Callable[[Monitored], object]:
    """Announce work, let the API server fail in some way later, and then announce work again and again."""

    def begins(monitored: Monitored) -> None:
        world = monitored.world
        world.at(60.0, lambda: world.announce("jobs", 1, 3000.0))
        world.at(600.0, lambda: world.api.faults.add(fault))
        world.at(700.0, lambda: world.announce("jobs", 1, 3000.0))

    return begins


def refused(world: World) -> None:
    assert post(world, "jobs") == 503


def store_refuses(monitored: Monitored) -> None:
    from_ten_minutes_on(Fault(verb="update", path_prefix=STORED, code=500))(monitored)
    for number in range(3):
        monitored.world.at(800.0 + 120 * number, lambda: refused(monitored.world))


def strangers_knock(monitored: Monitored) -> None:
    for number in range(40):
        monitored.world.at(900.0 + 10 * number, lambda: a_stranger_knocks(monitored.world, "jobs"))


def work_is_announced(monitored: Monitored) -> None:
    monitored.world.at(60.0, lambda: monitored.world.announce("jobs", 2, 3000.0))


def passes_slow_down(monitored: Monitored) -> None:
    monitored.pass_takes_s = 45.0


STORED = "/api/v1/namespaces/kube-system/configmaps/capacity-reservations-"
NO_STATE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "capacity-reservations-jobs",
        "namespace": "kube-system",
        "labels": {
            "app.kubernetes.io/managed-by": "cluster-autoscaler",
            "app.kubernetes.io/component": "capacity-reservations",
        },
    },
    "data": {"state.json": "{"},
}
WAITS = "ClusterAutoscalerPodsStayPending"
OVERDUE = "ClusterAutoscalerPodsOverdue"
TROUBLES: Mapping[str, Trouble] = {
    "no process": Trouble(
        fires={"ClusterAutoscalerNoLeader"},
        cloud=one_machine(),
        begins=lambda monitored: monitored.world.at(600.0, lambda: monitored.world.restart(600.0)),
    ),
    "a lease that nobody takes": Trouble(
        fires={"ClusterAutoscalerNoLeader"},
        cloud=one_machine(),
        begins=lambda monitored: monitored.world.at(600.0, lambda: monitored.world.lose_leadership(600.0)),
    ),
    "a cloud that does not answer any more": Trouble(
        fires={"ClusterAutoscalerStuck"},
        with_it={"ClusterAutoscalerPassesFail"},
        cloud=one_machine(fails(Call.REFRESH, from_s=600.0, until_s=1500.0)),
    ),
    "a cloud that never answers": Trouble(
        fires={"ClusterAutoscalerNeverSucceeded"},
        with_it={"ClusterAutoscalerPassesFail"},
        cloud=one_machine(fails(Call.REFRESH)),
    ),
    "an API server that is away": Trouble(
        fires={"ClusterAutoscalerApiServerSilent", "ClusterAutoscalerWatchSilent"},
        cloud=one_machine(),
        begins=api_server_goes_away,
    ),
    "a cloud that answers every second time": Trouble(
        fires={"ClusterAutoscalerPassesFail"}, cloud=one_machine(fails(Call.REFRESH, from_s=600.0, every=2))
    ),
    "passes that take long": Trouble(fires={"ClusterAutoscalerSlow"}, cloud=one_machine(), begins=passes_slow_down),
    "nodes that fall silent": Trouble(
        fires={"ClusterAutoscalerUnsafe"},
        cloud=a_cloud(a_group(min_size=8), machines={"web": 8}),
        begins=lambda monitored: monitored.world.at(60.0, lambda: most_nodes_go_silent(monitored)),
    ),
    "a pod that fits nowhere": Trouble(
        fires={WAITS}, cloud=one_machine(), objects=(a_deployment(), a_bare_pod("huge", cpu="64"))
    ),
    "no machines to be had": Trouble(
        fires={"ClusterAutoscalerScaleUpsFail"},
        with_it={WAITS, OVERDUE},
        cloud=one_machine(stock=2),
        objects=(a_deployment(replicas=12),),
    ),
    "a cloud that refuses to grow": Trouble(
        fires={"ClusterAutoscalerScaleUpsFail"},
        with_it={WAITS, OVERDUE},
        cloud=one_machine(CallFault(call=Call.INCREASE, error=FaultKind.QUOTA_EXCEEDED)),
        objects=(a_deployment(replicas=12),),
    ),
    "machines that never become nodes": Trouble(
        fires={"ClusterAutoscalerMachinesNeverRegister"},
        with_it={WAITS, OVERDUE, "ClusterAutoscalerScaleUpsFail"},
        cloud=one_machine(boot=(3 * HOUR_S, 3 * HOUR_S)),
        objects=(a_deployment(replicas=12),),
        hours=2.0,
    ),
    "nodes that are smaller than promised": Trouble(
        fires={"ClusterAutoscalerTemplateWrong"},
        with_it={WAITS, OVERDUE},
        cloud=one_machine(),
        objects=(a_deployment(), a_deployment("big", replicas=2, cpu="3")),
        begins=lambda monitored: monitored.world.at(1.0, lambda: nodes_come_small(monitored)),
    ),
    "groups at their largest": Trouble(
        fires={"ClusterAutoscalerAtMaximumSize"},
        with_it={WAITS, OVERDUE},
        cloud=one_machine(max_size=2),
        objects=(a_deployment(replicas=12),),
    ),
    "a limit of the whole cluster": Trouble(
        fires={"ClusterAutoscalerAtResourceLimit"},
        with_it={WAITS, OVERDUE},
        cloud=one_machine(),
        objects=(a_deployment(replicas=12),),
        options={"cores-total": "0:8"},
    ),
    "a cloud that deletes nothing": Trouble(
        fires={"ClusterAutoscalerScaleDownsFail"},
        cloud=one_machine(fails(Call.DELETE)),
        objects=(a_deployment(replicas=12),),
        begins=lambda monitored: monitored.world.at(600.0, lambda: monitored.world.scale("app", 1)),
    ),
    "evictions that fail": Trouble(
        fires={"ClusterAutoscalerScaleDownsFail"},
        cloud=one_machine(),
        objects=(a_deployment(replicas=8, cpu="1500m"),),
        options={"scale-down-utilization-threshold": "0.9"},
        begins=evictions_fail,
        hours=1.5,
    ),
    "a quarter of the nodes are sick": Trouble(
        fires={"ClusterAutoscalerRepairHeld"},
        cloud=a_cloud(a_group(min_size=8), machines={"web": 8}),
        options={"node-repair-policy": ["KernelDeadlock=True;5m"]},
        begins=lambda monitored: monitored.world.at(60.0, lambda: kernels_hang(monitored)),
    ),
    "a budget that never lets go of an old node": Trouble(
        fires={"ClusterAutoscalerDrainGraceOver"},
        cloud=one_machine(),
        objects=(a_deployment(replicas=2), a_budget("app", maxUnavailable=0)),
        options={"max-node-age": "5m", "drain-grace": ["expiry=5m"]},
    ),
    "a machine that leaves with a pod that may not": Trouble(
        fires={"ClusterAutoscalerNoticedPodsRemain"},
        cloud=one_machine(),
        objects=(a_deployment(replicas=2), a_budget("app", maxUnavailable=0)),
        options={"node-notices": "spot-interruption"},
        begins=lambda monitored: monitored.world.at(60.0, lambda: a_machine_is_interrupted(monitored.world)),
    ),
    "drift that was stopped": Trouble(
        fires={"ClusterAutoscalerDriftStopped"},
        cloud=with_an_old_machine(),
        objects=(a_deployment(), PAUSED_DRIFT),
        options={"drift": "template"},
    ),
    "a gRPC expander that is away": Trouble(
        fires={"ClusterAutoscalerExpanderFails"},
        cloud=a_cloud(a_group(min_size=1), a_group("other"), machines={"web": 1}),
        objects=(a_deployment(),),
        options={
            "expander": "grpc,least-waste",
            "grpc-expander-url": "expander:50051",
            "grpc-expander-cert": "ca.crt",
        },
        begins=grows_step_by_step,
    ),
    "a store that cannot be listed": Trouble(
        fires={"ClusterAutoscalerCompanionFails"},
        cloud=one_machine(),
        sections=ROOM,
        begins=from_ten_minutes_on(Fault(verb="list", resource="configmaps", code=403)),
    ),
    "a Deployment of somebody else": Trouble(
        fires={"ClusterAutoscalerHeadroomDegraded"},
        cloud=one_machine(),
        objects=(a_deployment(), a_deployment("headroom-app", cpu="100m")),
        sections=ROOM,
    ),
    "Deployments that cannot be read": Trouble(
        fires={"ClusterAutoscalerHeadroomDegraded"},
        cloud=one_machine(),
        sections=ROOM,
        begins=from_ten_minutes_on(Fault(verb="get", resource="deployments", code=500)),
    ),
    "headroom that no machine can be bought for": Trouble(
        fires={"ClusterAutoscalerHeadroomShort"},
        cloud=one_machine(max_size=2),
        sections={"headroom": {"pools": [{**POOL, "policies": [{"name": "base", "idleCount": 20}]}]}},
    ),
    "a stored state that makes no sense": Trouble(
        fires={"ClusterAutoscalerReservationsUnreadable"},
        cloud=one_machine(),
        objects=(a_deployment(), NO_STATE),
        sections=ROOM,
    ),
    "a store that refuses": Trouble(
        fires={"ClusterAutoscalerReservationsNotStored", "ClusterAutoscalerAnnouncementsRefused"},
        cloud=one_machine(),
        sections=ROOM,
        begins=store_refuses,
    ),
    "announcements without a good signature": Trouble(
        fires={"ClusterAutoscalerAnnouncementsNotSigned"},
        cloud=one_machine(),
        sections=ROOM,
        begins=strangers_knock,
    ),
    "reservations for more than there can be": Trouble(
        fires={"ClusterAutoscalerReservationsWithoutRoom"},
        cloud=one_machine(max_size=1),
        sections={"reservations": ROOM["reservations"]},
        begins=work_is_announced,
    ),
    "images that take an hour": Trouble(
        fires={"ClusterAutoscalerStartsLate", OVERDUE},
        cloud=one_machine(),
        objects=(a_deployment(replicas=30),),
        timing=Timing(heartbeat_s=DAY_S, pull_s=HOUR_S),
        hours=1.5,
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_an_alert_fires_on_its_fault_and_others_only_where_they_follow(name: str, tmp_path: Path) -> None:
    trouble = TROUBLES[name]
    options = {**STATIC, **trouble.options}
    with Monitored(
        ALERTS, options, trouble.cloud, *trouble.objects, timing=trouble.timing, sections=trouble.sections
    ) as monitored:
        trouble.begins(monitored)
        monitored.world.run_for(trouble.hours * HOUR_S)
        assert trouble.fires <= monitored.fired <= trouble.fires | trouble.with_it
        assert prometheus_objects(monitored, tmp_path) == ""


def test_every_alert_has_its_fault() -> None:
    assert set().union(*(trouble.fires for trouble in TROUBLES.values())) == {alert.name for alert in ALERTS}


def test_alerts_end_with_their_fault() -> None:
    cloud = one_machine(fails(Call.REFRESH, from_s=600.0, until_s=1500.0))
    with Monitored(ALERTS, STATIC, cloud, a_deployment()) as monitored:
        monitored.world.run_for(24 * MINUTE_S)
        assert "ClusterAutoscalerStuck" in monitored.firing()
        monitored.world.run_for(20 * MINUTE_S)
        assert monitored.firing() == set()
