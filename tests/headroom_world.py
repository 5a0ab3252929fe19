"""A cluster with controllers, scheduler and kubelets, a cloud, and one leader's loop and headroom, in virtual time.

Everything goes through the API server's own verbs, without sockets; passes and looks at pools come at their intervals.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.actuation.fresh_reads import ClusterReader
from autoscaler.actuation.removal_events import SilentRemovalListener
from autoscaler.app.build import Environment, build_autoscaler
from autoscaler.clock import Instant, VirtualClock
from autoscaler.config.headroom import Headroom, read_headroom
from autoscaler.config.load import load
from autoscaler.errors import Conflict, Gone, Refused, RetryLater
from autoscaler.headroom.cluster import ClusterHeadroom
from autoscaler.headroom.keeper import HeadroomKeeper
from autoscaler.headroom.metrics import HEADROOM, HeadroomMetrics
from autoscaler.headroom.writer import PoolWriter
from autoscaler.kube.call import Call
from autoscaler.kube.writes import Writes
from autoscaler.loop.companion import Companion, Companions
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node, node_decoder
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import DisruptionBudget, Replicated, plain_decoder
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.ports import EventType, Subject
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.http_messages import ApiRequest
from autoscaler.sandbox.apiserver.routes import route
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.apiserver.verbs import Verbs, verb_of
from autoscaler.sandbox.cluster import SandboxCluster
from autoscaler.sandbox.recorded_cloud import recorded
from autoscaler.simulator.executor import VirtualExecutor
from autoscaler.snapshot.cluster import ClusterBuilder, ClusterView, Related
from autoscaler.snapshot.groups import Groups
from cloudprovider.interface import NodeTemplate
from cloudprovider.static.cloud import open_cloud
from cloudprovider.static.spec import BootDelay, CloudSpec, GroupSpec, MachineSpec

FRIDAY = 1_795_168_800.0
"""2026-11-20 10:00 UTC."""
_TIMING = Timing(register_s=0.5, ready_s=0.5, pull_s=0.5, start_s=0.5, stop_s=0.5, lost_s=0.5, cloud_poll_s=0.5)


class StorageClient:
    """What `kube.writes` and readers need of a client, on a storage. `fail` makes requests fail; `asked` has all."""

    def __init__(self, storage: Storage, clock: VirtualClock) -> None:
        self._storage = storage
        self._verbs = Verbs(storage, clock, 60.0)
        self._faults: list[tuple[str, str, ApiError]] = []
        self.asked: list[tuple[str, str]] = []

    def fail(self, verb: str, resource: str, code: int, times: int = 1) -> None:
        """Refuse the next requests of that verb for that resource."""
        self._faults += [(verb, resource, ApiError(code, "Injected", f"injected {code}"))] * times

    def written(self, resource: str) -> list[str]:
        """Return the verbs that changed something of a kind."""
        return [verb for verb, kind in self.asked if kind == resource and verb not in ("get", "list", "watch")]

    def get(self, path: str, query: Mapping[str, str] | None = None, call: object = None) -> bytes:
        return self._send("GET", path, b"", query or {})

    def post(self, path: str, body: bytes, call: Call) -> bytes:
        return self._send("POST", path, body, guard=call)

    def put(self, path: str, body: bytes, call: Call) -> bytes:
        return self._send("PUT", path, body, guard=call)

    def patch(self, path: str, body: bytes, kind: str, call: Call, query: Mapping[str, str] | None = None) -> bytes:
        return self._send("PATCH", path, body, query or {}, kind, call)

    def delete(self, path: str, body: bytes | None, call: Call) -> bytes:
        return self._send("DELETE", path, body or b"", guard=call)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
        guard: Call | None = None,
    ) -> bytes:
        if guard is not None and guard.guard is not None:
            guard.guard()
        request = ApiRequest(method=method, path=path, query=query or {}, content_type=kind, body=body)
        try:
            target = route(self._storage.registry, path)
            verb = verb_of(target, request)
            self.asked.append((verb, target.kind.plural))
            for position, (failing, resource, error) in enumerate(self._faults):
                if (failing, resource) == (verb, target.kind.plural):
                    del self._faults[position]
                    raise error
            return self._verbs.serve(verb, target, request).body
        except ApiError as error:
            raise _ours(error) from error


def _ours(error: ApiError) -> Exception:
    if error.code in (404, 410):
        return Gone(error.message)
    if error.code == 409:
        return Conflict(error.message)
    if error.code in (429,) or error.code >= 500:
        return RetryLater(error.message)
    return Refused(error.message, error.code)


class Lease:
    """Leadership that a test can take away."""

    def __init__(self) -> None:
        self.held = True

    def may_write(self, now: Instant, takes_s: float) -> bool:
        return self.held


class Watched:
    """A `loop.observing.ClusterSource` that lists everything anew each time it is asked."""

    def __init__(self, client: StorageClient, interner: PodInterner, cutoff: int) -> None:
        self._client = client
        self._builder = ClusterBuilder(cutoff)
        self._node_decoder, self._pod_decoder = node_decoder(), interner.decoder()
        self._sets, self._budgets = plain_decoder(Replicated), plain_decoder(DisruptionBudget)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}

    def observe(self, read_groups: Callable[[Sequence[Node]], Groups]) -> ClusterView:
        nodes = {one.name: one for one in self._node_decoder.page(self._client.get("/api/v1/nodes")).items}
        pods = {one.key: one for one in self._pod_decoder.page(self._client.get("/api/v1/pods")).items}
        for name in {**self.nodes, **nodes}:
            if self.nodes.get(name) != nodes.get(name):
                self._builder.node_changed(self.nodes.get(name), nodes.get(name))
        for key in {**self.pods, **pods}:
            if self.pods.get(key) != pods.get(key):
                self._builder.pod_changed(self.pods.get(key), pods.get(key))
        self.nodes, self.pods = nodes, pods
        return self._builder.view(read_groups(tuple(nodes.values())), self.related())

    def related(self) -> Related:
        sets = self._sets.page(self._client.get("/apis/apps/v1/replicasets")).items
        budgets = self._budgets.page(self._client.get("/apis/policy/v1/poddisruptionbudgets")).items
        return Related(replica_sets={one.key: one for one in sets}, budgets={budget.key: budget for budget in budgets})


class HeadroomWorld:
    """One leader and its cluster. Pools are as the configuration file has them; `beside` makes a second companion."""

    def __init__(
        self,
        *pools: JsonObject,
        flags: Sequence[str] = (),
        wall: float = FRIDAY,
        cpu: str = "4",
        max_size: int = 5,
        machines: int = 0,
        scan_s: float = 15.0,
        beside: Callable[["HeadroomWorld"], Companion] | None = None,
        **options: Any,
    ) -> None:
        self.clock = VirtualClock(wall=wall)
        self.storage = Storage(self.clock)
        self.client = StorageClient(self.storage, self.clock)
        self.lease = Lease()
        self.events: list[str] = []
        self.config = load([f"--scan-interval={scan_s}s", *flags])
        capacity = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        group = GroupSpec(
            id="web",
            min_size=0,
            max_size=max_size,
            target_size=machines,
            template=NodeTemplate(labels={"pool": "web"}, capacity=capacity, allocatable=capacity),
            boot=BootDelay(30, 30),
        )
        there = [MachineSpec(group="web", provider_id=f"static://web-{n}", name=f"web-{n}") for n in range(machines)]
        static = open_cloud(CloudSpec(groups=[group], machines=there), now=lambda: self.clock.now().wall)
        self.cloud = recorded(static)
        self.cluster = SandboxCluster(self.clock, static, storage=self.storage, timing=_TIMING)
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ci"}})
        self.interner = PodInterner()
        self.source = Watched(self.client, self.interner, self.config.pods.expendable_pods_priority_cutoff)
        self.executor = VirtualExecutor(self.clock)
        self.fresh_config: Headroom | None = None
        self.headroom = self.parsed(*pools, **options)
        self._scan_s = scan_s
        self._beside = [] if beside is None else [beside(self)]
        self.lead()
        self._cluster_at = self.clock.now().mono
        if machines:
            self.cluster.run_for(5)

    def parsed(self, *pools: JsonObject, **options: Any) -> Headroom:
        return read_headroom({"pools": list(pools), **options}, self.config.pods.expendable_pods_priority_cutoff)

    def lead(self) -> None:
        """Let a new process lead: nothing is remembered but what is in the cluster."""
        writes = Writes(self.client, self.lease, self.clock, lambda _seconds: True)  # type: ignore[arg-type]
        self.metrics = Metrics()
        self.metrics.start()
        self.keeper = HeadroomKeeper(
            self.headroom,
            PoolWriter(ClusterHeadroom(self.client, writes), self.config.pods.expendable_pods_priority_cutoff),
            self,
            HeadroomMetrics(self.metrics.companion(HEADROOM)),
            self.clock,
            changed=self._changed,
        )
        self.failed: list[str] = []
        self.companions = Companions([self.keeper, *self._beside], self.failed.append)
        fresh = ClusterReader(self.client, self.interner, self.source.nodes.get, self.source.related)
        around = Environment(
            source=self.source,
            provider=self.cloud,
            writes=writes,
            fresh=fresh,
            events=self,
            listener=SilentRemovalListener(),
            executor=self.executor,
            clock=self.clock,
            leadership=self.lease,
            companions=self.companions,
        )
        self.autoscaler = build_autoscaler(self.config, around, self.interner)
        self.pass_at = self.look_at = self._beside_at = self.clock.now().mono

    def _changed(self) -> Headroom | None:
        fresh, self.fresh_config = self.fresh_config, None
        return fresh

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        self.events.append(reason)

    def close(self) -> None:
        self.executor.stop()

    # Time.

    def run_for(self, seconds: float) -> None:
        """Let time pass: actors every half second, passes and looks when they are due."""
        end = self.clock.now().mono + seconds
        while self.clock.now().mono < end:
            self.turn()
            self.executor.run_until(min(end, self.clock.now().mono + 0.5))
            self.cluster.step()

    def turn(self) -> None:
        """Run the pass and the look that are due now."""
        now = self.clock.now()
        if now.mono >= self.pass_at and self.lease.held:
            self.report = self.autoscaler.run_once(now)
            self.pass_at = now.mono + self._scan_s
        if now.mono >= self.look_at and self.lease.held:
            self.companions.tick(self.keeper, now)
            self.look_at = now.mono + self.keeper.interval_s
        for companion in self._beside:
            if now.mono >= self._beside_at and companion.interval_s is not None:
                self.companions.tick(companion, now)
                self._beside_at = now.mono + companion.interval_s

    def until(self, wall: float) -> None:
        self.run_for(wall - self.clock.now().wall)

    # The cluster.

    def apply(self, *objects: JsonObject) -> None:
        self.cluster.apply(objects)

    def work(self, name: str, replicas: int, *, cpu: str = "1", **spec: Any) -> None:
        """Deploy replicas of ordinary work."""
        labels = {"app": name}
        pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec}
        self.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": "ci", "labels": labels},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            }
        )

    def deployment(self, name: str = "headroom-ci") -> JsonObject | None:
        found = [
            deployment for deployment in self.storage.list("deployments.apps") if deployment["metadata"]["name"] == name
        ]
        return found[0] if found else None

    @property
    def replicas(self) -> int | None:
        """Replicas of the pool's Deployment; None where there is none."""
        found = self.deployment()
        return None if found is None else int(found["spec"]["replicas"])

    def pods(self, name: str) -> list[JsonObject]:
        """Return the pods of a Deployment that are not on their way out."""
        pods = self.storage.list("pods", namespace="ci")
        return [
            pod
            for pod in pods
            if pod["metadata"]["name"].startswith(f"{name}-") and "deletionTimestamp" not in pod["metadata"]
        ]

    def on_nodes(self, name: str) -> dict[str, int]:
        """Count the running pods of a Deployment by node."""
        counts: dict[str, int] = {}
        for pod in self.pods(name):
            if pod["status"].get("phase") == "Running":
                counts[pod["spec"]["nodeName"]] = counts.get(pod["spec"]["nodeName"], 0) + 1
        return counts

    @property
    def nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.storage.list("nodes")]

    @property
    def bought(self) -> int:
        """Machines asked for."""
        return sum(call.delta for call in self.cloud.calls if call.verb.value == "increase")

    def series(self) -> dict[str, float]:
        lines = [line for line in self.metrics.scrape().decode().splitlines() if not line.startswith("#")]
        pairs = (line.rsplit(" ", 1) for line in lines)
        return {name.removeprefix("cluster_autoscaler_"): float(value) for name, value in pairs}


def a_pool(
    name: str = "ci", *, cpu: str = "1", policies: Iterable[JsonObject] | None = None, **fields: Any
) -> JsonObject:
    """Return a pool as a file has it; without policies it keeps nothing."""
    return {"name": name, "namespace": "ci", "resources": {"cpu": cpu}, "policies": list(policies or []), **fields}


def always(count: int, idle: str = "5m", **fields: Any) -> JsonObject:
    """Return a policy that keeps so many pods at all times."""
    return {"name": "always", "idleCount": count, "idleTime": idle, **fields}


def copy_of(obj: JsonObject) -> JsonObject:
    """Return a copy to change."""
    copied: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
    return copied
