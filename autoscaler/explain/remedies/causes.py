"""What stands between a pod and a node, to follow the pod's name: `needs 12 CPU; node a has 7.4 free`."""

from collections.abc import Callable, Mapping, Sequence

from autoscaler.explain.remedies.changes import joined, resource_name
from autoscaler.explain.remedies.filters import refusing
from autoscaler.explain.remedies.labels import that_exist, unlike, values_of
from autoscaler.explain.remedies.spot import Spot, counted_pod, pod_with_port
from autoscaler.explain.remedies.storage import storage_labels, storage_trouble
from autoscaler.objects import quantity
from autoscaler.objects.matching import untolerated
from autoscaler.objects.node import ZONES
from autoscaler.objects.podspec import PodAffinityTerm
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.affinity import AvoidGuard
from autoscaler.scheduling.ports import PortGuard
from autoscaler.scheduling.topology import SpreadGuard
from autoscaler.scheduling.volumes import RestrictionGuard


def cause_of(rejections: Sequence[Rejection], spot: Spot) -> str:
    """Return what the filters have against the pod on the node; empty where none has anything."""
    first = {rejection.reason: rejection for rejection in reversed(rejections)}
    if NoFit.UNSCHEDULABLE in first:
        first.pop(NoFit.TAINT, None)
    telling = ((_TELLING.get(reason), first[reason]) for reason in NoFit if reason in first)
    told = ((tell(spot) if tell is not None else "") or one.detail or one.message for tell, one in telling)
    return "; ".join(dict.fromkeys(told))


def _resources(spot: Spot) -> str:
    if spot.free(quantity.PODS) < 1:
        return f"finds no pod slot left on {spot.where}"
    short = {
        resource: amount
        for resource, amount in spot.cls.requests.items()
        if amount > spot.free(resource) and not spot.placer.profile.ignores(resource)
    }
    needs = joined(_amount(resource, amount) for resource, amount in short.items())
    absent = [resource for resource in short if not _most(resource, spot)]
    if absent and spot.group is not None:
        what = joined(map(resource_name, absent)) if len(short) > 1 else "any"
        return f"needs {needs}, and no group has {what}"
    has = joined(_free(resource, spot) for resource in short)
    largest = spot.group is not None and all(
        spot.node.allocatable.get(resource, 0) >= _most(resource, spot) for resource in short
    )
    one = spot.place if spot.group is None else f"a new node of {spot.place}"
    return f"needs {needs}; {f'the largest machine, of {spot.place},' if largest else one} has {has} free"


def _amount(resource: str, amount: int) -> str:
    return f"{quantity.readable(resource, amount, up=True)} {resource_name(resource)}"


def _free(resource: str, spot: Spot) -> str:
    return quantity.readable(resource, spot.free(resource))


def _most(resource: str, spot: Spot) -> int:
    """Return the most that a new node of any group has of a resource."""
    templates = spot.ended.report.templates.values()
    return max((template.node.allocatable.get(resource, 0) for template in templates), default=0)


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
        return f"would raise the skew over {key} to {guard.skew(spot.position)} in {domain}; maxSkew is {most}"
    return ""


def _pod_affinity(spot: Spot) -> str:
    for guard in refusing(NoFit.POD_AFFINITY, spot):
        if not isinstance(guard, AvoidGuard):
            terms = joined(dict.fromkeys(map(_selected, spot.cls.pod_affinity)))
            return f"has to be near pods with {terms}, and there are none near {spot.where}"
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


def _storage(spot: Spot) -> str:
    trouble = storage_trouble(spot)
    if trouble is not None:
        return trouble[0]
    found = storage_labels(spot)
    if found is None:
        return f"finds no volume for its PersistentVolumeClaims on {spot.where}"
    what, labels = found
    zone = next((labels[key] for key in ZONES if key in labels), None)
    if zone is None:
        return f"{what} only where {joined(f'{key}={value}' for key, value in labels.items())}"
    zones = sorted({one for key in ZONES for one in values_of(key, spot.ended)})
    others = f"; {that_exist(ZONES[0], zones)}" if zones and zone not in zones else ""
    return f"{what} only in zone {zone}{others}"


_TELLING: Mapping[NoFit, Callable[[Spot], str]] = {
    NoFit.UNSCHEDULABLE: lambda spot: f"finds {spot.place} cordoned",
    NoFit.NODE_NAME: lambda spot: f"asks for node {spot.cls.node_name} by name",
    NoFit.TAINT: _taint,
    NoFit.NODE_AFFINITY: unlike,
    NoFit.PORTS: _ports,
    NoFit.RESOURCES: _resources,
    NoFit.SPREAD: _spread,
    NoFit.POD_AFFINITY: _pod_affinity,
    NoFit.VOLUME_RESTRICTIONS: _restrictions,
    NoFit.VOLUME_LIMITS: lambda spot: f"has more volumes than {spot.place} can attach",
    NoFit.VOLUME_BINDING: _storage,
    NoFit.VOLUME_ZONE: _storage,
}
