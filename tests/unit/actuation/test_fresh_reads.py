from collections.abc import Iterator
from typing import Any

import pytest

from autoscaler.actuation.fresh_reads import ClusterReader
from autoscaler.actuation.removal_job import FreshReader
from autoscaler.clock import VirtualClock
from autoscaler.errors import Refused, RetryLater
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.snapshot.cluster import Related
from tests.builders import a_node
from tests.unit.kube.scripted import Reply, ScriptedApi, client_of, ok, scripted_api, status

NODE = {"metadata": {"name": "n1", "uid": "u1", "annotations": {"a": "b"}}, "spec": {"providerID": "x://1"}}
POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "p1"}, "spec": {"nodeName": "n1"}}
BUDGET = {"metadata": {"name": "b", "namespace": "ns"}, "status": {"disruptionsAllowed": 2}}


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with scripted_api() as api:
        yield api


@pytest.fixture
def reader(api: ScriptedApi) -> Iterator[ClusterReader]:
    with client_of(api.url, VirtualClock()) as client:
        yield ClusterReader(client, PodInterner(), last_seen=a_node, related=Related)


def the_port_is_met(reader: ClusterReader) -> FreshReader:
    return reader


def a_list(*items: Any) -> Reply:
    return ok({"items": list(items), "metadata": {"resourceVersion": "7"}})


def test_reads_one_node(api: ScriptedApi, reader: ClusterReader) -> None:
    api.script("GET /api/v1/nodes/n1", ok(NODE))
    node = reader.node("n1")
    assert node is not None
    assert (node.uid, node.provider_id, node.annotations) == ("u1", "x://1", {"a": "b"})


def test_a_node_that_is_gone_is_none(api: ScriptedApi, reader: ClusterReader) -> None:
    api.script("GET /api/v1/nodes/n1", status(404, "not found"))
    assert reader.node("n1") is None


def test_asks_for_the_pods_of_the_node_only(api: ScriptedApi, reader: ClusterReader) -> None:
    api.script("GET /api/v1/pods", a_list(POD))
    assert [(pod.key, pod.node, pod.uid) for pod in reader.pods_on("n1")] == [("ns/p", "n1", "p1")]
    assert api.asked[0].query == {"fieldSelector": "spec.nodeName=n1"}


def test_reads_budgets(api: ScriptedApi, reader: ClusterReader) -> None:
    api.script("GET /apis/policy/v1/poddisruptionbudgets", a_list(BUDGET))
    assert [(budget.key, budget.status.disruptions_allowed) for budget in reader.budgets()] == [("ns/b", 2)]


def test_what_the_watches_know_needs_no_call(api: ScriptedApi, reader: ClusterReader) -> None:
    seen = reader.last_seen("n1")
    assert seen is not None
    assert (seen.name, reader.related(), api.asked) == ("n1", Related(), [])


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(status(500, "boom"), RetryLater, id="a server error"),
        pytest.param(status(403, "no"), Refused, id="no permission"),
        pytest.param(Reply(200, b"<html>"), RetryLater, id="no JSON"),
        pytest.param(ok({"metadata": 5}), RetryLater, id="no node"),
        pytest.param(ok({**NODE, "status": {"capacity": {"cpu": "many"}}}), RetryLater, id="a bad quantity"),
    ],
)
def test_what_cannot_be_told_is_an_error(
    api: ScriptedApi, reader: ClusterReader, reply: Reply, error: type[Exception]
) -> None:
    api.script("GET /api/v1/nodes/n1", reply)
    with pytest.raises(error):
        reader.node("n1")
