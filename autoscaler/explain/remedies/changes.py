"""Changes that would flip a decision, one struct a kind, each with the words that tell somebody to make it.

A change of a pod is meant for its controller's template, so for all pods like it.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from autoscaler.objects import quantity
from cloudprovider.duration import show_duration

_NAMES = {quantity.CPU: "CPU", quantity.EPHEMERAL_STORAGE: "ephemeral storage"}


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="action"):
    """Base of all changes; `action` tells which it is."""

    def told(self, about: str = "") -> str:
        """Return it as an instruction, such as `uncordon node n`; the pod `about` whom the text is needs no name."""
        raise NotImplementedError


class PodChange(Change, frozen=True, kw_only=True):
    """Base of changes of a pod."""

    pod: str

    def of_pod(self, about: str) -> str:
        """Return whose it is."""
        return "" if self.pod == about else f" of pod {self.pod}"


class SetFlag(Change, frozen=True, kw_only=True, tag="setFlag"):
    """Set a flag of the autoscaler to another value; a list means a repeated flag."""

    flag: str
    value: str | list[str]

    def told(self, about: str = "") -> str:
        """Return it as it is typed."""
        values = [self.value] if isinstance(self.value, str) else self.value
        return "set " + " ".join(f"--{self.flag}={value}" for value in values) if values else f"remove --{self.flag}"


class Wait(Change, frozen=True, kw_only=True, tag="wait"):
    """Wait for more than this time."""

    seconds: float

    @property
    def span(self) -> str:
        """How long, in words."""
        return show_duration(max(1, round(self.seconds)))

    def told(self, about: str = "") -> str:
        """Say how long."""
        return f"wait {self.span}"


class LimitRequest(PodChange, frozen=True, kw_only=True, tag="limitRequest"):
    """Limit the request of a pod, summed over its containers, to this quantity of a resource."""

    resource: str
    at_most: str
    requested: str

    @property
    def drops(self) -> bool:
        """Whether nothing of the resource is left to request."""
        return quantity.amount(self.resource, self.at_most) == 0

    def told(self, about: str = "") -> str:
        """Say from what to what: `lower the CPU request from 12 to 7.4`."""
        requested, at_most = (quantity.amount(self.resource, text) for text in (self.requested, self.at_most))
        before = quantity.readable(self.resource, requested, up=True)
        if self.drops:
            return f"remove the request{self.of_pod(about)} for {before} {resource_name(self.resource)}"
        after = quantity.readable(self.resource, at_most)
        return f"lower the {resource_name(self.resource)} request{self.of_pod(about)} from {before} to {after}"


class AddToleration(PodChange, frozen=True, kw_only=True, tag="addToleration"):
    """Add a toleration to a pod."""

    key: str
    value: str
    effect: str

    def told(self, about: str = "") -> str:
        """Return it as taints are written."""
        to = "" if self.pod == about else f" to pod {self.pod}"
        return f"add a toleration for {self.key}{'=' if self.value else ''}{self.value}:{self.effect}{to}"


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

    def told(self, about: str = "") -> str:
        """Say what is set or removed."""
        if self.value is None:
            return f"remove the annotation {self.key} from {self.kind} {self.name}"
        return f"annotate {self.kind} {self.name} with {self.key}: {self.value}"


class PodField(StrEnum):
    """Parts of a pod's spec that can be changed."""

    NODE_NAME = "nodeName"
    NODE_SELECTOR = "nodeSelector"
    NODE_AFFINITY = "nodeAffinity"
    POD_AFFINITY = "podAffinity"
    POD_ANTI_AFFINITY = "podAntiAffinity"
    SPREAD = "topologySpreadConstraints"
    HOST_PORTS = "hostPorts"
    RESOURCE_CLAIMS = "resourceClaims"
    SCHEDULING_GATES = "schedulingGates"


_FIELDS: Mapping[PodField, str] = {
    PodField.NODE_NAME: "nodeName",
    PodField.NODE_SELECTOR: "nodeSelector",
    PodField.NODE_AFFINITY: "required node affinity",
    PodField.POD_AFFINITY: "required pod affinity",
    PodField.POD_ANTI_AFFINITY: "required pod anti-affinity",
    PodField.SPREAD: "topology spread constraint",
    PodField.HOST_PORTS: "host ports",
    PodField.RESOURCE_CLAIMS: "resource claims",
    PodField.SCHEDULING_GATES: "scheduling gates",
}


class DropFromPod(PodChange, frozen=True, kw_only=True, tag="dropFromPod"):
    """Remove something from a pod's spec; `key` names one entry, unless all are removed."""

    field: PodField
    key: str = ""

    def told(self, about: str = "") -> str:
        """Say what is removed."""
        whole = f"the {_FIELDS[self.field]}{self.of_pod(about)}"
        match self.field:
            case PodField.SPREAD:
                return f"remove {whole} over {self.key}"
            case PodField.NODE_SELECTOR:
                return f"remove {self.key} from {whole}"
            case PodField.NODE_AFFINITY | PodField.POD_AFFINITY | PodField.POD_ANTI_AFFINITY:
                return f"make {whole} a preferred one"
            case _:
                return f"remove {whole}"


class SelectLabel(PodChange, frozen=True, kw_only=True, tag="selectLabel"):
    """Have a pod's `nodeSelector` or required `nodeAffinity` ask for another label than `wrong_key=wrong_value`."""

    field: PodField
    key: str
    value: str
    wrong_key: str
    wrong_value: str

    def told(self, about: str = "") -> str:
        """Say which."""
        right = self.value if self.key == self.wrong_key else f"{self.key}={self.value}"
        where = f"in the {_FIELDS[self.field]}{self.of_pod(about)}"
        return f"replace {self.wrong_key}={self.wrong_value} by {right} {where}"


