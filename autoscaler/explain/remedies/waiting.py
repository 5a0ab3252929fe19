"""Finds what would make a pending pod take part that the pass skipped."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.changes import (
    AnnotatableKind,
    Annotate,
    AnyChange,
    DropFromPod,
    PodField,
    SetFlag,
    SetPriority,
    Wait,
    spelled,
)
from autoscaler.explain.remedies.pods import onto_nodes
from autoscaler.explain.remedies.remedy import CulpritKind, Remedy, remedy
from autoscaler.objects.capacity import CONSUMES, CONSUMES_FORMERLY, consumed_request
from autoscaler.objects.pod import SCALE_UP_DELAY, Pod
from autoscaler.reasons import Waiting
from autoscaler.scaleup.pending import scale_up_delay_s


def waiting_remedies(pod: Pod, reason: Waiting, ended: ExplainedPass, nodes: Sequence[int]) -> Iterator[Remedy]:
    """Yield what would have a pod take part; nothing where that is as it should be.

    `nodes` are positions, nearest miss first.
    """
    if reason is Waiting.DAEMONSET:
        yield from _daemon(pod, ended, nodes)
    elif (remedies := _REMEDIES.get(reason)) is not None:
        yield from remedies(pod, ended)


def _daemon(pod: Pod, ended: ExplainedPass, nodes: Sequence[int]) -> Iterator[Remedy]:
    text = "it runs once its own node has room; no other node and no change of the pod helps"
    remedies = tuple(onto_nodes(pod, ended, nodes, Waiting.DAEMONSET))
    yield from remedies or (remedy(Waiting.DAEMONSET, CulpritKind.POD, pod.key, text),)


def _too_young(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    code, flag = Waiting.TOO_YOUNG, "new-pod-scale-up-delay"
    delay_s = scale_up_delay_s(pod.cls, ended.config.pods)
    own = delay_s > ended.config.pods.new_pod_scale_up_delay_s
    kind, name = (CulpritKind.POD, pod.key) if own else (CulpritKind.FLAG, flag)
    wait = Wait(seconds=max(0.0, delay_s - (ended.report.now.wall - pod.created)))
    yield remedy(code, kind, name, f"it causes a scale-up {wait}", [wait])
    at_once = Annotate(kind=AnnotatableKind.POD, name=pod.key, key=SCALE_UP_DELAY, value=None)
    change: AnyChange = at_once if own else SetFlag(flag=flag, value="0s")
    yield remedy(code, kind, name, f"it causes one now if {change}", [change])


def _expendable(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    code, priority = Waiting.EXPENDABLE, pod.cls.priority
    raised = SetPriority(pod=pod.key, priority=ended.config.pods.expendable_pods_priority_cutoff)
    text = f"its priority is {priority}; it counts with {raised}"
    yield remedy(code, CulpritKind.POD, pod.key, text, [raised])
    flag = SetFlag(flag="expendable-pods-priority-cutoff", value=str(priority))
    yield remedy(code, CulpritKind.FLAG, flag.flag, f"it counts with {flag}", [flag])


def _gated(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    gates = DropFromPod(pod=pod.key, field=PodField.SCHEDULING_GATES)
    yield remedy(Waiting.GATED, CulpritKind.POD, pod.key, f"it takes part once {gates}", [gates])


def _foreign_scheduler(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    names = [*ended.config.pods.allowed_scheduler_names, pod.cls.scheduler_name]
    flag = SetFlag(flag="allowed-scheduler-names", value=",".join(names))
    yield remedy(Waiting.FOREIGN_SCHEDULER, CulpritKind.FLAG, flag.flag, f"it takes part with {flag}", [flag])


def _not_judged(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    scheduler = pod.cls.scheduler_name
    names = [*ended.config.pods.bypassed_scheduler_names, scheduler]
    flag = SetFlag(flag="bypassed-scheduler-names", value=",".join(names))
    text = f"it takes part once scheduler {scheduler} has tried to place it, or with {flag}"
    yield remedy(Waiting.NOT_JUDGED, CulpritKind.FLAG, flag.flag, text, [flag])


def _consumes_request(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    keys = [key for key in (CONSUMES, CONSUMES_FORMERLY) if key in pod.cls.annotations]
    drop = [Annotate(kind=AnnotatableKind.POD, name=pod.key, key=key, value=None) for key in keys]
    request = consumed_request(pod.cls.annotations)
    text = f"ProvisioningRequest {request} buys nodes for it; the pod itself does once {spelled(drop)}"
    yield remedy(Waiting.CONSUMES_REQUEST, CulpritKind.POD, pod.key, text, drop)


def _terminating(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    text = "it is being deleted; its controller creates another if needed"
    yield remedy(Waiting.TERMINATING, CulpritKind.POD, pod.key, text)


_REMEDIES: Mapping[Waiting, Callable[[Pod, ExplainedPass], Iterator[Remedy]]] = {
    Waiting.TOO_YOUNG: _too_young,
    Waiting.EXPENDABLE: _expendable,
    Waiting.GATED: _gated,
    Waiting.FOREIGN_SCHEDULER: _foreign_scheduler,
    Waiting.NOT_JUDGED: _not_judged,
    Waiting.CONSUMES_REQUEST: _consumes_request,
    Waiting.TERMINATING: _terminating,
}
