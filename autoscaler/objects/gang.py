"""Gangs: pods of which a scheduler starts a minimum number together, or none.

Several schedulers have gangs, each with its own marks on pods and its own object that states the minimum. `gang_of`
reads the marks, `GangPolicy` holds what the objects state, and no other module knows the difference. Source:
KEP-4671 (`scheduling.k8s.io`), coscheduling of scheduler-plugins, Volcano, Kueue.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from autoscaler.objects.class_form import ClassForm
from autoscaler.objects.meta import Resource, Wire

GANG_VERSIONS = ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1")
"""Versions of `scheduling.k8s.io` that can be read, the newest first."""
OTHER_POD_GROUPS = (
    "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
)
"""Where other schedulers have their PodGroups."""
MOST_PODS = 100_000
"""A minimum beyond this is read as this many."""


class GangRef(msgspec.Struct, frozen=True):
    """Which gang a pod says it belongs to."""

    namespace: str
    name: str
    """Of its PodGroup; of a Workload: `workload/group` or `workload/group/replica`."""
    min_count: int | None = None
    """The minimum, if pods themselves state it."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class _Marks(NamedTuple):
    """How pods of one scheduler name their gang: the key of a label or annotation, and that of the minimum."""

    name: str
    min_count: str = ""


_LABELS = (
    _Marks("scheduling.x-k8s.io/pod-group"),
    _Marks("pod-group.scheduling.sigs.k8s.io"),
    _Marks("pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"),
    _Marks("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"),
)
_ANNOTATIONS = (
    _Marks("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-min-member"),
    _Marks("scheduling.volcano.sh/group-name", "scheduling.volcano.sh/group-min-member"),
)
GANG_ANNOTATIONS = (
    "kueue.x-k8s.io/pod-group-total-count",
    *dict.fromkeys(key for marks in _ANNOTATIONS for key in marks),
)
"""Annotations that `gang_of` reads."""


def gang_of(form: ClassForm) -> GangRef | None:
    """Return the gang that pods of this form belong to; the API's own fields count before labels and annotations."""
    if form.scheduling_group is not None and form.scheduling_group.pod_group_name:
        return GangRef(form.namespace, form.scheduling_group.pod_group_name)
    ref = form.workload_ref
    if ref is not None and ref.name:
        parts = (ref.name, ref.pod_group, ref.pod_group_replica_key)
        return GangRef(form.namespace, "/".join(part for part in parts if part))
    for texts, known in ((form.labels, _LABELS), (form.annotations, _ANNOTATIONS)):
        for marks in known:
            if name := texts.get(marks.name):
                stated = form.labels.get(marks.min_count) or form.annotations.get(marks.min_count)
                return GangRef(form.namespace, name, _count(stated))
    return None


def _count(text: str | None) -> int | None:
    """Return the number that a label or annotation states; None where it states none."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > len(str(MOST_PODS)):
        return None
    return max(1, min(int(text), MOST_PODS))


class GangMinimum(Wire, frozen=True):
    """Policy `gang`: how many pods start together."""

    min_count: int = 1


class GangPolicy(Wire, frozen=True):
    """How the pods of a group are scheduled; without `gang`, one by one."""

    gang: GangMinimum | None = None


class TopologyConstraint(Wire, frozen=True):
    """All pods of a group run on nodes with the same value of a label."""

    key: str = ""


class GangConstraints(Wire, frozen=True):
    """Constraints on the nodes of a group taken together."""

    topology: list[TopologyConstraint] = []


class DisruptedTogether(Wire, frozen=True):
    """A mode that has no fields yet."""


class DisruptionModes(Wire, frozen=True):
    """How pods of a group may be disrupted, from Kubernetes 1.37 on; without `all`, one by one."""

    all: DisruptedTogether | None = None


class PodGroupSpec(Wire, frozen=True):
    """Spec of a PodGroup: `scheduling.k8s.io` has a policy, coscheduling and Volcano have `minMember`."""

    scheduling_policy: GangPolicy | None = None
    scheduling_constraints: GangConstraints | None = None
    disruption_mode: DisruptionModes | str | None = None
    """Kubernetes 1.36 has `Pod` or `PodGroup`."""
    min_member: int | None = None


class GangPodGroup(Resource, frozen=True):
    """A PodGroup of `scheduling.k8s.io`, of coscheduling (`scheduling.x-k8s.io`) or of Volcano."""

    spec: PodGroupSpec = PodGroupSpec()

    @property
    def min_count(self) -> int:
        """How many of its pods start together; 1: each alone."""
        if self.spec.scheduling_policy is not None:
            return _minimum(self.spec.scheduling_policy)
        return _bounded(self.spec.min_member or 1)

    @property
    def disrupted_together(self) -> bool:
        """Whether its pods may be disrupted all together, or none."""
        mode = self.spec.disruption_mode
        return mode == "PodGroup" if isinstance(mode, str) else mode is not None and mode.all is not None

    @property
    def topology_key(self) -> str:
        """The label whose value all nodes of the group share; empty: any nodes will do."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else ""


class WorkloadGroup(Wire, frozen=True):
    """One pod group inside a Workload of Kubernetes 1.35."""

    name: str = ""
    policy: GangPolicy = GangPolicy()


class WorkloadSpec(Wire, frozen=True):
    """Spec of a Workload. From 1.36 on the PodGroups made of its templates say everything that is read here."""

    pod_groups: list[WorkloadGroup] = []


class GangWorkload(Resource, frozen=True):
    """A Workload of `scheduling.k8s.io`."""

    spec: WorkloadSpec = WorkloadSpec()


def _minimum(policy: GangPolicy) -> int:
    return 1 if policy.gang is None else _bounded(policy.gang.min_count)


def _bounded(count: int) -> int:
    return max(1, min(count, MOST_PODS))


def stated_minimum(
    ref: GangRef, pod_groups: Mapping[str, GangPodGroup], workloads: Mapping[str, GangWorkload]
) -> int | None:
    """Return how many pods of a gang start together, as its object or its pods state it; None where nothing does."""
    by_object = minimum_of_object(ref, pod_groups, workloads)
    return ref.min_count if by_object is None else by_object


def minimum_of_object(
    ref: GangRef, pod_groups: Mapping[str, GangPodGroup], workloads: Mapping[str, GangWorkload]
) -> int | None:
    """Return how many pods of a gang start together, as its PodGroup or Workload states it; None without either."""
    pod_group = pod_groups.get(ref.key)
    if pod_group is not None:
        return pod_group.min_count
    workload, _, group = ref.name.partition("/")
    owner = workloads.get(f"{ref.namespace}/{workload}") if group else None
    if owner is None:
        return None
    name = group.partition("/")[0]
    return next((_minimum(each.policy) for each in owner.spec.pod_groups if each.name == name), None)
