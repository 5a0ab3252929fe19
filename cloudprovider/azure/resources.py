"""Azure's resources in the form of the resource manager, as far as they are used."""

from collections.abc import Mapping, Sequence

import msgspec

from cloudprovider.interface import MachineVersion

FLEXIBLE = "flexible"
LATEST_MODEL = "the latest model"
_MIXED = "mix"
"""The size of a scale set whose machines are of several sizes."""


class Sku(msgspec.Struct, frozen=True):
    """Size of the machines of a scale set, and how many of them there are to be."""

    name: str | None = None
    tier: str | None = None
    capacity: int | None = None


class Disk(msgspec.Struct, frozen=True):
    """The disk with the operating system."""

    size_gb: int | None = msgspec.field(default=None, name="diskSizeGB")
    diff_disk_settings: Mapping[str, str | None] | None = msgspec.field(default=None, name="diffDiskSettings")
    managed_disk: Mapping[str, object] | None = msgspec.field(default=None, name="managedDisk")
    os_type: str | None = msgspec.field(default=None, name="osType")


class Storage(msgspec.Struct, frozen=True):
    """The disks of a machine."""

    os_disk: Disk | None = msgspec.field(default=None, name="osDisk")
    image: Mapping[str, object] | None = msgspec.field(default=None, name="imageReference")

    @property
    def image_id(self) -> str:
        """The image, if it has an id of its own; images of the marketplace have none."""
        return str((self.image or {}).get("id") or "").lower()


class OperatingSystem(msgspec.Struct, frozen=True):
    """What is installed on a machine."""

    windows: Mapping[str, object] | None = msgspec.field(default=None, name="windowsConfiguration")


class Profile(msgspec.Struct, frozen=True):
    """What the machines of a scale set are like."""

    priority: str | None = None
    storage: Storage | None = msgspec.field(default=None, name="storageProfile")
    system: OperatingSystem | None = msgspec.field(default=None, name="osProfile")


class ScaleSetState(msgspec.Struct, frozen=True, rename="camel"):
    """The properties of a scale set."""

    provisioning_state: str | None = None
    orchestration_mode: str | None = None
    host_group: Mapping[str, object] | None = None
    upgrade_policy: Mapping[str, object] | None = None
    virtual_machine_profile: Profile | None = None


class ScaleSet(msgspec.Struct, frozen=True, rename="camel"):
    """A virtual machine scale set."""

    id: str
    name: str
    location: str
    sku: Sku | None = None
    zones: Sequence[str] | None = None
    tags: Mapping[str, str] | None = None
    etag: str | None = None
    extended_location: Mapping[str, str] | None = None
    properties: ScaleSetState = ScaleSetState()

    @property
    def capacity(self) -> int:
        """How many machines there are to be."""
        return (self.sku.capacity if self.sku is not None else None) or 0

    @property
    def is_flexible(self) -> bool:
        """Whether its machines are virtual machines of their own."""
        return (self.properties.orchestration_mode or "").lower() == FLEXIBLE

    @property
    def versions(self) -> tuple[MachineVersion, ...]:
        """What new machines are made from; empty if Azure replaces older ones itself."""
        mode = str((self.properties.upgrade_policy or {}).get("mode") or "").lower()
        if mode in ("automatic", "rolling"):
            return ()
        profile = self.properties.virtual_machine_profile
        storage = None if profile is None else profile.storage
        size = (self.sku.name if self.sku is not None else None) or ""
        mixed = size.lower() == _MIXED
        image = "" if storage is None else storage.image_id
        return (MachineVersion(LATEST_MODEL, image, "" if mixed else size.lower()),)

    @property
    def is_updating(self) -> bool:
        """Whether Azure is still working on a change."""
        return (self.properties.provisioning_state or "").lower() in {"updating", "creating", "migrating"}


class Status(msgspec.Struct, frozen=True):
    """One line of an instance view; the code reads `PowerState/running` or `ProvisioningState/failed/<error>`."""

    code: str = ""
    message: str | None = None


class InstanceView(msgspec.Struct, frozen=True):
    """What Azure sees of a machine now."""

    statuses: Sequence[Status] | None = None


class MachineState(msgspec.Struct, frozen=True, rename="camel"):
    """The properties of a machine."""

    provisioning_state: str | None = None
    instance_view: InstanceView | None = None
    latest_model_applied: bool | None = None
    """None: Azure does not say, as for the machines of flexible scale sets."""
    storage_profile: Storage | None = None
    hardware_profile: Mapping[str, object] | None = None


class VirtualMachine(msgspec.Struct, frozen=True, rename="camel"):
    """A machine of a scale set, of either kind of orchestration."""

    id: str = ""
    properties: MachineState = MachineState()
    sku: Sku | None = None

    @property
    def version(self) -> MachineVersion:
        """What it is made from."""
        state = self.properties
        applied = state.latest_model_applied
        size = self.sku.name if self.sku is not None else str((state.hardware_profile or {}).get("vmSize") or "")
        return MachineVersion(
            template="" if applied is None else LATEST_MODEL if applied else "an earlier model",
            image="" if state.storage_profile is None else state.storage_profile.image_id,
            instance_type=(size or "").lower(),
        )


class Capability(msgspec.Struct, frozen=True):
    """A fact about a machine size."""

    name: str = ""
    value: str | None = None


class MachineSize(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of the list of what a subscription can buy."""

    name: str | None = None
    resource_type: str | None = None
    capabilities: Sequence[Capability] | None = None
