"""Nodes as they boot: from instance types, launch templates, tags and managed node groups."""

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError

from cloudprovider.interface import GroupSettings, NodeTemplate, TaintSpec
from tests.fakes.aws import FakeAws, an_error

TAGS = "k8s.io/cluster-autoscaler/node-template"
GIB = 1024**3
EKS = {"eks:cluster-name": "prod", "eks:nodegroup-name": "pool"}


def template_of(cloud: FakeAws) -> NodeTemplate:
    (group,) = cloud.open("0:9:web").groups()
    template = group.template()
    assert template is not None
    return template


def amounts(template: NodeTemplate) -> dict[str, str]:
    assert template.allocatable == template.capacity
    return dict(template.capacity)


def machine(cpus: int, gib: int, **more: str) -> dict[str, str]:
    return {"pods": "110", "cpu": str(cpus), "memory": str(gib * GIB), **more}


def mixed(*overrides: Mapping[str, Any]) -> dict[str, Any]:
    spec = {"LaunchTemplateId": "lt-1", "LaunchTemplateName": "t", "Version": "3"}
    return {"LaunchTemplate": {"LaunchTemplateSpecification": spec, "Overrides": list(overrides)}}


# Machines


def test_a_node_has_what_its_machine_has_and_where_it_is() -> None:
    cloud = FakeAws()
    cloud.add_group("web")
    template = template_of(cloud)
    assert amounts(template) == machine(2, 8)
    assert template.labels == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": "eu-west-1a",
        "topology.ebs.csi.aws.com/zone": "eu-west-1a",
    }
    assert template.zones == {
        zone: {"topology.kubernetes.io/zone": zone, "topology.ebs.csi.aws.com/zone": zone}
        for zone in ("eu-west-1a", "eu-west-1b")
    }
    assert template.taints == ()
    assert [pod["metadata"]["name"] for pod in template.pods] == ["kube-proxy-web"]


def test_the_type_may_come_from_a_launch_template() -> None:
    cloud = FakeAws()
    cloud.templates["t", "$Latest"] = {"InstanceType": "m5.xlarge"}
    cloud.add_group("web", LaunchTemplate={"LaunchTemplateName": "t", "Version": "$Latest"})
    assert amounts(template_of(cloud)) == machine(4, 16)


def test_of_mixed_types_only_what_all_have_is_promised() -> None:
    cloud = FakeAws()
    cloud.add_group("web", MixedInstancesPolicy=mixed({"InstanceType": "m5.xlarge"}, {"InstanceType": "r5.large"}))
    template = template_of(cloud)
    assert amounts(template) == machine(2, 16)
    assert template.labels["node.kubernetes.io/instance-type"] == "m5.xlarge"


def test_a_policy_without_overrides_has_its_templates_type() -> None:
    cloud = FakeAws()
    cloud.templates["lt-1", "3"] = {"InstanceType": "r5.large"}
    cloud.add_group("web", MixedInstancesPolicy=mixed())
    assert amounts(template_of(cloud)) == machine(2, 16)


REQUIREMENTS = {
    "VCpuCount": {"Min": 8, "Max": 16},
    "MemoryMiB": {"Min": 32768},
    "AcceleratorCount": {"Min": 2},
    "AcceleratorManufacturers": ["nvidia"],
    "AcceleratorTypes": ["gpu"],
}


@pytest.mark.parametrize("where", ["overrides", "template"])
def test_requirements_promise_their_least(where: str) -> None:
    cloud = FakeAws()
    cloud.meeting = ["g5g.2xlarge"]
    data = {"ImageId": "ami-arm", **({"InstanceRequirements": REQUIREMENTS} if where == "template" else {})}
    cloud.templates["lt-1", "3"] = data
    cloud.add_group(
        "web",
        MixedInstancesPolicy=mixed(*([{"InstanceRequirements": REQUIREMENTS}] if where == "overrides" else [])),
    )
    template = template_of(cloud)
    assert amounts(template) == machine(8, 32, **{"nvidia.com/gpu": "2"})
    assert template.labels["kubernetes.io/arch"] == "arm64"
    assert template.labels["node.kubernetes.io/instance-type"] == "g5g.2xlarge"
    asked = next(parameters for name, parameters in cloud.calls if name.startswith("get_instance_types"))
    assert (asked["ArchitectureTypes"], asked["VirtualizationTypes"]) == (["arm64"], ["hvm"])
    assert asked["InstanceRequirements"] == REQUIREMENTS


