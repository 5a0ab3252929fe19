"""How much headroom there should be: from policies, active pods and the time to a number of pause pods.

Pure: the daemon and `autoscaler headroom plan` call the same functions. Raising is immediate; lowering waits until the
idle time of the policy under which the pods were last wanted is over, and then happens in one step.
"""

import math
from datetime import UTC, datetime

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.headroom import NO_POLICY, Policy, Pool
from autoscaler.reasons import Headcount

_NO_POLICY_IDLE_S = 300.0


class Held(msgspec.Struct, frozen=True):
    """The cool-down: how many pause pods were last wanted, and until when they stay although fewer are wanted now."""

    count: int
    allowed: Instant


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """How many pause pods a pool should have."""

    policy: str
    """Name of the policy that holds; `none` where none does."""
    active: int
    desired: int
    """By the policy, now."""
    target: int
    """After the cool-down: what is written."""
    held: Held
    """To carry on from."""
    reason: Headcount


def policy_at(pool: Pool, wall: float) -> Policy | None:
    """Return the policy that holds at a time (Unix seconds): the last one with a period that matches; maybe none."""
    moment = datetime.fromtimestamp(wall, UTC)
    return next((policy for policy in reversed(pool.policies) if _holds(policy, moment)), None)


def _holds(policy: Policy, moment: datetime) -> bool:
    if policy.always:
        return True
    local = moment.astimezone(policy.timezone)
    return any(period.holds(local) for period in policy.periods)


def desired(pool: Pool, policy: Policy | None, active: int) -> tuple[int, Headcount]:
    """Return how many pause pods a policy wants beside so many active pods, and what decided that."""
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
    """Return the idle time in force."""
    return _NO_POLICY_IDLE_S if policy is None else policy.idle_time_s


def want(pool: Pool, active: int, held: Held, now: Instant) -> Want:
    """Return how many pause pods a pool should have; at the very moment at which lowering is allowed, it happens."""
    policy = policy_at(pool, now.wall)
    count, reason = desired(pool, policy, active)
    if count < held.count and now.mono < held.allowed.mono:
        target, reason = held.count, Headcount.COOL_DOWN
    else:
        target, held = count, Held(count, now.later(idle_s(policy)))
    name = NO_POLICY if policy is None else policy.name
    return Want(policy=name, active=active, desired=count, target=target, held=held, reason=reason)


def restored(pool: Pool, count: int, allowed_at: float, now: Instant) -> Held:
    """Return a cool-down that was stored as a time on the wall clock (Unix seconds).

    However far the clock has jumped since, it lasts no longer than the longest idle time of the pool.
    """
    longest_s = max((policy.idle_time_s for policy in pool.policies), default=0.0)
    left_s = min(allowed_at - now.wall, max(longest_s, _NO_POLICY_IDLE_S))
    return Held(count, now.later(left_s))


def adopted(pool: Pool, replicas: int, now: Instant) -> Held:
    """Return the cool-down of pause pods of which nothing is known: they stay for the idle time in force."""
    return Held(replicas, now.later(idle_s(policy_at(pool, now.wall))))
