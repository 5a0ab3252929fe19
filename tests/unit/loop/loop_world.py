"""A cloud and a cluster in memory for whole passes in virtual time: no threads, no waiting."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from autoscaler.app.build import Environment, build_autoscaler
from autoscaler.clock import VirtualClock
from autoscaler.config.tree import Config
from autoscaler.errors import AutoscalerError, RetryLater
from autoscaler.kube.election import Unopposed
from autoscaler.kube.paths import ObjectRef
from autoscaler.loop.companion import Companions
from autoscaler.loop.pass_memory import PassMemory
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node, Taint
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import DisruptionBudget
from autoscaler.observe.report import PassReport
from autoscaler.ports import EventType, Stopwatch, Subject
from autoscaler.reasons import RemovedAs
from autoscaler.sandbox.capacity_objects import with_objects
from autoscaler.sandbox.memory_cluster import MemoryCluster, MemoryWrites
from autoscaler.sandbox.memory_reader import MemoryReader
from autoscaler.sandbox.recorded_cloud import RecordedCloud, recorded
from autoscaler.scaleup.grpc_expander import RemoteExpander
from autoscaler.simulator.executor import VirtualExecutor
from autoscaler.snapshot.cluster import ClusterBuilder, ClusterView, Related
from autoscaler.snapshot.groups import Groups
from autoscaler.stopwatch import stopped
from cloudprovider.interface import CloudProvider, GroupSettings, NodeTemplate
from cloudprovider.static.cloud import StaticCloud, open_cloud
from cloudprovider.static.spec import BootDelay, CallFault, CloudSpec, CreationFault, GroupSpec, MachineSpec
from tests.builders import a_node, a_pod

NOW = 1_785_578_400.0
STEP_S = 15.0


MakeNode = Callable[[str, float], Node]
"""Makes the node of a machine: its name, and the Unix second at which it registers."""


def a_plain_node(name: str, now: float) -> Node:
    return a_node(name, created=now)


class Told(msgspec.Struct, frozen=True):
    """One event."""

    about: Subject
    kind: EventType
    reason: str
    message: str


def a_spec(
    group_id: str = "web",
    *,
    cpu: str = "4",
    min_size: int = 0,
    max_size: int = 10,
    target: int | None = None,
    boot_s: float | None = None,
    call_faults: Sequence[CallFault] = (),
    creation_faults: Sequence[CreationFault] = (),
    settings: GroupSettings | None = None,
    template: bool = True,
    labels: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
    price: float | None = None,
) -> GroupSpec:
    """Return a group of machines with so many CPUs; without `boot_s` none ever appears."""
    capacity = {"cpu": cpu, "memory": "16Gi", "pods": "110", **(extra or {})}
    return GroupSpec(
        id=group_id,
        min_size=min_size,
        max_size=max_size,
        target_size=target,
        template=NodeTemplate(capacity=capacity, labels=labels or {}) if template else None,
        boot=None if boot_s is None else BootDelay(boot_s, boot_s),
        call_faults=call_faults,
        creation_faults=creation_faults,
        settings=settings or GroupSettings(),
        price_per_hour=price,
    )


def waiting(name: str, cpu: str = "3", *, created: float = NOW - 600, unschedulable: bool = True) -> Pod:
    """Return a pod that the scheduler could not place."""
    return a_pod(name, cpu=cpu, created=created, unschedulable=unschedulable)


class Writes(MemoryWrites):
    """Writes that can be made to fail; those of a status, to take effect all the same."""

    def __init__(self, cluster: MemoryCluster, clock: VirtualClock) -> None:
        super().__init__(cluster, clock)
        self.failures: list[AutoscalerError | None] = []
        """What becomes of the next writes of a status; None: it works."""
        self.lost_answers = False
        """Whether a write that fails has taken effect."""
        self.dead: set[str] = set()
        """Nodes whose kubelet no longer ends pods: what is evicted there stays, and is marked as deleted."""
        self.undeletable: AutoscalerError | None = None
        """What a deletion of any pod comes to; None: it works."""
        self.tried: list[str] = []
        """Names of the pods whose creation was tried in a dry run."""
        self.admits: Callable[[JsonObject], JsonObject] = dict
        """What the API server makes of them; it may raise."""
        self._known = cluster
        self.refused: dict[str, AutoscalerError] = {}
        """What evictions of pods, and taints of nodes, of these names come to."""

    def try_create(self, obj: Mapping[str, Any]) -> JsonObject:
        self.tried.append(obj["metadata"]["name"])
        return self.admits(dict(obj))

    def evict(self, namespace: str, name: str, uid: str, grace_s: int | None) -> None:
        if name in self.refused:
            raise self.refused[name]
        pod = self._known.pods.get(f"{namespace}/{name}")
        if pod is not None and pod.node in self.dead:
            grace = pod.cls.grace_s if grace_s is None else grace_s
            deleted = pod.deleted or self._clock.now().wall + grace
            self._known.put_pod(replace(pod, deleted=deleted))
            return
        super().evict(namespace, name, uid, grace_s)

    def delete_pod(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> None:
        if self.undeletable is not None:
            raise self.undeletable
        super().delete_pod(namespace, name, uid, grace_s)

    def add_taint(self, node: str, taint: Taint, *, cordon: bool = False) -> bool:
        if node in self.refused:
            raise self.refused[node]
        return super().add_taint(node, taint, cordon=cordon)

    def remove_taint(self, node: str, key: str, *, uncordon: bool = False) -> bool:
        if node in self.refused:
            raise self.refused[node]
        return super().remove_taint(node, key, uncordon=uncordon)

    def edit_status(self, ref: ObjectRef, uid: str, change: Callable[[JsonObject], bool]) -> bool:
        failure = self.failures.pop(0) if self.failures else None
        if failure is None or self.lost_answers:
            done = super().edit_status(ref, uid, change)
        if failure is not None:
            raise failure
        return done


class LoopWorld:
    """The loop with everything around it. Removals begin and stay so unless somebody drives the executor.

    `cloud` stands between the loop and the cloud in memory; another `provider` takes its place. `make_node` makes the
    nodes of machines that boot.
    """

    def __init__(
        self,
        *groups: GroupSpec,
        config: Config = Config(),  # noqa: B008  # frozen
        nodes: Sequence[tuple[Node, str]] = (),
        budgets: Sequence[DisruptionBudget] = (),
        companions: Companions = Companions(),  # noqa: B008
        remote: RemoteExpander | None = None,
        limits: Stopwatch = stopped,
        cloud: Callable[[StaticCloud], RecordedCloud] = recorded,
        provider: CloudProvider | None = None,
        make_node: MakeNode = a_plain_node,
    ) -> None:
        self.clock = VirtualClock(wall=NOW)
        self.events: list[Told] = []
        self.unreachable: str | None = None
        self.silence_s: Mapping[str, float] = {}
        self.related = Related(budgets={one.key: one for one in budgets})
        machines = tuple(
            MachineSpec(group=group, provider_id=node.provider_id, name=node.name) for node, group in nodes
        )
        spec = CloudSpec(groups=groups, machines=machines)
        self.static: StaticCloud = open_cloud(spec, now=lambda: self.clock.now().wall)
        self.cloud = cloud(self.static)
        self._builder = ClusterBuilder(config.pods.expendable_pods_priority_cutoff)
        self.cluster = MemoryCluster(self._builder.node_changed, self._builder.pod_changed)
        for node, _ in nodes:
            self.cluster.put_node(node)
        self.executor = VirtualExecutor(self.clock)
        self.writes = Writes(self.cluster, self.clock)
        around = self.around = Environment(
            source=self,
            provider=provider or self.cloud,
            writes=self.writes,
            fresh=MemoryReader(self.cluster, self.related),
            events=self,
            listener=self,
            executor=self.executor,
            clock=self.clock,
            leadership=Unopposed(),
            companions=companions,
            remote=remote,
            limits=limits,
        )
        self._config = config
        self._make_node = make_node
        self.reports: list[PassReport] = []
        self.autoscaler = build_autoscaler(config, around, PodInterner())
        # As if a pass had seen the groups before: whatever is missing is nothing new.
        targets = {group.id: group.target_size() for group in self.static.groups()}
        registry = replace(self.remembered.registry, targets=targets)
        self.autoscaler.memory = replace(self.remembered, registry=registry)

    def restart(self) -> None:
        """Let another process take over: it remembers nothing."""
        self.autoscaler = build_autoscaler(self._config, self.around, PodInterner())

    def observe(self, read_groups: Callable[[Sequence[Node]], Groups]) -> ClusterView:
        if self.unreachable is not None:
            raise RetryLater(self.unreachable)
        nodes = tuple(self.cluster.nodes.values())
        view = self._builder.view(read_groups(nodes), with_objects(self.related, self.writes))
        return replace(view, silence_s=self.silence_s)

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        self.events.append(Told(about, kind, reason, message))

    def deletions_pending(self, nodes: int) -> None:
        pass

    def pod_evicted(self, succeeded: bool) -> None:
        pass

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        pass

    def machine_left(self, left: int, remained: int) -> None:
        pass

    def removal_failed(self, why: str) -> None:
        pass

    def drive(self, seconds: float) -> None:
        """Let removals go on for so long."""
        self.executor.run_until(self.clock.now().mono + seconds)

    def submit(self, *pods: Pod) -> None:
        for pod in pods:
            self.cluster.put_pod(pod)

    @property
    def remembered(self) -> PassMemory:
        """What the next pass starts from."""
        assert self.autoscaler.memory is not None
        return self.autoscaler.memory

    def boot(self) -> list[Node]:
        """Let every machine that runs and has no node register; return the new nodes."""
        known = {node.provider_id for node in self.cluster.nodes.values()}
        born = []
        for machine in self.static.machines():
            if machine.state == "running" and machine.provider_id not in known:
                fresh = self._make_node(machine.name, self.clock.now().wall)
                born.append(replace(fresh, provider_id=machine.provider_id))
        for node in born:
            self.cluster.put_node(node)
        return born

    def run(self, after_s: float = 0.0) -> PassReport:
        """Run a pass, so many seconds from now."""
        self.clock.advance(after_s)
        self.reports.append(self.autoscaler.run_once(self.clock.now()))
        return self.reports[-1]

    def step(self) -> PassReport:
        """Run a pass, and let `STEP_S` seconds go by: removals go on, machines become nodes, nodes go with machines."""
        report = self.run()
        self.drive(STEP_S)
        machines = {machine.provider_id for machine in self.static.machines() if machine.state != "deleting"}
        self.cluster.remove_nodes(
            [node.name for node in self.cluster.nodes.values() if node.provider_id not in machines]
        )
        self.boot()
        return report

    def live(self, seconds: float) -> list[PassReport]:
        """Let so much time go by, at least a step; return the reports of its passes."""
        return [self.step() for _ in range(max(1, int(seconds / STEP_S)))]

    def bought(self) -> int:
        """How many machines were asked for."""
        return sum(delta for verb, _, delta in self.calls if verb == "increase")

    @property
    def calls(self) -> list[tuple[str, str, int]]:
        """Verb, group and change of the target of every call that changed something."""
        return [(call.verb.value, call.group, call.delta) for call in self.cloud.calls]

    def reasons(self, kind: str) -> list[str]:
        """Reasons of the events about objects of a kind, in order."""
        return [one.reason for one in self.events if one.about.kind == kind]

    def messages(self, reason: str) -> list[str]:
        """Messages of the events with a reason."""
        return [one.message for one in self.events if one.reason == reason]
