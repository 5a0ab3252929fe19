"""The allocation of devices, held to its plain definition, and what may never happen in a trial."""

from collections import Counter

import pytest

from autoscaler.objects.devices import DeviceClaimSpec, ResourceSlice
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scheduling.device_allocation import NoAllocation, Wanted, allocate, wanted_of
from autoscaler.scheduling.device_ledger import DeviceLedger
from autoscaler.scheduling.device_stock import DeviceId, Stock
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView, view_of
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
    claiming,
    from_template,
    with_devices,
)
from tests.properties.random_clusters import Dice
from tests.properties.slow_allocator import SlowNode
from tests.seeds import seeds

DRIVERS = (GPUS, NICS)
CLASSES = {driver: a_device_class(driver, f"device.driver == '{driver}'") for driver in DRIVERS}
BROKEN: Json = {"key": "broken", "effect": "NoSchedule"}


def some_slices(dice: Dice, node: str | None) -> list[ResourceSlice]:
    pick, found = dice.random, []
    for driver in DRIVERS:
        cards = {f"card-{number}": {"memory": pick.choice((20, 40))} for number in range(pick.randint(0, 1))}
        devices = [_device(dice, number, list(cards)) for number in range(pick.randint(0, 4))]
        slices = 1 if dice.maybe(0.9) else 2
        found.append(a_slice(node, driver=driver, devices=devices, counters=cards, slices=slices))
    return found


def _device(dice: Dice, number: int, cards: list[str]) -> Json:
    part = a_part(f"d{number}", dice.random.choice(cards), memory=10) if cards and dice.maybe(0.5) else {}
    device: Json = {"name": f"d{number}", **part}
    if dice.maybe(0.8):
        device["attributes"] = {"numa": {"int": dice.random.randint(0, 1)}}
    if dice.maybe(0.2):
        device["taints"] = [BROKEN]
    return device


def some_request(dice: Dice, name: str) -> Json:
    pick = dice.random
    if dice.maybe(0.3):
        choices = [some_exact(dice, f"s{number}")["exactly"] for number in range(2)]
        return {"name": name, "firstAvailable": [{"name": f"s{at}", **one} for at, one in enumerate(choices)]}
    request = some_exact(dice, name)
    if pick.random() < 0.1:
        request["exactly"]["adminAccess"] = True
    return request


def some_exact(dice: Dice, name: str) -> Json:
    about: Json = {"tolerations": [{"key": "broken", "operator": "Exists"}]} if dice.maybe(0.3) else {}
    if dice.maybe(0.15):
        about["allocationMode"] = "All"
    return a_request(name, device_class=dice.random.choice(DRIVERS), count=dice.random.randint(1, 2), **about)


def some_constraints(dice: Dice) -> list[Json]:
    made = []
    for _ in dice.several(0.3):
        kind, driver = dice.random.choice(("matchAttribute", "distinctAttribute")), dice.random.choice(DRIVERS)
        made.append({kind: f"{driver}/numa", "requests": dice.random.choice(([], ["a"], ["a/s0", "b"]))})
    return made


def some_spec(dice: Dice) -> DeviceClaimSpec:
    requests = [some_request(dice, name) for name in ("a", "b")[: dice.random.randint(1, 2)]]
    return a_claim_template("t", *requests, constraints=some_constraints(dice)).spec.spec


@pytest.mark.parametrize("seed", seeds(600))
def test_an_allocation_is_the_first_that_its_plain_definition_finds(seed: int) -> None:
    dice = Dice(seed)
    pools = pools_by_node({one.key: one for one in some_slices(dice, "n")}).get("n", ())
    stock = Stock(pools)
    taken = {one for one in stock.ids if dice.maybe(0.2)}
    specs = [some_spec(dice) for _ in range(dice.random.randint(1, 2))]
    wanted = [one for spec in specs if isinstance(one := wanted_of("c", spec, CLASSES), Wanted)]
    assert len(wanted) == len(specs)
    found, expected = allocate(stock, taken, wanted), SlowNode(pools, set(taken)).allocate(specs)
    if isinstance(found, NoAllocation):
        assert expected is None, found.detail
        assert found.detail
    else:
        assert expected == [set(one.taken) for one in found]


