"""Metrics of real passes, and which devices they are labelled with."""

import pytest
from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ResourceLimits, TemplateOptions
from autoscaler.config.syntax import Range
from autoscaler.config.tree import Config
from autoscaler.objects.node import TO_BE_DELETED
from autoscaler.objects.pod import Pod
from autoscaler.observe.metrics.devices import NO_DEVICES, DeviceLabels, devices_of
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.metrics.pass_metrics import PassMetrics
from autoscaler.observe.report import PassReport, ScaleDownReport
from autoscaler.observe.status import ProcessStatus, PublishedStatus
from autoscaler.observe.summary import summarise
from autoscaler.ports import ExpanderAnswer
from autoscaler.reasons import RemovedAs, ScaleDownResult, UnremovableNode, UnremovableReason
from autoscaler.scaledown.plan import Removal
from autoscaler.snapshot.groups import Groups
from cloudprovider.interface import ErrorClass, InstanceError, NodeTemplate, OutOfCapacity, ProviderError
from cloudprovider.static.spec import GPU_LABEL, Call, GroupSpec
from tests.builders import Labels, a_group, a_node, a_pod, replicas
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

NVIDIA = "gpu.nvidia.com"
BEFORE = PublishedStatus(process=ProcessStatus(identity="a", version="1", started_at=0))


class Gauges:
    def __init__(self, config: Config = Config()) -> None:  # noqa: B008
        self.metrics = Metrics(per_node_group=True)
        self.pass_metrics = PassMetrics(self.metrics, config)
        self.pass_metrics.start()

    def take(self, report: PassReport) -> dict[str, float]:
        status = summarise(report, BEFORE, number=1)
        self.pass_metrics.pass_ended(report, status.groups)
        return self.series()

    def series(self) -> dict[str, float]:
        found = {}
        for line in self.metrics.scrape().decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                bare, _, labels = name.removeprefix("cluster_autoscaler_").partition("{")
                key = ",".join(sorted(labels.removesuffix("}").split(","))) if labels else ""
                found[f"{bare}{{{key}}}" if key else bare] = float(value)
        return found


def of(name: str, **labels: str) -> str:
    pairs = sorted(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{','.join(pairs)}}}"


def plain(name: str, **labels: str) -> str:
    return of(name, gpu_name="", gpu_resource_name="", dra_drivers="", **labels)


def test_the_cluster() -> None:
    world = LoopWorld(
        a_spec("web", cpu="1", max_size=7),
        a_spec("other", max_size=3),
        nodes=[(a_node("n1", cpu="3500m"), "web"), (a_node("n2", ready=False), "web")],
    )
    series = Gauges().take(world.run())
    assert series["cluster_safe_to_autoscale"] == 1
    assert (series[of("nodes_count", state="ready")], series[of("nodes_count", state="unready")]) == (1, 1)
    assert series["cluster_cpu_current_cores"] == 8
    assert series["cluster_memory_current_bytes"] == 32 * 1024**3
    assert series["max_nodes_count"] == 10
    assert series[of("node_groups_count", node_group_type="autoscaled")] == 2
    assert series[of("node_group_max_count", node_group="web")] == 7


def test_the_largest_size_is_capped_by_the_limit_of_all_nodes() -> None:
    world = LoopWorld(a_spec("web", max_size=7))
    assert Gauges(Config(limits=ResourceLimits(max_nodes_total=5))).take(world.run())["max_nodes_count"] == 5


@pytest.mark.parametrize(
    ("marked_s_ago", "cores"),
    [
        pytest.param(60, 0, id="a node being deleted does not count"),
        pytest.param(301, 4, id="one that is stuck in deletion does"),
    ],
)
def test_size(marked_s_ago: int, cores: int) -> None:
    node = a_node("n1", taints=[f"{TO_BE_DELETED}={int(NOW) - marked_s_ago}:NoSchedule"])
    world = LoopWorld(a_spec("web"), nodes=[(node, "web")])
    world.run()
    world.cluster.put_node(node)
    assert Gauges().take(world.run())["cluster_cpu_current_cores"] == cores


