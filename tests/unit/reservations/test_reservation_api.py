"""The listener for announced work: its answer to each kind of client. The names of acceptance tests begin with their
id.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from autoscaler.clock import VirtualClock
from autoscaler.config.reservations import Auth, Reservations, SecretFile, read_reservations
from autoscaler.observe.http.routing import Request, Response, route
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.reasons import NoReservation
from autoscaler.reservations.api import ReservationApi
from autoscaler.reservations.metrics import RESERVATIONS, ReservationMetrics
from autoscaler.reservations.plan import Operation, OperationResult, OperationVerdict
from autoscaler.reservations.signature import sign
from tests.unit.reservations.test_github_jobs import BODY

GITHUB, API = b"github-secret-0123", b"api-secret-0123456"
NOW = 1_785_578_400


class Receipt:
    def __init__(self, effect: OperationResult | None) -> None:
        self._effect = effect

    def wait(self, seconds: float) -> OperationResult | None:
        return self._effect


class FakeInbox:
    """Takes operations and answers as it is told; nothing is stored."""

    def __init__(self, section: Reservations) -> None:
        self.section = section
        self.loaded = self.accepting = True
        self.broken = ""
        self.full = False
        self.effect: OperationResult | None = OperationResult(verdict=OperationVerdict.ADDED, amount=1)
        self.taken: list[Operation] = []

    def put(self, item: Operation) -> Receipt | None:
        if self.full:
            return None
        self.taken.append(item)
        return Receipt(self.effect)

    def unreadable(self, target: str) -> str:
        return self.broken

    def remembers(self, delivery: str, wall: float) -> bool:
        return any(one.delivery == delivery for one in self.taken)


class Door:
    """The listener without a socket."""

    def __init__(self, github: Iterable[bytes] = (GITHUB,), api: Iterable[bytes] = (API,), **fields: Any) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
        target = {
            "name": "gpu-runners",
            "podTemplate": {"spec": {"containers": [container]}},
            "github": {"repositories": ["acme/*"], "labels": ["gpu", "linux", "x64"]},
        }
        self.inbox = FakeInbox(read_reservations({"targets": [target], **fields}, -10))
        self.clock = VirtualClock(wall=NOW)
        self.metrics = Metrics()
        self.metrics.start()
        counted = ReservationMetrics(self.metrics.companion(RESERVATIONS))
        self._api = ReservationApi(self.inbox, tuple, github, api, counted, self.clock)

    def ask(self, method: str, path: str, body: bytes = b"", source: str = "192.0.2.1", **headers: str) -> Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return route(self._api.routes, Request(method, path, {}, named, body, source))

    def webhook(self, body: bytes = BODY, secret: bytes = GITHUB, **headers: str) -> Response:
        given = {
            "content_type": "application/json",
            "x_github_event": "workflow_job",
            "x_github_delivery": "d-1",
            "x_hub_signature_256": sign(secret, body),
            **headers,
        }
        return self.ask("POST", "/webhooks/github", body, **{name: value for name, value in given.items() if value})

    def api(self, method: str, path: str, content: Any = None, stamp: int = NOW, **headers: str) -> Response:
        body = b"" if content is None else json.dumps(content).encode()
        signature = sign(API, f"{stamp}.".encode() + body)
        given = {"content_type": "application/json", "x_ca_timestamp": str(stamp), "x_ca_signature_256": signature}
        return self.ask(method, path, body, **{**given, **headers})

    def scale(self, target: str = "gpu-runners", **content: Any) -> Response:
        return self.api("POST", f"/v1/targets/{target}/scale", {"amount": 3, "requestId": "r-1", **content})

    def scrape(self) -> str:
        return self.metrics.scrape().decode()


def content(response: Response) -> Any:
    return json.loads(response.body)


def problem(response: Response) -> tuple[int, str]:
    return response.status, content(response)["error"]["code"]


def test_c17_a_delivery_is_taken_by_its_signature_under_any_secret_and_by_no_other() -> None:
    door = Door(github=(b"another-secret-01", b"s3cret-for-tests"))
    given = "sha256=84a43788121581a4e16bb15bf62c7ee70fba6ac634160f5b8f8df270a6b39daf"
    taken = door.webhook(x_hub_signature_256=given)
    assert (taken.status, content(taken)) == (202, {"status": "accepted", "target": "gpu-runners", "amount": 1})
    flipped = door.webhook(BODY.replace(b"101", b"100"), x_hub_signature_256=given, x_github_delivery="d-2")
    assert problem(flipped) == (401, "invalid_signature")
    (operation,) = door.inbox.taken
    assert (operation.amount, operation.length_s, operation.source.job) == (1, 600.0, 101)


def test_c18_the_same_delivery_again_is_a_duplicate() -> None:
    door = Door()
    assert door.webhook().status == 202
    assert (door.webhook().status, content(door.webhook())) == (200, {"status": "duplicate"})
    assert len(door.inbox.taken) == 1


def test_c23_what_is_not_stored_in_time_and_what_finds_no_room_comes_again() -> None:
    door = Door()
    door.inbox.effect = None
    late = door.webhook()
    assert (problem(late), late.headers["Retry-After"]) == ((503, "not_stored"), "3")
    door.inbox.full = True
    full = door.webhook(x_github_delivery="d-2")
    assert (problem(full), full.headers["Retry-After"]) == ((503, "queue_full"), "3")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({"x_hub_signature_256": ""}, (401, "invalid_signature"), id="no signature"),
        pytest.param({"x_hub_signature_256": "sha256=" + "0" * 63}, (401, "invalid_signature"), id="63 digits"),
        pytest.param({"x_hub_signature_256": "", "x_hub_signature": "sha1=0"}, (401, "invalid_signature"), id="sha1"),
        pytest.param({"content_type": "text/plain"}, (415, "unsupported_media_type"), id="content type"),
        pytest.param({"x_github_event": ""}, (400, "missing_header"), id="no event"),
        pytest.param({"x_github_delivery": ""}, (400, "missing_header"), id="no delivery"),
    ],
)
def test_bad_heads(headers: dict[str, Any], expected: tuple[int, str]) -> None:
    assert problem(Door().webhook(**headers)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"not json", (400, "invalid_json")),
        (b"[]", (400, "invalid_json")),
        (b'{"action":"queued","action":"queued"}', (400, "invalid_json")),
        (b'{"action":"queued"}', (422, "invalid_field")),
        (BODY.replace(b'["self-hosted","gpu"]', b'"gpu"'), (422, "invalid_field")),
        (BODY.replace(b"101", b'"101"'), (422, "invalid_field")),
    ],
)
def test_bad_bodies(body: bytes, expected: tuple[int, str]) -> None:
    assert problem(Door().webhook(body)) == expected


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b'{"zen":"x"}', {"x_github_event": "ping"}, {"status": "pong"}),
        (b"{}", {"x_github_event": "push"}, {"status": "ignored", "reason": "event"}),
        (BODY.replace(b"queued", b"waiting"), {}, {"status": "ignored", "reason": "action"}),
        (BODY.replace(b"acme/app", b"else/app"), {}, {"status": "ignored", "reason": "no_target"}),
    ],
)
def test_what_is_no_announcement_is_fine(body: bytes, headers: dict[str, Any], expected: dict[str, str]) -> None:
    answered = Door().webhook(body, **headers)
    assert (answered.status, content(answered)) == (200, expected)


def test_a_form_holds_the_payload() -> None:
    body = b"payload=%7B%22zen%22%3A%22x%22%7D"
    form: dict[str, Any] = {"content_type": "application/x-www-form-urlencoded", "x_github_event": "ping"}
    assert content(Door().webhook(body, **form)) == {"status": "pong"}
    assert problem(Door().webhook(b"a=1", **form)) == (400, "invalid_json")


def test_methods_come_before_paths() -> None:
    door = Door()
    assert problem(door.ask("GET", "/webhooks/github")) == (405, "method_not_allowed")
    assert problem(door.ask("PUT", "/nothing")) == (405, "method_not_allowed")
    assert problem(door.ask("POST", "/nothing")) == (404, "not_found")
    assert door.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        *(({"amount": amount}, "amount") for amount in (0, 1.5, "3", 1001, True, None)),
        *(({"duration": text}, "duration") for text in ("0s", "-1m", "30", "25h", 30)),
        *(({"requestId": text}, "requestId") for text in ("", "x" * 129, "\n", 3)),
        ({"amout": 3}, "amout"),
    ],
)
def test_bad_fields_of_the_api_are_named(fields: dict[str, Any], field: str) -> None:
    answered = Door().scale(**fields)
    assert (answered.status, content(answered)["error"]["field"]) == (422, field)


def test_the_api_takes_amounts_and_knows_its_targets() -> None:
    door = Door()
    door.inbox.effect = OperationResult(verdict=OperationVerdict.ADDED, amount=3)
    taken = door.scale(duration="30m")
    assert (taken.status, content(taken)) == (202, {"status": "accepted", "target": "gpu-runners", "amount": 3})
    assert (door.inbox.taken[0].amount, door.inbox.taken[0].length_s) == (3, 1800.0)
    assert problem(door.scale("other", requestId="r-2")) == (404, "unknown_target")
    assert content(door.scale()) == {"status": "duplicate"}


def test_a_stamp_that_is_off_is_stale() -> None:
    door = Door()
    assert problem(door.api("GET", "/v1/targets", stamp=NOW - 301)) == (401, "stale")
    assert door.api("GET", "/v1/targets", stamp=NOW - 300).status == 200
    assert problem(door.ask("GET", "/v1/targets")) == (401, "invalid_signature")


def test_an_operator_removes_one() -> None:
    door = Door()
    door.inbox.effect = OperationResult(verdict=OperationVerdict.REMOVED, amount=-1)
    assert door.api("DELETE", "/v1/targets/gpu-runners/reservations/abc").status == 200
    assert door.inbox.taken[0].entry == "abc"
    door.inbox.effect = OperationResult(verdict=OperationVerdict.IGNORED, reason=NoReservation.NOTHING_RESERVED)
    assert problem(door.api("DELETE", "/v1/targets/gpu-runners/reservations/abc")) == (404, "unknown_reservation")


UNSIGNED: dict[str, Any] = {"x_hub_signature_256": ""}


def test_twenty_wrong_signatures_turn_a_source_away_for_a_minute_and_no_other() -> None:
    door = Door()
    for _ in range(20):
        assert problem(door.webhook(secret=b"wrong")) == (401, "invalid_signature")
    for wrong in (door.webhook(secret=b"wrong"), door.webhook(**UNSIGNED)):
        assert problem(wrong) == (429, "too_many_failures")
        assert wrong.headers["Retry-After"] == "61"
    assert problem(door.webhook(secret=b"wrong", source="192.0.2.2")) == (401, "invalid_signature")
    door.clock.advance(60.1)
    assert problem(door.webhook(secret=b"wrong")) == (401, "invalid_signature")
    assert "cluster_autoscaler_webhook_signature_failures_total 24" in door.scrape()


def test_whoever_signs_correctly_is_heard_whatever_others_at_the_same_address_did() -> None:
    door = Door()
    for _ in range(30):
        door.webhook(secret=b"wrong")
    assert door.webhook().status == 202
    assert door.api("GET", "/v1/targets").status == 200


def test_behind_a_trusted_proxy_the_client_counts() -> None:
    door = Door(trustedProxies=["192.0.2.0/24"])
    for _ in range(20):
        door.webhook(secret=b"wrong", x_forwarded_for="203.0.113.7, 192.0.2.9")
    assert door.webhook(x_forwarded_for="203.0.113.7", **UNSIGNED).status == 429
    assert door.webhook(x_forwarded_for="203.0.113.8", **UNSIGNED).status == 401


def test_whose_secrets_are_read_says_so_first() -> None:
    """Nobody makes us read files who does not even send what could be a signature."""

    class Counted:
        read = 0

        def __iter__(self) -> Iterator[bytes]:
            self.read += 1
            yield GITHUB

    secrets = Counted()
    door = Door(github=secrets)
    for headers in (UNSIGNED, {"x_hub_signature_256": "sha256=no"}, {"content_type": "text/plain"}):
        door.webhook(**headers)
    assert secrets.read == 0
    assert (door.webhook().status, secrets.read) == (202, 1)


def test_nothing_is_taken_before_the_store_is_read_nor_at_the_end() -> None:
    door = Door()
    door.inbox.loaded = False
    assert problem(door.webhook()) == (503, "starting")
    assert problem(door.ask("GET", "/healthz")) == (503, "starting")
    door.inbox.accepting = False
    assert problem(door.webhook()) == (503, "stopping")


def test_a_target_whose_state_is_unreadable_takes_nothing() -> None:
    door = Door()
    door.inbox.broken = "newer"
    assert problem(door.webhook()) == (503, "state_unreadable")


def test_unsigned_is_taken_only_where_that_is_configured() -> None:
    assert problem(Door(github=()).webhook()) == (401, "invalid_signature")
    open_door = Door(github=(), api=(), auth={"insecureAllowUnsigned": True})
    assert open_door.webhook(x_hub_signature_256="").status == 202
    with_secret = Auth(api_secrets=(SecretFile(file="x"),), insecure_allow_unsigned=True)
    assert with_secret.files


def test_answers_never_hold_what_was_sent() -> None:
    door = Door()
    for body in (b'{"secret-word', b'{"action":"secret-word"}'):
        assert b"secret-word" not in door.webhook(body).body
