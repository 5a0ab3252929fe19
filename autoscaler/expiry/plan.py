"""Selects the pods whose deadline annotation has passed. The feature is off unless namespaces are configured.

A deadline is plain ASCII digits, Unix seconds. A pod is expired after that second, not at it. Any other text is invalid
and expires nothing. Our pods of an earlier generation expire too, but only those that have a deadline.
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
    """The parts of a pod on which its expiry depends."""

    metadata: ObjectMeta


class Expired(msgspec.Struct, frozen=True):
    """A pod to delete, as it was read."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    deadline: int
    reason: DeleteReason


class Sweep(msgspec.Struct, frozen=True):
    """The result of one sweep over all pods."""

    delete: tuple[Expired, ...] = ()
    """Pods to delete, oldest deadline first, each pod once, up to the maximum."""
    invalid: tuple[ExpiringPod, ...] = ()
    """Pods whose annotation is not a valid deadline."""


class ExpiryTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that may be deleted."""

    namespaces: Collection[str]
    annotation: str = "delete-at"
    most: int = 50
    generation: str | None = None
    """The present generation; None if there are no generations."""


def plan_sweep(
    pods: Iterable[ExpiringPod], terms: ExpiryTerms, now: float, *, earlier_generations: bool = False
) -> Sweep:
    """Return the pods to delete at `now` (Unix seconds).

    With `earlier_generations`, this includes our pods of other generations than the present one.
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
    """Whether a pod may ever be deleted: no pod of a node itself, and no system pod unless its namespace is named."""
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
