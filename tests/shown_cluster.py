"""What is shown of a cluster of any size, the same every time."""

import msgspec

from autoscaler.config.eta import PodStartEstimator
from autoscaler.eta.estimate import StartEstimate, WaitLevel, unknown
from autoscaler.eta.page_section import starts_block
from autoscaler.eta.samples import DurationSpread, Knowledge
from autoscaler.eta.status import Accuracy, EtaStatus
from autoscaler.headroom.page import headroom_block
from autoscaler.headroom.status import HeadroomStatus, PoolStatus
from autoscaler.observe.headline import headline
from autoscaler.observe.page.section import CompanionSection
from autoscaler.observe.status import (
    Advice,
    AutoscalerState,
    BackoffStatus,
    Capacity,
    ClusterStatus,
    Condition,
    Decision,
    DecisionKind,
    GroupReason,
    GroupStatus,
    Health,
    NodeCounts,
    NodeState,
    NodeStatus,
    PassStatus,
    Phase,
    PodState,
    PodStatus,
    ProcessStatus,
    PublishedStatus,
    RecentEvent,
    ScaleDownActivity,
    ScaleUpActivity,
    Scope,
    Stay,
    TemplateSummary,
)
from autoscaler.reasons import Headcount, HeadroomTrouble, ScaleUpResult, UnknownStart, Unplaceable
from autoscaler.reservations.page import reservations_block
from autoscaler.reservations.status import OverrideStatus, TargetStatus

NOW = 1_785_578_400.0  # 2026-08-01 10:00:00 UTC
GIB = 1024**3


def a_process(leading: bool = True) -> ProcessStatus:
    return ProcessStatus(
        identity="cluster-autoscaler-5d7c9-x2x",
        version="0.1.0",
        started_at=NOW - 7300,
        leading=leading,
        leader="cluster-autoscaler-5d7c9-x2x" if leading else "cluster-autoscaler-5d7c9-abc",
        kubernetes_version="v1.36.2",
        currency="USD",
    )


def a_scope(
    ready: int = 0,
    *,
    health: Health = Health.HEALTHY,
    scale_up: ScaleUpActivity = ScaleUpActivity.NO_ACTIVITY,
    candidates: int = 0,
    unregistered: int = 0,
    unready: int = 0,
    at: float = NOW,
) -> Scope:
    down = ScaleDownActivity.CANDIDATES if candidates else ScaleDownActivity.NO_CANDIDATES
    return Scope(
        Condition(health, at),
        Condition(scale_up, at),
        Condition(down, at),
        candidates,
        NodeCounts(total=ready + unready, ready=ready, unready=unready, unregistered=unregistered),
    )


