"""The scheduler's filters as plain definitions over lists of nodes and pods: the slow twin of `scheduling`.

One pod, one node, one filter at a time, nothing remembered between questions. It shares no code with the masks,
tallies and guards that it is held against, nor with the selectors of `objects`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from autoscaler.objects.devices import Allocation
from autoscaler.objects.meta import LabelSelector, ObjectMeta, Requirement
from autoscaler.objects.node import Node, Taint
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelector, PodAffinityTerm, SpreadConstraint
from autoscaler.objects.storage import AttachLimit, CsiNode, CsiNodeDriver, CsiNodeSpec
from autoscaler.snapshot.cluster import Related
from autoscaler.snapshot.template import Template
from tests.properties.slow_volumes import volume_objections

SKEWED = "node(s) didn't match pod topology spread constraints"


def named_claims(cls: PodClass) -> list[str]:
    return [f"{cls.namespace}/{ref.resource_claim_name}" for ref in cls.resource_claims]


class Placed(NamedTuple):
    """A pod on the node at a position."""

    cls: PodClass
    at: int
    terminating: bool = False


class SlowCluster:
    """Nodes in order, the pods on them, and objects they refer to. A removed node is None."""

    def __init__(self, nodes: Sequence[Node | None], placed: Sequence[Placed], related: Related) -> None:
        self.nodes = list(nodes)
        self.placed = list(placed)
        self.related = related
        self.namespaces = {name: one.metadata.labels for name, one in related.namespaces.items()}
        self.cursor = 0
        self.claims_in_use: dict[str, set[int]] = {}
        """Claims for devices that pods used in the beginning, and where."""
        for pod in self.placed:
            for key in named_claims(pod.cls):
                self.claims_in_use.setdefault(key, set()).add(pod.at)
        self.released: set[str] = set()
        """Those that their last user has left; they come back with a pod on a node that may use their devices."""

    def copy(self) -> "SlowCluster":
        made = SlowCluster(self.nodes, self.placed, self.related)
        made.claims_in_use, made.released = self.claims_in_use, set(self.released)
        return made

    def place(self, cls: PodClass, at: int, *, terminating: bool = False) -> None:
        for key in named_claims(cls):
            if key in self.released and (at in self.claims_in_use[key] or self._may_use(key, at)):
                self.released.remove(key)
        self.placed.append(Placed(cls, at, terminating))

    def lift(self, cls: PodClass, at: int, *, terminating: bool = False) -> None:
        self.placed.remove(Placed(cls, at, terminating))
        used = {key for pod in self.placed for key in named_claims(pod.cls)}
        self.released |= self.claims_in_use.keys() & set(named_claims(cls)) - used

    def add(self, node: Node, template: Template) -> int:
        """Add a node made from a template, as if its CSINode were there already."""
        pods = [pod.cls for pod in template.pods]
        limits = template.attach_limits
        names = {*limits, *(template.csi_drivers or ())}
        drivers = [CsiNodeDriver(name, node.name, AttachLimit(limits.get(name))) for name in sorted(names)]
        csi_node = CsiNode(ObjectMeta(name=node.name), CsiNodeSpec(drivers))
        csi_nodes = {**self.related.csi_nodes, node.name: csi_node}
        self.related = msgspec.structs.replace(self.related, csi_nodes=csi_nodes)
        self.nodes.append(node)
        for cls in pods:
            self.place(cls, len(self.nodes) - 1)
        return len(self.nodes) - 1

    def remove(self, at: int) -> None:
        self.nodes[at] = None

    def node(self, at: int) -> Node:
        node = self.nodes[at]
        assert node is not None
        return node

    def existing(self) -> list[int]:
        return [at for at, node in enumerate(self.nodes) if node is not None]

    def fits(self, cls: PodClass, at: int) -> bool:
        return self.nodes[at] is not None and not self.objections(cls, at)

    def search(self, cls: PodClass, acceptable: Callable[[int], bool]) -> int | None:
        """The first node that fits, round robin from after the last match."""
        for step in range(len(self.nodes)):
            at = (self.cursor + step) % len(self.nodes)
            if self.nodes[at] is not None and acceptable(at) and self.fits(cls, at):
                self.cursor = (at + 1) % len(self.nodes)
                return at
        return None

    def objections(self, cls: PodClass, at: int) -> list[str]:
        """What every filter says against the node, in the scheduler's order and words."""
        return [
            *self._unschedulable(cls, at),
            *self._name(cls, at),
            *self._taints(cls, at),
            *self._node_affinity(cls, at),
            *self._ports(cls, at),
            *self._resources(cls, at),
            *self._volumes(cls, at),
            *self._spread(cls, at),
            *self._affinity(cls, at),
            *self._anti_affinity(cls, at),
            *self._anti_affinity_of_others(cls, at),
            *self._devices(cls, at),
            *self._features(cls, at),
        ]

    def _unschedulable(self, cls: PodClass, at: int) -> Iterator[str]:
        cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
        if self.node(at).unschedulable and not tolerates(cls, cordon):
            yield "node(s) were unschedulable"

    def _name(self, cls: PodClass, at: int) -> Iterator[str]:
        if cls.node_name not in ("", self.node(at).name):
            yield "node(s) didn't match the requested node name"

    def _taints(self, cls: PodClass, at: int) -> Iterator[str]:
        for taint in self.node(at).taints:
            if taint.effect != "PreferNoSchedule" and not tolerates(cls, taint):
                yield f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
                return

    def _node_affinity(self, cls: PodClass, at: int) -> Iterator[str]:
        if not wants(cls, self.node(at)):
            yield "node(s) didn't match Pod's node affinity/selector"

    def _ports(self, cls: PodClass, at: int) -> Iterator[str]:
        for pod in self.placed:
            for theirs in pod.cls.host_ports if pod.at == at else ():
                for ours in cls.host_ports:
                    same = (ours.port, ours.protocol) == (theirs.port, theirs.protocol)
                    if same and (ours.ip == theirs.ip or "0.0.0.0" in (ours.ip, theirs.ip)):
                        yield "node(s) didn't have free ports for the requested pod ports"
                        return

    def _resources(self, cls: PodClass, at: int) -> Iterator[str]:
        allocatable = self.node(at).allocatable
        here = [pod.cls for pod in self.placed if pod.at == at]
        if len(here) + 1 > allocatable.get("pods", 0):
            yield "Too many pods"
        for resource, asked in cls.requests.items():
            used = sum(other.requests.get(resource, 0) for other in here)
            if asked > 0 and asked > allocatable.get(resource, 0) - used:
                yield f"Insufficient {resource}"

    def _volumes(self, cls: PodClass, at: int) -> Iterator[str]:
        here = [pod.cls for pod in self.placed if pod.at == at]
        everywhere = [pod.cls for pod in self.placed]
        yield from volume_objections(cls, self.node(at), here, everywhere, self.related, one_term_holds)

    def _features(self, cls: PodClass, at: int) -> Iterator[str]:
        declared = self.node(at).declared_features
        if any(name not in declared for name in cls.features):
            yield "node(s) didn't match Pod's required features"

    def _devices(self, cls: PodClass, at: int) -> Iterator[str]:
        """There are no devices here: what is not allocated, or was until its last user left, never will be."""
        claims = {key: self.related.resource_claims.get(key) for key in named_claims(cls)}
        if None in claims.values():
            yield "cannot allocate all claims"
            return
        kept = [key for key in claims if self._allocation(key) is not None and key not in self.released]
        if not all(self._may_use(key, at) for key in kept):
            yield "resourceclaim not available on the node"
        elif len(kept) < len(claims):
            yield "cannot allocate all claims"

    def _allocation(self, key: str) -> Allocation | None:
        claim = self.related.resource_claims.get(key)
        return None if claim is None else claim.status.allocation

    def _may_use(self, key: str, at: int) -> bool:
        allocation = self._allocation(key)
        selector = None if allocation is None else allocation.node_selector
        return selector is None or one_term_holds(selector, self.node(at))

    def _spread(self, cls: PodClass, at: int) -> Iterator[str]:
        for constraint in cls.spread:
            value = self.node(at).labels.get(constraint.topology_key)
            if value is None:
                yield f"{SKEWED} (missing required label)"
                continue
            counts = self._domains(cls, constraint)
            fewest = min(counts.values(), default=0) if len(counts) >= (constraint.min_domains or 1) else 0
            own = 1 if counts_towards(constraint, cls, cls) else 0
            if counts.get(value, 0) + own - fewest > constraint.max_skew:
                yield SKEWED

    def _domains(self, cls: PodClass, constraint: SpreadConstraint) -> dict[str, int]:
        counts: dict[str, int] = {}
        for at in self.existing():
            node = self.node(at)
            if any(other.topology_key not in node.labels for other in cls.spread):
                continue
            if constraint.node_affinity_policy == "Honor" and not wants(cls, node):
                continue
            hard = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
            if constraint.node_taints_policy == "Honor" and not all(tolerates(cls, taint) for taint in hard):
                continue
            here = [pod for pod in self.placed if pod.at == at and not pod.terminating]
            value = node.labels[constraint.topology_key]
            counts[value] = counts.get(value, 0) + sum(counts_towards(constraint, cls, pod.cls) for pod in here)
        return counts

    def _value(self, at: int, key: str) -> str | None:
        return self.node(at).labels.get(key)

    def _affinity(self, cls: PodClass, at: int) -> Iterator[str]:
        if not cls.pod_affinity:
            return
        words = "node(s) didn't match pod affinity rules"
        keys = [term.topology_key for term in cls.pod_affinity]
        if any(self._value(at, key) is None for key in keys):
            yield words
            return
        near = [pod for pod in self.placed if self._meant_by_all(cls, pod.cls)]
        if all(any(self._value(pod.at, key) == self._value(at, key) for pod in near) for key in keys):
            return
        nobody = not any(self._value(pod.at, key) is not None for pod in near for key in keys)
        if not (nobody and self._meant_by_all(cls, cls)):
            yield words

    def _meant_by_all(self, cls: PodClass, other: PodClass) -> bool:
        return all(self.means(term, cls, other) for term in cls.pod_affinity)

    def _anti_affinity(self, cls: PodClass, at: int) -> Iterator[str]:
        for term in cls.pod_anti_affinity:
            value = self._value(at, term.topology_key)
            for pod in self.placed:
                here = value is not None and self._value(pod.at, term.topology_key) == value
                if here and self.means(term, cls, pod.cls):
                    yield "node(s) didn't match pod anti-affinity rules"
                    return

    def _anti_affinity_of_others(self, cls: PodClass, at: int) -> Iterator[str]:
        for pod in self.placed:
            for term in pod.cls.pod_anti_affinity:
                value = self._value(pod.at, term.topology_key)
                if value is not None and value == self._value(at, term.topology_key) and self.means(term, pod.cls, cls):
                    yield "node(s) didn't satisfy existing pods anti-affinity rules"
                    return

    def means(self, term: PodAffinityTerm, owner: PodClass, other: PodClass) -> bool:
        """Whether a term of `owner` is about a pod of class `other`."""
        if not term.namespaces and term.namespace_selector is None:
            covered = other.namespace == owner.namespace
        else:
            covered = other.namespace in term.namespaces
            if term.namespace_selector is not None:
                nothing_asked = term.namespace_selector == LabelSelector()
                labels = self.namespaces.get(other.namespace)
                covered |= nothing_asked or (labels is not None and selected(term.namespace_selector, labels))
        if not covered or term.label_selector is None or not selected(term.label_selector, other.labels):
            return False
        for key in term.match_label_keys:
            if key in owner.labels and other.labels.get(key) != owner.labels[key]:
                return False
        for key in term.mismatch_label_keys:
            if key in owner.labels and other.labels.get(key) == owner.labels[key]:
                return False
        return True


