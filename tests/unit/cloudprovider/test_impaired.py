"""Machines that clouds hold for unhealthy."""

from cloudprovider.interface import Instance
from cloudprovider.static.cloud import open_cloud
from cloudprovider.static.file import decode_cloud
from cloudprovider.static.spec import CloudSpec, GroupSpec, MachineSpec
from tests.fakes.aws import FakeAws


def told(instances: list[Instance]) -> list[str]:
    return [instance.impaired for instance in instances]


def test_the_simulated_cloud_tells_of_machines_by_name_or_id() -> None:
    file = decode_cloud(
        {"groups": [{"id": "web", "minSize": 0, "maxSize": 5}], "impairedMachines": {"b": "failed hardware"}}
    )
    machines = [MachineSpec(group="web", provider_id=f"x://{name}", name=name) for name in "abc"]
    impaired = {**file.impaired_machines, "x://c": "no network"}
    groups = [GroupSpec(id="web", min_size=0, max_size=5)]
    cloud = open_cloud(CloudSpec(groups=groups, machines=machines, impaired_machines=impaired))
    assert told(list(cloud.group("web").instances())) == ["", "failed hardware", "no network"]


def test_aws_tells_of_instances_whose_health_status_is_unhealthy() -> None:
    aws = FakeAws()
    group = aws.add_group("web", 3)
    group["Instances"][1]["HealthStatus"] = "Unhealthy"
    group["Instances"][2].update(HealthStatus="Unhealthy", LifecycleState="Terminating")
    provider = aws.open("0:100:web")
    assert told(list(provider.groups()[0].instances())[:3]) == ["", "HealthStatus Unhealthy", ""]
