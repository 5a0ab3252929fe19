"""The devices of a group's nodes, as metric labels."""

from collections.abc import Collection

import msgspec

from autoscaler.objects.node import Node
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES
from autoscaler.snapshot.devices import GPU_DRIVERS
from autoscaler.snapshot.groups import Group, Groups

GENERIC = "generic"
UNKNOWN = "not-listed"
MISSING = "missing-gpu"
UNEXPECTED = "unexpected-label"


class DeviceLabels(msgspec.Struct, frozen=True):
    """Metric labels of a group's devices; all empty without any."""

    gpu_resource_name: str = ""
    gpu_name: str = ""
    dra_drivers: str = ""

    @property
    def labels(self) -> tuple[str, str, str]:
        """Values in the order of the labels."""
        return self.gpu_resource_name, self.gpu_name, self.dra_drivers


NO_DEVICES = DeviceLabels()


def devices_of(
    node: Node | None,
    group: Group | None,
    groups: Groups,
    drivers: Collection[str] = (),
    resources: tuple[str, ...] = ALL_GPU_RESOURCES,
) -> DeviceLabels:
    """Return the labels of a node or template node; `group` is its group, `drivers` are those of its devices.

    The GPU name is the value of the provider's label, or `not-listed` if the provider does not know it. It is `generic`
    for GPUs without a label, `missing-gpu` if only the group's template has GPUs, and `unexpected-label` if neither
    has. Source: Cluster Autoscaler's `utils/gpu`.
    """
    if node is None:
        return NO_DEVICES
    driver_names = ",".join(sorted(drivers))
    name = node.labels.get(groups.gpu_label) if groups.gpu_label else None
    known = name if name in groups.gpu_types else UNKNOWN
    resource = next((candidate for candidate in resources if node.capacity.get(candidate, 0) > 0), None)
    if resource is not None:
        return DeviceLabels(resource, known if name else GENERIC, driver_names)
    if name is None:
        return DeviceLabels(dra_drivers=driver_names)
    if driver := next((candidate for candidate in sorted(drivers) if candidate in GPU_DRIVERS), None):
        return DeviceLabels(f"dra_{driver}", known, driver_names)
    described = group.template.capacity if group is not None and group.template is not None else {}
    template_resource = next((candidate for candidate in resources if candidate in described), None)
    return DeviceLabels(
        template_resource or resources[0], UNEXPECTED if template_resource is None else MISSING, driver_names
    )
