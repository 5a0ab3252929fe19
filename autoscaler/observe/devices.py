"""Which devices a group's nodes have, as metrics label them."""

from autoscaler.objects.node import Node
from autoscaler.observe.metrics import NO_DEVICES, Devices
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES
from autoscaler.snapshot.groups import Group

GENERIC = "generic"
MISSING = "missing-gpu"
UNEXPECTED = "unexpected-label"


def devices_of(
    node: Node | None, group: Group | None, gpu_label: str, resources: tuple[str, ...] = ALL_GPU_RESOURCES
) -> Devices:
    """Return the labels for a node, real or a template's; `group` is its own, `gpu_label` the provider's or empty.

    The GPU's name is the label's value; `generic` for GPUs without label, `missing-gpu` where only the cloud's
    description of the group has any, `unexpected-label` where nothing has. Source: Cluster Autoscaler's `utils/gpu`.
    """
    if node is None:
        return NO_DEVICES
    name = node.labels.get(gpu_label) if gpu_label else None
    resource = next((one for one in resources if node.capacity.get(one, 0) > 0), None)
    if resource is not None:
        return Devices(resource, name or GENERIC)
    if name is None:
        return NO_DEVICES
    described = group.template.capacity if group is not None and group.template is not None else {}
    promised = next((one for one in resources if one in described), None)
    return Devices(promised or resources[0], UNEXPECTED if promised is None else MISSING)
