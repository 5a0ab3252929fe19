"""What a new node looks like: from annotations, machine templates, and nodes that are there."""

import logging
from typing import Any

import pytest

from cloudprovider.interface import NodeTemplate, ProviderError, TaintSpec, Transient
from tests.fakes import capi
from tests.unit.cloudprovider.clusterapi_world import NOW, ClusterApiWorld, node, running

Json = dict[str, Any]
LISTED = f"list {capi.TEMPLATES}"
REF = {"apiGroup": capi.INFRASTRUCTURE, "kind": "DockerMachineTemplate", "name": "small"}


def world_of(
    annotations: Json | None = None, spec: Json | None = None, *objects: Json, **context: Any
) -> ClusterApiWorld:
    """Return a world with a MachineSet of one running Machine."""
    template = {"metadata": {"labels": (spec or {}).pop("labels", {})}, "spec": spec or {}}
    one = capi.a_scalable("MachineSet", "web", 1, {**capi.sized(0, 3), **(annotations or {})}, template=template)
    return ClusterApiWorld(one, *running("a"), *objects, **context)


def template_of(*args: Any, **context: Any) -> NodeTemplate:
    found = world_of(*args, **context).group.template()
    assert found is not None
    return found


def a_machine_template(name: str = "small", namespace: str = "default", **status: Any) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "DockerMachineTemplate", "metadata": metadata, "status": status}


SMALL = a_machine_template(capacity={"cpu": "2", "memory": "4Gi", "bad": "?"}, nodeInfo={"architecture": "arm64"})


class TestCapacity:
    def test_comes_from_annotations(self) -> None:
        given = capi.capacity(
            "16000m", "128G", ephemeral_disk="100Gi", maxPods="200", gpu_type="nvidia.com/gpu", gpu_count="2"
        )
        template = template_of(given)
        assert template.capacity == {
            "cpu": "16000m",
            "memory": "128G",
            "ephemeral-storage": "100Gi",
            "pods": "200",
            "nvidia.com/gpu": "2",
        }
        assert template.allocatable == template.capacity

    @pytest.mark.parametrize(
        "given",
        [
            pytest.param({}, id="nothing said"),
            pytest.param(capi.capacity(memory=""), id="no memory"),
            pytest.param(capi.capacity(cpu="0"), id="no CPU"),
            pytest.param(capi.capacity(cpu="four"), id="no quantity"),
            pytest.param(capi.capacity(memory="-1"), id="negative"),
            pytest.param(capi.capacity(maxPods="1.5"), id="half a pod"),
            pytest.param(capi.capacity(gpu_type="x/gpu", gpu_count="two"), id="GPUs in words"),
        ],
    )
    def test_without_cpu_and_memory_or_with_nonsense_there_is_none(self, given: Json) -> None:
        assert world_of(given).group.template() is None

    def test_limits_of_volumes_come_from_an_annotation(self, caplog: pytest.LogCaptureFixture) -> None:
        given = {f"{capi.CAPACITY}/csi-driver": "ebs.csi.aws.com=25, none.example.com=0, bad, odd.example.com=x"}
        assert template_of(capi.capacity() | given).attach_limits == {"ebs.csi.aws.com": 25}
        assert "'bad' is not of the form driver=limit" in caplog.text
        assert "'odd.example.com=x' is not of the form driver=limit" in caplog.text

    def test_gpus_may_be_devices_that_pods_claim(self) -> None:
        given = capi.capacity(gpu_count="2") | {f"{capi.CAPACITY}/dra-driver": "gpu.nvidia.com"}
        (found,) = template_of(given).resource_slices
        attributes = {"type": {"string": "gpu"}}
        devices = [{"name": "gpu-0", "attributes": attributes}, {"name": "gpu-1", "attributes": attributes}]
        assert found == {"spec": {"driver": "gpu.nvidia.com", "devices": devices}}

    def test_devices_need_a_count_that_a_node_can_have(self, caplog: pytest.LogCaptureFixture) -> None:
        driver = {f"{capi.CAPACITY}/dra-driver": "gpu.nvidia.com"}
        assert template_of(capi.capacity() | driver).resource_slices == ()
        assert template_of(capi.capacity(gpu_count="1025") | driver).resource_slices == ()
        assert "gpu-count: 1025 is above 1024, the most devices of a node" in caplog.text

    def test_gpus_need_both_type_and_count(self) -> None:
        assert set(template_of(capi.capacity(gpu_count="2")).capacity) == {"cpu", "memory", "pods"}
        assert set(template_of(capi.capacity(gpu_type="x/gpu")).capacity) == {"cpu", "memory", "pods"}

    @pytest.mark.parametrize(
        "ref",
        [
            pytest.param(REF, id="v1beta2"),
            pytest.param(
                {"apiVersion": f"{capi.INFRASTRUCTURE}/v1beta2", "kind": "DockerMachineTemplate", "name": "small"},
                id="v1beta1",
            ),
        ],
    )
    def test_comes_from_the_machine_template(self, ref: Json) -> None:
        template = template_of({}, {"infrastructureRef": ref}, SMALL)
        assert template.capacity == {"cpu": "2", "memory": "4Gi", "pods": "110"}
        assert template.labels["kubernetes.io/arch"] == "arm64"

    def test_annotations_count_more(self) -> None:
        with_pods = a_machine_template(capacity={"cpu": "2", "memory": "4Gi", "pods": "30"})
        template = template_of({f"{capi.CAPACITY}/cpu": "8"}, {"infrastructureRef": REF}, with_pods)
        assert template.capacity == {"cpu": "8", "memory": "4Gi", "pods": "30"}

    def test_lets_a_group_grow_from_zero(self) -> None:
        one = capi.a_scalable("MachineSet", "web", 0, capi.sized(0, 3), template={"spec": {"infrastructureRef": REF}})
        assert ClusterApiWorld(one).ids == []
        assert ClusterApiWorld(one, SMALL).ids == ["MachineSet/default/web"]


