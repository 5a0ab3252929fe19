"""Counts in advance the work of a pod's constraints, and sets aside classes with too much.

A pod's author decides how many constraints there are, the cluster how often each is evaluated: on every node, or for
every class of placed pods. The product is a pure count, so that the same cluster has the same pods put aside on any
machine.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from autoscaler.objects.meta import LabelSelector, Requirement
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelectorTerm, PodAffinityTerm, SoftConstraints, SpreadConstraint
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import Bound, gate
from autoscaler.scheduling.class_selection import selection_for, selection_of
from autoscaler.scheduling.domains import DomainTallies
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Trial

TOO_MUCH = "node(s) were not tried for the pod, which has too many constraints"

_TOGETHER = 100
"""The work that all classes together may make, as a multiple of that of one class."""


class WorkLimit:
    """Tells which classes make more work than the limit allows. Units: one part of a constraint, evaluated once.

    A selector that is not narrow, as no label it demands is one that only few classes have, is compared with all
    classes. Such selectors of all classes together, each counted once, may make a hundred times the work of one class;
    where they are more, classes with few constraints come first.
    """

    def __init__(self, tallies: DomainTallies, most: int) -> None:
        self.most = most
        self._tallies = tallies
        self._trial = tallies.trial
        self._work: dict[PodClass, int] = {}
        self._wide: dict[bytes, None] = {}
        self._too_many_together: dict[PodClass, bool] = {}

    def exceeded(self, cls: PodClass) -> bool:
        """Whether the class is put aside."""
        return self.of(cls) > self.most or self._exceeded_together(cls)

    def of(self, cls: PodClass) -> int:
        """Return the work of placing pods of the class alone."""
        known = self._work.get(cls)
        if known is None:
            known = self._work[cls] = self.on_nodes(cls) + self.among_pods(cls)
        return known

    def _exceeded_together(self, cls: PodClass) -> bool:
        """Whether the selectors of the class are too many, together with those of the classes before it."""
        if not _terms(cls) or self._never_too_many:
            return False
        if not self._too_many_together:
            for other in sorted(filter(_terms, self._pending), key=_terms):
                self._too_many_with(other)
        return self._too_many_with(cls)

    @cached_property
    def _pending(self) -> Collection[PodClass]:
        return dict.fromkeys(pod.cls for pod in self._trial.view.pending)

    @cached_property
    def _never_too_many(self) -> bool:
        """Whether there would not be too many selectors even if all were compared with all classes."""
        classes = [*self._trial.view.classes, *self._pending]
        return sum(map(_terms, classes)) * len(classes) <= _TOGETHER * self.most

    def _too_many_with(self, cls: PodClass) -> bool:
        known = self._too_many_together.get(cls)
        if known is None:
            wide = dict.fromkeys(self._wide_selectors(cls))
            most = _TOGETHER * self.most // max(1, len(self._tallies.classes))
            known = bool(wide) and len(self._wide) + len(wide.keys() - self._wide.keys()) > most
            self._too_many_together[cls] = known
            self._wide.update({} if known else wide)
        return known

    def _wide_selectors(self, cls: PodClass) -> Iterator[bytes]:
        """Yield the identities of selectors that are compared with all classes."""
        classes, namespaces = self._tallies.classes, self._trial.view.related.namespaces
        terms = (selection_of(term, cls, namespaces) for term in (*cls.pod_affinity, *cls.pod_anti_affinity))
        for selection in (*terms, *(selection_for(constraint, cls) for constraint in cls.spread)):
            if classes.rarest(selection) is None:
                yield selection.identity

    def on_nodes(self, cls: PodClass) -> int:
        """Return the work of finding the nodes whose labels and taints suit the class."""
        terms = () if cls.node_affinity is None else cls.node_affinity.node_selector_terms
        asked = _asked(terms)
        compared = len(cls.node_selector) + len(asked)
        return compared * self._trial.base + _values(asked) + len(cls.tolerations) * len(self._trial.vocabulary.taints)

    def among_pods(self, cls: PodClass) -> int:
        """Return the work of everything that depends on other pods, volumes and devices."""
        view = self._trial.view
        compared = sum(map(_size, cls.pod_affinity)) + self._repelled(cls)
        compared += sum(map(_spread_size, cls.spread))
        on_each_node = len(cls.spread) + len(cls.claims) + len(cls.resource_claims)
        return (
            compared * len(view.classes)
            + on_each_node * self._trial.base
            + len(cls.claims) * len(view.related.volumes)
            + (len(cls.host_ports) + len(cls.volumes)) * len(view.classes)
        )

    def keeps_too_much_away(self, cls: PodClass) -> bool:
        """Whether the anti-affinity of the class alone is too much: to be safe, it counts as being about any pod."""
        return self._repelled(cls) * len(self._trial.view.classes) > self.most or self._exceeded_together(cls)

    def _repelled(self, cls: PodClass) -> int:
        return sum(map(_size, cls.pod_anti_affinity))


def _terms(cls: PodClass) -> int:
    return len(cls.pod_affinity) + len(cls.pod_anti_affinity) + len(cls.spread)


def work_of_preferences(soft: SoftConstraints) -> int:
    """Return the work of evaluating once, on one node or for one class of placed pods, what a class prefers."""
    asked = _asked(preferred.preference for preferred in soft.nodes)
    terms = sum(_size(weighted.pod_affinity_term) for weighted in (*soft.near, *soft.away))
    return len(soft.nodes) + len(asked) + _values(asked) + terms + sum(map(_spread_size, soft.spread))


def _asked(terms: Iterable[NodeSelectorTerm]) -> list[Requirement]:
    return [requirement for term in terms for requirement in (*term.match_expressions, *term.match_fields)]


def _spread_size(constraint: SpreadConstraint) -> int:
    return 2 + _parts(constraint.label_selector) + len(constraint.match_label_keys)


def _size(term: PodAffinityTerm) -> int:
    keys = len(term.match_label_keys) + len(term.mismatch_label_keys)
    return 1 + len(term.namespaces) + keys + _parts(term.label_selector) + _parts(term.namespace_selector)


def _parts(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + len(selector.match_expressions) + _values(selector.match_expressions)


def _values(requirements: Iterable[Requirement]) -> int:
    return sum(len(requirement.values) for requirement in requirements)


class WorkGuard:
    """Keeps a class that is put aside off every node."""

    rejection = Rejection(NoFit.TOO_MUCH_WORK, TOO_MUCH, "see --max-pod-evaluation-work")

    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    def mask(self, window: slice) -> Mask:
        """Return no node of the window."""
        return self._trial.alive[window] & False

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return that none may come."""
        return gate(self.mask(window), fresh=False)

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """No pod changes that; see `placement.Guard`."""
        return False

    def why(self, position: int) -> Rejection | None:
        """Return why no node passes."""
        return self.rejection
