"""A remedy: the obstacle of a pod, node or group, its culprit, and the change that would reverse the decision."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from autoscaler.explain.remedies.changes import AnyChange, Wait, once
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import (
    BlockingReason,
    NoFit,
    PodVerdict,
    ScaleDownResult,
    ScaleUpResult,
    Skip,
    UnremovableReason,
    Waiting,
)

_TOLD = 3
"""How many remedies that belong together are described in words."""


class Obstacle(StrEnum):
    """Obstacles for which no reason is defined."""

    NO_GROUPS = "NoNodeGroups"
    INCREASE_FAILED = "IncreaseFailed"
    PODS_TOO_NEW = "PodsTooNew"
    SCALE_DOWN_DISABLED = "ScaleDownDisabled"
    SCALE_UP_FIRST = "ScaleUpFirst"
    AWAITS_REMOVAL = "AwaitsRemoval"


_KINDS = (NoFit, Skip, Waiting, UnremovableReason, BlockingReason, Obstacle)
_RESULTS = (
    PodVerdict.NEXT_PASS,
    PodVerdict.NOT_CHOSEN,
    PodVerdict.GANG_TOO_LARGE,
    PodVerdict.GANG_INCOMPLETE,
    ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL,
    ScaleDownResult.IN_COOLDOWN,
    *(end for end in PassEnd if end is not PassEnd.COMPLETE),
)
_CODES = dict.fromkeys(code.value for code in (*(code for kind in _KINDS for code in kind), *_RESULTS))

ObstacleCode = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(_CODES)})]
"""The name of a reason, or an `Obstacle`."""


class CulpritKind(StrEnum):
    """Kinds of culprits."""

    POD = "pod"
    NODE = "node"
    GROUP = "group"
    FLAG = "flag"
    CONTROLLER = "controller"
    BUDGET = "budget"
    QUOTA = "quota"
    """A CapacityQuota."""
    TIME = "time"
    """Only time stands in the way. The name is the end of the wait, RFC 3339."""


class Culprit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The object, flag or time that causes the obstacle. The name of a pod or a budget is `namespace/name`."""

    kind: CulpritKind
    name: str

    def __str__(self) -> str:
        """Return the culprit in words."""
        return f"--{self.name}" if self.kind is CulpritKind.FLAG else f"{self.kind} {self.name}"


class Remedy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The change that would reverse a decision."""

    code: ObstacleCode
    culprit: Culprit
    cause: str = ""
    """The obstacle, as a clause about the pod or the node: `needs 12 CPU, the largest machine has 7.9`."""
    text: str
    """What to do about the obstacle, in one or two sentences."""
    changes: list[AnyChange]
    """All of these changes are necessary. If there are none, no setting helps, and the text says what does."""


def remedy(
    code: str, culprit: tuple[CulpritKind, str], text: str, changes: Sequence[AnyChange] = (), cause: str = ""
) -> Remedy:
    """Return a remedy."""
    kind, name = culprit
    return Remedy(code=code, culprit=Culprit(kind=kind, name=name), cause=cause, text=text, changes=list(changes))


def together(needed: Sequence[Remedy], first: Remedy | None = None, until_s: float | None = None) -> Remedy:
    """Return one remedy with the changes of all; its code, culprit and, if it is `first`, cause are those of the first.

    The text describes the first few. `until_s` is the time after which the autoscaler looks at the node again, in
    seconds.
    """
    remedies = [*([] if first is None else [first]), *needed]
    lead = remedies[0]
    changes = once(change for part in remedies for change in part.changes)
    in_order = sorted(remedies, key=lambda part: any(isinstance(change, Wait) for change in part.changes))
    text = " ".join(_few(list(dict.fromkeys(part.text for part in in_order)), "{} more obstacles are not named here."))
    cause = lead.cause if first else "; ".join(_few(list(dict.fromkeys(part.cause for part in remedies)), "{} more"))
    if until_s is not None:
        wait = Wait(seconds=until_s)
        changes.append(wait)
        text += f" The node is checked again in {wait.span}."
    return remedy(lead.code, (lead.culprit.kind, lead.culprit.name), text, changes, cause)


def _few(told: list[str], more: str) -> list[str]:
    """Return the first few, and the number of the others."""
    return told if len(told) <= _TOLD else [*told[: _TOLD - 1], more.format(len(told) - _TOLD + 1)]