def test_accelerators_are_told_by_their_maker_and_arm_by_its_name() -> None:
    cloud = FakeAws()
    cloud.add_type("x", 4, 16, "arm64", {"NVIDIA": 4, "AMD": 2, "Other": 9})
    cloud.add_group("web", MixedInstancesPolicy=mixed({"InstanceType": "x"}))
    template = template_of(cloud)
    assert amounts(template) == machine(4, 16, **{"nvidia.com/gpu": "4", "amd.com/gpu": "2"})
    assert template.labels["kubernetes.io/arch"] == "arm64"


# Tags


def test_tags_tell_labels_taints_and_resources() -> None:
    cloud = FakeAws()
    tags = {
        f"{TAGS}/label/pool": "web",
        f"{TAGS}/label/example.com/tier": "",
        f"{TAGS}/label/kubernetes.io/os": "windows",
        f"{TAGS}/taint/dedicated": "web:NoSchedule",
        f"{TAGS}/taint/bare": ":NoExecute",
        f"{TAGS}/resources/ephemeral-storage": "100G",
        f"{TAGS}/resources/pods": "29",
        f"{TAGS}/resources/cpu": "1900m",
        f"{TAGS}/csi-driver/ebs.csi.aws.com": "25",
        "Name": "unrelated",
    }
    cloud.add_group("web", tags=tags)
    template = template_of(cloud)
    assert amounts(template) == {**machine(2, 8), "ephemeral-storage": "100G", "pods": "29", "cpu": "1900m"}
    assert template.labels.items() >= {("pool", "web"), ("example.com/tier", ""), ("kubernetes.io/os", "windows")}
    assert set(template.taints) == {TaintSpec("dedicated", "web", "NoSchedule"), TaintSpec("bare", "", "NoExecute")}
    assert template.attach_limits == {"ebs.csi.aws.com": 25}


def test_tags_that_say_nothing_usable_are_ignored_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    cloud = FakeAws()
    wrong = {
        f"{TAGS}/label/pool": "not a label value",
        f"{TAGS}/taint/dedicated": "web:Never",
        f"{TAGS}/taint/other": "web",
        f"{TAGS}/resources/gpu": "many",
        f"{TAGS}/resources/less": "-1",
        f"{TAGS}/csi-driver/ebs.csi.aws.com": "many",
        f"{TAGS}/autoscaling-options/scaledownunneededtime": "soon",
        f"{TAGS}/autoscaling-options/unknown": "1",
    }
    cloud.add_group("web", tags=wrong)
    provider = cloud.open("0:9:web")
    provider.refresh(cloud.now + 100)
    (group,) = provider.groups()
    template = group.template()
    assert template is not None
    assert (amounts(template), template.taints, "pool" in template.labels) == (machine(2, 8), (), False)
    (record,) = caplog.records
    assert record.message == "aws.tags_without_effect"
    assert all(f"{key}={value}" in str(record.__dict__["fields"]) for key, value in wrong.items())


def test_options_in_tags_override_flags() -> None:
    cloud = FakeAws()
    given = {
        "scaledownutilizationthreshold": "0.3",
        "scaledowngpuutilizationthreshold": "0.4",
        "scaledownunneededtime": "2m30s",
        "scaledownunreadytime": "1h",
        "maxnodeprovisiontime": "20m",
        "maxnodestartuptime": "15m",
        "ignoredaemonsetsutilization": "true",
    }
    cloud.add_group("web", tags={f"{TAGS}/autoscaling-options/{key}": value for key, value in given.items()})
    (group,) = cloud.open("0:9:web").groups()
    assert group.settings() == GroupSettings(
        scale_down_utilization_threshold=0.3,
        scale_down_gpu_utilization_threshold=0.4,
        scale_down_unneeded_time_s=150.0,
        scale_down_unready_time_s=3600.0,
        max_node_provision_time_s=1200.0,
        max_node_startup_time_s=900.0,
        ignore_daemonsets_utilization=True,
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("scaledownutilizationthreshold", "1.5"),
        ("scaledownutilizationthreshold", "nan"),
        ("scaledownunneededtime", "-1s"),
        ("ignoredaemonsetsutilization", "yes"),
    ],
)
def test_options_that_make_no_sense_override_nothing(option: str, value: str) -> None:
    cloud = FakeAws()
    cloud.add_group("web", tags={f"{TAGS}/autoscaling-options/{option}": value})
    (group,) = cloud.open("0:9:web").groups()
    assert group.settings() == GroupSettings()


