"""The first step: read cloud and cluster, bring templates and the registry up to date."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.remover import NodeRemoval
from autoscaler.clock import Instant, stopwatch
from autoscaler.config.tree import Config
from autoscaler.loop.herald import Herald
from autoscaler.loop.passing import Pass, Remembered
from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodInterner
from autoscaler.observe.report import End
from autoscaler.reasons import ScaleUpResult
from autoscaler.registry import memory as memories
from autoscaler.registry.memory import Memory
from autoscaler.registry.readiness import devices_of, read, ready_terms
from autoscaler.registry.state import update
from autoscaler.scaledown.memory import forgotten, seeded
from autoscaler.scaleup.templates import choose_templates
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups

log = logging.getLogger(__name__)


class Source(Protocol):
    """Where a pass gets the cluster from."""

    def observe(self, read_groups: Callable[[Sequence[Node]], Groups]) -> ClusterView:
        """Return the cluster as it is now; raises `RetryLater` where that cannot be told."""
        ...


class Observing:
    """Looks, and compares with what was remembered."""

    def __init__(
        self,
        config: Config,
        source: Source,
        cloud: Cloud,
        removal: NodeRemoval,
        interner: PodInterner,
        herald: Herald,
    ) -> None:
        self._config = config
        self._source = source
        self._cloud = cloud
        self._removal = removal
        self._interner = interner
        self._herald = herald

    def run(self, p: Pass) -> Pass:
        """Return the pass with the cluster, templates and registry in its report."""
        config, now, began = self._config, p.report.now, stopwatch()
        self._cloud.refresh(now.wall)
        p, began = p.timed("refresh", began), stopwatch()
        view = self._source.observe(self._cloud.read)
        p = p.with_report(replace(p.report, view=view)).timed("snapshot", began)
        p = replace(p, under_way=self._removal.under_way())
        before = self._caught_up(p.remembered, view, now)
        terms = ready_terms(config.templates, view.groups.gpu_label, config.rules)
        readings = read(view.nodes, terms, before.readings, devices_of(view, before.templates.pools))
        if not config.scale_up.scale_up_from_zero and next(readings.ready(), None) is None:
            self._herald.empty_cluster(now, before.registry.started, has_nodes=bool(view.nodes))
            return replace(p, remembered=without_timers(before)).with_report(replace(p.report, end=End.EMPTY_CLUSTER))
        templates, cache = choose_templates(
            view,
            before.templates,
            config.templates,
            config.rules,
            now,
            self._interner,
            readings=readings,
            health=config.health,
        )
        registry = update(
            before.registry,
            view,
            readings,
            now,
            health=config.health,
            rules=config.rules,
            templated=templates.keys(),
        )
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
        return replace(p, report=report, remembered=remembered).timed("update_state", began)

    def _caught_up(self, before: Remembered, view: ClusterView, now: Instant) -> Remembered:
        """Take in what removals came to since the last pass and, first of all, what an earlier process left behind."""
        if before.scale_down is None:
            self._removal.clean_up(view.nodes, view.groups.of_node)
            self._warn_of_strangers(view.groups)
            ttl_s = self._config.scale_down.node_deletion_candidate_ttl_s
            before = replace(before, scale_down=seeded(view.nodes, ttl_s, now))
        return replace(before, registry=self._with_results(before.registry))

    def _warn_of_strangers(self, groups: Groups) -> None:
        unknown = sorted(self._config.scale_down.named_groups - groups.by_id.keys())
        if unknown:
            log.warning("config.unknown_groups options of scale-down name groups that do not exist: %s", unknown)

    def _with_results(self, memory: Memory) -> Memory:
        for finished in self._removal.drain_results():
            if finished.deleted:
                memory = memories.deletion_started(
                    memory, finished.removal.group, finished.removal.node.name, finished.at
                )
            else:
                memory = memories.deletion_failed(memory, finished.removal.group, finished.at)
        return memory


def without_timers(remembered: Remembered) -> Remembered:
    """Forget since when nodes are unneeded: nothing is removed on the word of a cluster in trouble."""
    if remembered.scale_down is None:
        return remembered
    return replace(remembered, scale_down=forgotten(remembered.scale_down), unneeded=())
