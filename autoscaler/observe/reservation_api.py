"""The listener for announced work: what it takes, from whom, and what it answers.

Checks come cheapest first, those of the head before a body is read, and nothing is parsed that is not signed. A 2xx to
an announcement means that it is stored; what is not stored in time answers 503, and may be stored all the same: sending
it again is harmless. Answers never repeat the body or any part of a secret. Source: `docs/reservations.md`.
"""

import ipaddress
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec

from autoscaler.clock import Clock
from autoscaler.companions import github_jobs
from autoscaler.companions.github_jobs import BadField
from autoscaler.companions.reservation_auth import Proof, timely
from autoscaler.companions.reservation_state import Source, ledger_key
from autoscaler.companions.reservations import Effect, Operation, Verdict
from autoscaler.companions.strict_json import read_object
from autoscaler.config.reservations import Reservations
from autoscaler.config.syntax import parse_duration
from autoscaler.observe.endpoint import Described
from autoscaler.observe.logs import Log
from autoscaler.observe.openapi import with_document
from autoscaler.observe.public import public_json
from autoscaler.observe.reservation_metrics import ReservationMetrics
from autoscaler.observe.reservation_routes import (
    ABOUT,
    API_SIGNATURE,
    DOCUMENT,
    FORM,
    GITHUB_SIGNATURE,
    LARGEST_AMOUNT,
    LONGEST_ID,
    SCALE,
    WEBHOOK,
    Accepted,
    Admitting,
    Removed,
    Unchanged,
    listener_routes,
)
from autoscaler.observe.reservation_status import ReservationStatus, TargetStatus
from autoscaler.observe.routing import JSON, HttpProblem, Request, Response, Seal
from autoscaler.observe.secret_files import Patience
from autoscaler.ports import Inbox
from autoscaler.reasons import NoReservation

log = Log(__name__)

BODY_S = 5.0
"""Within so long a body has to have arrived."""
_ANSWER_S = 8.0
"""Within so long, counted from the first byte, every announcement is answered."""
_AGAIN = {"Retry-After": "3"}
_GITHUB_HEADERS = ("x-github-event", "x-github-delivery")


class Desk(Inbox[Operation, Effect], Protocol):
    """Where announcements go, and what is known there."""

    @property
    def section(self) -> Reservations:
        """The configuration in force."""
        ...

    @property
    def loaded(self) -> bool:
        """Whether what is stored has been read."""
        ...

    @property
    def accepting(self) -> bool:
        """Whether operations are taken."""
        ...

    def unreadable(self, target: str) -> str:
        """Return why a target's stored state cannot be understood; empty where it can."""
        ...

    def remembers(self, delivery: str, wall: float) -> bool:
        """Whether a delivery is known to have been stored."""
        ...


class Targets(Protocol):
    """Tells how targets are, as fresh as can be had."""

    def __call__(self) -> tuple[TargetStatus, ...]:
        """Return all targets."""
        ...


