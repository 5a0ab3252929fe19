"""Which devices a group's nodes have, as metrics label them."""

from collections.abc import Collection

from autoscaler.objects.node import Node
from autoscaler.observe.metrics.metrics import NO_DEVICES, DeviceLabels
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES
from autoscaler.snapshot.devices import GPU_DRIVERS
from autoscaler.snapshot.groups import Group, Groups

GENERIC = "generic"
UNKNOWN = "not-listed"
MISSING = "missing-gpu"
UNEXPECTED = "unexpected-label"


def devices_of(
    node: Node | None,
    group: Group | None,
    groups: Groups,
    drivers: Collection[str] = (),
    resources: tuple[str, ...] = ALL_GPU_RESOURCES,
) -> DeviceLabels:
    """Return the labels for a node, real or a template's; `group` is its own, `drivers` those of its devices.

    The GPU's name is the value of the provider's label, `not-listed` where the provider does not know it; `generic`
    for GPUs without label, `missing-gpu` where only the cloud's description of the group has any, `unexpected-label`
    where nothing has. Source: Cluster Autoscaler's `utils/gpu`.
    """
    if node is None:
        return NO_DEVICES
    joined = ",".join(sorted(drivers))
    name = node.labels.get(groups.gpu_label) if groups.gpu_label else None
    known = name if name in groups.gpu_types else UNKNOWN
    resource = next((one for one in resources if node.capacity.get(one, 0) > 0), None)
    if resource is not None:
        return DeviceLabels(resource, known if name else GENERIC, joined)
    if name is None:
        return DeviceLabels(dra_drivers=joined)
    if driver := next((one for one in sorted(drivers) if one in GPU_DRIVERS), None):
        return DeviceLabels(f"dra_{driver}", known, joined)
    described = group.template.capacity if group is not None and group.template is not None else {}
    promised = next((one for one in resources if one in described), None)
    return DeviceLabels(promised or resources[0], UNEXPECTED if promised is None else MISSING, joined)
