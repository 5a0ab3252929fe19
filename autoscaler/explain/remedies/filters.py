"""Finds how a pod would have to change to pass the scheduler's filters on one node, real or a template's.

Figures come from the simulated cluster: free resources, and the counts of the guards.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from autoscaler.explain.remedies.changes import (
    AddToleration,
    AllowSkew,
    AnyChange,
    DeletePod,
    DropFromPod,
    LimitRequest,
    PodField,
    SelectLabel,
    SetFlag,
    Uncordon,
    once,
    sentence,
    told,
)
from autoscaler.explain.remedies.labels import corrected, corrections
from autoscaler.explain.remedies.spot import Spot, counted_pod
from autoscaler.explain.remedies.storage import storage_changes
from autoscaler.objects import quantity
from autoscaler.objects.matching import selector_matches
from autoscaler.objects.meta import OwnerReference
from autoscaler.objects.pod import CORDONED, Pod, PodClass
from autoscaler.reasons import NoFit
from autoscaler.scheduling.affinity import AffinityGuard, AvoidGuard
from autoscaler.scheduling.placement import Guard
from autoscaler.scheduling.topology import SpreadGuard
from autoscaler.scheduling.volumes import RestrictionGuard
from autoscaler.snapshot.template import CONDITION_TAINTS


def changes_to_fit(spot: Spot) -> tuple[AnyChange, ...] | None:
    """Return all changes that the node needs to take the pod; None if no change of the pod can help."""
    changes: list[AnyChange] = []
    for reason in dict.fromkeys(rejection.reason for rejection in spot.placer.why(spot.cls, spot.position)):
        removing = _REMOVING.get(reason)
        needed = () if removing is None else tuple(removing(spot))
        if not needed:
            return None
        changes.extend(needed)
    return tuple(once(changes))


def told_for_node(changes: Sequence[AnyChange], spot: Spot, about: str = "") -> str:
    """Return the instruction that makes an existing node take the pod; `about` as for `told`."""
    if all(isinstance(change, Uncordon) for change in changes):
        return sentence(told(changes, about))
    return sentence(f"{told(changes, about)} so that {spot.place} takes it")


def _unschedulable(spot: Spot) -> Iterator[AnyChange]:
    if spot.group is None:
        yield Uncordon(node=spot.node.name)
    else:
        yield SetFlag(flag="scale-from-unschedulable", value="true")


def _dropping(field: PodField) -> "_Removing":
    return lambda spot: iter((DropFromPod(pod=spot.pod.key, field=field),))


def _tolerations(spot: Spot) -> Iterator[AnyChange]:
    """Yield a toleration for each taint; yields nothing if a condition of the machine keeps the pod away."""
    against = [taint for taint in spot.node.taints if not spot.cls.tolerates(taint)]
    conditions = {taint.key for taint in against if spot.group is None} & CONDITION_TAINTS
    if not conditions <= {CORDONED.key}:
        return
    for taint in against:
        if taint.key in conditions:
            yield Uncordon(node=spot.node.name)
        else:
            yield AddToleration(pod=spot.pod.key, key=taint.key, value=taint.value, effect=taint.effect)


def _selection(spot: Spot) -> Iterator[AnyChange]:
    """Yield changes that make selector and affinity match: probable labels for misspelt ones, removal of all others."""
    cls, node, meant = spot.cls, spot.node, tuple(corrections(spot))
    by_selector = {change.wrong_key: change for change in meant if change.field is PodField.NODE_SELECTOR}
    for key, value in cls.node_selector.items():
        if node.labels.get(key) != value:
            gone = DropFromPod(pod=spot.pod.key, field=PodField.NODE_SELECTOR, key=key)
            yield by_selector.get(key, gone)
    if cls.node_affinity is None or selector_matches(cls.node_affinity, node.labels, node.name):
        return
    by_affinity: list[SelectLabel] = [change for change in meant if change.field is PodField.NODE_AFFINITY]
    if by_affinity and selector_matches(corrected(cls.node_affinity, by_affinity), node.labels, node.name):
        yield from by_affinity
    else:
        yield DropFromPod(pod=spot.pod.key, field=PodField.NODE_AFFINITY)


def _requests(spot: Spot) -> Iterator[AnyChange]:
    """Yield the largest requests that fit; yields nothing if the node has no pod slot left."""
    if spot.free(quantity.PODS) < 1:
        return
    for resource, amount in spot.cls.requests.items():
        free = spot.free(resource)
        if amount > free and not spot.placer.profile.ignores(resource):
            at_most, requested = quantity.text(resource, free), quantity.text(resource, amount)
            yield LimitRequest(pod=spot.pod.key, resource=resource, at_most=at_most, requested=requested)


def _spread(spot: Spot) -> Iterator[AnyChange]:
    guards = list(refusing(NoFit.SPREAD, spot))
    own = [guard for guard in guards if isinstance(guard, SpreadGuard) and guard.constraint in spot.cls.spread]
    if len(own) == len(guards):
        yield from (_allow_skew(guard, spot) for guard in own)


def _allow_skew(guard: SpreadGuard, spot: Spot) -> AnyChange:
    key, position = guard.constraint.topology_key, spot.position
    if not guard.tally.has_key(slice(position, position + 1))[0]:
        return DropFromPod(pod=spot.pod.key, field=PodField.SPREAD, key=key)
    return AllowSkew(pod=spot.pod.key, topology_key=key, max_skew=guard.skew(position))


def _pod_affinity(spot: Spot) -> Iterator[AnyChange]:
    near: list[AnyChange] = []
    avoiding: list[Pod | None] = []
    for guard in refusing(NoFit.POD_AFFINITY, spot):
        match guard:
            case AffinityGuard():
                near.append(DropFromPod(pod=spot.pod.key, field=PodField.POD_AFFINITY))
            case AvoidGuard():
                classes = (spot.cls,) if guard.others is None else guard.others.owners()
                avoiding.extend(_pod_of(spot, cls) for cls in classes)
    by_owner: dict[tuple[str, OwnerReference | str], Pod] = {}
    for pod in avoiding:
        if pod is None:
            return
        by_owner.setdefault((pod.namespace, pod.cls.owner or pod.name), pod)
    yield from near
    yield from (DropFromPod(pod=pod.key, field=PodField.POD_ANTI_AFFINITY) for pod in by_owner.values())


def _restrictions(spot: Spot) -> Iterator[AnyChange]:
    """Yield the deletion of the pod that uses a claim which only one pod may use."""
    for guard in refusing(NoFit.VOLUME_RESTRICTIONS, spot):
        users = guard.users if isinstance(guard, RestrictionGuard) else None
        user = None if users is None else counted_pod(spot, users, anywhere=True)
        if user is None:
            return
        yield DeletePod(pod=user.key)


def avoided_keys(spot: Spot) -> set[str]:
    """Return the topology keys over which anti-affinity keeps the pod off the node."""
    guards = [guard for guard in refusing(NoFit.POD_AFFINITY, spot) if isinstance(guard, AvoidGuard)]
    tallies = [guard.refusing(spot.position) for guard in guards]
    return {tally.key for tally in tallies if tally is not None and tally.key is not None}


def refusing(reason: NoFit, spot: Spot) -> Iterator[Guard]:
    """Yield the guards that keep the pod off the node for this reason."""
    for guard in spot.placer.guards(spot.cls):
        rejection = guard.why(spot.position)
        if rejection is not None and rejection.reason is reason:
            yield guard


def _pod_of(spot: Spot, cls: PodClass) -> Pod | None:
    """Return a pod of the class, running or pending."""
    view = spot.ended.view
    if cls == spot.cls:
        return spot.pod
    running = (pod for pods in view.pods for pod in pods)
    return next((pod for pod in (*view.pending, *running) if pod.cls is cls), None)


_Removing = Callable[[Spot], Iterator[AnyChange]]

_REMOVING: Mapping[NoFit, _Removing] = {
    NoFit.UNSCHEDULABLE: _unschedulable,
    NoFit.NODE_NAME: _dropping(PodField.NODE_NAME),
    NoFit.TAINT: _tolerations,
    NoFit.NODE_AFFINITY: _selection,
    NoFit.PORTS: _dropping(PodField.HOST_PORTS),
    NoFit.RESOURCES: _requests,
    NoFit.DEVICES: _dropping(PodField.RESOURCE_CLAIMS),
    NoFit.SPREAD: _spread,
    NoFit.POD_AFFINITY: _pod_affinity,
    NoFit.VOLUME_RESTRICTIONS: _restrictions,
    NoFit.VOLUME_BINDING: storage_changes,
}
"""Functions that yield the changes which satisfy one filter completely; they yield nothing if none can."""
