"""The reservations companion: adds fake pods for stored reservations to every pass."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from autoscaler.clock import Clock, Instant
from autoscaler.config.reservations import Reservations, ReservationTarget, template_problems
from autoscaler.errors import AutoscalerError, ConfigError
from autoscaler.eta.lead_time import Ahead, Lead
from autoscaler.eta.lead_times import Leads
from autoscaler.logs import Log
from autoscaler.loop.companion import Companion
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.stages import Observed
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.reasons import Unplaceable
from autoscaler.reservations.inbox import ReservationInbox
from autoscaler.reservations.metrics import ReservationMetrics
from autoscaler.reservations.outcome import unplaced, why
from autoscaler.reservations.plan import plan
from autoscaler.reservations.pods import class_of, count_real, demand, fake_pods
from autoscaler.reservations.state import TargetState
from autoscaler.reservations.status import TargetStatus, target_status
from autoscaler.reservations.store import ConfigMapStore
from autoscaler.snapshot.cluster import ClusterView

log = Log(__name__)

_INTERVAL_S = 3.0
_TEMPLATES_S = 60.0
"""Seconds for which a PodTemplate of the cluster is not read again."""


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the last pass observed about a target."""

    pods: tuple[Pod, ...] = ()
    floor: int = 0
    real: int = 0
    unplaceable: Mapping[Unplaceable, int] = {}


_NOTHING_SEEN = _Seen()


