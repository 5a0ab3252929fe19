"""A cluster, a cloud and the real loop in virtual time: the second mode of running the same pass.

    with World(config, cloud, objects, seed=7) as world:
        world.at(600, lambda: world.scale("web", 30))
        world.run_for(86_400)

Everything is in this process and on one clock: the storage with its scheduler, kubelets and controllers, the
simulated cloud, and one replica of the autoscaler that follows the storage and writes to it through the API. Time
jumps from one thing that is due to the next. The same arguments and actions give the same run, to the byte.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType

import msgspec

from autoscaler.app.wiring import make_metrics
from autoscaler.clock import VirtualClock
from autoscaler.config.tree import Config
from autoscaler.loop.companion import Companion
from autoscaler.objects.meta import JsonObject, rfc3339
from autoscaler.observe.events import CollectedEvents
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import RecentEvent
from autoscaler.reservations.plan import Operation
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.cluster import SandboxCluster
from autoscaler.sandbox.local_api import LocalApi
from autoscaler.sandbox.recorded_cloud import CloudCall, recorded
from autoscaler.simulator.executor import VirtualExecutor
from autoscaler.simulator.replica import PassListener, Replica, ReplicaContext, SilentPassListener, SkewedClock
from cloudprovider.static.cloud import open_cloud
from cloudprovider.static.spec import CloudSpec

START_WALL = 1_750_000_000.0
_TICK_S = 0.5
_MAX_REPORTS = 240

Action = Callable[[], None]
"""An action on a world at some moment."""


class Attached(msgspec.Struct, frozen=True):
    """What a world passes to its replicas."""

    listener: PassListener = SilentPassListener()
    """The listener receives every pass."""
    companions: tuple[Companion, ...] = ()
    tick_s: float = 0.0
    """Minimum seconds between ticks of companions, so that weeks pass quickly."""


class World:
    """Drives everything from one thread. Close it, or use it as a context manager.

    `cloud` is the simulated cloud: boot delays, prices, stock-outs and failing calls are in its specification, and
    `fail_next` and `remove_machine` act on it at once. `api.faults` makes the API server fail for the autoscaler only;
    the actors of the cluster continue.
    """

    def __init__(
        self,
        config: Config,
        spec: CloudSpec,
        objects: Iterable[JsonObject] = (),
        *,
        seed: int = 0,
        wall: float = START_WALL,
        timing: Timing = Timing(),  # noqa: B008 - frozen
        attached: Attached = Attached(),  # noqa: B008 - frozen
    ) -> None:
        """`wall` is the Unix second at which the world begins. Raises `ConfigError`, `Misconfigured` or `ApiError`."""
        self.clock = VirtualClock(wall=wall)
        self.storage = Storage(self.clock, seed=seed)
        self.cloud = open_cloud(spec, now=lambda: self.clock.now().wall)
        self.cluster = SandboxCluster(self.clock, self.cloud, storage=self.storage, timing=timing)
        self.api = LocalApi(self.storage, self.clock)
        self.reports: deque[PassReport] = deque(maxlen=_MAX_REPORTS)
        """The latest passes, newest last; a listener receives all of them."""
        self.passes = 0
        self._announced = 0
        self._executor = VirtualExecutor(self.clock)
        self._executor.after_turn = self._schedule_next
        self._provider = recorded(self.cloud)
        self._machine_clock = SkewedClock(self.clock)
        self._events = CollectedEvents(self._machine_clock)
        self.metrics = make_metrics(config)
        """The metrics of companions and events; a listener may set the others."""
        self._replica_context = ReplicaContext(
            config=config,
            storage=self.storage,
            api=self.api,
            provider=self._provider,
            executor=self._executor,
            clock=self._machine_clock,
            events=self._events,
            metrics=self.metrics,
            listener=attached.listener,
            companions=attached.companions,
            seed=seed,
            tick_s=attached.tick_s,
        )
        self._last_step = self.clock.now().mono
        self._step = _Alarm(self._executor, self._step_cluster)
        self._sync_alarm = _Alarm(self._executor, lambda: None)
        self.cluster.apply(objects)
        self.cluster.step()
        self.replica: Replica | None = Replica(self._replica_context)
        """The autoscaler; None while no replica leads."""
        self._schedule_next()

    def __enter__(self) -> "World":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the replica and every thread."""
        self._stop_replica()
        self._executor.stop()

    @property
    def calls(self) -> list[CloudCall]:
        """Every call that asked the cloud for a change, oldest first."""
        return self._provider.calls

    @property
    def events(self) -> tuple[RecentEvent, ...]:
        """Every event from the autoscaler, oldest first; the storage has those that reached the cluster."""
        return self._events.all

    @property
    def elapsed_s(self) -> float:
        """Seconds since the world began."""
        return self.clock.now().mono

    def at(self, after_s: float, action: Action) -> None:
        """Run an action in the world after this many seconds; it must not let time pass itself."""
        self._executor.call_on_driver(self.clock.now().mono + after_s, action)

    def run_for(self, seconds: float) -> None:
        """Let this much time pass."""
        end = self.clock.now().mono + seconds
        while self._run_next(end):
            pass

    def run_until(self, condition: Callable[[], bool], *, timeout_s: float = 3600.0) -> bool:
        """Let time pass until the condition holds; return False if it does not within `timeout_s`.

        The condition is checked after every action, so it should be quick.
        """
        end = self.clock.now().mono + timeout_s
        while not condition():
            if not self._run_next(end):
                return condition()
        return True

    def apply(self, *objects: JsonObject) -> None:
        """Create or change objects, as `kubectl apply --server-side`; raises `ApiError`."""
        self.cluster.apply(objects)
        self._schedule_next()

    def set_condition(self, node: str, condition: str, status: str) -> None:
        """Give a node a condition from now on; raises `ApiError`. With `Ready=Unknown` its kubelet is dead."""
        changed = {"type": condition, "status": status, "lastTransitionTime": rfc3339(self.clock.now().wall)}
        patch = {"status": {"conditions": [{**changed, "reason": "Simulated"}]}}
        self.storage.patch("nodes", node, patch, patch_type=PatchType.STRATEGIC, subresource="status")
        self._schedule_next()

    def delete(self, resource: str, name: str, *, namespace: str | None = None) -> None:
        """Delete an object; raises `ApiError`."""
        self.storage.delete(resource, name, namespace=namespace)
        self._schedule_next()

    def scale(self, name: str, replicas: int, *, namespace: str = "default", resource: str = "deployments") -> None:
        """Set the replicas of a workload; raises `ApiError`."""
        self.storage.scale(resource, name, replicas, namespace=namespace)
        self._schedule_next()

    def announce(self, target: str, amount: int, length_s: float) -> None:
        """Announce work to the reservations of the leading replica, as a request to its listener would.

        Nothing happens if no replica leads or reservations are not configured.
        """
        reservations = None if self.replica is None else self.replica.companion_set.reservations
        if reservations is not None:
            self._announced += 1
            reservations.commits.put(
                Operation(
                    target=target,
                    amount=amount,
                    length_s=length_s,
                    seed=f"world/{self._announced}",
                    accepted=self.clock.now(),
                )
            )

    def disconnect_api(self, for_s: float) -> None:
        """Disconnect the autoscaler from the API server: calls fail, and watches are silent and catch up later."""
        self.api.faults.down()
        self.at(for_s, self.api.faults.up)

    def delay_watches(self, lag_s: float) -> None:
        """Deliver each change to this replica's watches this many seconds late."""
        if self.replica is not None:
            self.replica.feed.lag_s = lag_s

    @property
    def clock_offset_s(self) -> float:
        """Seconds by which the wall clock of the autoscaler's machine is ahead."""
        return self._machine_clock.offset_s

    def jump_clock(self, seconds: float) -> None:
        """Set the wall clock of the autoscaler's machine forward or back; nothing else is affected."""
        self._machine_clock.offset_s += seconds

    def restart(self, after_s: float = 0.0, *, gracefully: bool = False) -> None:
        """Kill or stop the autoscaler's process, and start another one after this many seconds."""
        if gracefully and self.replica is not None:
            self.replica.leave()
        self._stop_replica()
        self.at(after_s, self._start_replica)

    def lose_leadership(self, for_s: float) -> None:
        """Take the lease from the replica, which then ends as the daemon does; another replica leads after `for_s`."""
        if self.replica is not None:
            self.replica.lease.lost = True
        self.restart(for_s)

    def _stop_replica(self) -> None:
        if self.replica is not None:
            self.replica.stop()
            self.replica = None

    def _start_replica(self) -> None:
        self._stop_replica()
        self.replica = Replica(self._replica_context)

    def _run_next(self, end: float) -> bool:
        """Run the next thing that is due by `end`; return False if nothing is due and the clock is at `end`."""
        now = self.clock.now().mono
        due = math.inf if self.replica is None else max(now, self.replica.due)
        event = self._executor.next_due
        if event is not None and event <= min(due, end):
            self._executor.run_until(event)
        elif due <= end:
            self._executor.run_until(due)
            self._run_pass()
        elif now < end:
            self._executor.run_until(end)
        else:
            return False
        return True

    def _run_pass(self) -> None:
        replica = self.replica
        if replica is None or replica.due > self.clock.now().mono:
            return
        report = replica.run_pass()
        self.passes += 1
        self.reports.append(report)
        self._schedule_next()

    def _schedule_next(self) -> None:
        """Deliver recent writes to the watches, and schedule the next step of the cluster."""
        if self.replica is not None:
            self.replica.feed.set_connected(not self.api.faults.is_down)
        if self.replica is not None and not self.api.faults.is_down:
            feed = self.replica.feed
            if feed.due() <= self.clock.now().mono:
                feed.sync()
            self._sync_alarm.set_alarm(feed.due())
        self._step.set_alarm(max(self.cluster.due(), self._last_step + _TICK_S))

    def _step_cluster(self) -> None:
        """Let the cluster take a step, unless it has already done so."""
        now = self.clock.now().mono
        if self.cluster.due() <= now:
            self._last_step = now
            self.cluster.step()


class _Alarm:
    """Work that is planned for one moment at a time; an earlier plan replaces a later one."""

    def __init__(self, executor: VirtualExecutor, work: Action) -> None:
        self._executor = executor
        self._work = work
        self._due = math.inf

    def set_alarm(self, mono: float) -> None:
        """Do the work at that monotonic second, or earlier if it is already planned earlier."""
        if mono < self._due:
            self._due = mono
            self._executor.call_on_driver(mono, lambda: self._fire(mono))

    def _fire(self, mono: float) -> None:
        if mono == self._due:
            self._due = math.inf
            self._work()
