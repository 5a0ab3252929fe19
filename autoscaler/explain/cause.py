"""Says in one clause what a pod needs and there is not; the pod is its subject: `needs 12 CPU, …`."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.pod import NearestMiss
from autoscaler.explain.remedies.remedy import Obstacle, Remedy
from autoscaler.objects import quantity
from autoscaler.objects.matching import untolerated, wants_node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import NoFit, PodVerdict, Rejection, ScaleUpResult, Skip, Waiting
from autoscaler.snapshot.template import Template
from cloudprovider.nearest import nearest

_MOST_WORDS = 500
_LONGEST_WORD = 80
_GROUPS: Mapping[str, str] = {
    Skip.NOT_READY: "whose nodes fail to become ready",
    Skip.BACKED_OFF: "which the cloud refused to grow",
    Obstacle.INCREASE_FAILED: "which the cloud refused to grow",
    Skip.MAX_SIZE: "which is at its maximum size",
    Skip.NO_TEMPLATE: "which has no template",
}
_FILTERS: Mapping[str, str] = {
    NoFit.PORTS: "needs a host port that is taken",
    NoFit.VOLUME_RESTRICTIONS: "needs a volume that another pod uses",
    NoFit.VOLUME_LIMITS: "needs a volume, and the nodes have as many as they can attach",
    NoFit.VOLUME_ZONE: "needs a volume of another zone",
    NoFit.SPREAD: "is kept away by its topology spread constraint",
    NoFit.POD_AFFINITY: "is kept away by pod affinity or anti-affinity",
    NoFit.DEVICES: "has claims for devices, which are not simulated",
    NoFit.UNSCHEDULABLE: "fits only nodes that are cordoned",
    NoFit.NODE_NAME: "wants one node by name",
    NoFit.TOO_MUCH_WORK: "has too many constraints to be tried",
    NoFit.ZONE_LATER: "needs a zone in which the next machine does not come",
    NoFit.ZONE_UNKNOWN: "needs a zone, and nobody knows the zone of the next machine",
}
_RESULTS: Mapping[str, str] = {
    Skip.LIMIT: "needs a machine, and the cluster is at a limit of its resources",
    Skip.ATOMIC_LIMIT: "needs a machine, and the cluster is at its maximum number of nodes",
    ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL: "needs a machine, and the cluster is at its maximum number of nodes",
    PodVerdict.NOT_CHOSEN: "needs a machine, and the expander chose none",
    Obstacle.NO_GROUPS: "needs a machine, and there is no node group",
    Waiting.DAEMONSET: "belongs to a node that has no room for it",
}


def cause_of(pod: Pod, miss: NearestMiss, ended: ExplainedPass) -> str:
    """Return the clause for a pod that is stuck."""
    best = miss.remedies[0] if miss.remedies else None
    code = _code(best, miss.rejections)
    if best is not None and code in _GROUPS:
        return f"needs a machine of group {best.culprit.name}, {_GROUPS[code]}"
    told = _TOLD.get(code)
    clause = None if told is None else told(pod, miss.rejections, list(_templates(ended)))
    return clause or _FILTERS.get(code) or _RESULTS.get(code) or "fits no node group"


def _code(best: Remedy | None, rejections: Sequence[Rejection]) -> str:
    if best is not None:
        return best.code
    return rejections[0].reason if rejections else ""


def _templates(ended: ExplainedPass) -> Iterator[Template]:
    for group in ended.view.groups.all:
        template = ended.report.templates.get(group.id)
        if template is not None:
            yield template


def _resources(pod: Pod, rejections: Sequence[Rejection], templates: Sequence[Template]) -> str | None:
    """Return the resource of which no machine has enough; where each is enough somewhere, that none has all."""
    allowed = [template for template in templates if _may_use(pod, template)]
    short = []
    for resource, needed in pod.cls.requests.items():
        largest = max((_room(template, resource) for template in allowed), default=0)
        if needed > largest:
            short.append((needed / max(1, largest), resource, needed, largest))
    machine = "machine" if len(allowed) == len(templates) else "machine that it may use"
    if short:
        _, resource, needed, largest = max(short)
        has = (
            f"the largest {machine} has {quantity.figure(resource, largest)}"
            if largest > 0
            else f"no {machine} has any"
        )
        return f"needs {_amount(resource, needed)}, {has}"
    if any(rejection.reason is not NoFit.RESOURCES for rejection in rejections):
        return None
    needs = [_amount(resource, needed) for resource, needed in pod.cls.requests.items() if needed]
    return f"needs {' and '.join(needs)}, no {machine} has all of it"


def _may_use(pod: Pod, template: Template) -> bool:
    node = template.node
    return untolerated(pod.cls, node.taints) is None and wants_node(pod.cls, node.labels, node.name)


def _amount(resource: str, value: int) -> str:
    return f"{quantity.figure(resource, value, up=True)} {quantity.unit(resource)}"


def _room(template: Template, resource: str) -> int:
    taken = sum(pod.cls.requests.get(resource, 0) for pod in template.pods)
    return template.node.allocatable.get(resource, 0) - taken


def _labels(pod: Pod, _: Sequence[Rejection], templates: Sequence[Template]) -> str | None:
    labels = [template.node.labels for template in templates]
    for key, value in pod.cls.node_selector.items():
        values = sorted({node[key] for node in labels if key in node})
        if value in values:
            continue
        if values:
            return f"wants {key}={value}, no group has that label{_meant(value, values)}"
        keys = sorted({known for node in labels for known in node})
        return f"wants {key}={value}, no group has label {key}{_meant(key, keys)}"
    if pod.cls.node_affinity is not None:
        return "has a node affinity that no group matches"
    return "wants labels that no group has together" if pod.cls.node_selector else None


def _meant(word: str, words: Sequence[str]) -> str:
    """Return a hint at a misspelling; long words are not compared, since that takes time by the square."""
    near = [other for other in words[:_MOST_WORDS] if len(other) <= _LONGEST_WORD]
    hint = nearest(word, near).removeprefix("; ") if len(word) <= _LONGEST_WORD else ""
    return f" ({hint})" if hint else ""


def _taints(pod: Pod, rejections: Sequence[Rejection], _: Sequence[Template]) -> str | None:
    detail = next((rejection.detail for rejection in rejections if rejection.reason is NoFit.TAINT), "")
    taint = detail.removeprefix("taint ").removesuffix(" not tolerated")
    return f"does not tolerate taint {taint}" if taint else None


def _claims(pod: Pod, rejections: Sequence[Rejection], _: Sequence[Template]) -> str | None:
    detail = next((rejection.detail for rejection in rejections if rejection.reason is NoFit.VOLUME_BINDING), "")
    return f"cannot use its volume: {detail}" if detail else None


_TOLD: Mapping[str, Callable[[Pod, Sequence[Rejection], Sequence[Template]], str | None]] = {
    NoFit.RESOURCES: _resources,
    NoFit.NODE_AFFINITY: _labels,
    NoFit.TAINT: _taints,
    NoFit.VOLUME_BINDING: _claims,
}
