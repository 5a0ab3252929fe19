"""CapacityQuotas through whole passes: every purchase keeps them, and those that are gone no longer count."""

from collections.abc import Sequence
from typing import Any

import pytest

from autoscaler.config.load import from_options
from autoscaler.errors import Conflict
from autoscaler.kube.paths import ObjectRef
from autoscaler.objects.capacity import CapacityQuota
from autoscaler.reasons import ScaleUpResult, Skip
from autoscaler.sandbox.capacity_objects import put_objects
from cloudprovider.interface import GroupSettings
from cloudprovider.static.spec import GroupSpec
from tests.builders import a_node
from tests.unit.capacity import a_buffer, a_quota, a_template
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

ON: dict[str, Any] = {"capacity-quotas-enabled": True}
ZONE = "topology.kubernetes.io/zone"
QUOTA = ObjectRef("autoscaling.x-k8s.io/v1beta1", "CapacityQuota", "few")


def a_world(
    *quotas: CapacityQuota, groups: Sequence[GroupSpec] = (), nodes: int = 0, pods: int = 5, **options: Any
) -> LoopWorld:
    config = from_options({**ON, **options})
    standing = [(a_node(f"n{number}", zone="a", created=NOW - 9000), "web") for number in range(nodes)]
    world = LoopWorld(*(groups or [zonal("web", "a", target=nodes)]), config=config, nodes=standing)
    put_objects(world.writes, *quotas)
    world.submit(*(waiting(f"p{number}") for number in range(pods)))
    return world


def zonal(name: str, zone: str, **more: Any) -> GroupSpec:
    return a_spec(name, labels={ZONE: zone, **more.pop("labels", {})}, **more)


def grown(world: LoopWorld) -> dict[str, int]:
    """Return by how much each group grew in one pass."""
    world.run()
    return {name: count for _, name, count in world.calls}


TWO_ZONES = (zonal("a", "a"), zonal("b", "b"))


@pytest.mark.parametrize(
    ("quotas", "world", "expected"),
    [
        pytest.param([], {}, {"web": 5}, id="no quota"),
        pytest.param([a_quota(nodes=2)], {}, {"web": 2}, id="nodes"),
        pytest.param([a_quota(nodes=0)], {}, {}, id="no node at all"),
        pytest.param([a_quota(cpu=15)], {}, {"web": 3}, id="cores that are no multiple"),
        pytest.param([a_quota(memory="33Gi")], {}, {"web": 2}, id="memory"),
        pytest.param([a_quota(nodes=4)], {"nodes": 3}, {"web": 1}, id="nodes that exist count"),
        pytest.param([a_quota(nodes=3)], {"nodes": 3}, {}, id="full already"),
        pytest.param([a_quota(nodes=2)], {"nodes": 3}, {}, id="exceeded already: nothing is bought, nothing removed"),
        pytest.param([a_quota(nodes=4), a_quota("less", cpu=8)], {}, {"web": 2}, id="the tightest of several"),
        pytest.param([a_quota(selector={ZONE: "b"}, nodes=0)], {}, {"web": 5}, id="a quota of other nodes"),
        pytest.param([a_quota(selector={"zone": "a"}, nodes=0)], {}, {"web": 5}, id="a label that nobody has"),
        pytest.param([a_quota(most={"example.com/x": 0})], {}, {"web": 5}, id="a resource that nobody has"),
        pytest.param(
            [a_quota(most={"example.com/x": 5})],
            {"groups": [a_spec(extra={"example.com/x": "2"})]},
            {"web": 2},
            id="an extended resource",
        ),
        pytest.param(
            [a_quota(selector={ZONE: "a"}, nodes=2)], {"groups": TWO_ZONES}, {"a": 2, "b": 3}, id="the rest elsewhere"
        ),
        pytest.param(
            [a_quota(selector={ZONE: "a"}, nodes=1), a_quota("b", selector={ZONE: "b"}, nodes=2)],
            {"groups": TWO_ZONES},
            {"a": 1, "b": 2},
            id="a quota for each zone",
        ),
        pytest.param(
            [a_quota(nodes=3)],
            {"groups": TWO_ZONES, "balance-similar-node-groups": True},
            {"a": 2, "b": 1},
            id="shared by similar groups",
        ),
        pytest.param(
            [a_quota(selector={ZONE: "a"}, nodes=1)],
            {"groups": TWO_ZONES, "balance-similar-node-groups": True},
            {"a": 1, "b": 4},
            id="one of two similar groups is full",
        ),
        pytest.param(
            [a_quota(selector={ZONE: "a"}, nodes=2)],
            {"groups": [zonal("a", "a", price=1.0), zonal("b", "b", price=2.0)], "expander": "cost"},
            {"a": 2, "b": 3},
            id="a combination of offers",
        ),
        pytest.param(
            [a_quota(cpu=8)],
            {
                "groups": [zonal("a", "a", price=1.0), a_spec("large", cpu="8", price=1.9)],
                "expander": "cost",
                "pods": 2,
            },
            {"large": 1},
            id="a combination under one quota",
        ),
        pytest.param(
            [a_quota(nodes=3)],
            {"groups": [a_spec(settings=GroupSettings(zero_or_max_node_scaling=True), max_size=4)]},
            {},
            id="all nodes of an atomic group or none",
        ),
        pytest.param(
            [a_quota(nodes=2)],
            {"groups": [a_spec(min_size=3, target=0)], "pods": 0, "enforce-node-group-min-size": True},
            {"web": 2},
            id="a minimum size",
        ),
        pytest.param([a_quota(nodes=2)], {"cores-total": "0:4"}, {"web": 1}, id="flags limit as before"),
        pytest.param([a_quota(nodes=2)], {"groups-per-pass": "one"}, {"web": 2}, id="one group per pass"),
        pytest.param([a_quota("bad", cpu="0.5"), a_quota(nodes=2)], {}, {"web": 2}, id="an invalid one stops no other"),
        pytest.param([a_quota(nodes=2)], {"capacity-quotas-enabled": False}, {"web": 5}, id="not enabled"),
    ],
)
def test_what_is_bought(quotas: list[CapacityQuota], world: dict[str, Any], expected: dict[str, int]) -> None:
    made = a_world(*quotas, **world)
    got = grown(made)
    assert got == expected or (sorted(got.values()) == sorted(expected.values()) and "balance" in str(world)), got
    before = len(made.calls)
    made.run(after_s=15)
    assert len(made.calls) == before, "upcoming nodes count"


