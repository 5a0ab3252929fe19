"""A running daemon gets a new configuration."""

import signal
from pathlib import Path

from tests.e2e.replica import PATIENT_LEADER, Process, Replica, Sandbox, a_cloud, until


def test_a_file_that_changes_is_in_use_from_the_next_pass_on(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    file = tmp_path / "autoscaler.yaml"
    file.write_text("limits: {maxNodesTotal: 1}\n")
    with Sandbox(tmp_path, cloud) as sandbox:
        with Replica(sandbox.kubeconfig, f"--config={file}", *PATIENT_LEADER, provider=cloud) as replica:
            sandbox.deploy("web", 2)
            until(lambda: sandbox.running() == 1, "one pod runs, and no more may")
            file.write_text("limits: {maxNodesTotal: none}\n")
            until(lambda: "config_last_reload_successful 0" in replica.get("/metrics")[1], "a bad file is told")
            file.write_text("limits: {maxNodesTotal: 2}\nkube: {namespace: elsewhere}\n")
            sandbox.until_running(2)
            shown = replica.get("/metrics")[1]
            assert "cluster_autoscaler_config_last_reload_successful 1" in shown
            assert "cluster_autoscaler_config_restart_needed 1" in shown
            assert replica.stop() == 0
        told = {event["reason"] for event in sandbox.storage.list("events")}
    assert {"ConfigReloaded", "ConfigNotReloaded", "ConfigNeedsRestart"} <= told


def test_sighup_reads_the_configuration_anew(tmp_path: Path) -> None:
    file = tmp_path / "autoscaler.yaml"
    file.write_text("scaleDown: {scaleDownEnabled: false}\n")
    with Sandbox(tmp_path) as sandbox:
        flags = ("run", "--cloud-provider=kwok", f"--config={file}", "--scan-interval=5m", *PATIENT_LEADER)
        with Process.daemon(tmp_path, sandbox.kubeconfig, *flags) as daemon:
            until(lambda: sandbox.status_map() is not None, "the first pass is over")
            file.write_text("scaleDown: {scaleDownEnabled: true}\n")
            daemon.send(signal.SIGHUP)
            daemon.until_says("config.reloaded")
            assert "scale-down-enabled" in daemon.err
            daemon.send(signal.SIGTERM)
            assert daemon.end() == 0
