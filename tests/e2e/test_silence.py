"""A daemon without election, whose API server hangs with all connections open: only silence shows the problem."""

import signal
from pathlib import Path

from benchmarks.daemon import serving
from tests.e2e.replica import Process, free_port, get, get_json, until

_SILENCE = "cluster_autoscaler_watch_silence_seconds{"
LIMIT_S = 3.0
FLAGS = (
    "run",
    "--cloud-provider=kwok",
    "--leader-elect=false",
    "--write-status-configmap=false",
    f"--max-watch-silence={LIMIT_S:g}s",
)


def silences(port: int) -> list[float]:
    """Return for how long each kind has been silent, by the metrics."""
    lines = get(port, "/metrics")[1].splitlines()
    return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(_SILENCE)]


def test_page_probe_and_metrics_tell_of_an_api_server_that_stands_still(tmp_path: Path) -> None:
    port = free_port()
    with (
        serving(tmp_path, nodes=3, per_node=2) as (server, kubeconfig),
        Process.daemon(tmp_path, kubeconfig, *FLAGS, f"--address=127.0.0.1:{port}") as daemon,
    ):
        until(lambda: '"lastPass":{' in get(port, "/api/v1/status")[1], "a pass has ended")
        until(lambda: get(port, "/readyz")[0] == 200, "it is ready")
        assert "What follows may be out of date" not in get(port, "/status")[1]
        server.send_signal(signal.SIGSTOP)
        until(lambda: get(port, "/readyz")[0] >= 500, "the readiness probe fails")
        assert "the API server has said nothing about" in get(port, "/readyz")[1]
        assert "What follows may be out of date" in get(port, "/status")[1]
        until(lambda: min(silences(port), default=0.0) > LIMIT_S, "every kind is silent for longer than the limit")
        assert get(port, "/health-check")[0] == 200
        assert min(kind["silentSeconds"] for kind in kinds(port)) > LIMIT_S
        assert daemon.alive
        server.send_signal(signal.SIGCONT)
        until(lambda: get(port, "/readyz")[0] == 200, "it is ready again")
        assert "What follows may be out of date" not in get(port, "/status")[1]


def kinds(port: int) -> list[dict[str, float]]:
    """Return what the API says of each kind."""
    return list(get_json(port, "/api/v1/status")["apiServer"]["kinds"])
