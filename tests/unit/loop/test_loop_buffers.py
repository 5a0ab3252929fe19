"""CapacityBuffers through whole passes: room is bought and kept, and what stands for it never touches the API."""

from typing import Any

import pytest

from autoscaler.config.load import from_options
from autoscaler.errors import Conflict, Refused
from autoscaler.kube.paths import ObjectRef
from autoscaler.objects.capacity import CapacityBuffer
from autoscaler.objects.meta import JsonObject
from autoscaler.reasons import ScaleUpResult
from autoscaler.sandbox.capacity_objects import put_objects
from autoscaler.scaleup.buffers import BufferRoom
from autoscaler.snapshot.cluster import Related
from cloudprovider.static.spec import Call, CallFault, FaultKind
from tests.builders import a_node, a_pod
from tests.unit.capacity import a_buffer, a_scalable, a_template
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec
from tests.unit.observe.published_world import PublishedWorld

BOTH: dict[str, Any] = {"capacity-buffer-controller-enabled": True, "capacity-buffer-pod-injection-enabled": True}
BUFFER = ObjectRef("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "spare", "default")
QUICK: dict[str, Any] = {
    "scale-down-unneeded-time": "1m",
    "scale-down-delay-after-add": "0s",
    "scale-down-utilization-threshold": 0.9,
    "unremovable-node-recheck-timeout": "1s",
}


def a_world(*buffers: CapacityBuffer, nodes: int = 1, related: Related | None = None, **options: Any) -> LoopWorld:
    config = from_options({**BOTH, **options})
    standing = [(a_node(f"n{number}", created=NOW - 9000), "web") for number in range(nodes)]
    world = LoopWorld(a_spec(target=nodes), config=config, nodes=standing)
    world.related = related or Related()
    put_objects(world.writes, a_template(), *buffers)
    return world


def status(world: LoopWorld) -> dict[str, Any]:
    held: dict[str, Any] = world.writes.objects[BUFFER].get("status", {})
    return {**held, "conditions": {one["type"]: one["status"] for one in held.get("conditions", [])}}


@pytest.mark.parametrize("enabled", [True, False])
def test_metrics_tell_when_buffers_were_last_brought_up_to_date(*, enabled: bool) -> None:
    config = from_options({"capacity-buffer-controller-enabled": enabled})
    world = PublishedWorld(a_spec(), config=config)
    name = "capacity_buffer_oldest_reconciliation_timestamp_seconds"
    for after_s in (0, 15):
        world.run(after_s=after_s)
        told = {label: value for label, value in world.series().items() if label.startswith(name)}
        now = int(world.clock.now().wall)
        assert told == ({f'{name}{{new_buffer="{new}"}}': now for new in ("true", "false")} if enabled else {})
    assert world.series()["nap_enabled"] == 0


def test_room_is_resolved_then_bought() -> None:
    world = a_world(a_buffer(replicas=3), nodes=1)
    assert world.run().scale_up.result is ScaleUpResult.NOT_NEEDED
    assert (status(world)["replicas"], status(world)["podTemplateRef"]) == (3, {"name": "worker"})
    report = world.run(after_s=15)
    assert (report.scale_up.result, world.calls) == (ScaleUpResult.SUCCESSFUL, [("increase", "web", 2)])
    assert status(world)["conditions"] == {"ReadyForProvisioning": "True", "Provisioning": "True"}
    assert world.run(after_s=15).scale_up.result is ScaleUpResult.NOT_NEEDED
    assert world.calls == [("increase", "web", 2)]


def test_a_metric_counts_the_pods_of_buffers_with_and_without_room() -> None:
    world = PublishedWorld(a_spec(target=1), config=from_options(BOTH), nodes=[(a_node("n0", created=NOW), "web")])
    put_objects(world.writes, a_template(), a_buffer(replicas=3), a_buffer("other", replicas=3))
    told = []
    for after_s in (0, 15):
        world.run(after_s=after_s)
        told.append([world.series()[f'capacity_buffer_replicas{{state="{state}"}}'] for state in ("ready", "missing")])
    assert told == [[0, 0], [1, 5]]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_status_tells_for_how_many_pods_ready_nodes_have_room(*, enabled: bool) -> None:
    options: dict[str, Any] = {"capacity-buffer-ready-replicas-enabled": enabled}
    world = a_world(a_buffer(replicas=5), nodes=1, **options)
    told = []
    for after_s in (0, 15, 15):
        report = world.run(after_s=after_s)
        told.append((report.buffer_room, status(world).get("readyReplicas")))
    (_, _), *settled = told
    assert settled == [(BufferRoom(1, 4), 1 if enabled else None)] * 2
    changes = [change for change in world.run(after_s=15).status_changes if "readyReplicas" in change.fields]
    assert changes == []


def test_the_buffer_hears_once_that_it_triggered_a_scale_up() -> None:
    world = a_world(a_buffer(replicas=3), nodes=0)
    world.run(), world.run(after_s=15)
    told = [event for event in world.events if event.about.kind not in ("ConfigMap", "Node")]
    assert [(one.about.kind, one.about.name, one.about.uid, one.reason) for one in told] == [
        ("CapacityBuffer", "spare", "b/spare", "TriggeredScaleUp")
    ]


def test_the_buffer_hears_that_nothing_can_be_had_for_it() -> None:
    world = a_world(a_buffer(replicas=30), nodes=0)
    put_objects(world.writes, a_template(cpu="30"))
    world.run(), world.run(after_s=15)
    assert [(event.about.name, event.reason) for event in world.events if event.about.kind == "CapacityBuffer"] == [
        ("spare", "NotTriggerScaleUp")
    ]


def test_real_pods_take_the_room_and_it_is_bought_anew() -> None:
    world = a_world(a_buffer(replicas=1), nodes=1)
    world.run(), world.run(after_s=15)
    assert world.calls == []
    world.submit(a_pod("real", cpu="3", node="n0"))
    world.run(after_s=15)
    assert world.calls == [("increase", "web", 1)]


def test_nodes_whose_room_is_kept_stay_and_others_go() -> None:
    world = a_world(a_buffer(replicas=1), nodes=3, **QUICK | {"scale-down-unneeded-time": "1h"})
    world.run()
    for _ in range(8):
        report = world.run(after_s=15)
        assert len(report.scale_down.unneeded) == 2


def test_a_share_of_a_deployment_follows_it() -> None:
    spec: dict[str, Any] = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "percentage": 50}
    scalables = {"Deployment/default/web": a_scalable(replicas=3, cpu="3")}
    world = a_world(a_buffer(template=None, **spec), nodes=0, related=Related(scalables=scalables))
    for _ in range(3):
        world.run(after_s=15)
    assert status(world)["podTemplateRef"] == {"name": "capacitybuffer-spare-pod-template"}
    assert (status(world)["replicas"], world.calls) == (2, [("increase", "web", 2)])


