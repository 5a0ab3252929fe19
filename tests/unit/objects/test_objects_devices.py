"""Devices and claims, as every version of their API spells them."""

import msgspec
import pytest

from autoscaler.objects.devices import ResourceClaim, ResourceSlice
from autoscaler.objects.workload import plain_decoder
from tests.devices import a_part, claim_form, slice_form


def test_a_device_says_the_same_in_every_version() -> None:
    newest = slice_form(devices=[a_part("half", "card-0", memory="40Gi")])
    oldest = slice_form(devices=[{"name": "half", "basic": a_part("half", "card-0", memory="40Gi")}])
    for form in (newest, oldest):
        (device,) = plain_decoder(ResourceSlice).one(form).spec.devices
        (use,) = device.uses
        assert (use.counter_set, use.counters["memory"].whole) == ("card-0", 40 * 1024**3)


def test_fields_that_nothing_reads_are_passed_over() -> None:
    form = slice_form(devices=[{"name": "gpu-0", "attributes": {"uuid": {"string": "x"}}, "capacity": {}}])
    (device,) = plain_decoder(ResourceSlice).one(form).spec.devices
    assert (device.name, device.uses) == ("gpu-0", [])


def test_a_counter_is_a_quantity() -> None:
    with pytest.raises(msgspec.ValidationError, match="'lots' is not a quantity"):
        plain_decoder(ResourceSlice).one(slice_form(counters={"card-0": {"memory": "lots"}}))


def test_a_claim_may_not_be_allocated() -> None:
    assert plain_decoder(ResourceClaim).one(claim_form(allocated=False)).status.allocation is None
    allocation = plain_decoder(ResourceClaim).one(claim_form("gpu", "dev-1")).status.allocation
    assert allocation is not None
    assert [result.device for result in allocation.devices.results] == ["dev-1"]