class TestMachineTemplates:
    def test_are_listed_once_for_all_groups(self) -> None:
        spec = {"spec": {"infrastructureRef": REF}}
        groups = [capi.a_scalable("MachineSet", name, 0, capi.sized(0, 3), template=spec) for name in ("a", "b")]
        world = ClusterApiWorld(*groups, SMALL)
        for _ in range(2):
            world.refresh()
            assert world.api.calls.count(LISTED) == 1
            assert len(world.api.calls) == 5

    def test_are_those_of_the_same_namespace(self) -> None:
        other = a_machine_template(namespace="other", capacity={"cpu": "9", "memory": "9Gi"})
        assert template_of({}, {"infrastructureRef": REF}, SMALL, other).capacity["cpu"] == "2"
        assert world_of({}, {"infrastructureRef": REF}, other).group.template() is None

    def test_are_looked_for_in_the_namespaces_that_are_named(self) -> None:
        context = {"discovery_specs": ["clusterapi:namespace=default"]}
        assert template_of({}, {"infrastructureRef": REF}, SMALL, **context).capacity["cpu"] == "2"

    def test_that_may_not_be_read_are_done_without_and_asked_for_later(self, caplog: pytest.LogCaptureFixture) -> None:
        world = world_of(capi.capacity(), {"infrastructureRef": REF}, SMALL)
        world.api.fail(LISTED, ProviderError("forbidden"))
        with caplog.at_level(logging.WARNING, "cloudprovider"):
            world.refresh(NOW)
        template = world.group.template()
        assert template is not None
        assert (template.capacity["cpu"], template.labels["kubernetes.io/arch"]) == ("4", "amd64")
        assert ["DockerMachineTemplate" in line and "forbidden" in line for line in caplog.messages] == [True]
        world.refresh(NOW + 299)
        assert LISTED not in world.api.calls
        world.refresh(NOW + 300)
        assert LISTED in world.api.calls

    @pytest.mark.parametrize(
        "ref",
        [
            pytest.param({**REF, "kind": "Other"}, id="a kind that is not served"),
            pytest.param({**REF, "apiGroup": "other.example.org"}, id="a group that is not served"),
            pytest.param({"name": "small"}, id="half a reference"),
            pytest.param({**REF, "name": "gone"}, id="one that is gone"),
        ],
    )
    def test_that_are_not_there_are_done_without(self, ref: Json) -> None:
        assert world_of({}, {"infrastructureRef": ref}, SMALL).group.template() is None

    def test_that_cannot_be_read_now_fail_the_refresh(self) -> None:
        world = world_of({}, {"infrastructureRef": REF}, SMALL)
        world.api.fail(LISTED, Transient("away"))
        with pytest.raises(Transient):
            world.refresh()
        assert world.group.template() is not None


