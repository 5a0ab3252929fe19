"""Nodes with devices that pods claim, through whole passes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.objects.devices import ResourceSlice
from autoscaler.reasons import UnremovableReason
from autoscaler.recording.anonymizer import anonymize
from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import PlanAnswer
from autoscaler.simulator.play import play
from tests.builders import a_node
from tests.devices import GPUS, NICS, a_request, a_slice, claim_form, claim_template_form, slice_form
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

Json = dict[str, Any]
OPTIONS = {"scale-down-unneeded-time": "0s", "scale-down-unready-time": "0s", "scale-down-delay-after-add": "0s"}
RESOURCES = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def a_trainer(name: str = "train", node: str = "gpu-0", **spec: Any) -> Json:
    owner = {"kind": "ReplicaSet", "name": "train", "apiVersion": "apps/v1", "controller": True}
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": "100m"}}}], **spec},
    }


FROM_TEMPLATE: Json = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
BY_NAME: Json = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}


def made_for(pod: str, *devices: str, node: str = "gpu-0") -> Json:
    """Return the claim that was made for a pod from a template; nobody has reserved it yet."""
    owner = {"kind": "Pod", "name": pod, "apiVersion": "v1", "controller": True}
    return claim_form(f"{pod}-gpu", *devices, pool=node, node=node, meta={"ownerReferences": [owner]})


def played(
    pods: Sequence[Json], claims: Sequence[Json], *, options: Mapping[str, str] | None = None, **fields: Any
) -> PlanAnswer:
    """Two runs over two nodes with four GPUs each."""
    names = ("gpu-0", "gpu-1")
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": {**OPTIONS, **(options or {})},
        "nodeGroups": [{"id": "gpu", "minSize": 0, "maxSize": 5, "targetSize": 2, "template": None}],
        "nodes": [{"metadata": {"name": name}, "status": {"capacity": RESOURCES}} for name in names],
        "nodeToGroup": dict.fromkeys(names, "gpu"),
        "replicaSets": [{"metadata": {"name": "train"}, "spec": {"replicas": 3}}],
        "resourceSlices": [slice_form(name, devices=4) for name in names],
        "resourceClaims": list(claims),
        "pods": list(pods),
        "runs": 2,
        **fields,
    }
    return play(decode(json.dumps(document).encode(), "case.json"))


def a_blocker(node: str) -> Json:
    """Return a pod that keeps its node."""
    return {**a_trainer("bare", node), "metadata": {"name": "bare"}}


def gone(answer: PlanAnswer) -> list[str]:
    return sorted(one.id for run in answer.runs for one in run.cloud_deletes)


def why(answer: PlanAnswer, node: str = "gpu-0") -> tuple[UnremovableReason, str]:
    found = answer.runs[0].unremovable[node]
    return found.reason, found.detail


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        pytest.param(["dev-0", "dev-1", "dev-2"], UnremovableReason.NOT_UNDERUTILIZED, id="busy devices keep it"),
        pytest.param(["dev-0"], UnremovableReason.NO_PLACE, id="its pod cannot be promised devices elsewhere"),
    ],
)
def test_a_node_stays_for_the_devices_of_its_pod(devices: list[str], reason: UnremovableReason) -> None:
    answer = played([a_trainer(**FROM_TEMPLATE)], [made_for("train", *devices)])
    assert gone(answer) == ["gpu-1"]
    assert why(answer)[0] is reason


def test_idle_devices_let_a_node_go_however_busy_its_cpu_is() -> None:
    daemon = a_trainer("agent")
    daemon["metadata"]["ownerReferences"][0] |= {"kind": "DaemonSet", "name": "agent"}
    daemon["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "12"
    daemons = [{"metadata": {"name": "agent", "namespace": "default"}}]
    assert gone(played([daemon], [], daemonSets=daemons)) == ["gpu-0", "gpu-1"]
    assert gone(played([daemon], [], daemonSets=daemons, resourceSlices=[])) == ["gpu-1"]


def test_a_node_goes_whose_pod_takes_its_devices_along() -> None:
    """The devices are not the node's: the other node reaches them as well."""
    claim = claim_form("gpu", "dev-0", pool="rack", driver=NICS, node=None, users=["train"])
    fabric = slice_form(None, pool="rack", driver=NICS, devices=2)
    pods = [a_trainer(**BY_NAME), a_blocker("gpu-1")]
    assert gone(played(pods, [claim], resourceSlices=[fabric])) == ["gpu-0"]
    bound = claim_form("gpu", "dev-0", pool="rack", driver=NICS, node="gpu-0", users=["train"])
    assert gone(played(pods, [bound], resourceSlices=[fabric])) == ["gpu-0"], "freed with its pod, and allocated again"


def test_a_node_stays_whose_driver_has_not_told_all_of_its_devices() -> None:
    half = slice_form("gpu-0", devices=4, slices=2)
    answer = played([], [], resourceSlices=[half, slice_form("gpu-1", devices=4)])
    assert gone(answer) == ["gpu-1"]
    assert why(answer) == (UnremovableReason.UNEXPECTED, "pool gpu.nvidia.com/gpu-0 has 1 of its 2 ResourceSlices")


