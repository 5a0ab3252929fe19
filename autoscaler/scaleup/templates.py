"""Which node is the example of its group, and what a new node of the group then looks like.

Sources, the best first: a node in good order; what such a node told until it went; the cloud's description; any node
of the group. Source of the rules: Cluster Autoscaler's mixed template provider. An unchanged source gives the very
same `Template` object pass after pass.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Templates
from autoscaler.objects import quantity
from autoscaler.objects.matching import daemon_belongs
from autoscaler.objects.meta import ObjectMeta, OwnerReference
from autoscaler.objects.node import INSTANCE_TYPES, REGIONS, TO_BE_DELETED, ZONES, Node, Taint
from autoscaler.objects.pod import Pod, PodClass, PodInterner
from autoscaler.objects.workload import DaemonSet
from autoscaler.registry.readiness import ReadyTerms, ready_terms, usable_readiness
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.template import (
    PassingTaints,
    Template,
    fresh_node,
    fresh_pod,
    suffix_of,
    template_name,
)
from cloudprovider.interface import NodeTemplate

STABLE_AFTER_S = 60.0
"""A node that became ready more recently may still lack labels, resources or DaemonSet pods."""
_CRITICAL = "system-node-critical"
_PREEMPTS = "PreemptLowerPriority"
_MIRRORED = (INSTANCE_TYPES, REGIONS, ZONES)


class Source(StrEnum):
    """Where a template comes from."""

    NODE = "Node"
    CACHE = "Cache"
    PROVIDER = "Provider"
    UNFIT_NODE = "UnfitNode"
    """A node that is not ready, too young, cordoned or being deleted: better than nothing."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A group's template, and what it was made of."""

    template: Template
    source: Source
    seen_s: float
    """When a node in good order was last there (monotonic seconds); for other sources, when it was made."""
    example: Node | None = None
    example_pods: tuple[Pod, ...] = ()
    cloud: NodeTemplate | None = None


class Daemon(msgspec.Struct, frozen=True):
    """A DaemonSet as far as templates care."""

    name: str
    uid: str
    cls: PodClass
    critical: bool
    """Whether it makes room for itself on nodes that are full."""


class TemplateCache(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass leaves to the next."""

    entries: Mapping[str, Entry] = {}
    """By group id."""
    daemon_sets: tuple[DaemonSet, ...] = ()
    daemons: tuple[Daemon, ...] = ()
    faults: Mapping[str, str] = {}
    """What is wrong with a cloud's description, by group id; such a group is treated as if it had none."""


def choose_templates(
    view: ClusterView, cache: TemplateCache, options: Templates, rules: Rules, now: Instant, interner: PodInterner
) -> tuple[Mapping[str, Template], TemplateCache]:
    """Return the template of every group that has one, in the order of the groups, and the cache for the next pass."""
    daemon_sets = tuple(view.related.daemon_sets.values())
    same_daemons = daemon_sets == cache.daemon_sets
    daemons = cache.daemons if same_daemons else tuple(_daemon(one, interner) for one in daemon_sets)
    terms = ready_terms(options, view.groups.gpu_label, rules)
    maker = _Maker(view, options, rules, now, terms.taints, daemons, interner)
    good, unfit = _examples(view, rules, now, terms)
    entries: dict[str, Entry] = {}
    faults: dict[str, str] = {}
    for group in view.groups.all:
        before = cache.entries.get(group.id)
        entry = None
        if (position := good.get(group.id)) is not None:
            entry = maker.from_node(group.id, position, Source.NODE, before, same_daemons)
        elif before is not None and _lasts(before, options, now):
            entry = _with_source(before, Source.CACHE)
        elif group.template is not None:
            try:
                entry = maker.from_cloud(group.id, group.template, before, same_daemons)
            except (ValueError, msgspec.MsgspecError) as error:
                faults[group.id] = str(error)
        if entry is None and (position := unfit.get(group.id)) is not None:
            entry = maker.from_node(group.id, position, Source.UNFIT_NODE, before, same_daemons)
        if entry is not None:
            entries[group.id] = entry
    templates = {group_id: entry.template for group_id, entry in entries.items()}
    kept = cache.daemon_sets if same_daemons else daemon_sets
    return templates, TemplateCache(entries=entries, daemon_sets=kept, daemons=daemons, faults=faults)


def _lasts(entry: Entry, options: Templates, now: Instant) -> bool:
    from_node = entry.source in (Source.NODE, Source.CACHE)
    return from_node and now.mono - entry.seen_s <= options.node_info_cache_expire_time_s


def _with_source(entry: Entry, source: Source) -> Entry:
    return entry if entry.source is source else msgspec.structs.replace(entry, source=source)


def _examples(
    view: ClusterView, rules: Rules, now: Instant, terms: ReadyTerms
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the position of each group's first node in good order and, where there is none, of its first other node.

    The order is that of the view; where rules ask for it only ready, schedulable nodes take part at all.
    """
    good: dict[str, int] = {}
    unfit: dict[str, int] = {}
    missing = {group.id for group in view.groups.all}
    owner_of = view.groups.of_node.get
    for position, node in enumerate(view.nodes):
        group_id = owner_of(node.name)
        if group_id is None or group_id not in missing:
            continue
        state = usable_readiness(node, terms)
        available = state.ready and not node.unschedulable
        stable = state.since is None or now.wall - state.since > STABLE_AFTER_S
        if available and stable and node.taint(TO_BE_DELETED) is None:
            good[group_id] = position
            missing.discard(group_id)
            if not missing:
                break
        elif group_id not in unfit and (available or rules.template_from_all_nodes):
            unfit[group_id] = position
    return good, unfit


class _Maker(msgspec.Struct, frozen=True):
    """Makes templates from one view."""

    view: ClusterView
    options: Templates
    rules: Rules
    now: Instant
    taints: PassingTaints
    daemons: tuple[Daemon, ...]
    interner: PodInterner

    def from_node(
        self, group_id: str, position: int, source: Source, before: Entry | None, same_daemons: bool
    ) -> Entry:
        """Return the entry of a group whose example is the node at `position`; what it was before where it can be."""
        node, pods = self.view.nodes[position], self.view.pods[position]
        seen_s = self.now.mono
        if before is not None and same_daemons and before.example is node and before.example_pods is pods:
            return msgspec.structs.replace(before, source=source, seen_s=seen_s)
        template = self._made(group_id, node, pods, all_daemons=self.options.force_ds)
        template = _same_if_equal(template, before)
        return Entry(template=template, source=source, seen_s=seen_s, example=node, example_pods=pods)

    def from_cloud(self, group_id: str, cloud: NodeTemplate, before: Entry | None, same_daemons: bool) -> Entry:
        """Return the entry of a group that only the cloud can describe; raises `ValueError` on bad quantities and
        `msgspec.MsgspecError` on bad pods."""
        if before is not None and same_daemons and before.cloud == cloud:
            return before
        pods = tuple(self.interner.decoder().one(pod) for pod in cloud.pods)
        template = self._made(group_id, _described(cloud), pods, all_daemons=True)
        template = _same_if_equal(template, before)
        return Entry(template=template, source=Source.PROVIDER, seen_s=self.now.mono, cloud=cloud)

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


def _same_if_equal(template: Template, before: Entry | None) -> Template:
    return before.template if before is not None and before.template == template else template


def _daemon(daemon_set: DaemonSet, interner: PodInterner) -> Daemon:
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
    return Daemon(daemon_set.name, daemon_set.uid, cls, critical)


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
