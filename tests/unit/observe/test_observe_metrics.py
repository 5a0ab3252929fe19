import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autoscaler.app.metric_document import markdown
from autoscaler.clock import Instant
from autoscaler.errors import ErrorType
from autoscaler.observe.metrics import definitions
from autoscaler.observe.metrics.devices import DeviceLabels
from autoscaler.observe.metrics.labels import (
    AskedExpander,
    Direction,
    EvictionResult,
    Function,
    LimitedResource,
    Mismatch,
    PassActivity,
    PendingKind,
    Recorded,
    Reload,
    ScaleUpFailure,
)
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.metrics.watches import WatchFigures
from autoscaler.observe.status import BackoffStatus, NodeCounts, PublishedStatus
from autoscaler.reasons import PauseScope, RemovedAs, ReplacementHold, ReplacementStage, ReplacementTrigger
from autoscaler.reservations.metrics import RESERVATIONS, ReservationMetrics
from autoscaler.scaledown.disruption_limits import DisruptionUse
from autoscaler.scaleup.buffers import BufferRoom
from autoscaler.version import version

ROOT = Path(__file__).parents[3]
GPU = DeviceLabels("nvidia.com/gpu", "a100", "")


def started(**options: bool) -> Metrics:
    metrics = Metrics(**options)
    metrics.start()
    return metrics


def series(metrics: Metrics) -> dict[str, float]:
    """Values by series, without the prefix."""
    lines = metrics.scrape().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name.removeprefix("cluster_autoscaler_"): float(value) for name, value in pairs}


def types(metrics: Metrics) -> dict[str, str]:
    lines = metrics.scrape().decode().splitlines()
    found = re.findall(r"# TYPE (\S+) (\S+)", "\n".join(lines))
    assert len(found) == len(dict(found)), "each name has one TYPE line"
    return dict(found)


def test_counters_keep_cluster_autoscalers_names_even_without_total() -> None:
    metrics = started()
    metrics.unregistered_removed(2)
    metrics.scaling_skipped(Direction.UP, LimitedResource.CPU)
    kinds, values = types(metrics), series(metrics)
    assert kinds["cluster_autoscaler_old_unregistered_nodes_removed_count"] == "counter"
    assert kinds["cluster_autoscaler_skipped_scale_events_count"] == "counter"
    assert values["old_unregistered_nodes_removed_count"] == 2
    assert values['skipped_scale_events_count{direction="up",reason="CpuResourceLimit"}'] == 1
    assert values['skipped_scale_events_count{direction="down",reason="MemoryResourceLimit"}'] == 0
    assert not [name for name in values if "_count_total" in name or "_created" in name]


def test_every_failure_kind_starts_at_zero() -> None:
    values = series(started())
    for error in ErrorType:
        assert values[f'errors_total{{type="{error}"}}'] == 0
    no_devices = 'gpu_resource_name="",gpu_name="",dra_drivers=""'
    for failure in ScaleUpFailure:
        assert values[f'failed_scale_ups_total{{reason="{failure}",{no_devices}}}'] == 0
    assert values['evicted_pods_total{eviction_result="failed"}'] == 0


def test_a_standby_replica_shows_only_itself() -> None:
    metrics = Metrics()
    metrics.leading("cluster-autoscaler", False)
    names = set(types(metrics))
    assert "process_cpu_seconds_total" in names
    assert "leader_election_master_status" in names
    assert f'node_autoscaler_build_info{{version="{version()}"}} 1.0' in metrics.scrape().decode()
    assert not [name for name in names if name.startswith("cluster_autoscaler_")]
    metrics.start()
    assert "cluster_autoscaler_cluster_safe_to_autoscale" in types(metrics)


