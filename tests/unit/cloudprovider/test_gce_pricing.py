"""What nodes and pods cost by Google's list prices."""

from typing import Any

import pytest

from cloudprovider.gce.list_prices import CUSTOM_FACTOR, FAMILIES, TYPES
from cloudprovider.gce.pricing import ListPriced
from cloudprovider.gce.template import BOOT_DISK_SIZE, BOOT_DISK_TYPE, LOCAL_SSDS, SPOT
from cloudprovider.interface import NodeTemplate, ProviderError

PRICES = ListPriced()
DISK = 100 * 0.10 / 720


def node(machine_type: str, cpu: str, memory: str, gpus: str = "", **changes: Any) -> NodeTemplate:
    labels = {"node.kubernetes.io/instance-type": machine_type, **changes.pop("labels", {})}
    capacity = {"cpu": cpu, "memory": memory} | ({"nvidia.com/gpu": gpus} if gpus else {})
    return NodeTemplate(labels=labels, capacity=capacity, **changes)


@pytest.mark.parametrize(
    ("machine_type", "cpu", "memory", "listed"),
    [
        ("n1-standard-4", "4", "15Gi", 0.189999),
        ("n2-standard-4", "4", "16Gi", 0.194236),
        ("n2-highmem-8", "8", "64Gi", 0.524056),
        ("e2-standard-2", "2", "8Gi", 0.067014),
        ("t2a-standard-4", "4", "16Gi", 0.154),
        ("c2-standard-30", "30", "120Gi", 1.56606),
    ],
)
def test_machines_cost_what_the_catalogue_says(machine_type: str, cpu: str, memory: str, listed: float) -> None:
    assert PRICES.node_price(node(machine_type, cpu, memory), 1.0) == pytest.approx(listed + DISK, abs=2e-5)
    assert PRICES.node_price(node(machine_type, cpu, memory), 24.0) == pytest.approx(24 * (listed + DISK), abs=1e-3)


@pytest.mark.parametrize(
    "marked",
    [
        {"labels": {"cloud.google.com/gke-spot": "true"}},
        {"labels": {"cloud.google.com/gke-preemptible": "true"}},
        {"annotations": {SPOT: "SPOT"}},
    ],
)
def test_spot_machines_cost_less(marked: Any) -> None:
    assert PRICES.node_price(node("n2-standard-4", "4", "16Gi", **marked), 1.0) == pytest.approx(
        0.09212 + DISK, abs=1e-4
    )
    assert PRICES.node_price(node("g2-standard-4", "4", "16Gi", "1", **marked), 1.0) == pytest.approx(0.397336 + DISK)


def test_every_spot_price_is_below_the_other() -> None:
    assert all(spot < usual for usual, spot in TYPES.values())
    assert all(family.spot_cpu < family.cpu and family.spot_memory <= family.memory for family in FAMILIES.values())


def test_processors_of_a_type_are_in_its_price_and_attached_ones_are_not() -> None:
    labels = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
    plain = PRICES.node_price(node("n1-standard-4", "4", "15Gi"), 1.0)
    assert PRICES.node_price(node("n1-standard-4", "4", "15Gi", "2", labels=labels), 1.0) == pytest.approx(plain + 0.70)
    assert PRICES.node_price(node("n1-standard-4", "4", "15Gi", "2"), 1.0) == pytest.approx(plain + 1.40)
    assert PRICES.node_price(node("a2-highgpu-1g", "12", "85Gi", "1"), 1.0) == pytest.approx(3.673385 + DISK)


def test_machines_that_share_a_cpu_are_not_preferred_to_those_that_have_one() -> None:
    micro, small, medium = (
        PRICES.node_price(node(f"e2-{size}", "2", "4Gi"), 1.0) for size in ("micro", "small", "medium")
    )
    assert micro > small > medium


def test_chosen_numbers_of_cpus_cost_more_and_unknown_types_by_what_they_hold() -> None:
    custom = PRICES.node_price(node("n2-custom-4-16384", "4", "16Gi"), 1.0) - DISK
    assert custom == pytest.approx(0.194236 * CUSTOM_FACTOR, abs=1e-4)
    unknown = PRICES.node_price(node("q9-standard-4", "4", "15Gi"), 1.0)
    assert unknown == PRICES.node_price(node("n1-standard-4", "4", "15Gi"), 1.0)


def test_disks_cost() -> None:
    told = {BOOT_DISK_SIZE: "500", BOOT_DISK_TYPE: "pd-ssd", LOCAL_SSDS: "2"}
    machine = PRICES.node_price(node("n1-standard-4", "4", "15Gi"), 1.0) - DISK
    price = PRICES.node_price(node("n1-standard-4", "4", "15Gi", annotations=told), 1.0)
    assert price == pytest.approx(machine + (500 * 0.17 + 750 * 0.08) / 720)


def test_pods_cost_their_share_of_a_machine() -> None:
    hour = PRICES.pod_price({"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1", "ephemeral-storage": "72Gi"}, 1.0)
    assert hour == pytest.approx((0.5 * 0.031611 + 0.004237) * CUSTOM_FACTOR + 0.70 + 72 * 0.10 / 720)
    with pytest.raises(ProviderError, match="cannot price cpu=lots"):
        PRICES.pod_price({"cpu": "lots"}, 1.0)
