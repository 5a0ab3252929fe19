"""Read cloud and cluster, bring templates and the registry up to date."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.node_removal import NodeRemoval
from autoscaler.actuation.removal_outcome import AbortReason, Finished
from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.logs import Log
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.passing import PassMemory, PassState
from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodInterner
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import ScaleDownResult, ScaleUpResult, UnremovableNode, UnremovableReason
from autoscaler.registry import memory as memories
from autoscaler.registry.memory import Memory
from autoscaler.registry.readiness import devices_of, read, ready_terms
from autoscaler.registry.state import update
from autoscaler.scaledown.memory import RecentlyUnremovable, ScaleDownMemory, forgotten, left_alone, seeded
from autoscaler.scaleup.next_zone import balanced
from autoscaler.scaleup.templates import TemplateTerms, choose_templates
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups

log = Log(__name__)

_DECISIVE = frozenset({"/api/v1/nodes", "/api/v1/pods"})
"""Without these a pass would buy again what has come, and take for gone what is there."""


class ClusterSource(Protocol):
    """Where a pass gets the cluster from."""

    def observe(self, read_groups: Callable[[Sequence[Node]], Groups]) -> ClusterView:
        """Return the cluster as it is now; raises `RetryLater` where that cannot be told."""
        ...


class Observing:
    """Looks, and compares with what was remembered."""

    def __init__(
        self,
        config: Config,
        source: ClusterSource,
        cloud: Cloud,
        removal: NodeRemoval,
        interner: PodInterner,
        herald: PassEventWriter,
    ) -> None:
        self._config = config
        self._source = source
        self._cloud = cloud
        self._removal = removal
        self._interner = interner
        self._herald = herald

    def run(self, p: PassState) -> PassState:
        """Return the pass with the cluster, templates and registry in its report."""
        with p.time.phase("refresh"):
            self._cloud.refresh(p.report.now.wall)
        with p.time.phase("update_state"):
            with p.time.phase("snapshot"):
                view = self._source.observe(self._cloud.read)
            return self._updated(p.with_report(replace(p.report, view=view)), view)

    def _updated(self, p: PassState, view: ClusterView) -> PassState:
        config, now = self._config, p.report.now
        p = replace(p, under_way=self._removal.under_way())
        before = self._caught_up(p.remembered, view, now)
        p = p.with_report(replace(p.report, silent_s=late(view.silence_s, config.kube.max_watch_silence_s)))
        terms = ready_terms(config.templates, view.groups.gpu_label, config.rules)
        readings = read(view.nodes, terms, before.readings, devices_of(view, before.templates.pools))
        if not config.scale_up.scale_up_from_zero and next(readings.ready(), None) is None:
            self._herald.empty_cluster(now, before.registry.started, has_nodes=bool(view.nodes))
            return replace(p, remembered=without_timers(before)).with_report(
                replace(p.report, end=PassEnd.EMPTY_CLUSTER)
            )
        made_by = TemplateTerms(config.templates, config.health, config.rules, self._interner)
        templates, cache = choose_templates(view, readings, before.templates, made_by, now)
        registry = update(
            before.registry,
            view,
            readings,
            now,
            health=config.health,
            rules=config.rules,
            templated=templates.keys(),
        )
        if config.rules.zones_in_balance:
            templates = balanced(templates, cache.described, view, registry, config.health, now)
        silent = not _DECISIVE.isdisjoint(p.report.silent_s)
        if silent:  # machines that have come meanwhile must not pass for late
            registry = replace(registry, occurrences=(), memory=before.registry)
        self._herald.occurrences(registry)
        self._herald.shortfalls(cache.shortfalls)
        remembered = replace(before, registry=registry.memory, templates=cache, readings=readings)
        report = replace(
            p.report,
            registry=registry,
            templates=templates,
            device_pools=cache.pools,
            shortfalls=cache.shortfalls,
            scale_up_result=ScaleUpResult.NOT_TRIED,
            unneeded=before.unneeded,
            kept=before.kept,
        )
        p = replace(p, report=report, remembered=remembered)
        return all_kept(p, PassEnd.SILENT) if silent else p

    def _caught_up(self, before: PassMemory, view: ClusterView, now: Instant) -> PassMemory:
        """Take in what removals came to since the last pass and, first of all, what an earlier process left behind."""
        if before.scale_down is None:
            self._removal.clean_up(view.nodes, view.groups.of_node)
            self._warn_of_strangers(view.groups)
            ttl_s = self._config.scale_down.node_deletion_candidate_ttl_s
            before = replace(before, scale_down=seeded(view.nodes, ttl_s, now))
        results = self._removal.drain_results()
        return replace(
            before,
            registry=_with_results(before.registry, results),
            scale_down=self._without_refused(before.scale_down, results, view.groups, now),
        )

    def _without_refused(
        self, memory: ScaleDownMemory | None, results: Sequence[Finished], groups: Groups, now: Instant
    ) -> ScaleDownMemory | None:
        """Leave groups alone for a while whose deletions the provider refuses: what holds for one node does for all."""
        until = now.later(self._config.scale_down.unremovable_node_recheck_timeout_s)
        for finished in results:
            if memory is not None and finished.why is AbortReason.REFUSED_AHEAD:
                own = [node for node, group in groups.of_node.items() if group == finished.removal.group]
                memory = left_alone(
                    memory, own, RecentlyUnremovable(until, UnremovableReason.REFUSED, finished.message)
                )
        return memory

    def _warn_of_strangers(self, groups: Groups) -> None:
        unknown = sorted(self._config.scale_down.named_groups - groups.by_id.keys())
        if unknown:
            log.warning(
                "config.unknown_groups", groups=unknown, why="options of scale-down name them, and they do not exist"
            )


def _with_results(memory: Memory, results: Iterable[Finished]) -> Memory:
    for finished in results:
        if finished.deleted:
            memory = memories.deletion_started(memory, finished.removal.group, finished.removal.node.name, finished.at)
        else:
            memory = memories.deletion_failed(memory, finished.removal.group, finished.at)
    return memory


def late(silence_s: Mapping[str, float], limit_s: float) -> dict[str, float]:
    """Return the kinds that have been silent for longer than the limit; 0: there is none."""
    return {path: silent_s for path, silent_s in silence_s.items() if 0 < limit_s < silent_s}


def all_kept(p: PassState, end: PassEnd = PassEnd.COMPLETE) -> PassState:
    """Return the pass without removals, for what it knows is too old: every node has to be found unneeded anew."""
    path, silent_s = max(p.report.silent_s.items(), key=lambda one: one[1])
    detail = f"the API server has said nothing about {path} for {silent_s:.0f}s"
    kept = {node.name: UnremovableNode(node.name, UnremovableReason.SILENT, detail) for node in p.view.nodes}
    report = replace(p.report, end=end, unneeded=(), kept=kept, scale_down_result=ScaleDownResult.NOT_TRIED)
    return replace(p, report=report, remembered=replace(without_timers(p.remembered), kept=kept))


def without_timers(remembered: PassMemory) -> PassMemory:
    """Forget since when nodes are unneeded: nothing is removed on the word of a cluster in trouble."""
    if remembered.scale_down is None:
        return remembered
    return replace(remembered, scale_down=forgotten(remembered.scale_down), unneeded=())