class ReservationApi:
    """Answers requests, on any thread."""

    def __init__(
        self,
        desk: Desk,
        targets: Targets,
        github: Iterable[bytes],
        api: Iterable[bytes],
        metrics: ReservationMetrics,
        clock: Clock,
        answer_s: float = _ANSWER_S,
    ) -> None:
        """`github` and `api` are the secrets, to be gone through anew for each request; `answer_s` bounds answers."""
        self._desk = desk
        self._targets = targets
        self._github = github
        self._api = api
        self._metrics = metrics
        self._clock = clock
        self._answer_s = answer_s
        self._patience = Patience(lambda: clock.now().mono)
        for path in (WEBHOOK, SCALE):
            metrics.announced_at(path)
        self._proxies = tuple(ipaddress.ip_network(one) for one in desk.section.trusted_proxies)

    @property
    def routes(self) -> Described:
        """The routes of the listener, and the document that describes them."""
        admits = Admitting(
            github=self._admits_github,
            announcing=lambda head: self._admits_api(head, JSON),
            operating=self._admits_api,
        )
        routes = listener_routes(
            admits,
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
        _prove(request, self._admits_github)
        event, delivery = (_header(request, name) for name in _GITHUB_HEADERS)
        data = _json(_payload(request.body) if _kind(request) == FORM else request.body)
        if event == "ping":
            return _answer(200, Unchanged(status="pong"))
        key = ledger_key("github", delivery)
        try:
            found = github_jobs.read_event(data) if event == github_jobs.EVENT else None
        except BadField as error:
            raise HttpProblem(422, "invalid_field", f"{error.field} {error}", error.field) from error
        if self._desk.remembers(key, self._clock.now().wall):
            return self._ignored("", NoReservation.DUPLICATE, delivery=delivery)
        if found is None:
            return self._ignored("", NoReservation.EVENT, delivery=delivery)
        about = {
            "delivery": delivery[:LONGEST_ID],
            "action": found.action,
            "repository": found.repository,
            "job": found.job_id,
        }
        amount = github_jobs.change(found)
        if isinstance(amount, NoReservation):
            return self._ignored("", amount, **about)
        target = github_jobs.choose(self._desk.section.targets, found)
        if isinstance(target, NoReservation):
            return self._ignored("", target, **about)
        operation = Operation(
            target=target.name,
            amount=amount,
            length_s=target.default_duration_s,
            delivery=key,
            seed=secrets.token_hex(16),
            job=found.job,
            source=Source("github", repository=found.repository, job=found.job_id, attempt=found.attempt),
            accepted=self._clock.now(),
        )
        return self._accepted(operation, request, about)

    def _scale(self, request: Request) -> Response:
        _prove(request, lambda head: self._admits_api(head, JSON))
        data = _json(request.body)
        target = self._desk.section.by_name.get(_segment(request, 3))
        amount, id_ = _amount(data), _request_id(data)
        longest_s = 24 * 3600.0 if target is None else target.max_duration_s
        length_s = _duration(data, longest_s, 0.0 if target is None else target.default_duration_s)
        for name in data.keys() - {"amount", "duration", "requestId"}:
            raise HttpProblem(422, "invalid_field", "there is no such field", str(name)[:100])
        key = ledger_key("api", id_)
        if self._desk.remembers(key, self._clock.now().wall):
            return self._ignored("" if target is None else target.name, NoReservation.DUPLICATE, request=id_)
        if target is None:
            raise HttpProblem(404, "unknown_target", "there is no such target")
        operation = Operation(
            target=target.name,
            amount=amount,
            length_s=length_s,
            delivery=key,
            seed=secrets.token_hex(16),
            source=Source("api", request=id_),
            accepted=self._clock.now(),
        )
        return self._accepted(operation, request, {"request": id_, "amount": amount})

    def _delete(self, request: Request) -> Response:
        _prove(request, self._admits_api)
        target, entry = self._known_target(request), _segment(request, 5)
        operation = Operation(target=target, entry=entry, accepted=self._clock.now())
        effect = self._stored(operation, request, {"entry": entry[:LONGEST_ID]})
        if effect.verdict is not Verdict.REMOVED:
            raise HttpProblem(404, "unknown_reservation", "there is no such reservation")
        return _answer(200, Removed(target=target))

    def _accepted(self, operation: Operation, request: Request, about: Mapping[str, object]) -> Response:
        effect = self._stored(operation, request, about)
        if effect.verdict is Verdict.DUPLICATE:
            return _answer(200, Unchanged(status="duplicate"))
        if effect.reason is NoReservation.JOB_COMPLETED:
            return _answer(200, Unchanged(status="ignored", reason=effect.reason))
        amount = operation.amount if effect.verdict is Verdict.IGNORED else effect.amount
        return _answer(202, Accepted(target=operation.target, amount=amount))

    def _stored(self, operation: Operation, request: Request, about: Mapping[str, object]) -> Effect:
        """Hand an operation in and wait until it is stored; raises `HttpProblem` where it is not, or not in time."""
        name = operation.target
        if self._desk.unreadable(name):
            self._metrics.ignored(name, NoReservation.STATE_UNREADABLE)
            raise _later(NoReservation.STATE_UNREADABLE, "the stored state cannot be understood; an operator must look")
        receipt = self._desk.put(operation)
        if receipt is None:
            self._metrics.ignored(name, NoReservation.QUEUE_FULL)
            raise _later(NoReservation.QUEUE_FULL, "too much waits to be stored; try again")
        effect = receipt.wait(max(0.0, self._answer_s - request.took_s))
        log.info("reservations.announced", target=name, verdict=effect and effect.verdict, **about)
        if effect is None:
            raise _later(NoReservation.NOT_STORED, "it is not stored yet; try again, it counts once")
        if effect.verdict is Verdict.REFUSED:
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
        _prove(request, self._admits_api)
        return _answer(200, ReservationStatus(self._targets()))

    def _show(self, request: Request) -> Response:
        _prove(request, self._admits_api)
        name = self._known_target(request)
        return _answer(200, next(one for one in self._targets() if one.name == name))

    def _health(self, request: Request) -> Response:
        self._ready()
        return Response(b"ok\n")

    # Who may.

    def _ready(self) -> None:
        if not self._desk.accepting:
            raise HttpProblem(503, "stopping", "this replica is about to end", headers=_AGAIN)
        if not self._desk.loaded:
            raise HttpProblem(503, "starting", "what is stored has not been read yet", headers=_AGAIN)

    def _admits_github(self, head: Request) -> Seal:
        self._ready()
        _content_type(head, JSON, FORM)
        seal = self._seal(head, GITHUB_SIGNATURE, self._github)
        for name in _GITHUB_HEADERS:
            _header(head, name)
        return seal

    def _admits_api(self, head: Request, *kinds: str) -> Seal:
        self._ready()
        if kinds:
            _content_type(head, *kinds)
        signature, stamped = API_SIGNATURE
        stamp = head.headers.get(stamped.lower(), "")
        seal = self._seal(head, signature, self._api, stamp.encode("latin-1", "replace") + b".")
        if isinstance(seal, _Signed) and not timely(stamp, self._clock.now().wall):
            self._metrics.not_signed()
            raise HttpProblem(401, "stale", f"{stamped} is missing or more than 300 seconds off")
        return seal

    def _seal(self, head: Request, header: str, keys: Iterable[bytes], begins: bytes = b"") -> Seal:
        """Return what checks the body's signature. Raises `HttpProblem` where there is none, before the body is read.

        Whoever was wrong too often may still prove to be somebody else at the same address.
        """
        auth = self._desk.section.auth
        if auth.insecure_allow_unsigned and not auth.files and not list(keys):
            return _Unsigned()
        source = self._source(head)
        try:
            return _Signed(Proof(head.headers.get(header.lower(), ""), keys, begins), lambda: self._wrong(source))
        except ValueError:
            raise self._wrong(source) from None

    def _wrong(self, source: str) -> HttpProblem:
        """Note a wrong signature, and return what is answered to it."""
        self._metrics.not_signed()
        if (left_s := self._patience.left_s(source)) > 0:
            headers = {"Retry-After": str(int(left_s) + 1)}
            return HttpProblem(429, "too_many_failures", "too many wrong signatures; wait", headers=headers)
        self._patience.failed(source)
        return HttpProblem(401, "invalid_signature", "the signature is missing or wrong")

    def _source(self, request: Request) -> str:
        """Return who sent it: the last address in `X-Forwarded-For` that is no trusted proxy's."""
        source = request.source
        for hop in reversed(request.headers.get("x-forwarded-for", "").split(",")):
            if not self._trusted(source) or not hop.strip():
                break
            source = hop.strip()[:LONGEST_ID]
        return source

    def _trusted(self, source: str) -> bool:
        try:
            address = ipaddress.ip_address(source.removeprefix("::ffff:"))
        except ValueError:
            return False
        return any(address in network for network in self._proxies)

    def _known_target(self, request: Request) -> str:
        name = _segment(request, 3)
        if name not in self._desk.section.by_name:
            raise HttpProblem(404, "unknown_target", "there is no such target")
        return name


class _Signed:
    """A `Seal`: the body is signed, or it is not."""

    def __init__(self, proof: Proof, wrong: Callable[[], HttpProblem]) -> None:
        self._proof = proof
        self._wrong = wrong

    def update(self, piece: bytes) -> None:
        self._proof.update(piece)

    def check(self) -> None:
        if not self._proof.holds:
            raise self._wrong()


class _Unsigned:
    """A `Seal` where signatures need not be."""

    def update(self, piece: bytes) -> None:
        """Nothing has to be proven."""

    def check(self) -> None:
        """As above."""


def _prove(request: Request, admits: Callable[[Request], Seal]) -> None:
    """Raise `HttpProblem` for a request from nobody known; it was admitted before its body came, or is now."""
    seal = request.seal
    if seal is None:
        seal = admits(request)
        seal.update(request.body)
    seal.check()


def _content_type(request: Request, *allowed: str) -> None:
    if _kind(request) not in allowed:
        raise HttpProblem(415, "unsupported_media_type", f"send {' or '.join(allowed)}")


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _segment(request: Request, number: int) -> str:
    return request.path.split("/")[number]


def _answer(status: int, content: msgspec.Struct) -> Response:
    return Response(public_json(content), JSON, status)


def _later(reason: NoReservation, message: str) -> HttpProblem:
    return HttpProblem(503, reason.value, message, headers=_AGAIN)


def _header(request: Request, name: str) -> str:
    value = request.headers.get(name, "").strip()
    if not value:
        raise HttpProblem(400, "missing_header", f"{name.title()} is missing", name.title())
    return value


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
        seconds = parse_duration(text) if isinstance(text, str) else 0.0
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
