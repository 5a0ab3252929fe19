"""Reservations of the real daemon over HTTP: announced work has its node before its pods come."""

import hashlib
import hmac
import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.replica import HOME, PATIENT_LEADER, Process, Replica, Sandbox, a_cloud, free_port, until
from tests.e2e.test_rbac import BASE, denied, granted, permission
from tests.unit.reservations.test_github_jobs import BODY

RIGHTS = ("components/reservations/role.yaml",)
NAME = "cluster-autoscaler"
SECRET = b"a-secret-for-tests"


def a_file(folder: Path, port: int, **fields: Any) -> Path:
    (folder / "secret").write_bytes(SECRET + b"\n")
    container = {"name": "main", "resources": {"requests": {"cpu": "900m", "memory": "1Gi"}}}
    target = {
        "name": "runners",
        "podTemplate": {"metadata": {"labels": {"app": "runner"}}, "spec": {"containers": [container]}},
        "podSelector": "app=runner",
        "maxReplicas": 3,
        "github": {"repositories": ["acme/*"], "labels": ["gpu"]},
    }
    section = {
        "listen": f"127.0.0.1:{port}",
        "batchWindow": "200ms",
        "auth": {"githubSecrets": [{"file": str(folder / "secret")}]},
        "targets": [target],
        **fields,
    }
    path = folder / "autoscaler.yaml"
    path.write_text(yaml.safe_dump({"reservations": section}))
    return path


