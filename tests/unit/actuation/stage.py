"""A small cluster and cloud in virtual time on which removals run for real; only the API server is a fake."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud, DeleteResult
from autoscaler.actuation.deletion import Deleter, RemovalPorts, StartedRemovals
from autoscaler.actuation.deletion_tracker import NodeDeletionTracker
from autoscaler.actuation.machine_deletion import CALL_S
from autoscaler.actuation.recheck import RecheckOptions
from autoscaler.actuation.removal_outcome import Finished
from autoscaler.clock import Instant, ThreadExecutor, VirtualClock
from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import Drain
from autoscaler.errors import AutoscalerError, LeadershipLost, RetryLater
from autoscaler.loop.removal_event_writer import RemovalEventWriter
from autoscaler.objects.node import TO_BE_DELETED, Node, Taint
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import DisruptionBudget
from autoscaler.ports import EventType, Subject
from autoscaler.reasons import RemovedAs
from autoscaler.sandbox.memory_cluster import MemoryCluster, MemoryWrites
from autoscaler.scaledown.plan import NodesToDelete, Removal
from autoscaler.simulator.executor import VirtualExecutor
from autoscaler.snapshot.cluster import Related
from cloudprovider.interface import ErrorClass, InstanceError, NodeRef, NoticeKind, ProviderError
from cloudprovider.static.cloud import StaticCloud, open_cloud
from cloudprovider.static.spec import CloudSpec, GroupSpec, MachineSpec
from tests.builders import a_node, a_pod

START_WALL = 1_700_000_000.0


class Leader:
    """Leadership that ends at a monotonic second, and until then is renewed every so often (0: at every moment)."""

    def __init__(self) -> None:
        self.until = 1e9
        self.lease_s = 15.0
        self.renewed_every_s = 0.0

    def may_write(self, now: Instant, takes_s: float) -> bool:
        age_s = now.mono % self.renewed_every_s if self.renewed_every_s else 0.0
        return now.mono < self.until and takes_s < self.lease_s - age_s


class Api(MemoryWrites):
    """Writes and fresh reads of a cluster in memory, with faults to order.

    Evicted pods are gone at once, or after `terminating_s[pod name]` seconds.
    """

    def __init__(self, cluster: MemoryCluster, clock: VirtualClock, executor: VirtualExecutor, leader: Leader) -> None:
        super().__init__(cluster, clock)
        self.down = (0.0, 0.0)
        """Monotonic seconds between which nothing answers."""
        self.eviction_errors: dict[str, deque[AutoscalerError | None]] = defaultdict(deque)
        """Answers to the next evictions by pod name; None: it works."""
        self.always: dict[str, AutoscalerError] = {}
        """Answers to every eviction by pod name."""
        self.taint_errors: dict[str, deque[AutoscalerError]] = defaultdict(deque)
        self.release_errors: dict[str, deque[AutoscalerError]] = defaultdict(deque)
        self.terminating_s: dict[str, float] = {}
        self.graces: dict[str, int | None] = {}
        self.uids: dict[str, str] = {}
        self.controllers: Related | None = None
        self.watch_lag_s = 0.0
        self.read_error: AutoscalerError | None = None
        self.on_read: Callable[[], object] = lambda: None
        self.on_write: Callable[[], object] = lambda: None
        self.budget_list: list[DisruptionBudget] = []
        self._cluster_now = cluster
        self._clock_now = clock
        self._executor = executor
        self._leader = leader
        self._tainted_at: dict[str, float] = {}

    def evict(self, namespace: str, name: str, uid: str, grace_s: int | None) -> None:
        self._answer()
        key = f"{namespace}/{name}"
        self._record_write("tryEvict", key)
        errors = self.eviction_errors[name]
        error = errors.popleft() if errors else self.always.get(name)
        if error is not None:
            raise error
        self.graces[name] = grace_s
        self.uids[name] = uid
        takes_s = self.terminating_s.get(name)
        pod = self._cluster_now.pods.get(key)
        if takes_s is None or pod is None:
            super().evict(namespace, name, uid, grace_s)
            return
        self._record_write("evict", key, pod.node or "")
        if pod.deleted is None:
            self._cluster_now.put_pod(replace(pod, deleted=self._clock_now.now().wall))
            self._executor.call_at(self._clock_now.now().later(takes_s), lambda: self._cluster_now.remove_pod(key))

    def add_taint(self, node: str, taint: Taint, *, cordon: bool = False) -> bool:
        self._answer()
        if self.taint_errors[node]:
            raise self.taint_errors[node].popleft()
        self._tainted_at[node] = self._clock_now.now().mono
        return super().add_taint(node, taint, cordon=cordon)

    def remove_taint(self, node: str, key: str, *, uncordon: bool = False) -> bool:
        self._answer()
        self._record_write("tryRelease", node)
        if self.release_errors[node]:
            raise self.release_errors[node].popleft()
        return super().remove_taint(node, key, uncordon=uncordon)

    def node(self, name: str) -> Node | None:
        self._read()
        return self._cluster_now.nodes.get(name)

    def pods_on(self, node: str) -> Sequence[Pod]:
        self._read()
        return [pod for pod in self._cluster_now.pods.values() if pod.node == node]

    def budgets(self) -> Sequence[DisruptionBudget]:
        self._read()
        return self.budget_list

    def related(self) -> Related | None:
        return self.controllers

    def last_seen(self, name: str) -> Node | None:
        node = self._cluster_now.nodes.get(name)
        shown = self._clock_now.now().mono >= self._tainted_at.get(name, 0.0) + self.watch_lag_s
        return node if shown or node is None else replace(node, taints=())

    def _reachable(self) -> None:
        begin, end = self.down
        if begin <= self._clock_now.now().mono < end:
            raise RetryLater("API server is unreachable")

    def _read(self) -> None:
        self._reachable()
        self.on_read()
        if self.read_error is not None:
            raise self.read_error

    def _answer(self) -> None:
        if not self._leader.may_write(self._clock_now.now(), 0.0):
            raise LeadershipLost("not leading")
        self._reachable()
        self.on_write()


class Events:
    """Remembers events as `Kind/name reason: message`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        self.lines.append(f"{about.kind}/{about.name} {reason}: {message}")

    def about(self, subject: str) -> list[str]:
        return [line.removeprefix(subject + " ") for line in self.lines if line.startswith(subject + " ")]


