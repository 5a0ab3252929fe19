"""Volumes: where a pod's claims, disks and attach limits let it go.

Source: the scheduler's plug-ins VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits. A node that does
not exist yet has no CSINode, so no attach limit holds for it.
"""

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.matching import selector_matches
from autoscaler.objects.meta import Operator, Requirement
from autoscaler.objects.node import REGIONS, ZONES, Node
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import Disk, NodeSelector, NodeSelectorTerm, Volume
from autoscaler.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling import masks
from autoscaler.scheduling.bounds import Bound, gate
from autoscaler.snapshot.cluster import Related
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Trial

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_ONE_POD = "ReadWriteOncePod"


class Need(msgspec.Struct, frozen=True):
    """Node labels that one volume asks for: one of the selectors must match; none at all is impossible."""

    selectors: tuple[NodeSelector, ...]
    rejection: Rejection

    def met_by(self, node: Node) -> bool:
        """Whether a node has them."""
        return any(selector_matches(one, node.labels, node.name) for one in self.selectors)


class Claimed(msgspec.Struct, frozen=True):
    """What the claims of a class come to: an obstacle on every node, or needs and attachments."""

    obstacle: Rejection | None = None
    needs: tuple[Need, ...] = ()
    handles: tuple[tuple[str, str], ...] = ()
    """CSI driver and volume of each claim."""


def resolve_claims(cls: PodClass, related: Related) -> Claimed:
    """Look up the claims of a class."""
    needs: list[Need] = []
    handles: list[tuple[str, str]] = []
    for name in cls.claims:
        claim = related.claims.get(f"{cls.namespace}/{name}")
        if claim is None:
            return Claimed(_everywhere(f'persistentvolumeclaim "{name}" not found'))
        if claim.spec.volume_name:
            volume = related.volumes.get(claim.spec.volume_name)
            if volume is None:
                return Claimed(_everywhere(f'persistentvolume "{claim.spec.volume_name}" not found'))
            needs.extend(_needs_of(volume))
        else:
            storage = related.storage_classes.get(claim.spec.storage_class_name or "")
            if storage is None or storage.volume_binding_mode != "WaitForFirstConsumer":
                return Claimed(_everywhere("pod has unbound immediate PersistentVolumeClaims"))
            if (need := _unbound_need(claim, storage, related)) is not None:
                needs.append(need)
        handles.extend(attachment(cls.namespace, name, related))
    return Claimed(None, tuple(needs), tuple(handles))


def _everywhere(message: str) -> Rejection:
    return Rejection(NoFit.VOLUME_BINDING, message, message)


def _needs_of(volume: PersistentVolume) -> Iterator[Need]:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        message = "node(s) had volume node affinity conflict"
        detail = f"volume {volume.name} is bound to other nodes"
        yield Need((affinity.required,), Rejection(NoFit.VOLUME_BINDING, message, detail))
    for keys in (ZONES, REGIONS):
        for key in keys:
            if (value := volume.metadata.labels.get(key)) is not None:
                message = "node(s) had no available volume zone"
                yield Need(_zone_selectors(key, value), Rejection(NoFit.VOLUME_ZONE, message, f"volume is in {value}"))


def _zone_selectors(key: str, value: str) -> tuple[NodeSelector, ...]:
    """A node passes with a label of the key that lists its zone, or with no zone label whatever."""
    inside = Requirement(key=key, operator=Operator.IN, values=value.split("__"))
    nowhere = [Requirement(key=one, operator=Operator.DOES_NOT_EXIST) for one in (*ZONES, *REGIONS)]
    terms = [NodeSelectorTerm(match_expressions=[inside]), NodeSelectorTerm(match_expressions=nowhere)]
    return (NodeSelector(node_selector_terms=terms),)


_ANYWHERE = NodeSelector(
    node_selector_terms=[
        NodeSelectorTerm(match_expressions=[Requirement(key="no-such-label", operator=Operator.DOES_NOT_EXIST)])
    ]
)


