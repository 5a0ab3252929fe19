"""The routes of the listener for announced work: their requests and answers."""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from autoscaler.observe.http.endpoint import Anything, Body, Endpoint, EndpointRoutes, JsonMapping, SuccessResponse
from autoscaler.observe.http.openapi import About
from autoscaler.observe.http.routing import JSON, TEXT, BodyVerifier, Request, Response
from autoscaler.reasons import NoReservation
from autoscaler.reservations.status import ReservationStatus, TargetStatus

DOCUMENT = "/openapi.json"
ABOUT = About(
    title="Announced work",
    version="1",
    description="Reserves capacity for work before its pods exist.",
)
"""The document is the same for every installation, so it discloses nothing about this one."""

WEBHOOK, SCALE = "/webhooks/github", "/v1/targets/{name}/scale"
"""The path for announcements."""
FORM = "application/x-www-form-urlencoded"
LARGEST_AMOUNT = 1000
LONGEST_ID = 128
GITHUB_SIGNATURE = "X-Hub-Signature-256"
API_SIGNATURE = ("X-CA-Signature-256", "X-CA-Timestamp")


class Announcement(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How many reservations to add or, if negative, to remove."""

    amount: Annotated[
        int, Meta(ge=-LARGEST_AMOUNT, le=LARGEST_AMOUNT, description="Not 0.", extra_json_schema={"not": {"const": 0}})
    ]
    duration: Annotated[str, Meta(description="Such as 30m; default: the target's `defaultDuration`.")] | UnsetType = (
        UNSET
    )
    request_id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_ID,
            pattern=r"^[ -~]*$",
            description="A repeated announcement has the same id.",
        ),
    ]


class DeliveryForm(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that a form carries."""

    payload: Annotated[str, Meta(description="The delivery as JSON.")]


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The announcement is stored. `amount` is the change of the number of reservations."""

    status: Literal["accepted"] = "accepted"
    target: str
    amount: int


class Unchanged(msgspec.Struct, frozen=True, kw_only=True):
    """The announcement is valid and changes nothing."""

    status: Literal["duplicate", "ignored", "pong"]
    reason: NoReservation | UnsetType = UNSET
    """Why the announcement is ignored."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """One reservation was removed."""

    status: Literal["removed"] = "removed"
    target: str
    amount: int = -1


Serve = Callable[[Request], Response]
Admits = Callable[[Request], BodyVerifier | None]

_TARGET = {"name": "A target."}
_REFUSED = {
    401: "The signature is missing, wrong or stale.",
    429: "Wrong once more, after too many wrong signatures from that source; `Retry-After` says how long to wait.",
    503: "It cannot be stored, or not in time; send it again after `Retry-After` seconds.",
}
_NO_TARGET = {404: "There is no such target."}
_WRONG_BODY = {415: "The content type is none of those.", 422: "A field is missing or wrong; `field` names it."}
_TAKEN = {
    202: SuccessResponse(text="It is stored, whatever happens to the process.", forms=(Accepted,)),
    200: SuccessResponse(text="It changes nothing.", forms=(Unchanged,)),
}


class Authenticators(msgspec.Struct, frozen=True, kw_only=True):
    """The authentication of callers, by the kind of their signature."""

    github: Admits
    announcing: Admits
    operating: Admits


def listener_routes(
    authenticators: Authenticators,
    *,
    webhook: Serve,
    listed: Serve,
    shown: Serve,
    scale: Serve,
    delete: Serve,
    health: Serve,
) -> EndpointRoutes:
    """Return the routes. They ignore the query, because signatures do not cover it."""

    def without_query(serve: Serve) -> Callable[[Anything, Request], Response]:
        return lambda _, request: serve(request)

    return {
        WEBHOOK: {
            "POST": Endpoint(
                summary="Receives GitHub's `workflow_job` deliveries.",
                exposes="adds and removes reservations, so it can cause a scale-up",
                query=Anything,
                serve=without_query(webhook),
                body=Body(
                    text="A delivery as GitHub sends it.",
                    forms={JSON: JsonMapping, FORM: DeliveryForm},
                    max_bytes=None,
                ),
                responses=_TAKEN,
                errors={**_REFUSED, **_WRONG_BODY},
                headers={"X-GitHub-Event": "What happened.", "X-GitHub-Delivery": "By it the same is known again."},
                signed_by=(GITHUB_SIGNATURE,),
                authenticate=authenticators.github,
            )
        },
        "/v1/targets": {
            "GET": Endpoint(
                summary="All targets: counts and reservations.",
                exposes="names of targets; repositories and ids of announced jobs",
                query=Anything,
                serve=without_query(listed),
                responses={200: SuccessResponse(forms=(ReservationStatus,))},
                errors=_REFUSED,
                signed_by=API_SIGNATURE,
                authenticate=authenticators.operating,
            )
        },
        "/v1/targets/{name}": {
            "GET": Endpoint(
                summary="One target: counts and reservations.",
                exposes="the same of one target",
                query=Anything,
                serve=without_query(shown),
                responses={200: SuccessResponse(forms=(TargetStatus,))},
                errors={**_REFUSED, **_NO_TARGET},
                segments=_TARGET,
                signed_by=API_SIGNATURE,
                authenticate=authenticators.operating,
            )
        },
        SCALE: {
            "POST": Endpoint(
                summary="Adds reservations to a target, or removes the oldest.",
                exposes="adds and removes reservations, so it can cause a scale-up",
                query=Anything,
                serve=without_query(scale),
                body=Body(text="How many, and for how long.", forms={JSON: Announcement}, max_bytes=None),
                responses=_TAKEN,
                errors={**_REFUSED, **_WRONG_BODY, **_NO_TARGET},
                segments=_TARGET,
                signed_by=API_SIGNATURE,
                authenticate=authenticators.announcing,
            )
        },
        "/v1/targets/{name}/reservations/{id}": {
            "DELETE": Endpoint(
                summary="Removes one reservation.",
                exposes="removes a reservation",
                query=Anything,
                serve=without_query(delete),
                responses={200: SuccessResponse(text="It is gone.", forms=(Removed,))},
                errors={**_REFUSED, 404: "There is no such target or reservation."},
                segments={**_TARGET, "id": "A reservation."},
                signed_by=API_SIGNATURE,
                authenticate=authenticators.operating,
            )
        },
        "/healthz": {
            "GET": Endpoint(
                summary="Whether the listener accepts announcements.",
                exposes="nothing else",
                query=Anything,
                serve=without_query(health),
                responses={200: SuccessResponse(text="They are.", content_type=TEXT)},
                errors={503: "They are not, yet or any more."},
            )
        },
    }
