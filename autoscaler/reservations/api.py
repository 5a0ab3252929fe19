"""The listener for announced work: which requests it accepts, from which clients, and how it answers.

The cheapest checks come first: those of the head precede the body, and only signed bodies are parsed. A 2xx means that
the announcement is stored. If storing takes too long, the answer is 503. The announcement may still be stored, so
clients can safely send it again. Answers never repeat the body or any part of a secret. Source: `docs/reservations.md`.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec

from autoscaler.clock import Clock
from autoscaler.logs import Log
from autoscaler.observe.http.endpoint import EndpointRoutes
from autoscaler.observe.http.openapi import with_document
from autoscaler.observe.http.public_json import public_json
from autoscaler.observe.http.routing import JSON, HttpProblem, Request, Response
from autoscaler.observe.strict_json import read_object
from autoscaler.ports import Inbox
from autoscaler.reasons import NoReservation
from autoscaler.reservations import github_jobs
from autoscaler.reservations.authentication import AGAIN, IntakeStatus, RequestAuthenticator, header, kind_of, prove
from autoscaler.reservations.github_jobs import BadField
from autoscaler.reservations.metrics import ReservationMetrics
from autoscaler.reservations.plan import Operation, OperationResult, OperationVerdict
from autoscaler.reservations.routes import (
    ABOUT,
    DOCUMENT,
    FORM,
    LARGEST_AMOUNT,
    LONGEST_ID,
    SCALE,
    WEBHOOK,
    Accepted,
    Authenticators,
    Removed,
    Unchanged,
    listener_routes,
)
from autoscaler.reservations.state import AnnouncementSource, ledger_key
from autoscaler.reservations.status import ReservationStatus, TargetStatus
from cloudprovider.duration import parse_duration_s

log = Log(__name__)

BODY_S = 5.0
"""Seconds within which a body must arrive."""
_ANSWER_S = 8.0
"""Seconds within which every announcement is answered, counted from the first byte."""


class AnnouncementInbox(IntakeStatus, Inbox[Operation, OperationResult], Protocol):
    """Stores announcements, and reports its own state."""

    def unreadable(self, target: str) -> str:
        """Return why a target's stored state is unreadable; empty if it is readable."""
        ...

    def remembers(self, delivery: str, wall: float) -> bool:
        """Whether a delivery is known to be stored."""
        ...


