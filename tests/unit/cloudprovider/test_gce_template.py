"""What a new node is expected to look like, from an instance template and a machine type."""

from collections.abc import Mapping
from typing import Any

import pytest

from cloudprovider.gce.kube_env import read_kube_env
from cloudprovider.gce.machine_types import MachineType, custom_machine_type, machine_type_from
from cloudprovider.gce.refs import Place
from cloudprovider.gce.reserved import GIB, KIB, MIB, boot_disk_overhead, kernel_memory, local_ssd_overhead
from cloudprovider.gce.template import Blueprint, node_template
from cloudprovider.interface import NodeTemplate, TaintSpec
from cloudprovider.quantity import parse_quantity
from tests.fakes.gce import a_template

ZONE = Place("acme", "us-central1-b")
N1 = MachineType(name="n1-standard-4", cpus=4, memory_bytes=15 * GIB, arch="amd64")


def of(env: str = "", machine: MachineType = N1, **properties: Any) -> NodeTemplate:
    text = f"AUTOSCALER_ENV_VARS: {env}\n" if env else ""
    metadata = {"items": [{"key": "kube-env", "value": text}]}
    blueprint = Blueprint(
        properties=a_template(metadata=metadata, **properties), env=read_kube_env(metadata), machine=machine
    )
    return node_template(blueprint, ZONE, ("us-central1-b",), "https://compute/instanceGroups/web")


def metadata(text: str) -> Mapping[str, Any]:
    return {"items": [{"key": "other", "value": "x"}, {"key": "kube-env", "value": text}]}


def test_a_node_has_what_machine_and_kubelet_leave() -> None:
    node = of("kube_reserved=cpu=60m,memory=960Mi,ephemeral-storage=10Gi;os=linux;os_distribution=cos")
    memory = 15 * GIB - kernel_memory("linux", "cos", "amd64", 15 * GIB)
    disk = 100 * GIB - boot_disk_overhead("cos", "amd64", 100 * GIB)
    assert node.capacity == {"pods": "110", "cpu": "4", "memory": str(memory), "ephemeral-storage": str(disk)}
    assert node.allocatable == {
        "pods": "110",
        "cpu": "3940m",
        "memory": str(memory - 960 * MIB - 100 * MIB),
        "ephemeral-storage": str(disk - 10 * GIB - int(0.1 * disk)),
    }


def test_without_the_share_of_the_kubelet_all_is_allocatable() -> None:
    node = of("os=linux")
    assert node.allocatable == node.capacity


def test_labels_and_taints_come_from_the_metadata_and_the_place() -> None:
    node = of("node_labels=pool=web,kubernetes.io/os=plan9;node_taints=dedicated=web:NoSchedule,gpu=:NoExecute")
    assert node.labels == {
        "pool": "web",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "n1-standard-4",
        "topology.kubernetes.io/region": "us-central1",
        "topology.kubernetes.io/zone": "us-central1-b",
        "topology.gke.io/zone": "us-central1-b",
    }
    assert node.taints == (TaintSpec("dedicated", "web", "NoSchedule"), TaintSpec("gpu", "", "NoExecute"))


def test_a_group_of_several_zones_does_not_pretend_to_know_the_zone() -> None:
    blueprint = Blueprint(properties=a_template(), env=read_kube_env({}), machine=N1)
    place = Place("acme", "us-central1", regional=True)
    template = node_template(blueprint, place, ("us-central1-a", "us-central1-b"), "web")
    labels = template.labels
    assert template.zones == {
        zone: {"topology.kubernetes.io/zone": zone, "topology.gke.io/zone": zone}
        for zone in ("us-central1-a", "us-central1-b")
    }
    assert labels["topology.kubernetes.io/region"] == "us-central1"
    assert not {"topology.kubernetes.io/zone", "topology.gke.io/zone"} & labels.keys()
    assert node_template(blueprint, place, ("us-central1-a",), "web").labels["topology.kubernetes.io/zone"] == (
        "us-central1-a"
    )


@pytest.mark.parametrize(
    ("env", "resource", "amount"),
    [
        ("extended_resources=example.com/fpga=2,broken", "example.com/fpga", None),
        ("extended_resources=example.com/fpga=2,example.com/odd=x", "example.com/fpga", "2"),
        ("node_labels=clusterautoscaler-nodetemplate-resources.example.com/tpu=4", "example.com/tpu", "4"),
    ],
)
def test_extended_resources(env: str, resource: str, amount: str | None) -> None:
    node = of(env)
    assert node.capacity.get(resource) == node.allocatable.get(resource) == amount