class CloudPort(Cloud):
    """A `Cloud` that can crash, or fail to tell what became of a call."""

    def __init__(self, provider: StaticCloud, clock: VirtualClock) -> None:
        super().__init__(provider)
        self.crash: Exception | None = None
        self.unknown_until = 0.0
        self.refusal: ProviderError | None = None
        """What is said when it is asked in advance."""
        self.asked_ahead: list[tuple[float, str]] = []
        """Seconds since the start, and nodes."""
        self._clock = clock

    def prepare_delete(self, group_id: str, nodes: Sequence[NodeRef]) -> None:
        self.asked_ahead += [(self._clock.now().mono, node.name) for node in nodes]
        if self.refusal is not None:
            raise self.refusal

    def delete_nodes(self, group_id: str, nodes: Sequence[NodeRef], *, force: bool = False) -> DeleteResult:
        if self.crash is not None:
            raise self.crash
        deleted = super().delete_nodes(group_id, nodes, force=force)
        if self._clock.now().mono < self.unknown_until:
            return DeleteResult(error=InstanceError(ErrorClass.OTHER, "TRANSIENT", "time-out"), certain=False)
        return deleted

    def gone_of(self, group_id: str, nodes: Sequence[NodeRef]) -> frozenset[str] | None:
        return super().gone_of(group_id, nodes) if self._clock.now().mono >= self.unknown_until else None


class Counts:
    """A listener that counts."""

    def __init__(self) -> None:
        self.pending: list[int] = []
        self.evicted = {True: 0, False: 0}
        self.failed: list[str] = []
        self.fates: list[tuple[int, int]] = []
        self.removed: list[tuple[str, str, RemovedAs]] = []
        self.on_removed: Callable[[], object] = lambda: None

    def deletions_pending(self, nodes: int) -> None:
        self.pending.append(nodes)

    def pod_evicted(self, succeeded: bool) -> None:
        self.evicted[succeeded] += 1

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        self.removed.append((group, node.name, removed_as))
        self.on_removed()

    def machine_left(self, left: int, remained: int) -> None:
        self.fates.append((left, remained))

    def removal_failed(self, why: str) -> None:
        self.failed.append(why)


