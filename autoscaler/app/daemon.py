"""The daemon: serves HTTP, competes for the lease, follows the cluster, and runs passes until it has to stop.

Threads: the caller's thread decides. Each watch has a thread that only decodes and stores. The election, the events,
and each companion with a timer have one thread each. HTTP threads read published values. The daemon always ends in this
order: it accepts no more work, ends passes and ticks, cleans up companions and provider, writes events, and releases
the lease.
"""

import gc
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial

from autoscaler.actuation.status_map import ClusterStatusMap
from autoscaler.app.build import begin
from autoscaler.app.provider import provider_context, provider_maker
from autoscaler.app.provider_clusters import ProviderClusters, client_settings
from autoscaler.app.reload import ConfigReloader
from autoscaler.app.watch_monitor import WatchMonitor
from autoscaler.app.watchdog import NoWatchdog
from autoscaler.app.wiring import ProcessPorts, Wiring, make_metrics
from autoscaler.clock import Clock, Instant, ThreadExecutor
from autoscaler.config.flags import without_effect
from autoscaler.config.tree import Config
from autoscaler.current_step import begin_step
from autoscaler.errors import ErrorType, RetryLater
from autoscaler.explain.advisor import PodAdvisor
from autoscaler.explain.api import explain_routes
from autoscaler.explain.service import ExplainService
from autoscaler.kube.client import Client
from autoscaler.kube.election import LeaderElection, Unopposed, own_identity
from autoscaler.kube.feed import ClusterFeed
from autoscaler.kube.lease import LeaseState, LeaseTimings
from autoscaler.kube.lease_writes import LeaseWrites
from autoscaler.logs import Log
from autoscaler.loop.autoscaler import Autoscaler
from autoscaler.loop.event_writer import status_object
from autoscaler.observe.api.api import read_routes
from autoscaler.observe.http.health import HealthCheck, limits_of
from autoscaler.observe.http.openapi import about_daemon, with_document
from autoscaler.observe.http.server import WebServer
from autoscaler.observe.publish import Publisher
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.observe.status import ProcessStatus
from autoscaler.observe.status_board import StatusBoard
from autoscaler.ports import Leadership
from autoscaler.remote.connect import connect
from autoscaler.stopwatch import stopwatch
from autoscaler.version import version
from cloudprovider.interface import CloudProvider, ProviderContext

log = Log(__name__)

_LISTEN_S = 1.0
"""Seconds between two checks of the main thread while it waits for something other than the next pass."""
_PATIENCE_S = 10.0
"""Seconds between two messages that the daemon waits for the API server."""
_MOST_THREADS = 64
"""Maximum number of threads; each starts when it is needed."""


