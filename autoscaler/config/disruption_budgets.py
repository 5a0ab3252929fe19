"""How many nodes the autoscaler may disrupt at the same time, as `nodes[;key=value...]`."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from autoscaler.config.syntax import Support
from autoscaler.config.windows import MaintenanceWindow, parse_window, show_windows
from autoscaler.reasons import ReplacementTrigger
from cloudprovider.number import parse_count
from cloudprovider.structure import Syntax

EMPTY, UNNEEDED = "Empty", "Unneeded"
REASONS: tuple[str, ...] = (EMPTY, UNNEEDED, *ReplacementTrigger)
UNLESS_NAMED = frozenset((ReplacementTrigger.NOTICED, ReplacementTrigger.UNHEALTHY))
"""Reasons that only a budget that names them limits: the node is lost already, or will be."""

_FORM = "nodes[;group=…][;zone=…][;reason=…,…][;start=…;duration=…[;timeZone=…]]"
_EXAMPLE = "10%;group=web;reason=NodeDrifted,NodeExpired"
_KEYS = ("group", "zone", "reason", "start", "duration", "timeZone")


class NodeDisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """At most so many of the nodes that it is about may be disrupted at the same time."""

    nodes: str
    """A number, or a share of the nodes such as 10%, rounded up."""
    group: str | None = None
    zone: str | None = None
    reasons: tuple[str, ...] = ()
    """Disruptions that it counts; empty: all but those of `UNLESS_NAMED`."""
    window: MaintenanceWindow | None = None
    """When it applies; None: always."""

    @property
    def text(self) -> str:
        """The budget as it is written."""
        keys = {"group": self.group, "zone": self.zone, "reason": ",".join(self.reasons)}
        parts = [self.nodes, *(f"{key}={value}" for key, value in keys.items() if value)]
        if self.window is not None:
            start, duration, zone = show_windows((self.window,)).split(";")
            parts += [f"start={start}", f"duration={duration}", f"timeZone={zone}"]
        return ";".join(parts)

    def counts(self, reason: str) -> bool:
        """Whether a disruption for this reason counts."""
        return reason in self.reasons if self.reasons else reason not in UNLESS_NAMED

    def limit(self, total: int) -> int:
        """Return how many of `total` nodes may be disrupted at the same time."""
        if not self.nodes.endswith("%"):
            return int(self.nodes)
        return -(-total * int(self.nodes[:-1]) // 100)


def parse_budget(text: str) -> tuple[NodeDisruptionBudget, ...]:
    """Read one budget; `ValueError` names the part that is wrong."""
    nodes, *rest = (part.strip() for part in text.split(";"))
    number = parse_count(nodes.removesuffix("%"))
    if number is None or (nodes.endswith("%") and number > 100):
        raise ValueError(
            f'begins with "{nodes}", which is no number and no share up to 100%; write for example {_EXAMPLE}'
        )
    values: dict[str, str] = {}
    for part in rest:
        key, equals, value = (side.strip() for side in part.partition("="))
        if key not in _KEYS or not equals or not value or key in values:
            raise ValueError(f'has a part "{part}" that is not one of {_FORM}, each once')
        values[key] = value
    reasons = tuple(name.strip() for name in values["reason"].split(",")) if "reason" in values else ()
    for name in reasons:
        if name not in REASONS:
            raise ValueError(f'has a reason "{name}" that does not exist; the reasons are {", ".join(REASONS)}')
    return (
        NodeDisruptionBudget(
            nodes=f"{number}%" if nodes.endswith("%") else str(number),
            group=values.get("group"),
            zone=values.get("zone"),
            reasons=reasons,
            window=_window(values),
        ),
    )


def _window(values: Mapping[str, str]) -> MaintenanceWindow | None:
    given = [values[key] for key in ("start", "duration", "timeZone") if key in values]
    if not given:
        return None
    if "start" not in values or "duration" not in values:
        raise ValueError("needs both start and duration; write for example start=0 9 * * 1-5;duration=8h")
    (window,) = parse_window(";".join(given))
    return window


def budget_from_map(entry: Mapping[str, Any]) -> str:
    """Return the text of a budget that a file has as a map."""
    if "nodes" not in entry or not all(isinstance(value, str | int) for value in entry.values()):
        raise ValueError(f"is not a map of nodes and, where wanted, {', '.join(_KEYS)}")
    return ";".join((str(entry["nodes"]), *(f"{key}={value}" for key, value in entry.items() if key != "nodes")))


def _show_budgets(budgets: tuple[NodeDisruptionBudget, ...]) -> str:
    return " ".join(budget.text for budget in budgets)


class DisruptionOptions(msgspec.Struct, frozen=True):
    """How many nodes may be disrupted at the same time."""

    disruption_budget: Annotated[
        tuple[NodeDisruptionBudget, ...],
        Syntax(f"{_FORM}, repeatable", parse_budget, _show_budgets, repeated=True, from_map=budget_from_map),
        "Maximum number or share of nodes that may be disrupted at the same time: of all groups, of one group, or in "
        f"one zone; for all reasons or some of {', '.join(REASONS)}; always or from each start for so long. Every "
        "budget that applies is kept.",
        Support.OURS,
    ] = ()