def test_eviction_thresholds_are_the_kubelets_or_the_usual_ones() -> None:
    reserved = "kube_reserved=cpu=0,memory=0,ephemeral-storage=0;"
    told = of(f"{reserved}evictionHard=memory.available=200Mi,nodefs.available=20%")
    for odd in ("", "evictionHard=memory.available=lots,nodefs.available=10Gi", "evictionHard=nodefs.available=120%"):
        usual = of(reserved + odd)
        assert _kept(usual, "memory") == 100 * MIB
        assert _kept(usual, "ephemeral-storage") == int(0.1 * int(usual.capacity["ephemeral-storage"]))
    assert _kept(told, "memory") == 200 * MIB
    assert _kept(told, "ephemeral-storage") == int(0.2 * int(told.capacity["ephemeral-storage"]))


def _kept(node: NodeTemplate, resource: str) -> int:
    return int(parse_quantity(node.capacity[resource]) - parse_quantity(node.allocatable[resource]))


SSD = {"type": "SCRATCH", "initializeParams": {"diskType": "local-ssd"}}
BOOT = {"boot": True, "initializeParams": {"diskSizeGb": "100"}}


def test_ephemeral_storage_may_be_on_local_disks() -> None:
    node = of("ephemeral_storage_local_ssd_count=2;os_distribution=ubuntu", disks=[BOOT, SSD, SSD])
    assert int(node.capacity["ephemeral-storage"]) == 2 * 375 * GIB - 13651496 * KIB
    with pytest.raises(ValueError, match="to be on 2 local SSDs"):
        of("ephemeral_storage_local_ssd_count=2", disks=[BOOT, SSD])


def test_ephemeral_storage_is_left_out_where_nothing_tells_it() -> None:
    for node in (of("BLOCK_EPH_STORAGE_BOOT_DISK=true"), of(disks=[]), of(disks=[{"boot": True}])):
        assert "ephemeral-storage" not in node.capacity


def test_processors_are_those_attached_or_those_of_the_type() -> None:
    attached = [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 2}]
    assert of(guestAccelerators=attached).capacity["nvidia.com/gpu"] == "2"
    assert "nvidia.com/gpu" not in of(guestAccelerators=[{"acceleratorType": "ct5lp", "acceleratorCount": 4}]).capacity
    g2 = machine_type_from(
        {
            "name": "g2-standard-24",
            "guestCpus": 24,
            "memoryMb": 98304,
            "accelerators": [{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 2}],
        }
    )
    assert of(machine=g2).capacity["nvidia.com/gpu"] == "2"


def test_the_architecture_is_the_machines_unless_told() -> None:
    arm = MachineType(name="t2a-standard-4", cpus=4, memory_bytes=16 * GIB, arch="arm64")
    assert of(machine=arm).labels["kubernetes.io/arch"] == "arm64"
    assert of("arch=amd64", machine=arm).labels["kubernetes.io/arch"] == "amd64"
    unknown = MachineType(name="n1-custom-2-2048", cpus=2, memory_bytes=2 * GIB)
    assert of("arch=vax", machine=unknown).labels["kubernetes.io/arch"] == "amd64"


@pytest.mark.parametrize(
    ("name", "cpus", "mib"),
    [
        ("custom-4-8192", 4, 8192),
        ("n2-custom-48-184320", 48, 184320),
        ("n2-custom-8-65536-ext", 8, 65536),
        ("e2-custom-micro-2048", 2, 2048),
        ("e2-custom-4-8192", 4, 8192),
    ],
)
def test_custom_types_say_what_they_have(name: str, cpus: int, mib: int) -> None:
    machine = custom_machine_type(name)
    assert machine is not None
    assert (machine.cpus, machine.memory_bytes) == (cpus, mib * MIB)


def test_other_types_do_not() -> None:
    assert custom_machine_type("n1-standard-4") is None
    for name in ("n2-custom-4", "n2-custom-many-8192", "n2-custom-small-8192"):
        with pytest.raises(ValueError, match="is not <family>-custom"):
            custom_machine_type(name)


