"""Says in one clause what keeps a pod off a node. The pod is the subject: `needs 12 CPU, node a has 7.4 free`."""

from collections.abc import Callable, Mapping, Sequence

from autoscaler.explain.remedies.changes import joined, resource_name
from autoscaler.explain.remedies.filters import refusing
from autoscaler.explain.remedies.labels import foreign_groups, misspelt, that_exist, unlike, values_of
from autoscaler.explain.remedies.spot import Spot, counted_pod, pod_with_port
from autoscaler.explain.remedies.storage import storage_labels, storage_trouble
from autoscaler.objects import quantity
from autoscaler.objects.matching import untolerated, wants_node
from autoscaler.objects.node import ZONES, Node
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import PodAffinityTerm
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.affinity import AvoidGuard
from autoscaler.scheduling.ports import PortGuard
from autoscaler.scheduling.topology import SpreadGuard
from autoscaler.scheduling.volumes import LimitGuard, RestrictionGuard
from autoscaler.snapshot.template import Template


def cause_of(rejections: Sequence[Rejection], spot: Spot) -> str:
    """Return why the filters reject the pod on the node; empty if they accept it.

    A misspelt label comes first, then the filters in the order of the scheduler.
    """
    reasons = [rejection.reason for rejection in rejections]
    if not reasons:
        return ""
    if NoFit.NODE_AFFINITY in reasons and misspelt(spot.cls, spot.ended):
        return unlike(spot)
    tell, first = _TELLING.get(reasons[0]), rejections[0]
    return (tell(spot) if tell is not None else "") or f"fits no new node: {first.detail or first.message}"


def _resources(spot: Spot) -> str:
    if spot.free(quantity.PODS) < 1:
        return f"needs a pod slot, and {spot.where} have none left"
    requests = {name: amount for name, amount in spot.cls.requests.items() if not spot.placer.profile.ignores(name)}
    short = {name: amount for name, amount in requests.items() if amount > spot.free(name)}
    if spot.group is None:
        has = joined(quantity.readable(name, spot.free(name)) for name in short)
        return f"needs {joined(_amount(*request) for request in short.items())}, {spot.place} has {has} free"
    templates, foreign = spot.ended.report.templates, foreign_groups(spot.cls, spot.ended)
    fitting = ((group, template) for group, template in templates.items() if _may_use(spot.cls, template.node))
    allowed = [template for group, template in fitting if group not in foreign]
    machine = "machine" if len(allowed) == len(templates) else "machine that it may use"
    most = {name: max((_room(template, name) for template in allowed), default=0) for name in short}
    lacking = {name: amount for name, amount in short.items() if amount > most[name]}
    if not lacking:
        needs = joined(_amount(name, amount) for name, amount in requests.items() if amount)
        return f"needs {needs}, no {machine} has all of it"
    worst = max(lacking, key=lambda name: lacking[name] / max(1, most[name]))
    if most[worst] <= 0:
        return f"needs {_amount(worst, lacking[worst])}, no {machine} has any"
    has = quantity.readable(worst, most[worst])
    return f"needs {_amount(worst, lacking[worst])}, the largest {machine} has {has}"


def _may_use(cls: PodClass, node: Node) -> bool:
    return untolerated(cls, node.taints) is None and wants_node(cls, node.labels, node.name)


def _room(template: Template, resource: str) -> int:
    taken = sum(pod.cls.requests.get(resource, 0) for pod in template.pods)
    return template.node.allocatable.get(resource, 0) - taken


def _amount(resource: str, amount: int) -> str:
    of = " of" if resource in (quantity.MEMORY, quantity.EPHEMERAL_STORAGE) else ""
    return f"{quantity.readable(resource, amount, up=True)}{of} {resource_name(resource)}"


def _taint(spot: Spot) -> str:
    return f"does not tolerate taint {untolerated(spot.cls, spot.node.taints)} of {spot.place}"


def _ports(spot: Spot) -> str:
    for guard in refusing(NoFit.PORTS, spot):
        clash = guard.clash(spot.position) if isinstance(guard, PortGuard) else None
        holder = None if clash is None else pod_with_port(spot, clash.port)
        if clash is not None:
            whose = "another pod" if holder is None else f"pod {holder.key}"
            return f"needs host port {clash.port}/{clash.protocol}, which {whose} holds on {spot.where}"
    return ""


