"""The document of the read-only routes, and their answers over clusters of every kind, hostile names included."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from jsonschema import Draft202012Validator

from autoscaler.clock import VirtualClock
from autoscaler.explain.api import explain_routes
from autoscaler.explain.service import ExplainService
from autoscaler.headroom.status import HeadroomStatus, PoolStatus, headroom_routes
from autoscaler.observe.api.api import read_routes
from autoscaler.observe.http.endpoint import Body, Endpoint, EndpointRoutes, Nothing, SuccessResponse
from autoscaler.observe.http.health import HealthCheck, StuckLimits
from autoscaler.observe.http.openapi import PATH, about_daemon, document, with_document
from autoscaler.observe.http.routing import JSON, Request, Response, route
from autoscaler.observe.http.server import WebServer
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.status import PublishedStatus, RecentEvent, TemplateSummary
from autoscaler.observe.status_board import StatusBoard
from tests.api_contract import Answer, Site

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


def pools(board: StatusBoard) -> HeadroomStatus:
    if board.view.status.last_pass is None:
        return HeadroomStatus()
    return HeadroomStatus(looked_at=1.0, pools=(PoolStatus(name="web", namespace="shop", lower_at=2.5),))


@pytest.fixture(params=STATES)
def routes(request: pytest.FixtureRequest, status_of: StatusOf, now_wall: float) -> EndpointRoutes:
    clock = VirtualClock(wall=now_wall)
    board = StatusBoard(status_of(0).process)
    status = STATES[request.param](status_of)
    if status is not None:
        board.publish(status)
    known = read_routes(board, Metrics(), HealthCheck(StuckLimits(600, 900), clock.now()), clock)
    explain = explain_routes(board, ExplainService(board, clock, lambda: None, clock.advance).ask)
    return with_document({**known, **explain, **headroom_routes(lambda: pools(board))}, about_daemon("1.2.3"))


@pytest.fixture
def site(routes: EndpointRoutes) -> Iterator[Site]:
    server = WebServer("127.0.0.1:0", routes, VirtualClock())
    server.start()
    with closing(Site(server.port, PATH)) as made:
        yield made
    server.stop()


def asked(site: Site, url: str) -> Answer:
    """Ask, and hold the answer against the document."""
    path = url.partition("?")[0]
    answer = site.ask("GET", url)
    site.check(next(operation for operation in site.operations if operation.path == path), answer)
    return answer


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
    assert (site.document["openapi"], site.document["info"]["version"]) == ("3.1.0", "1.2.3")


def test_every_answer_is_as_described(site: Site) -> None:
    for path in site.document["paths"]:
        assert asked(site, path).status == {"/": 302, "/api/v1/explain": 400}.get(path, 200)


def test_explanations_are_as_described(site: Site) -> None:
    path = "/api/v1/explain"
    targets = [
        *(f"pod={pod['namespace']}/{pod['name']}" for pod in site.ask("GET", "/api/v1/pods").json["items"][:4]),
        *(f"node={node['name']}" for node in site.ask("GET", "/api/v1/nodes").json["items"][:10]),
        *(f"group={quote(group['id'])}" for group in site.ask("GET", "/api/v1/groups").json["items"]),
    ]
    for target in targets:
        assert asked(site, f"{path}?{target}").status == 200
    for mistake, expected in (("pod=no/body", 404), ("node=nobody", 404), ("group=nobody", 404), ("", 400)):
        assert asked(site, f"{path}?{mistake}").status == expected


class Default(msgspec.Struct):
    """May be left out when it is asked for, and is always answered."""

    seconds: int = 0


class Seen(msgspec.Struct):
    state: str


def test_a_body_may_be_bounded_more_tightly_than_the_server_does() -> None:
    taken: Endpoint[Nothing] = Endpoint(
        summary="x",
        query=Nothing,
        serve=lambda _, request: Response(request.body),
        body=Body(text="x", forms={JSON: Default}, max_bytes=3),
        responses={200: SuccessResponse(forms=(Default,))},
    )
    assert route({"/x": {"POST": taken}}, Request("POST", "/x", body=b"abc")).status == 200
    assert route({"/x": {"POST": taken}}, Request("POST", "/x", body=b"abcd")).status == 413


def test_a_type_cannot_be_asked_for_in_one_form_and_answered_in_another() -> None:
    def endpoint(answers: type[msgspec.Struct]) -> Endpoint[Nothing]:
        return Endpoint(
            summary="x",
            query=Nothing,
            serve=lambda _, __: Response(b""),
            body=Body(text="x", forms={JSON: Default}),
            responses={200: SuccessResponse(forms=(answers,))},
        )

    assert document({"/x": {"POST": endpoint(Seen)}}, about_daemon("1"))["openapi"] == "3.1.0"
    with pytest.raises(TypeError, match="Default looks different when it is asked for and when it is answered"):
        document({"/x": {"POST": endpoint(Default)}}, about_daemon("1"))
