"""How full devices make a node, and what that does to it."""

from collections.abc import Sequence

import pytest

from autoscaler.objects.devices import ResourceClaim, ResourceSlice
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import plain_decoder
from autoscaler.reasons import UnremovableReason
from autoscaler.scaledown.devices import DeviceUse, device_uses, pool_share
from autoscaler.snapshot.devices import pools_by_node
from tests.builders import a_node, a_pod
from tests.devices import (
    GPUS,
    NICS,
    a_claim,
    a_claim_template,
    a_part,
    a_slice,
    claim_form,
    claiming,
    from_template,
    with_devices,
)
from tests.unit.scaledown.pieces import Cluster, reasons

CARDS = {"card-0": {"memory": "80Gi", "engines": 8}, "card-1": {"memory": "80Gi", "engines": 8}}
PARTS = [
    a_part("half-0", "card-0", memory="40Gi", engines=2),
    a_part("rest-0", "card-0", memory="20Gi", engines=4),
    a_part("whole-1", "card-1", memory="80Gi", engines=8),
]
WHOLE = [{"name": "own-0"}, {"name": "own-1"}]


@pytest.mark.parametrize(
    ("devices", "allocated", "share"),
    [
        pytest.param(WHOLE, [], 0, id="nothing is allocated"),
        pytest.param(WHOLE, ["own-1"], 1 / 2, id="devices are counted"),
        pytest.param(WHOLE, ["own-1", "gone"], 1 / 2, id="devices that are gone are not"),
        pytest.param([], [], 0, id="an empty pool is not used"),
        pytest.param(PARTS, [], 0, id="no part is allocated"),
        pytest.param(PARTS, ["half-0"], (4 / 8) / 2, id="the scarcest counter speaks for its card, the cards share"),
        pytest.param(PARTS, ["half-0", "rest-0"], (6 / 8) / 2, id="parts of a card add up"),
        pytest.param(PARTS, ["half-0", "whole-1"], (4 / 8 + 1) / 2, id="every card counts alike"),
        pytest.param([*PARTS, *WHOLE], ["own-0"], 1 / 2, id="parts that nobody has do not count beside devices"),
        pytest.param([*PARTS, *WHOLE], ["whole-1"], 1 / 2, id="nor devices beside parts"),
        pytest.param([*PARTS, *WHOLE], ["whole-1", "own-0", "own-1"], 3 / 4, id="both count by their number"),
    ],
)
def test_share_of_a_pool(devices: list[dict[str, object]], allocated: list[str], share: float) -> None:
    (pool,) = pools_by_node(with_devices([a_slice("n", devices=devices, counters=CARDS)]).resource_slices)["n"]
    assert pool_share(pool, dict.fromkeys(allocated, 1.0)) == pytest.approx(share)


def test_an_empty_counter_is_never_scarce() -> None:
    parts = [a_part("odd", "card-0", memory="1", engines=1)]
    one = a_slice("n", devices=parts, counters={"card-0": {"memory": 4, "engines": 0}})
    (pool,) = pools_by_node(with_devices([one]).resource_slices)["n"]
    assert pool_share(pool, {"odd": 1.0}) == 1 / 4


NODE = a_node("n", cpu="4")
POD = a_pod("train", cpu="100m", node="n", spec=claiming("gpu"))
FROM_TEMPLATE = a_pod("train", cpu="100m", node="n", spec=from_template("t"))
USER = a_pod("user", node="n")


def cluster(
    *claims: ResourceClaim, slices: Sequence[ResourceSlice] = (a_slice("n", devices=4),), pods: Sequence[Pod] = ()
) -> Cluster:
    return Cluster([NODE], pods, related=with_devices(slices, claims))


def use(one: Cluster) -> DeviceUse:
    return device_uses(one.view)[0]


def test_nodes_without_devices_are_not_judged_by_them() -> None:
    assert device_uses(cluster(slices=[]).view) == {}
    assert device_uses(cluster(slices=[a_slice("elsewhere")]).view) == {}