def _groups(nodes: int) -> tuple[GroupStatus, ...]:
    web = GroupStatus(
        id="web-general",
        min_size=1,
        max_size=max(10, nodes),
        target_size=nodes // 2 + 3,
        scope=a_scope(nodes // 2, scale_up=ScaleUpActivity.IN_PROGRESS, unregistered=3),
        upcoming=3,
        node_price=0.192,
        template=TemplateSummary(
            cpu_milli=3920, memory_bytes=15 * GIB, pods=110, instance_type="m5.xlarge", zone="eu-west-1a"
        ),
    )
    gpu = GroupStatus(
        id="gpu-a100",
        min_size=0,
        max_size=4,
        target_size=0,
        scope=a_scope(0, scale_up=ScaleUpActivity.BACKOFF),
        backoff=BackoffStatus(NOW + 290, "OUT_OF_RESOURCES", "no a100 left in eu-west-1a"),
        node_price=3.06,
        template=TemplateSummary(cpu_milli=11_500, memory_bytes=80 * GIB, pods=110, gpus=1),
    )
    batch = GroupStatus(
        id="batch-spot",
        min_size=0,
        max_size=max(20, nodes),
        target_size=nodes - nodes // 2,
        scope=a_scope(nodes - nodes // 2, candidates=min(nodes, 5)),
        template=TemplateSummary(cpu_milli=15_800, memory_bytes=62 * GIB, pods=110, instance_type="c5.4xlarge"),
    )
    return web, gpu, batch


def _nodes(nodes: int) -> tuple[NodeStatus, ...]:
    made = []
    for number in range(nodes):
        spread = (number * 37) % 100 / 100
        state, stays, unneeded = NodeState.READY, Stay("NotUnderutilized", f"cpu at {spread:.0%}"), None
        if number % 40 == 3:
            stays, unneeded, spread = None, NOW - 60 * (number % 12), 0.12  # type: ignore[assignment]
        elif number % 10 == 5:
            stays = Stay("BlockedByPod", "kube-system/metrics-server-0 has local storage and no replica")
        elif number % 100 == 7:
            state, stays = NodeState.UNREADY, Stay("ScaleDownUnreadyDisabled")
        made.append(
            NodeStatus(
                name=f"ip-10-0-{number // 250}-{number % 250}.eu-west-1.compute.internal",
                group="web-general" if number < nodes // 2 else "batch-spot",
                state=state,
                cpu_utilization=spread,
                memory_utilization=(number * 53) % 100 / 100,
                stays=stays,
                unneeded_since_at=unneeded,
            )
        )
    return tuple(made)


def _pods(pods: int) -> tuple[PodStatus, ...]:
    gpu_reasons = (
        GroupReason("gpu-a100", "InBackoff", "for another 4 min"),
        GroupReason("web-general", "NodeResourcesFit", "Insufficient nvidia.com/gpu"),
        GroupReason("batch-spot", "NodeResourcesFit", "Insufficient nvidia.com/gpu"),
    )
    gpu_advice = Advice(
        code="InBackoff",
        cause="needs a machine of group gpu-a100, which the cloud refused to grow",
        fix="The autoscaler tries again in 5m. Add a group with the same GPU in another zone to wait less.",
    )
    made = []
    for number in range(pods):
        if number % 3:
            made.append(
                PodStatus(
                    namespace="shop",
                    name=f"web-7d9f8b6c5-{number:05d}",
                    pending_since_at=NOW - 40,
                    verdict="Helped",
                    state=PodState.ON_ITS_WAY,
                    owner="ReplicaSet web-7d9f8b6c5",
                    workload="Deployment web",
                    planned_group="web-general",
                    eta_s=85,
                )
            )
        else:
            made.append(
                PodStatus(
                    namespace="ml",
                    name=f"train-{number}",
                    pending_since_at=NOW - 600 - number,
                    verdict="NoGroupFits",
                    state=PodState.STUCK,
                    owner="Job train",
                    workload="Job train",
                    detail="requests nvidia.com/gpu 1",
                    reasons=gpu_reasons,
                    advice=gpu_advice,
                )
            )
    return tuple(made)


def some_decisions() -> tuple[Decision, ...]:
    made = [
        Decision(
            at=NOW - 5 * 3600 + step * 1400,
            kind=DecisionKind.SCALE_UP if step % 3 else DecisionKind.SCALE_DOWN,
            group="web-general",
            delta=(step * 7) % 9 + 1 if step % 3 else -((step * 5) % 4 + 1),
            pods=step * 3,
            result="Successful" if step % 5 else "Error",
            detail="" if step % 5 else "the cloud has no such machines",
        )
        for step in range(13)
    ]
    return tuple(made)


def _events() -> tuple[RecentEvent, ...]:
    return (
        RecentEvent(
            at=NOW - 70,
            kind="Normal",
            reason="ScaledUpGroup",
            about="ConfigMap kube-system/cluster-autoscaler-status",
            message="Scale-up: setting group web-general size to 8 instead of 5 (max: 10)",
        ),
        RecentEvent(
            at=NOW - 9,
            kind="Warning",
            reason="FailedToScaleUpGroup",
            about="ConfigMap kube-system/cluster-autoscaler-status",
            message="Scale-up failed for group gpu-a100: OUT_OF_RESOURCES",
        ),
    )


def sample_status(nodes: int, pods: int | None = None) -> PublishedStatus:
    """A pass over so many nodes; without nodes everything is empty."""
    pending = nodes // 5 if pods is None else pods
    empty = nodes == 0 and not pending
    status = PublishedStatus(
        process=a_process(),
        state=AutoscalerState.RUNNING,
        last_pass=PassStatus(
            number=4812,
            started_at=NOW - 4,
            duration_s=0.412,
            phases=(Phase("snapshot", 0.05), Phase("scale_up", 0.3), Phase("scale_down", 0.06)),
            scale_up=ScaleUpResult.NOT_NEEDED if empty else ScaleUpResult.SUCCESSFUL,
        ),
        cluster=ClusterStatus(
            scope=a_scope(nodes, scale_up=ScaleUpActivity.NO_ACTIVITY if empty else ScaleUpActivity.IN_PROGRESS),
            upcoming=0 if empty else 3,
            cpu_milli=Capacity(running=nodes * 2300, pending=pending * 500, total=nodes * 3920),
            memory_bytes=Capacity(running=nodes * 9 * GIB, pending=pending * GIB, total=nodes * 15 * GIB),
        ),
        groups=() if empty else _groups(nodes),
        nodes=_nodes(nodes),
        pods=_pods(pending),
        decisions=() if empty else some_decisions(),
        events=() if empty else _events(),
    )
    return msgspec.structs.replace(status, headline=headline(status))


def sample_pools(number: int) -> HeadroomStatus:
    """A look at so many pools: most in order, some short, in cool-down or in trouble."""
    made = []
    for place in range(number):
        target, bound = 2 + place % 5, 2 + place % 5 - (place % 4 == 1)
        made.append(
            PoolStatus(
                name=f"runners-{place}",
                namespace="ci",
                policy="office" if place % 3 else "base",
                active=17 * place,
                desired=target - (place % 5 == 2),
                target=target,
                reason=Headcount.COOL_DOWN if place % 5 == 2 else Headcount.IDLE_COUNT,
                lower_at=NOW + 700,
                replicas=target,
                bound=bound,
                pending=target - bound,
                troubles=(HeadroomTrouble.NAME_CONFLICT,) if place % 7 == 1 else (),
                reconciled_at=None if place % 7 == 1 else NOW - 6,
            )
        )
    return HeadroomStatus(looked_at=NOW - 6, pools=tuple(made))


def sample_targets(number: int) -> tuple[TargetStatus, ...]:
    """So many targets: most in order, some without room, with a queue, an override or a state that nobody reads."""
    made = []
    for place in range(number):
        active = place % 6
        made.append(
            TargetStatus(
                name=f"gpu-runners-{place}",
                degraded="schemaVersion 2 is newer than 1" if place % 9 == 1 else "",
                slots=None if place % 4 == 3 else 10,
                active=active,
                queued=3 if place % 5 == 4 else 0,
                planned=active + (5 if place % 3 == 0 else 0),
                real=active // 2,
                virtual=active - active // 2 + (5 if place % 3 == 0 else 0),
                unplaceable={Unplaceable.MAX_SIZE: 2, Unplaceable.BACKED_OFF: 1} if place % 6 == 5 else {},
                next_expiry_at=NOW + 400 + place if active else None,
                backlog=2 if place % 8 == 1 else 0,
                floor=5 if place % 3 == 0 else 0,
                override=OverrideStatus(began_at=NOW - 3600, ends_at=NOW + 7200) if place % 3 == 0 else None,
            )
        )
    return tuple(made)


def sample_starts(groups: int) -> EtaStatus:
    """What is known of starts after so many groups were seen booting; without any, before the first pod was ready."""
    names = [f"group-{place}" for place in range(groups)]
    return EtaStatus(
        estimator=PodStartEstimator.PLACEMENT,
        computed_at=NOW - 4,
        estimates={
            "shop/web-0": StartEstimate(level=WaitLevel.UPCOMING, expected_s=40, worst_s=90),
            "shop/web-1": StartEstimate(level=WaitLevel.UPCOMING, expected_s=45, worst_s=95, overdue=True),
            "ml/train-0": unknown(UnknownStart.MAX_SIZE),
        },
        accuracy=Accuracy(pods=40 * groups, within_worst=37 * groups, late=9 * groups, abs_error_s=480.0 * groups),
        boots={name: DurationSpread(70.0 + place, 110.0 + 2 * place) for place, name in enumerate(names)},
        knowledge=Knowledge(boots={name: (60.0,) * (5 + place) for place, name in enumerate(names)}),
    )


def sample_blocks(number: int) -> tuple[CompanionSection, ...]:
    """What companions add to the page, with so many groups, pools and targets."""
    return (
        headroom_block(lambda: sample_pools(number)),
        reservations_block(lambda: sample_targets(number)),
        starts_block(lambda: sample_starts(number)),
    )
