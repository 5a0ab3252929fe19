"""The allocation of devices, held to its plain definition, and what may never happen in a trial."""

from collections import Counter
from fractions import Fraction

import pytest

from autoscaler.objects.devices import DeviceClaimSpec, ResourceClaim, ResourceSlice
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.workload import plain_decoder
from autoscaler.scheduling.device_allocation import allocate
from autoscaler.scheduling.device_ledger import DeviceLedger, SharedClaim
from autoscaler.scheduling.device_shares import SHARES, Amounts, DeviceId, Holding, share_of, together
from autoscaler.scheduling.device_stock import Stock
from autoscaler.scheduling.device_wants import NoAllocation, Wanted, wanted_of
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
    claim_form,
    claiming,
    from_template,
    with_devices,
)
from tests.properties.random_clusters import Dice
from tests.properties.slow_allocator import SlowNode
from tests.seeds import seeds

DRIVERS = (GPUS, NICS)
CARDS, OF_NICS = "example.com/card", f"deviceclass.resource.kubernetes.io/{NICS}"
CLASSES = {
    driver: a_device_class(driver, f"device.driver == '{driver}'", resource=CARDS if driver == GPUS else "")
    for driver in DRIVERS
}
NUMAS: list[Json] = [{"int": 0}, {"int": 1}, {"ints": [0, 1]}, {"ints": [1, 2]}, {"string": "0"}]
POLICIES: list[Json] = [
    {"default": 10, "validValues": [10, 20, 40]},
    {"default": 5, "validRange": {"min": 5, "max": 25, "step": 10}},
    {"default": 20, "validRange": {"min": 10}},
    {"default": 15},
]
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
        device["attributes"] = {"numa": dice.random.choice(NUMAS)}
    if dice.maybe(0.5):
        device["capacity"] = {"memory": {"value": 40}}
    if dice.maybe(0.3):
        policy = {"requestPolicy": dice.random.choice(POLICIES)} if dice.maybe(0.7) else {}
        device |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": 40, **policy}}}
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
    if dice.maybe(0.4):
        about["capacity"] = {"requests": {"memory": dice.random.choice((0, 3, 10, 17, 30, 45))}}
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
    shares = [
        (offer.id, dice.random.choice((0, 5, 20)) if offer.capacities else 0)
        for offer in stock.offers
        if offer.shared and offer.id not in taken
        for _ in dice.several(0.4)
    ]
    held = Holding(frozenset(taken)) + together(share_of(device, _memory(size)) for device, size in shares)
    specs = [some_spec(dice) for _ in range(dice.random.randint(1, 2))]
    wanted = [one for spec in specs if isinstance(one := wanted_of("c", spec, CLASSES), Wanted)]
    assert len(wanted) == len(specs)
    found, expected = allocate(stock, held, wanted), SlowNode(pools, taken, shares).allocate(specs)
    if isinstance(found, NoAllocation):
        assert expected is None, found.detail
        assert found.detail
    else:
        assert expected is not None
        sums = [
            together(
                Holding(frozenset((device,))) if not _is_share(stock, device) else share_of(device, _memory(size))
                for (device, size), times in claim.items()
                for _ in range(times)
            )
            for claim in expected
        ]
        assert sums == [one.taken for one in found]


def _is_share(stock: Stock, device: DeviceId) -> bool:
    return stock.offers[stock.ids[device]].shared


def _memory(size: int) -> Amounts:
    return {"memory": Fraction(size)}


def random_view(dice: Dice) -> ClusterView:
    """Return nodes with devices and pods that have theirs; no two claims have the same device."""
    names = ["n0", "n1", "n2"]
    slices = [one for name in names for one in some_slices(dice, name)]
    if dice.maybe(0.3):
        slices += some_slices(dice, None)
    free = [(one.spec, device) for one in slices for device in one.spec.devices]
    dice.random.shuffle(free)
    claims, pods = [], list[Pod]()
    for number, (spec, device) in enumerate(free[:4]):
        owner = {"ownerReferences": [{"kind": "Pod", "name": f"p{number}"}]} if dice.maybe(0.6) else {}
        node = spec.node_name
        form = claim_form(
            f"c{number}", device.name, driver=spec.driver, pool=spec.pool.name, node=node or None, meta=owner
        )
        if device.allow_multiple_allocations:
            (result,) = form["status"]["allocation"]["devices"]["results"]
            result |= {"shareID": f"share-{number}", "consumedCapacity": {"memory": 10}}
        claims.append(plain_decoder(ResourceClaim).one(form))
        pods.append(
            a_pod(f"p{number}", node=node or "n0", spec=from_template("t0") if owner else claiming(f"c{number}"))
        )
    claims += [a_claim("open", allocated=False), a_claim("open-nic", allocated=False, driver=NICS)]
    templates = [
        a_claim_template(f"t{number}", some_request(dice, "a"), constraints=some_constraints(dice))
        for number in range(2)
    ]
    nodes = [a_node(name, extra={CARDS: "2"} if dice.maybe(0.3) else {}) for name in names]
    return view_of(nodes, pods, related=with_devices(slices, claims, templates, CLASSES.values()))


