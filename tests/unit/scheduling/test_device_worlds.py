"""How many pods find devices on a node: a table of worlds, each argued from the rules of the scheduler's allocator."""

from collections.abc import Sequence
from typing import Any

import pytest

from autoscaler.objects.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from autoscaler.objects.pod import PodClass
from autoscaler.objects.workload import plain_decoder
from autoscaler.scheduling.device_allocation import MOST_STEPS
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.devices import pools_by_node
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template
from tests.builders import a_node, a_pod
from tests.devices import (
    GPUS,
    NICS,
    Json,
    a_claim,
    a_claim_template,
    a_device_class,
    a_part,
    a_request,
    a_slice,
    a_taint_rule,
    claim_form,
    from_template,
    with_devices,
)

MANY = 20
"""Pods that are tried; more than any world here has room for."""
ATTRIBUTE = f"device.attributes['{GPUS}']"


def dev(name: str, *, basic: bool = False, taints: Sequence[Json] = (), memory: str = "", **attributes: Any) -> Json:
    """Return a device; attributes are texts, whole numbers, truth values, or lists of texts or of whole numbers."""
    kinds = {str: "string", int: "int", bool: "bool"}
    body: Json = {"attributes": {}}
    for key, value in attributes.items():
        kind = f"{kinds[type(value[0])]}s" if isinstance(value, list) else kinds[type(value)]
        body["attributes"][key] = {kind: value}
    if memory:
        body["capacity"] = {"memory": {"value": memory}}
    if taints:
        body["taints"] = list(taints)
    return {"name": name, "basic": body} if basic else {"name": name, **body}


def room(
    devices: int | Sequence[Json | ResourceSlice],
    *requests: Json,
    claims: Sequence[ResourceClaim] = (),
    classes: Sequence[DeviceClass] | None = None,
    constraints: Sequence[Json] = (),
    rules: Sequence[DeviceTaintRule] = (),
    same: bool = True,
) -> tuple[int, str]:
    """Return how many pods, each with a claim of its own, find devices on a node, and what the next one lacks.

    Placing them one by one and counting them in advance must agree, on the node and on a new one that is like it; a
    new one has room for just as many unless that is not the `same`.
    """
    slices = [one for one in devices if isinstance(one, ResourceSlice)] if isinstance(devices, Sequence) else []
    if not slices and devices:
        plain = devices if isinstance(devices, int) else [one for one in devices if not isinstance(one, ResourceSlice)]
        slices = [a_slice("n", devices=plain)]
    template = a_claim_template("one", *requests, constraints=list(constraints))
    related = with_devices(slices, claims, [template], classes, rules)
    trial = Trial(view_of([a_node("n", cpu="1000")], [], related=related))
    placer, cls = Placer(trial), a_pod(spec=from_template("one")).cls
    own = pools_by_node(related.resource_slices).get("n", ())
    fresh = trial.add(Template(a_node("template", cpu="1000"), pools=own), 1)[0]
    bound = placer.bound(cls, slice(0, 1), fresh)
    with trial.fork():
        on_fresh = fitting(placer, cls, fresh)
    count = fitting(placer, cls, 0)
    if bound is not None:
        assert [min(int(bound.present[0]), MANY), min(bound.fresh, MANY)] == [count, on_fresh]
    if not claims and same:
        assert count == on_fresh
    rejections = placer.why(cls, 0)
    return count, rejections[0].detail if rejections else ""


def fitting(placer: Placer, cls: PodClass, position: int) -> int:
    """Place pods on a node while they fit; return how many."""
    count = 0
    while count < MANY and placer.fits(cls, position):
        placer.place(cls, position)
        count += 1
    return count


def shared(name: str = "gpu", memory: str = "80Gi", policy: Json | None = None, **about: Any) -> Json:
    """Return a device that several claims may have shares of."""
    capacity: Json = {"value": memory, **({"requestPolicy": policy} if policy else {})}
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": capacity}, **about}


def some_of(name: str = "r", count: int = 1, **requests: str) -> Json:
    """Return a request for shares of devices."""
    return a_request(name, count=count, capacity={"requests": requests})


def a_share(name: str, device: str = "gpu", **consumed: str) -> ResourceClaim:
    """Return a claim that has a share of a device."""
    form = claim_form(name, device)
    form["status"]["allocation"]["devices"]["results"][0] |= {"shareID": name, "consumedCapacity": consumed}
    return plain_decoder(ResourceClaim).one(form)


