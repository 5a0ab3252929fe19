"""The published state of headroom, one value per check, for the API and the status page."""

from collections.abc import Callable

import msgspec

from autoscaler.eta.lead_time import NO_LEAD, Lead
from autoscaler.headroom.policy import EarlyPolicy
from autoscaler.observe.http.endpoint import EndpointRoutes, Nothing, json_endpoint


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One pool. Times end in `_at` and are Unix seconds."""

    name: str
    namespace: str
    policy: str = ""
    """The one that holds, or `none`; empty before the first look."""
    lead_seconds: float = 0.0
    """How long before a policy begins its pods are asked for."""
    lead: Lead = NO_LEAD
    """What that is made of."""
    early: EarlyPolicy | None = None
    """The next policy where it wants more than the one in force."""
    active: int = 0
    desired: int = 0
    target: int = 0
    reason: str = ""
    """What decided the target."""
    lower_at: float | None = None
    """Until when pods that are not wanted any more stay."""
    replicas: int = 0
    """Of the Deployment, as it was found."""
    bound: int = 0
    pending: int = 0
    troubles: tuple[str, ...] = ()
    """What keeps it from being as it should be."""
    reconciled_at: float | None = None


class HeadroomStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All pools. A replica that does not lead knows of none."""

    looked_at: float | None = None
    pools: tuple[PoolStatus, ...] = ()


def headroom_routes(status: Callable[[], HeadroomStatus]) -> EndpointRoutes:
    """Return the route of the pools."""
    endpoint = json_endpoint(
        exposes="names and namespaces of pools, their sizes and schedules",
        summary="The pools of headroom: what is wanted, what exists, and why.",
        query=Nothing,
        answers=HeadroomStatus,
        answer=lambda _: status(),
        when="where headroom is configured",
    )
    return {"/api/v1/headroom": {"GET": endpoint}}
