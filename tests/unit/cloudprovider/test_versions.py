"""What machines are made from, and what their groups make now, as each provider tells it."""

from typing import Any

import pytest

from cloudprovider.interface import Instance, MachineVersion, Versioned
from cloudprovider.static import BootDelay, CloudSpec, GroupSpec, MachineSpec, open_cloud
from cloudprovider.versions import Outdated, outdated
from tests.fakes import capi
from tests.fakes.aws import FakeAws
from tests.fakes.azure import FakeScaleSet
from tests.fakes.gce import PROJECT, ROOT, FakeGce, a_group
from tests.unit.cloudprovider.azure_world import AzureWorld
from tests.unit.cloudprovider.clusterapi_world import ClusterApiWorld, running
from tests.unit.cloudprovider.test_gce_refresh import NOW, named, opened

V1, V2 = MachineVersion("v1", "img-1", "small"), MachineVersion("v2", "img-2", "large")


def differing(group: Any) -> list[list[tuple[str, str, tuple[str, ...]]]]:
    """Return what differs, machine by machine."""
    assert isinstance(group, Versioned)
    current = group.versions()
    machines: list[Instance] = list(group.instances())  # type: ignore[attr-defined]
    return [[(one.field, one.has, one.wanted) for one in outdated(machine.version, current)] for machine in machines]


@pytest.mark.parametrize(
    ("machine", "current", "fields"),
    [
        pytest.param(V1, [V1], [], id="the same"),
        pytest.param(V1, [V2], ["template", "image", "instance_type"], id="all of it"),
        pytest.param(V1, [V2, V1], [], id="one of several that the cloud chooses from"),
        pytest.param(V1, [], [], id="the group does not tell"),
        pytest.param(None, [V2], [], id="the machine does not tell"),
        pytest.param(MachineVersion("v1"), [V2], ["template"], id="only what the machine tells"),
        pytest.param(V1, [MachineVersion(image="img-2")], ["image"], id="only what the group tells"),
        pytest.param(V1, [V2, MachineVersion("v2")], ["template"], id="one of several leaves it open"),
    ],
)
def test_only_what_both_tell_is_compared(
    machine: MachineVersion | None, current: list[MachineVersion], fields: list[str]
) -> None:
    assert [one.field for one in outdated(machine, current)] == fields


def test_a_difference_says_what_there_is_and_what_there_should_be() -> None:
    assert outdated(V1, [MachineVersion("v2"), MachineVersion("v3")]) == (Outdated("template", "v1", ("v2", "v3")),)


# AWS


def test_an_older_version_of_a_launch_template_is_outdated() -> None:
    cloud = FakeAws()
    cloud.templates["lt-1", "7"] = cloud.templates["lt-1", "9"] = {"InstanceType": "m5.large"}
    cloud.add_type("m5.large", 2, 8)
    group = cloud.add_group("web", 1, LaunchTemplate={"LaunchTemplateId": "lt-1", "Version": "7"})
    assert differing(cloud.open("0:9:web").groups()[0]) == [[]]
    group["LaunchTemplate"] = {"LaunchTemplateId": "lt-1", "Version": "9"}
    expected = ("template", "launch template lt-1, version 7", ("launch template lt-1, version 9",))
    assert differing(cloud.open("0:9:web").groups()[0]) == [[expected]]


def test_latest_is_compared_by_the_number_that_it_stands_for() -> None:
    cloud = FakeAws()
    cloud.templates["lt-1", "$Latest"] = {"InstanceType": "m5.large"}
    cloud.newest["lt-1"] = 8
    cloud.add_type("m5.large", 2, 8)
    cloud.add_group("web", 1, LaunchTemplate={"LaunchTemplateId": "lt-1", "Version": "$Latest"})
    assert differing(cloud.open("0:9:web").groups()[0]) == [[]]
    cloud.newest["lt-1"] = 9
    assert [one[0] for one in differing(cloud.open("0:9:web").groups()[0])[0]] == ["template"]


def test_a_type_that_a_mixed_group_no_longer_allows_is_outdated() -> None:
    cloud = FakeAws()
    cloud.templates["lt-1", "3"] = {"InstanceType": "m5.large"}
    for name in ("m5.large", "m6i.large", "m7i.large"):
        cloud.add_type(name, 2, 8)
    spec = {"LaunchTemplateId": "lt-1", "Version": "3"}

    def policy(*types: str) -> dict[str, Any]:
        overrides = [{"InstanceType": name} for name in types]
        return {"LaunchTemplate": {"LaunchTemplateSpecification": spec, "Overrides": overrides}}

    group = cloud.add_group("web", 1, MixedInstancesPolicy=policy("m5.large", "m6i.large"))
    assert differing(cloud.open("0:9:web").groups()[0]) == [[]]
    group["MixedInstancesPolicy"] = policy("m6i.large", "m7i.large")
    assert differing(cloud.open("0:9:web").groups()[0]) == [[("instance_type", "m5.large", ("m6i.large", "m7i.large"))]]


