"""Finds what kept a whole pass from deciding."""

from autoscaler.config.tree import Config
from autoscaler.explain.remedies.changes import SetFlag, Wait, spelled
from autoscaler.explain.remedies.groups import more_nodes
from autoscaler.explain.remedies.remedy import CulpritKind, Obstacle, Remedy, remedy
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.meta import rfc3339
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import ScaleUpResult
from autoscaler.scaleup.pending import new_for_s


def ended_early(p: EndedPass, config: Config) -> Remedy | None:
    """Return why the pass ended before it decided anything; None where it went through."""
    match p.report.end:
        case PassEnd.EMPTY_CLUSTER:
            changes = [SetFlag(flag="scale-up-from-zero", value="true")]
            text = f"no node is ready; nodes are bought anyway with {spelled(changes)}"
            return remedy(Obstacle.EMPTY_CLUSTER, CulpritKind.FLAG, "scale-up-from-zero", text, changes)
        case PassEnd.UNHEALTHY:
            unready = len(p.registry.cluster.unready)
            changes = [SetFlag(flag="ok-total-unready-count", value=str(unready))]
            text = f"{unready} nodes are unready; scaling resumes once fewer are, or with {spelled(changes)}"
            return remedy(Obstacle.UNHEALTHY, CulpritKind.FLAG, "ok-total-unready-count", text, changes)
        case PassEnd.SIZES_FIXED:
            return next_pass(Obstacle.SIZES_FIXED, "the pass corrected wrong sizes; it continues", p, config)
        case PassEnd.SILENT:
            return next_pass(
                Obstacle.SILENT, "the API server was silent; it continues once the server responds", p, config
            )
        case PassEnd.FAILED:
            return next_pass(Obstacle.PASS_FAILED, f"the pass failed ({p.report.error}); it is repeated", p, config)
        case PassEnd.COMPLETE:
            return None


def next_pass(code: Obstacle, text: str, p: EndedPass, config: Config) -> Remedy:
    """Return that the next pass is to be waited for."""
    return after(code, text, config.loop.scan_interval_s, p)


def after(code: Obstacle, text: str, seconds: float, p: EndedPass) -> Remedy:
    """Return that so much time is to pass."""
    wait = Wait(seconds=seconds)
    return remedy(code, CulpritKind.TIME, rfc3339(p.report.now.wall + seconds), f"{text} {wait}", [wait])


def held_back(p: EndedPass, config: Config) -> Remedy | None:
    """Return why the pass helped no pod at all although some need nodes."""
    result, limit = p.report.scale_up.result, config.limits.max_nodes_total
    if result is ScaleUpResult.IN_COOLDOWN:
        work = [pod for pod in p.report.pods.unschedulable if pod.cls.headroom is None]
        text = "the pods are so new that more may follow; they are handled together"
        return after(Obstacle.PODS_TOO_NEW, text, new_for_s(work, p.report.now), p)
    plan = p.report.scale_up.plan
    capped = plan is not None and plan.capped_by_nodes_total
    ready = sum(1 for _ in p.registry.readings.ready())
    if result is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL or capped or (plan is None and 0 < limit <= ready):
        return more_nodes(1, p, config)
    return None