def test_taints_are_counted_again_when_nodes_change() -> None:
    config = Config(templates=TemplateOptions(startup_taint=("booting",)))
    world = LoopWorld(a_spec("web"), config=config, nodes=[(a_node("n1", taints=["booting", "team=a"]), "web")])
    gauges = Gauges(config)
    series = gauges.take(world.run())
    assert (series[of("node_taints_count", type="startup-taint")], series[of("node_taints_count", type="other")]) == (
        1,
        1,
    )
    world.cluster.put_node(a_node("n1", taints=["team=a"]))
    assert of("node_taints_count", type="startup-taint") not in gauges.take(world.run(after_s=15))


def test_pending_pods_by_what_the_scheduler_said() -> None:
    config = Config()
    config = replace(config, pods=replace(config.pods, bypassed_scheduler_names=("fast",)))
    world = LoopWorld(a_spec("web", max_size=0), config=config)
    world.submit(waiting("a"), a_pod("b", scheduler="fast", created=NOW - 60), waiting("c", unschedulable=False))
    series = Gauges(config).take(world.run())
    assert series[of("unschedulable_pods_count", type="unschedulable")] == 1
    assert series[of("unschedulable_pods_count", type="scheduler_unprocessed")] == 1


def test_nodes_that_were_asked_for() -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(*replicas(waiting("web"), 3))
    series = Gauges().take(world.run())
    assert series[plain("scaled_up_nodes_total")] == 3
    assert series[of("last_activity", activity="scaleUp")] == NOW
    assert series[plain("failed_scale_ups_total", reason="cloudProviderError")] == 0


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(OutOfCapacity("none left"), "OUT_OF_RESOURCES", id="the provider's code"),
        pytest.param(ProviderError("odd"), "cloudProviderError", id="none of its own"),
        pytest.param(ProviderError("odd", code=""), "cloudProviderError", id="an empty one"),
    ],
)
def test_scale_ups_that_failed(error: ProviderError, reason: str) -> None:
    world = LoopWorld(a_spec("web"))
    world.static.fail_next("web", error)
    world.submit(waiting("web"))
    series = Gauges().take(world.run())
    assert series[plain("failed_scale_ups_total", reason=reason)] == 1
    assert series[plain("scaled_up_nodes_total")] == 0


def test_machines_that_were_not_created() -> None:
    world = LoopWorld(a_spec("web", boot_s=60))
    world.static.fail_next("web", InstanceError(ErrorClass.OUT_OF_RESOURCES, "OUT_OF_RESOURCES", "no more"))
    world.submit(*replicas(waiting("web"), 2))
    world.run()
    series = Gauges().take(world.run(after_s=15))
    assert series[of("failed_node_creations_total", reason="OUT_OF_RESOURCES")] == 1
    assert series[plain("failed_scale_ups_total", reason="OUT_OF_RESOURCES")] == 1


def test_a_scale_up_that_timed_out() -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(waiting("web"))
    world.run()
    assert Gauges().take(world.run(after_s=901))[plain("failed_scale_ups_total", reason="timeout")] == 1


def test_machines_that_never_became_nodes() -> None:
    world = LoopWorld(a_spec("web", boot_s=0), a_spec("stuck", boot_s=0))
    world.static.group("web").increase(2)
    world.static.group("stuck").increase(1)
    world.run()
    world.static.fail_next("stuck", ProviderError("not now"), Call.DELETE)
    assert Gauges().take(world.run(after_s=901))["old_unregistered_nodes_removed_count"] == 2


