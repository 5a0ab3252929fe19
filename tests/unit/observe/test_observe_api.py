import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from autoscaler.clock import VirtualClock
from autoscaler.explain.api import explain_routes
from autoscaler.explain.service import ExplainService
from autoscaler.observe.api.api import read_routes
from autoscaler.observe.http.health import HealthCheck, StuckLimits
from autoscaler.observe.http.public_json import public
from autoscaler.observe.http.routing import Request, Response, route
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.status import ProcessStatus, PublishedStatus
from autoscaler.observe.status_board import StatusBoard


class Site:
    """All routes over one board."""

    def __init__(self, status: PublishedStatus, clock: VirtualClock) -> None:
        self.board = StatusBoard(status.process)
        self.health = HealthCheck(StuckLimits(600, 900), clock.now())
        self.clock = clock
        self.metrics = Metrics()
        ask = ExplainService(self.board, clock, lambda: None, clock.advance).ask
        self._routes = {
            **read_routes(self.board, self.metrics, self.health, clock),
            **explain_routes(self.board, ask),
        }

    def get(self, url: str) -> Response:
        parts = urlsplit(url)
        return route(self._routes, Request("GET", parts.path, dict(parse_qsl(parts.query, keep_blank_values=True))))

    def json(self, url: str) -> Any:
        response = self.get(url)
        assert (response.status, response.content_type) == (200, "application/json")
        return json.loads(response.body)


@pytest.fixture
def site(status_of: Callable[..., PublishedStatus], now_wall: float) -> Site:
    status = status_of(10)
    made = Site(status, VirtualClock(wall=now_wall))
    made.board.publish(status)
    return made


def test_status(site: Site) -> None:
    answer = site.json("/api/v1/status")
    assert answer["process"]["identity"] == "cluster-autoscaler-5d7c9-x2x"
    assert answer["process"]["startedAt"] == "2026-08-01T07:58:20.000Z"
    assert answer["lastPass"]["durationSeconds"] == 0.412
    assert answer["lastPass"]["phases"][0] == {"name": "snapshot", "seconds": 0.05}
    assert answer["cluster"]["scope"]["health"]["status"] == "Healthy"
    assert answer["cluster"]["cpuMilli"] == {"running": 23_000, "pending": 1000, "total": 39_200}
    assert answer["totals"] == {"groups": 3, "nodes": 10, "pendingPods": 2, "unneededNodes": 1}
    assert answer["message"] is None
    assert answer["events"][0]["at"] == "2026-08-01T09:58:50.000Z"


def test_groups(site: Site) -> None:
    answer = site.json("/api/v1/groups")
    assert answer["total"] == 3
    assert answer["passStartedAt"] == "2026-08-01T09:59:56.000Z"
    web, gpu, _ = answer["items"]
    assert (web["id"], web["minSize"], web["maxSize"], web["targetSize"], web["upcoming"]) == (
        "web-general",
        1,
        10,
        8,
        3,
    )
    assert web["scope"]["counts"]["unregistered"] == 3
    assert web["backoff"] is None
    assert web["template"]["instanceType"] == "m5.xlarge"
    assert gpu["backoff"]["untilAt"] == "2026-08-01T10:04:50.000Z"
    assert gpu["backoff"]["code"] == "OUT_OF_RESOURCES"


def test_nodes(site: Site) -> None:
    answer = site.json("/api/v1/nodes?group=web-general&limit=2")
    assert (answer["total"], len(answer["items"])) == (5, 2)
    assert answer["items"][0]["stays"]["reason"] == "NotUnderutilized"
    assert answer["items"][0]["unneededSinceAt"] is None
    assert {node["state"] for node in site.json("/api/v1/nodes?state=unready")["items"]} == {"unready"}
    unneeded = [node for node in site.json("/api/v1/nodes")["items"] if node["unneededSinceAt"]]
    assert [node["unneededSinceAt"] for node in unneeded] == ["2026-08-01T09:57:00.000Z"]


