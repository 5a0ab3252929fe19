import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cloudprovider.conformance import MemoryNodeApi
from cloudprovider.interface import (
    ErrorClass,
    GroupSettings,
    InstanceError,
    Misconfigured,
    ProviderContext,
    State,
    TaintSpec,
)
from cloudprovider.static import (
    BootDelay,
    Call,
    CallFault,
    CreationFault,
    FaultKind,
    MachineSpec,
    Prices,
    When,
    create,
    decode_cloud,
    load_cloud,
)
from cloudprovider.static import file as groups_file
from cloudprovider.static.template import ZONE


def a_document(**group: Any) -> dict[str, Any]:
    return {"groups": [{"id": "web", "minSize": 0, "maxSize": 3, **group}]}


def complaints(document: Any) -> list[str]:
    with pytest.raises(Misconfigured) as caught:
        decode_cloud(document)
    return str(caught.value).splitlines()


def test_the_documented_file_is_a_valid_one(tmp_path: Path) -> None:
    documented = groups_file.__doc__ or ""
    example = documented[documented.index("    groups:") : documented.index("Times are Go durations")]
    path = tmp_path / "groups.yaml"
    path.write_text(textwrap.dedent(example))
    spec = load_cloud(str(path))
    (web,) = spec.groups
    assert (web.id, web.min_size, web.max_size, web.target_size) == ("web", 0, 10, 2)
    assert web.template is not None
    assert web.template.capacity == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert web.template.allocatable == {"cpu": "3900m", "memory": "15Gi", "pods": "110"}
    assert web.template.taints == (TaintSpec("dedicated", "web"),)
    assert web.settings == GroupSettings(scale_down_unneeded_time_s=120.0)
    assert (web.boot, web.delete_s, web.stock_out_after) == (BootDelay(60.0, 60.0), 5.0, 8)
    assert (web.node_names, web.match_labels, web.price_per_hour) == (("web-a", "web-b"), {"pool": "web"}, 0.19)
    assert web.call_faults == (
        CallFault(call=Call.INCREASE, message="no more"),
        CallFault(
            call=Call.INCREASE,
            error=FaultKind.THROTTLED,
            message="slow down",
            retry_after_s=30.0,
            when=When(from_s=600.0),
        ),
    )
    stock_out, boot_failure = web.creation_faults
    assert stock_out.error.error_class is ErrorClass.OUT_OF_RESOURCES
    assert stock_out.when == When(from_s=600.0, until_s=3600.0)
    assert boot_failure == CreationFault(
        error=InstanceError(ErrorClass.OTHER, "BOOT_FAILED", "injected fault"), after_s=30.0
    )
    assert spec.machines == [
        MachineSpec(
            group="web",
            provider_id="static://x",
            state=State.CREATING,
            error=InstanceError(ErrorClass.OTHER, "X", "why"),
        )
    ]
    assert (spec.missing, spec.gpu_types, spec.seed) == (("web-b",), ("nvidia-tesla-t4",), 0)
    assert spec.prices == Prices(instance_types={"m5.large": 0.096})


def test_a_template_may_be_a_node_whose_other_fields_are_left_alone() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "x", "labels": {"pool": "web"}, "uid": "1"},
        "spec": {"taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"}]},
        "status": {"allocatable": {"cpu": 2, "memory": "8Gi", "pods": "30"}, "conditions": []},
    }
    template = decode_cloud(a_document(template=node)).groups[0].template
    assert template is not None
    assert template.capacity == template.allocatable == {"cpu": "2", "memory": "8Gi", "pods": "30"}
    assert template.taints == (TaintSpec("k", "", "NoExecute"),)


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        pytest.param(["a", "b"], {"a": {ZONE: "a"}, "b": {ZONE: "b"}}, id="names"),
        pytest.param({"a": {"disk": "a"}, "b": {}}, {"a": {ZONE: "a", "disk": "a"}, "b": {ZONE: "b"}}, id="labels"),
    ],
)
def test_a_template_may_name_zones(zones: object, expected: object) -> None:
    template = decode_cloud(a_document(template={"capacity": {"cpu": "2"}, "zones": zones})).groups[0].template
    assert template is not None
    assert template.zones == expected