def _unbound_need(claim: PersistentVolumeClaim, storage: StorageClass, related: Related) -> Need | None:
    """What a claim that waits for its first consumer asks: a volume at hand, or a place to provision one."""
    selectors: list[NodeSelector] = []
    for volume in related.volumes.values():
        if _serves(volume, claim):
            affinity = volume.spec.node_affinity
            selectors.append(affinity.required if affinity and affinity.required else _ANYWHERE)
    if storage.provisioner != _NO_PROVISIONER:
        if not storage.allowed_topologies:
            return None
        terms = [
            NodeSelectorTerm(
                match_expressions=[
                    Requirement(key=one.key, operator=Operator.IN, values=one.values)
                    for one in topology.match_label_expressions
                ]
            )
            for topology in storage.allowed_topologies
        ]
        selectors.append(NodeSelector(node_selector_terms=terms))
    message = "node(s) didn't find available persistent volumes to bind"
    detail = f"claim {claim.name} finds no volume and no place to provision one here"
    return Need(tuple(selectors), Rejection(NoFit.VOLUME_BINDING, message, detail))


def _serves(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    spec = volume.spec
    if spec.claim_ref is not None:
        return (spec.claim_ref.namespace, spec.claim_ref.name) == (claim.namespace, claim.name)
    if volume.status.phase not in ("Available", "Pending"):
        return False
    if spec.storage_class_name != (claim.spec.storage_class_name or ""):
        return False
    if not set(claim.spec.access_modes) <= set(spec.access_modes):
        return False
    wanted = quantity.amounts(claim.spec.resources.requests)
    offered = quantity.amounts(spec.capacity)
    return all(offered.get(resource, 0) >= value for resource, value in wanted.items())


def attachment(namespace: str, claim_name: str, related: Related) -> Iterator[tuple[str, str]]:
    """Yield the CSI driver and volume that a claim attaches to its node."""
    claim = related.claims.get(f"{namespace}/{claim_name}")
    if claim is None:
        return
    if claim.spec.volume_name:
        volume = related.volumes.get(claim.spec.volume_name)
        if volume is not None and volume.spec.csi is not None:
            yield volume.spec.csi.driver, volume.spec.csi.volume_handle
    else:
        storage = related.storage_classes.get(claim.spec.storage_class_name or "")
        if storage is not None:
            yield storage.provisioner, f"{namespace}/{claim_name}"


def disks_clash(mine: Volume, other: Volume) -> bool:
    """Whether two volumes name one disk in ways that cannot share a node.

    A GCE disk or iSCSI target may be shared read-only; an RBD image likewise; an EBS volume never.
    """
    for name, exclusive in (
        ("gce_persistent_disk", False),
        ("aws_elastic_block_store", True),
        ("rbd", False),
        ("iscsi", False),
    ):
        left: Disk | None = getattr(mine, name)
        right: Disk | None = getattr(other, name)
        if left is None or right is None or _identity(left) != _identity(right):
            continue
        if exclusive or not (left.read_only and right.read_only):
            return True
    return False


def _identity(disk: Disk) -> tuple[str, ...]:
    return disk.pd_name, disk.volume_id, disk.pool, disk.image, disk.iqn


class VolumeGuard:
    """Keeps a class off nodes that its volumes cannot reach or that have no attachment left."""

    def __init__(self, cls: PodClass, trial: Trial) -> None:
        self._cls = cls
        self._trial = trial
        self._related = trial.view.related
        self._claimed = resolve_claims(cls, self._related)
        self._exclusive = [
            f"{cls.namespace}/{name}"
            for name in cls.claims
            if (claim := self._related.claims.get(f"{cls.namespace}/{name}")) and _ONE_POD in claim.spec.access_modes
        ]
        self._reachable: dict[int, bool] = {}
        self._base_mask: Mask | None = None

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        size = window.stop - window.start
        if self._claimed.obstacle is not None or self._taken_elsewhere():
            return np.zeros(size, dtype=np.bool_)
        mask = self._reach(window)
        for offset in np.flatnonzero(mask).tolist():
            position = window.start + offset
            mask[offset] = not self._disk_clash(position) and not self._over_limit(position)
        return mask

    def _reach(self, window: slice) -> Mask:
        trial = self._trial
        if self._base_mask is None:
            mask = np.ones(trial.base, dtype=np.bool_)
            for need in self._claimed.needs:
                met = np.zeros(trial.base, dtype=np.bool_)
                for selector in need.selectors:
                    met |= masks.selected(selector, trial)[: trial.base]
                mask &= met
            self._base_mask = mask
        base = self._base_mask[window.start : min(window.stop, trial.base)]
        kinds = trial.kinds[max(window.start, trial.base) : window.stop].tolist()
        added = [self._template_reached(kind) for kind in kinds]
        return np.concatenate([base, np.array(added, dtype=np.bool_)])

    def _template_reached(self, kind: int) -> bool:
        known = self._reachable.get(kind)
        if known is None:
            node = self._trial.templates[kind].node
            known = self._reachable[kind] = all(need.met_by(node) for need in self._claimed.needs)
        return known

    def _taken_elsewhere(self) -> bool:
        """Whether a claim that only one pod may use is in use."""
        if not self._exclusive:
            return False
        wanted = set(self._exclusive)

        def uses(cls: PodClass) -> bool:
            return any(f"{cls.namespace}/{name}" in wanted for name in cls.claims)

        if any(uses(cls) for cls in self._trial.view.classes):
            return True
        return any(uses(cls) and int(counts.sum()) > 0 for cls, _, counts in self._trial.moves())

    def _disk_clash(self, position: int) -> bool:
        if not any(_has_disk(volume) for volume in self._cls.volumes):
            return False
        present = self._trial.classes_on(position)
        return any(disks_clash(mine, other) for cls in present for other in cls.volumes for mine in self._cls.volumes)

    def _over_limit(self, position: int) -> bool:
        return self._shortage(position) is not None

    def _shortage(self, position: int) -> tuple[str, int] | None:
        """Return a driver that cannot attach more on this node, and its limit."""
        limits = self._limits(position)
        if not limits or not self._claimed.handles:
            return None
        attached = {
            handle
            for cls in self._trial.classes_on(position)
            for name in cls.claims
            for handle in attachment(cls.namespace, name, self._related)
        }
        for driver, limit in limits.items():
            mine = {handle for handle in self._claimed.handles if handle[0] == driver} - attached
            if mine and len(mine) + sum(1 for handle in attached if handle[0] == driver) > limit:
                return driver, limit
        return None

    def _limits(self, position: int) -> Mapping[str, int]:
        if position >= self._trial.base:
            return {}
        csi = self._related.csi_nodes.get(self._trial.view.nodes[position].name)
        if csi is None:
            return {}
        return {
            driver.name: driver.allocatable.count
            for driver in csi.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    def felt_elsewhere(self, cls: PodClass) -> bool:
        """Volumes are attached to one node only; see `placement.Guard`."""
        return False

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come: any number where the volumes can be reached, unless they cannot be shared."""
        if self._exclusive or any(_has_disk(volume) for volume in self._cls.volumes):
            return None
        return gate(self.mask(window), bool(self.mask(slice(fresh, fresh + 1))[0]))

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        if self._claimed.obstacle is not None:
            return self._claimed.obstacle
        if self._taken_elsewhere():
            message = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            return Rejection(NoFit.VOLUME_RESTRICTIONS, message, ", ".join(self._exclusive))
        node = self._trial.node(position)
        for need in self._claimed.needs:
            if not need.met_by(node):
                return need.rejection
        if self._disk_clash(position):
            message = "node(s) had no available disk"
            return Rejection(NoFit.VOLUME_RESTRICTIONS, message, "a pod here uses the same disk")
        if (shortage := self._shortage(position)) is not None:
            detail = f"driver {shortage[0]} attaches at most {shortage[1]} volumes here"
            return Rejection(NoFit.VOLUME_LIMITS, "node(s) exceed max volume count", detail)
        return None


def _has_disk(volume: Volume) -> bool:
    return any((volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd, volume.iscsi))


def has_volumes(cls: PodClass) -> bool:
    """Whether volumes can keep the class off a node."""
    return bool(cls.claims) or any(_has_disk(volume) for volume in cls.volumes)
