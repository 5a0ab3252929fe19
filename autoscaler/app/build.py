"""Makes the decision loop of a configuration: the same for the daemon and for every offline run."""

from functools import partial

import msgspec

from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.commit import call_s
from autoscaler.actuation.deletion import Deleter, Site
from autoscaler.actuation.job import FreshReader
from autoscaler.actuation.news import Listener, News
from autoscaler.actuation.remover import NodeRemoval, NodeRemover, RehearsedRemoval
from autoscaler.actuation.statuses import ClusterStatuses, RehearsedStatuses
from autoscaler.actuation.tape import Tape
from autoscaler.actuation.taped import TapedCloud, TapedRehearsal, TapedRemoval, TapedStatuses
from autoscaler.actuation.tracker import Tracker
from autoscaler.clock import Clock
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.kube.writes import ClusterWrites
from autoscaler.loop.autoscaler import Autoscaler
from autoscaler.loop.buffering import Buffering
from autoscaler.loop.companion import Companions
from autoscaler.loop.herald import Herald
from autoscaler.loop.observing import Observing, Source
from autoscaler.loop.pass_time import PassTime
from autoscaler.loop.passing import Remembered
from autoscaler.loop.provisioning import Provisioning
from autoscaler.luck import Luck
from autoscaler.objects.pod import PodInterner
from autoscaler.ports import EventSink, Executor, Leadership, Stopwatch
from autoscaler.registry.memory import born
from autoscaler.scaleup.consulting import RemoteExpander
from autoscaler.scaleup.expander import problems as expander_problems
from autoscaler.stopwatch import stopped, stopwatch
from cloudprovider.interface import CloudProvider, NodeTemplate, Pricing, ProviderError


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything outside that passes see and touch: a cluster and a cloud, or what stands for them."""

    source: Source
    provider: CloudProvider
    writes: ClusterWrites
    fresh: FreshReader
    events: EventSink
    listener: Listener
    executor: Executor
    clock: Clock
    leadership: Leadership
    companions: Companions = msgspec.field(default_factory=Companions)
    remote: RemoteExpander | None = None
    """Whom the grpc expander asks; needed only where it is chosen."""
    tape: Tape = msgspec.field(default_factory=Tape)
    """Between passes and the world; that of a replay answers in its place."""
    limits: Stopwatch = stopped
    """Measures work whose time is limited; stopped where the speed of the machine may decide nothing."""
    seed: int = 0
    """Of random choices, where the configuration has none."""


class Underway(msgspec.Struct, frozen=True):
    """What goes on through a change of the configuration: calls to the cloud, and removals that have begun."""

    cloud: Cloud
    tracker: Tracker


def begin(config: Config, around: Surroundings) -> Underway:
    """Make what outlives changes of the configuration; nothing is under way."""
    make = TapedRehearsal if config.loop.dry_run else TapedCloud
    cloud = make(around.provider, around.executor, around.tape)
    return Underway(cloud, Tracker())


def build_autoscaler(
    config: Config, around: Surroundings, interner: PodInterner, underway: Underway | None = None
) -> Autoscaler:
    """Make the decision loop; raises `ConfigError` where the configuration does not suit the provider.

    `underway` is that of the loop whose place this one takes; None: there was none.
    """
    refuse_unsuitable(config, around.provider, has_remote=around.remote is not None)
    herald = Herald(config, around.events)
    underway = underway or begin(config, around)
    cloud, tape, dry = underway.cloud, around.tape, config.loop.dry_run
    removal = TapedRemoval(RehearsedRemoval() if dry else _remover(config, around, underway, herald), tape)
    observing = Observing(config, around.source, cloud, removal, interner, herald)
    statuses = TapedStatuses(RehearsedStatuses() if dry else ClusterStatuses(around.writes), tape)
    provisioning = Provisioning(config, statuses, herald, interner)
    buffering = Buffering(config, statuses, interner)
    autoscaler = Autoscaler(
        config,
        observing,
        cloud,
        removal,
        provisioning,
        buffering,
        herald,
        around.companions,
        around.remote,
        tape,
        partial(PassTime, stopwatch, around.limits, tape),
    )
    seed = config.scale_up.expander_seed
    luck = Luck(around.seed if seed is None else seed)
    autoscaler.remembered = Remembered(registry=born(around.clock.now()), luck=luck)
    return autoscaler


def refuse_unsuitable(config: Config, provider: CloudProvider, *, has_remote: bool) -> None:
    """Raise `ConfigError` where the configuration asks for what the provider cannot do."""
    groups, unpriced = unpriced_groups(provider)
    priced = isinstance(provider, Pricing) and (not groups or len(unpriced) < groups)
    chosen = config.scale_up.expander
    wrong = tuple(expander_problems(chosen, has_prices=priced, has_remote=has_remote, unpriced=unpriced))
    if wrong:
        raise ConfigError(wrong)


def unpriced_groups(provider: CloudProvider) -> tuple[int, tuple[str, ...]]:
    """Return how many groups there are of which it can be told what a node costs or that it cannot, and the latter.

    A provider that has to be refreshed first has no groups yet; of one without a template nothing can be told.
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


def _remover(config: Config, around: Surroundings, underway: Underway, herald: Herald) -> NodeRemoval:
    news = News(around.events, around.listener, herald.status if config.observe.write_status_configmap else None)
    site = Site(
        writes=around.writes,
        machines=underway.cloud,
        fresh=around.fresh,
        news=news,
        executor=around.executor,
        clock=around.clock,
        leadership=around.leadership,
        call_s=call_s(config.leader),
    )
    expendable_below = config.pods.expendable_pods_priority_cutoff
    deleter = Deleter(site, underway.tracker, config.drain, config.rules, expendable_below)
    return NodeRemover(deleter, around.writes, around.clock, news, config.scale_down, config.drain)