@pytest.mark.parametrize(
    "template",
    [
        pytest.param({"capacity": {"cpu": "2"}, "attachLimits": {"disk": 3}}, id="short form"),
        pytest.param({"status": {"capacity": {"cpu": "2"}}, "spec": {"attachLimits": {"disk": 3}}}, id="node"),
    ],
)
def test_a_template_may_limit_volumes(template: object) -> None:
    found = decode_cloud(a_document(template=template)).groups[0].template
    assert found is not None
    assert found.attach_limits == {"disk": 3}


def test_a_template_may_bring_devices() -> None:
    devices = [{"spec": {"driver": "gpu.nvidia.com", "devices": [{"name": "gpu-0"}]}}]
    found = decode_cloud(a_document(template={"capacity": {"cpu": "2"}}, templateResourceSlices=devices))
    assert found.groups[0].template is not None
    assert found.groups[0].template.resource_slices == tuple(devices)


@pytest.mark.parametrize(
    "template",
    [
        pytest.param({"capacity": {"cpu": "2"}, "declaredFeatures": ["A"]}, id="short form"),
        pytest.param({"status": {"capacity": {"cpu": "2"}, "declaredFeatures": ["A"]}}, id="node"),
    ],
)
def test_a_template_may_declare_features(template: object) -> None:
    found = decode_cloud(a_document(template=template)).groups[0].template
    assert found is not None
    assert found.declared_features == ("A",)


def test_a_template_of_null_means_that_the_cloud_cannot_tell() -> None:
    assert decode_cloud(a_document(template=None)).groups[0].template is None


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        pytest.param({"minSize": 5}, "groups[0].maxSize: 3 is below minSize 5", id="maximum below minimum"),
        pytest.param({"minSize": -1}, "groups[0].minSize: -1 is below 0", id="negative size"),
        pytest.param(
            {"maxSize": True}, "groups[0].maxSize: must be a whole number, not the boolean true", id="boolean"
        ),
        pytest.param({"maxSize": None}, "groups[0].maxSize: is required", id="no maximum"),
        pytest.param({"minsize": 1}, "groups[0].minsize: unknown key; did you mean minSize?", id="typo"),
        pytest.param({"pricePerHour": -2}, "groups[0].pricePerHour: -2 is below 0", id="negative price"),
        pytest.param(
            {"template": {"capacity": {"cpu": "4x"}}},
            'groups[0].template.capacity[cpu]: "4x" is not a quantity; write a number',
            id="no quantity",
        ),
        pytest.param(
            {"template": {"capacity": {"cpu": "-4"}}},
            'groups[0].template.capacity[cpu]: "-4" is negative',
            id="less than 0",
        ),
        pytest.param(
            {"template": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1001m"}}},
            "groups[0].template.allocatable[cpu]: 1001m is above the capacity 1",
            id="more allocatable than there is",
        ),
        pytest.param(
            {"template": {"labels": {}}}, "groups[0].template.capacity: is required, or allocatable", id="no capacity"
        ),
        pytest.param(
            {"template": {"capacity": {"cpu": "1"}, "labels": {"a": True}}},
            "groups[0].template.labels[a]: must be a string, not the boolean true",
            id="label that YAML took for a boolean",
        ),
        pytest.param(
            {"template": {"capacity": {"cpu": "1"}, "taints": [{"key": "a", "effect": "No"}]}},
            "groups[0].template.taints[0].effect: 'No' is none of NoSchedule, PreferNoSchedule, NoExecute",
            id="unknown taint effect",
        ),
        pytest.param(
            {"template": {"capacity": {"cpu": "1"}, "zones": {"a": "b"}}},
            "groups[0].template.zones[a]: must be a mapping, not a string",
            id="zone without labels",
        ),
        pytest.param(
            {"options": {"scale-down-unneeded-time": "10"}},
            'groups[0].options.scale-down-unneeded-time: "10" is not a duration; write a number',
            id="duration without a unit",
        ),
        pytest.param(
            {"options": {"scale-down-utilization-threshold": 1.5}},
            "groups[0].options.scale-down-utilization-threshold: 1.5 is not within 0 and 1",
            id="threshold above 1",
        ),
        pytest.param(
            {"bootSeconds": {"min": 9, "max": 3}},
            "groups[0].bootSeconds.max: 3 is below min 9",
            id="boot bounds swapped",
        ),
        pytest.param({"matchLabels": {}}, "groups[0].matchLabels: must name a label", id="claims every node"),
        pytest.param(
            {"templateResourceSlices": [{}]},
            "groups[0].templateResourceSlices: needs a template",
            id="devices without a template",
        ),
        pytest.param({"templatePods": [{}]}, "groups[0].templatePods: needs a template", id="pods without a template"),
        pytest.param(
            {"faults": [{"fails": "create", "error": "Transient"}]},
            "groups[0].faults[0].error: unknown key",
            id="error class on a creation fault",
        ),
        pytest.param(
            {"faults": [{"fails": "delete", "retryAfter": "1s"}]},
            "groups[0].faults[0].retryAfter: belongs to Throttled only",
            id="retry-after without throttling",
        ),
        pytest.param(
            {"stockOuts": [{"from": "2m", "until": "1m"}]},
            "groups[0].stockOuts[0].until: is not after from",
            id="window that ends before it begins",
        ),
    ],
)
def test_one_problem_is_one_line_with_its_path(group: dict[str, Any], problem: str) -> None:
    (line,) = complaints(a_document(**group))
    assert line.startswith(problem)