class TestLabels:
    @pytest.mark.parametrize("arch", ["amd64", "arm64", "ppc64le", "s390x"])
    def test_generic_ones_follow_the_environment(self, arch: str) -> None:
        template = template_of(capi.capacity(), environment={"CAPI_SCALE_ZERO_DEFAULT_ARCH": arch})
        assert template.labels == {"kubernetes.io/arch": arch, "kubernetes.io/os": "linux"}

    def test_those_are_propagated_that_cluster_api_propagates(self) -> None:
        labels = {
            "node-role.kubernetes.io/worker": "",
            "node-restriction.kubernetes.io/a": "1",
            "team.node-restriction.kubernetes.io/b": "2",
            "node.cluster.x-k8s.io/c": "3",
            "x.node.cluster.x-k8s.io/d": "4",
            "app": "web",
            "example.org/node.cluster.x-k8s.io": "no",
            "evilnode.cluster.x-k8s.io/e": "no",
        }
        template = template_of(capi.capacity(), {"labels": labels})
        found = set(template.labels) - {"kubernetes.io/arch", "kubernetes.io/os"}
        assert found == set(list(labels)[:5])

    def test_each_source_counts_more_than_the_one_before(self) -> None:
        own = "node.cluster.x-k8s.io/pool"
        annotated = f"kubernetes.io/arch=s390x, {own}=annotated,zone=a=b,broken"
        given = {**capi.capacity(), f"{capi.CAPACITY}/labels": annotated}
        world = world_of(given, {"infrastructureRef": REF, "labels": {own: "propagated"}}, SMALL)
        template = world.group.template()
        assert template is not None
        generic = {"kubernetes.io/arch": "s390x", "kubernetes.io/os": "linux"}
        assert template.labels == {**generic, own: "annotated", "zone": "a=b"}
        assert world.provider.group_of(node("a", **{"kubernetes.io/arch": "amd64", "app": "web"})) is not None
        world.refresh()
        template = world.group.template()
        assert template is not None
        assert template.labels["kubernetes.io/arch"] == "amd64"
        assert "app" not in template.labels

    def test_nodes_tell_what_they_agree_on(self) -> None:
        zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
        world = ClusterApiWorld(capi.a_group("web", replicas=2, kind="MachineSet"), *running("a", "b"))
        world.provider.group_of(node("a", **{zone: "1", region: "r"}))
        world.provider.group_of(node("b", **{zone: "2", region: "r"}))
        world.refresh()
        template = world.group.template()
        assert template is not None
        assert (template.labels.get(zone), template.labels.get(region)) == (None, "r")

    def test_nodes_that_are_gone_tell_nothing(self) -> None:
        world = ClusterApiWorld(capi.a_group("web", replicas=1, kind="MachineSet"), *running("a"))
        world.provider.group_of(node("a", **{"topology.kubernetes.io/region": "r"}))
        world.api.remove(capi.MACHINES, "default", "a")
        world.refresh()
        template = world.group.template()
        assert template is not None
        assert "topology.kubernetes.io/region" not in template.labels


class TestTaints:
    def test_annotations_win_over_the_specification_on_equal_key_and_effect(self) -> None:
        spec = [
            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule", "propagation": "Always"},
            {"key": "setup", "effect": "NoExecute", "propagation": "OnInitialization"},
        ]
        text = "dedicated=mine:NoSchedule,dedicated=mine:NoExecute,bare:PreferNoSchedule"
        template = template_of({**capi.capacity(), f"{capi.CAPACITY}/taints": text}, {"taints": spec})
        assert template.taints == (
            TaintSpec("dedicated", "mine", "NoSchedule"),
            TaintSpec("setup", "", "NoExecute"),
            TaintSpec("dedicated", "mine", "NoExecute"),
            TaintSpec("bare", "", "PreferNoSchedule"),
        )

    @pytest.mark.parametrize(
        "text", ["key", "key=value", "a=b=c:NoSchedule", "k:Never", ":NoSchedule", "a:b:NoSchedule"]
    )
    def test_those_that_are_not_understood_are_left_out(self, text: str) -> None:
        template = template_of({**capi.capacity(), f"{capi.CAPACITY}/taints": f"{text},ok=1:NoSchedule"})
        assert template.taints == (TaintSpec("ok", "1", "NoSchedule"),)
