import pytest
from prometheus_client import CollectorRegistry

from autoscaler.observe.metrics.definitions import Metric, MetricType
from autoscaler.observe.metrics.exposition import exposition
from autoscaler.observe.metrics.series import MAX_SERIES, MetricSeries


@pytest.mark.parametrize(
    ("name", "kind"),
    [("failures_total", MetricType.COUNTER), ("failures_count", MetricType.COUNTER), ("boots", MetricType.HISTOGRAM)],
)
def test_ever_new_labels_count_together_once_there_are_thousands(name: str, kind: MetricType) -> None:
    registry, series = CollectorRegistry(), MetricSeries()
    series.add_metric(
        Metric(name=name, kind=kind, help="Tests.", labels={"group": "", "code": ""}, buckets=(1.0,)), registry
    )
    move = series.observe if kind is MetricType.HISTOGRAM else series.add
    for number in range(MAX_SERIES + 3):
        move(name, 1, "web", f"code-{number}")
    move(name, 1, "web", "code-0")
    suffix = "_count" if kind is MetricType.HISTOGRAM else ""
    lines = [line for line in exposition(registry.collect()).decode().splitlines() if f"{name}{suffix}{{" in line]
    assert len(lines) == MAX_SERIES + 1
    assert f'cluster_autoscaler_{name}{suffix}{{group="other",code="other"}} 3.0' in lines
    assert f'cluster_autoscaler_{name}{suffix}{{group="web",code="code-0"}} 2.0' in lines
