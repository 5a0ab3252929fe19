"""Reads the cloud and the cluster, and updates the templates and the registry."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from autoscaler.actuation.removal_outcome import AbortReason, Finished
from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.logs import Log
from autoscaler.loop.pass_memory import PassMemory, without_timers
from autoscaler.loop.pass_ports import PassPorts
from autoscaler.loop.stages import EmptyCluster, Ended, Observed, ObservedT, Started, next_stage, remember
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import UnremovableNode, UnremovableReason
from autoscaler.registry import memory as memories
from autoscaler.registry.csi_drivers import awaiting_drivers
from autoscaler.registry.memory import Memory
from autoscaler.registry.readiness import devices_of, read, ready_terms
from autoscaler.registry.state import update
from autoscaler.scaledown.memory import RecentlyUnremovable, ScaleDownMemory, left_alone, seeded
from autoscaler.scaledown.pause import Pauses, read_pauses
from autoscaler.scaleup.next_zone import balanced
from autoscaler.scaleup.templates import TemplateTerms, choose_templates
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups

log = Log(__name__)

_DECISIVE = frozenset({"/api/v1/nodes", "/api/v1/pods"})
"""If these lists were stale, a pass would buy nodes twice and treat existing ones as gone."""


class Observing:
    """Reads the cluster and the cloud, and compares them with what earlier passes left."""

    def __init__(self, ports: PassPorts, interner: PodInterner) -> None:
        self._source = ports.source
        self._cloud = ports.cloud
        self._removal = ports.removal
        self._events = ports.events
        self._interner = interner

    def run(self, stage: Started) -> Observed | Ended:
        """Return the observed cluster with templates and registry; end the pass if the cluster is empty or out of
        date.
        """
        with stage.time.phase("refresh"):
            self._cloud.refresh(stage.now.wall)
        with stage.time.phase("update_state"):
            with stage.time.phase("snapshot"):
                view = self._source.observe(self._cloud.read)
            return self._updated(stage, view)

    def _updated(self, stage: Started, view: ClusterView) -> Observed | Ended:
        config, now = stage.config, stage.now
        tracked_deletions = self._removal.under_way()
        stage = replace(stage, memory=self._caught_up(stage, view))
        silent_s = late(view.silence_s, config.kube.max_watch_silence_s)
        terms = ready_terms(config.templates, view.groups.gpu_label, config.rules)
        known = stage.memory.templates
        found = devices_of(view, known.pools)
        if awaiting := awaiting_drivers(view, known.csi_drivers, config.health, config.rules, now):
            found = replace(found, lacking=found.lacking | awaiting)
        readings = read(view.nodes, terms, stage.memory.readings, found)
        if not config.scale_up.scale_up_from_zero and next(readings.ready(), None) is None:
            self._events.empty_cluster(now, stage.memory.registry.started, has_nodes=bool(view.nodes))
            stage = replace(stage, memory=without_timers(stage.memory))
            empty = next_stage(stage, EmptyCluster, view=view, silent_s=silent_s)
            return Ended(stage=empty, end=PassEnd.EMPTY_CLUSTER)
        limits, devices = config.features.enable_csi_node_aware_scheduling, config.device_claims_count
        made_by = TemplateTerms(config.templates, config.health, config.rules, self._interner, limits, devices)
        templates, cache = choose_templates(view, readings, stage.memory.templates, made_by, now)
        registry = update(
            stage.memory.registry,
            view,
            readings,
            now,
            health=config.health,
            rules=config.rules,
            templated=templates.keys(),
        )
        if config.rules.zones_in_balance:
            templates = balanced(templates, cache.described, view, registry, config.health, now)
        silent = not _DECISIVE.isdisjoint(silent_s)
        if silent:  # machines that arrived in the meantime must not count as late
            registry = replace(registry, occurrences=(), memory=stage.memory.registry)
        self._events.occurrences(registry)
        self._events.shortfalls(cache.shortfalls)
        observed = next_stage(
            remember(stage, registry=registry.memory, templates=cache, readings=readings),
            Observed,
            view=view,
            silent_s=silent_s,
            tracked_deletions=tracked_deletions,
            registry=registry,
            templates=templates,
            device_pools=cache.pools,
            shortfalls=cache.shortfalls,
            pauses=pauses_in(view, config, now),
        )
        return Ended(stage=without_removals(observed), end=PassEnd.SILENT) if silent else observed

    def _caught_up(self, stage: Started, view: ClusterView) -> PassMemory:
        """Process the results of removals since the last pass; on the first pass, also clean up after an earlier
        process.
        """
        config, memory = stage.config.scale_down, stage.memory
        scale_down = memory.scale_down
        if scale_down is None:
            self._removal.clean_up(view.nodes, view.groups.of_node)
            _warn_of_unknown_groups(config.named_groups | stage.config.repair.named_groups, view.groups)
            scale_down = seeded(view.nodes, config.node_deletion_candidate_ttl_s, stage.now)
        results = self._removal.drain_results()
        until = stage.now.later(config.unremovable_node_recheck_timeout_s)
        return replace(
            memory,
            registry=_with_results(memory.registry, results),
            scale_down=_without_refused(scale_down, results, view.groups, until),
        )


def _warn_of_unknown_groups(named: frozenset[str], groups: Groups) -> None:
    unknown = sorted(named - groups.by_id.keys())
    if unknown:
        log.warning(
            "config.unknown_groups", groups=unknown, why="options of scale-down name them, and they do not exist"
        )


def _without_refused(
    memory: ScaleDownMemory, results: Iterable[Finished], groups: Groups, until: Instant
) -> ScaleDownMemory:
    """Exclude groups from removals for a while after the provider refused to delete one of their nodes."""
    for finished in results:
        if finished.why is AbortReason.REFUSED_AHEAD:
            nodes = [node for node, group in groups.of_node.items() if group == finished.removal.group]
            memory = left_alone(memory, nodes, RecentlyUnremovable(until, UnremovableReason.REFUSED, finished.message))
    return memory


def _with_results(memory: Memory, results: Iterable[Finished]) -> Memory:
    for finished in results:
        if finished.deleted:
            memory = memories.deletion_started(memory, finished.removal.group, finished.removal.node.name, finished.at)
        else:
            memory = memories.deletion_failed(memory, finished.removal.group, finished.at)
    return memory


def pauses_in(view: ClusterView, config: Config, now: Instant) -> Pauses:
    """Return what is paused now, of the whole cluster or of groups."""
    key = f"{config.kube.namespace}/{config.observe.pause_config_map_name}"
    return read_pauses(view.related.config_maps.get(key), now.wall)


def late(silence_s: Mapping[str, float], limit_s: float) -> dict[str, float]:
    """Return the kinds that have been silent for longer than `limit_s` seconds; a limit of 0 means none."""
    return {path: silent_s for path, silent_s in silence_s.items() if 0 < limit_s < silent_s}


def without_removals(stage: ObservedT) -> ObservedT:
    """Return a stage with all unneeded timers reset, because its data are too old for removals."""
    path, silent_s = max(stage.silent_s.items(), key=lambda silence: silence[1])
    detail = f"the API server has said nothing about {path} for {silent_s:.0f}s"
    unremovable = {node.name: UnremovableNode(node.name, UnremovableReason.SILENT, detail) for node in stage.view.nodes}
    return replace(stage, memory=replace(without_timers(stage.memory), kept=unremovable))
