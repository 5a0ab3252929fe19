"""Keys of an index of classes of pods: labels, namespace, controller, and what they hold on their nodes."""

from collections.abc import Hashable, Iterable, Iterator, Mapping

from autoscaler.objects.meta import OwnerReference
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import Disk, HostPort, Volume

IndexKey = Hashable
"""A label as `(key, value)`, the key alone, a namespace as `(name,)`, or what one of the functions here returns."""

EVERY_ADDRESS = "0.0.0.0"
NEVER_SHARED = "aws_elastic_block_store"
DISKS = ("gce_persistent_disk", NEVER_SHARED, "rbd", "iscsi")

Uses = Mapping[tuple[str, ...], bool]
"""Disks by kind and identity; True: in a way that no other pod on the node may share."""


def index_keys_of(cls: PodClass) -> Iterator[IndexKey]:
    """Yield all keys of a class."""
    yield (cls.namespace,)
    for pair in cls.labels.items():
        yield pair[0]
        yield pair
    if cls.owner is not None:
        yield sibling_key(cls.namespace, cls.owner)
    for port in cls.host_ports:
        yield port_key(port, port.ip)
        yield port_key(port, None)
    for disk, alone in disks_of(cls.volumes).items() if cls.volumes else ():
        yield disk_key(disk, alone=False)
        if alone:
            yield disk_key(disk, alone=True)
    for key in shared_claims(cls):
        yield claim_key(key)


def shared_claims(cls: PodClass) -> Iterator[str]:
    """Yield the keys of the claims that are the same for all pods of a class."""
    return (f"{cls.namespace}/{name}" for name in cls.claims if name not in cls.own_claims)


def sibling_key(namespace: str, owner: OwnerReference) -> IndexKey:
    """Return what pods of one controller have in common."""
    return "siblings", namespace, owner


def port_key(port: HostPort, address: str | None) -> IndexKey:
    """Return what pods have in common that claim a port on an address; None: on any."""
    return "port", port.port, port.protocol, address


def disk_key(disk: tuple[str, ...], *, alone: bool) -> IndexKey:
    """Return what users of a disk have in common; with `alone`, those that share it with no other pod."""
    return "disk", disk, alone


def claim_key(key: str) -> IndexKey:
    """Return what users of a claim on a volume have in common."""
    return "claim", key, None


def disks_of(volumes: Iterable[Volume]) -> Uses:
    """Return the disks that volumes name.

    A GCE disk or iSCSI target may be shared read-only; an RBD image likewise; an EBS volume never.
    """
    uses: dict[tuple[str, ...], bool] = {}
    for volume in volumes:
        for kind in DISKS:
            disk: Disk | None = getattr(volume, kind)
            if disk is not None:
                identity = kind, disk.pd_name, disk.volume_id, disk.pool or "rbd", disk.image, disk.iqn
                alone = kind == NEVER_SHARED or not disk.read_only
                uses[identity] = uses.get(identity, False) or alone
    return uses