def deliver(port: int, delivery: str, body: bytes = BODY, secret: bytes = SECRET) -> tuple[int, Any]:
    """Send what GitHub would; 0 where nobody answers."""
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "workflow_job",
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest(),
    }
    request = urllib.request.Request(f"http://127.0.0.1:{port}/webhooks/github", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
    except OSError:
        return 0, None


def stored(sandbox: Sandbox) -> list[dict[str, Any]]:
    maps = {
        config_map["metadata"]["name"]: config_map for config_map in sandbox.storage.list("configmaps", namespace=HOME)
    }
    kept = maps.get("capacity-reservations-runners")
    return [] if kept is None else list(json.loads(kept["data"]["state.json"])["entries"])


def until_accepted(port: int, delivery: str, body: bytes = BODY) -> None:
    answers: list[int] = []

    def accepted() -> bool:
        answers.append(deliver(port, delivery, body)[0])
        return answers[-1] in (200, 202)

    until(accepted, f"the announcement is taken: {answers}")


def test_a_signed_delivery_buys_the_node_before_the_pods_come_with_the_rights_that_are_written_down(
    tmp_path: Path,
) -> None:
    port, cloud = free_port(), a_cloud("web")
    file = a_file(tmp_path, port)
    with Sandbox(tmp_path, cloud) as sandbox:
        with Replica(sandbox.kubeconfig, f"--config={file}", *PATIENT_LEADER, provider=cloud, name=NAME) as replica:
            until_accepted(port, "d-1")
            assert len(stored(sandbox)) == 1
            assert deliver(port, "d-1")[1] == {"status": "duplicate"}
            assert deliver(port, "d-2", secret=b"wrong")[0] == 401
            until(lambda: sandbox.targets() == {"web": 1}, "a node is bought")
            until(lambda: len(sandbox.nodes()) == 1, "it is there")
            assert sandbox.running() == 0
            sandbox.deploy("runner", 1)
            sandbox.until_running(1)
            until(lambda: replica.json("/api/v1/reservations")["targets"][0]["real"] == 1, "the pod uses it up")
            assert sandbox.targets() == {"web": 1}
            until_accepted(port, "d-3", BODY.replace(b'"queued"', b'"completed"').replace(b"null}", b"4}", 1))
            until(lambda: stored(sandbox) == [], "the end of the job releases it")
            assert 'webhook_requests_total{path="/webhooks/github",code="202"}' in replica.get("/metrics")[1]
            assert replica.stop() == 0
        seen = sandbox.asked(NAME)
    assert denied((*BASE, *RIGHTS), seen) == set()
    assert granted(RIGHTS) - set(map(permission, seen)) == set()


def test_without_the_section_nothing_is_asked_and_nothing_served(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    with (
        Sandbox(tmp_path, cloud) as sandbox,
        Replica(sandbox.kubeconfig, provider=cloud, name=NAME) as replica,
    ):
        sandbox.deploy("web", 1)
        sandbox.until_running(1)
        assert replica.get("/api/v1/reservations")[0] == 404
        assert 'id="reservations"' not in replica.get("/status")[1]
        assert "reservation" not in replica.get("/metrics")[1]
        assert replica.stop() == 0
        names = {one.name for one in sandbox.asked(NAME) if one.resource == "configmaps"}
    assert not any(name.startswith("capacity-reservations") for name in names)


def test_c24_c32_what_was_acknowledged_is_stored_whatever_ends_the_process(tmp_path: Path) -> None:
    port = free_port()
    file = a_file(tmp_path, port)
    with Sandbox(tmp_path) as sandbox:
        flags = (f"--config={file}", "--cloud-provider=kwok")
        with Process.daemon(tmp_path, sandbox.kubeconfig, "run", *flags, name="killed") as daemon:
            until_accepted(port, "d-1")
            daemon.send(signal.SIGKILL)
        before = [(one["id"], one["effective"]) for one in stored(sandbox)]
        assert len(before) == 1
        file = a_file(tmp_path, port, batchWindow="0s")
        with Process.daemon(tmp_path, sandbox.kubeconfig, "run", *flags, name="ended") as daemon:
            until_accepted(port, "d-2", BODY.replace(b"101", b"102"))
            daemon.send(signal.SIGTERM)
            assert daemon.end() in (0, 1), daemon.err
        after = [(one["id"], one["effective"]) for one in stored(sandbox)]
    assert after[:1] == before
    assert len(after) == 2


def test_two_replicas_take_announcements_and_one_plans(tmp_path: Path) -> None:
    ports, cloud = (free_port(), free_port()), a_cloud("web")
    with Sandbox(tmp_path, cloud) as sandbox:
        folders = [tmp_path / "a", tmp_path / "b"]
        for folder in folders:
            folder.mkdir()
        files = [a_file(folder, port) for folder, port in zip(folders, ports, strict=True)]
        with (
            Replica(sandbox.kubeconfig, f"--config={files[0]}", provider=cloud, name="first") as first,
            Replica(sandbox.kubeconfig, f"--config={files[1]}", provider=cloud, name="second") as second,
        ):
            for number, port in enumerate(ports):
                until_accepted(port, f"d-{number}", BODY.replace(b"101", b"10%d" % number))
            assert len(stored(sandbox)) == 2
            until(lambda: sandbox.targets() == {"web": 2}, "nodes for both are bought")
            assert [one.daemon.leading for one in (first, second)].count(True) == 1


def test_a_replica_on_standby_is_ready_and_what_it_takes_the_leader_plans_with(tmp_path: Path) -> None:
    ports, cloud = (free_port(), free_port()), a_cloud("web")
    with Sandbox(tmp_path, cloud) as sandbox:
        folders = [tmp_path / "a", tmp_path / "b"]
        for folder in folders:
            folder.mkdir()
        files = [a_file(folder, port) for folder, port in zip(folders, ports, strict=True)]
        leads, waits = (f"--config={file}" for file in files)
        with Replica(sandbox.kubeconfig, leads, *PATIENT_LEADER, provider=cloud, name="leader") as leader:
            until(lambda: leader.daemon.leading, "the first replica leads")
            with Replica(sandbox.kubeconfig, waits, *PATIENT_LEADER, provider=cloud, name="standby") as standby:
                until_accepted(ports[1], "d-1")
                assert standby.get("/readyz") == (200, "OK"), "or the Service would not send announcements there"
                assert len(stored(sandbox)) == 1
                until(lambda: sandbox.targets() == {"web": 1}, "the leader buys a node for it")
                assert not standby.daemon.leading
                shown = standby.get("/metrics")[1]
                assert 'webhook_requests_total{path="/webhooks/github",code="202"}' in shown
                assert "cluster_autoscaler_nodes_count" not in shown
                page = standby.get("/status")[1]
                assert "Standby: " in page
                assert "<code>runners</code>" in page
                assert 'id="reservations"' in leader.get("/status")[1]


def test_c31_without_a_secret_only_this_machine_may_be_listened_to(tmp_path: Path) -> None:
    file = a_file(tmp_path, 0, listen="0.0.0.0:0", auth={})
    with Process(tmp_path, "run", "--cloud-provider=static", f"--config={file}", name="open") as daemon:
        assert daemon.end() == 2
    assert daemon.err.startswith("config: reservations.auth: has no secret")
    (tmp_path / "secret").write_bytes(b"short\n")
    file = a_file(tmp_path, 0)
    (tmp_path / "secret").write_bytes(b"short\n")
    cloud = a_cloud("web")
    with Sandbox(tmp_path, cloud) as sandbox:
        daemon = Process.daemon(
            tmp_path, sandbox.kubeconfig, "run", "--cloud-provider=kwok", f"--config={file}", name="short"
        )
        with daemon:
            assert daemon.end() == 2
        assert "holds fewer than 16 bytes" in daemon.err
        file = a_file(tmp_path, 0, auth={"insecureAllowUnsigned": True})
        with Replica(sandbox.kubeconfig, f"--config={file}", provider=cloud, name="unsigned") as replica:
            until(lambda: replica.get("/api/v1/reservations")[0] == 200, "it starts")
            assert replica.stop() == 0
