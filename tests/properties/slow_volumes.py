"""The scheduler's filters about volumes as plain definitions for one pod and one node: part of the slow twin."""

from collections.abc import Callable, Iterator, Sequence

from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import Disk, NodeSelector, Volume
from autoscaler.objects.storage import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from autoscaler.snapshot.cluster import Related

Selects = Callable[[NodeSelector, Node], bool]
_ZONE_KEYS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_SHARED_TO_READ = {"gce_persistent_disk": True, "aws_elastic_block_store": False, "rbd": True, "iscsi": True}


def volume_objections(
    cls: PodClass,
    node: Node,
    here: Sequence[PodClass],
    everywhere: Sequence[PodClass],
    related: Related,
    selects: Selects,
) -> Iterator[str]:
    """What the filters about volumes say; `here` are the pods on the node, `everywhere` all pods."""
    claims = [related.claims.get(f"{cls.namespace}/{name}") for name in cls.claims]
    yield from _restrictions(cls, claims, here, everywhere)
    yield from _limits(cls, node, here, related)
    yield from _binding(cls, claims, node, related, selects)
    yield from _zones(claims, node, related)


def _restrictions(
    cls: PodClass,
    claims: Sequence[PersistentVolumeClaim | None],
    here: Sequence[PodClass],
    everywhere: Sequence[PodClass],
) -> Iterator[str]:
    alone = {claim.name for claim in claims if claim is not None and "ReadWriteOncePod" in claim.spec.access_modes}
    if any(name in other.claims and other.namespace == cls.namespace for name in alone for other in everywhere):
        yield "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
        return
    if any(_clash(mine, theirs) for mine in cls.volumes for other in here for theirs in other.volumes):
        yield "node(s) had no available disk"


def _clash(mine: Volume, theirs: Volume) -> bool:
    for source, readers_share in _SHARED_TO_READ.items():
        left: Disk | None = getattr(mine, source)
        right: Disk | None = getattr(theirs, source)
        if left is not None and right is not None and _name(left) == _name(right):
            return not (readers_share and left.read_only and right.read_only)
    return False


def _name(disk: Disk) -> str:
    return disk.pd_name or disk.volume_id or disk.iqn or f"{disk.pool or 'rbd'}/{disk.image}"


def _limits(cls: PodClass, node: Node, here: Sequence[PodClass], related: Related) -> Iterator[str]:
    csi = related.csi_nodes.get(node.name)
    for driver, _ in sorted(set(_handles(cls, related))):
        known = related.csi_drivers.get(driver)
        strict = known is not None and known.spec.prevent_pod_scheduling_if_missing
        if strict and (csi is None or driver not in [one.name for one in csi.spec.drivers]):
            yield f"{driver} CSI driver is not installed on the node"
            return
    if csi is None:
        return
    attached = {handle for other in here for handle in _handles(other, related)}
    new = set(_handles(cls, related)) - attached
    left = {
        (one.spec.attacher, volume.spec.csi.volume_handle)
        for one in related.volume_attachments.values()
        if one.spec.node_name == node.name
        and (volume := related.volumes.get(one.spec.source.persistent_volume_name)) is not None
        and volume.spec.csi is not None
    }
    attached |= left
    for there in csi.spec.drivers:
        limit = None if there.allocatable is None else there.allocatable.count
        asked = sum(1 for name, _ in new if name == there.name)
        used = sum(1 for name, _ in attached if name == there.name)
        if limit is not None and asked and used + asked > limit:
            yield "node(s) exceed max volume count"
            return


def _handles(cls: PodClass, related: Related) -> Iterator[tuple[str, str]]:
    for name in cls.claims:
        claim = related.claims.get(f"{cls.namespace}/{name}")
        if claim is None:
            continue
        volume = related.volumes.get(claim.spec.volume_name)
        if volume is None:
            storage = related.storage_classes.get(claim.spec.storage_class_name or "")
            if storage is not None:
                yield storage.provisioner, claim.key
        elif volume.spec.csi is not None:
            yield volume.spec.csi.driver, volume.spec.csi.volume_handle


