"""`autoscaler plan --kubeconfig` against an API server: it only reads."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoscaler.cli.main import main
from autoscaler.clock import SystemClock, VirtualClock
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.cluster import SandboxCluster
from autoscaler.sandbox.demo_workload import demo_cloud, demo_workload
from cloudprovider.static.cloud import open_cloud
from tests.devices import slice_form

DEVICE_KINDS = ("resourceslices", "resourceclaims")


def a_cluster() -> Storage:
    """The demo's cluster once its scheduler has found that there is too little room."""
    clock = VirtualClock(wall=SystemClock().now().wall - 600)
    cluster = SandboxCluster(clock, open_cloud(demo_cloud(), now=lambda: clock.now().wall))
    cluster.apply(demo_workload())
    cluster.run_for(60)
    return cluster.storage


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str]:
    assert main(["plan", "-o", "json", *words]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


def test_a_live_cluster_is_planned_for_with_get_and_list_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ApiServer(a_cluster()) as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        answer, said = planned(capsys, "--kubeconfig", str(kubeconfig), "--nodes=1:9:general")
        asked = server.requests.entries()
    (run,) = answer["runs"]
    assert {group["id"]: group["maxSize"] for group in answer["inferredGroups"]}["general"] == 9
    assert [change["group"] for change in run["scaleUps"]] == ["general"]
    assert len(run["podsTriggeredScaleUp"]) > 0
    assert {one.verb for one in asked} <= {"get", "list"}
    assert "no namespaces" not in said


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_devices_of_a_live_cluster_are_read_in_the_version_that_it_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    storage = a_cluster()
    rows = [msgspec.structs.replace(storage.registry.resolve(kind), version=version) for kind in DEVICE_KINDS]
    storage.registry.add(rows)
    node = storage.list("nodes")[0]["metadata"]["name"]
    storage.create("resourceslices", slice_form(node, slices=2))
    with ApiServer(storage) as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        answer, said = planned(capsys, "--kubeconfig", str(kubeconfig))
    assert "Resource" not in said
    assert answer["runs"][0]["unremovable"][node]["detail"].endswith("has 1 of its 2 ResourceSlices")


def test_a_cluster_without_devices_is_planned_for_without_a_word_about_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = a_cluster()
    for kind in DEVICE_KINDS:
        storage.registry.remove("resource.k8s.io", kind)
    with ApiServer(storage) as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        answer, said = planned(capsys, "--kubeconfig", str(kubeconfig))
    assert answer["runs"]
    assert "Resource" not in said


POD_GROUPS: dict[str, Any] = {
    "scheduling.k8s.io": {"schedulingPolicy": {"gang": {"minCount": 99}}},
    "scheduling.x-k8s.io": {"minMember": 99},
    "scheduling.volcano.sh": {"minMember": 99},
}
MARKS: dict[str, Any] = {
    "scheduling.k8s.io": {"spec": {"schedulingGroup": {"podGroupName": "job"}}},
    "scheduling.x-k8s.io": {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "job"}}},
    "scheduling.volcano.sh": {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "job"}}},
}


@pytest.mark.parametrize("served", list(POD_GROUPS))
def test_gangs_of_a_live_cluster_are_read_from_the_scheduler_that_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], served: str
) -> None:
    storage = a_cluster()
    for group in POD_GROUPS.keys() - {served}:
        storage.registry.remove(group, "podgroups")
    storage.create(f"podgroups.{served}", {"metadata": {"name": "job"}, "spec": POD_GROUPS[served]})
    marks = MARKS[served]
    storage.create(
        "pods",
        {
            "metadata": {"name": "member", **marks.get("metadata", {})},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1k"}}}]}
            | marks.get("spec", {}),
        },
    )
    judged = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    storage.patch("pods", "member", {"status": judged}, patch_type=PatchType.MERGE, subresource="status")
    with ApiServer(storage) as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        answer, said = planned(capsys, "--kubeconfig", str(kubeconfig))
    assert "PodGroup" not in said
    assert "gang default/job: 99 wanted, 1 exist and ask for a node" in json.dumps(answer)
