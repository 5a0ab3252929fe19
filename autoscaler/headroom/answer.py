"""The offline answer of headroom: what the daemon would do to each pool."""

from collections.abc import Iterable, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.headroom import Headroom
from autoscaler.eta.lead_time import NO_LEAD, Lead
from autoscaler.headroom.objects import CurrentDeployment, deployment_name
from autoscaler.headroom.plan import plan_pool
from autoscaler.headroom.pods import PoolPods, pods_of
from autoscaler.objects.meta import rfc3339
from autoscaler.snapshot.cluster import ClusterView


class PoolAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pool, with the same figures as in the daemon's answer."""

    pool: str
    namespace: str
    at: str
    policy: str
    lead_seconds: float
    """Seconds before the start of a policy at which its pods are requested."""
    lead_basis: str
    early_policy: str
    """The next policy, if it wants more pods than the active one; empty if there is none."""
    early_from: str
    """When the next policy begins."""
    active: int
    desired: int
    target: int
    reason: str
    lower_at: str
    """When the pool may drop pods that are no longer wanted."""
    replicas: int
    """Replicas of the existing Deployment; 0 if there is none."""
    action: str
    drift: tuple[str, ...] = ()


def answers(
    headroom: Headroom,
    view: ClusterView,
    deployments: Iterable[CurrentDeployment],
    active: Mapping[str, int],
    leads: Mapping[str, Lead],
    now: Instant,
) -> list[PoolAnswer]:
    """Return what a new leader would do. `active` overrides the counted pods of pools, by name."""
    present = {(deployment.namespace, deployment.name): deployment for deployment in deployments}
    pool_answers = []
    for pool in headroom.pools:
        pods: PoolPods = pods_of(view, pool, headroom)
        count, lead = active.get(pool.name, pods.active), leads.get(pool.name, NO_LEAD)
        there = present.get((pool.namespace, deployment_name(pool)))
        plan = plan_pool(pool, headroom, there, count, None, now, lead.seconds)
        want, early = plan.want, plan.want.early
        pool_answers.append(
            PoolAnswer(
                pool=pool.name,
                namespace=pool.namespace,
                at=rfc3339(now.wall),
                policy=want.policy,
                lead_seconds=lead.seconds,
                lead_basis=lead.basis,
                early_policy="" if early is None else early.policy,
                early_from="" if early is None else rfc3339(early.starts_at),
                active=count,
                desired=want.desired,
                target=want.target,
                reason=want.reason,
                lower_at=rfc3339(now.wall + want.held.allowed.mono - now.mono),
                replicas=plan.before,
                action=plan.action,
                drift=plan.drift,
            )
        )
    return pool_answers
