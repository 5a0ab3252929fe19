"""What a daemon at work publishes, against the list of Cluster Autoscaler's metrics."""

import re
from collections.abc import Callable
from pathlib import Path

from tests.e2e.replica import PATIENT_LEADER, Replica, Sandbox, a_cloud, until
from tests.their_metrics import THEIRS, family_of, wrong_values

ONLY_WHERE_IT_HAPPENS = {
    "node_removal_latency_seconds",
    "dra_node_template_resources_mismatch",
    "failed_gpu_scale_ups_total",
    "scaled_up_gpu_nodes_total",
    "scaled_down_gpu_nodes_total",
    "node_taints_count",
}
"""Without a series until something of the kind has come about, there as here."""

EXTRAS = (
    "--capacity-buffer-controller-enabled",
    "--emit-per-nodegroup-metrics",
    "--max-node-skip-eval-time-tracker-enabled",
    "--node-removal-latency-tracking-enabled",
)
"""Flags that bring metrics with them."""

OURS = {
    "pass_phase_duration_seconds": ("summary", {"phase"}),
    "decisions_total": ("counter", {"step", "result"}),
    "waiting_pods_count": ("gauge", {"reason"}),
    "watch_restarts_total": ("counter", {"path"}),
    "watch_relists_total": ("counter", {"path"}),
    "watch_failures_total": ("counter", {"path"}),
    "watch_decode_seconds_total": ("counter", {"path"}),
    "watch_silence_seconds": ("gauge", {"path"}),
    "config_last_reload_successful": ("gauge", set()),
    "config_reloads_total": ("counter", {"result"}),
    "config_restart_needed": ("gauge", set()),
}

Kinds = dict[str, tuple[str, set[str]]]


def scraped(text: str) -> Kinds:
    """Return type and labels of each family, by name without the prefix."""
    found: Kinds = {}
    for line in text.splitlines():
        if line.startswith("# TYPE cluster_autoscaler_"):
            name, kind = line.removeprefix("# TYPE cluster_autoscaler_").split()
            found[name] = (kind, set())
        elif line.startswith("cluster_autoscaler_"):
            family = re.match(r"cluster_autoscaler_(\w+)", line)
            assert family is not None
            name = next((n for n in (family[1], re.sub(r"_(bucket|sum|count)$", "", family[1])) if n in found), "")
            found[name][1].update(re.findall(r'[{,](\w+)="', line))
    return found


def series(read: Callable[[], str], name: str) -> float | None:
    """Return the value of one series; None where it is not there."""
    return next((float(line.split()[-1]) for line in read().splitlines() if line.startswith(f"{name} ")), None)


def test_names_types_and_labels_are_those_of_cluster_autoscaler(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    with (
        Sandbox(tmp_path, cloud) as sandbox,
        Replica(sandbox.kubeconfig, *EXTRAS, *PATIENT_LEADER, provider=cloud) as replica,
    ):

        def read() -> str:
            return replica.get("/metrics")[1]

        sandbox.deploy("web", 2)
        sandbox.deploy("huge", 1, cpu="64")
        until(lambda: sandbox.running() == 2, "the pods that fit run")
        up = 'cluster_autoscaler_scaled_up_nodes_total{gpu_resource_name="",gpu_name="",dra_drivers=""}'
        until(lambda: series(read, up) == 2, "the nodes are counted")
        until(lambda: "cluster_autoscaler_unremovable_nodes_count{" in read(), "scale-down has looked")
        until(lambda: 'decisions_total{step="scaleUp",result="NoOptionsAvailable"}' in read(), "one pod is stuck")
        text = read()
        found = scraped(text)
        lines = [line.removeprefix("cluster_autoscaler_") for line in text.splitlines() if not line.startswith("#")]
        names = [line.rpartition(" ")[0] for line in lines]
        lists = 'cluster_autoscaler_watch_relists_total{path="/api/v1/pods"}'
        assert (series(read, lists) or 0) >= 1
        assert replica.stop() == 0
        strange = {name: wrong_values(name) for name in names if family_of(name) in THEIRS and wrong_values(name)}
    assert strange == {}
    distribution = {"histogram": {"le"}}
    theirs = {name: (one.kind, {*one.labels, *distribution.get(one.kind, ())}) for name, one in THEIRS.items()}
    wanted = {**theirs, **OURS}
    assert {name: found[name] for name in wanted if name in found} == {
        name: what for name, what in wanted.items() if name in found
    }
    assert wanted.keys() - found.keys() <= ONLY_WHERE_IT_HAPPENS