# Managed node groups


def a_nodegroup(**more: Any) -> dict[str, Any]:
    return {
        "capacityType": "SPOT",
        "amiType": "AL2023_x86_64_STANDARD",
        "labels": {"pool": "managed"},
        "taints": [
            {"key": "dedicated", "value": "managed", "effect": "NO_SCHEDULE"},
            {"key": "bare", "effect": "PREFER_NO_SCHEDULE"},
        ],
        "tags": {f"{TAGS}/resources/ephemeral-storage": "50Gi"},
        **more,
    }


def test_a_managed_node_group_has_the_last_word() -> None:
    cloud = FakeAws()
    cloud.nodegroups["prod", "pool"] = a_nodegroup()
    tags = {
        **EKS,
        f"{TAGS}/label/pool": "tag",
        f"{TAGS}/taint/dedicated": "tag:NoSchedule",
        f"{TAGS}/resources/ephemeral-storage": "1Gi",
    }
    cloud.add_group("web", tags=tags)
    template = template_of(cloud)
    assert template.labels.items() >= {
        ("pool", "managed"),
        ("eks.amazonaws.com/nodegroup", "pool"),
        ("eks.amazonaws.com/capacityType", "SPOT"),
    }
    assert set(template.taints) == {
        TaintSpec("dedicated", "managed", "NoSchedule"),
        TaintSpec("bare", "", "PreferNoSchedule"),
    }
    assert template.capacity["ephemeral-storage"] == "50Gi"


def test_windows_node_groups_boot_windows() -> None:
    cloud = FakeAws()
    cloud.nodegroups["prod", "pool"] = a_nodegroup(amiType="WINDOWS_CORE_2022_x86_64")
    cloud.add_group("web", tags=EKS)
    assert template_of(cloud).labels["kubernetes.io/os"] == "windows"


def asked_each_minute(cloud: FakeAws, operation: str, minutes: int) -> int:
    provider = cloud.open("0:9:web")
    before = cloud.count(operation)
    for minute in range(1, minutes + 1):
        provider.refresh(cloud.now + 60 * minute)
    return cloud.count(operation) - before


@pytest.mark.parametrize(("size", "most"), [(0, 25), (2, 2)])
def test_a_node_group_is_asked_about_seldom_and_less_while_it_has_nodes(size: int, most: int) -> None:
    cloud = FakeAws()
    cloud.nodegroups["prod", "pool"] = a_nodegroup()
    cloud.add_group("web", size, tags=EKS)
    assert 0 < asked_each_minute(cloud, "describe_nodegroup", 90) <= most


def test_a_node_group_that_may_not_be_read_is_told_once_and_the_tags_do(caplog: pytest.LogCaptureFixture) -> None:
    cloud = FakeAws()
    cloud.add_group("web", tags={**EKS, f"{TAGS}/label/pool": "tag"})
    assert asked_each_minute(cloud, "describe_nodegroup", 3) == 0, "a refusal is remembered too"
    assert template_of(cloud).labels["pool"] == "tag"
    assert "aws.nodegroup_unknown" in [record.message for record in caplog.records]


# Remembering


def test_versions_and_types_that_never_change_are_asked_for_once() -> None:
    cloud = FakeAws()
    cloud.templates["t", "7"] = {"InstanceType": "m5.large"}
    cloud.add_group("web", LaunchTemplate={"LaunchTemplateName": "t", "Version": "7"})
    assert asked_each_minute(cloud, "describe_launch_template_versions", 300) == 0
    assert cloud.count("describe_instance_types") == 1


def test_a_floating_version_is_asked_for_again_and_a_new_type_is_found() -> None:
    cloud = FakeAws()
    cloud.templates["t", "$Latest"] = {"InstanceType": "m5.large"}
    cloud.add_group("web", LaunchTemplate={"LaunchTemplateName": "t", "Version": "$Latest"})
    provider = cloud.open("0:9:web")
    cloud.templates["t", "$Latest"] = {"InstanceType": "m5.xlarge"}
    provider.refresh(cloud.now + 21 * 60)
    (group,) = provider.groups()
    template = group.template()
    assert template is not None
    assert amounts(template) == machine(4, 16)