def move_cluster_and_passes(metrics: Metrics) -> None:
    metrics.step_began(PassActivity.MAIN, Instant(1000.9, 5.0))
    metrics.observe_duration(Function.MAIN, 0.2)
    metrics.pass_failed(ErrorType.API_CALL)
    metrics.leading("cluster-autoscaler", True)
    metrics.cluster(
        True, NodeCounts(ready=3, unready=1, not_started=2, suspended=4, long_unregistered=5, unregistered=6)
    )
    metrics.size(12_900, 64)
    metrics.limits((0, 320_000), (0, 6_400))
    metrics.pending_pods(PendingKind.UNSCHEDULABLE, 7)
    metrics.longest_pending(90.0)
    metrics.scale_down_failed("EvictionFailed")
    metrics.taints({"other": 2})
    metrics.node_groups(3, 1, 40)
    metrics.scaled_up(4, GPU)
    metrics.scale_up_failed("QUOTA_EXCEEDED", 5, GPU)
    metrics.binpacking("m5.xlarge", "4", 2, 3)
    metrics.skipped_pods(0)
    metrics.device_mismatches({"gpu.nvidia.com": {Mismatch.EXTRA: 2}})


def move_removals_and_process(metrics: Metrics) -> None:
    metrics.unneeded(8)
    metrics.scale_down_cooldown(True)
    metrics.pending_deletions(2)
    metrics.scaled_down(1, RemovedAs.EMPTY, GPU)
    metrics.evicted(9, EvictionResult.SUCCEEDED)
    metrics.events_dropped(3)
    metrics.companion_failed("headroom")
    metrics.expander_asked(AskedExpander.UNUSABLE)
    metrics.pauses([PauseScope.DISRUPTION, PauseScope.DISRUPTION])
    metrics.replacements({ReplacementTrigger.EXPIRED: 2}, 5)
    metrics.replacements_waiting({ReplacementHold.GRACE_OVER: 2})
    metrics.replacement_ended(ReplacementTrigger.CHEAPER, ReplacementStage.DONE, 0.5)
    metrics.disruption_budgets([DisruptionUse("10%", 1, 3, True)])
    metrics.recorded(Recorded.WRITTEN, 700)
    metrics.removal_waited(2.0, "none", deleted=True)
    metrics.nodes_skipped(30.0)
    metrics.decided(PassActivity.SCALE_UP, "NoOptionsAvailable")
    metrics.waiting({"TooYoung": 3})
    metrics.skipped_groups({"InBackoff": 2})
    metrics.phase_took("snapshot", 0.25)
    metrics.calls_retried({("GET", "sent"): 2})
    metrics.calls_retried({("GET", "sent"): 3})
    metrics.watches({"/api/v1/pods": WatchFigures(relists=1, restarts=1, failures=4, decode_s=1.0)})
    metrics.watches(
        {"/api/v1/pods": WatchFigures(relists=1, restarts=2, failures=4, decode_s=1.5, undecoded=3, silent_s=7.0)}
    )
    metrics.reload_ended(Reload.REFUSED, waiting=3)


