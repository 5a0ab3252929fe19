"""Estimates for gangs: no pod of one is ready before enough of the others can start with it."""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.eta.estimate import StartEstimate, WaitLevel, unknown
from autoscaler.eta.samples import DurationSpread
from autoscaler.objects.pod import Pod
from autoscaler.reasons import UnknownStart
from autoscaler.scaleup.gangs import WaitingGang


class GangStart(msgspec.Struct, frozen=True, kw_only=True):
    """When a gang can start, in seconds from the time of the estimate; None if unknown, with the `reason`."""

    gang: str
    """`namespace/name`."""
    wanted: int
    """Pods that have to start together."""
    running: int
    expected_s: float | None = None
    worst_s: float | None = None
    reason: UnknownStart | None = None


def gang_start(gang: WaitingGang, starts: Sequence[StartEstimate]) -> GangStart:
    """Return the estimate of a gang from those of its pending pods: the slowest pod that it needs decides.

    A pod that waits for room that others leave makes no start certain.
    """
    known = sorted(
        ((start.expected_s, start.worst_s) for start in starts if _is_certain(start)), key=lambda pair: pair[0] or 0.0
    )
    lacking, figures = gang.wanted - gang.running, GangStart(gang=gang.name, wanted=gang.wanted, running=gang.running)
    if len(known) < lacking:
        reasons = (start.reason for start in starts if start.reason is not None)
        return msgspec.structs.replace(figures, reason=next(reasons, UnknownStart.NOT_CONSIDERED))
    needed = known[:lacking]
    return msgspec.structs.replace(figures, expected_s=needed[-1][0], worst_s=max(worst or 0.0 for _, worst in needed))


def _is_certain(start: StartEstimate) -> bool:
    return start.expected_s is not None and start.level is not WaitLevel.QUEUE


def together(start: StartEstimate, gang: GangStart) -> StartEstimate:
    """Return the estimate of one pod of a gang: it waits for the gang."""
    if gang.expected_s is None or gang.worst_s is None:
        return unknown(gang.reason or UnknownStart.NOT_CONSIDERED)
    if start.expected_s is None or start.worst_s is None or not _is_certain(start):
        return start
    wait = DurationSpread(max(0.0, gang.expected_s - start.expected_s), max(0.0, gang.worst_s - start.worst_s))
    if wait.expected <= 0 and wait.worst <= 0:
        return start
    return msgspec.structs.replace(
        start,
        expected_s=start.expected_s + wait.expected,
        worst_s=start.worst_s + wait.worst,
        terms={**start.terms, "gang": wait},
    )


def with_gangs(
    estimates: Mapping[str, StartEstimate], pending: Sequence[Pod], gangs: Sequence[WaitingGang]
) -> tuple[Mapping[str, StartEstimate], tuple[GangStart, ...]]:
    """Return the estimates by pod key, in which pods wait for their gangs, and those of the gangs."""
    if not gangs:
        return estimates, ()
    names = {gang.name for gang in gangs}
    members: dict[str, list[str]] = {name: [] for name in names}
    for pod in pending:
        if pod.cls.gang is not None and pod.cls.gang.key in names and pod.key in estimates:
            members[pod.cls.gang.key].append(pod.key)
    starts = tuple(gang_start(gang, [estimates[key] for key in members[gang.name]]) for gang in gangs)
    waiting = {key: together(estimates[key], start) for start in starts for key in members[start.gang]}
    return {**estimates, **waiting}, starts
