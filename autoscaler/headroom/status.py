"""The published state of headroom for the API and the status page; each check publishes a new value."""

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
    """The active policy, or `none`; empty before the first check."""
    lead_seconds: float = 0.0
    """Seconds before the start of a policy at which its pods are requested."""
    lead: Lead = NO_LEAD
    """The parts of that time."""
    early: EarlyPolicy | None = None
    """The next policy, if it wants more pods than the active one."""
    active: int = 0
    desired: int = 0
    target: int = 0
    reason: str = ""
    """What decided the target."""
    lower_at: float | None = None
    """Until when pods that are no longer wanted stay."""
    replicas: int = 0
    """Replicas of the Deployment, as the check found it."""
    bound: int = 0
    pending: int = 0
    troubles: tuple[str, ...] = ()
    """Problems that keep the pool from its desired state."""
    reconciled_at: float | None = None


class HeadroomStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of all pools. A standby replica knows none."""

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