def test_a_status_that_could_not_be_written_is_written_in_the_next_pass() -> None:
    world = a_world(a_buffer(replicas=1))
    world.writes.failures = [Conflict("changed")]
    world.run()
    assert status(world)["conditions"] == {}
    world.run(after_s=15)
    assert status(world)["conditions"]["ReadyForProvisioning"] == "True"


def test_a_status_in_order_is_not_written_again() -> None:
    world = a_world(a_buffer(replicas=1))
    for _ in range(5):
        report = world.run(after_s=15)
    assert report.status_changes == ()


def test_each_part_has_its_own_flag() -> None:
    without_injection: dict[str, Any] = {"capacity-buffer-pod-injection-enabled": False}
    resolved_only = a_world(a_buffer(replicas=1), nodes=0, **without_injection)
    resolved_only.run(), resolved_only.run(after_s=15)
    assert (status(resolved_only)["replicas"], resolved_only.calls) == (1, [])
    without_controller: dict[str, Any] = {"capacity-buffer-controller-enabled": False}
    injected_only = a_world(a_buffer(replicas=1), nodes=0, **without_controller)
    injected_only.run(), injected_only.run(after_s=15)
    assert (status(injected_only)["conditions"], injected_only.calls) == ({}, [])


def test_room_that_one_group_refuses_is_bought_in_another() -> None:
    refusal = CallFault(call=Call.INCREASE, error=FaultKind.OUT_OF_CAPACITY)
    world = LoopWorld(a_spec("a", call_faults=[refusal]), a_spec("b"), config=from_options(BOTH))
    put_objects(world.writes, a_template(), a_buffer(replicas=1))
    world.run()
    assert world.run(after_s=15).scale_up.result is ScaleUpResult.SUCCESSFUL
    assert [call for call in world.calls if call[2] > 0] == [("increase", "b", 1)]


