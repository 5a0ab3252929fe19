"""Annotations by which a pod keeps its node: for ever, or for a time from its start.

    karpenter.sh/do-not-disrupt: "true", or a duration such as "30m" (Karpenter's); on a pod, or on a namespace for
        every pod that does not say `"false"`
    node-autoscaling.kubernetes.io/safe-to-evict: "false" (proposed to all node autoscalers)
    cluster-autoscaler.kubernetes.io/safe-to-evict: "false" (Cluster Autoscaler's); with
        cluster-autoscaler.kubernetes.io/safe-to-evict-after: "30m", only for so long

A pod whose start is not known yet is protected. So is one whose duration cannot be read: nobody knows how long it is.
"""

from collections.abc import Iterator, Mapping

import msgspec

from autoscaler.objects.meta import rfc3339
from autoscaler.objects.node import Node
from autoscaler.objects.pod import (
    COMMON_SAFE_TO_EVICT,
    DO_NOT_DISRUPT,
    SAFE_TO_EVICT,
    SAFE_TO_EVICT_AFTER,
    Pod,
    PodClass,
)
from autoscaler.objects.workload import Namespace
from autoscaler.reasons import UnremovableNode, UnremovableReason
from cloudprovider.duration import parse_duration_s, show_duration
from cloudprovider.quoted import quoted

_ALWAYS = "true"
_NEVER = ("", "false")


class Protection(msgspec.Struct, frozen=True):
    """What protects the pods of a class, and for how many seconds from the start of each; None: for ever."""

    key: str
    text: str
    lasts_s: float | None = None

    def until(self, pod: Pod, limit_s: float) -> float | None:
        """Return when it ends for a pod, in Unix seconds; None: never. A `limit_s` of 0 is none."""
        spans = [span for span in (self.lasts_s, limit_s or None) if span is not None]
        return None if not spans or pod.started is None else pod.started + min(spans)

    def detail(self, pod: Pod, limit_s: float) -> str:
        """Return what protects a pod and until when, for people."""
        until = self.until(pod, limit_s)
        return self.text if until is None else f"{self.text}, until {rfc3339(until)}"


def do_not_disrupt(cls: PodClass, namespaces: Mapping[str, Namespace]) -> Protection | None:
    """Return what keeps pods of a class where they are, beside Cluster Autoscaler's own annotation."""
    if cls.annotations.get(COMMON_SAFE_TO_EVICT) == "false":
        return Protection(COMMON_SAFE_TO_EVICT, f"annotated {COMMON_SAFE_TO_EVICT}: false")
    own = cls.annotations.get(DO_NOT_DISRUPT)
    if own is not None:
        return _stated(DO_NOT_DISRUPT, own, "annotated")
    namespace = namespaces.get(cls.namespace)
    default = None if namespace is None else namespace.metadata.annotations.get(DO_NOT_DISRUPT)
    return None if default is None else _stated(DO_NOT_DISRUPT, default, f"namespace {cls.namespace} is annotated")


def not_safe_to_evict(cls: PodClass, *, timed: bool = True) -> Protection | None:
    """Return what Cluster Autoscaler's annotation says of the pods of a class; `timed`: the time beside it counts."""
    if cls.annotations.get(SAFE_TO_EVICT) != "false":
        return None
    text, after = f"annotated {SAFE_TO_EVICT}: false", cls.annotations.get(SAFE_TO_EVICT_AFTER)
    if after is None or not timed:
        return Protection(SAFE_TO_EVICT, text)
    return Protection(SAFE_TO_EVICT, f"{text}, {SAFE_TO_EVICT_AFTER}: {quoted(after)}", _duration_s(after))


def stated(cls: PodClass, namespaces: Mapping[str, Namespace]) -> Iterator[Protection]:
    """Yield everything that protects the pods of a class."""
    yield from filter(None, (do_not_disrupt(cls, namespaces), not_safe_to_evict(cls)))


def overruled(pod: Pod, namespaces: Mapping[str, Namespace], limit_s: float) -> Protection | None:
    """Return what protects a pod that moves, and would still protect it without the limit."""
    for protection in stated(pod.cls, namespaces) if limit_s > 0 else ():
        if protection.lasts_s is None or protection.lasts_s > limit_s:
            return protection
    return None


def _stated(key: str, value: str, head: str) -> Protection | None:
    if value in _NEVER:
        return None
    if value == _ALWAYS:
        return Protection(key, f"{head} {key}: true")
    seconds = _duration_s(value)
    if seconds is None:
        return Protection(key, f"{head} {key}: {quoted(value)}, which is no duration and counts as true")
    return Protection(key, f"{head} {key}: {show_duration(seconds)}", seconds)


def _duration_s(text: str) -> float | None:
    try:
        return parse_duration_s(text)
    except ValueError:
        return None


def protected_node(node: Node) -> UnremovableNode | None:
    """Return why a node stays that is itself not to be disrupted."""
    if node.annotations.get(DO_NOT_DISRUPT) != _ALWAYS:
        return None
    return UnremovableNode(node.name, UnremovableReason.DO_NOT_DISRUPT, f"annotated {DO_NOT_DISRUPT}: true")
