"""How much work a pod's constraints make, counted in advance: classes that would make too much are put aside.

A pod's author decides how many constraints there are, the cluster how often each is looked at: on every node, or for
every class of placed pods. The product is a pure count, so that the same cluster has the same pods put aside on any
machine.
"""

from collections.abc import Iterable

from autoscaler.objects.meta import LabelSelector, Operator, Requirement
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import PodAffinityTerm
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import Bound, gate
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Trial

TOO_MUCH = "node(s) were not tried for the pod, which has too many constraints"

_FEW = 4
"""Terms that no label narrows down, as any class may have them."""


class WorkLimit:
    """Tells which classes make more work than the limit allows. Units: one part of a constraint, looked at once.

    Terms that no label narrows down are compared with every class there is. A few of them in every class are well;
    what there is beyond, in all classes together, is held to the limit of one: those that come later are too many.
    """

    def __init__(self, trial: Trial, most: int) -> None:
        self.most = most
        self._trial = trial
        self._work: dict[PodClass, int] = {}
        self._wide: dict[PodClass, int] = {}
        """By class with many such terms, how many there are of it and of those before it."""
        self._wide_terms = 0

    def exceeded(self, cls: PodClass) -> bool:
        """Whether the class is put aside."""
        return self.of(cls) > self.most

    def of(self, cls: PodClass) -> int:
        """Return the work of placing pods of the class."""
        known = self._work.get(cls)
        if known is None:
            own = self.on_nodes(cls) + self.among_pods(cls)
            known = self._work[cls] = max(own, self._with_others(cls))
        return known

    def _with_others(self, cls: PodClass) -> int:
        """Return the work of the class's terms that no label narrows down, together with those before."""
        if not (cls.pod_affinity or cls.pod_anti_affinity):
            return 0
        known = self._wide.get(cls)
        if known is None:
            wide = max(0, sum(map(_is_wide, (*cls.pod_affinity, *cls.pod_anti_affinity))) - _FEW)
            self._wide_terms += wide
            known = self._wide[cls] = self._wide_terms if wide else 0
        return known * len(self._trial.view.classes)

    def on_nodes(self, cls: PodClass) -> int:
        """Return the work of finding the nodes whose labels and taints suit the class."""
        terms = () if cls.node_affinity is None else cls.node_affinity.node_selector_terms
        asked = [one for term in terms for one in (*term.match_expressions, *term.match_fields)]
        each = len(cls.node_selector) + len(asked)
        return each * self._trial.base + _values(asked) + len(cls.tolerations) * len(self._trial.vocabulary.taints)

    def among_pods(self, cls: PodClass) -> int:
        """Return the work of everything that depends on other pods, volumes and devices."""
        view = self._trial.view
        compared = sum(map(_size, cls.pod_affinity)) + self._repelled(cls)
        compared += sum(2 + _parts(one.label_selector) + len(one.match_label_keys) for one in cls.spread)
        on_each_node = len(cls.spread) + len(cls.claims) + len(cls.resource_claims)
        return (
            compared * len(view.classes)
            + on_each_node * self._trial.base
            + len(cls.claims) * len(view.related.volumes)
            + (len(cls.host_ports) + len(cls.volumes)) * len(view.classes)
        )

    def keeps_too_much_away(self, cls: PodClass) -> bool:
        """Whether the anti-affinity of the class alone is too much: to be safe, it counts as being about any pod."""
        repelled = self._repelled(cls) * len(self._trial.view.classes)
        return max(repelled, self._with_others(cls)) > self.most

    def _repelled(self, cls: PodClass) -> int:
        return sum(map(_size, cls.pod_anti_affinity))


def _size(term: PodAffinityTerm) -> int:
    keys = len(term.match_label_keys) + len(term.mismatch_label_keys)
    return 1 + len(term.namespaces) + keys + _parts(term.label_selector) + _parts(term.namespace_selector)


def _is_wide(term: PodAffinityTerm) -> bool:
    """Whether there is no label, nor a list of its values, that whatever the term is about has to have."""
    selector = term.label_selector
    if selector is None or selector.match_labels or term.match_label_keys:
        return False
    return all(one.operator != Operator.IN for one in selector.match_expressions)


def _parts(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + len(selector.match_expressions) + _values(selector.match_expressions)


def _values(requirements: Iterable[Requirement]) -> int:
    return sum(len(one.values) for one in requirements)


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

    def felt_elsewhere(self, cls: PodClass) -> bool:
        """No pod changes that; see `placement.Guard`."""
        return False

    def why(self, position: int) -> Rejection | None:
        """Return why no node passes."""
        return self.rejection