def _binding(
    cls: PodClass,
    claims: Sequence[PersistentVolumeClaim | None],
    node: Node,
    related: Related,
    selects: Selects,
) -> Iterator[str]:
    for name, claim in zip(cls.claims, claims, strict=True):
        if claim is None:
            yield f'persistentvolumeclaim "{name}" not found'
            return
        storage = related.storage_classes.get(claim.spec.storage_class_name or "")
        if claim.spec.volume_name:
            if claim.spec.volume_name not in related.volumes:
                yield f'persistentvolume "{claim.spec.volume_name}" not found'
                return
        elif storage is None or storage.volume_binding_mode == "Immediate":
            yield "pod has unbound immediate PersistentVolumeClaims"
            return
    yield from _not_found([claim for claim in claims if claim is not None], node, related, selects)


def _not_found(
    claims: Sequence[PersistentVolumeClaim], node: Node, related: Related, selects: Selects
) -> Iterator[str]:
    for claim in claims:
        if claim.spec.volume_name and not _reachable(related.volumes[claim.spec.volume_name], node, selects):
            yield "node(s) had volume node affinity conflict"
            return
    taken: set[str] = set()
    lacks_storage = False
    for claim in sorted((claim for claim in claims if not claim.spec.volume_name), key=_size_of_claim):
        chosen = claim.metadata.annotations.get(SELECTED_NODE)
        fitting = [
            volume
            for volume in related.volumes.values()
            if chosen is None
            and volume.name not in taken
            and _suits(volume, claim)
            and _reachable(volume, node, selects)
        ]
        if fitting:
            taken.add(min(fitting, key=_size).name)
        elif chosen not in (None, node.name) or not _can_be_made(claim, node, related):
            yield "node(s) didn't find available persistent volumes to bind"
            return
        elif not _has_storage(claim, node, related):
            lacks_storage = True
    if lacks_storage:
        yield "node(s) did not have enough free storage"


def _reachable(volume: PersistentVolume, node: Node, selects: Selects) -> bool:
    affinity = volume.spec.node_affinity
    return affinity is None or affinity.required is None or selects(affinity.required, node)


def _size_of_claim(claim: PersistentVolumeClaim) -> int:
    return int(str(claim.spec.resources.requests["storage"]).removesuffix("Gi"))


def _size(volume: PersistentVolume) -> int:
    return int(str(volume.spec.capacity["storage"]).removesuffix("Gi"))


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        _size(volume) >= _size_of_claim(claim)
        and volume.spec.storage_class_name == claim.spec.storage_class_name
        and volume.status.phase == "Available"
        and volume.spec.claim_ref is None
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )


def _can_be_made(claim: PersistentVolumeClaim, node: Node, related: Related) -> bool:
    storage = related.storage_classes[claim.spec.storage_class_name or ""]
    if storage.provisioner == "kubernetes.io/no-provisioner":
        return False
    return not storage.allowed_topologies or any(
        all(node.labels.get(one.key) in one.values for one in term.match_label_expressions)
        for term in storage.allowed_topologies
    )


def _has_storage(claim: PersistentVolumeClaim, node: Node, related: Related) -> bool:
    storage = related.storage_classes[claim.spec.storage_class_name or ""]
    driver = related.csi_drivers.get(storage.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return True
    return any(
        int(str(one.maximum_volume_size or one.capacity or "0Gi").removesuffix("Gi")) >= _size_of_claim(claim)
        and one.node_topology is not None
        and all(node.labels.get(key) == value for key, value in one.node_topology.match_labels.items())
        for one in related.csi_storage_capacities.values()
        if one.storage_class_name == storage.name
    )


def _zones(claims: Sequence[PersistentVolumeClaim | None], node: Node, related: Related) -> Iterator[str]:
    if not any(key in node.labels for key in _ZONE_KEYS):
        return
    for claim in claims:
        volume = None if claim is None else related.volumes.get(claim.spec.volume_name)
        if volume is None:
            continue
        for key, today in _ZONE_KEYS.items():
            wanted = volume.metadata.labels.get(key)
            if wanted is not None and node.labels.get(key, node.labels.get(today)) not in wanted.split("__"):
                yield "node(s) had no available volume zone"
                return