class ReservationApi:
    """Answers requests, on any thread."""

    def __init__(
        self,
        inbox: AnnouncementInbox,
        targets: Callable[[], tuple[TargetStatus, ...]],
        github: Iterable[bytes],
        api: Iterable[bytes],
        metrics: ReservationMetrics,
        clock: Clock,
        answer_s: float = _ANSWER_S,
    ) -> None:
        """`targets` returns their state, as recent as possible. `github` and `api` return the secrets and are called
        for each request; `answer_s` limits the time of a response in seconds.
        """
        self._inbox = inbox
        self._targets = targets
        self._authenticator = RequestAuthenticator(inbox, github, api, metrics, clock)
        self._metrics = metrics
        self._clock = clock
        self._answer_s = answer_s
        for path in (WEBHOOK, SCALE):
            metrics.announced_at(path)

    @property
    def routes(self) -> EndpointRoutes:
        """The routes of the listener, including the document that describes them."""
        authenticators = Authenticators(
            github=self._authenticator.authenticate_github,
            announcing=lambda head: self._authenticator.authenticate_api(head, JSON),
            operating=self._authenticator.authenticate_api,
        )
        routes = listener_routes(
            authenticators,
            webhook=self._webhook,
            listed=self._list,
            shown=self._show,
            scale=self._scale,
            delete=self._delete,
            health=self._health,
        )
        return with_document(routes, ABOUT, DOCUMENT)

    # Announcements.

    def _webhook(self, request: Request) -> Response:
        prove(request, self._authenticator.authenticate_github)
        event, delivery = (header(request, name) for name in ("x-github-event", "x-github-delivery"))
        data = _json(_payload(request.body) if kind_of(request) == FORM else request.body)
        if event == "ping":
            return _answer(200, Unchanged(status="pong"))
        key = ledger_key("github", delivery)
        try:
            job_event = github_jobs.read_event(data) if event == github_jobs.EVENT else None
        except BadField as error:
            raise HttpProblem(422, "invalid_field", f"{error.field} {error}", error.field) from error
        if self._inbox.remembers(key, self._clock.now().wall):
            return self._ignored("", NoReservation.DUPLICATE, delivery=delivery)
        if job_event is None:
            return self._ignored("", NoReservation.EVENT, delivery=delivery)
        about = {
            "delivery": delivery[:LONGEST_ID],
            "action": job_event.action,
            "repository": job_event.repository,
            "job": job_event.job_id,
        }
        amount = github_jobs.change(job_event)
        if isinstance(amount, NoReservation):
            return self._ignored("", amount, **about)
        target = github_jobs.choose(self._inbox.section.targets, job_event)
        if isinstance(target, NoReservation):
            return self._ignored("", target, **about)
        operation = Operation(
            target=target.name,
            amount=amount,
            length_s=target.default_duration_s,
            delivery=key,
            seed=secrets.token_hex(16),
            job=job_event.job,
            source=AnnouncementSource(
                "github", repository=job_event.repository, job=job_event.job_id, attempt=job_event.attempt
            ),
            accepted=self._clock.now(),
        )
        return self._accepted(operation, request, about)

    def _scale(self, request: Request) -> Response:
        prove(request, lambda head: self._authenticator.authenticate_api(head, JSON))
        data = _json(request.body)
        target = self._inbox.section.by_name.get(_segment(request, 3))
        amount, id_ = _amount(data), _request_id(data)
        longest_s = 24 * 3600.0 if target is None else target.max_duration_s
        length_s = _duration(data, longest_s, 0.0 if target is None else target.default_duration_s)
        for name in data.keys() - {"amount", "duration", "requestId"}:
            raise HttpProblem(422, "invalid_field", "there is no such field", str(name)[:100])
        key = ledger_key("api", id_)
        if self._inbox.remembers(key, self._clock.now().wall):
            return self._ignored("" if target is None else target.name, NoReservation.DUPLICATE, request=id_)
        if target is None:
            raise HttpProblem(404, "unknown_target", "there is no such target")
        operation = Operation(
            target=target.name,
            amount=amount,
            length_s=length_s,
            delivery=key,
            seed=secrets.token_hex(16),
            source=AnnouncementSource("api", request=id_),
            accepted=self._clock.now(),
        )
        return self._accepted(operation, request, {"request": id_, "amount": amount})

    def _delete(self, request: Request) -> Response:
        prove(request, self._authenticator.authenticate_api)
        target, entry = self._known_target(request), _segment(request, 5)
        operation = Operation(target=target, entry=entry, accepted=self._clock.now())
        effect = self._stored(operation, request, {"entry": entry[:LONGEST_ID]})
        if effect.verdict is not OperationVerdict.REMOVED:
            raise HttpProblem(404, "unknown_reservation", "there is no such reservation")
        return _answer(200, Removed(target=target))

    def _accepted(self, operation: Operation, request: Request, about: Mapping[str, object]) -> Response:
        effect = self._stored(operation, request, about)
        if effect.verdict is OperationVerdict.DUPLICATE:
            return _answer(200, Unchanged(status="duplicate"))
        if effect.reason is NoReservation.JOB_COMPLETED:
            return _answer(200, Unchanged(status="ignored", reason=effect.reason))
        amount = operation.amount if effect.verdict is OperationVerdict.IGNORED else effect.amount
        return _answer(202, Accepted(target=operation.target, amount=amount))

    def _stored(self, operation: Operation, request: Request, about: Mapping[str, object]) -> OperationResult:
        """Submit an operation and wait until it is stored; raises `HttpProblem` if it is rejected or not stored in
        time.
        """
        name = operation.target
        if self._inbox.unreadable(name):
            self._metrics.ignored(name, NoReservation.STATE_UNREADABLE)
            raise _later(NoReservation.STATE_UNREADABLE, "the stored state cannot be understood; an operator must look")
        receipt = self._inbox.put(operation)
        if receipt is None:
            self._metrics.ignored(name, NoReservation.QUEUE_FULL)
            raise _later(NoReservation.QUEUE_FULL, "too much waits to be stored; try again")
        effect = receipt.wait(max(0.0, self._answer_s - request.took_s))
        log.info("reservations.announced", target=name, verdict=effect and effect.verdict, **about)
        if effect is None:
            raise _later(NoReservation.NOT_STORED, "it is not stored yet; try again, it counts once")
        if effect.verdict is OperationVerdict.REFUSED:
            reason = effect.reason or NoReservation.QUEUE_LIMIT
            raise _later(reason, f"it was not taken: {reason.replace('_', ' ')}")
        return effect

    def _ignored(self, target: str, reason: NoReservation, **about: object) -> Response:
        self._metrics.ignored(target, reason)
        log.info("reservations.ignored", target=target, reason=reason, **about)
        if reason is NoReservation.DUPLICATE:
            return _answer(200, Unchanged(status="duplicate"))
        return _answer(200, Unchanged(status="ignored", reason=reason))

    # Reading.

    def _list(self, request: Request) -> Response:
        prove(request, self._authenticator.authenticate_api)
        return _answer(200, ReservationStatus(self._targets()))

    def _show(self, request: Request) -> Response:
        prove(request, self._authenticator.authenticate_api)
        name = self._known_target(request)
        return _answer(200, next(target for target in self._targets() if target.name == name))

    def _health(self, request: Request) -> Response:
        self._authenticator.ready()
        return Response(b"ok\n")

    def _known_target(self, request: Request) -> str:
        name = _segment(request, 3)
        if name not in self._inbox.section.by_name:
            raise HttpProblem(404, "unknown_target", "there is no such target")
        return name