@pytest.mark.parametrize("names_quota", [pytest.param(True, id="newest"), pytest.param(False, id="as 1.31")])
def test_groups_skipped_for_a_limit(names_quota: bool) -> None:
    config = Config(limits=ResourceLimits(cores_total=Range(0, 4)), rules=Rules(limit_reason_names_quota=names_quota))
    world = LoopWorld(a_spec("a", cpu="8"), a_spec("b", cpu="16"), a_spec("c", cpu="2"), config=config)
    world.submit(waiting("web"))
    series = Gauges(config).take(world.run())
    assert series[of("skipped_scale_events_count", direction="up", reason="CpuResourceLimit")] == 2
    assert series[of("skipped_scale_events_count", direction="up", reason="MemoryResourceLimit")] == 0


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (ExpanderAnswer(asked=("web",), named=("web", "mars")), "answered"),
        (ExpanderAnswer(asked=("web",)), "answered"),
        (ExpanderAnswer(asked=("web",), named=("mars",)), "unusable"),
        (ExpanderAnswer(asked=("web",), error="UNAVAILABLE"), "failed"),
    ],
)
def test_answers_of_the_grpc_expander(answer: ExpanderAnswer, result: str) -> None:
    world = LoopWorld(a_spec("web"))
    world.submit(waiting("p1"))
    report = world.run()
    assert report.scale_up.plan is not None
    plan = replace(report.scale_up.plan, answers=(answer,))
    found = Gauges().take(replace(report, scale_up=replace(report.scale_up, plan=plan)))
    assert {name: value for name, value in found.items() if name.startswith("grpc_expander_calls_total")} == {
        of("grpc_expander_calls_total", result=result): 1
    }


def test_an_outage_changes_nothing_but_the_errors() -> None:
    world = LoopWorld(a_spec("web"), nodes=[(a_node("n1"), "web")])
    gauges = Gauges()
    gauges.take(world.run())
    world.static.fail_next("web", ProviderError("down"), Call.REFRESH)
    series = gauges.take(world.run(after_s=15))
    assert series["cluster_safe_to_autoscale"] == 1
    assert series[of("errors_total", type="cloudProviderError")] == 1


def test_scale_down() -> None:
    world = LoopWorld(a_spec("web"), nodes=[(a_node("n1"), "web")])
    scale_down = ScaleDownReport(
        unneeded=(Removal(node=a_node("n1"), group="web"),),
        unremovable={name: UnremovableNode(name, UnremovableReason.BLOCKED_BY_POD) for name in ("a", "b")},
        result=ScaleDownResult.IN_COOLDOWN,
    )
    report = replace(world.run(), scale_down=scale_down)
    gauges = Gauges()
    series = gauges.take(report)
    assert (series["unneeded_nodes_count"], series["scale_down_in_cooldown"]) == (1, 1)
    assert series[of("unremovable_nodes_count", reason="BlockedByPod")] == 2
    assert of("last_activity", activity="scaleDown") not in series
    series = gauges.take(replace(report, scale_down=replace(scale_down, result=ScaleDownResult.NO_UNNEEDED)))
    assert series["scale_down_in_cooldown"] == 0
    assert series[of("last_activity", activity="scaleDown")] == NOW


def judged(name: str, since: str) -> Pod:
    verdict = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
    return a_pod(name, cpu="3", created=NOW - 7200, status={"conditions": [verdict]})


def test_the_longest_wait_begins_with_the_verdict_of_the_scheduler() -> None:
    world, gauges = LoopWorld(a_spec("web", max_size=0)), Gauges()
    assert gauges.take(world.run())["longest_pending_seconds"] == 0
    assert NOW == 1_785_578_400, "2026-08-01T10:00:00Z"
    world.submit(judged("old", "2026-08-01T09:50:00Z"), judged("new", "2026-08-01T09:59:00Z"))
    assert gauges.take(world.run(after_s=15))["longest_pending_seconds"] == 615
    world.cluster.remove_pod("default/old")
    assert gauges.take(world.run(after_s=15))["longest_pending_seconds"] == 90


def test_a_removed_node_is_counted_with_its_devices() -> None:
    node = a_node("g", labels={GPU_LABEL: "a100"}, extra={"nvidia.com/gpu": "1"})
    world = LoopWorld(a_spec("gpu", labels={GPU_LABEL: "a100"}), nodes=[(node, "gpu")])
    gauges = Gauges()
    gauges.take(world.run())
    gauges.pass_metrics.node_removed("gpu", node, RemovedAs.EMPTY)
    labels = {"gpu_name": "a100", "gpu_resource_name": "nvidia.com/gpu", "reason": "empty"}
    assert gauges.series()[of("scaled_down_nodes_total", dra_drivers="", **labels)] == 1


