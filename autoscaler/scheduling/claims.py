"""Derives what the claims of a pod require of its node.

Source: the scheduler's plug-ins VolumeBinding and VolumeZone.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec
import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.meta import UNDECODED, LabelSelector, Operator, Requirement
from autoscaler.objects.node import REGIONS, ZONES
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelector, NodeSelectorTerm
from autoscaler.objects.storage import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim, StorageClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.masks import NAME_FIELD
from autoscaler.scheduling.node_requirements import NodeRequirement, Nowhere, Select, Within
from autoscaler.snapshot.cluster import Related
from autoscaler.snapshot.columns import Mask

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_WAITS = "WaitForFirstConsumer"
_STORAGE = "storage"
_TODAYS_KEY = {ZONES[1]: ZONES[0], REGIONS[1]: REGIONS[0]}


class UnboundClaim(msgspec.Struct, frozen=True):
    """A claim that waits for its first consumer."""

    claim: str
    volumes: tuple[tuple[str, NodeSelector | None], ...]
    """Volumes that would do, best first, with the nodes they can be used from."""
    provisioning: tuple[NodeSelector | None, ...]
    """Nodes for which a volume can be made: all of these at once; none where none can be."""
    storage: tuple[NodeSelector | None, ...] | None = None
    """Nodes that reach enough free storage for it: any of these; None: free storage does not matter."""


class FirstUse(msgspec.Struct, frozen=True):
    """Met where every waiting claim of the pod gets a volume, no two of them the same."""

    claims: tuple[UnboundClaim, ...]
    """Smallest first: the order in which they choose."""
    rejection: Rejection

    def met(self, select: Select) -> Mask:
        """Return which of the nodes in question have it."""
        everywhere = select(None)
        result = everywhere.copy()
        taken: dict[str, Mask] = {}
        for claim in self.claims:
            served = ~everywhere
            for name, selector in claim.volumes:
                here = select(selector) & ~served
                if name in taken:
                    here &= ~taken[name]
                    taken[name] |= here
                else:
                    taken[name] = here
                served = served | here
            if claim.provisioning:
                made = np.logical_and.reduce([select(selector) for selector in claim.provisioning])
                if claim.storage is not None:
                    made &= np.logical_or.reduce([~everywhere, *(select(selector) for selector in claim.storage)])
                served |= made
            result &= served
        return result


def binding_demands(cls: PodClass, related: Related) -> list[NodeRequirement]:
    """Return what VolumeBinding asks for the claims of a class; just the obstacle where there is one everywhere."""
    demands: list[NodeRequirement] = []
    waiting: list[PersistentVolumeClaim] = []
    obstacle = claim_obstacle(cls, related)
    if obstacle is not None:
        return [Nowhere(Rejection(NoFit.VOLUME_BINDING, obstacle, obstacle))]
    for name in cls.claims:
        claim = related.claims.get(f"{cls.namespace}/{name}")
        if claim is not None and claim.bound:
            demands.extend(_reach(related.volumes[claim.spec.volume_name]))
        elif claim is not None:
            waiting.append(claim)
    if waiting:
        waiting.sort(key=lambda claim: quantity.amounts(claim.spec.resources.requests).get(_STORAGE, 0))
        message = "node(s) didn't find available persistent volumes to bind"
        told = _told(cls, waiting)
        detail = f"there is no volume here for {told}, nor may one be made"
        seeking = tuple(_seeking(claim, related) for claim in waiting)
        demands.append(FirstUse(seeking, Rejection(NoFit.VOLUME_BINDING, message, detail)))
        stored = tuple(_where_stored(one, claim, related) for one, claim in zip(seeking, waiting, strict=True))
        if stored != seeking:
            message = "node(s) did not have enough free storage"
            detail = f"no CSIStorageCapacity that the node reaches has room for {told}"
            demands.append(FirstUse(stored, Rejection(NoFit.VOLUME_BINDING, message, detail)))
    return demands


class ClaimFault(StrEnum):
    """What may be wrong with a claim on every node."""

    MISSING = "missing"
    NOT_MADE_YET = "not made yet"
    """The ephemeral volume controller is to create it."""
    UNDECODED = "undecoded"
    LOST = "lost"
    LEAVING = "leaving"
    VOLUME_MISSING = "volume missing"
    UNBOUND = "unbound"


class FaultyClaim(msgspec.Struct, frozen=True):
    """A claim that no node can serve; `words` are the scheduler's."""

    name: str
    fault: ClaimFault
    words: str


