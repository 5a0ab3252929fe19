"""The listener for announced work answers as its document promises, signed or not, in every state."""

import http.client
import json
import random
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from autoscaler.clock import VirtualClock
from autoscaler.config.reservations import ReservationTarget, read_reservations
from autoscaler.eta.lead_time import Lead
from autoscaler.observe.api.table import access_table
from autoscaler.observe.http.connection import RequestLimits
from autoscaler.observe.http.server import WebServer
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.reasons import LeadBasis, NoReservation
from autoscaler.reservations.api import ReservationApi
from autoscaler.reservations.metrics import RESERVATIONS, ReservationMetrics
from autoscaler.reservations.plan import OperationResult, OperationVerdict
from autoscaler.reservations.pods import TargetDemand
from autoscaler.reservations.routes import API_SIGNATURE, DOCUMENT, FORM, GITHUB_SIGNATURE
from autoscaler.reservations.signature import sign
from autoscaler.reservations.state import AnnouncementSource, Reservation, TargetState
from autoscaler.reservations.status import InboxStatus, TargetStatus, target_status
from tests.api_contract import NO_OBJECTS, Answer, Operation, Site, spoilt
from tests.unit.reservations.test_github_jobs import BODY
from tests.unit.reservations.test_reservation_api import API, GITHUB, NOW, FakeInbox

HANDBOOK = Path(__file__).parents[3] / "docs" / "reservations.md"
SECURITY = HANDBOOK.with_name("security.md")
SEED, BODIES = 20261120, 150
TARGET = {
    "name": "gpu-runners",
    "podTemplate": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}},
    "github": {"repositories": ["acme/*"], "labels": ["gpu", "linux", "x64"]},
}
LEAD = Lead(seconds=240.0, basis=LeadBasis.LEARNED, group="gpu", samples=9, terms={"passes": 45.0, "boot": 195.0})


def targets() -> tuple[TargetStatus, ...]:
    entries = (
        Reservation(
            id="a", accepted=NOW, length_s=600.0, activated=NOW, source=AnnouncementSource("github", "acme/app", 7, 1)
        ),
        Reservation(id="b", accepted=NOW, length_s=600.0),
    )
    demand = TargetDemand(slots=1, active=1, queued=1, planned=1, floor=2, early_from=NOW + 60, real=0)
    target, standing = ReservationTarget(name="gpu-runners"), InboxStatus(loaded=True, unreadable="", waiting=2)
    return (target_status(target, TargetState(entries=entries), demand, LEAD, {"max_size": 1}, standing, NOW),)


class Listener:
    """The listener on a socket; nothing is stored."""

    def __init__(self) -> None:
        self.inbox = FakeInbox(read_reservations({"targets": [TARGET]}, -10))
        self.clock = VirtualClock(wall=NOW)
        counted = ReservationMetrics(Metrics().companion(RESERVATIONS))
        self.api = ReservationApi(self.inbox, targets, (GITHUB,), (API,), counted, self.clock)
        self._server = WebServer(
            "127.0.0.1:0", self.api.routes, self.clock, RequestLimits(body_bytes=100_000, chunks=True)
        )
        self._server.start()
        self.port = self._server.port
        self.site = Site(self.port, DOCUMENT)
        self._sent = 0

    def close(self) -> None:
        self.site.close()
        self._server.stop()

    def ask(
        self, one: Operation, body: bytes = b"", kind: str = "application/json", target: str = "gpu-runners"
    ) -> Answer:
        """Send a request signed as the document says, with every header it asks for."""
        self._sent += 1
        self.clock.advance(10.0)  # too few wrong ones in a minute to be turned away
        headers = {parameter["name"]: f"workflow_job-{self._sent}" for parameter in one.parameters("header")}
        if "X-GitHub-Event" in headers:
            headers["X-GitHub-Event"] = "workflow_job"
        headers |= {"Content-Type": kind} if one.forms else {}
        headers |= self.signature(one, body)
        answer = self.site.ask(one.method, one.path.format(name=target, id="a"), body or None, headers)
        self.site.check(one, answer)
        return answer

    def signature(self, one: Operation, body: bytes) -> Mapping[str, str]:
        names = {name for way in one.said.get("security", ()) for name in way}
        if names == {GITHUB_SIGNATURE}:
            return {GITHUB_SIGNATURE: sign(GITHUB, body)}
        if names == set(API_SIGNATURE):
            stamp = str(int(self.clock.now().wall))
            return dict(zip(API_SIGNATURE, (sign(API, f"{stamp}.".encode() + body), stamp), strict=True))
        assert not names
        return {}


