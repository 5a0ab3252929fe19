"""Selects the pods whose deadline annotation has passed. Off unless namespaces are named.

A deadline is plain ASCII digits, Unix seconds; a pod is expired when now is beyond it, not at it. Anything else is
invalid and expires nothing. Pods of an earlier generation of ours go too, but only those that carry a deadline.
"""

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from autoscaler.config.eta import EVERY_NAMESPACE
from autoscaler.objects.meta import ObjectMeta, Wire, controller_of
from autoscaler.objects.pod import MIRROR, SOURCE
from autoscaler.reasons import DeleteReason

MANAGED_BY, OURS = "app.kubernetes.io/managed-by", "cluster-autoscaler"
GENERATION = "cluster-autoscaler.kubernetes.io/generation"
SYSTEM = "kube-system"
_VALID = re.compile(r"[0-9]{1,11}", re.ASCII)


class ExpiringPod(Wire, frozen=True):
    """A pod, as far as its expiry depends on it."""

    metadata: ObjectMeta


class Expired(msgspec.Struct, frozen=True):
    """A pod to delete: this very one, as it was read."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    deadline: int
    reason: DeleteReason


class Sweep(msgspec.Struct, frozen=True):
    """The result of one sweep over all pods."""

    delete: tuple[Expired, ...] = ()
    """The oldest deadline first, each pod once, at most as many as allowed."""
    invalid: tuple[ExpiringPod, ...] = ()
    """Pods whose annotation is no deadline."""


class ExpiryTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What may be deleted."""

    namespaces: Collection[str]
    annotation: str = "delete-at"
    most: int = 50
    generation: str | None = None
    """The current one; None: there are no generations."""


def plan_sweep(
    pods: Iterable[ExpiringPod], terms: ExpiryTerms, now: float, *, earlier_generations: bool = False
) -> Sweep:
    """Return which pods go at `now` (Unix seconds).

    `earlier_generations` removes pods of ours that carry another generation than the current one too.
    """
    expired: list[Expired] = []
    invalid: list[ExpiringPod] = []
    for pod in pods:
        meta = pod.metadata
        text = meta.annotations.get(terms.annotation)
        if text is None or meta.deletion_timestamp is not None or not may_touch(meta, terms.namespaces):
            continue
        deadline = int(text) if _VALID.fullmatch(text) else None
        if deadline is None:
            invalid.append(pod)
        elif now > deadline:
            expired.append(_gone(meta, deadline, DeleteReason.EXPIRED))
        elif earlier_generations and _is_earlier(meta.labels, terms.generation):
            expired.append(_gone(meta, deadline, DeleteReason.OLD_GENERATION))
    expired.sort(key=lambda pod: (pod.deadline, pod.namespace, pod.name))
    return Sweep(tuple(expired[: terms.most]), tuple(invalid))


def may_touch(meta: ObjectMeta, namespaces: Collection[str]) -> bool:
    """Whether a pod may ever be deleted here: not one of a node's own, nor of the system unless that is named."""
    if meta.namespace not in namespaces and (EVERY_NAMESPACE not in namespaces or meta.namespace == SYSTEM):
        return False
    static = MIRROR in meta.annotations or meta.annotations.get(SOURCE, "api") != "api"
    owner = controller_of(meta.owner_references)
    return not static and (owner is None or owner.kind not in ("DaemonSet", "Node"))


def _is_earlier(labels: Mapping[str, str], current: str | None) -> bool:
    own = labels.get(MANAGED_BY) == OURS and GENERATION in labels
    return own and current is not None and labels[GENERATION] != current


def _gone(meta: ObjectMeta, deadline: int, reason: DeleteReason) -> Expired:
    return Expired(meta.namespace, meta.name, meta.uid, meta.resource_version, deadline, reason)