def test_claims_and_devices_do_not_count_as_in_1_31() -> None:
    busy = [made_for("train", "dev-0", "dev-1", "dev-2", "dev-3")]
    pods = [a_trainer(**FROM_TEMPLATE), a_blocker("gpu-1")]
    assert gone(played(pods, busy)) == []
    assert gone(played(pods, busy, options={"compatibility": "1.31"})) == ["gpu-0"]


def a_seeker(name: str, **spec: Any) -> Json:
    """Return a pending pod, which wants a GPU from a template unless `spec` says otherwise."""
    return {"metadata": {"name": name}, "spec": {"containers": [{}], **(spec or FROM_TEMPLATE)}}


def bought(answer: PlanAnswer) -> dict[str, int]:
    return {one.group: one.increase for one in answer.runs[0].scale_ups}


ONE_GPU: Json = {"resourceClaimTemplates": [claim_template_form("one")]}


@pytest.mark.parametrize(
    ("seekers", "expected"),
    [
        pytest.param(8, {}, id="there are as many devices as pods"),
        pytest.param(9, {"gpu": 1}, id="one too few"),
        pytest.param(12, {"gpu": 1}, id="a new node has four"),
        pytest.param(13, {"gpu": 2}, id="and not five"),
        pytest.param(99, {"gpu": 3}, id="as many nodes as the group may have"),
    ],
)
def test_nodes_are_bought_for_pods_that_find_no_device(seekers: int, expected: dict[str, int]) -> None:
    answer = played([a_seeker(f"p{number}") for number in range(seekers)], [], **ONE_GPU)
    assert bought(answer) == expected
    assert answer.runs[1].scale_ups == [], "what is on its way is counted"


