"""Builds the decision loop from a configuration, for the daemon and for offline commands."""

from functools import partial

import msgspec

from autoscaler.actuation.answer_log import AnswerLog
from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.deletion import Deleter, RemovalPorts
from autoscaler.actuation.deletion_tracker import NodeDeletionTracker
from autoscaler.actuation.dry_run import DryRunCloud
from autoscaler.actuation.logging_ports import CLOUD, PRICES, REMOVAL, STATUSES, log_answers
from autoscaler.actuation.machine_deletion import call_s
from autoscaler.actuation.node_removal import DryRunDeleter, NodeRemover
from autoscaler.actuation.recheck import RecheckOptions
from autoscaler.actuation.removal_events import RemovalListener
from autoscaler.actuation.removal_job import FreshReader
from autoscaler.actuation.status_writes import ClusterStatuses
from autoscaler.clock import Clock
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.kube.dry_run import DryRunWrites
from autoscaler.kube.writes import ClusterWrites
from autoscaler.loop.autoscaler import Autoscaler
from autoscaler.loop.companion import Companions
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.pass_memory import PassMemory
from autoscaler.loop.pass_ports import Advise, ClusterSource, PassPorts, no_advice
from autoscaler.loop.pass_time import PassTime
from autoscaler.loop.removal_event_writer import RemovalEventWriter
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.ports import EventSink, Executor, Leadership, Stopwatch
from autoscaler.registry.memory import born
from autoscaler.scaleup.expander import problems as expander_problems
from autoscaler.scaleup.grpc_expander import RemoteExpander
from autoscaler.scaleup.price import Prices, ProviderPrices
from autoscaler.stopwatch import stopped, stopwatch
from autoscaler.tie_break import TieBreakSeed
from cloudprovider.interface import CloudProvider, NodeTemplate, Pricing, ProviderError


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The outside world as a pass uses it: a cluster and a cloud, or their replacements in a simulation."""

    source: ClusterSource
    provider: CloudProvider
    writes: ClusterWrites
    fresh: FreshReader
    events: EventSink
    listener: RemovalListener
    executor: Executor
    clock: Clock
    leadership: Leadership
    companions: Companions = msgspec.field(default_factory=Companions)
    advise: Advise = no_advice
    remote: RemoteExpander | None = None
    """The client of the grpc expander; needed only if that expander is configured."""
    answer_log: AnswerLog = msgspec.field(default_factory=AnswerLog)
    """Records the answers between passes and the outside world; a replay's log returns recorded answers instead."""
    limits: Stopwatch = stopped
    """Measures work with a time limit; it is stopped if the speed of the machine must not affect decisions."""
    seed: int = 0
    """Seed of random choices if the configuration has none."""


class CarriedOver(msgspec.Struct, frozen=True):
    """State that survives a change of the configuration: calls to the cloud, and removals in progress."""

    cloud: Cloud
    tracker: NodeDeletionTracker


def begin(config: Config, environment: Environment) -> CarriedOver:
    """Create the state that survives changes of the configuration; no removal is in progress."""

    def make_prices(pricing: Pricing) -> Prices:
        return log_answers(ProviderPrices(pricing), PRICES, environment.answer_log)

    cloud = (DryRunCloud if config.loop.dry_run else Cloud)(environment.provider, environment.executor, make_prices)
    return CarriedOver(log_answers(cloud, CLOUD, environment.answer_log), NodeDeletionTracker())


def build_autoscaler(
    config: Config, environment: Environment, interner: PodInterner, underway: CarriedOver | None = None
) -> Autoscaler:
    """Create the decision loop; raises `ConfigError` if the configuration does not suit the provider.

    `underway` is the state of the previous loop; None if there was none.
    """
    refuse_unsuitable(config, environment.provider, has_remote=environment.remote is not None)
    event_writer = PassEventWriter(config, environment.events)
    underway = underway or begin(config, environment)
    answer_log = environment.answer_log
    writes = DryRunWrites() if config.loop.dry_run else environment.writes
    ports = PassPorts(
        source=environment.source,
        cloud=underway.cloud,
        removal=log_answers(_remover(config, environment, writes, underway, event_writer), REMOVAL, answer_log),
        statuses=log_answers(ClusterStatuses(writes), STATUSES, answer_log),
        events=event_writer,
        advise=environment.advise,
        remote=environment.remote,
    )
    pass_time = partial(PassTime, stopwatch, environment.limits, answer_log)
    autoscaler = Autoscaler(config, ports, interner, environment.companions, answer_log, pass_time)
    seed = config.scale_up.expander_seed
    tie_break = TieBreakSeed(environment.seed if seed is None else seed)
    autoscaler.memory = PassMemory(registry=born(environment.clock.now()), luck=tie_break)
    return autoscaler


def refuse_unsuitable(config: Config, provider: CloudProvider, *, has_remote: bool) -> None:
    """Raise `ConfigError` if the configuration needs an ability that the provider lacks."""
    groups, unpriced = unpriced_groups(provider)
    priced = isinstance(provider, Pricing) and (not groups or len(unpriced) < groups)
    chosen = config.scale_up.expander
    wrong = tuple(expander_problems(chosen, has_prices=priced, has_remote=has_remote, unpriced=unpriced))
    if wrong:
        raise ConfigError(wrong)


def unpriced_groups(provider: CloudProvider) -> tuple[int, tuple[str, ...]]:
    """Return the number of groups with a known or unknown node price, and the number of those with an unknown one.

    A provider without a first refresh has no groups yet. A group without a template counts in neither number.
    """
    try:
        templates = {group.id: group.template() for group in provider.groups()}
    except ProviderError:
        return 0, ()
    known = {name: template for name, template in templates.items() if template is not None}
    return len(known), tuple(name for name, template in known.items() if not _has_price(provider, template))


def _has_price(provider: CloudProvider, template: NodeTemplate) -> bool:
    try:
        return isinstance(provider, Pricing) and provider.node_price(template, 1.0) >= 0
    except ProviderError:
        return False


def _remover(
    config: Config,
    environment: Environment,
    writes: ClusterWrites,
    underway: CarriedOver,
    event_writer: PassEventWriter,
) -> NodeRemover:
    events = RemovalEventWriter(
        environment.events, environment.listener, event_writer.status if config.observe.write_status_configmap else None
    )
    deleter = DryRunDeleter() if config.loop.dry_run else _deleter(config, environment, writes, underway, events)
    return NodeRemover(deleter, writes, environment.clock, events, config.scale_down, config.drain)


def _deleter(
    config: Config, environment: Environment, writes: ClusterWrites, underway: CarriedOver, events: RemovalEventWriter
) -> Deleter:
    ports = RemovalPorts(
        writes=writes,
        machines=underway.cloud,
        fresh=environment.fresh,
        events=events,
        executor=environment.executor,
        clock=environment.clock,
        leadership=environment.leadership,
        call_s=call_s(config.leader),
    )
    options = RecheckOptions(
        drain=config.drain,
        rules=config.rules,
        notices=config.notices.node_notices,
        expendable_below=config.pods.expendable_pods_priority_cutoff,
    )
    return Deleter(ports, underway.tracker, options)
