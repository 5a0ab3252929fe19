"""What nodes and pods cost by the list prices: the reckoning of Cluster Autoscaler for GCE, with today's figures."""

from collections.abc import Mapping

from cloudprovider.gce.list_prices import (
    CUSTOM_FACTOR,
    DISKS,
    FAMILIES,
    GPUS,
    HOURS_PER_MONTH,
    LOCAL_SSD,
    SPOT_LOCAL_SSD,
    TYPES,
    UNKNOWN_FAMILY,
    UNKNOWN_GPU,
    USUAL_DISK,
    USUAL_DISK_GIB,
)
from cloudprovider.gce.reserved import GIB, LOCAL_SSD_BYTES
from cloudprovider.gce.template import BOOT_DISK_SIZE, BOOT_DISK_TYPE, LOCAL_SSDS, SPOT
from cloudprovider.interface import NodeTemplate, ProviderError
from cloudprovider.prices import INSTANCE_TYPE, is_spot
from cloudprovider.quantity import parse_quantity

GPU_LABEL = "cloud.google.com/gke-accelerator"
_BOOT_DISK_LABEL = "cloud.google.com/gke-boot-disk"
_GPU = "nvidia.com/gpu"


class ListPriced:
    """The ability `Pricing`, by list prices in US dollars."""

    def node_price(self, node: NodeTemplate, hours: float) -> float:
        """Price of a node for `hours`: machine, GPUs, boot disk and local SSDs."""
        spot = is_spot(node.labels) or SPOT in node.annotations
        return (_machine(node, spot) + _disks(node, spot)) * hours

    def pod_price(self, requests: Mapping[str, str], hours: float) -> float:
        """Price of the requests for `hours` on a machine that they fill."""
        storage = _amount(requests, "ephemeral-storage") / GIB * DISKS[USUAL_DISK] / HOURS_PER_MONTH
        cpu_and_memory = _units(requests, "", spot=False) * CUSTOM_FACTOR
        return (cpu_and_memory + _amount(requests, _GPU) * UNKNOWN_GPU + storage) * hours


def _machine(node: NodeTemplate, spot: bool) -> float:
    name = node.labels.get(INSTANCE_TYPE, "")
    if name in TYPES:
        return TYPES[name][spot]
    units = _units(node.capacity, name, spot)
    if "custom" in name.split("-")[:2]:
        units *= CUSTOM_FACTOR
    gpu = GPUS.get(node.labels.get(GPU_LABEL, ""), UNKNOWN_GPU)
    return units + _amount(node.capacity, _GPU) * gpu


def _units(amounts: Mapping[str, str], machine_type: str, spot: bool) -> float:
    prices = FAMILIES.get(machine_type.partition("-")[0], UNKNOWN_FAMILY)
    cpu, memory = (prices.spot_cpu, prices.spot_memory) if spot else (prices.cpu, prices.memory)
    return _amount(amounts, "cpu") * cpu + _amount(amounts, "memory") / GIB * memory


def _disks(node: NodeTemplate, spot: bool) -> float:
    annotations = node.annotations
    kind = node.labels.get(_BOOT_DISK_LABEL) or annotations.get(BOOT_DISK_TYPE, USUAL_DISK)
    size = _amount(annotations, BOOT_DISK_SIZE) or USUAL_DISK_GIB
    local = _amount(annotations, LOCAL_SSDS) * LOCAL_SSD_BYTES / GIB * (SPOT_LOCAL_SSD if spot else LOCAL_SSD)
    return (DISKS.get(kind, DISKS[USUAL_DISK]) * size + local) / HOURS_PER_MONTH


def _amount(amounts: Mapping[str, str], name: str) -> float:
    try:
        return float(parse_quantity(amounts.get(name, "0")))
    except ValueError as error:
        raise ProviderError(f"cannot price {name}={amounts.get(name)}: {error}") from error
