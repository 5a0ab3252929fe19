"""Wires one process: the kinds that it follows, its writes, events, companions and loop.

The daemon and the replicas of a simulation are wired here in the same way. Offline runs follow no API server, and pass
their own `Environment` to `build_autoscaler`.
"""

from collections.abc import Sequence

import msgspec

from autoscaler.actuation.fresh_reads import ClusterReader
from autoscaler.actuation.removal_events import RemovalListener
from autoscaler.app.build import CarriedOver, Environment, build_autoscaler
from autoscaler.app.companion_set import CompanionContext, make_companions
from autoscaler.app.companion_ticker import start_ticking
from autoscaler.app.events import ProcessEvents
from autoscaler.app.loop_trigger import LoopTrigger
from autoscaler.app.reload import FreshHeadroom
from autoscaler.app.watched_cluster import WatchedCluster
from autoscaler.clock import Clock
from autoscaler.config.tree import Config
from autoscaler.kube.client import Client
from autoscaler.kube.dry_run import open_writes
from autoscaler.kube.feed import Feed
from autoscaler.loop.autoscaler import Autoscaler
from autoscaler.loop.companion import Companion
from autoscaler.loop.pass_ports import Advise, no_advice
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.ports import EventSink, Executor, Leadership, Stopwatch
from autoscaler.scaleup.grpc_expander import RemoteExpander
from autoscaler.stopwatch import stopped
from cloudprovider.interface import CloudProvider, TellsNotices


class ProcessPorts(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a process, or their replacements in a simulation."""

    client: Client
    feed: Feed
    leadership: Leadership
    clock: Clock
    executor: Executor
    event_executor: Executor
    """Sends events."""
    metrics: Metrics
    events: EventSink | None = None
    """Receives all events, in addition to the cluster."""
    remote: RemoteExpander | None
    """The client of the grpc expander; needed only if that expander is configured."""
    companion_executor: Executor | None = None
    """Runs the work of companions besides passes and ticks; None means that they create their own threads."""
    companions: Sequence[Companion] = ()
    """Companions in addition to the configured ones."""
    listens: bool = True
    """Whether companions may open ports."""
    advise: Advise = no_advice
    """Finds what would help stuck pods; nothing where nobody reads it."""
    limits: Stopwatch = stopped
    """Measures work with a time limit; it is stopped if the speed of the machine must not affect decisions."""
    seed: int = 0
    """Seed of random choices if the configuration has none."""


class Wiring:
    """The parts of one process. Nothing runs yet."""

    def __init__(self, config: Config, ports: ProcessPorts) -> None:
        """Raises `ConfigError` if a configured companion cannot be created."""
        self._ports = ports
        self._interner = PodInterner()
        self.source = WatchedCluster(ports.feed, self._interner, config)
        self.trigger = LoopTrigger(config.loop, ports.clock)
        self.source.pods.subscribe(self.trigger)
        self.writes = open_writes(
            ports.client, ports.leadership, ports.clock, ports.executor.sleep, dry_run=config.loop.dry_run
        )
        self.events = ProcessEvents(config, self.writes, ports.event_executor, ports.clock, ports.metrics, ports.events)
        self.fresh_headroom = FreshHeadroom()
        context = CompanionContext(
            client=ports.client,
            writes=self.writes,
            events=self.events,
            metrics=ports.metrics,
            clock=ports.clock,
            wake=self.trigger.wake,
            executor=ports.companion_executor,
            listens=ports.listens,
            fresh_headroom=self.fresh_headroom,
        )
        self.companion_set = make_companions(config, context, ports.companions)

    def environment(self, provider: CloudProvider, listener: RemovalListener) -> Environment:
        """Return the outside world as passes use it."""
        ports, keeper = self._ports, self.companion_set.notices
        if keeper is not None and isinstance(provider, TellsNotices):
            keeper.queue = provider.notices()
        return Environment(
            source=self.source,
            provider=provider,
            writes=self.writes,
            fresh=ClusterReader(ports.client, self._interner, self.source.nodes.get, self.source.related),
            events=self.events,
            listener=listener,
            executor=ports.executor,
            clock=ports.clock,
            leadership=ports.leadership,
            companions=self.companion_set.companions,
            advise=ports.advise,
            remote=ports.remote,
            limits=ports.limits,
            seed=ports.seed,
        )

    def autoscaler(self, config: Config, environment: Environment, underway: CarriedOver | None = None) -> Autoscaler:
        """Create the loop; raises `ConfigError` if the configuration does not suit the provider."""
        return build_autoscaler(config, environment, self._interner, underway)

    def start_ticking(self, executor: Executor, *, at_least_s: float = 0.0) -> None:
        """Start the timers of the companions, on threads of this executor."""
        companions, ports = self.companion_set.companions, self._ports
        start_ticking(companions, executor, ports.clock, ports.leadership, at_least_s=at_least_s)


def make_metrics(config: Config) -> Metrics:
    """Create the configured metrics."""
    return Metrics(
        per_node_group=config.observe.emit_per_nodegroup_metrics,
        removal_latency=config.observe.node_removal_latency_tracking_enabled,
        skipped_nodes=config.observe.max_node_skip_eval_time_tracker_enabled,
        wide_duration_buckets=config.rules.wide_duration_buckets,
    )
