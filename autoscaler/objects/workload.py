"""Controllers, budgets and priorities: what owns pods and what protects them."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from autoscaler.objects.decode import Undecoded, WireDecoder, last_known
from autoscaler.objects.meta import LAST_KNOWN, NEVER_KNOWN, UNDECODED, LabelSelector, ObjectMeta, Resource, Wire
from autoscaler.objects.podspec import PodSpec
from autoscaler.objects.requests import effective_requests

R = TypeVar("R", bound=Resource)


class Replicas(Wire, frozen=True):
    """Spec of a controller that keeps a number of replicas."""

    replicas: int | None = None
    pod_management_policy: str = ""
    """Of a StatefulSet: whether it creates all pods at once (`Parallel`)."""


class ReplicasStatus(Wire, frozen=True):
    """How many replicas a controller has."""

    replicas: int = 0


class Replicated(Resource, frozen=True):
    """A ReplicaSet, ReplicationController or StatefulSet."""

    spec: Replicas = Replicas()
    status: ReplicasStatus = ReplicasStatus()

    @property
    def replicas(self) -> int:
        """Desired replicas; the API's default is one."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class JobSpec(Wire, frozen=True):
    """Size of a Job."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class JobStatus(Wire, frozen=True):
    """Progress of a Job."""

    active: int = 0
    succeeded: int = 0


class Job(Resource, frozen=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class PodTemplate(Wire, frozen=True):
    """The pods that a controller makes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class DaemonSetSpec(Wire, frozen=True):
    """Spec of a DaemonSet."""

    template: PodTemplate = PodTemplate()
    selector: LabelSelector | None = None


class DaemonSet(Resource, frozen=True):
    """A DaemonSet."""

    spec: DaemonSetSpec = DaemonSetSpec()

    def check(self) -> None:
        """Raise `ValueError` where a quantity or a time in it, read later on, cannot be read."""
        effective_requests(self.spec.template.spec)


class BudgetSpec(Wire, frozen=True):
    """Which pods a budget protects. Sizes are a number or a percentage."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetStatus(Wire, frozen=True):
    """What a budget has left."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


class DisruptionBudget(Resource, frozen=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def protects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it counts pods with these labels; an absent selector selects nothing, an empty one everything."""
        return self.namespace == namespace and self.spec.selector is not None and self.spec.selector.matches(labels)


class Namespace(Resource, frozen=True):
    """A namespace; only its labels matter."""


class PriorityClass(Resource, frozen=True):
    """A PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class ConfigMap(Resource, frozen=True):
    """A ConfigMap."""

    data: dict[str, str] = {}

    @property
    def undecoded(self) -> bool:
        """Whether what it says now cannot be decoded."""
        return UNDECODED in self.metadata.annotations


def plain_decoder(kind: type[R], stand_in: Callable[[Undecoded, R | None], R | None] = last_known) -> WireDecoder[R, R]:
    """Return the decoder of a kind that is kept as it comes."""
    return WireDecoder(kind, checked, stand_in)


def checked(wire: R) -> R:
    """Return an object that is kept as it comes; raises `ValueError` where it holds what cannot be read."""
    wire.check()
    return wire


def undecoded_budget(odd: Undecoded) -> DisruptionBudget:
    """Return the substitute of a budget that was never decoded: it protects every pod of its namespace."""
    return DisruptionBudget(metadata=odd.marked(NEVER_KNOWN), spec=BudgetSpec(selector=LabelSelector()))


def budget_decoder() -> WireDecoder[DisruptionBudget, DisruptionBudget]:
    """Return the decoder of PodDisruptionBudgets; one that cannot be decoded (any more) allows no disruption."""

    def stand_in(odd: Undecoded, held: DisruptionBudget | None) -> DisruptionBudget:
        return undecoded_budget(odd) if held is None else msgspec.structs.replace(held, status=BudgetStatus())

    return plain_decoder(DisruptionBudget, stand_in)


def config_map_decoder() -> WireDecoder[ConfigMap, ConfigMap]:
    """Return the decoder of ConfigMaps; one that cannot be decoded (any more) says what it said, and is marked."""

    def stand_in(odd: Undecoded, held: ConfigMap | None) -> ConfigMap:
        mark = NEVER_KNOWN if held is None else LAST_KNOWN
        return ConfigMap(metadata=odd.marked(mark), data={} if held is None else held.data)

    return plain_decoder(ConfigMap, stand_in)