def _told(cls: PodClass, claims: Sequence[PersistentVolumeClaim]) -> str:
    """Return what to call claims; those of which every pod has its own are not called by one pod's names."""
    names = [
        f"its claim of storage class {claim.storage_class}" if claim.name in cls.own_claims else f"claim {claim.name}"
        for claim in claims
    ]
    return names[0] if len(names) == 1 else f"each of {', '.join(names)}"


def claim_obstacle(cls: PodClass, related: Related) -> str | None:
    """Return what is wrong with the first claim that no node can serve, in the scheduler's words; None: nothing is."""
    first = next(faulty_claims(cls, related), None)
    return None if first is None else first.words


def faulty_claims(cls: PodClass, related: Related) -> Iterator[FaultyClaim]:
    """Yield the claims of a class that no node can serve."""
    ephemeral = sum(1 for volume in cls.volumes if volume.ephemeral is not None)
    for number, name in enumerate(cls.claims):
        claim = related.claims.get(f"{cls.namespace}/{name}")
        made_for_pod = number >= len(cls.claims) - ephemeral
        found = _fault(name, claim, related, made_for_pod=made_for_pod)
        if found is not None:
            yield FaultyClaim(name, *found)


def _fault(
    name: str, claim: PersistentVolumeClaim | None, related: Related, *, made_for_pod: bool
) -> tuple[ClaimFault, str] | None:
    if claim is None:
        if made_for_pod:
            words = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return ClaimFault.NOT_MADE_YET, words
        return ClaimFault.MISSING, f'persistentvolumeclaim "{name}" not found'
    volume = claim.spec.volume_name
    if UNDECODED in claim.metadata.annotations:
        return ClaimFault.UNDECODED, f'persistentvolumeclaim "{name}" cannot be decoded'
    if claim.status.phase == "Lost":
        return ClaimFault.LOST, f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.deletion_timestamp is not None:
        return ClaimFault.LEAVING, f'persistentvolumeclaim "{name}" is being deleted'
    if claim.bound:
        if volume not in related.volumes:
            return ClaimFault.VOLUME_MISSING, f'persistentvolume "{volume}" not found'
        return None
    storage = related.storage_classes.get(claim.storage_class)
    if volume or storage is None or storage.volume_binding_mode != _WAITS:
        return ClaimFault.UNBOUND, "pod has unbound immediate PersistentVolumeClaims"
    return None


def _reach(volume: PersistentVolume) -> Iterator[NodeRequirement]:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        message = "node(s) had volume node affinity conflict"
        detail = f"volume {volume.name} is bound to other nodes"
        yield Within(affinity.required, Rejection(NoFit.VOLUME_BINDING, message, detail))


def _seeking(claim: PersistentVolumeClaim, related: Related) -> UnboundClaim:
    storage = related.storage_classes[claim.storage_class]
    provisioning = _provisioning(storage)
    node = claim.metadata.annotations.get(SELECTED_NODE)
    if node is not None:
        named = NodeSelectorTerm(match_fields=[Requirement(key=NAME_FIELD, operator=Operator.IN, values=[node])])
        only_there = NodeSelector(node_selector_terms=[named])
        return UnboundClaim(claim.name, (), (only_there, *provisioning) if provisioning else ())
    return UnboundClaim(claim.name, tuple(_candidates(claim, related)), provisioning)


def _where_stored(seeking: UnboundClaim, claim: PersistentVolumeClaim, related: Related) -> UnboundClaim:
    """Return the claim with the nodes that reach enough free storage, if its driver makes volumes only there."""
    storage = related.storage_classes[claim.storage_class]
    driver = related.csi_drivers.get(storage.provisioner)
    wanted = quantity.amounts(claim.spec.resources.requests).get(_STORAGE)
    if driver is None or not driver.spec.storage_capacity or wanted is None or not seeking.provisioning:
        return seeking
    reach = tuple(
        _topology(free.node_topology)
        for free in related.csi_storage_capacities.values()
        if free.storage_class_name == storage.name and free.node_topology is not None
        if free.largest is not None and free.largest >= wanted
    )
    return msgspec.structs.replace(seeking, storage=reach)