FROM_ZERO: Json = {
    "id": "zero",
    "minSize": 0,
    "maxSize": 5,
    "template": {"capacity": RESOURCES},
    "templateResourceSlices": [{"spec": {"driver": GPUS, "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}}],
}


def test_a_group_without_any_node_grows_for_the_devices_that_its_cloud_describes() -> None:
    pods = [a_seeker(f"p{number}") for number in range(3)]
    world: Json = {"nodes": [], "nodeToGroup": {}, "resourceSlices": [], **ONE_GPU}
    answer = played(pods, [], nodeGroups=[FROM_ZERO], **world)
    assert bought(answer) == {"zero": 2}
    bare = {key: value for key, value in FROM_ZERO.items() if key != "templateResourceSlices"}
    assert bought(played(pods, [], nodeGroups=[bare], **world)) == {}


def test_nodes_are_bought_for_pods_whose_extended_resource_is_a_class_of_devices() -> None:
    requests = {"containers": [{"resources": {"requests": {"example.com/gpu": "2"}}}]}
    device_class = {"metadata": {"name": GPUS}, "spec": {"extendedResourceName": "example.com/gpu"}}
    pods = [{"metadata": {"name": f"p{number}"}, "spec": requests} for number in range(7)]
    answer = played(pods, [], deviceClasses=[device_class])
    assert bought(answer) == {"gpu": 2}
    without = played(pods, [], deviceClasses=[{"metadata": {"name": GPUS}}])
    assert bought(without) == {}
    zero = played(pods[:1], [], nodeGroups=[FROM_ZERO], nodes=[], nodeToGroup={}, deviceClasses=[device_class])
    assert bought(zero) == {"zero": 1}


def test_devices_of_a_group_that_cannot_be_read_are_complained_about() -> None:
    odd = {**FROM_ZERO, "templateResourceSlices": [{"spec": {"devices": [{"capacity": {"memory": {"value": "x"}}}]}}]}
    with pytest.raises(ConfigError, match=r"nodeGroups\[0\]\.templateResourceSlices\[0\]\.spec\.devices"):
        played([], [], nodeGroups=[odd], nodes=[], nodeToGroup={})


def test_a_claim_that_pods_share_is_counted_once() -> None:
    busy = [made_for(f"busy-{node}", *(f"dev-{at}" for at in range(4)), node=f"gpu-{node}") for node in range(2)]
    running = [a_trainer(f"busy-{node}", f"gpu-{node}", **FROM_TEMPLATE) for node in range(2)]
    pods = [*running, *(a_seeker(f"p{number}", **BY_NAME) for number in range(6))]
    answer = played(pods, [*busy, claim_form("gpu", allocated=False)], **ONE_GPU)
    assert bought(answer) == {"gpu": 1}
    assert len(answer.runs[0].pods_triggered_scale_up) == 6


def test_only_a_driver_has_a_class_of_its_own_where_the_file_lists_none() -> None:
    fields: Json = {"resourceClaimTemplates": [claim_template_form("one", a_request(device_class="fast"))]}
    pods = [a_seeker(f"p{number}") for number in range(9)]
    answer = played(pods, [], **fields)
    assert bought(answer) == {}
    (stuck,) = answer.runs[0].reasons.unschedulable
    assert stuck.rejected["gpu"][0].detail == "claim gpu: there is no DeviceClass fast"
    selector = {"cel": {"expression": f"device.driver == '{GPUS}'"}}
    fast = {"metadata": {"name": "fast"}, "spec": {"selectors": [selector]}}
    assert bought(played(pods, [], **fields, deviceClasses=[fast])) == {"gpu": 1}


@pytest.mark.parametrize("nodes", [1, 0])
def test_a_file_with_devices_decides_the_same_when_its_names_are_hidden(nodes: int) -> None:
    """The class has the name of the driver, and the attribute that of a pod: neither may be renamed."""
    selector = {"cel": {"expression": f"device.driver == '{GPUS}' && device.attributes['{GPUS}'].model == 'gpu-0'"}}
    device = {"name": "model", "attributes": {"model": {"string": "gpu-0"}}, "capacity": {"memory": {"value": "9Gi"}}}
    group: Json = {"id": "gpu", "minSize": 0, "maxSize": 5, "targetSize": nodes, "template": None}
    if not nodes:
        group |= {
            "template": {"capacity": RESOURCES},
            "templateResourceSlices": [slice_form("gpu-0", devices=[device])],
        }
    document = {
        "now": "2026-01-05T12:00:00Z",
        "nodeGroups": [group],
        "nodes": [{"metadata": {"name": "gpu-0"}, "status": {"capacity": RESOURCES}}] * nodes,
        "nodeToGroup": {"gpu-0": "gpu"} if nodes else {},
        "resourceSlices": [slice_form("gpu-0", devices=[device])] * nodes,
        "deviceClasses": [{"metadata": {"name": GPUS}, "spec": {"selectors": [selector]}}],
        **ONE_GPU,
        "pods": [a_seeker("model"), a_seeker("p")],
    }
    body = json.dumps(document).encode()
    for one in (body, anonymize(body, b"key")):
        assert [scale_up.increase for scale_up in play(decode(one, "case.json")).runs[0].scale_ups] == [2 - nodes]


class DeviceWorld(LoopWorld):
    """A group of nodes whose drivers tell of their devices when the test says so."""

    def __init__(self, *nodes: str) -> None:
        made = [(a_node(name, created=NOW - 86400), "gpu") for name in nodes]
        super().__init__(a_spec("gpu", target=len(nodes), boot_s=1), nodes=made, config=Config())

    def tell(self, *slices: ResourceSlice) -> None:
        """Add what drivers offer."""
        known = {**self.related.resource_slices, **{one.key: one for one in slices}}
        self.related = msgspec.structs.replace(self.related, resource_slices=known)

    def forget(self, *nodes: str) -> None:
        """Let the drivers of nodes tell nothing any more."""
        known = {key: one for key, one in self.related.resource_slices.items() if one.spec.node_name not in nodes}
        self.related = msgspec.structs.replace(self.related, resource_slices=known)

    def unready(self, after_s: float = 10.0) -> list[str]:
        """Run a pass; return the nodes that count as not ready."""
        registry = self.run(after_s).registry
        assert registry is not None
        ready = {node.name for node in registry.readings.ready()}
        return sorted(set(self.cluster.nodes) - ready)


def test_a_new_node_is_not_ready_before_its_devices_are_all_there() -> None:
    world = DeviceWorld("old")
    world.tell(a_slice("old"), a_slice("old", driver=NICS))
    assert world.unready() == []
    world.submit(waiting("web"), waiting("api"))
    world.run(10)
    world.clock.advance(60)
    new = world.boot()[0].name
    assert world.unready() == [new]
    report = world.run(10)
    assert report.registry is not None
    assert report.registry.upcoming == {"gpu": 1}, "it is still awaited, so it is not bought again"
    world.tell(a_slice(new))
    assert world.unready() == [new]
    world.tell(a_slice(new, driver=NICS))
    assert world.unready() == []


def test_nodes_without_devices_are_ready_where_no_node_has_any() -> None:
    world = DeviceWorld("a", "b")
    assert world.unready() == []
    assert world.unready() == []


def test_what_no_node_has_any_more_is_not_waited_for_forever() -> None:
    """A driver was taken away: once the nodes have had their time, a new node is expected to be like them."""
    world = DeviceWorld("a", "b")
    world.tell(a_slice("a"), a_slice("b"))
    assert world.unready() == []
    world.forget("a", "b")
    assert world.unready() == ["a", "b"]
    assert world.unready() == []


def test_a_restart_forgets_what_was_expected_and_learns_it_again() -> None:
    world = DeviceWorld("a", "b")
    world.tell(a_slice("a"))
    assert world.unready() == []
    assert world.unready() == ["b"]
    world.restart()
    assert world.unready() == []
    assert world.unready() == ["b"]
