"""Chooses devices for the claims of one pod on one node.

Source: the allocator of the scheduler's DynamicResources plug-in. Like that one it takes the first solution in the
order of claims, requests and devices. It tries no two devices between which nothing can tell, and gives up after
`MOST_STEPS`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction

import msgspec

from autoscaler.objects.devices import DeviceConstraint
from autoscaler.scheduling.device_shares import SHARES, Amounts, DeviceId, Holding, share_of, together
from autoscaler.scheduling.device_stock import Consumption, CounterId, OfferedDevice, Stock
from autoscaler.scheduling.device_wants import DeviceChoice, NoAllocation, Wanted

MOST_STEPS = 20_000
_MOST_DEVICES = 32
"""Devices that one claim may have."""
_DEEPEST = 400
"""Levels of a search."""


class PickedDevice(msgspec.Struct, frozen=True):
    """A device that one request of a claim gets."""

    request: str
    """`request`, or `request/alternative`."""
    device_class: str
    device: DeviceId
    share: Amounts | None
    """How much of its capacities, where others may have shares too."""
    admin: bool


class Chosen(msgspec.Struct, frozen=True):
    """Devices that one claim takes; those for administrative access are left out."""

    taken: Holding
    seen: frozenset[DeviceId]
    """All of them, with those for administrative access."""
    picked: Sequence[PickedDevice] = ()


def allocate(stock: Stock, taken: Holding, claims: Sequence[Wanted]) -> Sequence[Chosen] | NoAllocation:
    """Return the devices of each claim, or why there are none; `taken` is what other claims have."""
    if sum(map(_depth, claims)) > _DEEPEST:
        return NoAllocation("its claims ask for too many devices to be tried")
    search = _Allocator(stock, taken, claims)
    try:
        if search.solved():
            return search.chosen()
    except _Stopped as stopped:
        return NoAllocation(str(stopped))
    return search.lack()


def _depth(wanted: Wanted) -> int:
    """Return how deep the search for one claim goes: a level per device, and some for each request."""
    counts = (max(min(choice.count, _MOST_DEVICES) for choice in request) for request in wanted.requests)
    return 2 + sum(4 + count for count in counts)


class _Stopped(Exception):
    """Nothing can be allocated; the text says why."""


class _Allocator:
    """One search; devices are known by their number in the stock."""

    def __init__(self, stock: Stock, taken: Holding, claims: Sequence[Wanted]) -> None:
        self._stock = stock
        self._claims = claims
        self._taken = frozenset(stock.ids[one] for one in taken.devices if one in stock.ids)
        self._shares = defaultdict[tuple[int, str], Fraction](Fraction)
        """How much is taken of each capacity of devices that claims share, and how many shares there are."""
        for (device, name), amount in taken.shares:
            if device in stock.ids:
                self._shares[stock.ids[device], name] = amount
        self._wants: dict[tuple[int, int], Amounts | None] = {}
        self._picked: list[list[tuple[int, DeviceChoice]]] = [[] for _ in claims]
        self._used: Counter[CounterId] = Counter()
        """What is consumed of each counter."""
        if stock.consumes:
            for one in taken.used:
                self._consume(stock.consumes.get(one, ()), 1)
        self._candidates = {id(choice): self._matching(choice) for choice in self._choices()}
        self._likeness = self._likenesses()
        self._steps = 0

    def _choices(self) -> Iterator[DeviceChoice]:
        return (choice for claim in self._claims for request in claim.requests for choice in request)

    def _matching(self, choice: DeviceChoice) -> Sequence[tuple[int, str]]:
        """Return the devices that match, and those of which that cannot be told, with the reason."""
        verdicts = enumerate(self._stock.verdicts(choice.selectors))
        matching = [(number, "" if verdict is True else str(verdict)) for number, verdict in verdicts if verdict]
        if choice.count:
            return matching
        return [(number, wrong) for number, wrong in matching if wrong or self._gives(number, choice)]

    def _share(self, number: int, choice: DeviceChoice) -> Amounts | None:
        """Return what the choice takes of the capacities of a device; None: it cannot have the device."""
        offer = self._stock.offers[number]
        if not choice.capacity and not offer.shared:
            return {}
        key = number, id(choice)
        if key not in self._wants:
            self._wants[key] = choice.share(offer)
        return self._wants[key]

    def _gives(self, number: int, choice: DeviceChoice) -> bool:
        """Whether a device has what the choice takes of its capacities."""
        share, capacities = self._share(number, choice), self._stock.offers[number].capacities
        return share is not None and all(
            self._shares[number, name] + amount <= capacities[name].value for name, amount in share.items()
        )

    def _state(self, number: int) -> tuple[object, ...]:
        """Return what tells a device from others now."""
        offer = self._stock.offers[number]
        shares = (self._shares[number, name] for name in (SHARES, *offer.capacities)) if offer.shared else ()
        return self._likeness[number], *shares

    def _likenesses(self) -> Sequence[int]:
        """Return a number for each device; nothing tells apart those that have the same one."""
        names = [one.match_attribute or one.distinct_attribute or "" for c in self._claims for one in c.constraints]
        matched: list[list[int]] = [[] for _ in self._stock.offers]
        for position, choice in enumerate(self._choices()):
            for number, wrong in self._candidates[id(choice)]:
                tolerated = choice.tolerates(self._stock.offers[number])
                matched[number].append(position * 4 + 2 * bool(wrong) + tolerated)
        codes: dict[object, int] = {}
        likeness = []
        for number, offer in enumerate(self._stock.offers):
            attributes = tuple(offer.attributes.get(name) for name in names)
            sizes = (offer.shared, *offer.capacities.items())
            key = (tuple(matched[number]), attributes, tuple(offer.consumes), number in self._taken, sizes)
            likeness.append(codes.setdefault(key, len(codes)))
        return likeness

    def solved(self) -> bool:
        """Whether devices were found for all claims; raises `_Stopped`."""
        for choice in self._choices():
            if choice.count == 0 and self._stock.faults:
                raise _Stopped(f"request {choice.name} wants all devices, and {self._stock.faults[0]}")
        return self._request(0, 0)

    def chosen(self) -> Sequence[Chosen]:
        """Return what was found."""
        offers = self._stock.offers
        return [
            Chosen(
                together(self._held(number, choice) for number, choice in picked if not choice.admin),
                frozenset(offers[number].id for number, _ in picked),
                [self._as_picked(number, choice) for number, choice in picked],
            )
            for picked in self._picked
        ]

    def _as_picked(self, number: int, choice: DeviceChoice) -> PickedDevice:
        offer = self._stock.offers[number]
        share = (self._share(number, choice) or {}) if offer.shared else None
        return PickedDevice(choice.name, choice.device_class, offer.id, share, choice.admin)

    def _held(self, number: int, choice: DeviceChoice) -> Holding:
        offer = self._stock.offers[number]
        if offer.shared:
            return share_of(offer.id, self._share(number, choice) or {})
        return Holding(frozenset((offer.id,)))

    def _request(self, claim: int, request: int) -> bool:
        """Allocate this request and all after it."""
        if claim == len(self._claims):
            return True
        requests = self._claims[claim].requests
        if request == len(requests):
            return self._request(claim + 1, 0)
        return any(
            self._all(claim, request, choice) if choice.count == 0 else self._exactly(claim, request, choice, 0, 0)
            for choice in requests[request]
        )

    def _all(self, claim: int, request: int, choice: DeviceChoice) -> bool:
        candidates = self._candidates[id(choice)]
        before = len(self._picked[claim])
        for number, wrong in candidates:
            if wrong:
                raise _Stopped(wrong)
            if len(self._picked[claim]) == _MOST_DEVICES or not self._pick(claim, number, choice):
                break
        else:
            if candidates and self._request(claim, request + 1):
                return True
        while len(self._picked[claim]) > before:
            self._drop(claim)
        return False

    def _exactly(self, claim: int, request: int, choice: DeviceChoice, got: int, start: int) -> bool:
        """Allocate what is left of a request, from the candidate at `start` on."""
        if got == choice.count:
            return self._request(claim, request + 1)
        candidates = self._candidates[id(choice)]
        left = choice.count - got
        if len(self._picked[claim]) + left > _MOST_DEVICES:
            return False
        failed = set[tuple[object, ...]]()
        for at in range(start, len(candidates)):
            number, wrong = candidates[at]
            if not choice.admin and not self._is_free(number):
                continue
            state = self._state(number)
            if state in failed and not choice.admin:
                continue
            if wrong:
                raise _Stopped(wrong)
            if len(candidates) - at < left and not any(reason for _, reason in candidates[at:]):
                return False
            if not self._pick(claim, number, choice):
                continue
            if self._exactly(claim, request, choice, got + 1, at + 1):
                return True
            self._drop(claim)
            failed.add(state)
        return False

    def _is_free(self, number: int) -> bool:
        if number in self._taken:
            return False
        return self._stock.offers[number].shared or not self._is_picked(number)

    def _is_picked(self, number: int) -> bool:
        return any(number == one for picked in self._picked for one, _ in picked)

    def _pick(self, claim: int, number: int, choice: DeviceChoice) -> bool:
        """Take a device if that is allowed; raises `_Stopped` after too many steps."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _Stopped(f"no allocation was found in {MOST_STEPS} steps")
        picked, offer = self._picked[claim], self._stock.offers[number]
        if not choice.admin and not self._is_free(number):
            return False
        if choice.admin and not offer.shared and any(number == one for one, _ in picked):
            return False
        if not choice.tolerates(offer) or not self._gives(number, choice):
            return False
        if not self._shares[number, SHARES] and not self._has_counters(offer):
            return False
        picked.append((number, choice))
        if all(self._is_kept(one, picked) for one in self._claims[claim].constraints):
            self._use(number, choice, 1)
            return True
        picked.pop()
        if choice.count == 0:
            raise _Stopped(f"request {choice.name} wants all devices, and a constraint of its claim forbids that")
        return False

    def _drop(self, claim: int) -> None:
        self._use(*self._picked[claim].pop(), -1)

    def _use(self, number: int, choice: DeviceChoice, sign: int) -> None:
        """Count what a device that is picked takes; with `sign` -1 one that is dropped."""
        offer = self._stock.offers[number]
        if not offer.shared:
            self._consume(offer.consumes, sign)
            return
        others = self._shares[number, SHARES] + min(sign, 0)
        if not others:
            self._consume(offer.consumes, sign)
        self._shares[number, SHARES] += sign
        for name, amount in (self._share(number, choice) or {}).items():
            self._shares[number, name] += sign * amount

    def _consume(self, consumption: Consumption, sign: int) -> None:
        for counter, amount in consumption:
            self._used[counter] += sign * amount

    def _has_counters(self, offer: OfferedDevice) -> bool:
        counters = self._stock.counters
        return all(
            self._used[counter] + amount <= counters[counter]
            for counter, amount in offer.consumes
            if counter in counters
        )

    def _is_kept(self, constraint: DeviceConstraint, picked: Sequence[tuple[int, DeviceChoice]]) -> bool:
        """Whether the devices of the claim meet the constraint."""
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        values = [
            self._stock.offers[number].attributes.get(attribute)
            for number, choice in picked
            if not constraint.requests
            or choice.name in constraint.requests
            or choice.name.partition("/")[0] in constraint.requests
        ]
        known = [one for one in values if one is not None]
        if len(known) < len(values):
            return False
        if constraint.match_attribute is not None:
            same_kind = len({kind for kind, _ in known}) <= 1
            return not known or (same_kind and bool(frozenset.intersection(*(them for _, them in known))))
        entries = [(kind, one) for kind, them in known for one in them]
        return len(set(entries)) == len(entries)

    def lack(self) -> NoAllocation:
        """Return what the first request lacks that cannot be met even alone."""
        for claim in self._claims:
            for request in claim.requests:
                if all(self._short(choice) for choice in request):
                    return NoAllocation(f"claim {claim.claim}: " + "; ".join(map(self._words, request)))
        return NoAllocation("the requests of its claims cannot be met together")

    def _counts(self, choice: DeviceChoice) -> tuple[int, int, int, int]:
        """Return how many devices match, are free, have the capacity, and have counters and no taint against it."""
        matching = [number for number, _ in self._candidates[id(choice)]]
        free = [number for number in matching if choice.admin or number not in self._taken]
        giving = [number for number in free if self._gives(number, choice)]
        offers = self._stock.offers
        usable = [
            number
            for number in giving
            if choice.tolerates(offers[number]) and (self._shares[number, SHARES] or self._has_counters(offers[number]))
        ]
        return len(matching), len(free), len(giving), len(usable)

    def _short(self, choice: DeviceChoice) -> bool:
        matching, *_, usable = self._counts(choice)
        return usable < (choice.count or max(1, matching))

    def _words(self, choice: DeviceChoice) -> str:
        matching, free, giving, usable = self._counts(choice)
        wanted = f"{choice.count} of" if choice.count else "all of"
        have = f"{matching} of {len(self._stock.offers)} devices match"
        if free < matching:
            have += f", {free} of them are free"
        if giving < free:
            have += f", {giving} of them have the capacity left"
        if usable < giving:
            have += f", {usable} of them untainted and with counters left"
        faults = f" ({self._stock.faults[0]})" if self._stock.faults else ""
        return f"request {choice.name} wants {wanted} class {choice.device_class}, {have}{faults}"