class ReservationKeeper(Companion):
    """Ticks read the changes of other replicas and store changes due to time."""

    name = "reservations"
    interval_s = _INTERVAL_S

    def __init__(
        self,
        commits: ReservationInbox,
        store: ConfigMapStore,
        metrics: ReservationMetrics,
        clock: Clock,
        leads: Leads | None = None,
    ) -> None:
        """With `leads` None, boot times stay unknown. Raises `ConfigError` for unusable templates."""
        self._commits = commits
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._leads = leads or Leads()
        self._interner = PodInterner()
        self._templates_at = float("-inf")
        self._classes = self._made_classes(commits.section)
        self._seen: dict[str, _Seen] = {}
        self._ready: set[str] | None = None

    def before_pass(self, observed: Observed) -> Observed:
        """Return the stage with the fake pods of reservations added after all others."""
        all_pods: list[Pod] = []
        seen: dict[str, _Seen] = {}
        for target in self._commits.section.targets:
            real = count_real(target, observed.view)
            lead = self._lead(target)
            wanted = demand(target, self._up_to_date(target, observed.now), real, observed.now.wall, lead.seconds)
            cls = self._classes.get(target.name)
            pods = () if cls is None else fake_pods(target, cls, wanted.virtual)
            self._metrics.demand(target.name, wanted)
            self._metrics.lead(target.name, lead.seconds)
            missing = {} if cls is not None or not wanted.virtual else {Unplaceable.NO_TEMPLATE: wanted.virtual}
            seen[target.name] = _Seen(pods=pods, floor=wanted.floor, real=real, unplaceable=missing)
            all_pods += pods
        self._seen = seen
        return msgspec.structs.replace(observed, fake_pods=(*observed.fake_pods, *all_pods))

    def after_pass(self, ended: EndedPass) -> None:
        """Record which reservations have room."""
        if ended.report.view is None or ended.placer is None:
            return
        report, seen = ended.report, dict(self._seen)
        groups = ended.view.groups if ended.report.registry is None else ended.view.groups.sized(ended.registry.targets)
        for name, target_demand in seen.items():
            missing = unplaced(target_demand.pods, report.pods.waiting, report.scale_up.plan)
            if missing:
                reason = why(
                    missing[0].cls,
                    ended.placer,
                    groups,
                    report.templates,
                    report.scale_up.result,
                    report.scale_up.plan,
                )
                target_demand = msgspec.structs.replace(target_demand, unplaceable={reason: len(missing)})
                seen[name] = target_demand
            self._metrics.unplaceable(name, target_demand.unplaceable)
        self._seen = seen
        self._note_ready(ended, ended.view)

    def tick(self, now: Instant) -> None:
        """Read the changes of other replicas; raises `AutoscalerError`."""
        if self._commits.load():
            self._commits.refresh()
            self._commits.store_expiries()
        if now.mono - self._templates_at >= _TEMPLATES_S:
            self._read_templates(now)

    def statuses(self) -> tuple[TargetStatus, ...]:
        """Return the state of all targets; a standby replica returns what it read last."""
        now = self._clock.now()
        return tuple(self._status(target, now) for target in self._commits.section.targets)

    def fresh_statuses(self) -> tuple[TargetStatus, ...]:
        """Return the stored state of all targets; if it cannot be read, the last one read."""
        try:
            self._commits.refresh()
        except AutoscalerError as error:
            log.warning("reservations.not_refreshed", error=error)
        return self.statuses()

    def _status(self, target: ReservationTarget, now: Instant) -> TargetStatus:
        seen, state = self._seen.get(target.name, _NOTHING_SEEN), self._up_to_date(target, now)
        unplaceable = {str(reason): count for reason, count in seen.unplaceable.items()}
        lead, standing = self._lead(target), self._commits.status(target.name)
        wanted = demand(target, state, seen.real, now.wall, lead.seconds)
        return target_status(target, state, wanted, lead, unplaceable, standing, now.wall)

    def _up_to_date(self, target: ReservationTarget, now: Instant) -> TargetState:
        """Return the state of a target, updated to the present time; empty if the stored state is unknown."""
        stored = self._commits.state(target.name) or TargetState()
        return plan(stored, (), target, now.wall, self._commits.section.replay_ttl_s).state

    def leads(self) -> Mapping[str, Lead]:
        """Return, by target, how many seconds before the start of an override its floor begins to count."""
        return {target.name: self._lead(target) for target in self._commits.section.targets}

    def _lead(self, target: ReservationTarget) -> Lead:
        return self._leads.lead(target.lead_time_s, self._classes.get(target.name), Ahead())

    def _note_ready(self, ended: EndedPass, view: ClusterView) -> None:
        """Measure, once per reservation, how long it took to get room on an existing node."""
        first = self._ready is None
        ready, before = set[str](), self._ready or set()
        hints, wall = ended.memory.hints, ended.report.now.wall
        for target in self._commits.section.targets:
            seen = self._seen.get(target.name, _NOTHING_SEEN)
            housed = seen.real + sum((hints.get(pod) or "") in view.positions for pod in seen.pods)
            entries = [
                entry for entry in self._up_to_date(target, ended.report.now).entries if entry.activated is not None
            ]
            for entry in entries[: max(0, housed - seen.floor)]:
                ready.add(entry.id)
                if not first and entry.id not in before:
                    self._metrics.capacity_ready(max(0.0, wall - entry.accepted))
        self._ready = ready | before & {
            reservation.id
            for target in self._commits.section.targets
            for reservation in self._up_to_date(target, ended.report.now).entries
        }

    def configure(self, section: Reservations) -> None:
        """Use another configuration; raises `ConfigError`, and then changes nothing."""
        self._classes = self._made_classes(section)
        self._commits.configure(section)
        self._templates_at = float("-inf")

    def _made_classes(self, section: Reservations) -> dict[str, PodClass]:
        made: dict[str, PodClass] = {}
        problems: list[str] = []
        for number, target in enumerate(section.targets):
            if target.pod_template_ref is None:
                try:
                    made[target.name] = class_of(target, target.pod_template, self._interner)
                except ValueError as error:
                    problems.append(f"config: reservations.targets[{number}].podTemplate: {error}")
        if problems:
            raise ConfigError(problems)
        return made

    def _read_templates(self, now: Instant) -> None:
        """Read the templates from the cluster; without a usable template, a target has no fake pods."""
        for target in self._commits.section.targets:
            if target.pod_template_ref is not None:
                template: dict[str, Any] | None = self._store.template(target.pod_template_ref)
                cls = self._class_of(target, template)
                classes = {name: pod_class for name, pod_class in self._classes.items() if name != target.name}
                self._classes = classes if cls is None else {**classes, target.name: cls}
        self._templates_at = now.mono

    def _class_of(self, target: ReservationTarget, template: dict[str, Any] | None) -> PodClass | None:
        problems = Counter[str](["there is no such PodTemplate"] if template is None else ())
        if template is not None:
            problems.update(template_problems(template, "template"))
            try:
                if not problems:
                    return class_of(target, template, self._interner)
            except ValueError as error:
                problems[str(error)] += 1
        for problem in problems:
            log.warning("reservations.template_unusable", target=target.name, problem=problem)
        return None
