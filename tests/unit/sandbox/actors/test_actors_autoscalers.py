import math
from typing import Any

import pytest

from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.usage import LOAD
from autoscaler.sandbox.cluster import SandboxCluster
from tests.unit.sandbox.actors.actors_pieces import (
    Json,
    a_cluster,
    a_group,
    a_workload,
    condition,
    events,
    pods_of,
    status,
)

AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
HALF = {"type": "Utilization", "averageUtilization": 50}
BIG = a_group(cpu="64", memory="256Gi")


def an_autoscaler(resource: str = "cpu", target: Json | None = None, **spec: Any) -> Json:
    metric = {"type": "Resource", "resource": {"name": resource, "target": target or HALF}}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    wanted = {"scaleTargetRef": workload, "minReplicas": 1, "maxReplicas": 20, "metrics": [metric], **spec}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": wanted,
    }


def under_load(load: str, replicas: int = 2, *, autoscaler: Json | None = None, **pod: Any) -> SandboxCluster:
    """A cluster after two minutes in which the pods of `web`, 500m each, use `load` CPUs together."""
    web = a_workload("Deployment", "web", replicas, **{"cpu": "500m", "memory": "1Gi", **pod})
    web["metadata"]["annotations"] = {LOAD: load}
    cluster = a_cluster(BIG)
    cluster.apply([web, autoscaler or an_autoscaler()])
    cluster.run_for(120)
    return cluster


def replicas(cluster: SandboxCluster) -> int:
    found: int = cluster.storage.get("deployments.apps", "web")["spec"]["replicas"]
    return found


def set_load(cluster: SandboxCluster, load: str) -> None:
    cluster.storage.patch("deployments.apps", "web", {"metadata": {"annotations": {LOAD: load}}})


@pytest.mark.parametrize(
    ("load", "wanted"),
    [
        pytest.param("3", 12, id="as many as bring the pods to their target"),
        pytest.param("500m", 2, id="as many as there are"),
        pytest.param("540m", 2, id="as many as there are, when they are nearly at it"),
        pytest.param("250m", 1, id="fewer"),
        pytest.param("50", 20, id="no more than the maximum"),
        pytest.param("0", 1, id="no fewer than the minimum"),
    ],
)
def test_it_brings_pods_to_their_share_of_the_request(load: str, wanted: int) -> None:
    cluster = under_load(load)
    assert replicas(cluster) == wanted
    assert len(pods_of(cluster, "web")) == wanted


def test_its_status_says_what_it_saw_and_did() -> None:
    cluster = under_load("3")
    told = status(cluster, AUTOSCALERS, "web")
    assert (told["currentReplicas"], told["desiredReplicas"]) == (12, 12)
    current = {"averageValue": "250m", "averageUtilization": 50}
    assert told["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    found = cluster.storage.get(AUTOSCALERS, "web")
    assert condition(found, "ScalingActive") == ("True", "ValidMetricFound")
    assert condition(found, "ScalingLimited") == ("False", "DesiredWithinRange")
    assert [event["message"] for event in events(cluster, "SuccessfulRescale")][:1] == [
        "New size: 6; reason: resource utilization is above target"
    ]


def test_a_bound_that_holds_it_back_is_told() -> None:
    cluster = under_load("50")
    assert condition(cluster.storage.get(AUTOSCALERS, "web"), "ScalingLimited") == ("True", "TooManyReplicas")


def test_replicas_are_taken_away_only_once_nobody_has_wanted_them_for_a_while() -> None:
    cluster = under_load("3", autoscaler=an_autoscaler(behavior={"scaleDown": {"stabilizationWindowSeconds": 60}}))
    set_load(cluster, "1")
    cluster.run_for(50)
    assert replicas(cluster) == 12
    cluster.run_for(30)
    assert replicas(cluster) == 4


def test_pods_that_do_not_run_yet_are_no_reason_to_take_replicas_away() -> None:
    cluster = a_cluster(a_group(cpu="2"))
    web = a_workload("Deployment", "web", 8, cpu="500m")
    web["metadata"]["annotations"] = {LOAD: "2"}
    cluster.apply([web, an_autoscaler()])
    cluster.run_for(120)
    assert replicas(cluster) == 8


def test_memory_and_average_values_count_too() -> None:
    target = {"type": "AverageValue", "averageValue": "300Mi"}
    cluster = under_load("1", autoscaler=an_autoscaler("memory", target))
    used = [
        one["current"]["averageValue"]
        for one in (metric["resource"] for metric in status(cluster, AUTOSCALERS, "web")["currentMetrics"])
    ]
    assert len(used) == 1
    assert replicas(cluster) > 2


@pytest.mark.parametrize(
    ("autoscaler", "pod", "kind", "reason"),
    [
        pytest.param(
            an_autoscaler(), {"cpu": None}, "ScalingActive", "FailedGetResourceMetric", id="pods without a request"
        ),
        pytest.param(
            an_autoscaler(metrics=[{"type": "External", "external": {}}]),
            {},
            "ScalingActive",
            "FailedGetResourceMetric",
            id="a metric that the sandbox does not have",
        ),
        pytest.param(
            an_autoscaler(scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}),
            {},
            "AbleToScale",
            "FailedGetScale",
            id="a workload that does not exist",
        ),
    ],
)
def test_what_it_cannot_do_it_says(autoscaler: Json, pod: Json, kind: str, reason: str) -> None:
    cluster = under_load("3", autoscaler=autoscaler, **pod)
    assert replicas(cluster) == 2
    assert condition(cluster.storage.get(AUTOSCALERS, "web"), kind) == ("False", reason)


def test_a_workload_scaled_to_nothing_stays_so() -> None:
    cluster = under_load("3", replicas=0)
    assert replicas(cluster) == 0
    assert condition(cluster.storage.get(AUTOSCALERS, "web"), "ScalingActive") == ("False", "ScalingDisabled")


def test_without_any_there_is_nothing_to_do() -> None:
    cluster = a_cluster()
    cluster.apply([an_autoscaler()])
    cluster.run_for(20)
    assert cluster.due() < math.inf
    cluster.storage.delete(AUTOSCALERS, "web")
    cluster.run_for(20)
    before = cluster.storage.revision
    cluster.run_for(200)
    assert cluster.storage.revision == before


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param({"maxReplicas": 0}, "spec.maxReplicas", id="no maximum"),
        pytest.param({"minReplicas": 30}, "`minReplicas`", id="a maximum below the minimum"),
        pytest.param({"scaleTargetRef": {}}, "spec.scaleTargetRef.name", id="no workload"),
    ],
)
def test_one_that_makes_no_sense_is_refused(spec: Json, problem: str) -> None:
    with pytest.raises(ApiError, match=problem):
        a_cluster().apply([an_autoscaler(**spec)])
