"""One process of the autoscaler inside a `World`: the daemon's parts, wired to a storage instead of a network."""

from typing import Protocol

import msgspec

from autoscaler.actuation.fresh_reads import ClusterReader
from autoscaler.actuation.removal_events import RemovalListener
from autoscaler.app.build import Environment, build_autoscaler
from autoscaler.app.companion_set import CompanionContext, make_company
from autoscaler.app.companion_ticker import CompanionTicker
from autoscaler.app.events import recorder_of
from autoscaler.app.loop_trigger import LoopTrigger
from autoscaler.app.watched_cluster import WatchedCluster
from autoscaler.clock import Clock, Instant
from autoscaler.config.tree import Config
from autoscaler.kube.client import ClientSettings
from autoscaler.kube.dry_run import open_writes
from autoscaler.loop.companion import Companion
from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodInterner
from autoscaler.observe.events import CollectedEvents
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.report import PassReport
from autoscaler.ports import EventSink, EventType, Subject
from autoscaler.reasons import RemovedAs
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.journal_feed import JournalFeed
from autoscaler.sandbox.local_api import LocalApi
from autoscaler.simulator.executor import ReplicaExecutor, VirtualExecutor
from autoscaler.simulator.recorded_answers import RecordedAnswers
from cloudprovider.interface import CloudProvider

_SERVING_LEASE_S = 15.0


class PassListener(RemovalListener, Protocol):
    """Hears of passes and of what happens beside them; `observe.publish.Publisher` is one."""

    def begins(self, now: Instant) -> None:
        """Hear that a pass begins."""
        ...

    def passed(self, report: PassReport) -> None:
        """Hear what a pass saw, decided and did."""
        ...


class SilentPassListener:
    """A `PassListener` that does not listen."""

    def begins(self, now: Instant) -> None:
        """Hear that a pass begins."""

    def passed(self, report: PassReport) -> None:
        """Hear what a pass saw, decided and did."""

    def deletions_pending(self, nodes: int) -> None:
        """Hear that removals are about to begin, and how many of earlier ones have not ended."""

    def pod_evicted(self, succeeded: bool) -> None:
        """Hear that the eviction of a pod ended."""

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        """Hear that the cloud deletes a node's machine."""

    def removal_failed(self, why: str) -> None:
        """Hear that a removal that had begun was given up."""


class SkewedClock:
    """The clock of one machine: its wall clock may be wrong, its monotonic one is not."""

    def __init__(self, clock: Clock) -> None:
        self.off_by_s = 0.0
        self._clock = clock

    def now(self) -> Instant:
        """Return the present moment as this machine has it."""
        true = self._clock.now()
        return Instant(true.wall + self.off_by_s, true.mono)


class ReplicaLease:
    """The `ports.Leadership` of a replica whose renewals succeed until the lease is `lost`."""

    lost = False

    def may_write(self, now: Instant, takes_s: float) -> bool:
        """Whether the lease outlasts a call of `takes_s` seconds that starts now."""
        return not self.lost and takes_s < _SERVING_LEASE_S


class ReplicaContext(msgspec.Struct, frozen=True, kw_only=True):
    """What replicas are put into: it stays when one of them ends."""

    config: Config
    storage: Storage
    api: LocalApi
    provider: CloudProvider
    executor: VirtualExecutor
    clock: Clock
    told: CollectedEvents
    metrics: Metrics
    audience: PassListener
    companions: tuple[Companion, ...] = ()
    """Of every replica, beside those that are configured."""
    seed: int = 0
    """Of random choices, where the configuration has none."""
    tick_s: float = 0.0
    """Seconds between ticks of companions, where that is more than they ask for."""


class Replica:
    """The real loop with a feed, a client, events and removals of its own, from its start to `stop`."""

    def __init__(self, setting: ReplicaContext) -> None:
        config, self.clock = setting.config, setting.clock
        self.crew = ReplicaExecutor(setting.executor)
        self.lease = ReplicaLease()
        self.feed = JournalFeed(setting.storage, self.clock)
        interner = PodInterner()
        source = WatchedCluster(self.feed, interner, config)
        self._pace = LoopTrigger(config.loop, self.clock)
        source.pods.subscribe(self._pace)
        kube = config.kube
        settings = ClientSettings(config.provider.user_agent, kube.kube_client_qps, kube.kube_client_burst)
        client = setting.api.client(self.clock, self.crew.sleep, settings)
        self.writes = open_writes(client, self.lease, self.clock, self.crew.sleep, dry_run=config.loop.dry_run)
        events = _ReplicaEvents(setting.told, recorder_of(config, self.writes, self.crew, self.clock, setting.metrics))
        neighbours = CompanionContext(
            client=client,
            writes=self.writes,
            events=events,
            metrics=setting.metrics,
            clock=self.clock,
            wake=self._pace.wake,
            executor=self.crew,
            listens=False,
        )
        self.company = make_company(config, neighbours, setting.companions)
        self._timers = ReplicaExecutor(setting.executor)
        self._audience = setting.audience
        around = Environment(
            source=source,
            provider=setting.provider,
            writes=self.writes,
            fresh=ClusterReader(client, interner, source.nodes.get, source.related),
            events=events,
            listener=setting.audience,
            executor=self.crew,
            clock=self.clock,
            leadership=self.lease,
            remote=RecordedAnswers(()),
            companions=self.company.companions,
            seed=setting.seed,
        )
        self.autoscaler = build_autoscaler(config, around, interner)
        self._rehearses = config.loop.dry_run
        self._began: Instant | None = None
        self._acted = False
        CompanionTicker(
            self.company.companions, self._timers, self.clock, self.lease, at_least_s=setting.tick_s
        ).start()

    @property
    def due(self) -> float:
        """Monotonic second of the next pass, as things are."""
        if self._began is None:
            return self.clock.now().mono
        return self._pace.due(self._began, acted=self._acted)

    def run_pass(self) -> PassReport:
        """Run one pass now. What it raises is a bug."""
        began = self.clock.now()
        self._pace.begins()
        self._audience.begins(began)
        report = self.autoscaler.run_once(began)
        self._audience.passed(report)
        self._began, self._acted = began, report.acted and not self._rehearses
        return report

    def leave(self) -> None:
        """End in good order, as the daemon does when it is told to: companions and provider clean up first."""
        self._timers.stop()
        self.company.companions.leave()
        self.autoscaler.close()
        self.stop()

    def stop(self) -> None:
        """End everything this process does, in the middle of it if need be; nothing is cleaned up."""
        self._timers.stop()
        self.feed.stop()
        self.crew.stop()


class _ReplicaEvents:
    """Sends events to the cluster, where there is one to tell, and keeps a list of them."""

    def __init__(self, kept: CollectedEvents, sent: EventSink | None) -> None:
        self._kept = kept
        self._sent = sent

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        self._kept.event(about, kind, reason, message)
        if self._sent is not None:
            self._sent.event(about, kind, reason, message)