def _spread(spot: Spot) -> str:
    for guard in refusing(NoFit.SPREAD, spot):
        if not isinstance(guard, SpreadGuard):
            continue
        key, most = guard.constraint.topology_key, guard.constraint.max_skew
        if not guard.tally.has_key(slice(spot.position, spot.position + 1))[0]:
            return f"is to be spread over {key}, and {spot.place} has no such label"
        domain = spot.node.labels.get(key, "there")
        return f"would raise the skew over {key} to {guard.skew(spot.position)} in {domain}, maxSkew is {most}"
    return ""


def _pod_affinity(spot: Spot) -> str:
    for guard in refusing(NoFit.POD_AFFINITY, spot):
        if not isinstance(guard, AvoidGuard):
            terms = joined(dict.fromkeys(map(_selected, spot.cls.pod_affinity)))
            return f"needs to be near pods with {terms}, and there are none near {spot.where}"
        tally = guard.refusing(spot.position)
        if tally is None or tally.key is None:
            continue
        other = counted_pod(spot, tally)
        name = "another pod" if other is None else f"pod {other.key}"
        where = f"{tally.key}={spot.node.labels.get(tally.key, '')}"
        if guard.others is None:
            return f"must not share {where} with {name}"
        return f"is kept out of {where} by {name}"
    return ""


def _selected(term: PodAffinityTerm) -> str:
    selector = term.label_selector
    if selector is None or not selector.match_labels:
        return f"the labels of its affinity over {term.topology_key}"
    return joined(f"{key}={value}" for key, value in selector.match_labels.items())


def _restrictions(spot: Spot) -> str:
    for guard in refusing(NoFit.VOLUME_RESTRICTIONS, spot):
        users = guard.users if isinstance(guard, RestrictionGuard) else None
        user = None if users is None else counted_pod(spot, users, anywhere=True)
        if user is not None:
            claims = joined(sorted(f"{user.namespace}/{name}" for name in {*user.cls.claims} & {*spot.cls.claims}))
            return f"may not share PersistentVolumeClaim {claims} with pod {user.key} (ReadWriteOncePod)"
    return ""


def _limits(spot: Spot) -> str:
    for guard in refusing(NoFit.VOLUME_LIMITS, spot):
        driver = guard.missing_driver(spot.position) if isinstance(guard, LimitGuard) else None
        if driver is not None:
            return f"has volumes of CSI driver {driver}, which does not run on {spot.where}"
    return f"has more volumes than {spot.place} can attach"


def _storage(spot: Spot) -> str:
    trouble = storage_trouble(spot)
    if trouble is not None:
        return trouble[0]
    volume = storage_labels(spot)
    if volume is None:
        return f"needs volumes for its PersistentVolumeClaims, and {spot.where} can have none"
    what, labels = volume
    zone = next((labels[key] for key in ZONES if key in labels), None)
    if zone is None:
        return f"{what} only where {joined(f'{key}={value}' for key, value in labels.items())}"
    zones = sorted({name for key in ZONES for name in values_of(key, spot.ended)})
    others = f", {that_exist(ZONES[0], zones)}" if zones and zone not in zones else ""
    return f"{what} only in zone {zone}{others}"


_TELLING: Mapping[NoFit, Callable[[Spot], str]] = {
    NoFit.UNSCHEDULABLE: lambda spot: f"needs a node, and {spot.place} is cordoned",
    NoFit.NODE_NAME: lambda spot: f"wants node {spot.cls.node_name} by name",
    NoFit.TAINT: _taint,
    NoFit.NODE_AFFINITY: unlike,
    NoFit.PORTS: _ports,
    NoFit.RESOURCES: _resources,
    NoFit.SPREAD: _spread,
    NoFit.POD_AFFINITY: _pod_affinity,
    NoFit.VOLUME_RESTRICTIONS: _restrictions,
    NoFit.VOLUME_LIMITS: _limits,
    NoFit.VOLUME_BINDING: _storage,
    NoFit.VOLUME_ZONE: _storage,
}
