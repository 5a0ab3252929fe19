"""Changes that would reverse a decision: one struct per kind, each with its instruction in words.

A change of a pod belongs in the template of its controller, and so applies to all pods like it.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from autoscaler.objects import quantity
from cloudprovider.duration import show_duration

_NAMES = {quantity.CPU: "CPU", quantity.EPHEMERAL_STORAGE: "ephemeral storage"}


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="action"):
    """Base of all changes; the field `action` names the kind."""

    def told(self, about: str = "") -> str:
        """Return the change as an instruction, such as `uncordon node n`. The pod `about` is not named, for the reader
        knows it.
        """
        raise NotImplementedError


class PodChange(Change, frozen=True, kw_only=True):
    """Base of changes of a pod."""

    pod: str

    def of_pod(self, about: str) -> str:
        """Return words that name the pod, or nothing for the pod `about`."""
        return "" if self.pod == about else f" of pod {self.pod}"


class SetFlag(Change, frozen=True, kw_only=True, tag="setFlag"):
    """Set a flag of the autoscaler to another value; a list means a repeated flag."""

    flag: str
    value: str | list[str]

    def told(self, about: str = "") -> str:
        """Return the instruction with the flags as users type them."""
        values = [self.value] if isinstance(self.value, str) else self.value
        return "set " + " ".join(f"--{self.flag}={value}" for value in values) if values else f"remove --{self.flag}"


class Wait(Change, frozen=True, kw_only=True, tag="wait"):
    """Wait for more than this time."""

    seconds: float

    @property
    def span(self) -> str:
        """The time in words."""
        return show_duration(max(1, round(self.seconds)))

    def told(self, about: str = "") -> str:
        """Return the instruction with the time to wait."""
        return f"wait {self.span}"


class LimitRequest(PodChange, frozen=True, kw_only=True, tag="limitRequest"):
    """Limit the request of a pod, summed over its containers, to this quantity of a resource."""

    resource: str
    at_most: str
    requested: str

    @property
    def drops(self) -> bool:
        """Whether the change removes the request."""
        return quantity.amount(self.resource, self.at_most) == 0

    def told(self, about: str = "") -> str:
        """Return the instruction with old and new amount: `lower the CPU request from 12 to 7.4`."""
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
        """Return the instruction with the taint that the pod has to tolerate."""
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
        """Return the instruction with the annotation to set or remove."""
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
        """Return the instruction with the part to remove."""
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
    """Correct the label `wrong_key=wrong_value` that a pod asks for in `nodeSelector` or required `nodeAffinity`."""

    field: PodField
    key: str
    value: str
    wrong_key: str
    wrong_value: str

    def told(self, about: str = "") -> str:
        """Return the instruction with the wrong and the right label."""
        right = self.value if self.key == self.wrong_key else f"{self.key}={self.value}"
        where = f"in the {_FIELDS[self.field]}{self.of_pod(about)}"
        return f"replace {self.wrong_key}={self.wrong_value} by {right} {where}"


class CreateClaim(Change, frozen=True, kw_only=True, tag="createClaim"):
    """Create a PersistentVolumeClaim; its name is `namespace/name`."""

    claim: str

    def told(self, about: str = "") -> str:
        """Return the instruction with the name of the claim."""
        return f"create PersistentVolumeClaim {self.claim}"


class CreateStorageClass(Change, frozen=True, kw_only=True, tag="createStorageClass"):
    """Create a StorageClass that binds volumes on first use."""

    name: str

    def told(self, about: str = "") -> str:
        """Return the instruction with the name of the class."""
        return f"create StorageClass {self.name}"


class AddGroup(Change, frozen=True, kw_only=True, tag="addGroup"):
    """Add a node group that is like another group, except for these labels of its nodes."""

    like: str
    labels: dict[str, str]

    def told(self, about: str = "") -> str:
        """Return the instruction with the group and the labels."""
        return f"add a group like {self.like} with " + joined(f"{key}={value}" for key, value in self.labels.items())


class AllowSkew(PodChange, frozen=True, kw_only=True, tag="allowSkew"):
    """Raise `maxSkew` of a pod's topology spread constraint for a topology key."""

    topology_key: str
    max_skew: int

    def told(self, about: str = "") -> str:
        """Return the instruction with the new `maxSkew`."""
        return f"raise maxSkew{self.of_pod(about)} over {self.topology_key} to {self.max_skew}"


class SetPriority(PodChange, frozen=True, kw_only=True, tag="setPriority"):
    """Change the priority of a pod."""

    priority: int

    def told(self, about: str = "") -> str:
        """Return the instruction with the new priority."""
        return f"raise the priority{self.of_pod(about)} to {self.priority}"