def test_another_launch_configuration_is_outdated_and_an_attached_machine_is_not() -> None:
    cloud = FakeAws()
    group = cloud.add_group("web", 2)
    del group["Instances"][1]["LaunchConfigurationName"]
    cloud.configurations["new"] = "m5.large"
    group["LaunchConfigurationName"] = "new"
    expected = ("template", "launch configuration m5.large", ("launch configuration new",))
    assert differing(cloud.open("0:9:web").groups()[0]) == [[expected], []]


# Compute Engine


@pytest.mark.parametrize("bulk", [False, True], ids=["by group", "by zone"])
def test_an_earlier_instance_template_is_outdated(bulk: bool) -> None:
    web = a_group("web", target=1)
    api = FakeGce(web)
    api.add_machines("web", "web-a")
    provider = opened(api, *named(web), bulk_mig_instances_listing_enabled=bulk)
    assert differing(provider.groups()[0]) == [[]]
    api.group("web").template = f"{ROOT}projects/{PROJECT}/global/instanceTemplates/web-2"
    api.templates[f"projects/{PROJECT}/global/instanceTemplates/web-2"] = next(iter(api.templates.values()))
    provider.refresh(NOW + 600)
    expected = ("template", "instance template web", ("instance template web-2",))
    assert differing(provider.groups()[0]) == [[expected]]


def test_a_group_that_updates_itself_is_left_to_do_so() -> None:
    web = a_group("web", target=1, update="PROACTIVE")
    api = FakeGce(web)
    api.add_machines("web", "web-a")
    assert opened(api, *named(web)).groups()[0].versions() == ()


# Azure


def test_a_machine_without_the_latest_model_is_outdated() -> None:
    scale_set = FakeScaleSet("web", capacity=2)
    world = AzureWorld(scale_set, nodes=["0:9:web"], refresh=False)
    scale_set.machines[1].latest = False
    world.refresh()
    assert differing(world.group("web")) == [[], [("template", "an earlier model", ("the latest model",))]]


def test_the_machines_of_a_flexible_scale_set_are_compared_by_image_and_size() -> None:
    scale_set = FakeScaleSet("web", capacity=1, flexible=True, image="/Images/a/versions/1")
    world = AzureWorld(scale_set, nodes=["0:9:web"], refresh=False)
    scale_set.machines[0].latest = None
    scale_set.image, scale_set.size = "/images/A/versions/2", "Standard_D8s_v5"
    world.refresh(after_s=3600.0)
    assert differing(world.group("web")) == [
        [
            ("image", "/images/a/versions/1", ("/images/a/versions/2",)),
            ("instance_type", "standard_d4s_v5", ("standard_d8s_v5",)),
        ]
    ]


@pytest.mark.parametrize("mode", ["Automatic", "Rolling"])
def test_a_scale_set_that_upgrades_itself_is_left_to_do_so(mode: str) -> None:
    scale_set = FakeScaleSet("web", capacity=1, properties={"upgradePolicy": {"mode": mode}})
    assert AzureWorld(scale_set, nodes=["0:9:web"]).group("web").versions() == ()


# Cluster API


def test_a_machine_of_an_earlier_kubernetes_is_outdated() -> None:
    sized = {**capi.sized(0, 6), **capi.capacity()}
    machines = running("a", "b")
    machines[0]["spec"]["version"], machines[1]["spec"]["version"] = "v1.32.0", "v1.33.1"
    group = capi.a_scalable("MachineSet", "web", 2, sized, template={"spec": {"version": "v1.33.1"}})
    world = ClusterApiWorld(group, *machines)
    assert differing(world.group) == [[("template", "Kubernetes v1.32.0", ("Kubernetes v1.33.1",))], []]


# Static


def test_the_simulated_cloud_makes_machines_from_the_first_version() -> None:
    now = 0.0
    groups = [GroupSpec(id="web", min_size=0, max_size=5, versions=(V2, V1), boot=BootDelay(0, 0))]
    machines = [MachineSpec(group="web", provider_id="x://a"), MachineSpec(group="web", provider_id="x://b", name="b")]
    spec = CloudSpec(groups=groups, machines=machines, machine_versions={"x://a": V1, "b": MachineVersion("v0")})
    cloud = open_cloud(spec, now=lambda: now)
    cloud.group("web").increase(1)
    assert [machine.version for machine in cloud.group("web").instances()] == [V1, MachineVersion("v0"), V2]
    assert [[one[0] for one in found] for found in differing(cloud.group("web"))] == [[], ["template"], []]
