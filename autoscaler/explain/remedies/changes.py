"""Changes that would flip a decision, one struct a kind, each with the words that people read.

A change of a pod is meant for its controller's template, so for all pods like it.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from autoscaler.objects import quantity
from cloudprovider.duration import show_duration

_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="action"):
    """Base of all changes; `action` tells which it is."""


class SetFlag(Change, frozen=True, kw_only=True, tag="setFlag"):
    """Set a flag of the autoscaler to another value; a list means a repeated flag."""

    flag: str
    value: str | list[str]

    def __str__(self) -> str:
        """Return it as it is typed."""
        values = [self.value] if isinstance(self.value, str) else self.value
        return " ".join(f"--{self.flag}={value}" for value in values) or f"no --{self.flag}"


class Wait(Change, frozen=True, kw_only=True, tag="wait"):
    """Wait for more than this time."""

    seconds: float

    def __str__(self) -> str:
        """Say how long."""
        return f"after {show_duration(max(1, round(self.seconds)))}"


class LimitRequest(Change, frozen=True, kw_only=True, tag="limitRequest"):
    """Limit the request of a pod, summed over its containers, to this quantity of a resource."""

    pod: str
    resource: str
    at_most: str

    def __str__(self) -> str:
        """Say how much, rounded down for reading."""
        return f"{self.resource} request ≤ {readable(self.resource, quantity.amount(self.resource, self.at_most))}"


class AddToleration(Change, frozen=True, kw_only=True, tag="addToleration"):
    """Add a toleration to a pod."""

    pod: str
    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """Return it as taints are written."""
        return f"it tolerates {self.key}{'=' if self.value else ''}{self.value}:{self.effect}"


class AnnotatableKind(StrEnum):
    """Kinds of objects that can be annotated."""

    POD = "pod"
    NODE = "node"


class Annotate(Change, frozen=True, kw_only=True, tag="annotate"):
    """Set an annotation of an object, or remove it (None)."""

    kind: AnnotatableKind
    name: str
    key: str
    value: str | None

    def __str__(self) -> str:
        """Say what is set or gone."""
        what = f"without annotation {self.key}" if self.value is None else f"annotated {self.key}: {self.value}"
        return f"{self.kind} {self.name} is {what}"


class PodField(StrEnum):
    """Parts of a pod's spec that can be removed."""

    NODE_NAME = "nodeName"
    NODE_SELECTOR = "nodeSelector"
    NODE_AFFINITY = "nodeAffinity"
    POD_AFFINITY = "podAffinity"
    POD_ANTI_AFFINITY = "podAntiAffinity"
    SPREAD = "topologySpreadConstraints"
    HOST_PORTS = "hostPorts"
    VOLUMES = "persistentVolumeClaims"
    RESOURCE_CLAIMS = "resourceClaims"
    SCHEDULING_GATES = "schedulingGates"


class DropFromPod(Change, frozen=True, kw_only=True, tag="dropFromPod"):
    """Remove something from a pod's spec; `key` names one entry, unless all are removed."""

    pod: str
    field: PodField
    key: str = ""

    def __str__(self) -> str:
        """Say what is gone."""
        return f"pod {self.pod} has no {self.field}{' ' if self.key else ''}{self.key}"


class AllowSkew(Change, frozen=True, kw_only=True, tag="allowSkew"):
    """Raise `maxSkew` of a pod's spread over a topology key."""

    pod: str
    topology_key: str
    max_skew: int

    def __str__(self) -> str:
        """Say how far."""
        return f"maxSkew over {self.topology_key} ≥ {self.max_skew}"


class SetPriority(Change, frozen=True, kw_only=True, tag="setPriority"):
    """Set another priority of a pod."""

    pod: str
    priority: int

    def __str__(self) -> str:
        """Say which."""
        return f"priority ≥ {self.priority}"


class DeletePod(Change, frozen=True, kw_only=True, tag="deletePod"):
    """Delete a pod."""

    pod: str

    def __str__(self) -> str:
        """Say which."""
        return f"pod {self.pod} is deleted"


class Uncordon(Change, frozen=True, kw_only=True, tag="uncordon"):
    """Make a node schedulable."""

    node: str

    def __str__(self) -> str:
        """Say which."""
        return f"node {self.node} is uncordoned"


class Scale(Change, frozen=True, kw_only=True, tag="scale"):
    """Scale a controller to at least this many replicas; its name is `namespace/name`."""

    kind: str
    name: str
    replicas: int

    def __str__(self) -> str:
        """Say how many."""
        return f"{self.kind} {self.name} has {self.replicas} replicas"


class AllowDisruptions(Change, frozen=True, kw_only=True, tag="allowDisruptions"):
    """Make a disruption budget allow this many disruptions: more healthy replicas, or a wider budget."""

    budget: str
    allowed: int

    def __str__(self) -> str:
        """Say how many."""
        return f"budget {self.budget} allows {self.allowed}, by more healthy replicas or a wider budget"


class AddBudget(Change, frozen=True, kw_only=True, tag="addBudget"):
    """Create a disruption budget that covers the pod's labels and allows one disruption."""

    pod: str

    def __str__(self) -> str:
        """Say for which."""
        return f"a PodDisruptionBudget that allows 1 covers {self.pod}"


class ResizeGroup(Change, frozen=True, kw_only=True, tag="resizeGroup"):
    """Change a node group's minimum or maximum size; None keeps it."""

    group: str
    min: int | None = None
    max: int | None = None

    def __str__(self) -> str:
        """Say where to."""
        bounds = [f"minimum ≤ {self.min}"] if self.min is not None else []
        return f"group {self.group} has " + " and ".join(bounds + ([f"maximum ≥ {self.max}"] if self.max else []))


class SetGroupOption(Change, frozen=True, kw_only=True, tag="setGroupOption"):
    """Set a group's own value of a flag."""

    group: str
    option: str
    value: float | str

    def __str__(self) -> str:
        """Say which."""
        return f"group {self.group} has {self.option} {self.value}"


class RankFirst(Change, frozen=True, kw_only=True, tag="rankFirst"):
    """Rank a group above all others in the priority expander's ConfigMap."""

    group: str

    def __str__(self) -> str:
        """Say which."""
        return f"group {self.group} ranks first in the priority expander's ConfigMap"


AnyChange = (
    SetFlag
    | Wait
    | LimitRequest
    | AddToleration
    | Annotate
    | DropFromPod
    | AllowSkew
    | SetPriority
    | DeletePod
    | Uncordon
    | Scale
    | AllowDisruptions
    | AddBudget
    | ResizeGroup
    | SetGroupOption
    | RankFirst
)


def readable(resource: str, value: int) -> str:
    """Return an amount for people, rounded down to a tenth of its unit: `6.2Gi`, `1500m`, `4`."""
    if resource not in (quantity.MEMORY, quantity.EPHEMERAL_STORAGE) or value < 1024:
        return quantity.text(resource, value)
    power = min((value.bit_length() - 1) // 10, len(_UNITS) - 1)
    tenths = value * 10 // 1024**power
    return f"{tenths // 10}.{tenths % 10}".removesuffix(".0") + _UNITS[power]


def spelled(changes: Iterable[AnyChange]) -> str:
    """Return changes that all have to be made as one phrase."""
    return " and ".join(map(str, changes))