def test_all_problems_come_at_once() -> None:
    document = {
        "groups": [
            {"id": "web", "minSize": 0, "maxSize": 3, "bootTime": 5},
            {"id": "web", "minSize": 4, "maxSize": 3},
            "nonsense",
        ],
        "instances": [{"group": "nope", "id": "a"}, {"errorCode": "X"}],
        "prices": {"cpuPerHour": "much"},
        "sead": 1,
    }
    assert complaints(document) == [
        "sead: unknown key; did you mean seed?",
        "prices.cpuPerHour: must be a number, not a string",
        "groups[0].bootTime: unknown key",
        "groups[2]: must be a mapping, not a string",
        "instances[1].group: is required",
        "instances[1].id: is required",
        "instances[1].errorClass: is required beside errorCode and errorMessage",
        "groups[1].id: web is used by an earlier group",
        "groups[1].maxSize: 3 is below minSize 4",
        "instances[0].group: there is no group nope",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("groups: [", "neither YAML nor JSON", id="broken YAML"),
        pytest.param("{id: a, id: b}", "key id is there twice", id="key given twice"),
        pytest.param("", "must hold one document, not 0", id="empty file"),
        pytest.param("- 1", "must be a mapping, not a list", id="a list"),
        pytest.param("groups: []", "needs at least one group", id="no groups"),
    ],
)
def test_an_unusable_file_is_misconfigured(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "groups.yaml"
    path.write_text(text)
    with pytest.raises(Misconfigured, match=problem):
        load_cloud(str(path))


def test_a_file_that_is_not_there_is_misconfigured(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        load_cloud(str(tmp_path / "nope.yaml"))


def a_file(tmp_path: Path) -> str:
    path = tmp_path / "groups.json"
    path.write_text(json.dumps(a_document(matchLabels={"pool": "web"})))
    return str(path)


def test_the_factory_applies_sizes_and_adopts_the_cluster(tmp_path: Path) -> None:
    api = MemoryNodeApi()
    api.create_node({"metadata": {"name": "n1", "labels": {"pool": "web"}}, "spec": {"providerID": "id-1"}})
    cloud = create(ProviderContext(config_file=a_file(tmp_path), node_specs=["2:7:web"], node_api=api))
    cloud.refresh(0.0)
    (group,) = cloud.groups()
    assert (group.min_size, group.max_size, group.target_size()) == (2, 7, 1)
    assert [instance.provider_id for instance in group.instances()] == ["id-1"]


def test_the_factory_refuses_flags_it_cannot_honour(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="needs the path"):
        create(ProviderContext())
    with pytest.raises(Misconfigured, match="node-group-auto-discovery"):
        create(ProviderContext(config_file=a_file(tmp_path), discovery_specs=["asg:tag=x"]))
    with pytest.raises(Misconfigured) as caught:
        create(ProviderContext(config_file=a_file(tmp_path), node_specs=["3:1:web", "0:1:nope", "web", "-1:2:web"]))
    assert len(str(caught.value).splitlines()) == 4