def test_each_method_moves_its_series(status_of: Callable[..., PublishedStatus]) -> None:
    metrics = started(per_node_group=True, removal_latency=True, skipped_nodes=True)
    move_cluster_and_passes(metrics)
    move_removals_and_process(metrics)
    values = series(metrics)
    devices = 'gpu_resource_name="nvidia.com/gpu",gpu_name="a100"'
    expected = {
        'last_activity{activity="main"}': 1000,
        'undecoded_objects{path="/api/v1/pods"}': 3,
        'function_duration_seconds_count{function="main"}': 1,
        'function_duration_quantile_seconds_sum{function="main"}': 0.2,
        'errors_total{type="apiCallError"}': 1,
        'leader_election_master_status{name="cluster-autoscaler"}': 1,
        "cluster_safe_to_autoscale": 1,
        'nodes_count{state="notStarted"}': 2,
        'nodes_count{state="suspended"}': 4,
        'nodes_count{state="longUnregistered"}': 5,
        "cluster_cpu_current_cores": 12,
        "cluster_memory_current_bytes": 64,
        'cpu_limits_cores{direction="maximum"}': 320_000,
        'memory_limits_bytes{direction="minimum"}': 0,
        'unschedulable_pods_count{type="unschedulable"}': 7,
        'node_taints_count{type="other"}': 2,
        'node_groups_count{node_group_type="autoprovisioned"}': 1,
        "max_nodes_count": 40,
        f'scaled_up_nodes_total{{{devices},dra_drivers=""}}': 4,
        f"scaled_up_gpu_nodes_total{{{devices}}}": 4,
        f'failed_scale_ups_total{{reason="QUOTA_EXCEEDED",{devices},dra_drivers=""}}': 1,
        f'failed_gpu_scale_ups_total{{reason="QUOTA_EXCEEDED",{devices}}}': 1,
        'failed_node_creations_total{reason="QUOTA_EXCEEDED"}': 5,
        'binpacking_heterogeneity_bucket{instance_type="m5.xlarge",cpu_count="4",namespace_count="2",le="4.0"}': 1,
        'dra_node_template_resources_mismatch{driver="gpu.nvidia.com",mismatch_type="extra"}': 2,
        'dra_node_template_resources_mismatch{driver="gpu.nvidia.com",mismatch_type="missing"}': 0,
        "unneeded_nodes_count": 8,
        "scale_down_in_cooldown": 1,
        "pending_node_deletions": 2,
        f'scaled_down_nodes_total{{reason="empty",{devices},dra_drivers=""}}': 1,
        f'scaled_down_gpu_nodes_total{{reason="empty",{devices}}}': 1,
        'evicted_pods_total{eviction_result="succeeded"}': 9,
        'failed_scale_downs_total{reason="EvictionFailed"}': 1,
        "longest_pending_seconds": 90,
        "events_dropped_total": 3,
        'companion_errors_total{companion="headroom"}': 1,
        'grpc_expander_calls_total{result="unusable"}': 1,
        'pauses{scope="disruption"}': 2,
        'pauses{scope="all"}': 0,
        'replacements_in_progress{trigger="NodeExpired"}': 2,
        'replacements_in_progress{trigger="CheaperNodes"}': 0,
        'replacements_waiting{reason="DrainGraceOver"}': 2,
        'replacements_waiting{reason="NodeKept"}': 0,
        'disruption_budget_nodes{budget="10%",kind="used"}': 1,
        'disruption_budget_nodes{budget="10%",kind="limit"}': 3,
        'replacements_total{trigger="CheaperNodes",outcome="Done"}': 1,
        "replacement_savings_total": 0.5,
        'recordings_total{result="written"}': 1,
        "recorded_bytes_total": 700,
        'decisions_total{step="scaleUp",result="NoOptionsAvailable"}': 1,
        'node_removal_latency_seconds_bucket{deleted="true",delay_reason="none",le="2.25"}': 1,
        "max_node_skip_eval_duration_seconds": 30,
        'waiting_pods_count{reason="TooYoung"}': 3,
        'skipped_node_groups_count{reason="InBackoff"}': 2,
        'pass_phase_duration_seconds_sum{phase="snapshot"}': 0.25,
        'watch_restarts_total{path="/api/v1/pods"}': 2,
        'watch_relists_total{path="/api/v1/pods"}': 1,
        'watch_failures_total{path="/api/v1/pods"}': 4,
        'watch_decode_seconds_total{path="/api/v1/pods"}': 1.5,
        'watch_silence_seconds{path="/api/v1/pods"}': 7,
        'api_retries_total{verb="GET",result="sent"}': 3,
        'config_reloads_total{result="refused"}': 1,
        "config_last_reload_successful": 0,
        "config_restart_needed": 3,
    }
    assert {name: values.get(name) for name in expected} == expected
    metrics.unremovable({"BlockedByPod": 1})
    metrics.buffers(7.5, BufferRoom(1, 2))
    metrics.each_node_group(status_of(10).groups)
    missing = {one.full_name for one in definitions.TABLE} - types(metrics).keys()
    assert missing == set(), "every metric of the table can be filled"


