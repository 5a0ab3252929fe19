"""Which node is the example of its group, and what a new node of the group then looks like.

Sources, the best first: a node in good order; what such a node told until it went; the cloud's description; any node
of the group. Source of the rules: Cluster Autoscaler's mixed template provider. An unchanged source gives the very
same `Template` object pass after pass.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import HealthOptions, TemplateOptions
from autoscaler.current_step import in_hand
from autoscaler.objects import quantity
from autoscaler.objects.matching import daemon_belongs
from autoscaler.objects.meta import ObjectMeta, OwnerReference
from autoscaler.objects.node import INSTANCE_TYPES, REGIONS, ZONES, Node, Taint
from autoscaler.objects.pod import Pod, PodClass, PodInterner
from autoscaler.objects.workload import DaemonSet
from autoscaler.registry.readiness import Readings
from autoscaler.scaleup.example_nodes import NO_EXAMPLES, Examples, find_examples
from autoscaler.scaleup.shortfall import Lowered, Shortfall, lacking, lowered, smaller
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.devices import DevicePool, complete_pools, pools_by_node
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

_CRITICAL = "system-node-critical"
_PREEMPTS = "PreemptLowerPriority"
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
"""Sources that teach something which outlives them."""


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


class TemplateDaemonSet(msgspec.Struct, frozen=True):
    """A DaemonSet as far as templates care."""

    name: str
    uid: str
    cls: PodClass
    critical: bool
    """Whether it makes room for itself on nodes that are full."""


class TemplateCache(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass leaves to the next."""

    entries: Mapping[str, CachedTemplate] = {}
    """By group id."""
    daemon_sets: tuple[DaemonSet, ...] = ()
    daemons: tuple[TemplateDaemonSet, ...] = ()
    faults: Mapping[str, str] = {}
    """What is wrong with a cloud's description, by group id; such a group is treated as if it had none."""
    lowered: Mapping[str, Lowered] = {}
    """Templates that nodes which have just come have cut down, by group id."""
    shortfalls: tuple[Shortfall, ...] = ()
    """What this pass has learnt about groups whose nodes offer less than their templates said."""

    @property
    def described(self) -> frozenset[str]:
        """Groups of which only the cloud tells what their nodes look like."""
        return frozenset(
            group_id for group_id, entry in self.entries.items() if entry.source is TemplateSource.PROVIDER
        )

    @property
    def pools(self) -> Mapping[str, Mapping[str, tuple[int, ...]]]:
        """How many devices each complete pool of a group's nodes has, by driver; groups without any are left out."""
        return {group_id: entry.pools for group_id, entry in self.entries.items() if entry.pools}


def choose_templates(
    view: ClusterView,
    cache: TemplateCache,
    options: TemplateOptions,
    rules: Rules,
    now: Instant,
    interner: PodInterner,
    *,
    readings: Readings,
    health: HealthOptions,
) -> tuple[Mapping[str, Template], TemplateCache]:
    """Return the template of every group that has one, in the order of the groups, and the cache for the next pass.

    `readings` are those of the view's nodes.
    """
    daemon_sets = tuple(view.related.daemon_sets.values())
    same_daemons = daemon_sets == cache.daemon_sets
    daemons = cache.daemons if same_daemons else tuple(_daemon(one, interner) for one in daemon_sets)
    pools = pools_by_node(view.related.resource_slices)
    maker = _Maker(view, options, rules, health, now, readings.terms.taints, daemons, interner, same_daemons, pools)
    examples = find_examples(view, readings, rules, health, now)
    entries: dict[str, CachedTemplate] = {}
    faults: dict[str, str] = {}
    shortfalls: list[Shortfall] = []
    for group in view.groups.all:
        in_hand("group", group.id)
        before = cache.entries.get(group.id)
        try:
            entry = maker.entry(group, examples.get(group.id, NO_EXAMPLES), before)
        except (ValueError, msgspec.MsgspecError) as error:
            faults[group.id] = str(error)
            entry = maker.unfit(group, examples.get(group.id, NO_EXAMPLES), before)
        if entry is not None:
            entries[group.id] = entry
            shortfalls.extend(maker.shortfall(group.id, before, entry))
    lower = {
        group_id: low
        for group_id, found in examples.items()
        if found.young and (entry := entries.get(group_id)) is not None
        if (low := lowered(entry.template, found.young, cache.lowered.get(group_id))) is not None
    }
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
        shortfalls=tuple(shortfalls),
    )
    return templates, after


def _with_source(entry: CachedTemplate, source: TemplateSource) -> CachedTemplate:
    return entry if entry.source is source else msgspec.structs.replace(entry, source=source)


