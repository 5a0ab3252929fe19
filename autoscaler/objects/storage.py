"""Volumes, claims and what nodes can attach."""

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.decode import Undecoded, WireDecoder
from autoscaler.objects.meta import NEVER_KNOWN, LabelSelector, Resource, Wire
from autoscaler.objects.podspec import Disk, NodeSelector, Volume
from autoscaler.objects.workload import plain_decoder

STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Older than the field in the spec, and wins over it."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class ClaimRequests(Wire, frozen=True):
    """How much storage a claim asks for."""

    requests: dict[str, str | int | float] = {}


class ClaimSpec(Wire, frozen=True):
    """What a claim asks for."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] = []
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    resources: ClaimRequests = ClaimRequests()


class ClaimStatus(Wire, frozen=True):
    """Whether a claim is bound."""

    phase: str = "Pending"


class PersistentVolumeClaim(Resource, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    def check(self) -> None:
        """Raise `ValueError` where a quantity or a time in it, read later on, cannot be read."""
        quantity.amounts(self.spec.resources.requests)

    @property
    def storage_class(self) -> str:
        """Name of its storage class; empty where it has none."""
        return self.metadata.annotations.get(STORAGE_CLASS) or self.spec.storage_class_name or ""

    @property
    def bound(self) -> bool:
        """Whether binding is complete: a claim that only names its volume still waits for the controller."""
        complete = BIND_COMPLETED in self.metadata.annotations or self.status.phase == "Bound"
        return bool(self.spec.volume_name) and complete


def undecoded_claim(odd: Undecoded) -> PersistentVolumeClaim:
    """Return the substitute of a claim that was never decoded: no pod that uses it is placed."""
    return PersistentVolumeClaim(metadata=odd.marked(NEVER_KNOWN))


def claim_decoder() -> WireDecoder[PersistentVolumeClaim, PersistentVolumeClaim]:
    """Return the decoder of PersistentVolumeClaims."""
    return plain_decoder(PersistentVolumeClaim, lambda odd, held: held or undecoded_claim(odd))


class ClaimRef(Wire, frozen=True):
    """The claim a volume is reserved for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Wire, frozen=True):
    """The nodes from which a volume can be used."""

    required: NodeSelector | None = None


class CsiVolume(Wire, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Wire, frozen=True):
    """Spec of a volume."""

    storage_class_name: str = ""
    access_modes: list[str] = []
    volume_mode: str = "Filesystem"
    claim_ref: ClaimRef | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolume | None = None
    gce_persistent_disk: Disk | None = None
    aws_elastic_block_store: Disk | None = None
    azure_disk: Disk | None = None
    cinder: Disk | None = None
    vsphere_volume: Disk | None = None
    portworx_volume: Disk | None = None
    capacity: dict[str, str | int | float] = {}


_MIGRATED = {
    "kubernetes.io/aws-ebs": ("aws_elastic_block_store", "ebs.csi.aws.com"),
    "kubernetes.io/gce-pd": ("gce_persistent_disk", "pd.csi.storage.gke.io"),
    "kubernetes.io/azure-disk": ("azure_disk", "disk.csi.azure.com"),
    "kubernetes.io/cinder": ("cinder", "cinder.csi.openstack.org"),
    "kubernetes.io/vsphere-volume": ("vsphere_volume", "csi.vsphere.vmware.com"),
    "kubernetes.io/portworx-volume": ("portworx_volume", "pxd.portworx.com"),
}
"""Plug-ins of Kubernetes itself whose work CSI drivers do today: the field that names their disks, and the driver."""


def migrated_driver(provisioner: str) -> str:
    """Return the CSI driver that does the work of a provisioner."""
    return _MIGRATED[provisioner][1] if provisioner in _MIGRATED else provisioner