OF_DEPLOYMENT: dict[str, Any] = {
    "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
    "replicas": 1,
}
MANAGED = ObjectRef("v1", "PodTemplate", "capacitybuffer-spare-pod-template", "default")


def of_deployment(*, cpu: str = "1", **options: Any) -> LoopWorld:
    related = Related(scalables={"Deployment/default/web": a_scalable(cpu=cpu)})
    return a_world(a_buffer(template=None, **OF_DEPLOYMENT), nodes=0, related=related, **options)


def with_defaults(pod: JsonObject) -> JsonObject:
    """Do what an API server does: a priority, a request, and the token of the service account."""
    (main,) = pod["spec"]["containers"]
    token = {"name": "kube-api-access-x7k2p"}
    main = {**main, "resources": {"requests": {"cpu": "2"}}, "volumeMounts": [{"name": "data"}, token]}
    return {
        **pod,
        "spec": {"containers": [main], "priority": 7, "volumes": [{"name": "data"}, {**token, "projected": {}}]},
    }


def managed(world: LoopWorld) -> dict[str, Any]:
    spec: dict[str, Any] = world.writes.objects[MANAGED]["template"]["spec"]
    return spec


def test_the_api_server_completes_the_template_of_a_controller_once() -> None:
    world = of_deployment()
    world.writes.admits = with_defaults
    for _ in range(4):
        world.run(after_s=15)
    assert (managed(world)["priority"], managed(world)["volumes"]) == (7, [{"name": "data"}])
    (main,) = managed(world)["containers"]
    assert (main["resources"]["requests"], main["volumeMounts"]) == ({"cpu": "2"}, [{"name": "data"}])
    assert status(world)["conditions"] == {"ReadyForProvisioning": "True", "Provisioning": "True"}
    assert world.writes.tried == [MANAGED.name]
    world.related = Related(scalables={"Deployment/default/web": a_scalable(cpu="3")})
    world.run(after_s=15), world.run(after_s=15)
    assert len(world.writes.tried) == 2


def test_a_template_that_the_api_server_refuses_to_complete_is_used_as_written_and_tried_again() -> None:
    def refuse(pod: JsonObject) -> JsonObject:
        raise Refused("pods is forbidden", 403)

    world = of_deployment(cpu="3")
    world.writes.admits = refuse
    for _ in range(3):
        world.run(after_s=15)
    assert status(world)["conditions"] == {"ReadyForProvisioning": "True", "Provisioning": "True"}
    assert managed(world)["containers"][0]["resources"]["requests"] == {"cpu": "3"}
    assert len(world.writes.tried) == 3
    world.writes.admits = with_defaults
    world.run(after_s=15), world.run(after_s=15)
    assert (managed(world)["priority"], len(world.writes.tried)) == (7, 4)


def test_without_the_flag_templates_are_as_written() -> None:
    options: dict[str, Any] = {"capacity-buffer-pod-dry-run-enabled": False}
    world = of_deployment(**options)
    for _ in range(2):
        world.run(after_s=15)
    assert world.writes.tried == []
    assert status(world)["podTemplateRef"] == {"name": MANAGED.name}