def test_pods(site: Site) -> None:
    (pod,) = site.json("/api/v1/pods?namespace=ml")["items"]
    assert (pod["verdict"], pod["plannedGroup"], pod["etaSeconds"]) == ("NoGroupFits", None, None)
    assert pod["reasons"][0] == {"group": "gpu-a100", "reason": "InBackoff", "detail": "for another 4 min"}


def test_a_list_can_be_read_in_parts(site: Site) -> None:
    first, second, past = (site.json(f"/api/v1/nodes?limit=6&offset={offset}") for offset in (0, 6, 12))
    assert [answer["total"] for answer in (first, second, past)] == [10, 10, 10]
    names = [node["name"] for node in (*first["items"], *second["items"])]
    assert names == [node["name"] for node in site.json("/api/v1/nodes")["items"]]
    assert past["items"] == []


def test_a_pod_is_explained(site: Site) -> None:
    answer = site.json("/api/v1/explain?pod=ml/train-0")
    assert (answer["pod"]["name"], answer["node"], answer["group"]) == ("train-0", None, None)
    meanings = {one["reason"]: one for one in answer["meanings"]}
    assert list(meanings) == ["NoGroupFits", "InBackoff", "NodeResourcesFit"]
    assert meanings["NodeResourcesFit"]["remedy"]
    assert {decision["group"] for decision in answer["decisions"]} == {"web-general"}
    assert answer["decisions"][0]["at"] > answer["decisions"][1]["at"]


def test_a_node_is_explained(site: Site) -> None:
    answer = site.json("/api/v1/explain?node=ip-10-0-0-5.eu-west-1.compute.internal")
    assert answer["node"]["stays"]["reason"] == "BlockedByPod"
    assert [one["reason"] for one in answer["meanings"]] == ["BlockedByPod"]


def test_a_group_is_explained(site: Site) -> None:
    answer = site.json("/api/v1/explain?group=gpu-a100")
    assert answer["group"]["backoff"]["code"] == "OUT_OF_RESOURCES"
    assert answer["podsRefused"] == [{"reason": "InBackoff", "count": 1}]
    assert [one["reason"] for one in answer["meanings"]] == ["InBackoff"]
    web = site.json("/api/v1/explain?group=web-general")
    assert web["nodesKept"] == [{"reason": "NotUnderutilized", "count": 4}]


@pytest.mark.parametrize(
    ("url", "field", "message"),
    [
        ("/api/v1/explain?pod=ml/nobody", "pod", "the last pass saw no pod without a node called ml/nobody"),
        ("/api/v1/explain?pod=train-0", "pod", "the last pass saw no pod without a node called train-0"),
        ("/api/v1/explain?node=nobody", "node", "the last pass saw no node called nobody"),
        ("/api/v1/explain?group=nobody", "group", "the last pass saw no node group called nobody"),
    ],
)
def test_what_is_not_there_cannot_be_explained(site: Site, url: str, field: str, message: str) -> None:
    response = site.get(url)
    error = json.loads(response.body)["error"]
    assert (response.status, error) == (404, {"code": "not_found", "message": message, "field": field})


def test_plans_are_newest_first(site: Site) -> None:
    answer = site.json("/api/v1/plans?limit=2")
    assert answer["total"] == 13
    newest, before = answer["items"]
    assert newest["at"] > before["at"]
    assert (newest["kind"], newest["delta"]) == ("scaleDown", -1)
    assert site.json("/api/v1/plans?group=nobody")["total"] == 0