Held = dict[int, list[Holding]]
"""What pods and claims have, by node; -1: what several nodes reach."""


def holdings(ledger: DeviceLedger) -> Held:
    """Return what pods and claims have."""
    held: Held = {}
    every = [(position, one.devices) for (_, position), mine in ledger.held.items() for one in mine]
    every += [(_place(claim), claim.devices) for claim in ledger.shared_claims.values() if claim.devices]
    for position, holding in every:
        for device in holding.used:
            alone = Holding(
                holding.devices & {device}, frozenset(share for share in holding.shares if share[0][0] == device)
            )
            held.setdefault(home(device, position), []).append(alone)
    return held


def _place(claim: SharedClaim) -> int:
    """Return the node whose devices a claim has."""
    if claim.position is not None or claim.devices is None:
        return claim.position or 0
    (pool,) = {pool for _, pool, _ in claim.devices.used}
    return 0 if pool == "shared" else int(pool[1:])


def overdrawn(ledger: DeviceLedger) -> set[tuple[int, object]]:
    """Return the devices, capacities and counters of which more is had than there is, each with its node."""
    found = set[tuple[int, object]]()
    for position, held in holdings(ledger).items():
        stock = ledger.stock(max(position, 0))
        whole = Counter(device for one in held for device in one.devices)
        shared = {device for one in held for (device, _), _ in one.shares}
        found |= {(position, device) for device, count in whole.items() if count + (device in shared) > 1}
        for (device, name), amount in together(held).shares:
            if name != SHARES and device in stock.ids:
                capacity = stock.offers[stock.ids[device]].capacities[name]
                found |= {(position, (device, name))} if amount > capacity.value else set()
        used = Counter[object]()
        for device in {*whole, *shared}:
            used.update(dict(stock.consumes.get(device, ())))
        found |= {(position, counter) for counter, size in stock.counters.items() if used[counter] > size}
    return found


def home(device: DeviceId, position: int) -> int:
    return -1 if device[1] == "shared" else position


@pytest.mark.parametrize("seed", seeds(150))
def test_nothing_is_had_twice_and_undoing_gives_everything_back(seed: int) -> None:
    dice = Dice(seed)
    view = random_view(dice)
    trial = Trial(view)
    placer = Placer(trial)
    pods = [a_pod(spec=from_template("t0")), a_pod(spec=from_template("t1")), a_pod(spec=claiming("open"))]
    pods += [
        a_pod(requests={CARDS: "1"}),
        a_pod(requests={CARDS: "2", f"deviceclass.resource.kubernetes.io/{NICS}": "1"}),
    ]
    pods += [a_pod(spec=claiming("open-nic")), a_pod(spec={**from_template("t1")}, cpu="10m")]
    classes = [*(pod.cls for pod in pods), *view.classes]
    ledger = DeviceLedger(trial)
    overdrawn_before, held_before = overdrawn(ledger), holdings(ledger)
    before = held_before, {cls: [placer.fits(cls, at) for at in range(trial.base)] for cls in classes}
    own = pools_by_node(view.related.resource_slices).get("n0", ())
    with trial.fork():
        trial.add(Template(a_node("new"), pools=own), 2)
        for _ in range(dice.random.randint(1, 12)):
            change(dice, trial, placer, classes)
            assert overdrawn(ledger) <= overdrawn_before
            assert all(free >= 0 for free in unplugged(trial))
    assert before == (holdings(ledger), {cls: [placer.fits(cls, at) for at in range(trial.base)] for cls in classes})


def unplugged(trial: Trial) -> list[int]:
    """Return what is left of the extended resource on the nodes that offer it themselves."""
    row = trial.vocabulary.rows.get(CARDS)
    offering = [at for at in range(trial.count) if trial.node(at).allocatable.get(CARDS)]
    return [] if row is None else [int(trial.free[row, at]) for at in offering]


def change(dice: Dice, trial: Trial, placer: Placer, classes: list[PodClass]) -> None:
    cls, at = dice.random.choice(classes), dice.random.randrange(trial.count)
    if dice.maybe(0.3) and trial.classes_on(at):
        trial.lift(dice.random.choice(list(trial.classes_on(at))), at)
    elif placer.fits(cls, at):
        trial.place(cls, at)
    assert placer.passing(cls, slice(0, trial.count)).tolist() == [placer.fits(cls, at) for at in range(trial.count)]
