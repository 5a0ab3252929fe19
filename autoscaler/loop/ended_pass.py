"""A pass that has ended, at whichever stage: for companions, recordings and explanations."""

from collections.abc import Mapping

import msgspec

from autoscaler.actuation.answer_log import LoggedAnswer
from autoscaler.config.tree import Config
from autoscaler.loop.pass_memory import PassMemory
from autoscaler.loop.stages import (
    EmptyCluster,
    Ended,
    Grown,
    Observed,
    PodsSorted,
    Replaced,
    Shrunk,
    Simulated,
    Started,
)
from autoscaler.observe.report import (
    PassEnd,
    PassReport,
    PendingPods,
    ReplacementReport,
    ScaleDownReport,
    ScaleUpReport,
)
from autoscaler.reasons import ScaleDownResult, ScaleUpResult
from autoscaler.registry.state import Registry
from autoscaler.scaleup.gangs import waiting_gangs
from autoscaler.scheduling.deferred_resizes import deferred_resizes
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView


class EndedPass(msgspec.Struct, frozen=True):
    """One pass, including its simulated cluster."""

    stage: Started
    """The last stage that the pass reached."""
    report: PassReport
    answers: tuple[LoggedAnswer, ...]
    """The answers of the cloud and the cluster during the pass."""

    @property
    def config(self) -> Config:
        """The configuration that the pass used."""
        return self.stage.config

    @property
    def memory(self) -> PassMemory:
        """The memory that the pass leaves to the next one."""
        return self.stage.memory

    @property
    def memory_before(self) -> PassMemory:
        """The memory that earlier passes left."""
        return self.stage.memory_before

    @property
    def placer(self) -> Placer | None:
        """The simulated cluster; None if the pass ended before it was built."""
        return self.stage.placer if isinstance(self.stage, Simulated) else None

    @property
    def view(self) -> ClusterView:
        """The observed cluster; raises `LookupError` if the pass could not observe it."""
        if self.report.view is None:
            raise LookupError("the pass never saw the cluster")
        return self.report.view

    @property
    def registry(self) -> Registry:
        """The state of nodes and groups; raises `LookupError` if the pass ended before it was computed."""
        if self.report.registry is None:
            raise LookupError("the pass ended before it knew the state of groups")
        return self.report.registry


def report_of(ended: Ended, timings: Mapping[str, float]) -> PassReport:
    """Return the report of a pass: observations, decisions and actions. `timings` holds seconds by phase."""
    stage = ended.stage
    report = PassReport(now=stage.now, end=ended.end, error=ended.error, error_type=ended.error_type, timings=timings)
    match stage:
        case EmptyCluster():
            return msgspec.structs.replace(report, view=stage.view, silent_s=stage.silent_s)
        case Observed():
            gangs = waiting_gangs(stage.view) if stage.config.gangs_count else ()
            return msgspec.structs.replace(_filled(report, stage), gangs=gangs)
        case _:
            return report


def _filled(report: PassReport, stage: Observed) -> PassReport:
    return msgspec.structs.replace(
        report,
        view=stage.view,
        silent_s=stage.silent_s,
        pauses=stage.pauses,
        registry=stage.registry,
        templates=stage.templates,
        device_pools=stage.device_pools,
        shortfalls=stage.shortfalls,
        deferred_resizes=deferred_resizes(stage.view),
        repairs=stage.repairs,
        pods=stage.pods if isinstance(stage, PodsSorted) else PendingPods(),
        buffer_room=stage.buffer_room if isinstance(stage, PodsSorted) else None,
        scale_up=stage.scale_up if isinstance(stage, Grown) else ScaleUpReport(result=ScaleUpResult.NOT_TRIED),
        increases=stage.increases,
        replacements=stage.replacements if isinstance(stage, Replaced) else ReplacementReport(),
        scale_down=_scale_down(report.end, stage),
        status_changes=stage.status_changes,
        requests_served=stage.requests_served if isinstance(stage, Grown) else 0,
    )


def _scale_down(end: PassEnd, stage: Observed) -> ScaleDownReport:
    report = ScaleDownReport(unneeded=stage.memory.unneeded, unremovable=stage.memory.kept)
    if isinstance(stage, Shrunk):
        return msgspec.structs.replace(report, result=stage.scale_down_result, deletions=stage.deletions)
    silent = end is PassEnd.SILENT
    return msgspec.structs.replace(report, result=ScaleDownResult.NOT_TRIED if silent else None)
