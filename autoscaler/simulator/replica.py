"""One autoscaler process inside a `World`: the daemon's parts, connected to a storage instead of a network."""

from typing import Protocol

import msgspec

from autoscaler.actuation.removal_events import RemovalListener, SilentRemovalListener
from autoscaler.app.provider_clusters import client_settings
from autoscaler.app.wiring import ProcessPorts, Wiring
from autoscaler.clock import Clock, Instant
from autoscaler.config.tree import Config
from autoscaler.loop.companion import Companion
from autoscaler.observe.events import CollectedEvents
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.report import PassReport
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.journal_feed import JournalFeed
from autoscaler.sandbox.local_api import LocalApi
from autoscaler.simulator.executor import ReplicaExecutor, VirtualExecutor
from autoscaler.simulator.recorded_answers import RecordedAnswers
from cloudprovider.interface import CloudProvider

_SERVING_LEASE_S = 15.0


class PassListener(RemovalListener, Protocol):
    """Receives passes and the events between them; `observe.publish.Publisher` is one."""

    def pass_started(self, now: Instant) -> None:
        """Receive the beginning of a pass."""
        ...

    def pass_ended(self, report: PassReport) -> None:
        """Receive what a pass saw, decided and did."""
        ...


class SilentPassListener(SilentRemovalListener):
    """A `PassListener` that does nothing."""

    def pass_started(self, now: Instant) -> None:
        """Do nothing."""

    def pass_ended(self, report: PassReport) -> None:
        """Do nothing."""


class SkewedClock:
    """The clock of one machine. Its wall clock may be wrong; its monotonic clock is right."""

    def __init__(self, clock: Clock) -> None:
        self.offset_s = 0.0
        self._clock = clock

    def now(self) -> Instant:
        """Return the present moment on this machine."""
        true = self._clock.now()
        return Instant(true.wall + self.offset_s, true.mono)


class ReplicaLease:
    """The `ports.Leadership` of a replica that renews its lease successfully until the lease is `lost`."""

    lost = False

    def may_write(self, now: Instant, takes_s: float) -> bool:
        """Whether the lease outlasts a call of `takes_s` seconds that starts now."""
        return not self.lost and takes_s < _SERVING_LEASE_S


class ReplicaContext(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of replicas, which continue to exist when a replica ends."""

    config: Config
    storage: Storage
    api: LocalApi
    provider: CloudProvider
    executor: VirtualExecutor
    clock: Clock
    events: CollectedEvents
    metrics: Metrics
    listener: PassListener
    companions: tuple[Companion, ...] = ()
    """Companions of every replica, in addition to the configured ones."""
    seed: int = 0
    """Seed of random choices if the configuration has none."""
    tick_s: float = 0.0
    """Minimum seconds between ticks of companions."""


class Replica:
    """The real loop with its own feed, client, events and removals, from its start to `stop`."""

    def __init__(self, context: ReplicaContext) -> None:
        config, self.clock = context.config, context.clock
        self.executor = ReplicaExecutor(context.executor)
        self.lease = ReplicaLease()
        self.feed = JournalFeed(context.storage, self.clock)
        ports = ProcessPorts(
            client=context.api.client(self.clock, self.executor.sleep, client_settings(config)),
            feed=self.feed,
            leadership=self.lease,
            clock=self.clock,
            executor=self.executor,
            event_executor=self.executor,
            metrics=context.metrics,
            events=context.events,
            remote=RecordedAnswers(()),
            companion_executor=self.executor,
            companions=context.companions,
            listens=False,
            seed=context.seed,
        )
        wiring = Wiring(config, ports)
        self.writes, self.companion_set, self._trigger = wiring.writes, wiring.companion_set, wiring.trigger
        self._timers = ReplicaExecutor(context.executor)
        self._listener = context.listener
        self.autoscaler = wiring.autoscaler(config, wiring.environment(context.provider, context.listener))
        self._ended: PassReport | None = None
        wiring.start_ticking(self._timers, at_least_s=context.tick_s)

    @property
    def due(self) -> float:
        """Monotonic second of the next pass, as far as known now."""
        return self.clock.now().mono if self._ended is None else self._trigger.due(self._ended)

    def run_pass(self) -> PassReport:
        """Run one pass now. An exception from it is a bug."""
        began = self.clock.now()
        self._trigger.begins()
        self._listener.pass_started(began)
        report = self.autoscaler.run_once(began)
        self._listener.pass_ended(report)
        self._ended = report
        return report

    def leave(self) -> None:
        """Stop in an orderly way, like the daemon: companions and provider clean up first."""
        self._timers.stop()
        self.companion_set.companions.leave()
        self.autoscaler.close()
        self.stop()

    def stop(self) -> None:
        """End all work of this process, even in the middle; nothing is cleaned up."""
        self._timers.stop()
        self.feed.stop()
        self.executor.stop()