def migrated_disk(source: Volume | VolumeSpec) -> tuple[str, str] | None:
    """Return the CSI driver that attaches a disk of a plug-in of Kubernetes itself, and the disk; None for others."""
    for field, driver in _MIGRATED.values():
        disk: Disk | None = getattr(source, field)
        if disk is not None:
            aws_id = disk.volume_id.rpartition("/")[2] if disk.volume_id.startswith("aws://") else disk.volume_id
            return driver, disk.pd_name or aws_id or disk.disk_uri or disk.volume_path
    return None


class VolumeStatus(Wire, frozen=True):
    """Phase of a volume."""

    phase: str = "Available"


class PersistentVolume(Resource, frozen=True):
    """A PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    def check(self) -> None:
        """Raise `ValueError` where a quantity or a time in it, read later on, cannot be read."""
        quantity.amounts(self.spec.capacity)

    @property
    def storage_class(self) -> str:
        """Name of its storage class; empty where it has none."""
        return self.metadata.annotations.get(STORAGE_CLASS) or self.spec.storage_class_name

    def reserved_for(self, claim: PersistentVolumeClaim) -> bool:
        """Whether it names this very claim as its own."""
        ref = self.spec.claim_ref
        if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
            return False
        return ref.uid in ("", claim.uid)


class TopologyExpression(Wire, frozen=True):
    """A label key and the values it may have."""

    key: str = ""
    values: list[str] = []


class TopologyTerm(Wire, frozen=True):
    """Topology that a storage class allows: every expression must hold."""

    match_label_expressions: list[TopologyExpression] = []


class StorageClass(Resource, frozen=True):
    """A StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] = []


class AttachLimit(Wire, frozen=True):
    """How many volumes of a driver a node can attach; None: no limit known."""

    count: int | None = None


class CsiNodeDriver(Wire, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    allocatable: AttachLimit | None = None


class CsiNodeSpec(Wire, frozen=True):
    """Drivers of a node."""

    drivers: list[CsiNodeDriver] = []


class CsiNode(Resource, frozen=True):
    """A CSINode; its name is the node's."""

    spec: CsiNodeSpec = CsiNodeSpec()

    @property
    def driver_names(self) -> frozenset[str]:
        """The names of the drivers that run on the node."""
        return frozenset(driver.name for driver in self.spec.drivers)

    @property
    def attach_limits(self) -> dict[str, int]:
        """How many volumes the node can attach, by driver; drivers without a limit are left out."""
        rooms = ((driver.name, driver.allocatable) for driver in self.spec.drivers)
        return {name: room.count for name, room in rooms if room is not None and room.count is not None}


class CsiDriverSpec(Wire, frozen=True):
    """What a CSI driver is like."""

    storage_capacity: bool = False
    """Whether volumes are made only where the driver has published enough free storage."""
    prevent_pod_scheduling_if_missing: bool = False
    """Whether pods that use its volumes go only to nodes on which it runs."""


class CsiDriver(Resource, frozen=True):
    """A CSIDriver; its name is the driver's."""

    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(Resource, frozen=True):
    """A CSIStorageCapacity: free storage for a storage class in one part of the cluster."""

    node_topology: LabelSelector | None = None
    """The nodes that reach it; None: none does."""
    storage_class_name: str = ""
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None
    """Size of the largest volume, where the driver knows it."""

    def check(self) -> None:
        """Raise `ValueError` where a quantity or a time in it, read later on, cannot be read."""
        self.largest  # noqa: B018

    @property
    def largest(self) -> int | None:
        """Size of the largest volume that can be made, in bytes; None: none can."""
        limit = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return None if limit is None else quantity.amounts({"storage": limit})["storage"]


class AttachmentSource(Wire, frozen=True):
    """What is attached."""

    persistent_volume_name: str = ""


class AttachmentSpec(Wire, frozen=True):
    """What is attached where, by which CSI driver."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Resource, frozen=True):
    """A VolumeAttachment."""

    spec: AttachmentSpec = AttachmentSpec()
