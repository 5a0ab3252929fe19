"""Start-up estimates of the real daemon over HTTP, and generated load against the embedded API server."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.main import main
from cloudprovider.interface import NodeTemplate
from cloudprovider.static.cloud import StaticCloud, open_cloud
from cloudprovider.static.spec import BootDelay, CloudSpec, GroupSpec
from tests.e2e.replica import PATIENT_LEADER, Replica, Sandbox, a_cloud, now_wall, until
from tests.e2e.test_rbac import BASE, denied, granted, permission
from tests.manifests import a_bare_pod

NAME = "cluster-autoscaler"
RIGHTS = ("components/eta/role.yaml",)


def a_slow_cloud() -> StaticCloud:
    amounts = {"cpu": "1", "memory": "4Gi", "pods": "110"}
    template = NodeTemplate(labels={"pool": "web"}, capacity=amounts, allocatable=amounts)
    web = GroupSpec(id="web", min_size=0, max_size=10, template=template, boot=BootDelay(3, 3))
    return open_cloud(CloudSpec(groups=[web]), now=now_wall)


def history(replica: Replica) -> list[dict[str, Any]]:
    return list(replica.json("/api/v1/pods/history?state=Ready")["items"])


def test_a_pending_pod_is_told_when_it_will_start_and_the_error_is_recorded(tmp_path: Path) -> None:
    cloud = a_slow_cloud()
    with Sandbox(tmp_path, cloud) as sandbox:
        with Replica(sandbox.kubeconfig, "--persist-boot-times", *PATIENT_LEADER, provider=cloud, name=NAME) as replica:
            sandbox.deploy("web", 1)
            until(lambda: any(one["expectedSeconds"] for one in replica.json("/api/v1/eta")["items"]), "an estimate")
            (told,) = replica.json("/api/v1/eta")["items"]
            assert (told["level"], told["group"], told["reason"]) in {(3, "web", None), (4, "web", None)}
            assert told["worstSeconds"] > told["expectedSeconds"] > 100
            assert told["assumed"]  # no boot was seen yet, so the page promises nothing
            assert replica.json("/api/v1/pods")["items"][0]["etaSeconds"] is None
            sandbox.until_running(1)
            until(lambda: history(replica), "the start is recorded")
            (record,) = history(replica)
            assert record["estimatedReadyAt"] > record["readyAt"]
            assert -400 < record["errorSeconds"] < -100
            assert replica.json("/api/v1/eta")["accuracy"] == {
                "pods": 0,
                "withinWorst": 0,
                "late": 0,
                "meanAbsErrorSeconds": None,
            }
            assert 'node_boot_seconds_count{node_group="web"} 1.0' in replica.get("/metrics")[1]
            assert "web" in replica.get("/status/starts")[1]
            assert replica.stop() == 0
        stored = [
            config_map
            for config_map in sandbox.storage.list("configmaps")
            if config_map["metadata"]["name"].endswith("boot-times")
        ]
        assert len(json.loads(stored[0]["data"]["boot-times"])["web"]) == 1
        with Replica(sandbox.kubeconfig, "--persist-boot-times", *PATIENT_LEADER, provider=cloud, name=NAME) as replica:
            until(
                lambda: replica.json("/api/v1/eta")["boots"].get("web", {}).get("samples") == 1, "they are read again"
            )
            assert replica.stop() == 0
        seen = sandbox.asked(NAME)
    assert denied((*BASE, *RIGHTS), seen) == set()
    assert granted(RIGHTS) - set(map(permission, seen)) == set()


def test_without_flags_nothing_is_asked_of_the_api_server_for_estimates(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    with Sandbox(tmp_path, cloud) as sandbox:
        with Replica(sandbox.kubeconfig, provider=cloud, name=NAME) as replica:
            sandbox.deploy("web", 1)
            sandbox.until_running(1)
            assert replica.json("/api/v1/eta")["estimator"] == "placement"
            assert replica.stop() == 0
        assert denied(BASE, sandbox.asked(NAME)) == set()


def test_estimates_can_be_switched_off(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    off = "--pod-start-estimates=false"
    with Sandbox(tmp_path, cloud) as sandbox, Replica(sandbox.kubeconfig, off, provider=cloud) as replica:
        sandbox.deploy("web", 1)
        sandbox.until_running(1)
        assert replica.get("/api/v1/eta")[0] == 404
        assert "pod_start" not in replica.get("/metrics")[1]
        assert replica.stop() == 0


def test_expired_pods_are_deleted_and_others_stay(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    flags = ("--expired-pod-cleanup", "--expired-pod-namespaces=default", *PATIENT_LEADER)
    with Sandbox(tmp_path, cloud) as sandbox:
        for name, value in (("old", "1"), ("new", "99999999999"), ("odd", "soon")):
            sandbox.storage.create("pods", a_bare_pod(name, annotations={"delete-at": value}, nodeSelector={"no": "1"}))
        with Replica(sandbox.kubeconfig, *flags, provider=cloud, name=NAME) as replica:
            until(lambda: "old" not in pods(sandbox), "the expired pod goes")
            assert pods(sandbox) == {"new", "odd"}
            until(lambda: 'expired_pods_deleted_total{reason="expired"} 1.0' in replica.get("/metrics")[1], "counted")
            assert replica.stop() == 0


def pods(sandbox: Sandbox) -> set[str]:
    return {
        pod["metadata"]["name"] for pod in sandbox.storage.list("pods") if "deletionTimestamp" not in pod["metadata"]
    }


def test_load_starts_is_reported_and_is_taken_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cloud = a_cloud("web")
    with Sandbox(tmp_path, cloud) as sandbox, Replica(sandbox.kubeconfig, provider=cloud, name=NAME):
        words = ["--count=3", "--max-pods=2", "--cpu=900m", "--memory=1Gi", "--duration=1", "--in-namespace=default"]
        assert main(["load", f"--kubeconfig={sandbox.kubeconfig}", *words, "-o", "json"]) == 0
        (answer,) = json.loads(capsys.readouterr().out)
        assert {name: answer[name] for name in ("requested", "created", "capped", "started", "failed")} == {
            "requested": 3,
            "created": 2,
            "capped": True,
            "started": 2,
            "failed": 0,
        }
        until(lambda: not pods(sandbox), "the load is gone")


def test_load_that_never_starts_is_taken_away_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Sandbox(tmp_path, a_cloud("web")) as sandbox:
        words = ["--count=1", "--deadline=1", "--in-namespace=default"]
        assert main(["load", f"--kubeconfig={sandbox.kubeconfig}", *words, "-o", "json"]) == 1
        (answer,) = json.loads(capsys.readouterr().out)
        assert (answer["started"], answer["failed"]) == (0, 1)
        assert not pods(sandbox)
