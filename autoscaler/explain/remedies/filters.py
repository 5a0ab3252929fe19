"""What a pod would have to be like for the scheduler's filters to let it onto one node, real or a template's.

Figures come from the simulated cluster: what is free there, and what the guards count.
"""

from collections.abc import Iterator, Mapping

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
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.topology import SpreadGuard

_VOLUMES = (NoFit.VOLUME_RESTRICTIONS, NoFit.VOLUME_LIMITS, NoFit.VOLUME_BINDING, NoFit.VOLUME_ZONE)


def changes_to_fit(placer: Placer, pod: Pod, position: int) -> tuple[AnyChange, ...] | None:
    """Return all that must change for the node to take the pod; None where changing the pod cannot help."""
    changes: list[AnyChange] = []
    for reason in dict.fromkeys(one.reason for one in placer.why(pod.cls, position)):
        found = tuple(_changes(reason, placer, pod, position))
        if not found:
            return None
        changes.extend(found)
    return tuple(dict.fromkeys(changes))


def _changes(reason: NoFit, placer: Placer, pod: Pod, position: int) -> Iterator[AnyChange]:
    """Yield what removes everything that one filter has against the pod; nothing where something remains."""
    key, cls, node = pod.key, pod.cls, placer.trial.node(position)
    match reason:
        case NoFit.UNSCHEDULABLE if placer.trial.template(position) is None:
            yield Uncordon(node=node.name)
        case NoFit.UNSCHEDULABLE:
            yield SetFlag(flag="scale-from-unschedulable", value="true")
        case NoFit.NODE_NAME:
            yield DropFromPod(pod=key, field=PodField.NODE_NAME)
        case NoFit.TAINT:
            for taint in node.taints:
                if not cls.tolerates(taint):
                    yield AddToleration(pod=key, key=taint.key, value=taint.value, effect=taint.effect)
        case NoFit.NODE_AFFINITY:
            yield from _wishes(pod, node.labels, node.name)
        case NoFit.PORTS:
            yield DropFromPod(pod=key, field=PodField.HOST_PORTS)
        case NoFit.RESOURCES:
            yield from _requests(placer, pod, position)
        case NoFit.DEVICES:
            yield DropFromPod(pod=key, field=PodField.RESOURCE_CLAIMS)
        case NoFit.SPREAD | NoFit.POD_AFFINITY:
            yield from _company(reason, placer, pod, position)
        case _ if reason in _VOLUMES:
            yield DropFromPod(pod=key, field=PodField.VOLUMES)


def _wishes(pod: Pod, labels: Mapping[str, str], name: str) -> Iterator[AnyChange]:
    cls = pod.cls
    for key, value in cls.node_selector.items():
        if labels.get(key) != value:
            yield DropFromPod(pod=pod.key, field=PodField.NODE_SELECTOR, key=key)
    if cls.node_affinity is not None and not selector_matches(cls.node_affinity, labels, name):
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


def _company(reason: NoFit, placer: Placer, pod: Pod, position: int) -> Iterator[AnyChange]:
    cls = pod.cls
    found: list[AnyChange] = []
    for guard in placer.guards(cls):
        rejection = guard.why(position)
        if rejection is None or rejection.reason is not reason:
            continue
        match guard:
            case SpreadGuard() if guard.constraint in cls.spread:
                found.append(_spread(guard, pod, position))
            case AffinityGuard():
                found.append(DropFromPod(pod=pod.key, field=PodField.POD_AFFINITY))
            case AvoidGuard():
                others = None if guard.others is None else [_one_of(placer, one) for one in guard.others.owners()]
                keys = [pod.key] if others is None else others
                found.extend(DropFromPod(pod=key, field=PodField.POD_ANTI_AFFINITY) for key in keys if key)
                if None in keys:
                    return
            case _:
                return
    yield from found


def _spread(guard: SpreadGuard, pod: Pod, position: int) -> AnyChange:
    key = guard.constraint.topology_key
    if not guard.tally.has_key(slice(position, position + 1))[0]:
        return DropFromPod(pod=pod.key, field=PodField.SPREAD, key=key)
    return AllowSkew(pod=pod.key, topology_key=key, max_skew=guard.skew(position))


def _one_of(placer: Placer, cls: PodClass) -> str | None:
    """Return a pod of the class, running or pending."""
    view = placer.trial.view
    running = (pod for pods in view.pods for pod in pods)
    return next((pod.key for pod in (*running, *view.pending) if pod.cls is cls), None)
