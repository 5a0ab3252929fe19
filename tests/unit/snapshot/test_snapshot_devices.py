"""Pools of devices of single nodes."""

from autoscaler.objects.devices import ResourceSlice
from autoscaler.snapshot.devices import complete_pools, exposes_gpus, pools_by_node
from tests.devices import NICS, a_slice, with_devices


def pools_of(*slices: ResourceSlice) -> dict[str, list[tuple[str, list[str], bool]]]:
    """Label, devices and completeness of every node's pools."""
    found = pools_by_node(with_devices(slices).resource_slices)
    return {
        node: [(pool.label, [device.name for device in pool.devices()], pool.complete) for pool in pools]
        for node, pools in found.items()
    }


def test_slices_are_sorted_by_node_driver_and_pool() -> None:
    assert pools_of(a_slice("a", devices=2), a_slice("b"), a_slice("a", driver=NICS)) == {
        "a": [("gpu.nvidia.com/a", ["dev-0", "dev-1"], True), ("nic.example.com/a", ["dev-0"], True)],
        "b": [("gpu.nvidia.com/b", ["dev-0"], True)],
    }


def test_devices_that_several_nodes_reach_are_of_none() -> None:
    assert pools_of(a_slice(None)) == {}


def test_only_the_newest_generation_counts_in_whatever_order_it_comes() -> None:
    old, new = a_slice("a", devices=4), a_slice("a", devices=1, generation=2)
    expected = {"a": [("gpu.nvidia.com/a", ["dev-0"], True)]}
    assert pools_of(old, new) == pools_of(new, old) == expected


def test_a_pool_is_complete_with_its_last_slice() -> None:
    first = a_slice("a", slices=2, name="first")
    second = a_slice("a", slices=2, name="second", devices=[{"name": "other"}])
    assert pools_of(first) == {"a": [("gpu.nvidia.com/a", ["dev-0"], False)]}
    assert pools_of(first, second) == {"a": [("gpu.nvidia.com/a", ["dev-0", "other"], True)]}


def test_complete_pools_are_counted_by_driver() -> None:
    slices = (a_slice("a", pool="p"), a_slice("a", pool="q"), a_slice("a", driver=NICS, slices=2))
    pools = pools_by_node(with_devices(slices).resource_slices)["a"]
    assert complete_pools(pools) == {"gpu.nvidia.com": (1, 1)}
    assert complete_pools(()) == {}


def test_drivers_of_gpus_are_known_by_name() -> None:
    for driver, gpus in (("gpu.nvidia.com", True), ("gpu.amd.com", True), (NICS, False)):
        pools = pools_by_node(with_devices([a_slice("a", driver=driver)]).resource_slices)
        assert exposes_gpus(pools["a"]) is gpus