@pytest.mark.parametrize(
    ("claim", "pods", "share"),
    [
        pytest.param(a_claim("gpu", "dev-0"), [POD], 1 / 4, id="a claim that a pod names"),
        pytest.param(a_claim("x", "dev-0", "dev-3", users=["user"]), [USER], 1 / 2, id="one reserved for a pod"),
        pytest.param(
            a_claim("x", "dev-0", meta={"ownerReferences": [{"kind": "Pod", "name": "user", "uid": "default/user"}]}),
            [USER],
            1 / 4,
            id="one made for a pod",
        ),
        pytest.param(a_claim("x", "dev-0", users=["user"]), [a_pod("user")], 1 / 4, id="whose pod is on its way here"),
        pytest.param(a_claim("gpu", allocated=False), [POD], 0, id="one that has got nothing"),
        pytest.param(a_claim("gpu", "dev-0", admin=True), [POD], 0, id="access beside others takes nothing"),
        pytest.param(a_claim("x", "dev-0", users=["user"]), [], 0, id="whose pod is not there any more"),
        pytest.param(
            a_claim("x", "dev-0", users=["user"], namespace="other"), [USER], 0, id="whose pod is of another namespace"
        ),
        pytest.param(a_claim("gpu", "dev-0", pool="m"), [POD], 0, id="devices of another pool"),
        pytest.param(a_claim("gpu", "dev-0", driver=NICS), [POD], 0, id="devices of another driver"),
    ],
)
def test_allocated_devices_are_counted(claim: ResourceClaim, pods: list[Pod], share: float) -> None:
    assert use(cluster(claim, pods=pods)).share == pytest.approx(share)


@pytest.mark.parametrize(
    ("consumed", "share"),
    [
        pytest.param({"memory": "10Gi"}, 1 / 8, id="a share"),
        pytest.param({"memory": "10Gi", "cores": 4}, 1 / 2, id="the scarcest capacity speaks for the device"),
        pytest.param({"memory": "100Gi"}, 1, id="never more than the device"),
        pytest.param({}, 1, id="a share of nothing in particular"),
    ],
)
def test_a_shared_device_counts_as_much_as_is_taken_of_it(consumed: dict[str, str], share: float) -> None:
    capacity = {"memory": {"value": "80Gi"}, "cores": {"value": 8}}
    device = {"name": "dev-0", "allowMultipleAllocations": True, "capacity": capacity}
    claim = claim_form("gpu", "dev-0")
    claim["status"]["allocation"]["devices"]["results"][0] |= {"shareID": "s", "consumedCapacity": consumed}
    world = cluster(plain_decoder(ResourceClaim).one(claim), slices=[a_slice("n", devices=[device])], pods=[POD])
    assert use(world).share == pytest.approx(share)


def test_a_pod_of_the_same_name_is_not_the_same_pod() -> None:
    claim = a_claim("x", "dev-0", meta={"ownerReferences": [{"kind": "Pod", "name": "user", "uid": "earlier"}]})
    assert use(cluster(claim, pods=[USER])).share == 0


def test_the_fullest_pool_counts() -> None:
    slices = [a_slice("n", devices=4), a_slice("n", driver=NICS, devices=2)]
    claims = [a_claim("gpu", "dev-0"), a_claim("nic", "dev-1", driver=NICS)]
    pods = [a_pod("train", node="n", spec=claiming("gpu", "nic"))]
    assert use(cluster(*claims, slices=slices, pods=pods)) == DeviceUse(0.5, "nic.example.com/n", gpus=True)


def test_pods_that_do_not_count_do_not_hold_devices() -> None:
    late = a_pod("train", node="n", priority=-100, spec=claiming("gpu"))
    assert use(cluster(a_claim("gpu", "dev-0", users=["train"]), pods=[late])).share == 0


BUSY = [a_claim("gpu", "dev-0", "dev-1", "dev-2", users=["train"])]
FOUR = a_slice("n", devices=4)


def test_a_node_whose_devices_are_in_use_stays_however_idle_its_cpu_is() -> None:
    update = Cluster([NODE], [POD], related=with_devices([FOUR], BUSY)).look()
    assert update.kept["n"].reason is UnremovableReason.NOT_UNDERUTILIZED
    assert update.kept["n"].detail == "75% of its gpu.nvidia.com/n is requested, the threshold is 50%"


def test_a_node_whose_devices_are_idle_goes_however_busy_its_cpu_is() -> None:
    daemon = a_pod("daemon", cpu="3", owner="DaemonSet", node="n")
    assert reasons(Cluster([NODE], [daemon]).look()) == {"n": UnremovableReason.NOT_UNDERUTILIZED}
    assert reasons(Cluster([NODE], [daemon], related=with_devices([FOUR])).look()) == {}


