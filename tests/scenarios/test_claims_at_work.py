"""Claims for devices from end to end: nodes are bought, drivers offer, the scheduler allocates, nodes go again."""

from typing import Any

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.simulator.world import World
from cloudprovider.static.spec import GroupSpec
from tests.devices import GPUS, a_part, a_request, claim_template_form, claiming, from_template, overdrawn
from tests.worlds import a_cloud, a_deployment, a_group, a_job, a_world, pods_of, running, targets

CARD = "example.com/card"
API = "resource.k8s.io/v1"
CLASS: JsonObject = {
    "apiVersion": API,
    "kind": "DeviceClass",
    "metadata": {"name": GPUS},
    "spec": {
        "selectors": [{"cel": {"expression": f"device.driver == '{GPUS}'"}}],
        "extendedResourceName": CARD,
    },
}
FOUR = [{"name": f"gpu-{number}"} for number in range(4)]
SHARED = {"name": "gpu", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
HALVES = [
    a_part("left", "card", memory="40Gi"),
    a_part("right", "card", memory="40Gi"),
    a_part("all", "card", memory="80Gi"),
]
CUT = {"devices": HALVES, "sharedCounters": [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]}


def gpu_group(**spec: Any) -> GroupSpec:
    """Return a group whose nodes bring devices."""
    group = a_group("gpu", cpu="16")
    assert group.template is not None
    template = msgspec.structs.replace(group.template, resource_slices=[{"spec": {"driver": GPUS, **spec}}])
    return msgspec.structs.replace(group, template=template)


def template_of(*requests: JsonObject) -> JsonObject:
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", **claim_template_form("one", *requests)}


def settled(world: World, app: str, replicas: int) -> None:
    """Let the pods of an app all run; nothing is given twice on the way."""
    for _ in range(40):
        world.run_for(15)
        assert overdrawn(world.storage) == []
        if running(world, app) == replicas == len(pods_of(world, app)):
            return
    raise AssertionError(f"{running(world, app)} of {replicas} pods run")


def test_nodes_come_for_claims_and_go_when_their_devices_are_free() -> None:
    app = a_deployment("train", replicas=6, cpu="100m", **from_template("one"))
    with a_world(a_cloud(gpu_group(devices=FOUR)), CLASS, template_of(), app) as world:
        settled(world, "train", 6)
        assert targets(world) == {"gpu": 2}
        claims = world.storage.list("resourceclaims.resource.k8s.io")
        assert [len(claim["status"]["reservedFor"]) for claim in claims] == [1] * 6
        world.scale("train", 2)
        world.run_for(900)
        settled(world, "train", 2)
        assert targets(world) == {"gpu": 1}
        assert len(world.storage.list("resourceclaims.resource.k8s.io")) == 2
        assert len(world.storage.list("resourceslices.resource.k8s.io")) == 1


def test_nodes_are_bought_by_the_shares_of_their_devices() -> None:
    request = a_request(capacity={"requests": {"memory": "30Gi"}})
    app = a_deployment("serve", replicas=5, cpu="100m", **from_template("one"))
    with a_world(a_cloud(gpu_group(devices=[SHARED])), CLASS, template_of(request), app) as world:
        settled(world, "serve", 5)
        assert targets(world) == {"gpu": 3}


def test_parts_of_a_card_are_not_given_beside_the_whole() -> None:
    app = a_deployment("part", replicas=3, cpu="100m", **from_template("one"))
    with a_world(a_cloud(gpu_group(**CUT)), CLASS, template_of(), app) as world:
        settled(world, "part", 3)
        assert targets(world) == {"gpu": 2}


def test_devices_stand_for_an_extended_resource() -> None:
    pods = a_deployment("cards", replicas=5, cpu="100m")
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "100m", CARD: "2"}, "limits": {CARD: "2"}}
    with a_world(a_cloud(gpu_group(devices=FOUR)), CLASS, pods) as world:
        settled(world, "cards", 5)
        assert targets(world) == {"gpu": 3}


def test_a_finished_pod_gives_its_devices_back() -> None:
    job = a_job("first", pods=4, cpu="100m", lasts="60s")
    job["spec"]["template"]["spec"] |= from_template("one")
    with a_world(a_cloud(gpu_group(devices=FOUR), machines={"gpu": 1}), CLASS, template_of(), job) as world:
        world.run_for(150)
        assert world.storage.list("resourceclaims.resource.k8s.io") == []
        world.apply(a_deployment("next", replicas=4, cpu="100m", **from_template("one")))
        settled(world, "next", 4)
        assert targets(world) == {"gpu": 1}


def test_pods_that_share_a_claim_come_together() -> None:
    claim = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": "team", "namespace": "default"}}
    spec = {"devices": {"requests": [a_request(count=3)]}}
    app = a_deployment("team", replicas=3, cpu="100m", **claiming("team"))
    with a_world(a_cloud(gpu_group(devices=FOUR)), CLASS, {**claim, "spec": spec}, app) as world:
        settled(world, "team", 3)
        assert targets(world) == {"gpu": 1}
        (kept,) = world.storage.list("resourceclaims.resource.k8s.io")
        assert len(kept["status"]["reservedFor"]) == 3
        world.scale("team", 0)
        world.run_for(900)
        (kept,) = world.storage.list("resourceclaims.resource.k8s.io")
        assert (kept.get("status") or {}).get("allocation") is None
        assert targets(world) == {"gpu": 0}
