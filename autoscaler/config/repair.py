"""Options of node repair: which conditions make a node unhealthy, for how long that is tolerated, and how many nodes
may be repaired.
"""

from typing import Annotated

import msgspec

from autoscaler.config.syntax import CountFromOne, Percent, Support, parse_span_s
from cloudprovider.duration import show_duration
from cloudprovider.structure import Syntax

_FORM = "condition=status;toleration[;group=name]"
_EXAMPLE = "Ready=Unknown;30m"
_STATUSES = ("True", "False", "Unknown", "Impaired")

CLOUD_HEALTH = "CloudHealth"
"""Stands for what the provider tells of a machine's health; no condition of a node has this name."""
IMPAIRED = "Impaired"
"""Its status if the machine is unhealthy."""


class RepairPolicy(msgspec.Struct, frozen=True):
    """A node is replaced once a condition has had a status for longer than `tolerated_s` seconds."""

    condition: str
    status: str
    tolerated_s: float
    group: str | None = None
    """None: for every group that has no policy of its own."""


def parse_policy(text: str) -> tuple[RepairPolicy, ...]:
    """Read one policy; `ValueError` names the part that is wrong."""
    parts = [part.strip() for part in text.split(";")]
    condition, equals, status = parts[0].partition("=")
    if not 2 <= len(parts) <= 3 or not condition or not equals:
        raise ValueError(f"is not {_FORM}; write for example {_EXAMPLE}")
    if status not in _STATUSES or (condition == CLOUD_HEALTH) != (status == IMPAIRED):
        raise ValueError(
            f'has a status "{status}" that {condition} never has; write True, False or Unknown, '
            f"or {CLOUD_HEALTH}={IMPAIRED}"
        )
    return (RepairPolicy(condition, status, parse_span_s(parts[1], "toleration", "30m"), _group(parts[2:])),)


def _group(parts: list[str]) -> str | None:
    if not parts:
        return None
    key, _, name = parts[0].partition("=")
    if key != "group" or not name:
        raise ValueError(f'has a part "{parts[0]}" that is not group=name')
    return name


def show_policies(policies: tuple[RepairPolicy, ...]) -> str:
    """Write a policy as its text; a flag shows one at a time."""
    return " ".join(map(_show_policy, policies))


def _show_policy(policy: RepairPolicy) -> str:
    group = "" if policy.group is None else f";group={policy.group}"
    return f"{policy.condition}={policy.status};{show_duration(policy.tolerated_s)}{group}"


RepairPolicies = Annotated[
    tuple[RepairPolicy, ...], Syntax(f"{_FORM}, repeatable", parse_policy, show_policies, repeated=True)
]


class RepairOptions(msgspec.Struct, frozen=True):
    """Replacing nodes that are unhealthy."""

    node_repair_policy: Annotated[
        RepairPolicies,
        "Replace a node that has had a condition for so long, such as Ready=Unknown;30m. If a group has policies of "
        "its own, only those apply to it.",
        Support.OURS,
    ] = ()
    node_repair_max_unhealthy_percentage: Annotated[
        Percent,
        "Repair no node if more than this share of the nodes of the cluster, of the node's group or of its zone is "
        "unhealthy, rounded up to whole nodes.",
        Support.OURS,
    ] = 20.0
    max_node_repairs: Annotated[
        CountFromOne, "Maximum number of repairs in progress at the same time.", Support.OURS
    ] = 1

    @property
    def named_groups(self) -> frozenset[str]:
        """Groups that policies of their own name, whether there are such groups or not."""
        return frozenset(policy.group for policy in self.node_repair_policy if policy.group is not None)

    def policies_of(self, group: str) -> tuple[RepairPolicy, ...]:
        """Return the policies of a group: its own or, without any, those of all groups."""
        own = tuple(policy for policy in self.node_repair_policy if policy.group == group)
        return own or tuple(policy for policy in self.node_repair_policy if policy.group is None)
