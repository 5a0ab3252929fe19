"""Devices that stand for extended resources: a table of worlds, each argued from the rules of the scheduler."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scheduler_profile import SchedulerProfile
from autoscaler.objects.devices import DeviceClass, ResourceClaim
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import profile_of
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.devices import pools_by_node
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template
from tests.builders import a_node, a_pod
from tests.devices import GPUS, NICS, a_claim, a_claim_template, a_device_class, a_slice, from_template, with_devices

CARD = "example.com/card"
OF_CLASS = f"deviceclass.resource.kubernetes.io/{GPUS}"
MAPPED = a_device_class(GPUS, f"device.driver == '{GPUS}'", resource=CARD)
WITH_NICS = [MAPPED, a_device_class(NICS, f"device.driver == '{NICS}'", resource="example.com/nic")]
OWN = {CARD: "3"}
MANY = 20


def room(
    devices: int,
    *,
    offers: Mapping[str, str] | None = None,
    classes: Sequence[DeviceClass] = (MAPPED,),
    claims: Sequence[ResourceClaim] = (),
    nics: int = 0,
    spec: Mapping[str, Any] | None = None,
    counts: bool = True,
    **requests: str,
) -> tuple[int, list[str]]:
    """Return how many pods a node takes, and why it takes no more; `card`, `nic` and `of_class` are what each requests.

    Placing them one by one and counting them in advance must agree, on the node and on a new one that is like it.
    """
    slices = [a_slice("n", devices=devices), a_slice("n", devices=nics, driver=NICS)]
    related = with_devices(slices, claims, [a_claim_template("one")], classes)
    node = a_node("n", cpu="1000", extra=offers)
    trial = Trial(view_of([node], [], related=related))
    placer = Placer(trial, profile_of(SchedulerProfile(), Rules(), device_claims=counts))
    names = {"card": CARD, "nic": "example.com/nic", "of_class": OF_CLASS}
    cls = a_pod(requests={names[name]: amount for name, amount in requests.items()}, spec=spec).cls
    (fresh,) = trial.add(Template(node, pools=pools_by_node(related.resource_slices).get("n", ())), 1)
    bound = placer.bound(cls, slice(0, 1), fresh)
    counted = []
    for position in (0, fresh):
        count = 0
        while count < MANY and placer.fits(cls, position):
            placer.place(cls, position)
            count += 1
        counted.append(count)
        assert bool(placer.passing(cls, slice(position, position + 1))[0]) is (count == MANY)
    assert bound is not None
    assert [min(int(bound.present[0]), MANY), min(bound.fresh, MANY)] == counted
    assert claims or counted[0] == counted[1]
    return counted[0], [f"{one.message}: {one.detail}" for one in placer.why(cls, 0)]


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        pytest.param(4, lambda: room(4, card="1"), id="a device each"),
        pytest.param(2, lambda: room(4, card="2"), id="two devices each"),
        pytest.param(0, lambda: room(0, card="1"), id="no devices"),
        pytest.param(4, lambda: room(4, of_class="1"), id="by the name that every class has"),
        pytest.param(2, lambda: room(4, card="1", of_class="1"), id="by both names"),
        pytest.param(3, lambda: room(4, offers=OWN, card="1"), id="a node that offers the resource itself"),
        pytest.param(4, lambda: room(4, offers={CARD: "0"}, card="1"), id="a node that offers none of it"),
        pytest.param(3, lambda: room(4, offers=OWN, card="1", nic="1", classes=WITH_NICS, nics=8), id="one of each"),
        pytest.param(2, lambda: room(4, offers=OWN, card="1", nic="1", classes=WITH_NICS, nics=2), id="too few others"),
        pytest.param(2, lambda: room(4, card="1", nic="1", classes=WITH_NICS, nics=2), id="devices of two classes"),
        pytest.param(2, lambda: room(4, card="1", spec=from_template("one")), id="beside a claim"),
        pytest.param(4, lambda: room(4, offers={CARD: "9"}, card="1", spec=from_template("one")), id="claims first"),
        pytest.param(0, lambda: room(4, card="1", classes=[a_device_class(GPUS)]), id="no class stands for it"),
        pytest.param(0, lambda: room(4, card="1", counts=False), id="claims do not count"),
        pytest.param(3, lambda: room(4, offers=OWN, card="1", counts=False), id="then the node alone decides"),
        pytest.param(MANY, lambda: room(4, card="0"), id="none is requested"),
        pytest.param(0, lambda: room(40, card="33"), id="more than one claim may have"),
        pytest.param(3, lambda: room(4, card="1", claims=[a_claim("c", "dev-0")]), id="one is taken"),
    ],
)
def test_so_many_pods_find_what_they_request(expected: int, answer: Any) -> None:
    assert answer()[0] == expected


def test_what_is_lacking_is_told() -> None:
    wants = f"cannot allocate all claims: claim for extended resources: request {CARD} wants 2 of class {GPUS}"
    assert room(3, card="2")[1] == [f"{wants}, 3 of 3 devices match, 1 of them are free"]
    assert room(0, offers=OWN, card="2")[1] == [f"Insufficient {CARD}: needs 2 {CARD}, 1 free"]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        pytest.param([("a", "2026-01-01T00:00:00Z"), ("b", "2026-01-02T00:00:00Z")], 2, id="the newer"),
        pytest.param([("a", "2026-01-03T00:00:00Z"), ("b", "2026-01-02T00:00:00Z")], 4, id="of whatever name"),
        pytest.param([("b", "2026-01-02T00:00:00Z"), ("a", "2026-01-02T00:00:00Z")], 4, id="else the first by name"),
    ],
)
def test_of_several_classes_for_a_resource_one_counts(classes: Sequence[tuple[str, str]], expected: int) -> None:
    """Devices of class `a` are GPUs, of which there are four; those of class `b` are two network cards."""
    drivers = {"a": GPUS, "b": NICS}
    made = [
        a_device_class(name, f"device.driver == '{drivers[name]}'", resource=CARD, created=created)
        for name, created in classes
    ]
    assert room(4, nics=2, card="1", classes=made)[0] == expected


def test_a_pod_that_runs_has_the_devices_of_the_claim_that_was_made_for_it() -> None:
    owner = {"ownerReferences": [{"kind": "Pod", "name": "p", "controller": True}]}
    related = with_devices([a_slice("n", devices=2)], [a_claim("p-extended", "dev-1", meta=owner)], classes=[MAPPED])
    pod = a_pod("p", node="n", requests={CARD: "1"})
    trial = Trial(view_of([a_node("n")], [pod], related=related))
    placer = Placer(trial)
    assert placer.fits(pod.cls, 0)
    placer.place(pod.cls, 0)
    assert not placer.fits(pod.cls, 0)
    trial.lift(pod.cls, 0)
    assert placer.fits(pod.cls, 0)
