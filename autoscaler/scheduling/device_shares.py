"""What is taken of devices: whole ones, and shares of those that several claims may use (consumable capacity)."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from fractions import Fraction

import msgspec

from autoscaler.objects.devices import AllocatedDevice, DeviceCapacity
from cloudprovider.quantity import parse_quantity

DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device."""
ShareKey = tuple[DeviceId, str]
"""A capacity of a device; the empty name counts its shares."""
SHARES = ""
Amounts = Mapping[str, Fraction]
"""By name of the capacity."""


class Holding(msgspec.Struct, frozen=True):
    """Whole devices, and shares of others."""

    devices: frozenset[DeviceId] = frozenset()
    shares: frozenset[tuple[ShareKey, Fraction]] = frozenset()
    """How much of each capacity, with the number of shares."""

    @property
    def used(self) -> frozenset[DeviceId]:
        """All devices, those that are shared too."""
        return self.devices | {device for (device, _), _ in self.shares} if self.shares else self.devices

    @property
    def weighs(self) -> bool:
        """Whether nobody else can have all of it as well."""
        return bool(self.devices) or any(amount for (_, name), amount in self.shares if name != SHARES)

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.devices or self.shares)

    def __add__(self, other: "Holding") -> "Holding":
        """Return both together."""
        return Holding(self.devices | other.devices, _sum(self.shares, other.shares, 1))

    def __sub__(self, other: "Holding") -> "Holding":
        """Return what is left without the other, which is part of this one."""
        return Holding(self.devices - other.devices, _sum(self.shares, other.shares, -1))

    def repeated(self, times: int) -> "Holding":
        """Return as many of the same shares; whole devices stay the same."""
        return Holding(self.devices, frozenset((key, amount * times) for key, amount in self.shares))

    def of(self, pools: Container[tuple[str, str]]) -> "Holding":
        """Return what is of these pools, by driver and name."""
        return Holding(
            frozenset(device for device in self.devices if device[:2] in pools),
            frozenset(share for share in self.shares if share[0][0][:2] in pools),
        )


NOTHING = Holding()


def together(holdings: Iterable[Holding]) -> Holding:
    """Return all of them as one."""
    return sum(holdings, NOTHING)


def share_of(device: DeviceId, amounts: Amounts) -> Holding:
    """Return one share of a device."""
    counted = {SHARES: Fraction(1), **{name: amount for name, amount in amounts.items() if name != SHARES}}
    return Holding(shares=frozenset(((device, name), amount) for name, amount in counted.items()))


def held_by(result: AllocatedDevice) -> Holding:
    """Return what a claim has got; not to be asked of devices for administrative access."""
    device = result.driver, result.pool, result.device
    if result.share_id is None:
        return Holding(frozenset((device,)))
    return share_of(device, {name: parse_quantity(str(amount)) for name, amount in result.consumed_capacity.items()})


def _sum(
    mine: frozenset[tuple[ShareKey, Fraction]], theirs: frozenset[tuple[ShareKey, Fraction]], sign: int
) -> frozenset[tuple[ShareKey, Fraction]]:
    if not theirs:
        return mine
    if not mine and sign > 0:
        return theirs
    amounts: dict[ShareKey, Fraction] = defaultdict(Fraction, mine)
    for key, amount in theirs:
        amounts[key] += sign * amount
    gone = {device for (device, name), amount in amounts.items() if name == SHARES and amount <= 0}
    return frozenset((key, amount) for key, amount in amounts.items() if key[0] not in gone)


class DeviceAmount(msgspec.Struct, frozen=True):
    """A capacity of a device, and which amounts of it claims may have."""

    value: Fraction
    default: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    """The only amounts, ascending; empty: any."""
    least: Fraction | None = None
    most: Fraction | None = None
    step: Fraction | None = None

    def granted(self, wanted: Fraction | None) -> Fraction | None:
        """Return how much a request takes, rounded up to what may be had; None where it may not be had.

        Source: the scheduler's `consumable_capacity.go`.
        """
        if wanted is None:
            wanted = self.value if self.default is None else self.default
        elif self.least is not None:
            wanted = max(wanted, self.least)
            if self.step:
                wanted = self.least - (self.least - wanted) // self.step * self.step
        elif self.values:
            wanted = next((value for value in self.values if wanted <= value), wanted)
        return wanted if self._is_valid(wanted) else None

    def _is_valid(self, amount: Fraction) -> bool:
        if amount == self.default:
            return True
        if self.most is not None and amount > self.most:
            return False
        if self.step and (amount - (self.least or 0)) % self.step:
            return False
        return not self.values or amount in self.values


def read_capacity(given: DeviceCapacity) -> DeviceAmount:
    """Return a capacity as it is calculated with."""
    policy, value = given.request_policy, parse_quantity(str(given.value))
    if policy is None:
        return DeviceAmount(value)
    within = policy.valid_range
    return DeviceAmount(
        value=value,
        default=_amount(policy.default),
        values=tuple(parse_quantity(str(one)) for one in policy.valid_values) if within is None else (),
        least=None if within is None else _amount(within.min),
        most=None if within is None else _amount(within.max),
        step=None if within is None else _amount(within.step),
    )


def _amount(text: str | int | float | None) -> Fraction | None:
    return None if text is None else parse_quantity(str(text))
