"""Merges the classes of pending pods that differ only in what tells one pod from another.

The pods of a StatefulSet each have claims of their own, and labels that name them. Where that decides nothing, they are
one class. A claim decides nothing by its name while it waits for a volume that any claim like it would get: it has no
volume yet, none is reserved for it, no node is selected for it, and one pod alone uses it. A naming label decides
nothing that no selector reads.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

import msgspec
import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.class_form import NAMING_LABELS
from autoscaler.objects.meta import UNDECODED, LabelSelector
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.podspec import PodAffinityTerm, SpreadConstraint
from autoscaler.objects.storage import SELECTED_NODE, PersistentVolumeClaim
from autoscaler.snapshot.cluster import ClusterView, Related


def merged(view: ClusterView, others: Iterable[PodClass], interner: PodInterner) -> ClusterView:
    """Return the view with classes of pending pods merged; `others` are those of pods that may join its own."""
    nameable = [pod for pod in view.pending if pod.cls.alike]
    if len(nameable) < 2:
        return view
    present = [*(view.classes[number] for number in np.unique(view.pod_classes).tolist()), *others]
    read = _labels_read([*present, *dict.fromkeys(pod.cls for pod in view.pending)], view.related)
    claims = _Claims(view, present)
    kinds: dict[Hashable, list[Pod]] = {}
    for pod in nameable:
        told_apart = tuple(sorted((key, pod.cls.labels[key]) for key in read & pod.cls.labels.keys()))
        kinds.setdefault((pod.cls.alike, told_apart, claims.meaning(pod.cls)), []).append(pod)
    classes: dict[PodClass, PodClass] = {}
    for pods in kinds.values():
        different = dict.fromkeys(pod.cls for pod in pods)
        if len(different) > 1:
            example = pods[0].cls
            common = interner.merged(example, claims.own(example), NAMING_LABELS - read)
            classes.update(dict.fromkeys(different, common))
    pending = (
        msgspec.structs.replace(pod, cls=classes[pod.cls], unmerged=pod.cls) if pod.cls in classes else pod
        for pod in view.pending
    )
    return msgspec.structs.replace(view, pending=tuple(pending)) if classes else view


class _Claims:
    """What the claims of pending pods mean for where these go."""

    def __init__(self, view: ClusterView, present: Iterable[PodClass]) -> None:
        """`present` are the classes of pods that are not pending."""
        related = view.related
        self._claims = related.claims
        self._users = Counter(key for pod in view.pending for key in _keys(pod.cls))
        self._taken = {key for cls in present for key in _keys(cls)}
        self._taken.update(_keys_of_templates(related))
        refs = (volume.spec.claim_ref for volume in related.volumes.values())
        self._taken.update(f"{ref.namespace}/{ref.name}" for ref in refs if ref is not None)

    def own(self, cls: PodClass) -> frozenset[str]:
        """Return the claims that mean the same as any claim like them."""
        return frozenset(name for name in cls.claims if isinstance(self._means(cls, name), tuple))

    def meaning(self, cls: PodClass) -> tuple[Hashable, ...]:
        """Return what each claim means: what it asks for, or its name where that decides."""
        return tuple(self._means(cls, name) for name in cls.claims)

    def _means(self, cls: PodClass, name: str) -> str | tuple[Hashable, ...]:
        key = f"{cls.namespace}/{name}"
        claim = self._claims.get(key)
        if claim is None or self._users[key] > 1 or key in self._taken or not _waits_like_others(claim):
            return name
        spec = claim.spec
        size = quantity.amounts(spec.resources.requests).get("storage", 0)
        selector = b"" if spec.selector is None else msgspec.msgpack.encode(spec.selector, order="deterministic")
        return claim.storage_class, spec.volume_mode, tuple(spec.access_modes), size, selector


def _waits_like_others(claim: PersistentVolumeClaim) -> bool:
    meta = claim.metadata
    told_apart = claim.spec.volume_name or meta.deletion_timestamp is not None or claim.status.phase == "Lost"
    return not told_apart and SELECTED_NODE not in meta.annotations and UNDECODED not in meta.annotations


def _keys(cls: PodClass) -> Iterator[str]:
    return (f"{cls.namespace}/{name}" for name in cls.claims)


def _keys_of_templates(related: Related) -> Iterator[str]:
    """Yield the claims that pods to come, made from stored templates, will use."""
    for stored in related.pod_templates.values():
        for volume in stored.template.spec.volumes:
            if volume.persistent_volume_claim is not None:
                yield f"{stored.namespace}/{volume.persistent_volume_claim.claim_name}"


def _labels_read(classes: Iterable[PodClass], related: Related) -> frozenset[str]:
    """Return the naming labels that any selector reads."""
    read: set[str] = set()
    for cls in classes:
        read.update(_read_by(cls.pod_affinity, cls.pod_anti_affinity, cls.spread))
        if cls.soft is not None:
            terms = [weighted.pod_affinity_term for weighted in (*cls.soft.near, *cls.soft.away)]
            read.update(_read_by(terms, cls.soft.spread))
    for stored in related.pod_templates.values():
        spec = stored.template.spec
        if spec.affinity is not None:
            either = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
            read.update(_read_by(*(affinity.required for affinity in either if affinity is not None)))
        read.update(_read_by(spec.topology_spread_constraints))
    for budget in related.budgets.values():
        read.update(_keys_in(budget.spec.selector))
    return NAMING_LABELS & read


def _read_by(*parts: Sequence[PodAffinityTerm | SpreadConstraint]) -> Iterator[str]:
    for constraint in (constraint for part in parts for constraint in part):
        yield from _keys_in(constraint.label_selector)
        yield from constraint.match_label_keys
        if isinstance(constraint, PodAffinityTerm):
            yield from constraint.mismatch_label_keys


def _keys_in(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (expression.key for expression in selector.match_expressions)