def test_a_node_with_gpus_as_an_extended_resource_is_judged_by_those() -> None:
    node = a_node("n", extra={"nvidia.com/gpu": "4"})
    idle = Cluster([node], [], related=with_devices([a_slice("n", driver=NICS)], BUSY))
    assert idle.look().kept == {}
    training = a_pod("t", requests={"nvidia.com/gpu": "3"}, owner="DaemonSet", node="n")
    assert reasons(Cluster([node], [training], related=with_devices([FOUR])).look()) == {
        "n": UnremovableReason.NOT_UNDERUTILIZED
    }


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        pytest.param(GPUS, {"n": UnremovableReason.NOT_UNDERUTILIZED}, id="GPUs that its label promises"),
        pytest.param(NICS, {}, id="other devices do not speak for GPUs that are not there yet"),
    ],
)
def test_a_labelled_node_is_judged_by_devices_that_are_gpus(
    driver: str, expected: dict[str, UnremovableReason]
) -> None:
    node = a_node("n", labels={"gpu-type": "a100"})
    claims = [a_claim("gpu", "dev-0", "dev-1", "dev-2", driver=driver)]
    daemon = a_pod("train", owner="DaemonSet", node="n", spec=claiming("gpu"))
    related = with_devices([a_slice("n", devices=4, driver=driver)], claims)
    assert reasons(Cluster([node], [daemon], related=related, gpu_label="gpu-type").look()) == expected


def test_a_node_whose_driver_is_still_at_work_stays() -> None:
    update = Cluster([NODE], [], related=with_devices([a_slice("n", slices=2)])).look()
    assert update.kept["n"].reason is UnremovableReason.UNEXPECTED
    assert update.kept["n"].detail == "pool gpu.nvidia.com/n has 1 of its 2 ResourceSlices"


@pytest.mark.parametrize(
    ("pod", "owner", "devices", "moves"),
    [
        pytest.param(POD, None, 1, True, id="its claim is free again once it has gone"),
        pytest.param(POD, None, 0, False, id="no devices elsewhere"),
        pytest.param(FROM_TEMPLATE, "train", 1, True, id="the next pod gets a claim of its own"),
        pytest.param(FROM_TEMPLATE, "train", 0, False, id="no devices elsewhere for the next pod"),
    ],
)
def test_a_pod_moves_only_where_its_claims_are_allocated_again(
    pod: Pod, owner: str | None, devices: int, moves: bool
) -> None:
    other = a_node("other", cpu="8")
    slices = [a_slice("n", devices=4), *([a_slice("other", devices=devices)] if devices else [])]
    meta = {"ownerReferences": [{"kind": "Pod", "name": owner}]} if owner else None
    claims = [a_claim("gpu", "dev-0", users=["train"], meta=meta)]
    related = with_devices(slices, claims, [a_claim_template("t")])
    update = Cluster([NODE, other], [pod], of_node={"n": "g"}, related=related).look()
    stays = {} if moves else {"n": UnremovableReason.NO_PLACE}
    assert reasons(update) == {**stays, "other": UnremovableReason.NOT_AUTOSCALED}


def test_a_pod_does_not_move_where_another_has_the_devices() -> None:
    other = a_node("other", cpu="8")
    slices = [a_slice("n", devices=4), a_slice("other", devices=1)]
    mine = a_claim("mine", "dev-0", users=["train"], meta={"ownerReferences": [{"kind": "Pod", "name": "train"}]})
    theirs = a_claim("theirs", "dev-0", pool="other", node="other", users=["someone"])
    related = with_devices(slices, [mine, theirs], [a_claim_template("t")])
    update = Cluster([NODE, other], [FROM_TEMPLATE], of_node={"n": "g"}, related=related).look()
    assert reasons(update) == {"n": UnremovableReason.NO_PLACE, "other": UnremovableReason.NOT_AUTOSCALED}


@pytest.mark.parametrize(("cpu", "moves"), [("8", True), ("1", False)])
def test_pods_with_a_shared_claim_stay_together(cpu: str, *, moves: bool) -> None:
    """The first that moves takes the claim along; the other has to follow, and cannot where only one finds room."""
    others = [a_node(name, cpu=cpu) for name in ("x", "y")]
    pods = [a_pod(name, cpu="600m", node="n", spec=claiming("gpu")) for name in ("a", "b")]
    slices = [a_slice(name, devices=4) for name in ("n", "x", "y")]
    related = with_devices(slices, [a_claim("gpu", "dev-0", users=["a", "b"])])
    update = Cluster([NODE, *others], pods, of_node={"n": "g"}, related=related).look()
    assert ("n" in reasons(update)) is not moves


def test_a_pod_moves_with_devices_that_are_reached_from_the_other_node_too() -> None:
    other = a_node("other", cpu="8")
    claims = [a_claim("gpu", "dev-0", pool="shared", node=None, users=["train"])]
    one = Cluster([NODE, other], [POD], of_node={"n": "g"}, related=with_devices([a_slice(None)], claims))
    assert reasons(one.look()) == {"other": UnremovableReason.NOT_AUTOSCALED}
