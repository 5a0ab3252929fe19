"""Finds what would make the autoscaler consider a pending pod that the pass skipped."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.changes import (
    AnnotatableKind,
    Annotate,
    DropFromPod,
    PodField,
    SetFlag,
    SetPriority,
    Wait,
    sentence,
    told,
)
from autoscaler.explain.remedies.groups import by_change
from autoscaler.explain.remedies.pods import onto_nodes
from autoscaler.explain.remedies.remedy import CulpritKind, Remedy, remedy
from autoscaler.objects.capacity import CONSUMES, CONSUMES_FORMERLY, consumed_request
from autoscaler.objects.pod import SCALE_UP_DELAY, Pod
from autoscaler.reasons import Waiting
from autoscaler.scaleup.pending import scale_up_delay_s


def waiting_remedies(pod: Pod, reason: Waiting, ended: ExplainedPass, nodes: Sequence[int]) -> Iterator[Remedy]:
    """Yield what would make the pass consider the pod; yields nothing if nothing is wrong.

    `nodes` are positions, nearest miss first.
    """
    if reason is Waiting.DAEMONSET:
        yield from _daemon(pod, ended, nodes)
    elif (remedies := _REMEDIES.get(reason)) is not None:
        yield from remedies(pod, ended)


def _daemon(pod: Pod, ended: ExplainedPass, nodes: Sequence[int]) -> Iterator[Remedy]:
    text = "Make room on its own node; no other node may run it."
    remedies = tuple(onto_nodes(pod, ended, nodes, Waiting.DAEMONSET))
    cause = "belongs to a DaemonSet, and its own node has no room"
    yield from remedies or (remedy(Waiting.DAEMONSET, _own(pod), text, cause=cause),)


def _own(pod: Pod) -> tuple[CulpritKind, str]:
    return CulpritKind.POD, pod.key


def _too_young(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    code, flag = Waiting.TOO_YOUNG, "new-pod-scale-up-delay"
    delay_s = scale_up_delay_s(pod.cls, ended.config.pods)
    annotated = delay_s > ended.config.pods.new_pod_scale_up_delay_s
    culprit = _own(pod) if annotated else (CulpritKind.FLAG, flag)
    wait = Wait(seconds=max(0.0, delay_s - (ended.report.now.wall - pod.created)))
    whose = f"its annotation {SCALE_UP_DELAY}" if annotated else f"--{flag}"
    cause = f"is younger than {whose} asks for"
    yield remedy(code, culprit, f"Wait {wait.span}; it may cause a scale-up then.", [wait], cause)
    at_once = Annotate(kind=AnnotatableKind.POD, name=pod.key, key=SCALE_UP_DELAY, value=None)
    yield by_change(code, culprit, at_once if annotated else SetFlag(flag=flag, value="0s"), cause)


def _expendable(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    code, cutoff = Waiting.EXPENDABLE, ended.config.pods.expendable_pods_priority_cutoff
    raised = SetPriority(pod=pod.key, priority=cutoff)
    flag = SetFlag(flag="expendable-pods-priority-cutoff", value=str(pod.cls.priority))
    cause = f"has priority {pod.cls.priority}, and pods below {cutoff} get no nodes"
    yield remedy(code, _own(pod), sentence(told([raised], pod.key)), [raised], cause)
    yield by_change(code, (CulpritKind.FLAG, flag.flag), flag, cause)


def _gated(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    gates = DropFromPod(pod=pod.key, field=PodField.SCHEDULING_GATES)
    text = f"Wait for the controller that set the gates, or {told([gates], pod.key)}."
    yield remedy(Waiting.GATED, _own(pod), text, [gates], "has scheduling gates")


def _foreign_scheduler(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    names = [*ended.config.pods.allowed_scheduler_names, pod.cls.scheduler_name]
    flag = SetFlag(flag="allowed-scheduler-names", value=",".join(names))
    cause = f"is for scheduler {pod.cls.scheduler_name}, which --{flag.flag} does not name"
    yield by_change(Waiting.FOREIGN_SCHEDULER, (CulpritKind.FLAG, flag.flag), flag, cause)


def _not_judged(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    scheduler = pod.cls.scheduler_name
    names = [*ended.config.pods.bypassed_scheduler_names, scheduler]
    flag = SetFlag(flag="bypassed-scheduler-names", value=",".join(names))
    text = f"Check that scheduler {scheduler} runs, or {told([flag])}."
    cause = f"has not been tried by scheduler {scheduler} yet"
    yield remedy(Waiting.NOT_JUDGED, (CulpritKind.FLAG, flag.flag), text, [flag], cause)


def _consumes_request(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    keys = [key for key in (CONSUMES, CONSUMES_FORMERLY) if key in pod.cls.annotations]
    drop = [Annotate(kind=AnnotatableKind.POD, name=pod.key, key=key, value=None) for key in keys]
    request = f"ProvisioningRequest {pod.namespace}/{consumed_request(pod.cls.annotations)}"
    text = f"See the conditions of {request}, or {told(drop, pod.key)}."
    yield remedy(Waiting.CONSUMES_REQUEST, _own(pod), text, drop, f"waits for {request}, which gets nodes for it")


def _terminating(pod: Pod, ended: ExplainedPass) -> Iterator[Remedy]:
    text = "Nothing to do: its controller creates another pod if one is needed."
    yield remedy(Waiting.TERMINATING, _own(pod), text, cause="is being deleted")


_REMEDIES: Mapping[Waiting, Callable[[Pod, ExplainedPass], Iterator[Remedy]]] = {
    Waiting.TOO_YOUNG: _too_young,
    Waiting.EXPENDABLE: _expendable,
    Waiting.GATED: _gated,
    Waiting.FOREIGN_SCHEDULER: _foreign_scheduler,
    Waiting.NOT_JUDGED: _not_judged,
    Waiting.CONSUMES_REQUEST: _consumes_request,
    Waiting.TERMINATING: _terminating,
}
