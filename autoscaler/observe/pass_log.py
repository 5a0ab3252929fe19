"""Writes the log lines of a pass: one for each decision and each problem, with constant event names."""

from collections import Counter
from itertools import islice

from autoscaler.logs import DETAIL, Log
from autoscaler.observe import event_texts
from autoscaler.observe.report import PassEnd, PassReport, RemovedInstances
from autoscaler.observe.status import PublishedStatus
from autoscaler.observe.summary import WHOLE_PASS
from autoscaler.reasons import ReplacementStage, ScaleUpResult, Waiting
from autoscaler.registry.occurrence import Incident, Occurrence
from autoscaler.scaledown.plan import Removal
from autoscaler.scaleup.plan import Resized

log = Log(__name__)

_MOST_DEFERRED = 20
"""Lines on resizes in one pass."""
_END_EVENTS = {PassEnd.UNHEALTHY: "cluster.unhealthy", PassEnd.EMPTY_CLUSTER: "cluster.empty"}
_WAITING = frozenset(reason.value for reason in Waiting)
_STUCK = (ScaleUpResult.NO_OPTIONS, ScaleUpResult.ERROR, ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL)


class PassLog:
    """Logs the decisions of passes. An unchanged state is logged once. Owned by the deciding thread."""

    def __init__(self, *, prices_matter: bool = False) -> None:
        self.prices_matter = prices_matter
        """Whether groups without a price are logged."""
        self._unpriced: tuple[str, ...] = ()
        self._stuck: object = None
        self._end = PassEnd.COMPLETE
        self._error = ""
        self._expander_error = ""
        self._stages: dict[str, ReplacementStage] = {}
        self._silent: frozenset[str] = frozenset()
        self._deferred: frozenset[str] = frozenset()
        self._pauses: dict[str, str] = {}

    def pass_ended(self, report: PassReport, status: PublishedStatus) -> None:
        """Log a pass; `status` is its published status."""
        self._write_end(report)
        self._write_silence(report)
        self._write_pauses(report)
        if report.registry is not None:
            for occurrence in report.registry.occurrences:
                _write_occurrence(occurrence)
        for shortfall in report.shortfalls:
            log.warning(
                "template.corrected",
                group=shortfall.group,
                node=shortfall.node,
                text=event_texts.short_of_template(shortfall),
            )
        self._write_deferred(report)
        self._write_unpriced(report)
        for correction in report.repairs.corrections:
            _write_correction(correction)
        for removed in (*report.repairs.unregistered_removed, *report.repairs.failed_removed):
            _write_removal(removed)
        self._write_answers(report)
        self._write_scale_up(report, status)
        for removal in report.scale_down.begun:
            _write_deletion(removal)
        self._write_replacements(report)
        if log.shows(DETAIL):
            log.detail(
                "pass.done",
                headline=_headline(status),
                number=None if status.last_pass is None else status.last_pass.number,
                end=report.end,
                scale_up=report.scale_up.result,
                scale_down=report.scale_down.result,
                unneeded=len(report.scale_down.unneeded),
                seconds=round(report.timings.get(WHOLE_PASS, 0.0), 4),
                phases={name: round(seconds, 4) for name, seconds in report.timings.items() if name != WHOLE_PASS},
                nodes=len(status.nodes),
                pending=len(status.pods),
            )

    def _write_deferred(self, report: PassReport) -> None:
        """Log the resizes that wait since this pass."""
        known, self._deferred = self._deferred, frozenset(resize.pod.key for resize in report.deferred_resizes)
        new = (resize for resize in report.deferred_resizes if resize.pod.key not in known)
        for resize in islice(new, _MOST_DEFERRED):
            log.info("resize.deferred", pod=resize.pod.key, node=resize.node, lacks=resize.shortage)

    def _write_end(self, report: PassReport) -> None:
        changed = (report.end, report.error) != (self._end, self._error)
        if report.end is PassEnd.FAILED:
            log.error("pass.failed", type=report.error_type, error=report.error)
        elif changed and (event := _END_EVENTS.get(report.end)) is not None:
            counts = None if report.registry is None else report.registry.cluster
            log.warning(event, **({} if counts is None else {"unready": len(counts.unready)}))
        elif changed and report.end is PassEnd.COMPLETE:
            log.info("pass.recovered", after=self._end)
        self._end, self._error = report.end, report.error

    def _write_silence(self, report: PassReport) -> None:
        """Log silence of the API server about some kinds: when it begins, changes, and ends."""
        silent = frozenset(report.silent_s)
        if silent and silent != self._silent:
            log.error(
                "api_server.silent",
                kinds=sorted(silent),
                seconds=round(max(report.silent_s.values())),
                kept="everything as it is" if report.end is PassEnd.SILENT else "all nodes",
            )
        elif self._silent and not silent:
            log.info("api_server.heard_again", kinds=sorted(self._silent))
        self._silent = silent

    def _write_pauses(self, report: PassReport) -> None:
        """Log pauses when they begin, change, and end."""
        pauses = {pause.name: pause.words for pause in report.pauses.all}
        if report.view is not None and pauses != self._pauses:
            log.info("pauses.changed", paused=list(pauses.values()), ended=sorted(self._pauses.keys() - pauses.keys()))
            self._pauses = pauses

    def _write_answers(self, report: PassReport) -> None:
        """Log failures of the gRPC expander: when they begin, change, and end."""
        if report.scale_up.plan is None or not report.scale_up.plan.answers:
            return
        expander_error = next(filter(None, (answer.complaint for answer in report.scale_up.plan.answers)), "")
        if expander_error and expander_error != self._expander_error:
            log.warning("grpc_expander.trouble", error=expander_error)
        elif self._expander_error and not expander_error:
            log.info("grpc_expander.answers_again", after=self._expander_error)
        self._expander_error = expander_error

    def _write_unpriced(self, report: PassReport) -> None:
        """Log the groups that have no price, so that a price-based expander cannot compare them."""
        if not self.prices_matter or report.view is None:
            return
        groups = report.view.groups.all
        unpriced = tuple(group.id for group in groups if group.template is not None and group.node_price is None)
        if unpriced and unpriced != self._unpriced:
            log.warning("groups.without_price", groups=", ".join(unpriced))
        self._unpriced = unpriced

    def _write_scale_up(self, report: PassReport, status: PublishedStatus) -> None:
        pods_by_group = Counter(pod.planned_group for pod in status.pods)
        for increase in report.increases:
            if increase.error is None:
                log.info(
                    "scale_up.decided",
                    group=increase.group,
                    add=increase.wanted - increase.before,
                    size=increase.wanted,
                    pods=pods_by_group[increase.group],
                )
            else:
                log.error(
                    "scale_up.failed",
                    group=increase.group,
                    add=increase.wanted - increase.before,
                    added=increase.after - increase.before,
                    code=increase.error.code,
                    error=increase.error.message,
                )
        self._write_stuck(report, status)

    def _write_stuck(self, report: PassReport, status: PublishedStatus) -> None:
        """Log pods that cannot get a node: when that begins, and when the pods or the reasons change."""
        if report.increases or report.scale_up.result not in _STUCK:
            self._stuck = None
            return
        plan = report.scale_up.plan
        skipped = {} if plan is None else {skipped_group.group: skipped_group.reason for skipped_group in plan.skipped}
        verdicts = Counter(pod.verdict for pod in status.pods if pod.verdict not in _WAITING)
        stuck = (report.scale_up.result, skipped, verdicts)
        if stuck != self._stuck:
            log.info(
                "scale_up.impossible",
                headline=_headline(status),
                result=report.scale_up.result,
                pods=verdicts.total(),
                verdicts=verdicts,
                skipped=skipped,
                error=report.scale_up.error,
            )
        self._stuck = stuck

    def _write_replacements(self, report: PassReport) -> None:
        """Log replacements that have reached another stage."""
        for replacement in report.replacements.all:
            if self._stages.get(replacement.id) is not replacement.stage:
                log.info(
                    "replacement.stage",
                    nodes=list(replacement.nodes),
                    trigger=replacement.trigger,
                    stage=replacement.stage,
                    bought={purchase.group: purchase.count for purchase in replacement.bought},
                    price_before=replacement.price_before,
                    price_after=replacement.price_after,
                    hold=replacement.hold,
                    detail=replacement.detail,
                )
        self._stages = {
            replacement.id: replacement.stage for replacement in report.replacements.all if not replacement.over
        }


