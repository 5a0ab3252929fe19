"""Authenticates announcements: it checks heads before bodies are read, and computes signatures while bodies arrive."""

import ipaddress
from collections.abc import Callable, Iterable
from typing import Protocol

from autoscaler.clock import Clock
from autoscaler.config.reservations import Reservations
from autoscaler.observe.http.routing import JSON, BodyVerifier, HttpProblem, Request
from autoscaler.reservations.metrics import ReservationMetrics
from autoscaler.reservations.routes import API_SIGNATURE, FORM, GITHUB_SIGNATURE, LONGEST_ID
from autoscaler.reservations.secret_files import FailureLimiter
from autoscaler.reservations.signature import SignatureCheck, timely

AGAIN = {"Retry-After": "3"}
_GITHUB_HEADERS = ("x-github-event", "x-github-delivery")


class IntakeStatus(Protocol):
    """The conditions under which clients are admitted."""

    @property
    def section(self) -> Reservations:
        """The current configuration."""
        ...

    @property
    def loaded(self) -> bool:
        """Whether the stored state has been read."""
        ...

    @property
    def accepting(self) -> bool:
        """Whether new operations are accepted."""
        ...


class RequestAuthenticator:
    """Admits requests by their heads, on any thread. All methods raise `HttpProblem` for rejected requests."""

    def __init__(
        self,
        opening: IntakeStatus,
        github: Iterable[bytes],
        api: Iterable[bytes],
        metrics: ReservationMetrics,
        clock: Clock,
    ) -> None:
        """`github` and `api` return the secrets and are called for each request."""
        self._opening = opening
        self._github = github
        self._api = api
        self._metrics = metrics
        self._clock = clock
        self._patience = FailureLimiter(lambda: clock.now().mono)
        self._proxies = tuple(ipaddress.ip_network(network) for network in opening.section.trusted_proxies)

    def ready(self) -> None:
        """Raise unless announcements can be accepted now."""
        if not self._opening.accepting:
            raise HttpProblem(503, "stopping", "this replica is about to end", headers=AGAIN)
        if not self._opening.loaded:
            raise HttpProblem(503, "starting", "what is stored has not been read yet", headers=AGAIN)

    def authenticate_github(self, head: Request) -> BodyVerifier:
        """Return the verifier for a delivery's body."""
        self.ready()
        content_type(head, JSON, FORM)
        verifier = self._verifier(head, GITHUB_SIGNATURE, self._github)
        for name in _GITHUB_HEADERS:
            header(head, name)
        return verifier

    def authenticate_api(self, head: Request, *kinds: str) -> BodyVerifier:
        """Return the verifier for the body of an API request; its content type must be one of `kinds` if any are
        given.
        """
        self.ready()
        if kinds:
            content_type(head, *kinds)
        signature, stamped = API_SIGNATURE
        stamp = head.headers.get(stamped.lower(), "")
        verifier = self._verifier(head, signature, self._api, stamp.encode("latin-1", "replace") + b".")
        if isinstance(verifier, _Signed) and not timely(stamp, self._clock.now().wall):
            self._metrics.not_signed()
            raise HttpProblem(401, "stale", f"{stamped} is missing or more than 300 seconds off")
        return verifier

    def _verifier(self, head: Request, signed_in: str, keys: Iterable[bytes], begins: bytes = b"") -> BodyVerifier:
        """Return the verifier of the body's signature; raises `HttpProblem` before the body is read if there is no
        signature.

        A good signature is accepted even after too many failures, because several clients may share an address.
        """
        auth = self._opening.section.auth
        if auth.insecure_allow_unsigned and not auth.files and not list(keys):
            return _Unsigned()
        source = self._source(head)
        try:
            return _Signed(
                SignatureCheck(head.headers.get(signed_in.lower(), ""), keys, begins), lambda: self._wrong(source)
            )
        except ValueError:
            raise self._wrong(source) from None

    def _wrong(self, source: str) -> HttpProblem:
        """Record a wrong signature, and return the error response."""
        self._metrics.not_signed()
        if (left_s := self._patience.left_s(source)) > 0:
            headers = {"Retry-After": str(int(left_s) + 1)}
            return HttpProblem(429, "too_many_failures", "too many wrong signatures; wait", headers=headers)
        self._patience.failed(source)
        return HttpProblem(401, "invalid_signature", "the signature is missing or wrong")

    def _source(self, request: Request) -> str:
        """Return the sender: the last address in `X-Forwarded-For` that is not a trusted proxy."""
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


class _Signed:
    """A `BodyVerifier` that checks the signature of the body."""

    def __init__(self, proof: SignatureCheck, wrong: Callable[[], HttpProblem]) -> None:
        self._proof = proof
        self._wrong = wrong

    def update(self, piece: bytes) -> None:
        self._proof.update(piece)

    def check(self) -> None:
        if not self._proof.holds:
            raise self._wrong()


class _Unsigned:
    """A `BodyVerifier` for requests without required signatures."""

    def update(self, piece: bytes) -> None:
        """Do nothing."""

    def check(self) -> None:
        """Do nothing."""


def prove(request: Request, authenticate: Callable[[Request], BodyVerifier]) -> None:
    """Raise `HttpProblem` unless the client is known. It was authenticated before its body came, or is now."""
    verifier = request.verifier
    if verifier is None:
        verifier = authenticate(request)
        verifier.update(request.body)
    verifier.check()


def content_type(request: Request, *allowed: str) -> None:
    """Raise `HttpProblem` unless the body has one of these types."""
    if kind_of(request) not in allowed:
        raise HttpProblem(415, "unsupported_media_type", f"send {' or '.join(allowed)}")


def kind_of(request: Request) -> str:
    """Return the content type of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def header(request: Request, name: str) -> str:
    """Return a required header; raises `HttpProblem` if it is missing."""
    value = request.headers.get(name, "").strip()
    if not value:
        raise HttpProblem(400, "missing_header", f"{name.title()} is missing", name.title())
    return value
