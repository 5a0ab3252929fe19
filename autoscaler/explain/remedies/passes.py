"""Finds what kept a whole pass from deciding."""

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.changes import SetFlag, Wait, spelled
from autoscaler.explain.remedies.groups import more_nodes
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy
from autoscaler.objects.meta import rfc3339
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import ScaleUpResult
from autoscaler.scaleup.pending import new_for_s


def ended_early(ended: ExplainedPass) -> Remedy | None:
    """Return why the pass ended before it decided anything; None where it went through."""
    end = ended.report.end
    match end:
        case PassEnd.EMPTY_CLUSTER:
            changes = [SetFlag(flag="scale-up-from-zero", value="true")]
            text = f"no node is ready; nodes are bought anyway with {spelled(changes)}"
            return remedy(end, CulpritKind.FLAG, "scale-up-from-zero", text, changes)
        case PassEnd.UNHEALTHY:
            unready = len(ended.registry.cluster.unready)
            changes = [SetFlag(flag="ok-total-unready-count", value=str(unready))]
            text = f"{unready} nodes are unready; scaling resumes once fewer are, or with {spelled(changes)}"
            return remedy(end, CulpritKind.FLAG, "ok-total-unready-count", text, changes)
        case PassEnd.SIZES_FIXED:
            return next_pass(end, "the pass corrected wrong sizes; it continues", ended)
        case PassEnd.SILENT:
            return next_pass(end, "the API server was silent; it continues once the server responds", ended)
        case PassEnd.FAILED:
            return next_pass(end, f"the pass failed ({ended.report.error}); it is repeated", ended)
        case PassEnd.COMPLETE:
            return None


def next_pass(code: str, text: str, ended: ExplainedPass) -> Remedy:
    """Return that the next pass is to be waited for."""
    return after(code, text, ended.config.loop.scan_interval_s, ended)


def after(code: str, text: str, seconds: float, ended: ExplainedPass) -> Remedy:
    """Return that so much time is to pass."""
    wait = Wait(seconds=seconds)
    return remedy(code, CulpritKind.TIME, rfc3339(ended.report.now.wall + seconds), f"{text} {wait}", [wait])


def held_back(ended: ExplainedPass) -> Remedy | None:
    """Return why the pass helped no pod at all although some need nodes."""
    report, limit = ended.report, ended.config.limits.max_nodes_total
    result, plan = report.scale_up.result, report.scale_up.plan
    if result is ScaleUpResult.IN_COOLDOWN:
        work = [pod for pod in report.pods.unschedulable if pod.cls.headroom is None]
        text = "the pods are so new that more may follow; they are handled together"
        return after(Obstacle.PODS_TOO_NEW, text, new_for_s(work, report.now), ended)
    capped = plan is not None and plan.capped_by_nodes_total
    ready = sum(1 for _ in ended.registry.readings.ready())
    if result is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL or capped or (plan is None and 0 < limit <= ready):
        return more_nodes(1, ended)
    return None