def test_types_are_those_of_the_table(status_of: Callable[..., PublishedStatus]) -> None:
    shown = types(started(per_node_group=True))
    table = {one.full_name: str(one.kind) for one in definitions.TABLE}
    ours = {name: kind for name, kind in shown.items() if name in table}
    assert ours
    assert ours == {name: table[name] for name in ours}


@pytest.mark.parametrize(
    ("wide", "buckets", "last"),
    [
        pytest.param(True, 150, "1800.0", id="150 up to half an hour"),
        pytest.param(False, 30, "1278.34", id="30 as before"),
    ],
)
def test_duration_buckets(wide: bool, buckets: int, last: str) -> None:
    metrics = started(wide_duration_buckets=wide)
    metrics.observe_duration(Function.SCALE_UP, 1)
    bounds = re.findall(r'duration_seconds_bucket\{function="scaleUp",le="([^"]+)"\}', metrics.scrape().decode())
    assert len(bounds) == buckets + 1
    assert bounds[-2].startswith(last)
    assert bounds[-1] == "+Inf"


def test_reasons_that_vanished_drop_to_zero() -> None:
    metrics = started()
    metrics.unremovable({"BlockedByPod": 3})
    metrics.unremovable({"NotUnderutilized": 2})
    values = series(metrics)
    assert values['unremovable_nodes_count{reason="BlockedByPod"}'] == 0
    assert values['unremovable_nodes_count{reason="NotUnderutilized"}'] == 2


def test_node_groups_come_and_go(status_of: Callable[..., PublishedStatus]) -> None:
    metrics = started(per_node_group=True)
    web, gpu, batch = status_of(10).groups
    metrics.each_node_group([web, gpu, batch])
    values = series(metrics)
    assert values['node_group_target_count{node_group="web-general"}'] == 8
    assert values['node_group_healthiness{node_group="web-general"}'] == 1
    assert values['node_group_backoff_status{node_group="web-general",reason=""}'] == 0
    assert values['node_group_backoff_status{node_group="gpu-a100",reason="OUT_OF_RESOURCES"}'] == 1
    nameless = msgspec.structs.replace(gpu, backoff=BackoffStatus(1.0, ""))
    metrics.each_node_group([nameless])
    left = {name for name in series(metrics) if name.startswith("node_group_")}
    assert 'node_group_backoff_status{node_group="gpu-a100",reason="unknown"}' in left
    assert not [name for name in left if "web-general" in name or "OUT_OF" in name]


def test_node_groups_are_silent_unless_asked_for(status_of: Callable[..., PublishedStatus]) -> None:
    metrics = started()
    metrics.each_node_group(status_of(10).groups)
    assert not [name for name in series(metrics) if name.startswith("node_group_")]


def test_label_values_are_escaped() -> None:
    metrics = started()
    metrics.companion_failed('no "a\\b"\nleft')
    assert r'{companion="no \"a\\b\"\nleft"} 1.0' in metrics.scrape().decode()


def test_counters_never_shrink() -> None:
    with pytest.raises(ValueError, match="-1"):
        started().unregistered_removed(-1)


def test_the_document_is_fresh() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    assert text == markdown(), "run: make docs"


def test_a_standby_replica_shows_what_it_takes_in_but_not_what_the_leader_plans() -> None:
    metrics = Metrics()
    counted = ReservationMetrics(metrics.companion(RESERVATIONS))
    counted.not_signed()
    counted.backlog("gpu", 4)
    counted.unreadable("gpu", True)
    text = metrics.scrape().decode()
    assert "cluster_autoscaler_webhook_signature_failures_total 1.0" in text
    assert 'cluster_autoscaler_reservation_backlog{target="gpu"} 4.0' in text
    assert "reservation_state_unreadable" not in text, "a standby replica does not look whether it was repaired"
    metrics.start()
    assert 'cluster_autoscaler_reservation_state_unreadable{target="gpu"} 1.0' in metrics.scrape().decode()