class _Maker(msgspec.Struct, frozen=True):
    """Makes templates from one view."""

    view: ClusterView
    options: TemplateOptions
    rules: Rules
    health: HealthOptions
    now: Instant
    taints: PassingTaints
    daemons: tuple[TemplateDaemonSet, ...]
    interner: PodInterner
    same_daemons: bool
    pools: Mapping[str, tuple[DevicePool, ...]]

    def entry(self, group: Group, found: Examples, before: CachedTemplate | None) -> CachedTemplate | None:
        """Return the best entry of a group; raises `ValueError` or `msgspec.MsgspecError` where only the cloud could
        describe it and does it badly."""
        if before is not None and self._lasts(before) and self._outlives(before, group, found):
            return _with_source(before, TemplateSource.CACHE)
        if found.incomplete and self._are_all_alike(found):
            return self.from_node(group, found.incomplete[0], TemplateSource.INCOMPLETE_NODE, before)
        if (best := self._best(found)) is not None:
            return self.from_node(group, best, TemplateSource.NODE, before)
        if group.template is not None:
            return self.from_cloud(group.id, group.template, before)
        return self.unfit(group, found, before)

    def unfit(self, group: Group, found: Examples, before: CachedTemplate | None) -> CachedTemplate | None:
        """Return the entry of a group of which nothing better is known."""
        return None if found.unfit is None else self.from_node(group, found.unfit, TemplateSource.UNFIT_NODE, before)

    def shortfall(self, group_id: str, before: CachedTemplate | None, entry: CachedTemplate) -> Iterator[Shortfall]:
        """Yield what a node that takes over as the example lacks of the template so far."""
        if before is None or entry.example is None or entry.source not in _REAL:
            return
        same = before.example is not None and before.example.name == entry.example.name
        if same or not self.rules.nodes_correct_templates:
            return
        promised, real = before.template.node, entry.template.node
        by_cloud = before.source is TemplateSource.PROVIDER
        if found := lacking(promised, real, self.taints) if by_cloud else smaller(promised, real):
            yield Shortfall(group_id, entry.example.name, found)

    def _lasts(self, before: CachedTemplate) -> bool:
        """Whether what is remembered may still be used; missing devices may come with other DaemonSets, or be fixed."""
        longest_s = self.options.node_info_cache_expire_time_s
        if before.incomplete:
            longest_s = min(longest_s, self.health.node_group_backoff_reset_timeout_s)
        usable = before.source in (*_REAL, TemplateSource.CACHE) and (self.same_daemons or not before.incomplete)
        return usable and self.now.mono - before.seen_s <= longest_s

    def _are_all_alike(self, found: Examples) -> bool:
        """Whether nodes without their devices are what the group gives: none is in good order, or none of the last."""
        if found.newest is None:
            return True
        latest = self.view.nodes[found.newest].created
        return len(found.incomplete) > 1 and all(self.view.nodes[at].created > latest for at in found.incomplete)

    def _best(self, found: Examples) -> int | None:
        """Return the first node in good order, or the newest where that one offers less."""
        if found.good is None or found.newest is None or found.good == found.newest:
            return found.good
        nodes = self.view.nodes
        return found.newest if smaller(nodes[found.good], nodes[found.newest]) else found.good

    def _outlives(self, remembered: CachedTemplate, group: Group, found: Examples) -> bool:
        """Whether to go by what an earlier example told: older nodes that offer more do not refute it."""
        present = [*found.incomplete[:1], *(() if found.newest is None else (found.newest,))]
        if not present:
            return True
        told, newest = remembered.example, max((self.view.nodes[at] for at in present), key=lambda node: node.created)
        if told is None or newest.created >= told.created or not self.rules.nodes_correct_templates:
            return False
        if found.newest is None:
            return not remembered.incomplete
        worse = remembered.incomplete or bool(smaller(self.view.nodes[found.newest], told))
        return worse and group.template == remembered.described

    def from_node(
        self, group: Group, position: int, source: TemplateSource, before: CachedTemplate | None
    ) -> CachedTemplate:
        """Return the entry of a group whose example is the node at `position`; what it was before where it can be."""
        node, pods = self.view.nodes[position], self.view.pods[position]
        seen_s = self.now.mono
        incomplete = source is TemplateSource.INCOMPLETE_NODE
        if before is not None and self.same_daemons and before.example is node and before.example_pods is pods:
            template = before.template
        else:
            template = self._made(group.id, node, pods, all_daemons=self.options.force_ds)
            template = _same_if_equal(template, before)
        return CachedTemplate(
            template=template,
            source=source,
            seen_s=seen_s,
            example=node,
            example_pods=pods,
            described=group.template,
            incomplete=incomplete,
            pools=complete_pools(self.pools.get(node.name, ())),
        )

    def from_cloud(self, group_id: str, cloud: NodeTemplate, before: CachedTemplate | None) -> CachedTemplate:
        """Return the entry of a group that only the cloud can describe; raises `ValueError` on bad quantities and
        `msgspec.MsgspecError` on bad pods."""
        if before is not None and self.same_daemons and before.cloud == cloud:
            return before
        pods = tuple(self.interner.decoder().one(pod) for pod in cloud.pods)
        template = self._made(group_id, _described(cloud), pods, all_daemons=True)
        template = _same_if_equal(template, before)
        return CachedTemplate(template=template, source=TemplateSource.PROVIDER, seen_s=self.now.mono, cloud=cloud)

    def _made(self, group_id: str, example: Node, pods: tuple[Pod, ...], *, all_daemons: bool) -> Template:
        name, suffix = template_name(group_id), suffix_of(group_id)
        node = fresh_node(
            example,
            name,
            self.taints,
            marked=self.rules.template_node_label,
            uncordoned=self.options.scale_from_unschedulable,
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
        return Template(node, (*kept, *added))


def _same_if_equal(template: Template, before: CachedTemplate | None) -> Template:
    return before.template if before is not None and before.template == template else template


def _daemon(daemon_set: DaemonSet, interner: PodInterner) -> TemplateDaemonSet:
    """Return a DaemonSet with the class of the pods that its controller would create."""
    pods = daemon_set.spec.template
    owner = OwnerReference(
        kind="DaemonSet", name=daemon_set.name, uid=daemon_set.uid, api_version="apps/v1", controller=True
    )
    meta = ObjectMeta(
        name=daemon_set.name,
        namespace=daemon_set.namespace,
        labels=pods.metadata.labels,
        annotations=pods.metadata.annotations,
        owner_references=[owner],
    )
    cls = interner.class_of(meta, pods.spec, node_name=pods.spec.node_name)
    critical = cls.priority_class_name == _CRITICAL and cls.preemption_policy in (None, _PREEMPTS)
    return TemplateDaemonSet(daemon_set.name, daemon_set.uid, cls, critical)


def _described(cloud: NodeTemplate) -> Node:
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
    )
