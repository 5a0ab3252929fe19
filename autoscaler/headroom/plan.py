"""Decides about the Deployment of one pool, and about Deployments without a configured pool."""

from collections.abc import Collection, Iterable
from enum import StrEnum

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.headroom import POOL, Headroom, HeadroomPool
from autoscaler.headroom.objects import (
    CurrentDeployment,
    covers,
    deployment,
    notes,
    owner_labels,
    template,
    template_hash,
)
from autoscaler.headroom.policy import CoolDown, DesiredReplicas, adopted, restored, want
from autoscaler.objects.meta import JsonObject

HEARTBEAT_S = 60.0


class DeploymentAction(StrEnum):
    """The action for a Deployment."""

    NOTHING = "nothing"
    CREATE = "create"
    UPDATE = "update"
    HEARTBEAT = "heartbeat"
    """Only the annotations are written."""
    CONFLICT = "nameConflict"
    """The name belongs to another owner, so nothing is changed."""


class Drift(StrEnum):
    """Fields that another client changed."""

    REPLICAS = "replicas"
    TEMPLATE = "template"
    DELETED = "deleted"


class PoolPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan for one pool at one moment."""

    want: DesiredReplicas
    action: DeploymentAction
    obj: JsonObject | None = None
    """The object to write: the existing Deployment with changes, or a new one."""
    before: int = 0
    """Current number of replicas."""
    drift: tuple[Drift, ...] = ()
    """Changes by other clients that this write reverts."""
    paused: bool = False
    """A user paused the Deployment, so its replicas and template are not changed."""

    @property
    def lowers(self) -> bool:
        """Whether the plan lowers the number of replicas."""
        return self.action is DeploymentAction.UPDATE and self.want.target < self.before


def plan_pool(
    pool: HeadroomPool,
    headroom: Headroom,
    present: CurrentDeployment | None,
    active: int,
    held: CoolDown | None,
    now: Instant,
    lead_s: float = 0.0,
) -> PoolPlan:
    """Return the plan. `held` is the remembered cool-down; None if this process has just become the leader."""
    if present is not None and not present.of(pool, headroom):
        wanted = want(pool, active, held or CoolDown(0, now), now, lead_s)
        return PoolPlan(want=wanted, action=DeploymentAction.CONFLICT, before=present.replicas)
    wanted = want(pool, active, held or _found(pool, present, now), now, lead_s)
    if present is None:
        return _absent(pool, headroom, wanted, now, known=held is not None and held.count > 0)
    return _reconciled(pool, headroom, present, wanted, now)


def _found(pool: HeadroomPool, present: CurrentDeployment | None, now: Instant) -> CoolDown:
    if present is None:
        return CoolDown(0, now)
    if present.held is None or present.allowed_at is None:
        return adopted(pool, present.replicas, now)
    return restored(pool, present.held, present.allowed_at, now)


def _absent(pool: HeadroomPool, headroom: Headroom, wanted: DesiredReplicas, now: Instant, *, known: bool) -> PoolPlan:
    if wanted.target == 0:
        return PoolPlan(want=wanted, action=DeploymentAction.NOTHING)
    obj = deployment(pool, headroom)
    obj["spec"]["replicas"] = wanted.target
    obj["metadata"]["annotations"] = _notes(template_hash(obj["spec"]["template"]), wanted, now)
    return PoolPlan(want=wanted, action=DeploymentAction.CREATE, obj=obj, drift=(Drift.DELETED,) if known else ())


def _reconciled(
    pool: HeadroomPool, headroom: Headroom, present: CurrentDeployment, wanted: DesiredReplicas, now: Instant
) -> PoolPlan:
    ours = template(pool, headroom)
    hash_ = template_hash(ours)
    live = present.obj.get("spec") or {}
    stale = present.template_hash != hash_
    off = stale or not covers(live.get("template"), ours)
    moved = present.replicas != (present.replicas if present.held is None else present.held)
    resize = present.replicas != wanted.target
    paused = present.paused and (off or resize)
    changes = (off or resize) and not present.paused
    heartbeat = present.heartbeat_at
    beats = heartbeat is None or abs(now.wall - heartbeat) >= HEARTBEAT_S
    if not (changes or beats):
        return PoolPlan(want=wanted, action=DeploymentAction.NOTHING, before=present.replicas, paused=paused)
    metadata = present.obj["metadata"]
    kept = metadata.get("annotations") or {}
    noted = _notes(hash_ if changes else present.template_hash, wanted, now)
    obj = {**present.obj, "metadata": {**metadata, "annotations": {**kept, **noted}}}
    if not changes:
        return PoolPlan(want=wanted, action=DeploymentAction.HEARTBEAT, obj=obj, before=present.replicas, paused=paused)
    fixed = deployment(pool, headroom)["spec"]
    obj["spec"] = {**live, **fixed, "replicas": wanted.target, "selector": live.get("selector", fixed["selector"])}
    drift = (*((Drift.REPLICAS,) if moved and resize else ()), *((Drift.TEMPLATE,) if off and not stale else ()))
    return PoolPlan(want=wanted, action=DeploymentAction.UPDATE, obj=obj, before=present.replicas, drift=drift)


def _notes(hash_: str, wanted: DesiredReplicas, now: Instant) -> dict[str, str]:
    allowed_at = now.wall + (wanted.held.allowed.mono - now.mono)
    return notes(hash_, wanted.target, allowed_at, now.wall)


class Orphans(msgspec.Struct, frozen=True):
    """Our Deployments whose pool is not configured."""

    delete: tuple[CurrentDeployment, ...] = ()
    unreadable: tuple[CurrentDeployment, ...] = ()
    """Deployments with an unreadable heartbeat. They are never deleted because of that."""


def plan_orphans(
    deployments: Iterable[CurrentDeployment], headroom: Headroom, removed: Collection[str], now: Instant
) -> Orphans:
    """Return the Deployments to delete: without a heartbeat for too long, or of a pool in `removed`."""
    delete: list[CurrentDeployment] = []
    unreadable: list[CurrentDeployment] = []
    known = {(pool.namespace, pool.name) for pool in headroom.pools}
    for current in deployments:
        pool = current.labels.get(POOL)
        if not owner_labels(headroom).items() <= current.labels.items() or pool is None:
            continue
        if (current.namespace, pool) in known:
            continue
        if pool in removed:
            delete.append(current)
        elif current.heartbeat_at is None:
            unreadable.append(current)
        elif 0 < headroom.orphan_after_s < now.wall - current.heartbeat_at:
            delete.append(current)
    return Orphans(tuple(delete), tuple(unreadable))
