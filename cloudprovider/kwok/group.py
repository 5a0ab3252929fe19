"""One group of fake nodes."""

import copy
import random
from collections.abc import Mapping, Sequence
from typing import Any

from cloudprovider.interface import Instance, NodeRef, NodeTemplate, ProviderError, State, TaintSpec
from cloudprovider.kube_proxy import kube_proxy
from cloudprovider.kwok.config import PROVIDER_ID_PREFIX, KwokGroupSpec
from cloudprovider.kwok.roster import Roster, name_of

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, as in generated Kubernetes names
_SUFFIX_LENGTH = 5


class KwokGroup:
    """A `NodeGroup` with `ForceDelete`. Its target size is the number of its fake nodes: requests are met at once."""

    def __init__(self, spec: KwokGroupSpec, roster: Roster, rng: random.Random) -> None:
        self._spec = spec
        self._roster = roster
        self._rng = rng
        self._template = _template(spec)

    @property
    def id(self) -> str:
        """Value of the label or annotation that its template nodes share."""
        return self._spec.id

    @property
    def min_size(self) -> int:
        """From the template's annotation, 0 by default."""
        return self._spec.min_size

    @property
    def max_size(self) -> int:
        """From the template's annotation, 200 by default."""
        return self._spec.max_size

    @property
    def initial_size(self) -> int:
        """How many nodes the first refresh makes if there are none."""
        return self._spec.initial_size

    def target_size(self) -> int:
        """Return the number of fake nodes that are not being deleted."""
        return len(self._roster.live(self.id))

    def instances(self) -> Sequence[Instance]:
        """Return the fake nodes; each runs from the moment its object exists."""
        running = [Instance(PROVIDER_ID_PREFIX + name) for name in self._roster.live(self.id)]
        leaving = [Instance(PROVIDER_ID_PREFIX + name, State.DELETING) for name in self._roster.deleting(self.id)]
        return running + leaving

    def template(self) -> NodeTemplate:
        """Return the template node, with the kube-proxy pod that every node runs."""
        return self._template

    def increase(self, delta: int) -> None:
        """Create Node objects. When the API fails half-way, the target counts what was created."""
        if delta <= 0:
            raise ProviderError(f"{self.id}: an increase must be positive, not {delta}")
        size = self.target_size()
        if size + delta > self.max_size:
            raise ProviderError(f"{self.id}: {size} + {delta} is above the maximum size {self.max_size}")
        for _ in range(delta):
            name = self._new_name()
            self._roster.api.create_node(self._new_node(name))
            self._roster.created(name, self.id)

    def decrease_target(self, delta: int) -> None:
        """Refuse: every request was met when it was made, so nothing is left to cancel."""
        if delta <= 0:
            raise ProviderError(f"{self.id}: a decrease must be positive, not {delta}")
        raise ProviderError(f"{self.id}: all {self.target_size()} nodes exist, none is still to come")

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete the Node objects; refuses nodes that no kwok provider made."""
        self._delete(nodes, least=self.min_size)

    def force_delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete the Node objects, even below the minimum size."""
        self._delete(nodes, least=0)

    def _delete(self, nodes: Sequence[NodeRef], least: int) -> None:
        live = set(self._roster.live(self.id))
        going = [name for name in dict.fromkeys(map(self._own, nodes)) if name in live]
        if going and len(live) - len(going) < least:
            raise ProviderError(
                f"{self.id}: deleting {len(going)} of {len(live)} breaks the minimum size {self.min_size}"
            )
        for name in going:
            self._roster.api.delete_node(name)
            self._roster.deleted(name)

    def _own(self, node: NodeRef) -> str:
        name = name_of(node)
        if name is None or self._roster.owner(node) != self.id:
            raise ProviderError(f"{self.id}: node {node.name} is not one of this group's fake nodes")
        return name

    def _new_name(self) -> str:
        while True:
            name = f"{self.id}-{''.join(self._rng.choices(_ALPHABET, k=_SUFFIX_LENGTH))}"
            if not self._roster.is_taken(name):
                return name

    def _new_node(self, name: str) -> Mapping[str, Any]:
        node: dict[str, Any] = copy.deepcopy(dict(self._spec.node))
        metadata = node["metadata"]
        metadata["name"] = name
        # Copies of one template would otherwise share a host name, and spreading over hosts would see one host.
        metadata["labels"]["kubernetes.io/hostname"] = name
        metadata["annotations"]["metrics.k8s.io/resource-metrics-path"] = f"/metrics/nodes/{name}/metrics/resource"
        node["spec"]["providerID"] = PROVIDER_ID_PREFIX + name
        return node


def _template(spec: KwokGroupSpec) -> NodeTemplate:
    metadata, node_spec, status = (spec.node[part] for part in ("metadata", "spec", "status"))
    capacity, allocatable = (
        {name: str(amount) for name, amount in (status.get(key) or {}).items()} for key in ("capacity", "allocatable")
    )
    return NodeTemplate(
        labels=metadata["labels"],
        annotations=metadata["annotations"],
        taints=tuple(
            TaintSpec(taint["key"], taint.get("value") or "", taint.get("effect") or "NoSchedule")
            for taint in node_spec.get("taints") or []
        ),
        capacity=capacity or allocatable,
        allocatable=allocatable or capacity,
        pods=(kube_proxy(spec.id),),
    )
