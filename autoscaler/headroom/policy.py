"""Computes the number of pause pods from policies, active pods and the time.

Pure: the daemon and `autoscaler headroom plan` call the same functions. Raising is immediate. Lowering happens in one
step, after the idle time of the policy that last wanted the pods. The pods of a policy are requested early, by the time
that they take to run.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.headroom import NO_POLICY, HeadroomPool, Policy
from autoscaler.reasons import Headcount

_NO_POLICY_IDLE_S = 300.0
_MINUTE_S = 60.0


class CoolDown(msgspec.Struct, frozen=True):
    """The number of pause pods last wanted, and until when they stay although fewer are wanted now."""

    count: int
    allowed: Instant


class EarlyPolicy(msgspec.Struct, frozen=True):
    """A policy whose pods are requested before it begins, at a time in Unix seconds."""

    policy: str
    starts_at: float


class DesiredReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """The number of pause pods that a pool should have."""

    policy: str
    """Name of the active policy; `none` if there is none."""
    active: int
    desired: int
    """The number that the active policy, or the next one, wants."""
    early: EarlyPolicy | None = None
    """The next policy if it wants more pods than the active one, otherwise None."""
    target: int
    """The number to write, after the cool-down."""
    held: CoolDown
    """The cool-down to pass to the next call."""
    reason: Headcount


def policy_at(pool: HeadroomPool, wall: float) -> Policy | None:
    """Return the policy that is active at a time (Unix seconds): the last one with a matching period; None if there is
    none.
    """
    moment = datetime.fromtimestamp(wall, UTC)
    return next((policy for policy in reversed(pool.policies) if _holds(policy, moment)), None)


def _holds(policy: Policy, moment: datetime) -> bool:
    if policy.always:
        return True
    local = moment.astimezone(policy.timezone)
    return any(period.holds(local) for period in policy.periods)


def desired(pool: HeadroomPool, policy: Policy | None, active: int) -> tuple[int, Headcount]:
    """Return how many pause pods a policy wants in addition to `active` pods, and what decided that."""
    if policy is None:
        return 0, Headcount.NO_POLICY
    scaled, by_factor = math.ceil(policy.scale_factor * active), Headcount.SCALE_FACTOR
    if 0 < policy.scale_factor_limit < scaled:
        scaled, by_factor = policy.scale_factor_limit, Headcount.SCALE_FACTOR_LIMIT
    count, reason = (scaled, by_factor) if scaled > policy.idle_count else (policy.idle_count, Headcount.IDLE_COUNT)
    if 0 < pool.max_pods < count:
        return pool.max_pods, Headcount.MAX_PODS
    return count, reason


def idle_s(policy: Policy | None) -> float:
    """Return the idle time of the active policy."""
    return _NO_POLICY_IDLE_S if policy is None else policy.idle_time_s


def coming(pool: HeadroomPool, wall: float, lead_s: float) -> Iterator[tuple[float, Policy]]:
    """Yield the policies that begin after a time (Unix seconds) and within `lead_s` of it, with the times at which they
    begin.
    """
    last = policy_at(pool, wall) if lead_s > 0 else None
    # Periods are whole minutes, and so are the offsets of time zones.
    minutes = range(int(wall // _MINUTE_S) + 1, int((wall + lead_s) // _MINUTE_S) + 1)
    for moment in (minute * _MINUTE_S for minute in minutes):
        policy = policy_at(pool, moment)
        if policy is not None and policy is not last:
            yield moment, policy
        last = policy


def want(pool: HeadroomPool, active: int, held: CoolDown, now: Instant, lead_s: float = 0.0) -> DesiredReplicas:
    """Return how many pause pods a pool should have. Lowering happens at the very moment at which it is allowed.

    A policy that begins within `lead_s` and wants more pods counts already. Pods that are requested early stay until
    the policy begins.
    """
    policy = policy_at(pool, now.wall)
    count, reason = desired(pool, policy, active)
    wait_s, early = idle_s(policy), None
    for begins_at, window in coming(pool, now.wall, lead_s):
        more, why = desired(pool, window, active)
        if more > count:
            count, reason, early = more, why, EarlyPolicy(window.name, begins_at)
            wait_s = max(window.idle_time_s, begins_at - now.wall)
    if count < held.count and now.mono < held.allowed.mono:
        target, reason = held.count, Headcount.COOL_DOWN
    else:
        target, held = count, CoolDown(count, now.later(wait_s))
    name = NO_POLICY if policy is None else policy.name
    return DesiredReplicas(
        policy=name, active=active, desired=count, early=early, target=target, held=held, reason=reason
    )


def restored(pool: HeadroomPool, count: int, allowed_at: float, now: Instant) -> CoolDown:
    """Return a cool-down from a stored wall-clock time (Unix seconds).

    Even after a jump of the clock, it lasts no longer than the longest idle time of the pool.
    """
    longest_s = max((policy.idle_time_s for policy in pool.policies), default=0.0)
    left_s = min(allowed_at - now.wall, max(longest_s, _NO_POLICY_IDLE_S))
    return CoolDown(count, now.later(left_s))


def adopted(pool: HeadroomPool, replicas: int, now: Instant) -> CoolDown:
    """Return the cool-down of pause pods with an unknown history: they stay for the idle time of the active policy."""
    return CoolDown(replicas, now.later(idle_s(policy_at(pool, now.wall))))
