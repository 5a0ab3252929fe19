"""Chooses the example node of each group, and builds the template of its new nodes.

Sources, the best first: a node in good order; what was known of such a node until it went; the cloud's description;
any node of the group. Source of the rules: Cluster Autoscaler's mixed template provider. An unchanged source gives the
very same `Template` object pass after pass.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions, TemplateOptions
from autoscaler.current_step import in_hand
from autoscaler.objects import quantity
from autoscaler.objects.devices import described_slice
from autoscaler.objects.matching import daemon_belongs
from autoscaler.objects.node import INSTANCE_TYPES, REGIONS, ZONES, Node, Taint
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import DaemonSet
from autoscaler.registry.readiness import Readings
from autoscaler.scaleup.example_nodes import NO_EXAMPLES, Examples, find_examples
from autoscaler.scaleup.shortfall import Lacking, Lowered, Shortfall, lacking, lowered, smaller
from autoscaler.scaleup.template_daemons import TemplateDaemonSet, template_daemon
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.devices import DevicePool, complete_pools, described_pools, pools_by_node
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.template import (
    PassingTaints,
    Template,
    fresh_node,
    fresh_pod,
    suffix_of,
    template_name,
)
from cloudprovider.interface import NodeTemplate

_MIRRORED = (INSTANCE_TYPES, REGIONS, ZONES)


class TemplateSource(StrEnum):
    """Where a template comes from."""

    NODE = "Node"
    CACHE = "Cache"
    PROVIDER = "Provider"
    INCOMPLETE_NODE = "IncompleteNode"
    """A node that ought to have started long ago and still lacks the devices that its label promises."""
    UNFIT_NODE = "UnfitNode"
    """A node that is not ready, too young, cordoned or being deleted: better than nothing."""


_REAL = (TemplateSource.NODE, TemplateSource.INCOMPLETE_NODE)
"""Sources whose templates stay when the node has gone."""


class CachedTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A group's template, and what it was made of."""

    template: Template
    source: TemplateSource
    seen_s: float
    """When a node in good order was last there (monotonic seconds); for other sources, when it was made."""
    example: Node | None = None
    example_pods: tuple[Pod, ...] = ()
    cloud: NodeTemplate | None = None
    described: NodeTemplate | None = None
    """What the cloud said of the group when the example was last there."""
    incomplete: bool = False
    """Whether the example lacks promised devices."""
    pools: Mapping[str, tuple[int, ...]] = {}
    """How many devices each complete pool of the example has, by driver."""


Brought = dict[str, Any]
"""Fields of a template that come neither from its node nor from its pods."""


