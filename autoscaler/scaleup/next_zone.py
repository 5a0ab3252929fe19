"""Predicts the zone of the next node of a group with several zones.

The cloud decides, and keeps a balance: it takes the zone in which the group has the fewest machines. Source: the
AZRebalance of AWS's Auto Scaling groups, the target shape EVEN of GCE's regional instance groups, the zone balance of
Azure's scale sets. Where several zones have equally few, any of them may be next; the first by name is taken to be.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from autoscaler.clock import Instant
from autoscaler.config.scaleup import HealthOptions
from autoscaler.objects.node import ZONES, Node
from autoscaler.objects.pod import PodClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.registry.buckets import provision_time_s
from autoscaler.registry.state import Registry
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import ABSENT
from autoscaler.snapshot.template import Template, Zones

_LABEL, _DEPRECATED = ZONES
_ZONE_ID = "topology.k8s.aws/zone-id"
_UNKNOWN = Zones()


def balanced(
    templates: Mapping[str, Template],
    described: Collection[str],
    view: ClusterView,
    registry: Registry,
    health: HealthOptions,
    now: Instant,
) -> Mapping[str, Template]:
    """Return the templates; that of a group with several zones is a node of the zone in which the next one comes.

    `described`: groups whose templates come from the cloud's description alone.
    """
    stated = {group.id: group.template.zones for group in view.groups.all if group.template is not None}
    stated = {group_id: zones for group_id, zones in stated.items() if zones}
    members = _members(view, {group_id for group_id, zones in stated.items() if len(zones) > 1}, stated)
    changed: dict[str, Template] = {}
    for group in view.groups.all:
        template = templates.get(group.id)
        if template is None:
            continue
        if group.id in members:
            zones = zones_of(
                template,
                members[group.id],
                stated.get(group.id, {}),
                starting=set(registry.upcoming_registered.get(group.id, ())),
                due=registry.groups[group.id].upcoming,
                newer_than=now.wall - provision_time_s(group, health),
            )
            changed[group.id] = replace(template, node=zones.coming(zones.due).node, zones=zones)
        elif group.id in described and template.node.zone is None:
            changed[group.id] = replace(template, zones=_UNKNOWN)
    return {**templates, **changed} if changed else templates


def _members(view: ClusterView, spanning: Collection[str], stated: Collection[str]) -> Mapping[str, Sequence[Node]]:
    """Return the nodes of each group with several zones: those said to be `spanning`, and those seen to be.

    What the cloud states of a group counts more than where its nodes are.
    """
    codes = view.columns.labels(_LABEL)
    owners = [view.groups.of_node.get(node.name) for node in view.nodes] if (codes != codes[:1]).any() else []
    sights = Counter(owner for owner, code in set(zip(owners, codes.tolist(), strict=False)) if code != ABSENT)
    seen = {owner for owner, zones in sights.items() if owner is not None and zones > 1 and owner not in stated}
    members: dict[str, list[Node]] = {group_id: [] for group_id in (*spanning, *seen)}
    if members:
        for node in view.nodes:
            group_id = view.groups.of_node.get(node.name)
            if group_id in members:
                members[group_id].append(node)
    return members


def zones_of(
    template: Template,
    nodes: Sequence[Node],
    stated: Mapping[str, Mapping[str, str]],
    *,
    starting: Collection[str],
    due: int,
    newer_than: float,
) -> Zones:
    """Return the zones of a group's next nodes, in the `stated` ones or those of its `nodes`.

    Of `due` nodes on their way the `starting` ones are among the nodes already. A zone that machines newer than that
    (Unix seconds) have not come in, for want of capacity for example, is left out.
    """
    inside: dict[str, list[Node]] = {zone: [] for zone in stated}
    for node in nodes:
        if node.zone is not None and (node.zone in stated or not stated):
            inside.setdefault(node.zone, []).append(node)
    names = sorted(inside)
    coming = sorted((node.name, zone) for zone in names for node in inside[zone] if node.name in starting)
    known = tuple(zone for _, zone in coming)[:due]
    turns = tuple(zone for zone in names if not _passed_over(zone, inside, due - len(known), newer_than))
    highest = max(len(inside[zone]) for zone in turns)
    gaps = sorted((level, zone) for zone in turns for level in range(len(inside[zone]), highest))
    return Zones(
        nodes={zone: len(inside[zone]) - known.count(zone) for zone in names},
        templates={zone: _in_zone(template, zone, inside[zone], stated.get(zone, {})) for zone in names},
        order=(*known, *(zone for _, zone in gaps)),
        turns=turns,
        due=due,
    )


def _passed_over(zone: str, inside: Mapping[str, Sequence[Node]], unseen: int, newer_than: float) -> bool:
    """Whether a new node came where there were more, even if all that have not registered come in this zone."""
    at_most = len(inside[zone]) + unseen
    return any(
        len(nodes) - 1 > at_most and max(node.created for node in nodes) > newer_than for nodes in inside.values()
    )


def _in_zone(template: Template, zone: str, nodes: Sequence[Node], stated: Mapping[str, str]) -> Template:
    theirs = _zonal(nodes[0].labels) if nodes else {_LABEL: zone, _DEPRECATED: zone, **stated}
    replaced = _zonal(template.node.labels)
    shared = {key: value for key, value in template.node.labels.items() if key not in replaced}
    return replace(template, node=replace(template.node, labels={**shared, **theirs}))


def _zonal(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that name the zone: Kubernetes' own, and those of volume drivers that repeat it."""
    zone = next((labels[key] for key in ZONES if key in labels), None)
    return {
        key: value
        for key, value in labels.items()
        if key in ZONES or key == _ZONE_ID or (value == zone and key.rpartition("/")[2] == "zone")
    }


def verdict(
    placer: Placer, cls: PodClass, template: Template, rejections: tuple[Rejection, ...]
) -> tuple[Rejection, ...]:
    """Return why no node is bought for a class, given what the next node of the group has against it.

    Where the class fits in another zone, or might in one that is not known, that is the reason, and the only one.
    """
    zones = template.zones
    if zones is None or not rejections:
        return rejections
    if zones.turns:
        fitting = [zone for zone, fresh in zones.templates.items() if _fits(placer, cls, fresh)]
        return (_later(zones, fitting),) if fitting else rejections
    for zone in placer.trial.vocabulary.values.get(_LABEL, ()):
        labels = {**template.node.labels, _LABEL: zone, _DEPRECATED: zone}
        if _fits(placer, cls, replace(template, node=replace(template.node, labels=labels), zones=None)):
            message = "zone of new node(s) is not known"
            return (Rejection(NoFit.ZONE_UNKNOWN, message, f"a node in {zone} would take it"),)
    return rejections


def _fits(placer: Placer, cls: PodClass, fresh: Template) -> bool:
    with placer.trial.fork():
        return placer.fits(cls, placer.trial.add(fresh, 1)[0])


def _later(zones: Zones, fitting: Sequence[str]) -> Rejection:
    """Return that the class fits in some zones, and which of them is next."""
    waits = {zone: zones.wait(zone) for zone in fitting}
    soonest = min(fitting, key=lambda zone: (waits[zone] is None, waits[zone] or 0))
    coming = next(zone for zone, fresh in zones.templates.items() if fresh is zones.coming(zones.due))
    counts = ", ".join(f"{count} in {zone}" for zone, count in zones.nodes.items())
    ahead = waits[soonest]
    when = f"after {ahead} more" if ahead else "later"
    detail = f"the next node comes in {coming} ({counts}); one in {soonest} is possible, {when}"
    return Rejection(NoFit.ZONE_LATER, "new node(s) come in another zone first", detail)
