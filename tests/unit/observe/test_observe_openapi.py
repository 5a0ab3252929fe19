"""What the OpenAPI document says is what a live server answers, in every state and for every mistake."""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from autoscaler.clock import VirtualClock
from autoscaler.observe.api import read_routes
from autoscaler.observe.headroom_status import HeadroomStatus, PoolStatus, headroom_routes
from autoscaler.observe.health import HealthCheck, Limits
from autoscaler.observe.metrics import Metrics
from autoscaler.observe.openapi import PATH, with_document
from autoscaler.observe.routing import Routes
from autoscaler.observe.status import Board, PublishedStatus, RecentEvent, TemplateSummary
from autoscaler.observe.web import WebServer

WAIT_S = 10.0
DOCS = Path(__file__).parents[3] / "docs" / "api.md"
EVIL = "<script>alert('x')</script>/\"&\u2028\x00"
StatusOf = Callable[..., PublishedStatus]


def hostile(status: PublishedStatus) -> PublishedStatus:
    replace = msgspec.structs.replace
    group = replace(status.groups[0], id=EVIL, template=TemplateSummary(cpu_milli=1, memory_bytes=1, pods=1, zone=EVIL))
    event = RecentEvent(at=0.0, kind=EVIL, reason=EVIL, about=EVIL, message=EVIL)
    return replace(status, message=EVIL, groups=(group, *status.groups), events=(event,))


STATES: dict[str, Callable[[StatusOf], PublishedStatus | None]] = {
    "before the first pass": lambda _: None,
    "an empty cluster": lambda status_of: status_of(0),
    "a cluster": lambda status_of: status_of(60),
    "a hostile cluster": lambda status_of: hostile(status_of(3)),
}


def pools(board: Board) -> HeadroomStatus:
    if board.view.status.last_pass is None:
        return HeadroomStatus()
    return HeadroomStatus(looked_at=1.0, pools=(PoolStatus(name="web", namespace="shop", lower_at=2.5),))


@pytest.fixture(params=STATES)
def routes(request: pytest.FixtureRequest, status_of: StatusOf, now_wall: float) -> Routes:
    clock = VirtualClock(wall=now_wall)
    board = Board(status_of(0).process)
    status = STATES[request.param](status_of)
    if status is not None:
        board.publish(status)
    known = read_routes(board, Metrics(), HealthCheck(Limits(600, 900), clock.now()), clock)
    return with_document({**known, **headroom_routes(lambda: pools(board))}, "1.2.3")