def test_pods_hear_which_quota_holds_them() -> None:
    world = a_world(a_quota(nodes=0), pods=1)
    report = world.run()
    assert report.scale_up.plan is not None
    (skipped,) = report.scale_up.plan.skipped
    assert (skipped.reason, skipped.message) == (Skip.LIMIT, 'exceeded quota: "CapacityQuota/few", resources: nodes')


def test_a_quota_that_is_gone_limits_no_longer() -> None:
    world = a_world(a_quota(nodes=1), pods=3)
    assert grown(world) == {"web": 1}
    del world.writes.objects[QUOTA]
    world.run(after_s=15)
    assert world.calls[1:] == [("increase", "web", 2)]


def test_room_for_buffers_keeps_quotas() -> None:
    buffering: dict[str, Any] = {
        "capacity-buffer-controller-enabled": True,
        "capacity-buffer-pod-injection-enabled": True,
    }
    world = a_world(a_quota(nodes=1), pods=0, **buffering)
    put_objects(world.writes, a_template(), a_buffer(replicas=3))
    world.run(), world.run(after_s=15)
    assert world.calls == [("increase", "web", 1)]


def status(world: LoopWorld) -> dict[str, Any]:
    held: dict[str, Any] = world.writes.objects[QUOTA].get("status", {})
    return {**held, "conditions": {one["type"]: one["status"] for one in held.get("conditions", [])}}


def test_the_status_follows_the_nodes_and_is_written_only_when_it_changes() -> None:
    world = a_world(a_quota(nodes=9, cpu=64), nodes=2, pods=0)
    assert len(world.run().status_changes) == 1
    assert status(world) == {
        "used": {"resources": {"nodes": "2", "cpu": "8"}},
        "conditions": {"cluster-autoscaler.kubernetes.io/valid": "True", "Reconciled": "True"},
        "observedGeneration": 1,
    }
    assert world.run(after_s=15).status_changes == ()
    world.cluster.put_node(a_node("other", cpu="6"))
    world.run(after_s=15)
    assert status(world)["used"] == {"resources": {"nodes": "3", "cpu": "14"}}


def test_a_status_that_cannot_be_written_holds_up_nothing_and_is_tried_again() -> None:
    world = a_world(a_quota(nodes=1), pods=2)
    world.writes.failures = [Conflict("changed")]
    assert world.run().scale_up.result is ScaleUpResult.SUCCESSFUL
    assert status(world)["conditions"] == {}
    world.run(after_s=15)
    assert status(world)["conditions"] != {}