class CreateClaim(Change, frozen=True, kw_only=True, tag="createClaim"):
    """Create a PersistentVolumeClaim; its name is `namespace/name`."""

    claim: str

    def told(self, about: str = "") -> str:
        """Say which."""
        return f"create PersistentVolumeClaim {self.claim}"


class CreateStorageClass(Change, frozen=True, kw_only=True, tag="createStorageClass"):
    """Create a StorageClass that binds volumes on first use."""

    name: str

    def told(self, about: str = "") -> str:
        """Say which."""
        return f"create StorageClass {self.name}"


class AddGroup(Change, frozen=True, kw_only=True, tag="addGroup"):
    """Add a node group that is like another but for these labels of its nodes."""

    like: str
    labels: dict[str, str]

    def told(self, about: str = "") -> str:
        """Say which."""
        return f"add a group like {self.like} with " + joined(f"{key}={value}" for key, value in self.labels.items())


class AllowSkew(PodChange, frozen=True, kw_only=True, tag="allowSkew"):
    """Raise `maxSkew` of a pod's spread over a topology key."""

    topology_key: str
    max_skew: int

    def told(self, about: str = "") -> str:
        """Say how far."""
        return f"raise maxSkew{self.of_pod(about)} over {self.topology_key} to {self.max_skew}"


class SetPriority(PodChange, frozen=True, kw_only=True, tag="setPriority"):
    """Set another priority of a pod."""

    priority: int

    def told(self, about: str = "") -> str:
        """Say which."""
        return f"raise the priority{self.of_pod(about)} to {self.priority}"


class DeletePod(PodChange, frozen=True, kw_only=True, tag="deletePod"):
    """Delete a pod."""

    def told(self, about: str = "") -> str:
        """Say which."""
        return f"delete pod {self.pod}"


class Uncordon(Change, frozen=True, kw_only=True, tag="uncordon"):
    """Make a node schedulable."""

    node: str

    def told(self, about: str = "") -> str:
        """Say which."""
        return f"uncordon node {self.node}"


class Scale(Change, frozen=True, kw_only=True, tag="scale"):
    """Scale a controller to at least this many replicas; its name is `namespace/name`."""

    kind: str
    name: str
    replicas: int

    def told(self, about: str = "") -> str:
        """Say how many."""
        return f"scale {self.kind} {self.name} to {self.replicas} replicas"


class AllowDisruptions(Change, frozen=True, kw_only=True, tag="allowDisruptions"):
    """Make a disruption budget allow this many disruptions: more healthy replicas, or a wider budget."""

    budget: str
    allowed: int

    def told(self, about: str = "") -> str:
        """Say how many."""
        count = f"{self.allowed} disruption{'' if self.allowed == 1 else 's'}"
        return f"make PodDisruptionBudget {self.budget} allow {count}, by more healthy replicas or a wider budget"


class AddBudget(PodChange, frozen=True, kw_only=True, tag="addBudget"):
    """Create a disruption budget that covers the pod's labels and allows one disruption."""

    def told(self, about: str = "") -> str:
        """Say for which."""
        return f"create a PodDisruptionBudget for pod {self.pod} that allows 1 disruption"


class ResizeGroup(Change, frozen=True, kw_only=True, tag="resizeGroup"):
    """Change a node group's minimum or maximum size; None keeps it."""

    group: str
    min: int | None = None
    max: int | None = None

    def told(self, about: str = "") -> str:
        """Say where to."""
        sizes = [f"lower the minimum size of group {self.group} to {self.min}"] if self.min is not None else []
        return joined(sizes + ([f"raise the maximum size of group {self.group} to {self.max}"] if self.max else []))


class SetGroupOption(Change, frozen=True, kw_only=True, tag="setGroupOption"):
    """Set a group's own value of a flag."""

    group: str
    option: str
    value: float | str

    def told(self, about: str = "") -> str:
        """Say which."""
        return f"set {self.option} of group {self.group} to {self.value}"


class RankFirst(Change, frozen=True, kw_only=True, tag="rankFirst"):
    """Rank a group above all others in the priority expander's ConfigMap."""

    group: str

    def told(self, about: str = "") -> str:
        """Say which."""
        return f"rank group {self.group} first in the priority expander's ConfigMap"


AnyChange = (
    SetFlag
    | Wait
    | LimitRequest
    | AddToleration
    | Annotate
    | DropFromPod
    | SelectLabel
    | CreateClaim
    | CreateStorageClass
    | AddGroup
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


def once(changes: Iterable[AnyChange]) -> list[AnyChange]:
    """Return the changes, each once, in their order; some cannot be hashed."""
    different: list[AnyChange] = []
    for change in changes:
        if change not in different:
            different.append(change)
    return different


def resource_name(resource: str) -> str:
    """Return what people call a resource: `CPU`, `memory`, `nvidia.com/gpu`."""
    return _NAMES.get(resource, resource)


def told(changes: Iterable[AnyChange], about: str = "") -> str:
    """Return the instruction to make all of these changes; `about` as for `Change.told`.

    The verb of one change holds for those after it: `lower the CPU request to 4 and the memory request to 8Gi`.
    """
    by_verb: dict[str, list[str]] = {}
    for change in changes:
        verb, _, rest = change.told(about).partition(" ")
        by_verb.setdefault(verb, []).append(rest)
    parts = [f"{verb} {joined(rests)}" for verb, rests in by_verb.items()]
    return joined(parts) if len(parts) == sum(map(len, by_verb.values())) else ", and ".join(parts)


def joined(parts: Iterable[str]) -> str:
    """Return words as one enumeration: `a, b and c`."""
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last


def sentence(words: str) -> str:
    """Return words as a sentence of their own."""
    return f"{words[:1].upper()}{words[1:]}."