class Daemon:
    """One replica. `run` blocks; `stop` may be called from a signal handler or another thread."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        environment: Mapping[str, str],
        read: Callable[[], Config] | None = None,
        watchdog: NoWatchdog | None = None,
    ) -> None:
        """Raises `ConfigError` for every problem that is visible without network access.

        `read` reads the configuration again; with None, it never changes. `watchdog` ends the process if it is stuck.
        """
        self._config = config
        self._remote = connect(config)
        self._clock = clock
        self._environment = environment
        self._watchdog = watchdog or NoWatchdog()
        self._stopping = threading.Event()
        self._lost = False
        self._executor = ThreadExecutor(_MOST_THREADS)
        self._event_executor = ThreadExecutor(1)
        kube, sleep = config.kube, self._executor.sleep
        self._client = Client.connect(
            kube.kubeconfig, kube.kubernetes, clock=clock, sleep=sleep, settings=client_settings(config)
        )
        self._identity = own_identity()
        self._election = None if self._unopposed else self._make_election()
        self._leadership: Leadership = self._election or Unopposed()
        self._clusters = ProviderClusters(config, self._client, self._leadership, clock, sleep)
        self._feed = ClusterFeed(self._client, clock, max_silence_s=kube.max_watch_silence_s)
        self._metrics = make_metrics(config)
        self._wiring = Wiring(config, self._ports())
        self._trigger, self._events = self._wiring.trigger, self._wiring.events
        self._companion_set = self._wiring.companion_set
        self._timers = ThreadExecutor(max(1, len(self._companion_set.companions.members)))
        self._reloading = ConfigReloader(config, read, self._metrics, self._events, status_object(config))
        self._watch_monitor = WatchMonitor(self._feed, self._client)
        limits = limits_of(config.loop, config.rules.startup_health_limit, kube.max_watch_silence_s)
        self._health = HealthCheck(limits, clock.now(), self._watch_monitor.api_server)
        self._board = StatusBoard(self._process())
        self._publisher = self._make_publisher()
        self._explanations = ExplainService(self._board, clock, self._trigger.interrupt, sleep)
        routes = {
            **read_routes(self._board, self._metrics, self._health, clock, self._companion_set.sections),
            **explain_routes(self._board, self._explanations.ask),
            **self._companion_set.routes,
        }
        described = with_document(routes, about_daemon(version()))
        self._web = WebServer(config.observe.address, described, clock)

    def _ports(self) -> ProcessPorts:
        return ProcessPorts(
            client=self._client,
            feed=self._feed,
            leadership=self._leadership,
            clock=self._clock,
            executor=self._executor,
            event_executor=self._event_executor,
            metrics=self._metrics,
            remote=self._remote,
            advise=PodAdvisor(self._clock),
            limits=stopwatch,
            seed=secrets.randbits(63),
        )

    def _make_publisher(self) -> Publisher:
        config, events = self._config, self._events
        status_map = ClusterStatusMap(
            self._wiring.writes, config.kube.namespace, config.observe.status_config_map_name, events.identified
        )
        expected = self._companion_set.expected
        return Publisher(config, self._board, self._metrics, self._health, events.tail, status_map, expected)

    @property
    def _unopposed(self) -> bool:
        return self._config.loop.dry_run or not self._config.leader.leader_elect

    @property
    def port(self) -> int:
        """The port of the HTTP server; known after `run` has started."""
        return self._web.port

    @property
    def leading(self) -> bool:
        """Whether this replica may act."""
        return self._election is None or self._election.is_leading

    def stop(self) -> None:
        """Ask `run` to end in an orderly way."""
        self._watchdog.stopping()
        self._stopping.set()
        self._trigger.stop()

    def reload(self) -> None:
        """Reload the configuration before the next pass; callable from any thread or signal handler, like `stop`."""
        self._reloading.ask()
        self._trigger.wake()

    def run(self, provider: CloudProvider | None = None) -> int:
        """Work until `stop`; return the exit status, which is 1 if leadership was lost.

        `provider` replaces the configured one. Raises `ConfigError` if the provider reports a bad configuration.
        """
        _tune_interpreter()
        make = provider_maker(self._config, self._context(), provider, has_remote=self._remote is not None)
        self._watchdog.start()
        self._log_start()
        self._web.start()
        try:
            self._companion_set.start()
            if self._election is not None:
                self._election.start()
            self._feed.start()
            if self._wait_for_lease() and self._wait_for_sync():
                self._run_passes(make)
        finally:
            self._shut_down()
        return 1 if self._lost else 0

    def _log_start(self) -> None:
        log.info("daemon.started", version=version(), server=self._client.server, address=self._config.observe.address)
        if ignored := without_effect(self._config):
            log.warning("config.flags_without_effect", flags=", ".join(ignored))
        for warning in self._config.scheduler.warnings:
            log.warning("config.scheduler_profile", problem=warning)

    def _wait_for_lease(self) -> bool:
        """Wait until this replica leads; return False if the daemon has to stop."""
        if self._election is None:
            self._health.start_monitoring(self._clock.now())
            return not self._stopping.is_set()
        silent = False
        while not self._stopping.is_set():
            if self._election.wait_leading(_LISTEN_S):
                break
            if (error := self._election.last_error) is None:
                self._health.on_standby(self._clock.now())
                silent = False
            elif not silent:
                log.error("kube.unreachable", server=self._client.server, error=error, next="trying again")
                self._health.start_monitoring(self._clock.now())
                silent = True
            self._board.process_changed(self._process())
        self._board.process_changed(self._process())
        self._metrics.leading(self._config.leader.leader_elect_resource_name, self.leading)
        if self.leading:
            self._events.on_lease(f"{self._identity} became leader")
        self._health.start_monitoring(self._clock.now())
        return not self._stopping.is_set()

    def _wait_for_sync(self) -> bool:
        """Wait until every kind has been listed; return False if the daemon has to stop."""
        began = self._clock.now()
        while not self._stopping.is_set():
            late = self._feed.wait_synced(_LISTEN_S)
            if not late:
                log.info("kube.synced", seconds=round(self._clock.now().mono - began.mono, 2))
                gc.freeze()
                return True
            if int(self._clock.now().mono - began.mono) % int(_PATIENCE_S) == 0:
                path, why = next(iter(late.items()))
                log.warning("kube.not_synced", kinds=len(late), path=path, error=why)
        return False

    def _run_passes(self, make: Callable[[], CloudProvider]) -> None:
        made = self._make_autoscaler(make)
        if made is None:
            return
        autoscaler, rebuild = made
        self._publisher.start(self._clock.now())
        self._wiring.start_ticking(self._timers)
        while not self._stopping.is_set():
            with self._watchdog.busy():
                autoscaler = self._reloaded(autoscaler, rebuild)
                report = self._run_pass(autoscaler, self._clock.now())
            if not self._trigger.wait(report, meanwhile=self._explain):
                break
        self._companion_set.close()
        self._timers.stop()
        if not self._lost:
            self._companion_set.companions.leave()
            self._clean_up(autoscaler)

    def _reloaded(self, autoscaler: Autoscaler, rebuild: Callable[[Config], Autoscaler]) -> Autoscaler:
        """Return the loop to continue with. After a change of the files, it is a new loop with the same memory."""
        current = [autoscaler]

        def accept(config: Config) -> None:
            fresh = rebuild(config)
            fresh.memory = autoscaler.memory
            current.append(fresh)
            self._trigger.configure(config.loop)
            self._publisher.configure(config)
            if config.headroom != self._reloading.config.headroom:
                self._wiring.fresh_headroom.put(config.headroom)

        self._reloading.look(accept)
        return current[-1]

    def _run_pass(self, autoscaler: Autoscaler, began: Instant) -> PassReport:
        """Run one pass and publish it. A bug must not end the process: the next pass observes everything again."""
        self._publisher.pass_started(began)
        try:
            state = autoscaler.examine(began)
            self._explanations.passed(state)
            report = state.report
        except Exception as error:  # noqa: BLE001  # the top of the loop; the log has the stack
            log.crashed("pass.crashed")
            self._explanations.passed(None)
            report = PassReport(now=began, end=PassEnd.FAILED, error=str(error), error_type=ErrorType.INTERNAL)
        begin_step("publish")
        self._publisher.pass_ended(report)
        self._watch_monitor.publish(self._metrics, self._board, began)
        return report

    def _explain(self) -> None:
        """Answer a waiting question about the last pass, if there is one."""
        if self._explanations.is_asked:
            with self._watchdog.busy():
                begin_step("explain")
                self._explanations.answer()

    def _clean_up(self, autoscaler: Autoscaler) -> None:
        try:
            autoscaler.close()
        except RetryLater as error:
            log.error("provider.not_cleaned_up", error=str(error))
        self._publisher.stop()

    def _make_autoscaler(
        self, make: Callable[[], CloudProvider]
    ) -> tuple[Autoscaler, Callable[[Config], Autoscaler]] | None:
        """Create provider and loop, and the function that creates the loop again; None if the daemon has to stop.

        Retries while the cloud does not answer.
        """
        while not self._stopping.is_set():
            try:
                begin_step("make the provider")
                with self._watchdog.busy():
                    environment = self._wiring.environment(make(), self._publisher)
                underway = begin(self._config, environment)
                build = partial(self._wiring.autoscaler, environment=environment, underway=underway)
                return build(self._config), build
            except RetryLater as error:
                log.error("provider.unavailable", error=str(error), next="trying again")
                self._stopping.wait(_PATIENCE_S)
        return None

    def _shut_down(self) -> None:
        self._watchdog.stopping()
        begin_step("come to an end")
        self._explanations.passed(None)
        self._companion_set.close()
        self._timers.stop()
        if self._election is not None and self.leading:
            self._events.on_lease(f"{self._identity} stopped leading")
        self._events.stop()
        self._event_executor.stop()
        self._feed.stop()
        if self._election is not None:
            self._election.stop()
        self._executor.stop()
        self._web.stop()
        self._client.close()
        self._clusters.close()
        if self._remote is not None:
            self._remote.close()
        log.info("daemon.stopped", lost_leadership=self._lost)

    def _make_election(self) -> LeaderElection:
        leader = self._config.leader
        timings = LeaseTimings(
            leader.leader_elect_lease_duration_s,
            leader.leader_elect_renew_deadline_s,
            leader.leader_elect_retry_period_s,
        )
        state = LeaseState(self._identity, timings, self._config.kube.namespace, leader.leader_elect_resource_name)
        return LeaderElection(state, LeaseWrites(self._client), self._clock, self._on_lost)

    def _on_lost(self) -> None:
        self._lost = True
        self.stop()

    def _process(self) -> ProcessStatus:
        holder = None if self._election is None else self._election.holder
        return ProcessStatus(
            identity=self._identity,
            version=version(),
            started_at=self._clock.now().wall,
            leading=self.leading,
            leader=self._identity if self.leading else holder,
            compatibility=self._config.source.compatibility,
            dry_run=self._config.loop.dry_run,
            currency=self._config.observe.price_currency,
        )

    def _context(self) -> ProviderContext:
        return provider_context(self._config, self._clock, self._clusters, self._environment)


def _tune_interpreter() -> None:
    """Exclude permanent objects from garbage collection, and let watch threads run soon."""
    gc.set_threshold(100_000, 50, 50)
    sys.setswitchinterval(0.001)