def random_view(dice: Dice) -> ClusterView:
    """Return nodes with devices and pods that have theirs; no two claims have the same device."""
    names = ["n0", "n1", "n2"]
    slices = [one for name in names for one in some_slices(dice, name)]
    if dice.maybe(0.3):
        slices += some_slices(dice, None)
    free = [
        (one.spec.driver, one.spec.pool.name, device.name, one.spec.node_name)
        for one in slices
        for device in one.spec.devices
    ]
    dice.random.shuffle(free)
    claims, pods = [], list[Pod]()
    for number in range(min(4, len(free))):
        driver, pool, device, node = free[number]
        owner = {"ownerReferences": [{"kind": "Pod", "name": f"p{number}"}]} if dice.maybe(0.6) else {}
        about: Json = {"driver": driver, "pool": pool, "node": node or None, "meta": owner}
        claims.append(a_claim(f"c{number}", device, **about))
        spec = from_template("t0") if owner else claiming(f"c{number}")
        pods.append(a_pod(f"p{number}", node=node or "n0", spec=spec))
    claims += [a_claim("open", allocated=False), a_claim("open-nic", allocated=False, driver=NICS)]
    templates = [
        a_claim_template(f"t{number}", some_request(dice, "a"), constraints=some_constraints(dice))
        for number in range(2)
    ]
    return view_of([a_node(name) for name in names], pods, related=with_devices(slices, claims, templates))


def holders(ledger: DeviceLedger) -> Counter[tuple[int, DeviceId]]:
    """Count who has each device, by node; -1: devices that several nodes reach."""
    count: Counter[tuple[int, DeviceId]] = Counter()
    for (_, position), holdings in ledger.held.items():
        count.update((home(device, position), device) for holding in holdings for device in holding.devices)
    for claim in ledger.shared_claims.values():
        for device in claim.devices or ():
            position = int(device[1][1:]) if claim.position is None and device[1] != "shared" else claim.position or 0
            count[home(device, position), device] += 1
    return count


def home(device: DeviceId, position: int) -> int:
    return -1 if device[1] == "shared" else position


@pytest.mark.parametrize("seed", seeds(150))
def test_no_device_is_had_twice_and_undoing_gives_everything_back(seed: int) -> None:
    dice = Dice(seed)
    view = random_view(dice)
    trial = Trial(view)
    placer = Placer(trial)
    pods = [a_pod(spec=from_template("t0")), a_pod(spec=from_template("t1")), a_pod(spec=claiming("open"))]
    pods += [a_pod(spec=claiming("open-nic")), a_pod(spec={**from_template("t1")}, cpu="10m")]
    classes = [*(pod.cls for pod in pods), *view.classes]
    ledger = DeviceLedger(trial)
    before = holders(ledger), {cls: [placer.fits(cls, at) for at in range(trial.base)] for cls in classes}
    own = pools_by_node(view.related.resource_slices).get("n0", ())
    with trial.fork():
        trial.add(Template(a_node("new"), pools=own), 2)
        for _ in range(dice.random.randint(1, 12)):
            change(dice, trial, placer, classes)
            assert all(count == 1 for count in holders(ledger).values())
    assert before == (holders(ledger), {cls: [placer.fits(cls, at) for at in range(trial.base)] for cls in classes})


def change(dice: Dice, trial: Trial, placer: Placer, classes: list[PodClass]) -> None:
    cls, at = dice.random.choice(classes), dice.random.randrange(trial.count)
    if dice.maybe(0.3) and trial.classes_on(at):
        trial.lift(dice.random.choice(list(trial.classes_on(at))), at)
    elif placer.fits(cls, at):
        trial.place(cls, at)
    assert placer.passing(cls, slice(0, trial.count)).tolist() == [placer.fits(cls, at) for at in range(trial.count)]