@pytest.mark.parametrize(
    ("url", "field"),
    [
        pytest.param("/api/v1/nodes?limit=0", "limit", id="limit of zero"),
        pytest.param("/api/v1/pods?limit=many", "limit", id="limit that is no number"),
        pytest.param("/api/v1/plans?limit=", "limit", id="empty limit"),
        pytest.param("/api/v1/groups?group=web", "group", id="a parameter of another route"),
        pytest.param("/api/v1/nodes?limit=10001", "limit", id="limit has a maximum"),
        pytest.param("/api/v1/nodes?offset=-1", "offset", id="offset below zero"),
        pytest.param("/api/v1/nodes?state=asleep", "state", id="a state that is none"),
        pytest.param("/api/v1/pods?namespace=", "namespace", id="a name that is empty"),
        pytest.param("/api/v1/nodes?group=" + "g" * 600, "group", id="a name that is endless"),
        pytest.param("/api/v1/status?limit=1", "limit", id="a parameter where there are none"),
        pytest.param("/status?all=yes", "all", id="all is 0 or 1"),
        pytest.param("/status?refresh=99999", "refresh", id="refresh has a maximum"),
    ],
)
def test_bad_parameters_are_named(site: Site, url: str, field: str) -> None:
    response = site.get(url)
    error = json.loads(response.body)["error"]
    assert (response.status, error["code"], error["field"]) == (400, "invalid_parameter", field)


def test_a_value_that_is_none_of_a_few_is_told_which_there_are(site: Site) -> None:
    error = json.loads(site.get("/api/v1/nodes?state=asleep").body)["error"]
    assert error["message"].startswith("state: Invalid enum value 'asleep'; one of ")
    assert "unready" in error["message"]


@pytest.mark.parametrize("query", ["", "?pod=ml/train-0&group=gpu-a100"])
def test_one_thing_at_a_time_is_explained(site: Site, query: str) -> None:
    response = site.get(f"/api/v1/explain{query}")
    assert (response.status, json.loads(response.body)["error"]["code"]) == (400, "invalid_parameter")


def test_before_the_first_pass(status_of: Callable[..., PublishedStatus], now_wall: float) -> None:
    site = Site(status_of(0), VirtualClock(wall=now_wall))
    assert site.json("/api/v1/nodes") == {"passStartedAt": None, "total": 0, "items": []}
    assert site.json("/api/v1/status")["lastPass"] is None
    assert b"No pass has finished yet" in site.get("/status").body


def test_metrics(site: Site) -> None:
    response = site.get("/metrics")
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# TYPE process_cpu_seconds_total counter\n" in response.body


def test_health_routes(site: Site) -> None:
    paths = ("/health-check", "/healthz", "/readyz")
    assert [site.get(path).status for path in paths] == [200, 200, 200]
    assert site.get("/health-check").body == b"OK"
    site.health.start_monitoring(site.clock.now())
    assert [site.get(path).status for path in paths] == [200, 200, 500]
    site.clock.advance(700)
    assert [site.get(path).status for path in paths] == [500, 500, 500]
    assert site.get("/health-check").body.startswith(b"Error: last activity more than 700.0s ago")


def test_the_page_allows_only_its_own_style(site: Site) -> None:
    response = site.get("/status?all=1&refresh=0")
    assert response.content_type == "text/html; charset=utf-8"
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_the_root_leads_to_the_page(site: Site) -> None:
    response = site.get("/")
    assert (response.status, response.headers["Location"]) == (302, "/status")


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    max_idle_s: int
    cpu_milli: int
    size_bytes: int
    process: ProcessStatus
    by_name: Mapping[str, int]
    absent: int | msgspec.UnsetType = msgspec.UNSET


def test_public_names_and_times() -> None:
    process = ProcessStatus(identity="me", version="1", started_at=0.0015, dry_run=True)
    by_name = {"max_size": 4, "seen_at": 5}
    assert public(Shown(max_idle_s=1, cpu_milli=2, size_bytes=3, process=process, by_name=by_name)) == {
        "byName": {"max_size": 4, "seen_at": 5},
        "maxIdleSeconds": 1,
        "cpuMilli": 2,
        "sizeBytes": 3,
        "process": {
            "identity": "me",
            "version": "1",
            "startedAt": "1970-01-01T00:00:00.002Z",
            "leading": False,
            "leader": None,
            "kubernetesVersion": None,
            "compatibility": None,
            "dryRun": True,
            "currency": "",
        },
    }
