"""A whole cluster in one process: storage, scheduler, kubelets, controllers, and the simulated cloud's machines.

    cloud = open_cloud(spec, now=lambda: clock.now().wall)
    cluster = SandboxCluster(clock, cloud)
    cluster.apply(objects)
    cluster.run_for(60)         # virtual clock; with the system clock: cluster.start() ... cluster.stop()

The actors know each other only through the storage, as in a real cluster; serve it with
`sandbox.apiserver.server.ApiServer`. Not played: volumes being provisioned, CronJobs, and eviction by `NoExecute`
taints.
"""

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from autoscaler.clock import Clock, Instant, VirtualClock
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.autoscalers import Autoscalers
from autoscaler.sandbox.actors.claim_controller import ClaimController
from autoscaler.sandbox.actors.daemonsets import DaemonSets
from autoscaler.sandbox.actors.deployments import Deployments
from autoscaler.sandbox.actors.disruption import DisruptionController
from autoscaler.sandbox.actors.event_recorder import Recorder
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.jobs import Jobs
from autoscaler.sandbox.actors.kubelet import Kubelets
from autoscaler.sandbox.actors.machines import KwokNodes, MachineNodes
from autoscaler.sandbox.actors.node_lifecycle import NodeTaints, OrphanedPods
from autoscaler.sandbox.actors.replicasets import ReplicaSets
from autoscaler.sandbox.actors.scheduler import Scheduler
from autoscaler.sandbox.actors.statefulsets import StatefulSets
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.actors.wire import holds, is_terminating, phase_of
from autoscaler.sandbox.apiserver.errors import no_such_resource
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.storage import Storage
from cloudprovider.static.cloud import StaticCloud

_MANAGER = "sandbox"


class Actor(Protocol):
    """A part of the cluster that acts on its own."""

    def due(self) -> float:
        """Return the monotonic second of the next step with work, as far as known now; infinite if there is none."""
        ...

    def step(self, now: Instant) -> None:
        """Read what changed, and do what is due."""
        ...


class ClusterCounts(msgspec.Struct, frozen=True):
    """The state of a cluster in numbers."""

    nodes: int
    ready_nodes: int
    pods: Mapping[str, int] = {}
    """Number of pods by phase; pods that are being deleted count as `Terminating`."""

    @property
    def pending(self) -> int:
        """Pods that do not run yet."""
        return self.pods.get("Pending", 0)


class SandboxCluster:
    """Drives the actors over one storage. Only one thread may call `step`: after the start, the ticker's.

    Without a cloud, clients create the nodes; nodes of the kwok provider become Ready by themselves.
    """

    def __init__(
        self,
        clock: Clock,
        cloud: StaticCloud | None = None,
        *,
        storage: Storage | None = None,
        timing: Timing = Timing(),  # noqa: B008 - frozen
    ) -> None:
        self.clock = clock
        self.cloud = cloud
        self.storage = storage if storage is not None else Storage(clock)
        self.failures: list[Exception] = []
        """The last unexpected errors of actors; the ticker continues after them."""
        self._informers = SharedInformers(self.storage)
        self._actors = _actors(self.storage, self._informers, cloud, timing)
        self._stopping = threading.Event()
        self._ticker: threading.Thread | None = None

    def apply(self, objects: Iterable[JsonObject]) -> None:
        """Create or change objects, in order, as `kubectl apply --server-side`; raises ApiError. Any thread may call
        this.
        """
        for obj in objects:
            kind = self._kind_of(obj)
            self.storage.apply(kind, obj, manager=_MANAGER)

    def step(self) -> None:
        """Let every actor act once. Each sees the changes of those before it."""
        now = self.clock.now()
        self._informers.poll()
        for actor in self._actors:
            actor.step(now)
            self._informers.poll()

    def due(self) -> float:
        """Monotonic second of the next step with work, as far as known now; infinite if there is none."""
        return -math.inf if self._informers.behind else min(actor.due() for actor in self._actors)

    def run_for(self, seconds: float, *, tick_s: float = 0.5) -> None:
        """Let virtual time pass, with a step per tick that has work; raises TypeError on a clock that cannot be
        advanced.
        """
        if not isinstance(self.clock, VirtualClock):
            raise TypeError("only a VirtualClock can be moved: use start and stop")
        left_s = seconds
        while left_s > 0:
            passes_s = min(tick_s, left_s)
            self.clock.advance(passes_s)
            if self.due() <= self.clock.now().mono:
                self.step()
            left_s -= passes_s

    def run_until(self, condition: Callable[[], bool], *, timeout_s: float = 600.0, tick_s: float = 0.5) -> bool:
        """Let virtual time pass until the condition holds; return False if it does not within `timeout_s`."""
        deadline = self.clock.now().mono + timeout_s
        while not condition():
            if self.clock.now().mono >= deadline:
                return False
            self.run_for(tick_s, tick_s=tick_s)
        return True

    def start(self, tick_s: float = 0.25) -> None:
        """Run steps on a thread of its own, one every `tick_s` real seconds; raises RuntimeError if it already runs."""
        if self._ticker is not None:
            raise RuntimeError("the cluster is running")
        self._stopping.clear()
        self._ticker = threading.Thread(target=self._tick, args=(tick_s,), name="sandbox", daemon=True)
        self._ticker.start()

    def stop(self) -> None:
        """End the ticker and wait for its last step."""
        self._stopping.set()
        if self._ticker is not None:
            self._ticker.join()
            self._ticker = None

    def __enter__(self) -> "SandboxCluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def counts(self) -> ClusterCounts:
        """Count nodes and pods in the storage. Any thread may call this."""
        nodes, pods = self.storage.list("nodes"), self.storage.list("pods")
        phases = Counter("Terminating" if is_terminating(pod) else phase_of(pod) for pod in pods)
        return ClusterCounts(len(nodes), sum(holds(node, "Ready") for node in nodes), dict(sorted(phases.items())))

    def _tick(self, tick_s: float) -> None:
        while not self._stopping.wait(tick_s):
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 - the top of a thread: one odd object must not stop the cluster
                self.failures = [*self.failures[-9:], error]

    def _kind_of(self, obj: JsonObject) -> Kind:
        identity = (obj.get("apiVersion"), obj.get("kind"))
        rows = self.storage.registry.rows
        row = next((row for row in rows if (row.api_version, row.kind) == identity), None)
        if row is None:
            raise no_such_resource()
        return row


def _actors(
    storage: Storage, informers: SharedInformers, cloud: StaticCloud | None, timing: Timing
) -> tuple[Actor, ...]:
    """Return the actors in an order in which one step carries a change far: machines, workloads, scheduler,
    kubelets.
    """
    controllers = Recorder(storage, "controller-manager", timing)
    machines: tuple[Actor, ...] = (MachineNodes(storage, informers, cloud, timing),) if cloud is not None else ()
    return (
        *machines,
        KwokNodes(storage, informers, timing),
        NodeTaints(storage, informers),
        OrphanedPods(storage, informers, timing),
        Autoscalers(storage, informers, Recorder(storage, "horizontal-pod-autoscaler", timing), timing),
        Deployments(storage, informers, controllers),
        ReplicaSets(storage, informers, controllers, "replicasets.apps"),
        ReplicaSets(storage, informers, controllers, "replicationcontrollers"),
        StatefulSets(storage, informers, controllers),
        DaemonSets(storage, informers, controllers),
        Jobs(storage, informers, controllers),
        ClaimController(storage, informers),
        Scheduler(storage, informers, Recorder(storage, "default-scheduler", timing), timing),
        Kubelets(storage, informers, timing),
        DisruptionController(storage, informers),
    )
