"""Templates of scale sets, machine sizes, tags, provider ids and the states of machines."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from cloudprovider.azure import ids
from cloudprovider.azure.machines import machine_of
from cloudprovider.azure.resources import MachineSize, ScaleSet, VirtualMachine
from cloudprovider.azure.sizes import Size, sizes_by_name
from cloudprovider.azure.tags import attach_limits_of, labels_of, resources_of, settings_of, taints_of
from cloudprovider.azure.template import GPU_LABEL
from cloudprovider.interface import ErrorClass, GroupSettings, InstanceError, NodeTemplate, State, TaintSpec
from tests.fakes.azure import TAG, FakeScaleSet, a_size
from tests.unit.cloudprovider.azure_world import AzureWorld

_POOL = {"aks-managed-poolName": "web"}


def template(tags: Mapping[str, str] = {}, size: Mapping[str, Any] | None = None, **more: Any) -> NodeTemplate | None:
    one = FakeScaleSet("web", tags=dict(tags), **more)
    size = a_size("Standard_D4s_v5", 4, 16) if size is None else size
    if size:
        one.size = size["name"]
    world = AzureWorld(one, nodes=["0:5:web"], sizes=[size] if size else [])
    return world.group("web").template()


def known(*args: Any, **more: Any) -> NodeTemplate:
    found = template(*args, **more)
    assert found is not None
    return found


def test_a_template_has_what_azure_tells_of_the_size() -> None:
    found = known()
    assert found.capacity == {"cpu": "4", "memory": "16384Mi", "pods": "110"}
    assert found.allocatable == found.capacity
    assert found.labels == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "Standard_D4s_v5",
        "topology.kubernetes.io/region": "westeurope",
        "topology.kubernetes.io/zone": "0",
        "topology.disk.csi.azure.com/zone": "",
    }
    assert (found.taints, found.pods) == ((), ())


def test_of_several_zones_the_labels_always_have_the_first() -> None:
    found = known(zones=["3", "1", "2"])
    assert {zone: set(labels.values()) for zone, labels in found.zones.items()} == {
        f"westeurope-{number}": {f"westeurope-{number}"} for number in (1, 2, 3)
    }
    assert {found.labels[key] for key in found.labels if key.endswith("/zone")} == {"westeurope-1"}


@pytest.mark.parametrize(
    ("name", "resource", "predicted"),
    [
        ("Standard_NC24ads_A100_v4", "nvidia.com/gpu", True),
        ("Standard_NP10s", "xilinx.com/fpga-xilinx_u250_gen3x16_xdma_shell_2_1-0", False),
        ("Standard_NV32as_v4", "amd.com/gpu", False),
        ("Standard_ND96isr_MI300X_v5", "amd.com/gpu", False),
        ("Standard_NV6ads_A10_v5", "nvidia.com/gpu", True),
    ],
)
def test_accelerators(name: str, resource: str, predicted: bool) -> None:
    found = known(size=a_size(name, 24, 220, GPUs="2"))
    assert found.capacity[resource] == "2"
    assert found.labels.get(GPU_LABEL) == ("nvidia" if predicted else None)


def test_sizes_are_read_exactly() -> None:
    listed = [
        a_size("Standard_A1", 1, 1.75),
        a_size("Standard_E8-4s_v5", 8, 64, vCPUsAvailable="4"),
        a_size("Standard_D2ps_v5", 2, 8, CpuArchitectureType="Arm64"),
        {**a_size("Premium_LRS", 1, 1), "resourceType": "disks"},
        {"resourceType": "virtualMachines", "name": "Standard_Odd", "capabilities": [{"name": "vCPUs", "value": "x"}]},
    ]
    assert sizes_by_name(msgspec.convert(listed, list[MachineSize])) == {
        "standard_a1": Size(1, 1792),
        "standard_e8-4s_v5": Size(4, 65536),
        "standard_d2ps_v5": Size(2, 8192, architecture="arm64"),
    }


def test_a_promotional_size_is_like_the_ordinary_one() -> None:
    one = FakeScaleSet("web", size="Standard_H8_Promo")
    world = AzureWorld(one, nodes=["0:5:web"], sizes=[a_size("Standard_H8", 8, 56)])
    found = world.group("web").template()
    assert found is not None
    assert found.capacity["cpu"] == "8"
    assert found.labels["node.kubernetes.io/instance-type"] == "Standard_H8_Promo"


def test_without_a_size_tags_can_tell_and_otherwise_nothing_does() -> None:
    assert template(size={}) is None
    found = known({f"{TAG}resources_cpu": "3800m", f"{TAG}resources_memory": "11Gi"}, size={})
    assert found.allocatable == {"cpu": "3800m", "memory": "11Gi", "pods": "110"}


def test_a_managed_cluster_withholds_a_part() -> None:
    found = known(_POOL)
    assert found.capacity["cpu"] == "4"
    assert (found.allocatable["cpu"], found.allocatable["memory"]) == ("3860m", "14034Mi")  # 16384 - 2250 - 100
    small = known(_POOL, size=a_size("Standard_B2s", 2, 4))
    assert (small.allocatable["cpu"], small.allocatable["memory"]) == ("1900m", "2972Mi")  # a quarter, and 100
    tagged = known({**_POOL, f"{TAG}resources_memory": "11Gi"})
    assert (tagged.allocatable["cpu"], tagged.allocatable["memory"]) == ("3860m", "11Gi")


_DISK = {"diskSizeGB": 128, "managedDisk": {"storageAccountType": "Premium_LRS"}}


def test_labels_and_taints_of_a_managed_cluster_are_foreseen() -> None:
    profile = {"priority": "Spot", "storageProfile": {"osDisk": {**_DISK, "diffDiskSettings": {"option": "Local"}}}}
    found = known(_POOL, properties={"virtualMachineProfile": profile})
    expected = {
        "agentpool": "web",
        "kubernetes.azure.com/agentpool": "web",
        "kubernetes.azure.com/scalesetpriority": "spot",
        "storageprofile": "ephemeral",
        "kubernetes.azure.com/storageprofile": "ephemeral",
        "storagetier": "Premium_LRS",
        "kubernetes.azure.com/storagetier": "Premium_LRS",
    }
    assert expected.items() <= found.labels.items()
    assert found.taints == (TaintSpec("kubernetes.azure.com/scalesetpriority", "spot", "NoSchedule"),)
    assert found.capacity["ephemeral-storage"] == "128Gi"


def test_elsewhere_nothing_is_foreseen_of_spot_machines() -> None:
    found = known(properties={"virtualMachineProfile": {"priority": "Spot"}})
    assert found.taints == ()
    assert "kubernetes.azure.com/scalesetpriority" not in found.labels


def test_foreseeing_labels_can_be_turned_off() -> None:
    one = FakeScaleSet("web", tags=dict(_POOL))
    world = AzureWorld(one, nodes=["0:5:web"], environment={"AZURE_ENABLE_LABEL_PREDICTIONS_ON_TEMPLATE": "false"})
    found = world.group("web").template()
    assert found is not None
    assert "agentpool" not in found.labels


@pytest.mark.parametrize(
    "profile", [{"osProfile": {"windowsConfiguration": {}}}, {"storageProfile": {"osDisk": {"osType": "Windows"}}}]
)
def test_windows(profile: Mapping[str, Any]) -> None:
    assert known(properties={"virtualMachineProfile": profile}).labels["kubernetes.io/os"] == "windows"


# Tags


def test_tags_become_labels_and_other_tags_do_not() -> None:
    tags = {
        f"{TAG}label_k8s.io_foo": "bar",
        f"{TAG}label_cpu~2arch": "x",
        f"{TAG}label_agentpool": "mine",
        f"{TAG}label_bad": "no label value",
        f"{TAG}label_": "x",
        f"x{TAG}label_y": "x",
        "owner": "Jane Doe <jane@example.com>",
    }
    assert labels_of(tags) == {"k8s.io/foo": "bar", "cpu_arch": "x", "agentpool": "mine"}
    assert known({**_POOL, **tags}).labels["agentpool"] == "mine"


def test_tags_become_taints() -> None:
    tags = {
        f"{TAG}taint_example.com_dedicated": "web:NoSchedule",
        f"{TAG}taint_empty": ":NoExecute",
        f"{TAG}taint_soft": "x:PreferNoSchedule",
        f"{TAG}taint_noeffect": "web",
        f"{TAG}taint_odd": "web:Sometimes",
    }
    assert taints_of(tags) == (
        TaintSpec("empty", "", "NoExecute"),
        TaintSpec("example.com/dedicated", "web", "NoSchedule"),
        TaintSpec("soft", "x", "PreferNoSchedule"),
    )


def test_tags_become_resources() -> None:
    tags = {f"{TAG}resources_nvidia.com_gpu": "2", f"{TAG}resources_cpu": "-1", f"{TAG}resources_memory": "much"}
    assert resources_of(tags) == {"nvidia.com/gpu": "2"}


def test_tags_limit_the_volumes_of_a_node() -> None:
    tags = {f"{TAG}csi-driver_disk.csi.azure.com": "8", f"{TAG}csi-driver_other": "-1"}
    assert attach_limits_of(tags) == {"disk.csi.azure.com": 8}


def test_tags_override_flags() -> None:
    options = {
        "scaledownutilizationthreshold": "0.4",
        "ScaleDownGpuUtilizationThreshold": "0.3",
        "scaledownunneededtime": "10M0s",
        "scaledownunreadytime": "20m",
        "maxnodeprovisiontime": "soon",
        "maxnodestartuptime": "5m",
    }
    assert settings_of({f"{TAG}autoscaling-options_{name}": value for name, value in options.items()}) == GroupSettings(
        scale_down_utilization_threshold=0.4,
        scale_down_gpu_utilization_threshold=0.3,
        scale_down_unneeded_time_s=600.0,
        scale_down_unready_time_s=1200.0,
        max_node_startup_time_s=300.0,
    )


# Ids and states

_VM = (
    "/subscriptions/S/resourceGroups/RG_Upper/providers/Microsoft.Compute/virtualMachineScaleSets/Web/virtualMachines/7"
)


def test_provider_ids_have_the_resource_group_in_lower_case() -> None:
    assert ids.provider_id(_VM) == "azure://" + _VM.replace("RG_Upper", "rg_upper")
    assert ids.owner_of(ids.key(ids.provider_id(_VM))) == ids.Owner("s", "rg_upper", "web")
    flexible = "/subscriptions/s/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/web_1"
    assert ids.owner_of(ids.key(ids.provider_id(flexible))) is None
    assert ids.provider_id("odd") == "azure://odd"


def test_stand_ins_have_ids_of_their_own() -> None:
    one = ids.unfulfilled(_VM.rpartition("/virtualMachines")[0], 17.5, 0)
    assert one.endswith("/virtualMachineScaleSets/Web/unfulfilled/17-0")
    assert ids.owner_of(ids.key(one)) == ids.Owner("s", "rg_upper", "web")


@pytest.mark.parametrize(
    ("provisioning", "statuses", "fast", "state", "code"),
    [
        ("Succeeded", ["PowerState/running"], False, State.RUNNING, None),
        ("Updating", [], False, State.RUNNING, None),
        (None, None, False, State.RUNNING, None),
        ("Creating", [], False, State.CREATING, None),
        ("Deleting", ["PowerState/running"], False, State.DELETING, None),
        ("Failed", None, True, State.RUNNING, None),
        ("Failed", ["ProvisioningState/failed/AllocationFailed"], False, State.CREATING, "AllocationFailed"),
        ("Failed", [], False, State.CREATING, "provisioning-state-failed"),
        ("Failed", ["ProvisioningState/failed/X", "PowerState/running"], True, State.RUNNING, None),
        ("Failed", ["ProvisioningState/failed/X", "PowerState/deallocated"], False, State.RUNNING, None),
        ("Failed", ["ProvisioningState/failed/X", "PowerState/deallocated"], True, State.CREATING, "X"),
        ("Failed", ["PowerState/starting"], True, State.RUNNING, None),
    ],
)
def test_states_of_machines(
    provisioning: str | None, statuses: list[str] | None, fast: bool, state: State, code: str | None
) -> None:
    view = None if statuses is None else {"statuses": [{"code": status} for status in statuses]}
    data = {"id": _VM, "properties": {"provisioningState": provisioning, "instanceView": view}}
    machine = machine_of(msgspec.convert(data, VirtualMachine), fast)
    assert machine is not None
    assert (machine.state, machine.error and machine.error.code) == (state, code)


def test_a_lack_of_machines_is_told_from_other_failures() -> None:
    status = {"code": "ProvisioningState/failed/ZonalAllocationFailed", "message": "zone 1 is full"}
    data = {"id": _VM, "properties": {"provisioningState": "Failed", "instanceView": {"statuses": [status]}}}
    machine = machine_of(msgspec.convert(data, VirtualMachine), fast_delete=False)
    assert machine is not None
    assert machine.error == InstanceError(ErrorClass.OUT_OF_RESOURCES, "ZonalAllocationFailed", "zone 1 is full")


def test_a_machine_without_an_id_is_not_there_any_more() -> None:
    assert machine_of(VirtualMachine(), fast_delete=False) is None


def test_a_scale_set_may_leave_out_nearly_everything() -> None:
    bare = msgspec.convert({"id": "i", "name": "n", "location": "l"}, ScaleSet)
    assert (bare.capacity, bare.is_flexible, bare.is_updating) == (0, False, False)