def _segment(request: Request, number: int) -> str:
    return request.path.split("/")[number]


def _answer(status: int, content: msgspec.Struct) -> Response:
    return Response(public_json(content), JSON, status)


def _later(reason: NoReservation, message: str) -> HttpProblem:
    return HttpProblem(503, reason.value, message, headers=AGAIN)


def _payload(body: bytes) -> bytes:
    try:
        fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=2)
    except ValueError:
        fields = {}
    payload = fields.get("payload", [])
    if len(payload) != 1:
        raise HttpProblem(400, "invalid_json", "the form has not one field payload")
    return payload[0].encode()


def _json(body: bytes) -> dict[str, Any]:
    try:
        return read_object(body)
    except (ValueError, RecursionError) as error:
        raise HttpProblem(400, "invalid_json", "the body is no JSON object, or has a key twice") from error


def _amount(data: Mapping[str, Any]) -> int:
    amount = data.get("amount")
    if type(amount) is not int or amount == 0 or abs(amount) > LARGEST_AMOUNT:
        raise HttpProblem(422, "invalid_field", "amount is not a whole number within -1000..1000 but 0", "amount")
    return amount


def _duration(data: Mapping[str, Any], longest_s: float, default_s: float) -> float:
    if "duration" not in data:
        return default_s
    text = data["duration"]
    try:
        seconds = parse_duration_s(text) if isinstance(text, str) else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= longest_s:
        message = f"duration is not a duration such as 30m, longer than 0s and at most {longest_s:g}s"
        raise HttpProblem(422, "invalid_field", message, "duration")
    return seconds


def _request_id(data: Mapping[str, Any]) -> str:
    value = data.get("requestId")
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_ID or not (value.isascii() and value.isprintable()):
        raise HttpProblem(422, "invalid_field", f"requestId is not 1 to {LONGEST_ID} printable characters", "requestId")
    return value
