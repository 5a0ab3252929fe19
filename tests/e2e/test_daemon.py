"""`autoscaler run` against a cluster that is there, is not there yet, or must not be touched."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.replica import (
    READING,
    Process,
    Replica,
    Sandbox,
    a_cloud,
    free_port,
    get,
    until,
)

LIMITS = ("--max-inactivity=2s", "--max-failing-time=2s", "--max-startup-time=2s")


@pytest.fixture
def kwok(tmp_path: Path) -> Iterator[Sandbox]:
    with Sandbox(tmp_path) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("words", "number"),
    [
        pytest.param(["run", "--cloud-provider=kwok"], signal.SIGTERM, id="run, SIGTERM"),
        pytest.param(["--cloud-provider=kwok"], signal.SIGINT, id="flags alone, SIGINT"),
        pytest.param(["--cloud-provider=kwok", "--leader-elect=false"], signal.SIGQUIT, id="no election, SIGQUIT"),
    ],
)
def test_pending_pods_get_nodes_and_a_signal_cleans_up(
    kwok: Sandbox, tmp_path: Path, words: list[str], number: signal.Signals
) -> None:
    elects = "--leader-elect=false" not in words
    kwok.deploy("web", 3)
    with Process.daemon(tmp_path, kwok.kubeconfig, *words) as daemon:
        kwok.until_running(3)
        assert len(kwok.nodes()) == 3
        assert {node["metadata"]["annotations"]["kwok.x-k8s.io/node"] for node in kwok.storage.list("nodes")} == {
            "fake"
        }
        until(kwok.status_map, "the status ConfigMap is written")
        assert bool(kwok.holder()) is elects
        events = kwok.storage.list("events")
        status_map = kwok.status_map() or {}
        about_status = [one["involvedObject"] for one in events if one["involvedObject"]["kind"] == "ConfigMap"]
        assert {one.get("uid") for one in about_status} == {status_map["metadata"]["uid"]}
        assert {one["reason"] for one in events if one["involvedObject"]["kind"] == "Pod"} >= {"TriggeredScaleUp"}
        leader = kwok.holder()
        daemon.send(number)
        assert daemon.end() == 0, daemon.err
        on_lease = [one for one in kwok.storage.list("events") if one["involvedObject"]["kind"] == "Lease"]
        # That it stopped is told too, unless it led for so short that Cluster Autoscaler's rate limit holds it back.
        assert [one["message"] for one in on_lease][:1] == [f"{leader} became leader"] * elects
        assert {one["reason"] for one in on_lease} <= {"LeaderElection"}
    assert kwok.nodes() == []
    assert kwok.status_map() is None
    assert kwok.holder() == ""
    assert len(kwok.storage.list("leases")) == elects
    assert "Traceback" not in daemon.err
    assert daemon.out == ""


def test_the_api_explains_what_a_replay_of_the_pass_explains(kwok: Sandbox, tmp_path: Path) -> None:
    port, recording = free_port(), tmp_path / "recording.json"
    flags = ("run", "--cloud-provider=kwok", "--serve-recordings", f"--address=127.0.0.1:{port}")
    kwok.deploy("giant", 1, cpu="1000")
    answer: dict[str, Any] = {}
    (pod,) = (f"default/{found['metadata']['name']}" for found in kwok.storage.list("pods"))

    def explained() -> dict[str, Any]:
        status, body = get(port, f"/api/v1/explain?pod={pod}")
        return dict(json.loads(body)) if status == 200 else {}

    def is_hopeless() -> bool:
        return (explained().get("pod") or {}).get("verdict") == "NoGroupFits"

    def same_pass() -> bool:
        """Whether the recording is of the pass that is explained."""
        before, (_, body), after = explained(), get(port, "/api/v1/recordings/latest"), explained()
        recording.write_text(body)
        answer.update(after)
        return before == after

    with Process.daemon(tmp_path, kwok.kubeconfig, *flags) as daemon:
        until(is_hopeless, "a pass finds that no group fits")
        until(same_pass, "a pass is recorded and explained")
    assert answer["notExplained"] is None
    assert "CPU request from" in answer["explanation"]["remedy"]["text"]
    words = ("plan", "--scenario", str(recording), "--explain", f"pod/{pod}", "-o", "json")
    with Process(tmp_path, *words, name="plan") as plan:
        assert plan.end() == 0, plan.err
    assert json.loads(plan.out)["explained"] == [answer["explanation"]]
    assert "Traceback" not in daemon.err


def test_a_clean_up_that_the_server_does_not_allow_is_said_and_no_crash(kwok: Sandbox, tmp_path: Path) -> None:
    kwok.deploy("web", 1)
    with Process.daemon(tmp_path, kwok.kubeconfig, "run", "--cloud-provider=kwok") as daemon:
        kwok.until_running(1)
        kwok.server.faults.down()
        daemon.send(signal.SIGTERM)
        assert daemon.end() == 0
    assert "provider.not_cleaned_up" in daemon.err
    assert "Traceback" not in daemon.err


@pytest.mark.parametrize("elects", ["true", "false"], ids=["with election", "without"])
def test_a_server_that_is_not_there_yet_is_waited_for(tmp_path: Path, elects: str) -> None:
    api_port, web_port = free_port(), free_port()
    with Sandbox(tmp_path, port=api_port) as never:
        kubeconfig = never.kubeconfig
        kubeconfig.rename(kubeconfig := tmp_path / "early")
    flags = ["run", "--cloud-provider=kwok", f"--leader-elect={elects}", *LIMITS, f"--address=127.0.0.1:{web_port}"]
    with Process.daemon(tmp_path, kubeconfig, *flags) as daemon:
        until(lambda: get(web_port, "/health-check")[0], "it serves HTTP")
        assert get(web_port, "/health-check") == (200, "OK")
        until(lambda: get(web_port, "/health-check")[0] == 500, "the health check fails")
        assert "last success more than" in get(web_port, "/health-check")[1]
        assert get(web_port, "/readyz")[0] == 500
        daemon.until_says(f"API server http://127.0.0.1:{api_port} is unreachable")
        daemon.until_says("trying again")
        assert daemon.alive
        with Sandbox(tmp_path, port=api_port) as sandbox:
            sandbox.deploy("web", 1)
            sandbox.until_running(1)
            until(lambda: get(web_port, "/readyz")[0] == 200, "it is ready")
            assert get(web_port, "/health-check") == (200, "OK")
            daemon.send(signal.SIGTERM)
            assert daemon.end() == 0
    assert "Traceback" not in daemon.err


def test_a_signal_ends_the_wait_for_a_server(tmp_path: Path) -> None:
    with Sandbox(tmp_path) as gone:
        pass
    with Process.daemon(tmp_path, gone.kubeconfig, "run", "--cloud-provider=kwok") as daemon:
        daemon.until_says("kube.unreachable")
        daemon.send(signal.SIGTERM)
        assert daemon.end() == 0
    assert "Traceback" not in daemon.err


class TestDryRun:
    def test_decides_and_changes_nothing(self, tmp_path: Path) -> None:
        cloud = a_cloud("web")
        with Sandbox(tmp_path, cloud) as sandbox:
            sandbox.deploy("web", 3)
            with Replica(sandbox.kubeconfig, "--dry-run", provider=cloud, name="rehearsal") as replica:
                until(lambda: '"web"' in replica.get("/api/v1/plans")[1], "a plan is shown")
                plans = replica.json("/api/v1/plans")
                assert replica.get("/status")[0] == 200
                assert replica.stop() == 0
            assert {(one["kind"], one["group"], one["delta"]) for one in plans["items"]} == {("scaleUp", "web", 3)}
            assert sandbox.targets() == {"web": 0}
            assert {one.verb for one in sandbox.asked("rehearsal")} <= READING
            assert sandbox.status_map() is None
            assert sandbox.lease() == {}

    def test_says_so_and_keeps_the_provider_from_writing_too(self, tmp_path: Path) -> None:
        with Sandbox(tmp_path, kwok_min=1) as sandbox:
            sandbox.deploy("web", 3)
            flags = ("run", "--dry-run", "--cloud-provider=kwok")
            with Process.daemon(tmp_path, sandbox.kubeconfig, *flags, name="rehearsal") as daemon:
                daemon.until_says("scale_up.decided")
                daemon.send(signal.SIGTERM)
                assert daemon.end() == 0
            assert sandbox.nodes() == []
            assert {one.verb for one in sandbox.asked("rehearsal")} <= READING


def test_an_earlier_run_s_nodes_are_counted_and_not_bought_again(kwok: Sandbox) -> None:
    kwok.deploy("web", 2)
    flags = ("--cloud-provider=kwok", "--leader-elect=false")
    with Replica(kwok.kubeconfig, *flags, name="first") as first:
        kwok.until_running(2)
        before = kwok.nodes()
        kwok.server.faults.down()
        first.stop()
    kwok.server.faults.up()
    with Replica(kwok.kubeconfig, *flags, name="second") as second:
        kwok.deploy("more", 1)
        kwok.until_running(3)
        assert len(kwok.nodes()) == 3
        assert set(before) < set(kwok.nodes())
        assert second.stop() == 0


def test_the_namespace_of_lease_and_status_can_be_chosen(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    flags = ("--namespace=ops", "--leader-elect-resource-name=mine", "--status-config-map-name=my-status")
    with Sandbox(tmp_path, cloud) as sandbox:
        sandbox.storage.create("namespaces", {"metadata": {"name": "ops"}})
        with Replica(sandbox.kubeconfig, *flags, provider=cloud):
            until(sandbox.status_map, "the status ConfigMap is written")
            found = sandbox.status_map()
            assert found is not None
            assert (found["metadata"]["namespace"], found["metadata"]["name"]) == ("ops", "my-status")
            leases = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in sandbox.storage.list("leases")]
            assert [lease for lease in leases if lease[0] != "kube-node-lease"] == [("ops", "mine")]