def _headline(status: PublishedStatus) -> str | None:
    return None if status.headline is None else status.headline.text


def _write_occurrence(occurrence: Occurrence) -> None:
    group, nodes, error = occurrence.group, occurrence.nodes, occurrence.error
    seconds = None if occurrence.lasted_s is None else round(occurrence.lasted_s)
    match occurrence.incident:
        case Incident.SCALE_UP_FINISHED:
            log.info("scale_up.finished", group=group, nodes=nodes, seconds=seconds)
        case Incident.SCALE_UP_TIMED_OUT:
            log.warning("scale_up.timed_out", group=group, nodes=nodes, seconds=seconds)
        case Incident.CREATION_FAILED:
            code, text = (None, None) if error is None else (error.code, error.message)
            log.warning("machines.not_created", group=group, machines=nodes, code=code, error=text)
        case Incident.UNREGISTERED_KEPT:
            log.detail("machines.kept_at_minimum", group=group, machines=nodes)


def _write_correction(correction: Resized) -> None:
    if correction.error is None:
        log.info("target.lowered", group=correction.group, size=correction.after, before=correction.before)
    else:
        log.error(
            "target.not_lowered", group=correction.group, wanted=correction.wanted, error=correction.error.message
        )


def _write_removal(removed: RemovedInstances) -> None:
    removal = removed.removal
    machines = list(removal.instances)
    if removed.error is None:
        log.info("machines.removed", group=removal.group, machines=machines, reason=removal.reason)
    else:
        log.error("machines.not_removed", group=removal.group, machines=machines, error=removed.error.message)


def _write_deletion(removal: Removal) -> None:
    log.info(
        "scale_down.decided",
        node=removal.node.name,
        group=removal.group,
        pods=len(removal.pods),
        utilization=removal.utilization,
        ready=removal.ready,
    )
