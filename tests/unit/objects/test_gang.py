"""What pods and objects of several schedulers say about gangs."""

import msgspec
import pytest

from autoscaler.objects.gang import MOST_PODS, GangPodGroup, GangRef, GangWorkload, stated_minimum
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.podspec import PodSpec, SchedulingGroup, WorkloadRef

GROUP = "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"


def gang(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, spec: PodSpec | None = None
) -> GangRef | None:
    meta = ObjectMeta(name="p", namespace="ns", labels=labels or {}, annotations=annotations or {})
    return PodInterner().class_of(meta, spec or PodSpec()).gang


def test_a_pod_without_marks_is_in_no_gang() -> None:
    assert gang({"app": "web"}) is None
    assert gang(spec=PodSpec(scheduling_group=SchedulingGroup(), workload_ref=WorkloadRef())) is None


def test_the_api_counts_before_labels() -> None:
    spec = PodSpec(scheduling_group=SchedulingGroup("a"), workload_ref=WorkloadRef("w", "g"))
    assert gang({GROUP: "b"}, spec=spec) == GangRef("ns", "a")
    assert gang({GROUP: "b"}, spec=PodSpec(workload_ref=WorkloadRef("w", "g", "0"))) == GangRef("ns", "w/g/0")


@pytest.mark.parametrize(
    ("text", "count"),
    [("8", 8), ("0", 1), ("-1", None), ("many", None), ("٣", None), ("", None), ("1" * 5000, None)],
)
def test_odd_counts_are_no_counts(text: str, count: int | None) -> None:
    assert gang({GROUP: "a"}, {COUNT: text}) == GangRef("ns", "a", count)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ('{"schedulingPolicy": {"gang": {"minCount": 4}}}', 4),
        ('{"schedulingPolicy": {"basic": {}}}', 1),
        ('{"minMember": 3}', 3),
        ('{"minMember": -3}', 1),
        ('{"minMember": 999999999999}', MOST_PODS),
        ("{}", 1),
    ],
)
def test_the_minimum_of_a_pod_group(spec: str, count: int) -> None:
    group = msgspec.json.decode(
        f'{{"metadata": {{"name": "a", "namespace": "ns"}}, "spec": {spec}}}', type=GangPodGroup
    )
    assert stated_minimum(GangRef("ns", "a", 7), {"ns/a": group}, {}) == count


def test_the_minimum_of_a_workload_is_that_of_the_pod_group_in_it() -> None:
    text = '{"metadata": {"name": "w", "namespace": "ns"}, "spec": {"podGroups": [{"name": "g", "policy": %s}]}}'
    workloads = {"ns/w": msgspec.json.decode(text % '{"gang": {"minCount": 4}}', type=GangWorkload)}
    assert stated_minimum(GangRef("ns", "w/g"), {}, workloads) == 4
    assert stated_minimum(GangRef("ns", "w/g/1"), {}, workloads) == 4
    assert stated_minimum(GangRef("ns", "w/other"), {}, workloads) is None


def test_without_an_object_pods_may_state_it() -> None:
    assert stated_minimum(GangRef("ns", "a", 7), {}, {}) == 7
    assert stated_minimum(GangRef("ns", "a"), {}, {}) is None