def test_gpu_nodes_are_labelled() -> None:
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "2"}
    spec = GroupSpec(
        id="gpu", min_size=0, max_size=5, template=NodeTemplate(capacity=capacity, labels={GPU_LABEL: "a100"})
    )
    world = LoopWorld(spec)
    world.submit(a_pod("train", requests={"nvidia.com/gpu": "1"}, unschedulable=True, created=NOW - 60))
    series = Gauges().take(world.run())
    labels = {"gpu_name": "a100", "gpu_resource_name": "nvidia.com/gpu"}
    assert series[of("scaled_up_nodes_total", dra_drivers="", **labels)] == 1
    assert series[of("scaled_up_gpu_nodes_total", **labels)] == 1


@pytest.mark.parametrize(
    ("labels", "gpus", "described", "devices"),
    [
        pytest.param({}, 0, False, NO_DEVICES, id="no sign of a GPU"),
        pytest.param({"gpu": "t4"}, 1, False, DeviceLabels("nvidia.com/gpu", "t4"), id="label and capacity"),
        pytest.param({"gpu": "h9"}, 1, False, DeviceLabels("nvidia.com/gpu", "not-listed"), id="a type nobody knows"),
        pytest.param({}, 1, False, DeviceLabels("nvidia.com/gpu", "generic"), id="capacity alone"),
        pytest.param({"gpu": ""}, 1, False, DeviceLabels("nvidia.com/gpu", "generic"), id="a label without value"),
        pytest.param({"gpu": "t4"}, 0, True, DeviceLabels("nvidia.com/gpu", "missing-gpu"), id="only described"),
        pytest.param({"gpu": "t4"}, 0, False, DeviceLabels("nvidia.com/gpu", "unexpected-label"), id="only labelled"),
    ],
)
def test_devices(labels: Labels, gpus: int, described: bool, devices: DeviceLabels) -> None:
    node = a_node("n", labels=labels, extra={"nvidia.com/gpu": str(gpus)} if gpus else None)
    template = NodeTemplate(capacity={"cpu": "1", **({"nvidia.com/gpu": "1"} if described else {})})
    groups = Groups(gpu_label="gpu", gpu_types=frozenset(("t4",)))
    assert devices_of(node, a_group(template=template), groups) == devices
    assert devices_of(None, None, groups) == NO_DEVICES


@pytest.mark.parametrize(
    ("label", "drivers", "devices"),
    [
        pytest.param("t4", (NVIDIA,), DeviceLabels(f"dra_{NVIDIA}", "t4", NVIDIA), id="a GPU that is a device"),
        pytest.param("h9", (NVIDIA,), DeviceLabels(f"dra_{NVIDIA}", "not-listed", NVIDIA), id="of an unknown type"),
        pytest.param(None, ("b", "a"), DeviceLabels("", "", "a,b"), id="other devices"),
    ],
)
def test_devices_of_drivers(label: str | None, drivers: tuple[str, ...], devices: DeviceLabels) -> None:
    node = a_node("n", labels={"gpu": label} if label else {})
    assert devices_of(node, None, Groups(gpu_label="gpu", gpu_types=frozenset(("t4",))), drivers) == devices


def test_durations_are_published_by_function() -> None:
    report = PassReport(now=Instant(NOW, 0.0), timings={"scale_up": 0.25, "pass": 0.5, "unknown": 9.0})
    series = Gauges().take(report)
    assert series[of("function_duration_quantile_seconds_sum", function="main")] == 0.5
    assert series[of("function_duration_quantile_seconds_sum", function="scaleUp")] == 0.25
    assert not [name for name in series if "unknown" in name and not name.startswith("pass_phase_")]
    assert series[of("pass_phase_duration_seconds_sum", phase="unknown")] == 9.0


def test_resizes_that_wait_are_counted() -> None:
    world, gauges = LoopWorld(a_spec("web"), nodes=[(a_node("n1"), "web")]), Gauges()
    assert gauges.take(world.run())["deferred_resizes"] == 0
    status = {
        "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    }
    world.submit(a_pod("r", cpu="6", node="n1", status=status))
    assert gauges.take(world.run(after_s=15))["deferred_resizes"] == 1