class Site:
    """A live server that is asked over one connection."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self.document = self.ask("GET", PATH)[1]

    def ask(self, method: str, url: str) -> tuple[int, Any]:
        self._connection.request(method, url)
        response = self._connection.getresponse()
        body = response.read()
        assert response.headers["Content-Type"] == "application/json"
        return response.status, json.loads(body) if body else None

    def check(self, path: str, status: int, answer: Any) -> None:
        """Validate an answer against what the document promises of this path; no undocumented field may be there."""
        responses = self.document["paths"][path]["get"]["responses"]
        said = responses.get(str(status), responses["default"])
        said = self.found(said["$ref"]) if "$ref" in said else said
        schema = {**said["content"]["application/json"]["schema"], "components": closed(self.document["components"])}
        Draft202012Validator(schema).validate(answer)

    def found(self, reference: str) -> Any:
        place = self.document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        return place


def closed(components: dict[str, Any]) -> dict[str, Any]:
    schemas = {name: {**one, "additionalProperties": False} for name, one in components["schemas"].items()}
    return {**components, "schemas": schemas}


@pytest.fixture
def site(routes: Routes) -> Iterator[Site]:
    server = WebServer("127.0.0.1:0", routes, VirtualClock())
    server.start()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)) as connection:
        yield Site(connection)
    server.stop()


def test_every_route_of_the_api_is_described(site: Site, routes: Routes) -> None:
    served = {path for path in routes if path.startswith("/api/v1/")}
    assert set(site.document["paths"]) == served
    assert (site.document["openapi"], site.document["info"]["version"]) == ("3.1.0", "1.2.3")


def test_schemas_are_valid_and_references_lead_somewhere(site: Site) -> None:
    def references(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            yield from (value for key, value in part.items() if key == "$ref")
            for value in part.values():
                yield from references(value)
        elif isinstance(part, list):
            for value in part:
                yield from references(value)

    for schema in site.document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    found = set(references(site.document))
    assert all(site.found(reference) for reference in found)
    used = {reference.rpartition("/")[2] for reference in found if "/schemas/" in reference}
    assert used == set(site.document["components"]["schemas"]), "nothing is described that is not used"


def test_every_answer_is_as_described(site: Site) -> None:
    for path in site.document["paths"]:
        if path != "/api/v1/explain":
            status, answer = site.ask("GET", path)
            assert status == 200
            site.check(path, status, answer)


def test_explanations_are_as_described(site: Site) -> None:
    path = "/api/v1/explain"
    targets = [
        *(f"pod={pod['namespace']}/{pod['name']}" for pod in site.ask("GET", "/api/v1/pods")[1]["items"][:4]),
        *(f"node={node['name']}" for node in site.ask("GET", "/api/v1/nodes")[1]["items"][:10]),
        *(f"group={group['id']}" for group in site.ask("GET", "/api/v1/groups")[1]["items"] if group["id"] != EVIL),
    ]
    for target in targets:
        status, answer = site.ask("GET", f"{path}?{target}")
        assert status == 200
        site.check(path, status, answer)
    for mistake, expected in (("pod=no/body", 404), ("node=nobody", 404), ("group=nobody", 404), ("", 400)):
        status, answer = site.ask("GET", f"{path}?{mistake}")
        assert status == expected
        site.check(path, status, answer)


def test_every_parameter_is_bounded_as_described(site: Site) -> None:
    for path, operations in site.document["paths"].items():
        for parameter in operations["get"]["parameters"]:
            assert parameter["description"]
            for value in wrong_values(site, parameter["schema"]):
                status, answer = site.ask("GET", f"{path}?{parameter['name']}={value}")
                assert (status, answer["error"]["field"]) == (400, parameter["name"]), (path, value)
                site.check(path, status, answer)
            for value in right_values(site, parameter["schema"]):
                status, answer = site.ask("GET", f"{path}?{parameter['name']}={value}")
                assert status in (200, 404), (path, value)
                site.check(path, status, answer)


def right_values(site: Site, schema: dict[str, Any]) -> list[Any]:
    if "$ref" in schema:
        return list(site.found(schema["$ref"])["enum"])
    return [schema["minimum"], schema["maximum"]] if schema["type"] == "integer" else ["x", "x" * schema["maxLength"]]


def wrong_values(site: Site, schema: dict[str, Any]) -> list[Any]:
    if "$ref" in schema:
        return ["", "x"]
    if schema["type"] == "integer":
        return [schema["minimum"] - 1, schema["maximum"] + 1, "", "x", "1e400"]
    return ["", "x" * (schema["maxLength"] + 1)]


def test_unknown_parameters_and_other_methods_are_as_described(site: Site) -> None:
    for path in site.document["paths"]:
        status, answer = site.ask("GET", f"{path}?surprise=1")
        assert (status, answer["error"]["field"]) == (400, "surprise")
        site.check(path, status, answer)
        status, answer = site.ask("DELETE", path)
        assert (status, answer["error"]["code"]) == (405, "method_not_allowed")
        site.check(path, status, answer)
        assert site.ask("HEAD", path)[1] is None


def test_every_path_is_in_the_handbook(site: Site) -> None:
    text = DOCS.read_text()
    assert [path for path in site.document["paths"] if f"`{path}`" not in text] == []
