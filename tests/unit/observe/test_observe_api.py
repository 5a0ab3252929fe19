import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from autoscaler.clock import VirtualClock
from autoscaler.observe.api import read_routes
from autoscaler.observe.health import HealthCheck, Limits
from autoscaler.observe.metrics import Metrics
from autoscaler.observe.public import public
from autoscaler.observe.status import Board, ProcessStatus, PublishedStatus
from autoscaler.observe.web import Request, Response, route


class Site:
    """All routes over one board."""

    def __init__(self, status: PublishedStatus, clock: VirtualClock) -> None:
        self.board = Board(status.process)
        self.health = HealthCheck(Limits(600, 900), clock.now())
        self.clock = clock
        self.metrics = Metrics()
        self._routes = read_routes(self.board, self.metrics, self.health, clock)

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
        pytest.param("/status?all=yes", "all", id="all is 0 or 1"),
        pytest.param("/status?refresh=99999", "refresh", id="refresh has a maximum"),
    ],
)
def test_bad_parameters_are_named(site: Site, url: str, field: str) -> None:
    response = site.get(url)
    error = json.loads(response.body)["error"]
    assert (response.status, error["code"], error["field"]) == (400, "invalid_parameter", field)


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


def test_public_names_and_times() -> None:
    process = ProcessStatus(identity="me", version="1", started_at=0.0015, dry_run=True)
    assert public({"max_idle_s": 1, "cpu_milli": 2, "size_bytes": 3, "process": process}) == {
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
        },
    }