def test_types_of_all_groups_are_asked_for_together() -> None:
    cloud = FakeAws()
    names = [f"g{number}" for number in range(150)]
    for number, name in enumerate(names):
        cloud.add_type(f"type-{number}", 2, 8)
        cloud.add_group(name, MixedInstancesPolicy=mixed({"InstanceType": f"type-{number}"}))
    cloud.open(*(f"0:5:{name}" for name in names))
    assert cloud.count("describe_instance_types") == 2


def test_without_instance_types_the_tags_can_tell_cpu_and_memory(caplog: pytest.LogCaptureFixture) -> None:
    cloud = FakeAws()
    cloud.fail("describe_instance_types", *[an_error("UnauthorizedOperation", status=403)] * 5)
    cloud.add_group("web", tags={f"{TAGS}/resources/cpu": "2", f"{TAGS}/resources/memory": "8Gi"})
    cloud.add_group("bare")
    bare, web = cloud.open("0:9:web", "0:9:bare").groups()
    template = web.template()
    assert template is not None
    assert amounts(template) == {"pods": "110", "cpu": "2", "memory": "8Gi"}
    assert bare.template() is None
    told = [record.__dict__["fields"] for record in caplog.records if record.message == "aws.no_template"]
    assert [(one["group"], "UnauthorizedOperation" in one["why"]) for one in told] == [("bare", True)]


def test_a_service_that_is_away_is_not_asked_for_every_group_nor_within_a_minute() -> None:
    cloud = FakeAws()
    cloud.fail(
        "describe_launch_template_versions", *[ConnectTimeoutError(endpoint_url="https://ec2.amazonaws.com")] * 9
    )
    for name in ("a", "b", "c"):
        cloud.add_group(name, LaunchTemplate={"LaunchTemplateName": name, "Version": "1"})
    provider = cloud.open("0:9:a", "0:9:b", "0:9:c")
    assert cloud.count("describe_launch_template_versions") == 1
    provider.groups()[0].increase(1)
    provider.refresh(cloud.now + 30)
    assert cloud.count("describe_launch_template_versions") == 1
    provider.refresh(cloud.now + 61)
    assert cloud.count("describe_launch_template_versions") == 2


def test_what_was_known_outlasts_services_that_are_away_and_new_tags_count() -> None:
    cloud = FakeAws()
    cloud.templates["t", "$Latest"] = {"InstanceType": "m5.large"}
    cloud.nodegroups["prod", "pool"] = a_nodegroup(tags={})
    data = cloud.add_group("web", tags=EKS, LaunchTemplate={"LaunchTemplateName": "t", "Version": "$Latest"})
    provider = cloud.open("0:9:web")
    cloud.fail("describe_launch_template_versions", *[an_error("Unavailable", status=503)] * 9)
    cloud.fail("describe_nodegroup", *[an_error("ServerException", status=500)] * 9)
    data["Tags"].append({"Key": f"{TAGS}/label/fresh", "Value": "yes"})
    provider.refresh(cloud.now + 21 * 60)
    (group,) = provider.groups()
    template = group.template()
    assert template is not None
    assert amounts(template) == machine(2, 8)
    assert template.labels.items() >= {("pool", "managed"), ("fresh", "yes")}
    data["LaunchTemplate"] = {"LaunchTemplateName": "other", "Version": "1"}
    provider.refresh(cloud.now + 23 * 60)
    assert group.template() is None, "the machine that was known is not the one that would come"


def test_unknown_types_and_templates_leave_a_group_without_template_and_the_others_alone() -> None:
    cloud = FakeAws()
    cloud.add_group("a", MixedInstancesPolicy=mixed({"InstanceType": "unheard.of"}))
    cloud.add_group("b", LaunchTemplate={"LaunchTemplateName": "gone", "Version": "1"})
    cloud.add_group("c")
    assert [group.template() is None for group in cloud.open("0:9:a", "0:9:b", "0:9:c").groups()] == [
        True,
        True,
        False,
    ]