@pytest.mark.parametrize(
    ("distribution", "physical", "kept"),
    [
        ("cos", 256 * MIB, 4 * MIB + 16 * MIB + 8 * MIB + int(0.00175 * 256 * MIB)),
        ("cos", 3 * GIB, 48 * MIB + 16 * MIB + 8 * MIB + int(0.00175 * 3 * GIB)),
        ("cos", 4 * GIB, 64 * MIB + 16 * MIB + 64 * MIB + 8 * MIB + int(0.00175 * 4 * GIB)),
        ("cos", 16 * GIB, 256 * MIB + 16 * MIB + 64 * MIB + int(0.00175 * 16 * GIB)),
        ("ubuntu", 128 * GIB, 2 * GIB + 16 * MIB + 64 * MIB + int(0.00175 * 128 * GIB) + 4 * MIB),
        ("ubuntu", 1024 * GIB, 16 * GIB + 16 * MIB + 64 * MIB + 248 * MIB + 4 * MIB),
        ("windows_ltsc", 16 * GIB, 256 * MIB + 16 * MIB + 64 * MIB),
    ],
)
def test_the_kernel_keeps_memory(distribution: str, physical: int, kept: int) -> None:
    assert kernel_memory("linux", distribution, "amd64", physical) == kept
    assert kernel_memory("windows", distribution, "amd64", physical) == 0


def test_the_kernel_keeps_a_little_less_on_arm() -> None:
    on_amd = kernel_memory("linux", "cos", "amd64", 16 * GIB)
    assert kernel_memory("linux", "cos", "arm64", 16 * GIB) == int(on_amd * 0.9971 + 0.5)
    ubuntu = [kernel_memory("linux", "ubuntu", arch, 16 * GIB) for arch in ("amd64", "arm64")]
    assert ubuntu[0] == ubuntu[1]


def test_file_systems_over_more_disks_than_were_measured_take_what_the_next_larger_takes() -> None:
    assert local_ssd_overhead("cos", 8) == 51556096 * KIB
    assert local_ssd_overhead("cos", 9) == local_ssd_overhead("cos", 16) == 52837800 * KIB
    assert local_ssd_overhead("cos", 32) == local_ssd_overhead("cos", 24)
    assert local_ssd_overhead("windows_ltsc", 1) == 0


def test_older_metadata_is_understood() -> None:
    env = read_kube_env(
        metadata(
            "NODE_LABELS: a=b,c=d\nNODE_TAINTS: e=f:NoSchedule\n"
            "KUBELET_TEST_ARGS: --v=2 --kube-reserved=cpu=1000m,memory=300Mi,pid=5 --other\n"
        )
    )
    assert env.labels == {"a": "b", "c": "d"}
    assert env.taints == (TaintSpec("e", "f", "NoSchedule"),)
    assert env.kube_reserved == {"cpu": "1000m", "memory": "300Mi"}


def test_the_kubelets_limit_of_pods_counts() -> None:
    env = read_kube_env(metadata("KUBELET_ARGS: --v=2 --max-pods=32 --node-labels=a=b\n"))
    assert env.max_pods == 32
    assert read_kube_env({}).max_pods is None


def test_values_of_variables_may_be_quoted_and_the_first_counts() -> None:
    text = "os_distribution=ubuntu_containerd; node_labels='a=b';os_distribution=cos"
    env = read_kube_env(metadata(f'AUTOSCALER_ENV_VARS: "{text}"\n'))
    assert (env.distribution, env.labels) == ("ubuntu", {"a": "b"})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("AUTOSCALER_ENV_VARS: node_labels=a,b=c\n", "'a' is not key=value"),
        ("AUTOSCALER_ENV_VARS: node_taints=a=b\n", "taint a=b is not key=value:effect"),
        ("AUTOSCALER_ENV_VARS: os=plan9\n", "os=plan9 is neither"),
        ("just text", "^kube-env is not a YAML mapping$"),
        ("secret: {", "^kube-env is not a YAML mapping$"),
    ],
)
def test_metadata_that_makes_no_sense_is_no_base_for_a_node(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_kube_env(metadata(text))


def test_the_pod_of_every_node_is_part_of_the_template() -> None:
    (pod,) = of().pods
    assert pod["metadata"]["name"] == "kube-proxy-web"
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m"}