@pytest.fixture
def listener() -> Iterator[Listener]:
    with closing(Listener()) as made:
        yield made


def valid(site: Site, one: Operation, dice: random.Random) -> bytes:
    if one.path == "/webhooks/github":
        return BODY
    return json.dumps(site.value(one.forms["application/json"], dice)).encode() if one.forms else b""


def stored(inbox: FakeInbox) -> None:
    inbox.effect = OperationResult(verdict=OperationVerdict.ADDED, amount=1)


def not_loaded(inbox: FakeInbox) -> None:
    inbox.loaded = False


def stopping(inbox: FakeInbox) -> None:
    inbox.accepting = False


def unreadable(inbox: FakeInbox) -> None:
    inbox.broken = "newer"


def full(inbox: FakeInbox) -> None:
    inbox.full = True


def not_stored(inbox: FakeInbox) -> None:
    inbox.effect = None


def refused(inbox: FakeInbox) -> None:
    inbox.effect = OperationResult(verdict=OperationVerdict.REFUSED, reason=NoReservation.QUEUE_LIMIT)


def duplicate(inbox: FakeInbox) -> None:
    inbox.effect = OperationResult(verdict=OperationVerdict.DUPLICATE)


def ignored(inbox: FakeInbox) -> None:
    inbox.effect = OperationResult(verdict=OperationVerdict.IGNORED, reason=NoReservation.JOB_COMPLETED)


def removed(inbox: FakeInbox) -> None:
    inbox.effect = OperationResult(verdict=OperationVerdict.REMOVED, amount=-1)


@pytest.mark.parametrize(
    ("state", "codes"),
    [
        (stored, {200, 202, 404}),
        (not_loaded, {200, 503}),
        (stopping, {200, 503}),
        (unreadable, {200, 503}),
        (full, {200, 503}),
        (not_stored, {200, 503}),
        (refused, {200, 503}),
        (duplicate, {200, 404}),
        (ignored, {200, 404}),
        (removed, {200, 202}),
    ],
)
def test_what_is_signed_and_well_formed_is_answered_as_described(
    listener: Listener, state: Callable[[FakeInbox], None], codes: set[int]
) -> None:
    state(listener.inbox)
    dice = random.Random(SEED)
    found = set()
    for operation in listener.site.operations:
        for _ in range(10):
            found.add(listener.ask(operation, valid(listener.site, operation, dice)).status)
    assert found <= codes | {422}, "a duration is text that may be no duration"
    assert found >= codes


def test_the_document_is_openapi_and_tells_nothing_of_this_installation(listener: Listener) -> None:
    document = listener.site.document
    validate(document)
    assert b"gpu-runners" not in listener.site.ask("GET", DOCUMENT).body
    assert document["info"]["version"] == "1"


def test_what_is_served_is_described_and_what_is_described_is_served(listener: Listener) -> None:
    described = {(operation.path, operation.method) for operation in listener.site.operations}
    assert described == {(path, method) for path, methods in listener.api.routes.items() for method in methods}


def test_the_handbook_has_every_path(listener: Listener) -> None:
    text = HANDBOOK.read_text()
    for operation in listener.site.operations:
        path = operation.path.format(name="NAME", id="ID")
        assert f"`{operation.method} {path}`" in text, path


def test_the_handbook_says_who_may_call_what(listener: Listener) -> None:
    table = "\n".join(access_table(listener.api.routes))
    assert f"\n\n{table}\n\n" in SECURITY.read_text(), (
        f"the table of the listener in docs/security.md should be\n{table}"
    )


def test_nobody_is_served_unsigned_but_with_health_and_the_document(listener: Listener) -> None:
    for operation in listener.site.operations:
        listener.clock.advance(10.0)
        kind = {"Content-Type": "application/json"} if operation.forms else {}
        answer = listener.site.ask(operation.method, operation.path.format(name="gpu-runners", id="a"), b"{}", kind)
        listener.site.check(operation, answer)
        open_to_all = operation.path in ("/healthz", DOCUMENT)
        assert (answer.status == 401) is ("security" in operation.said) is not open_to_all, operation.path


