"""Finds what kept a whole pass from decisions."""

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.changes import SetFlag, Wait, told
from autoscaler.explain.remedies.groups import by_change, more_nodes
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy
from autoscaler.objects.meta import rfc3339
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import ScaleUpResult
from autoscaler.scaleup.pending import new_for_s


def ended_early(ended: ExplainedPass) -> Remedy | None:
    """Return why the pass ended before it decided anything; None if the pass was complete."""
    end = ended.report.end
    match end:
        case PassEnd.EMPTY_CLUSTER:
            flag = SetFlag(flag="scale-up-from-zero", value="true")
            return by_change(end, (CulpritKind.FLAG, flag.flag), flag, "waits, since no node of the cluster is ready")
        case PassEnd.UNHEALTHY:
            unready = len(ended.registry.cluster.unready)
            flag = SetFlag(flag="ok-total-unready-count", value=str(unready))
            text = f"Repair nodes that are not ready, or {told([flag])}; scaling then resumes."
            cause = f"waits, since {unready} nodes of the cluster are not ready"
            return remedy(end, (CulpritKind.FLAG, flag.flag), text, [flag], cause)
        case PassEnd.SIZES_FIXED:
            return next_pass(end, "waits, since the pass corrected target sizes of groups first", ended)
        case PassEnd.SILENT:
            return next_pass(end, "waits, since the API server does not answer", ended)
        case PassEnd.FAILED:
            return next_pass(end, f"waits, since the pass failed: {ended.report.error}", ended)
        case PassEnd.COMPLETE:
            return None


def next_pass(code: str, cause: str, ended: ExplainedPass) -> Remedy:
    """Return the advice to wait for the next pass."""
    return after(code, cause, ended.config.loop.scan_interval_s, ended)


def after(code: str, cause: str, seconds: float, ended: ExplainedPass) -> Remedy:
    """Return the advice to wait for some time."""
    wait = Wait(seconds=seconds)
    text = f"Wait {wait.span}; the autoscaler then decides again."
    return remedy(code, (CulpritKind.TIME, rfc3339(ended.report.now.wall + seconds)), text, [wait], cause)


def held_back(ended: ExplainedPass) -> Remedy | None:
    """Return why the pass helped no pod although some pods need nodes."""
    report, limit = ended.report, ended.config.limits.max_nodes_total
    result, plan = report.scale_up.result, report.scale_up.plan
    if result is ScaleUpResult.IN_COOLDOWN:
        work = [pod for pod in report.pods.unschedulable if pod.cls.headroom is None]
        cause = "is so new that more pods may follow, and all are handled together"
        return after(Obstacle.PODS_TOO_NEW, cause, new_for_s(work, report.now), ended)
    capped = plan is not None and plan.capped_by_nodes_total
    ready = sum(1 for _ in ended.registry.readings.ready())
    if result is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL or capped or (plan is None and 0 < limit <= ready):
        return more_nodes(1, ended)
    return None
