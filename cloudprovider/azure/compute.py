"""The calls that this provider makes: scale sets, their machines and machine sizes."""

from collections.abc import Sequence

from cloudprovider.azure import ids
from cloudprovider.azure.arm import Arm, Progress
from cloudprovider.azure.machines import Machine, machine_of
from cloudprovider.azure.resources import MachineSize, ScaleSet, VirtualMachine
from cloudprovider.azure.settings import Settings

_COMPUTE = "2024-07-01"
_SIZES = "2021-07-01"
_SCALE_SETS = "virtualMachineScaleSets"


class Compute:
    """The scale sets of one resource group. Raises errors of the provider contract."""

    def __init__(self, arm: Arm, settings: Settings) -> None:
        self._arm = arm
        self._settings = settings
        self._subscription = f"/subscriptions/{settings.subscription_id}"
        self._group = f"{self._subscription}/resourceGroups/{settings.resource_group}/providers/Microsoft.Compute"

    def scale_sets(self) -> Sequence[ScaleSet]:
        """List the scale sets."""
        what = f"listing the scale sets of {self._settings.resource_group}"
        return list(self._arm.pages(what, f"{self._group}/{_SCALE_SETS}", _COMPUTE, ScaleSet))

    def scale_set(self, name: str) -> ScaleSet:
        """Read one scale set."""
        return self._arm.get(f"reading scale set {name}", f"{self._group}/{_SCALE_SETS}/{name}", _COMPUTE, ScaleSet)

    def machines(self, scale_set: ScaleSet) -> tuple[Machine, ...]:
        """List the machines of a scale set, including those being created or deleted."""
        what = f"listing the machines of {scale_set.name}"
        if scale_set.is_flexible:
            path, query = (
                f"{self._group}/virtualMachines",
                {"$filter": f"'virtualMachineScaleSet/id' eq '{scale_set.id}'"},
            )
        else:
            path, query = f"{self._group}/{_SCALE_SETS}/{scale_set.name}/virtualMachines", {}
        listed = self._arm.pages(what, path, _COMPUTE, VirtualMachine, {"$expand": "instanceView", **query})
        machines = (machine_of(machine, self._settings.fast_delete) for machine in listed)
        return tuple(machine for machine in machines if machine is not None)

    def set_capacity(self, scale_set: ScaleSet, capacity: int) -> str | None:
        """Set the capacity; return the address that reports its progress.

        Raises `Transient` and changes nothing if the scale set has changed since it was read.
        """
        sku = scale_set.sku
        body = {
            "location": scale_set.location,
            "sku": {"name": sku and sku.name, "tier": sku and sku.tier, "capacity": capacity},
        }
        if scale_set.extended_location is not None:
            body["extendedLocation"] = dict(scale_set.extended_location)
        etag = (scale_set.etag or "") if self._settings.match_etags else ""
        path = f"{self._group}/{_SCALE_SETS}/{scale_set.name}"
        what = f"setting the capacity of {scale_set.name} to {capacity}"
        return self._arm.write(what, "PUT", path, _COMPUTE, body, etag=etag)

    def delete(self, scale_set: ScaleSet, provider_ids: Sequence[str]) -> str | None:
        """Delete machines, which also lowers the capacity; return the address that reports its progress."""
        # Machines on dedicated hosts cannot be deleted by force.
        forced = self._settings.force_delete and scale_set.properties.host_group is None
        return self._arm.write(
            f"deleting {len(provider_ids)} machines of {scale_set.name}",
            "POST",
            f"{self._group}/{_SCALE_SETS}/{scale_set.name}/delete",
            _COMPUTE,
            {"instanceIds": [ids.instance_id(provider_id) for provider_id in provider_ids]},
            query={"forceDeletion": "true"} if forced else {},
        )

    def progress(self, address: str) -> Progress:
        """Return the progress of a change."""
        return self._arm.progress("asking for the progress of a change", address)

    def sizes(self, location: str) -> Sequence[MachineSize]:
        """List the machine sizes of a location. The list is long and rarely changes."""
        return list(
            self._arm.pages(
                f"listing the machine sizes of {location}",
                f"{self._subscription}/providers/Microsoft.Compute/skus",
                _SIZES,
                MachineSize,
                {"$filter": f"location eq '{location}'"},
            )
        )

    def close(self) -> None:
        """Close the connections."""
        self._arm.close()