class TemplateCache(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass leaves to the next."""

    entries: Mapping[str, CachedTemplate] = {}
    """By group id."""
    daemon_sets: tuple[DaemonSet, ...] = ()
    daemons: tuple[TemplateDaemonSet, ...] = ()
    faults: Mapping[str, str] = {}
    """What is wrong with a cloud's description, by group id; such a group is treated as one without a description."""
    lowered: Mapping[str, Lowered] = {}
    """Templates that nodes which have just come have cut down, by group id."""
    shortfalls: tuple[Shortfall, ...] = ()
    """What this pass has learnt about groups whose nodes offer less than their templates said."""

    @property
    def described(self) -> frozenset[str]:
        """Groups whose templates come from the cloud's description alone."""
        return frozenset(
            group_id for group_id, entry in self.entries.items() if entry.source is TemplateSource.PROVIDER
        )

    @property
    def pools(self) -> Mapping[str, Mapping[str, tuple[int, ...]]]:
        """How many devices each complete pool of a group's nodes has, by driver; groups without any are left out."""
        return {group_id: entry.pools for group_id, entry in self.entries.items() if entry.pools}

    @property
    def csi_drivers(self) -> Mapping[str, frozenset[str]]:
        """The CSI drivers that run on new nodes, by group id; groups without any are left out."""
        templates = ((group_id, entry.template) for group_id, entry in self.entries.items())
        return {group_id: template.csi_drivers for group_id, template in templates if template.csi_drivers}


class TemplateTerms(msgspec.Struct, frozen=True):
    """The configuration of templates, and where the classes of their pods are kept."""

    options: TemplateOptions
    health: HealthOptions
    rules: Rules
    interner: PodInterner
    attach_limits: bool = True
    """Whether new nodes have limits of volumes."""
    devices: bool = True
    """Whether new nodes have devices that pods claim."""


def choose_templates(
    view: ClusterView, readings: Readings, cache: TemplateCache, terms: TemplateTerms, now: Instant
) -> tuple[Mapping[str, Template], TemplateCache]:
    """Return the template of every group that has one, in the order of the groups, and the cache for the next pass.

    `readings` are those of the view's nodes.
    """
    daemon_sets = tuple(view.related.daemon_sets.values())
    same_daemons = daemon_sets == cache.daemon_sets
    daemons = cache.daemons if same_daemons else tuple(template_daemon(found, terms.interner) for found in daemon_sets)
    pools = pools_by_node(view.related.resource_slices)
    common_features = functools.cache(lambda: _common_features(view))
    maker = _Maker(view, terms, now, readings.terms.taints, daemons, same_daemons, pools, common_features)
    examples = find_examples(view, readings, terms.rules, terms.health, now)
    entries, faults = _entries(maker, examples, cache)
    lower = _lowered(entries, examples, cache)
    templates = {
        group_id: lower[group_id].template if group_id in lower else entry.template
        for group_id, entry in entries.items()
    }
    after = TemplateCache(
        entries=entries,
        daemon_sets=cache.daemon_sets if same_daemons else daemon_sets,
        daemons=daemons,
        faults=faults,
        lowered=lower,
        shortfalls=tuple(maker.shortfalls(entries, cache)),
    )
    return templates, after


def _common_features(view: ClusterView) -> frozenset[str]:
    kinds = {node.declared_features for node in view.nodes}
    return frozenset.intersection(*kinds) if kinds else frozenset()


def _entries(
    maker: "_Maker", examples: Mapping[str, Examples], cache: TemplateCache
) -> tuple[dict[str, CachedTemplate], dict[str, str]]:
    """Return the entry of each group that has one, and what is wrong with clouds' descriptions, both by group id."""
    entries: dict[str, CachedTemplate] = {}
    faults: dict[str, str] = {}
    for group in maker.view.groups.all:
        in_hand("group", group.id)
        before, candidates = cache.entries.get(group.id), examples.get(group.id, NO_EXAMPLES)
        try:
            entry = maker.entry(group, candidates, before)
        except (ValueError, msgspec.MsgspecError) as error:
            faults[group.id] = str(error)
            entry = maker.unfit(group, candidates, before)
        if entry is not None:
            entries[group.id] = entry
    return entries, faults


def _lowered(
    entries: Mapping[str, CachedTemplate], examples: Mapping[str, Examples], cache: TemplateCache
) -> dict[str, Lowered]:
    """Return the templates that young nodes cut down, by group id."""
    return {
        group_id: low
        for group_id, candidates in examples.items()
        if candidates.young and (entry := entries.get(group_id)) is not None
        if (low := lowered(entry.template, candidates.young, cache.lowered.get(group_id))) is not None
    }


def _with_source(entry: CachedTemplate, source: TemplateSource) -> CachedTemplate:
    return entry if entry.source is source else msgspec.structs.replace(entry, source=source)


class _Maker(msgspec.Struct, frozen=True):
    """Makes templates from one view."""

    view: ClusterView
    terms: TemplateTerms
    now: Instant
    taints: PassingTaints
    daemons: tuple[TemplateDaemonSet, ...]
    same_daemons: bool
    """Whether the DaemonSets are those of the pass before."""
    pools: Mapping[str, tuple[DevicePool, ...]]
    """Device pools by node name."""
    common_features: Callable[[], frozenset[str]]
    """Returns the features that every node declares; looks at all nodes when it is first called."""

    def entry(self, group: Group, examples: Examples, before: CachedTemplate | None) -> CachedTemplate | None:
        """Return the best entry of a group; raises `ValueError` or `msgspec.MsgspecError` where only the cloud could
        describe it and does it badly."""
        if before is not None and self._lasts(before) and self._outlives(before, group, examples):
            return _with_source(before, TemplateSource.CACHE)
        if examples.incomplete and self._are_all_alike(examples):
            return self.from_node(group, examples.incomplete[0], TemplateSource.INCOMPLETE_NODE, before)
        if (best := self._best(examples)) is not None:
            return self.from_node(group, best, TemplateSource.NODE, before)
        if group.template is not None:
            return self.from_cloud(group.id, group.template, before)
        return self.unfit(group, examples, before)

    def unfit(self, group: Group, examples: Examples, before: CachedTemplate | None) -> CachedTemplate | None:
        """Return the entry of a group for which there is nothing better."""
        if examples.unfit is None:
            return None
        return self.from_node(group, examples.unfit, TemplateSource.UNFIT_NODE, before)

    def shortfalls(self, entries: Mapping[str, CachedTemplate], cache: TemplateCache) -> Iterator[Shortfall]:
        """Yield what nodes that take over as examples lack of the templates so far."""
        for group_id, entry in entries.items():
            before = cache.entries.get(group_id)
            if before is None or entry.example is None or entry.source not in _REAL:
                continue
            same = before.example is not None and before.example.name == entry.example.name
            if not same and self.terms.rules.nodes_correct_templates and (lack := self._lacking(before, entry)):
                yield Shortfall(group_id, entry.example.name, lack)

    def _lacking(self, before: CachedTemplate, entry: CachedTemplate) -> tuple[Lacking, ...]:
        promised, real = before.template.node, entry.template.node
        by_cloud = before.source is TemplateSource.PROVIDER
        return lacking(promised, real, self.taints) if by_cloud else smaller(promised, real)

    def _lasts(self, before: CachedTemplate) -> bool:
        """Whether what is remembered may still be used; missing devices may come with other DaemonSets, or be fixed."""
        longest_s = self.terms.options.node_info_cache_expire_time_s
        if before.incomplete:
            longest_s = min(longest_s, self.terms.health.node_group_backoff_reset_timeout_s)
        usable = before.source in (*_REAL, TemplateSource.CACHE) and (self.same_daemons or not before.incomplete)
        return usable and self.now.mono - before.seen_s <= longest_s

    def _are_all_alike(self, examples: Examples) -> bool:
        """Whether nodes without their devices are what the group gives: none is in good order, or none of the last."""
        if examples.newest is None:
            return True
        latest = self.view.nodes[examples.newest].created
        created = [self.view.nodes[position].created for position in examples.incomplete]
        return len(created) > 1 and min(created) > latest

    def _best(self, examples: Examples) -> int | None:
        """Return the first node in good order, or the newest where that one offers less."""
        if examples.good is None or examples.newest is None or examples.good == examples.newest:
            return examples.good
        nodes = self.view.nodes
        return examples.newest if smaller(nodes[examples.good], nodes[examples.newest]) else examples.good

    def _outlives(self, before: CachedTemplate, group: Group, examples: Examples) -> bool:
        """Whether an earlier example still decides: older nodes that offer more do not refute it."""
        present = [*examples.incomplete[:1], *(() if examples.newest is None else (examples.newest,))]
        if not present:
            return True
        nodes, example = self.view.nodes, before.example
        newest = max((nodes[position] for position in present), key=lambda node: node.created)
        if example is None or newest.created >= example.created or not self.terms.rules.nodes_correct_templates:
            return False
        if examples.newest is None:
            return not before.incomplete
        worse = before.incomplete or bool(smaller(nodes[examples.newest], example))
        return worse and group.template == before.described

    def from_node(
        self, group: Group, position: int, source: TemplateSource, before: CachedTemplate | None
    ) -> CachedTemplate:
        """Return the entry of a group whose example is the node at `position`; what it was before where it can be."""
        node, pods = self.view.nodes[position], self.view.pods[position]
        seen_s = self.now.mono
        incomplete = source is TemplateSource.INCOMPLETE_NODE
        brought = self._brought(group.template, node)
        unchanged = before is not None and before.example is node and before.example_pods is pods
        if before is not None and unchanged and self.same_daemons and _brings(before.template, brought):
            template = before.template
        else:
            template = self._made(group.id, node, pods, brought, all_daemons=self.terms.options.force_ds)
            template = _same_if_equal(template, before)
        return CachedTemplate(
            template=template,
            source=source,
            seen_s=seen_s,
            example=node,
            example_pods=pods,
            described=group.template,
            incomplete=incomplete,
            pools=complete_pools(template.pools),
        )

    def from_cloud(self, group_id: str, cloud: NodeTemplate, before: CachedTemplate | None) -> CachedTemplate:
        """Return the entry of a group that only the cloud can describe; raises `ValueError` on bad quantities and
        `msgspec.MsgspecError` on bad pods."""
        features = self._features(cloud)
        same_features = before is not None and before.template.node.declared_features == features
        if before is not None and same_features and self.same_daemons and before.cloud == cloud:
            return before
        pods = tuple(self.terms.interner.decoder().one(pod) for pod in cloud.pods)
        brought = {**self._brought(cloud), "pools": self._described_pools(group_id, cloud)}
        template = self._made(group_id, _described(cloud, features), pods, brought, all_daemons=True)
        return CachedTemplate(
            template=_same_if_equal(template, before),
            source=TemplateSource.PROVIDER,
            seen_s=self.now.mono,
            cloud=cloud,
            pools=complete_pools(template.pools),
        )

    def _described_pools(self, group_id: str, cloud: NodeTemplate) -> tuple[DevicePool, ...]:
        told = cloud.resource_slices if self.terms.devices else ()
        return described_pools(map(described_slice, told), template_name(group_id))

    def _brought(self, cloud: NodeTemplate | None, example: Node | None = None) -> Brought:
        """Return devices, CSI drivers and their limits: what the example reports, else what the cloud says."""
        name = "" if example is None else example.name
        pools = self.pools.get(name, ())
        if not self.terms.attach_limits:
            return {"pools": pools}
        reported = self.view.related.csi_nodes.get(name)
        told = {} if cloud is None else cloud.attach_limits
        return {
            "pools": pools,
            "attach_limits": {**told, **({} if reported is None else reported.attach_limits)},
            "csi_drivers": None if reported is None else reported.driver_names,
        }

    def _features(self, cloud: NodeTemplate) -> frozenset[str]:
        """Return the features that a new node declares: what the cloud says, else what all nodes have in common."""
        return frozenset(cloud.declared_features) or self.common_features()

    def _made(
        self, group_id: str, example: Node, pods: tuple[Pod, ...], brought: Brought, *, all_daemons: bool
    ) -> Template:
        name, suffix = template_name(group_id), suffix_of(group_id)
        node = fresh_node(
            example,
            name,
            self.taints,
            marked=self.terms.rules.template_node_label,
            uncordoned=self.terms.options.scale_from_unschedulable,
        )
        staying = [pod for pod in pods if pod.deleted is None]
        kept = [fresh_pod(pod, name, suffix) for pod in staying if pod.cls.mirror or pod.cls.daemonset]
        owners = (pod.cls.owner for pod in staying)
        running = {owner.uid for owner in owners if owner is not None and owner.kind == "DaemonSet"}
        added = [
            fresh_pod(Pod(name=daemon.name, cls=daemon.cls, uid=daemon.uid), name, suffix)
            for daemon in self.daemons
            if (all_daemons or daemon.critical) and daemon.uid not in running and daemon_belongs(daemon.cls, node)
        ]
        return Template(node, (*kept, *added), **brought)


def _brings(template: Template, brought: Brought) -> bool:
    return all(getattr(template, name) == value for name, value in brought.items())


def _same_if_equal(template: Template, before: CachedTemplate | None) -> Template:
    return before.template if before is not None and before.template == template else template


def _described(cloud: NodeTemplate, features: frozenset[str]) -> Node:
    """Return the node of a cloud's description, with labels under their deprecated names too."""
    labels = dict(cloud.labels)
    for name, deprecated in _MIRRORED:
        if name in labels:
            labels[deprecated] = labels[name]
    return Node(
        name="",
        labels=labels,
        annotations=cloud.annotations,
        taints=tuple(Taint(key=taint.key, effect=taint.effect, value=taint.value) for taint in cloud.taints),
        capacity=quantity.amounts(cloud.capacity),
        allocatable=quantity.amounts({**cloud.capacity, **cloud.allocatable}),
        declared_features=features,
    )