def tolerates(cls: PodClass, taint: Taint) -> bool:
    for toleration in cls.tolerations:
        if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
            continue
        if toleration.operator == "Exists" or (toleration.key and toleration.value == taint.value):
            return True
    return False


def holds(requirement: Requirement, value: str | None) -> bool:
    if requirement.operator == "In":
        return value in requirement.values
    if requirement.operator == "NotIn":
        return value not in requirement.values
    if requirement.operator == "Exists":
        return value is not None
    if requirement.operator == "DoesNotExist":
        return value is None
    if value is None or not value.lstrip("-").isdigit():
        return False
    bound = int(requirement.values[0])
    return int(value) > bound if requirement.operator == "Gt" else int(value) < bound


def selected(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    plain = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return plain and all(holds(expression, labels.get(expression.key)) for expression in selector.match_expressions)


def wants(cls: PodClass, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in cls.node_selector.items()):
        return False
    return cls.node_affinity is None or one_term_holds(cls.node_affinity, node)


def one_term_holds(selector: NodeSelector, node: Node) -> bool:
    for term in selector.node_selector_terms:
        labels_hold = all(holds(expression, node.labels.get(expression.key)) for expression in term.match_expressions)
        fields_hold = all(
            holds(expression, node.name if expression.key == "metadata.name" else None)
            for expression in term.match_fields
        )
        if labels_hold and fields_hold and (term.match_expressions or term.match_fields):
            return True
    return False


def counts_towards(constraint: SpreadConstraint, owner: PodClass, other: PodClass) -> bool:
    selector = constraint.label_selector
    if selector is None or other.namespace != owner.namespace:
        return False
    pinned = {key: owner.labels[key] for key in constraint.match_label_keys if key in owner.labels}
    if not pinned and selector == LabelSelector():
        return False
    return selected(selector, other.labels) and all(other.labels.get(key) == value for key, value in pinned.items())