VALUES: Json = {"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]}
STEPS: Json = {"default": "10Gi", "validRange": {"min": "10Gi", "max": "50Gi", "step": "20Gi"}}
FABRIC = [dev("a", racks=["x", "y"]), dev("b", racks=["y", "z"]), dev("c", racks=["z"]), dev("d", racks="y")]
SAME_RACK: Json = {"matchAttribute": f"{GPUS}/racks"}
OTHER_RACK: Json = {"distinctAttribute": f"{GPUS}/racks"}
BROKEN_GPU = a_taint_rule(driver=GPUS, device="dev-1")
NO_SCHEDULE: Json = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
TOLERATED: Json = {"key": "broken", "operator": "Exists"}
A100, H100 = dev("a", model="A100", memory="40Gi"), dev("h", model="H100", memory="80Gi")
PAIRS = [dev(f"d{number}", numa=number // 2) for number in range(4)]
HALVES = [
    a_part("whole", "card", memory="80Gi"),
    a_part("left", "card", memory="40Gi"),
    a_part("right", "card", memory="40Gi"),
]
CARD = {"card": {"memory": "80Gi"}}
CUT, HALVES_FIRST = (a_slice("n", devices=one, counters=CARD) for one in (HALVES, HALVES[::-1]))
WANTS_PAIR = a_request(count=2)
SAME_NUMA: Json = {"matchAttribute": f"{GPUS}/numa"}
OTHER_NUMA: Json = {"distinctAttribute": f"{GPUS}/numa"}


def first_of(*alternatives: Json) -> Json:
    """Return a request for the first of several things that can be had."""
    return {
        "name": "r",
        "firstAvailable": [{"name": f"s{number}", **one["exactly"]} for number, one in enumerate(alternatives)],
    }


def everything(**about: Any) -> Json:
    return a_request(allocationMode="All", **about)


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        pytest.param(0, lambda: room(0), id="no devices"),
        pytest.param(4, lambda: room(4), id="one each"),
        pytest.param(2, lambda: room(4, a_request(count=2)), id="two each"),
        pytest.param(1, lambda: room(4, a_request(count=3)), id="what is left over is of no use"),
        pytest.param(0, lambda: room(4, a_request(count=5)), id="more than there are"),
        pytest.param(1, lambda: room(32, a_request(count=32)), id="as many as a claim may have"),
        pytest.param(0, lambda: room(40, a_request(count=33)), id="more than a claim may have"),
        pytest.param(
            0, lambda: room(40, a_request("a", count=20), a_request("b", count=20)), id="more in all requests"
        ),
        pytest.param(2, lambda: room(4, a_request("a"), a_request("b")), id="two requests"),
        pytest.param(1, lambda: room(4, a_request("a"), a_request("b", count=2)), id="two requests of another size"),
        pytest.param(1, lambda: room(4, everything()), id="all devices"),
        pytest.param(0, lambda: room(0, everything()), id="all of none"),
        pytest.param(0, lambda: room(4, everything(), claims=[a_claim("c", "dev-1")]), id="all, and one is taken"),
        pytest.param(0, lambda: room(33, everything()), id="all are more than a claim may have"),
        pytest.param(3, lambda: room(4, claims=[a_claim("c", "dev-1")]), id="one is taken"),
        pytest.param(
            4, lambda: room(4, claims=[a_claim("c", "dev-1", admin=True)]), id="an administrator takes nothing"
        ),
        pytest.param(
            4, lambda: room(4, claims=[a_claim("c", "dev-1", pool="m")]), id="a device of another pool is taken"
        ),
        pytest.param(
            3, lambda: room(4, claims=[a_claim("c", "dev-1"), a_claim("d", "dev-1")]), id="one is taken by two claims"
        ),
        pytest.param(MANY, lambda: room(1, a_request(adminAccess=True)), id="administrators share a device"),
        pytest.param(
            0, lambda: room(1, a_request(adminAccess=True, count=2)), id="an administrator gets no device twice"
        ),
        pytest.param(
            MANY,
            lambda: room(1, a_request(adminAccess=True), claims=[a_claim("c", "dev-0")]),
            id="an administrator gets what is taken",
        ),
        pytest.param(1, lambda: room([A100, H100], a_request("r", f"{ATTRIBUTE}.model == 'H100'")), id="by attribute"),
        pytest.param(
            1,
            lambda: room(
                [A100, H100], a_request("r", f"device.capacity['{GPUS}'].memory.isGreaterThan(quantity('50Gi'))")
            ),
            id="by capacity",
        ),
        pytest.param(0, lambda: room([A100, H100], a_request("r", "device.driver == 'other'")), id="by driver"),
        pytest.param(
            1,
            lambda: room(
                [A100, H100], a_request("r", f"{ATTRIBUTE}.model != 'T4'", f"{ATTRIBUTE}.model.startsWith('A')")
            ),
            id="all selectors must match",
        ),
        pytest.param(
            1,
            lambda: room([A100, H100], classes=[a_device_class(GPUS, f"{ATTRIBUTE}.model == 'A100'")]),
            id="the class selects",
        ),
        pytest.param(0, lambda: room(4, classes=[]), id="there is no such class"),
        pytest.param(4, lambda: room(4, classes=[a_device_class(GPUS)]), id="a class without selectors takes all"),
        pytest.param(
            0, lambda: room([A100, H100], a_request("r", f"{ATTRIBUTE}.speed > 3")), id="no value: the claim fails"
        ),
        pytest.param(
            1,
            lambda: room([H100, A100], a_request("r", f"{ATTRIBUTE}.model == 'H100' || {ATTRIBUTE}.speed > 3")),
            id="the first device does before one without a value is asked",
        ),
        pytest.param(0, lambda: room(4, a_request("r", "device.driver ==")), id="a selector that cannot be read"),
        pytest.param(
            1,
            lambda: room([dev("d", basic=True, model="A100")], a_request("r", f"{ATTRIBUTE}.model == 'A100'")),
            id="a device as v1beta1 writes it",
        ),
        pytest.param(
            2, lambda: room(4, {"name": "r", "deviceClassName": GPUS, "count": 2}), id="a request as v1beta1 writes it"
        ),
        pytest.param(2, lambda: room(PAIRS, WANTS_PAIR, constraints=[SAME_NUMA]), id="pairs of one NUMA node"),
        pytest.param(
            1,
            lambda: room(PAIRS, WANTS_PAIR, constraints=[SAME_NUMA], claims=[a_claim("c", "d0")]),
            id="half a pair is none",
        ),
        pytest.param(
            0, lambda: room(PAIRS, a_request(count=3), constraints=[SAME_NUMA]), id="no three in one NUMA node"
        ),
        pytest.param(0, lambda: room(4, WANTS_PAIR, constraints=[SAME_NUMA]), id="devices without the attribute"),
        pytest.param(
            2,
            lambda: room(PAIRS, a_request("a"), a_request("b"), constraints=[{**SAME_NUMA, "requests": ["a", "b"]}]),
            id="a constraint between requests",
        ),
        pytest.param(
            2,
            lambda: room(4, a_request("a"), a_request("b"), constraints=[{**SAME_NUMA, "requests": ["c"]}]),
            id="a constraint of no request here",
        ),
        pytest.param(2, lambda: room(PAIRS, WANTS_PAIR, constraints=[OTHER_NUMA]), id="one of each NUMA node"),
        pytest.param(0, lambda: room(PAIRS, a_request(count=3), constraints=[OTHER_NUMA]), id="no three NUMA nodes"),
        pytest.param(0, lambda: room(PAIRS, everything(), constraints=[SAME_NUMA]), id="all, but they do not match"),
        pytest.param(0, lambda: room(4, constraints=[{"requests": ["r"]}]), id="a constraint that is not known"),
        pytest.param(0, lambda: room([dev("d", taints=[NO_SCHEDULE])]), id="a taint"),
        pytest.param(
            1, lambda: room([dev("d", taints=[NO_SCHEDULE])], a_request(tolerations=[TOLERATED])), id="tolerated"
        ),
        pytest.param(
            0,
            lambda: room([dev("d", taints=[NO_SCHEDULE])], a_request(tolerations=[{"key": "broken", "value": "no"}])),
            id="another value is tolerated",
        ),
        pytest.param(
            0,
            lambda: room(
                [dev("d", taints=[NO_SCHEDULE])], a_request(tolerations=[{**TOLERATED, "effect": "NoExecute"}])
            ),
            id="another effect is tolerated",
        ),
        pytest.param(
            1, lambda: room([dev("d", taints=[{**NO_SCHEDULE, "effect": "None"}])]), id="a taint without effect"
        ),
        pytest.param(
            0, lambda: room([dev("d", taints=[NO_SCHEDULE]), dev("e")], everything()), id="all, and one has a taint"
        ),
        pytest.param(
            3,
            lambda: room(4, first_of(a_request(count=3), a_request())) and room(3, first_of(a_request())),
            id="an alternative alone is a request",
        ),
        pytest.param(2, lambda: room(4, first_of(a_request(count=3), a_request())), id="the second best when need be"),
        pytest.param(
            1,
            lambda: room([A100], first_of(a_request("r", f"{ATTRIBUTE}.model == 'H100'"), a_request())),
            id="the second best because the best is not there",
        ),
        pytest.param(
            1,
            lambda: room(
                PAIRS[:2],
                first_of(a_request(count=2), a_request()),
                a_request("b"),
                constraints=[{**SAME_NUMA, "requests": ["r/s1", "b"]}],
            ),
            id="an alternative gives way to the next request",
        ),
        pytest.param(1, lambda: room([CUT]), id="the scheduler takes the whole card, as it comes first"),
        pytest.param(2, lambda: room([HALVES_FIRST]), id="two halves of a card"),
        pytest.param(1, lambda: room([CUT], claims=[a_claim("c", "left")]), id="a half is left when a half is taken"),
        pytest.param(0, lambda: room([CUT], claims=[a_claim("c", "whole")]), id="no half of a card that is taken"),
        pytest.param(0, lambda: room([CUT], a_request(count=3)), id="the whole and its halves are not had together"),
        pytest.param(0, lambda: room([a_slice("n", devices=4, slices=2)]), id="a driver has not told of all devices"),
        pytest.param(
            4,
            lambda: room([a_slice("n", devices=4), a_slice("n", devices=2, driver=NICS, slices=2)]),
            id="another driver has not",
        ),
        pytest.param(
            0,
            lambda: room([a_slice("n", devices=4), a_slice("n", devices=2, driver=NICS, slices=2)], everything()),
            id="all can be told only once every driver has told all",
        ),
        pytest.param(0, lambda: room([dev("d"), dev("d")]), id="a pool that names a device twice"),
        pytest.param(
            2,
            lambda: room([a_slice("n", devices=4, name="old"), a_slice("n", devices=2, name="new", generation=2)]),
            id="the newest generation counts",
        ),
        pytest.param(
            2,
            lambda: room(
                [a_slice("n", devices=2), a_slice("n", devices=4, driver=NICS)],
                a_request("g"),
                a_request("n", device_class=NICS, count=2),
            ),
            id="two drivers",
        ),
        pytest.param(0, lambda: room([a_slice("m", devices=4)]), id="devices of another node"),
        pytest.param(4, lambda: room([a_slice(None, devices=4)]), id="devices of all nodes"),
        pytest.param(8, lambda: room([shared()], some_of(memory="10Gi")), id="shares of a device"),
        pytest.param(1, lambda: room([shared()]), id="who says nothing has all of a shared device"),
        pytest.param(8, lambda: room([shared(policy=VALUES)]), id="or the default"),
        pytest.param(4, lambda: room([shared(policy=VALUES)], some_of(memory="11Gi")), id="the next valid amount"),
        pytest.param(0, lambda: room([shared(policy=VALUES)], some_of(memory="41Gi")), id="above all valid amounts"),
        pytest.param(8, lambda: room([shared(policy=STEPS)], some_of(memory="1Gi")), id="the least amount"),
        pytest.param(2, lambda: room([shared(policy=STEPS)], some_of(memory="11Gi")), id="the next step"),
        pytest.param(1, lambda: room([shared(policy=STEPS)], some_of(memory="50Gi")), id="the most"),
        pytest.param(0, lambda: room([shared(policy=STEPS)], some_of(memory="51Gi")), id="above the most"),
        pytest.param(0, lambda: room([shared()], some_of(memory="81Gi")), id="more than the device has"),
        pytest.param(0, lambda: room([shared()], some_of(cores="1")), id="a capacity that the device does not have"),
        pytest.param(
            0,
            lambda: room([shared()], a_request(capacity={"requests": {f"{GPUS}/memory": "1Gi"}})),
            id="a capacity is asked for by the name that the driver writes",
        ),
        pytest.param(MANY, lambda: room([shared()], some_of(memory="0")), id="shares of nothing"),
        pytest.param(
            MANY,
            lambda: room([{"name": "gpu", "allowMultipleAllocations": True}]),
            id="a shared device without capacity has room for any number",
        ),
        pytest.param(0, lambda: room([shared()], some_of(count=2, memory="1Gi")), id="two shares are of two devices"),
        pytest.param(
            4,
            lambda: room([shared("a"), shared("b", "40Gi")], some_of(count=2, memory="10Gi")),
            id="two shares of two devices",
        ),
        pytest.param(
            4,
            lambda: room([shared()], some_of("a", memory="10Gi"), some_of("b", memory="10Gi")),
            id="two requests of one claim share a device",
        ),
        pytest.param(
            5,
            lambda: room([shared()], some_of(memory="10Gi"), claims=[a_share("c", memory="30Gi")]),
            id="shares that others have are taken",
        ),
        pytest.param(
            0,
            lambda: room([shared()], some_of(memory="10Gi"), claims=[a_claim("c", "gpu")]),
            id="a shared device that somebody has whole",
        ),
        pytest.param(
            1, lambda: room([A100, H100], some_of(memory="50Gi")), id="capacity of devices that are not shared"
        ),
        pytest.param(
            2,
            lambda: room([shared("a", "40Gi"), shared("b")], everything(capacity={"requests": {"memory": "40Gi"}})),
            id="all devices that have the capacity: of two, then of one",
        ),
        pytest.param(
            4,
            lambda: room(
                [shared(), dev("plain", memory="80Gi")],
                a_request("r", "device.allowMultipleAllocations", capacity={"requests": {"memory": "20Gi"}}),
            ),
            id="only devices that may be shared",
        ),
        pytest.param(
            8,
            lambda: room(
                [
                    a_slice(
                        "n",
                        devices=[
                            {**a_part("gpu", "card", memory="80Gi"), **shared()},
                            a_part("whole", "card", memory="80Gi"),
                        ],
                        counters=CARD,
                    )
                ],
                some_of(memory="10Gi"),
            ),
            id="shares use up the counters of their device once",
        ),
        pytest.param(
            1, lambda: room(FABRIC, WANTS_PAIR, constraints=[SAME_RACK]), id="lists that have a value in common"
        ),
        pytest.param(
            1, lambda: room([FABRIC[0], FABRIC[3]], WANTS_PAIR, constraints=[SAME_RACK]), id="a value that a list has"
        ),
        pytest.param(
            0, lambda: room(FABRIC[:3], a_request(count=3), constraints=[SAME_RACK]), id="no value that all three have"
        ),
        pytest.param(1, lambda: room(FABRIC, WANTS_PAIR, constraints=[OTHER_RACK]), id="lists without a common value"),
        pytest.param(
            0,
            lambda: room([dev("a", racks=[1, 2]), dev("b", racks=["1", "2"])], WANTS_PAIR, constraints=[SAME_RACK]),
            id="values of another type are other values",
        ),
        pytest.param(
            3,
            lambda: room(FABRIC, a_request("r", f"{ATTRIBUTE}.racks.includes('y')")),
            id="a selector of lists and values",
        ),
        pytest.param(
            1,
            lambda: room(FABRIC[:1], a_request("r", f"{ATTRIBUTE}.racks.exists(r, r == 'x')")),
            id="a loop over a list",
        ),
        pytest.param(3, lambda: room(4, rules=[BROKEN_GPU]), id="a rule taints a device"),
        pytest.param(
            4, lambda: room(4, a_request(tolerations=[TOLERATED]), rules=[BROKEN_GPU]), id="which is tolerated"
        ),
        pytest.param(0, lambda: room(4, rules=[a_taint_rule()]), id="a rule without conditions taints all"),
        pytest.param(4, lambda: room(4, rules=[a_taint_rule(effect="None")]), id="a rule that only informs"),
        pytest.param(4, lambda: room(4, rules=[a_taint_rule(effect="Later")]), id="an effect of the future"),
        pytest.param(4, lambda: room(4, rules=[a_taint_rule(driver=NICS)]), id="a rule for another driver"),
        pytest.param(0, lambda: room(4, rules=[a_taint_rule(pool="n")], same=False), id="a rule for the node's pool"),
        pytest.param(4, lambda: room(4, rules=[a_taint_rule(pool="m")]), id="a rule for another pool"),
        pytest.param(
            4, lambda: room(4, rules=[a_taint_rule(deviceClassName="none")]), id="a rule for a class that is not there"
        ),
        pytest.param(0, lambda: room(4, rules=[a_taint_rule(deviceClassName=GPUS)]), id="a rule for a class"),
        pytest.param(
            1,
            lambda: room(
                [A100, H100], rules=[a_taint_rule(selectors=[{"cel": {"expression": f"{ATTRIBUTE}.model == 'A100'"}}])]
            ),
            id="a rule with a selector",
        ),
        pytest.param(4, lambda: room(4, rules=[a_taint_rule(selectors=[{"future": {}}])]), id="a rule of the future"),
        pytest.param(
            0,
            lambda: room([a_slice("n", devices=[a_part("d", "none", memory="1")], counters=CARD)]),
            id="a device takes of counters that are not there",
        ),
        pytest.param(
            0,
            lambda: room([a_slice("n", devices=[a_part("d", "card", cores="1")], counters=CARD)]),
            id="a device takes of a counter that is not there",
        ),
    ],
)
def test_so_many_pods_find_devices(expected: int, answer: Any) -> None:
    assert answer()[0] == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            lambda: room(3, a_request(count=2)),
            "claim one: request r wants 2 of class gpu.nvidia.com, 3 of 3 devices match, 1 of them are free",
        ),
        (
            lambda: room([A100], a_request("r", f"{ATTRIBUTE}.model == 'H100'")),
            "claim one: request r wants 1 of class gpu.nvidia.com, 0 of 1 devices match",
        ),
        (
            lambda: room([dev("d", taints=[NO_SCHEDULE])]),
            "claim one: request r wants 1 of class gpu.nvidia.com, 1 of 1 devices match, "
            "0 of them untainted and with counters left",
        ),
        (
            lambda: room([a_slice("n", devices=4, slices=2)]),
            "claim one: request r wants 1 of class gpu.nvidia.com, 0 of 0 devices match "
            "(pool gpu.nvidia.com/n has 1 of its 2 ResourceSlices)",
        ),
        (
            lambda: room([shared()], some_of(memory="30Gi")),
            "claim one: request r wants 1 of class gpu.nvidia.com, 1 of 1 devices match, "
            "0 of them have the capacity left",
        ),
        (
            lambda: room([a_slice("n", devices=[a_part("d", "none", memory="1")])]),
            "claim one: request r wants 1 of class gpu.nvidia.com, 0 of 0 devices match "
            "(pool gpu.nvidia.com/n lacks counter set 'none' that a device takes)",
        ),
        (lambda: room(4, classes=[]), "claim one: there is no DeviceClass gpu.nvidia.com"),
        (
            lambda: room(4, a_request("r", "device.driver ==")),
            "selector 'device.driver ==': has 'its end' where a value should be",
        ),
        (
            lambda: room(PAIRS, a_request(count=3), constraints=[SAME_NUMA]),
            "the requests of its claims cannot be met together",
        ),
    ],
)
def test_what_a_node_lacks_is_told(answer: Any, expected: str) -> None:
    assert answer()[1] == expected


@pytest.mark.parametrize("claims", [16, 3000])
def test_a_pod_with_very_many_claims_stops_nobody(claims: int) -> None:
    template = a_claim_template("one", a_request(count=8))
    related = with_devices([a_slice("n", devices=128)], templates=[template])
    placer = Placer(Trial(view_of([a_node("n")], [], related=related)))
    rejections = placer.why(a_pod(spec=from_template(*["one"] * claims)).cls, 0)
    details = [one.detail for one in rejections]
    assert details == ([] if claims == 16 else ["its claims ask for too many devices to be tried"])


def test_a_hopeless_search_ends() -> None:
    """Thirty devices that differ, and no ten of them alike: more combinations than anyone can try."""
    devices = [dev(f"d{number}", numa=number, rack=number % 9) for number in range(30)]
    constraint = {"matchAttribute": f"{GPUS}/rack"}
    assert room(devices, a_request(count=10), constraints=[constraint])[0] == 0
    distinct = [{"distinctAttribute": f"{GPUS}/rack"}]
    count, why = room(devices, a_request("a", count=9), a_request("b", count=9), constraints=distinct)
    assert (count, why) == (0, f"no allocation was found in {MOST_STEPS} steps")
