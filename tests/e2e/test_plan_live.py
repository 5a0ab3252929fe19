"""`autoscaler plan --kubeconfig` against an API server: it reads, and does nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.main import main
from autoscaler.clock import SystemClock, VirtualClock
from autoscaler.simulator.apiserver.server import ApiServer
from autoscaler.simulator.apiserver.storage import Storage
from autoscaler.simulator.cluster import SandboxCluster
from autoscaler.simulator.workload import demo_cloud, demo_workload
from cloudprovider.static.cloud import open_cloud


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
    assert {one["id"]: one["maxSize"] for one in answer["inferredGroups"]}["general"] == 9
    assert [change["group"] for change in run["scaleUps"]] == ["general"]
    assert len(run["podsTriggeredScaleUp"]) > 0
    assert {one.verb for one in asked} <= {"get", "list"}
    assert "no namespaces" not in said
