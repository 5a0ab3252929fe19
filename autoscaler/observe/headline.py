"""Summarises the state of a cluster in a few sentences: first what needs a person, then what is in progress."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from autoscaler.observe.figures import count, duration
from autoscaler.observe.status import Headline, Health, NodeState, PodState, PodStatus, PublishedStatus, Tone
from autoscaler.reasons import Waiting

_MOST_CAUSES = 3
_MOST_PAUSES = 2
_PLURALS = {
    "needs": "need",
    "wants": "want",
    "is": "are",
    "does": "do",
    "has": "have",
    "fits": "fit",
    "waits": "wait",
    "belongs": "belong",
    "uses": "use",
    "finds": "find",
    "asks": "ask",
}
_LATER = "waits for its turn in one of the next passes"
_WAITS: Mapping[str, str] = {
    Waiting.GATED: "has scheduling gates",
    Waiting.FOREIGN_SCHEDULER: "waits for another scheduler",
    Waiting.TERMINATING: "is being deleted",
    Waiting.EXPENDABLE: "has so low a priority that no machine is bought for it",
    Waiting.CONSUMES_REQUEST: "waits for the capacity of a ProvisioningRequest",
}


def headline(status: PublishedStatus) -> Headline:
    """Return the headline of a status whose other fields are known."""
    pauses = [pause for pause in status.pauses if not pause.problem]
    troubles = [*_pass_trouble(status), *_health_trouble(status), *_stuck(status.pods), *_undecoded(status)]
    troubles += [_sentence(_capital(pause.text)) for pause in status.pauses if pause.problem]
    moves = [*_on_their_way(status), *_leaving(status)]
    rest = list(_waiting(status.pods))
    if status.cluster is None and not troubles:
        return Headline(text=status.message or "No pass has finished yet.", tone=Tone.BUSY)
    if not troubles and not any(pod.state is not PodState.WAITING for pod in status.pods):
        rest.insert(0, "Every other pod has a node." if rest else "Every pod has a node.")
    tone = Tone.BAD if troubles else Tone.BUSY if moves else Tone.GOOD
    paused = [_sentence(_capital(pause.text)) for pause in pauses[:_MOST_PAUSES]]
    if more := len(pauses) - len(paused):
        paused.append(f"{_clause(f'{more:,} more', more, 'is paused')}.")
    return Headline(text=" ".join([*troubles, *paused, *moves, *rest]), tone=tone)


def _pass_trouble(status: PublishedStatus) -> Iterator[str]:
    if status.last_pass is not None and status.last_pass.error is not None:
        yield _sentence(f"The last pass failed: {status.last_pass.error}")


def _health_trouble(status: PublishedStatus) -> Iterator[str]:
    if status.cluster is None:
        return
    scope = status.cluster.scope
    if scope.health.status is Health.UNHEALTHY:
        counts = scope.counts
        yield (
            f"The cluster is unhealthy: {counts.total - counts.ready:,} of {counts.total:,} nodes are not ready. "
            "Nothing is bought or removed until they recover."
        )
        return
    unhealthy = [group.id for group in status.groups if group.scope.health.status is Health.UNHEALTHY]
    if unhealthy:
        more = f" and {len(unhealthy) - 1:,} more" if len(unhealthy) > 1 else ""
        yield f"Too many nodes of group {unhealthy[0]}{more} are not ready."


def _stuck(pods: Sequence[PodStatus]) -> Iterator[str]:
    """Yield one sentence about the pods that are stuck, with the most frequent causes."""
    causes = Counter(_cause(pod) for pod in pods if pod.state is PodState.STUCK)
    total = causes.total()
    if not total:
        return
    shown = causes.most_common(_MOST_CAUSES)
    subjects = ["it" if total == 1 else "they"] if len(causes) == 1 else [f"{number:,}" for _, number in shown]
    parts = [_clause(subject, number, cause) for subject, (cause, number) in zip(subjects, shown, strict=True)]
    if hidden := total - sum(number for _, number in shown):
        parts.append(f"{hidden:,} for other reasons")
    yield _sentence(f"{_clause(count(total, 'pod'), total, 'is stuck')}: {'; '.join(parts)}")


def _cause(pod: PodStatus) -> str:
    if pod.advice is not None:
        return pod.advice.cause.replace("; ", ", ")
    if pod.reasons or not pod.detail:
        return "fits no node group"
    return f"is not helped: {pod.detail.removesuffix('.')}"


def _about(number: int, noun: str, clause: str) -> str:
    return f"{_clause(count(number, noun), number, clause)}."


def _clause(subject: str, number: int, clause: str) -> str:
    """Return the subject with a clause in the singular, or in the plural if the subject is more than one."""
    verb, _, rest = clause.partition(" ")
    return f"{subject} {verb if number == 1 else _PLURALS.get(verb, verb)} {rest}"


def _undecoded(status: PublishedStatus) -> Iterator[str]:
    number = sum(kind.count for kind in status.undecoded)
    if number:
        yield f"{count(number, 'object')} of the cluster cannot be read."


def _on_their_way(status: PublishedStatus) -> Iterator[str]:
    coming = [pod for pod in status.pods if pod.state is PodState.ON_ITS_WAY]
    for_machines = [pod for pod in coming if pod.planned_group is not None]
    if for_machines:
        groups = {pod.planned_group for pod in for_machines}
        machines = sum(group.upcoming for group in status.groups if group.id in groups)
        known = [pod.eta_s for pod in for_machines if pod.eta_s is not None]
        eta = f" (about {duration(max(known))})" if known else ""
        what = count(machines, "machine") if machines else "machines"
        yield _about(len(for_machines), "pod", f"waits for {what}{eta}")
    elif status.cluster is not None and status.cluster.upcoming:
        yield _about(status.cluster.upcoming, "machine", "is coming")
    if fitting := len(coming) - len(for_machines):
        yield _about(fitting, "pod", "fits on nodes that exist")


def _leaving(status: PublishedStatus) -> Iterator[str]:
    leaving = sum(node.state is NodeState.BEING_DELETED for node in status.nodes)
    if leaving:
        yield _about(leaving, "node", "is being removed")


def _waiting(pods: Sequence[PodStatus]) -> Iterator[str]:
    waits = Counter(_WAITS.get(pod.verdict, _LATER) for pod in pods if pod.state is PodState.WAITING)
    for wait, number in waits.items():
        yield _about(number, "pod", wait)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "?)")) else f"{text}."