class DeletionStage:
    """Nodes n1, n2, ... of group `g`, each with a machine, and whatever pods a test adds."""

    def __init__(
        self,
        nodes: int = 3,
        *,
        min_size: int = 0,
        config: Drain | None = None,
        rules: Rules | None = None,
        cordoned: Sequence[str] = (),
        taints: Mapping[str, Sequence[str]] | None = None,
        threads: ThreadExecutor | None = None,
        api: type["Api"] | None = None,
        call_s: float = CALL_S,
    ) -> None:
        """With `threads` removals run there, while the clock stands still."""
        self.clock = VirtualClock(wall=START_WALL)
        self.executor = VirtualExecutor(self.clock)
        self.leader = Leader()
        self.cluster = MemoryCluster(lambda old, new: None, lambda old, new: None)
        self.api = (api or Api)(self.cluster, self.clock, self.executor, self.leader)
        self.events = Events()
        self.counts = Counts()
        names = [f"n{number}" for number in range(1, nodes + 1)]
        for name in names:
            tainted = (taints or {}).get(name, ())
            self.cluster.put_node(a_node(name, cordoned=name in cordoned, taints=tainted))
        self.provider: StaticCloud = open_cloud(
            CloudSpec(
                groups=[GroupSpec(id="g", min_size=min_size, max_size=10, target_size=nodes)],
                machines=[MachineSpec(group="g", provider_id=f"test://{name}", name=name) for name in names],
            ),
            now=lambda: self.clock.now().wall,
        )
        self.machines_port = CloudPort(self.provider, self.clock)
        self.machines_port.refresh(START_WALL)
        self.tracker = NodeDeletionTracker()
        self.status = Subject(kind="ConfigMap", name="status", namespace="kube-system")
        self.deleter = Deleter(
            RemovalPorts(
                writes=self.api,
                machines=self.machines_port,
                fresh=self.api,
                events=RemovalEventWriter(self.events, self.counts, self.status),
                executor=threads or self.executor,
                clock=self.clock,
                leadership=self.leader,
                call_s=call_s,
            ),
            self.tracker,
            RecheckOptions(
                drain=config or Drain(), rules=rules or Rules(), notices=tuple(NoticeKind), expendable_below=-10
            ),
        )

    def __enter__(self) -> "DeletionStage":
        return self

    def __exit__(self, *_: object) -> None:
        self.executor.stop()

    def add(self, name: str, node: str, **about: Any) -> Pod:
        """Put a pod on a node."""
        pod = a_pod(name, node=node, **about)
        self.cluster.put_pod(pod)
        return pod

    def at(self, second: float, do: Callable[[], object]) -> None:
        """Let something happen at a monotonic second."""
        self.executor.call_at(Instant(START_WALL + second, second), lambda: _do(do))

    def removal(self, node: str, **about: Any) -> Removal:
        """Plan the removal of a node with the pods that are on it now, those of DaemonSets left out."""
        found = self.cluster.nodes[node]
        pods = tuple(pod for pod in self.cluster.pods.values() if pod.node == node and not pod.cls.daemonset)
        return Removal(**{"node": found, "group": "g", "pods": pods, **about})

    def start(self, *nodes: str, **about: Any) -> StartedRemovals:
        """Begin to remove nodes."""
        removals = [self.removal(name, **about) for name in nodes]
        return self.deleter.start(
            NodesToDelete(
                empty=tuple(one for one in removals if not one.drained),
                drained=tuple(one for one in removals if one.drained),
            )
        )

    def run(self, until: float) -> list[Finished]:
        """Let time pass up to a monotonic second; returns what ended."""
        self.executor.run_until(until)
        return list(self.tracker.drain_results())

    def tainted(self, node: str) -> bool:
        """Whether a node carries the hard taint."""
        return self.cluster.nodes[node].taint(TO_BE_DELETED) is not None

    def machines(self) -> list[str]:
        """Names of the machines that exist."""
        return sorted(machine.name for machine in self.provider.machines())

    def did(self, verb: str) -> list[tuple[float, str]]:
        """Seconds since the start, and targets, of the writes of one kind."""
        return [(one.at_s - START_WALL, one.target) for one in self.api.log if one.verb == verb]


def _do(what: Callable[[], object]) -> None:
    what()