def test_other_methods_types_and_targets_are_refused_as_described(listener: Listener) -> None:
    for path, methods in listener.site.document["paths"].items():
        known = {method.upper() for method in methods} | ({"HEAD"} if "get" in methods else set())
        for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - known:
            answer = listener.site.ask(method, path.format(name="x", id="a"))
            assert (answer.status, set(answer.headers["Allow"].split(", "))) == (405, known)
    for operation in listener.site.operations:
        if operation.forms:
            assert listener.ask(operation, b"{}", "text/plain").status == 415
        if "{name}" in operation.path:
            body = b'{"amount": 1, "requestId": "r"}' if operation.forms else b""
            assert listener.ask(operation, body, target="other").status == 404


@pytest.mark.parametrize("name", NO_OBJECTS)
def test_bodies_that_are_none_are_refused_as_described(listener: Listener, name: str) -> None:
    body = NO_OBJECTS[name]
    for operation in listener.site.operations:
        if operation.forms:
            wanted = {400, 422} if name == "half a pair" else {413} if len(body) > 100_000 else {400}
            assert listener.ask(operation, body).status in wanted


def test_bodies_of_every_shape_are_answered_as_described(listener: Listener) -> None:
    dice = random.Random(SEED)
    for operation in listener.site.operations:
        if not operation.forms:
            continue
        for number in range(BODIES):
            body: Any = json.loads(valid(listener.site, operation, dice))
            for _ in range(1 + number % 2):
                body = spoilt(body, dice)
            assert listener.ask(operation, json.dumps(body).encode()).status in (200, 202, 404, 422)


@pytest.mark.parametrize(
    ("body", "code"), [(b"payload=%7B%7D", 422), (b"payload=1&payload=2", 400), (b"", 400), (b"a=%FF&b=\xff", 400)]
)
def test_forms_are_answered_as_described(listener: Listener, body: bytes, code: int) -> None:
    webhook = next(operation for operation in listener.site.operations if FORM in operation.forms)
    assert listener.ask(webhook, body, FORM).status == code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param("", 415, id="no content type"),
        pytest.param("Content-Type: application/json\r\n", 401, id="no signature"),
        pytest.param("Content-Type: application/json\r\nX-CA-Signature-256: sha256=0\r\n", 401, id="no digest"),
        pytest.param(
            f"Content-Type: application/json\r\nX-CA-Signature-256: sha256={'0' * 64}\r\nX-CA-Timestamp: 1\r\n",
            401,
            id="a stale time",
        ),
    ],
)
def test_a_head_that_will_not_do_is_refused_before_its_body_is_read(
    listener: Listener, headers: str, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as connection:
        head = f"POST /v1/targets/gpu-runners/scale HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: 90000\r\n\r\n"
        connection.sendall(head.encode())
        assert int(connection.recv(65536)[9:12]) == status


def test_a_body_is_proven_piece_by_piece(listener: Listener) -> None:
    stamp = str(int(listener.clock.now().wall))
    body = json.dumps({"amount": 1, "requestId": "r", "x": "y" * 50_000}).encode()
    stored(listener.inbox)
    for secret, status in ((API, 422), (b"wrong", 401)):
        headers = {"Content-Type": "application/json", API_SIGNATURE[1]: stamp}
        headers[API_SIGNATURE[0]] = sign(secret, f"{stamp}.".encode() + body)
        pieces = (body[at : at + 1000] for at in range(0, len(body), 1000))
        with closing(http.client.HTTPConnection("127.0.0.1", listener.port, timeout=10)) as connection:
            connection.request("POST", "/v1/targets/gpu-runners/scale", pieces, headers, encode_chunked=True)
            assert connection.getresponse().status == status


def test_whoever_signs_wrongly_too_often_is_told_when_to_come_again(listener: Listener) -> None:
    one = next(operation for operation in listener.site.operations if operation.path == "/v1/targets")
    answers = [listener.site.ask("GET", one.path) for _ in range(21)]
    for answer in answers:
        listener.site.check(one, answer)
    assert [answer.status for answer in answers] == [401] * 20 + [429]
    assert int(answers[-1].headers["Retry-After"]) > 0
