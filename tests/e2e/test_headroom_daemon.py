"""Headroom of the real daemon over HTTP: nodes are bought ahead, with the rights that are written down."""

import signal
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.replica import PATIENT_LEADER, Process, Replica, Sandbox, a_cloud, free_port, get, get_json, until
from tests.e2e.test_rbac import BASE, denied, granted, permission

RIGHTS = ("components/headroom/pool-role.yaml", "components/headroom/class-role.yaml")
NAME = "cluster-autoscaler"


def a_file(folder: Path, count: int, **fields: Any) -> Path:
    pool = {
        "name": "spare",
        "namespace": "default",
        "resources": {"cpu": "900m", "memory": "1Gi"},
        "policies": [{"name": "always", "idleCount": count, "idleTime": "0s"}],
    }
    path = folder / "autoscaler.yaml"
    path.write_text(yaml.safe_dump({"headroom": {"reconcileInterval": "1s", "pools": [pool], **fields}}))
    return path


def pause_pods(sandbox: Sandbox) -> list[dict[str, Any]]:
    return sandbox.storage.list("pods", label_selector="headroom-pool=spare")


def replicas(sandbox: Sandbox) -> int | None:
    found = [
        deployment
        for deployment in sandbox.storage.list("deployments.apps")
        if deployment["metadata"]["name"] == "headroom-spare"
    ]
    return int(found[0]["spec"]["replicas"]) if found else None


def test_nodes_are_bought_ahead_and_go_as_the_file_says_with_no_more_rights_than_written_down(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    file = a_file(tmp_path, 2)
    with Sandbox(tmp_path, cloud) as sandbox:
        with Replica(sandbox.kubeconfig, f"--config={file}", *PATIENT_LEADER, provider=cloud, name=NAME) as replica:
            sandbox.until_running(2)
            assert sandbox.targets() == {"web": 2}
            until(lambda: replica.json("/api/v1/headroom")["pools"][0]["bound"] == 2, "the API shows them")
            shown = replica.json("/api/v1/headroom")["pools"][0]
            assert (shown["policy"], shown["target"], shown["reason"]) == ("always", 2, "IdleCount")
            assert "/api/v1/headroom" in replica.json("/api/v1/openapi.json")["paths"]
            assert 'id="headroom"' in replica.get("/status")[1]
            a_file(tmp_path, 1, pools="none")
            until(lambda: "config_last_reload_successful 0" in replica.get("/metrics")[1], "a bad file is told")
            assert replicas(sandbox) == 2
            a_file(tmp_path, 1, onShutdown="delete")
            until(lambda: len(pause_pods(sandbox)) == 1, "one pause pod goes")
            assert "config_last_reload_successful 1" in replica.get("/metrics")[1]
            assert replica.stop() == 0
        seen = sandbox.asked(NAME)
        assert replicas(sandbox) is None
    assert denied((*BASE, *RIGHTS), seen) == set()
    assert granted(RIGHTS) - set(map(permission, seen)) == set()
    written = [(one.verb, one.resource) for one in seen if one.resource in ("deployments", "leases")]
    assert written.index(("delete", "deployments")) < len(written) - 1
    assert written[-1] == ("update", "leases"), "the lease is released last"


def test_without_the_section_nothing_is_asked_and_nothing_served(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    with Sandbox(tmp_path, cloud) as sandbox:
        with Replica(sandbox.kubeconfig, provider=cloud, name=NAME) as replica:
            sandbox.deploy("web", 1)
            sandbox.until_running(1)
            assert replica.get("/api/v1/headroom")[0] == 404
            assert "/api/v1/headroom" not in replica.json("/api/v1/openapi.json")["paths"]
            assert 'id="headroom"' not in replica.get("/status")[1]
            assert "headroom" not in replica.get("/metrics")[1]
            assert replica.stop() == 0
        asked = {one.resource for one in sandbox.asked(NAME)}
    assert {"deployments", "priorityclasses"} & asked == set()


def test_a_dry_run_makes_nothing(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    file = a_file(tmp_path, 2, onShutdown="delete")
    with Sandbox(tmp_path, cloud) as sandbox:
        with Replica(sandbox.kubeconfig, f"--config={file}", "--dry-run", provider=cloud, name=NAME) as replica:
            until(lambda: replica.json("/api/v1/headroom")["pools"], "a pool is shown")
            assert replica.json("/api/v1/headroom")["pools"][0]["target"] == 2
            assert replica.stop() == 0
        assert replicas(sandbox) is None
        assert sandbox.written(NAME) == []


def test_the_demo_keeps_headroom_and_the_clean_up_removes_it(tmp_path: Path) -> None:
    port = free_port()
    file = a_file(tmp_path, 1)
    with Process(tmp_path, "demo", f"--config={file}", "--port", str(port)) as demo:
        until(lambda: get(port, "/api/v1/headroom")[0] == 200, "the demo serves HTTP")
        until(lambda: get_json(port, "/api/v1/headroom")["pools"], "a pool is shown")
        until(lambda: get_json(port, "/api/v1/headroom")["pools"][0]["bound"] == 1, "a pause pod runs")
        kubeconfig = next(line.split("=")[1] for line in demo.err.splitlines() if "export KUBECONFIG=" in line)
        for words, says in ((["--pretend"], "would be deleted"), ([], "deleted")):
            with Process(
                tmp_path, "headroom", "cleanup", f"--kubeconfig={kubeconfig}", *words, name="cleanup"
            ) as clean:
                assert clean.end() == 0, clean.err
            assert f"deployment default/headroom-spare {says}" in clean.out
        demo.send(signal.SIGINT)
        assert demo.end() == 0


def test_bad_pools_end_the_daemon_before_it_asks_anybody(tmp_path: Path) -> None:
    file = a_file(tmp_path, 1, reconcileInterval="1h")
    with Process(tmp_path, "run", "--cloud-provider=static", f"--config={file}") as daemon:
        assert daemon.end() == 2
    assert daemon.err.startswith("config: headroom.reconcileInterval: 3600s is not within 1s..5m")
    assert daemon.out == ""
