"""Compares what a machine is made from with what its group makes now."""

from collections.abc import Sequence

import msgspec

from cloudprovider.interface import MachineVersion


class Outdated(msgspec.Struct, frozen=True):
    """One thing in which a machine differs from new ones."""

    field: str
    """A field of `MachineVersion`."""
    has: str
    wanted: tuple[str, ...]
    """What new machines may have; never empty."""


def outdated(machine: MachineVersion | None, current: Sequence[MachineVersion]) -> tuple[Outdated, ...]:
    """Return what differs. What the machine or any of the `current` versions leaves open does not count."""
    if machine is None or not current:
        return ()
    differing: list[Outdated] = []
    for field in MachineVersion.__struct_fields__:
        has, wanted = getattr(machine, field), tuple(dict.fromkeys(getattr(version, field) for version in current))
        if has and all(wanted) and has not in wanted:
            differing.append(Outdated(field, has, wanted))
    return tuple(differing)