class DeletePod(PodChange, frozen=True, kw_only=True, tag="deletePod"):
    """Delete a pod."""

    def told(self, about: str = "") -> str:
        """Return the instruction with the name of the pod."""
        return f"delete pod {self.pod}"


class Uncordon(Change, frozen=True, kw_only=True, tag="uncordon"):
    """Make a node schedulable."""

    node: str

    def told(self, about: str = "") -> str:
        """Return the instruction with the name of the node."""
        return f"uncordon node {self.node}"


class Scale(Change, frozen=True, kw_only=True, tag="scale"):
    """Scale a controller to at least this many replicas; its name is `namespace/name`."""

    kind: str
    name: str
    replicas: int

    def told(self, about: str = "") -> str:
        """Return the instruction with the number of replicas."""
        return f"scale {self.kind} {self.name} to {self.replicas} replicas"


class AllowDisruptions(Change, frozen=True, kw_only=True, tag="allowDisruptions"):
    """Make a PodDisruptionBudget allow this many disruptions, with more healthy replicas or a wider budget."""

    budget: str
    allowed: int

    def told(self, about: str = "") -> str:
        """Return the instruction with the number of disruptions."""
        count = f"{self.allowed} disruption{'' if self.allowed == 1 else 's'}"
        return f"make PodDisruptionBudget {self.budget} allow {count}, by more healthy replicas or a wider budget"


class AddBudget(PodChange, frozen=True, kw_only=True, tag="addBudget"):
    """Create a PodDisruptionBudget that covers the pod's labels and allows one disruption."""

    def told(self, about: str = "") -> str:
        """Return the instruction with the name of the pod."""
        return f"create a PodDisruptionBudget for pod {self.pod} that allows 1 disruption"


class ResizeGroup(Change, frozen=True, kw_only=True, tag="resizeGroup"):
    """Change the minimum or maximum size of a node group; None keeps the value."""

    group: str
    min: int | None = None
    max: int | None = None

    def told(self, about: str = "") -> str:
        """Return the instruction with the new sizes."""
        sizes = [f"lower the minimum size of group {self.group} to {self.min}"] if self.min is not None else []
        return joined(sizes + ([f"raise the maximum size of group {self.group} to {self.max}"] if self.max else []))


class SetGroupOption(Change, frozen=True, kw_only=True, tag="setGroupOption"):
    """Set a group's own value of a flag."""

    group: str
    option: str
    value: float | str

    def told(self, about: str = "") -> str:
        """Return the instruction with the flag and the group."""
        return f"set {self.option} of group {self.group} to {self.value}"


class RaiseQuota(Change, frozen=True, kw_only=True, tag="raiseQuota"):
    """Raise a limit of a CapacityQuota."""

    quota: str
    resource: str
    value: str

    def told(self, about: str = "") -> str:
        """Say where to."""
        return f"raise {self.resource} in spec.limits.resources of CapacityQuota {self.quota} to {self.value}"


class RankFirst(Change, frozen=True, kw_only=True, tag="rankFirst"):
    """Rank a group above all others in the priority expander's ConfigMap."""

    group: str

    def told(self, about: str = "") -> str:
        """Return the instruction with the name of the group."""
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
    | RaiseQuota
    | RankFirst
)


def once(changes: Iterable[AnyChange]) -> list[AnyChange]:
    """Return the changes in their order, without duplicates. Some changes are not hashable."""
    different: list[AnyChange] = []
    for change in changes:
        if change not in different:
            different.append(change)
    return different


def resource_name(resource: str) -> str:
    """Return the common name of a resource: `CPU`, `memory`, `nvidia.com/gpu`."""
    return _NAMES.get(resource, resource)


def told(changes: Iterable[AnyChange], about: str = "") -> str:
    """Return one instruction for all of these changes; `about` as for `Change.told`.

    Changes with the same verb share it: `lower the CPU request to 4 and the memory request to 8Gi`.
    """
    by_verb: dict[str, list[str]] = {}
    for change in changes:
        verb, _, rest = change.told(about).partition(" ")
        by_verb.setdefault(verb, []).append(rest)
    parts = [f"{verb} {joined(rests)}" for verb, rests in by_verb.items()]
    return joined(parts) if len(parts) == sum(map(len, by_verb.values())) else ", and ".join(parts)


def joined(parts: Iterable[str]) -> str:
    """Return words as a list in a sentence: `a, b and c`."""
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last


def sentence(words: str) -> str:
    """Return words as a sentence with a capital letter and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."