def _topology(selector: LabelSelector) -> NodeSelector | None:
    """Return the nodes whose labels a selector matches; None: all."""
    if selector.empty:
        return None
    exactly = [Requirement(key=key, operator=Operator.IN, values=[it]) for key, it in selector.match_labels.items()]
    return NodeSelector(
        node_selector_terms=[NodeSelectorTerm(match_expressions=[*exactly, *selector.match_expressions])]
    )


def _provisioning(storage: StorageClass) -> tuple[NodeSelector | None, ...]:
    if storage.provisioner in ("", _NO_PROVISIONER):
        return ()
    if not storage.allowed_topologies:
        return (None,)
    terms = [
        NodeSelectorTerm(
            match_expressions=[
                Requirement(key=expression.key, operator=Operator.IN, values=expression.values)
                for expression in topology.match_label_expressions
            ]
        )
        for topology in storage.allowed_topologies
    ]
    return (NodeSelector(node_selector_terms=terms),)


def _candidates(claim: PersistentVolumeClaim, related: Related) -> Iterator[tuple[str, NodeSelector | None]]:
    """Yield volumes for a claim: the one reserved for it alone, or all that serve it, smallest first."""
    wanted = quantity.amounts(claim.spec.resources.requests).get(_STORAGE, 0)
    large: list[tuple[int, PersistentVolume]] = []
    for volume in related.volumes.values():
        size = quantity.amounts(volume.spec.capacity).get(_STORAGE, 0)
        same_mode = volume.spec.volume_mode == claim.spec.volume_mode
        same_class = volume.storage_class == claim.storage_class
        if size >= wanted and same_mode and same_class and volume.metadata.deletion_timestamp is None:
            large.append((size, volume))
    reserved = next((volume for _, volume in large if volume.reserved_for(claim)), None)
    if reserved is not None:
        yield reserved.name, _affinity(reserved)
        return
    for _, volume in sorted(large, key=lambda pair: pair[0]):
        if volume.spec.claim_ref is None and _offers(volume, claim):
            yield volume.name, _affinity(volume)


def _offers(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    selector = claim.spec.selector
    if volume.status.phase != "Available" or not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return False
    return selector is None or selector.matches(volume.metadata.labels)


def _affinity(volume: PersistentVolume) -> NodeSelector | None:
    return None if volume.spec.node_affinity is None else volume.spec.node_affinity.required


def zone_demands(cls: PodClass, related: Related) -> Iterator[NodeRequirement]:
    """Yield what VolumeZone asks: zones and regions that the volumes of a class are labelled with."""
    for name in cls.claims:
        claim = related.claims.get(f"{cls.namespace}/{name}")
        volume = None if claim is None else related.volumes.get(claim.spec.volume_name)
        for key in (*ZONES, *REGIONS):
            label = None if volume is None else volume.metadata.labels.get(key)
            values = [] if label is None else [value.strip() for value in label.split("__")]
            if volume is not None and values and all(values):
                detail = f"volume {volume.name} is in {' or '.join(values)}"
                message = "node(s) had no available volume zone"
                yield Within(_zone_selector(key, values), Rejection(NoFit.VOLUME_ZONE, message, detail))


def _zone_selector(key: str, values: Sequence[str]) -> NodeSelector:
    """A node passes with one of the values, under today's key if it lacks an older one, or without any such label."""
    inside = Requirement(key=key, operator=Operator.IN, values=list(values))
    terms = [NodeSelectorTerm(match_expressions=[inside])]
    if (today := _TODAYS_KEY.get(key)) is not None:
        absent = Requirement(key=key, operator=Operator.DOES_NOT_EXIST)
        inside = Requirement(key=today, operator=Operator.IN, values=list(values))
        terms.append(NodeSelectorTerm(match_expressions=[absent, inside]))
    nowhere = [Requirement(key=label, operator=Operator.DOES_NOT_EXIST) for label in (*ZONES, *REGIONS)]
    terms.append(NodeSelectorTerm(match_expressions=nowhere))
    return NodeSelector(node_selector_terms=terms)
