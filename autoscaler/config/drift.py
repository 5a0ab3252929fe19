"""Options of drift: in what a node must be like new nodes of its group, and how replaced nodes prove themselves."""

from enum import StrEnum
from typing import Annotated

import msgspec

from autoscaler.config.syntax import Support, parse_names
from autoscaler.reasons import DriftKind
from cloudprovider.nearest import nearest
from cloudprovider.structure import Seconds, Syntax


def parse_kinds(text: str) -> tuple[DriftKind, ...]:
    """Read a list of kinds, in any order; `ValueError` names the one that is unknown."""
    names = parse_names(text)
    for name in names:
        if name not in tuple(DriftKind):
            raise ValueError(f'holds "{name}", which is none of {", ".join(DriftKind)}{nearest(name, DriftKind)}')
    return tuple(kind for kind in DriftKind if kind.value in names)


def _shown(kinds: tuple[StrEnum, ...]) -> str:
    return ",".join(kinds)


_KINDS = Syntax("names, comma-separated", parse_kinds, _shown, choices=lambda: DriftKind)


class DriftOptions(msgspec.Struct, frozen=True):
    """Replacing nodes that differ from the nodes that their group makes now."""

    drift: Annotated[
        tuple[DriftKind, ...],
        _KINDS,
        "Replace nodes that differ from new nodes of their group in any of these.",
        Support.OURS,
    ] = ()
    drift_settle_time_s: Annotated[
        Seconds,
        "How long new nodes and the pods on them are watched after a drifted node was replaced. Until then the group "
        "replaces no second node, unless new nodes of the same kind have proved themselves.",
        Support.OURS,
    ] = 300.0
