"""What a pod would have to be like for the scheduler's filters to let it onto one node, real or a template's.

Figures come from the simulated cluster: what is free there, and what the guards count.
"""

from collections.abc import Callable, Iterator, Mapping

from autoscaler.explain.remedies.changes import (
    AddToleration,
    AllowSkew,
    AnyChange,
    DropFromPod,
    LimitRequest,
    PodField,
    SetFlag,
    Uncordon,
)
from autoscaler.objects import quantity
from autoscaler.objects.matching import selector_matches
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import NoFit
from autoscaler.scheduling.affinity import AffinityGuard, AvoidGuard
from autoscaler.scheduling.placement import Guard, Placer
from autoscaler.scheduling.topology import SpreadGuard


def changes_to_fit(placer: Placer, pod: Pod, position: int) -> tuple[AnyChange, ...] | None:
    """Return all that must change for the node to take the pod; None where changing the pod cannot help."""
    changes: list[AnyChange] = []
    for reason in dict.fromkeys(rejection.reason for rejection in placer.why(pod.cls, position)):
        removing = _REMOVING.get(reason)
        needed = () if removing is None else tuple(removing(placer, pod, position))
        if not needed:
            return None
        changes.extend(needed)
    return tuple(dict.fromkeys(changes))


def _unschedulable(placer: Placer, pod: Pod, position: int) -> Iterator[AnyChange]:
    if placer.trial.template(position) is None:
        yield Uncordon(node=placer.trial.node(position).name)
    else:
        yield SetFlag(flag="scale-from-unschedulable", value="true")


def _dropping(field: PodField) -> "_Removing":
    return lambda placer, pod, position: iter((DropFromPod(pod=pod.key, field=field),))


def _tolerations(placer: Placer, pod: Pod, position: int) -> Iterator[AnyChange]:
    for taint in placer.trial.node(position).taints:
        if not pod.cls.tolerates(taint):
            yield AddToleration(pod=pod.key, key=taint.key, value=taint.value, effect=taint.effect)


def _selection(placer: Placer, pod: Pod, position: int) -> Iterator[AnyChange]:
    cls, node = pod.cls, placer.trial.node(position)
    for key, value in cls.node_selector.items():
        if node.labels.get(key) != value:
            yield DropFromPod(pod=pod.key, field=PodField.NODE_SELECTOR, key=key)
    if cls.node_affinity is not None and not selector_matches(cls.node_affinity, node.labels, node.name):
        yield DropFromPod(pod=pod.key, field=PodField.NODE_AFFINITY)


def _requests(placer: Placer, pod: Pod, position: int) -> Iterator[AnyChange]:
    """Yield the largest requests that fit; nothing where there is no pod slot left."""
    trial, rows = placer.trial, placer.trial.vocabulary.rows
    if int(trial.free[rows[quantity.PODS], position]) < 1:
        return
    for resource, amount in pod.cls.requests.items():
        free = max(0, int(trial.free[rows[resource], position])) if resource in rows else 0
        if amount > free and not placer.profile.ignores(resource):
            yield LimitRequest(pod=pod.key, resource=resource, at_most=quantity.text(resource, free))


def _spread(placer: Placer, pod: Pod, position: int) -> Iterator[AnyChange]:
    guards = list(_refusing(NoFit.SPREAD, placer, pod, position))
    own = [guard for guard in guards if isinstance(guard, SpreadGuard) and guard.constraint in pod.cls.spread]
    if len(own) == len(guards):
        yield from (_allow_skew(guard, pod, position) for guard in own)


def _allow_skew(guard: SpreadGuard, pod: Pod, position: int) -> AnyChange:
    key = guard.constraint.topology_key
    if not guard.tally.has_key(slice(position, position + 1))[0]:
        return DropFromPod(pod=pod.key, field=PodField.SPREAD, key=key)
    return AllowSkew(pod=pod.key, topology_key=key, max_skew=guard.skew(position))


def _pod_affinity(placer: Placer, pod: Pod, position: int) -> Iterator[AnyChange]:
    changes: list[AnyChange] = []
    for guard in _refusing(NoFit.POD_AFFINITY, placer, pod, position):
        match guard:
            case AffinityGuard():
                changes.append(DropFromPod(pod=pod.key, field=PodField.POD_AFFINITY))
            case AvoidGuard():
                others = None if guard.others is None else [_pod_of(placer, cls) for cls in guard.others.owners()]
                keys = [pod.key] if others is None else others
                changes.extend(DropFromPod(pod=key, field=PodField.POD_ANTI_AFFINITY) for key in keys if key)
                if None in keys:
                    return
            case _:
                return
    yield from changes


def _refusing(reason: NoFit, placer: Placer, pod: Pod, position: int) -> Iterator[Guard]:
    """Yield the guards that keep the pod off the node for this reason."""
    for guard in placer.guards(pod.cls):
        rejection = guard.why(position)
        if rejection is not None and rejection.reason is reason:
            yield guard


def _pod_of(placer: Placer, cls: PodClass) -> str | None:
    """Return the key of a pod of the class, running or pending."""
    view = placer.trial.view
    running = (pod for pods in view.pods for pod in pods)
    return next((pod.key for pod in (*running, *view.pending) if pod.cls is cls), None)


_Removing = Callable[[Placer, Pod, int], Iterator[AnyChange]]

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
    NoFit.VOLUME_RESTRICTIONS: _dropping(PodField.VOLUMES),
    NoFit.VOLUME_LIMITS: _dropping(PodField.VOLUMES),
    NoFit.VOLUME_BINDING: _dropping(PodField.VOLUMES),
    NoFit.VOLUME_ZONE: _dropping(PodField.VOLUMES),
}
"""What removes everything that one filter has against the pod; nothing is yielded where something remains."""
