"""What headroom would do to pools, for people and programs that ask without a daemon."""

from collections.abc import Iterable, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.companions.headroom_objects import Present, deployment_name
from autoscaler.companions.headroom_plan import plan_pool
from autoscaler.companions.headroom_pods import PoolPods, pods_of
from autoscaler.config.headroom import Headroom
from autoscaler.objects.meta import rfc3339
from autoscaler.snapshot.cluster import ClusterView


class PoolAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pool: the same numbers as the daemon's."""

    pool: str
    namespace: str
    at: str
    policy: str
    active: int
    desired: int
    target: int
    reason: str
    lower_at: str
    """When pods that are not wanted by then may go."""
    replicas: int
    """Of the Deployment that is there; 0 where there is none."""
    action: str
    drift: tuple[str, ...] = ()


def answers(
    headroom: Headroom, view: ClusterView, deployments: Iterable[Present], active: Mapping[str, int], now: Instant
) -> list[PoolAnswer]:
    """Return what a leader that just began would do; `active` replaces the counted pods of pools by name."""
    present = {(one.namespace, one.name): one for one in deployments}
    found = []
    for pool in headroom.pools:
        pods: PoolPods = pods_of(view, pool, headroom)
        count = active.get(pool.name, pods.active)
        plan = plan_pool(pool, headroom, present.get((pool.namespace, deployment_name(pool))), count, None, now)
        want = plan.want
        found.append(
            PoolAnswer(
                pool=pool.name,
                namespace=pool.namespace,
                at=rfc3339(now.wall),
                policy=want.policy,
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
    return found
