"""Makes the decision loop of a configuration."""

from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.rehearsal import RehearsedCloud
from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.loop import Autoscaler, Source
from autoscaler.objects.pod import PodInterner
from autoscaler.ports import EventSink
from autoscaler.scaleup.expander import problems as expander_problems
from cloudprovider.interface import CloudProvider, Pricing


def build_autoscaler(
    config: Config,
    *,
    source: Source,
    provider: CloudProvider,
    events: EventSink,
    interner: PodInterner,
    now: Instant,
) -> Autoscaler:
    """Make the decision loop; raises `ConfigError` where the configuration does not suit the provider."""
    wrong = tuple(
        expander_problems(config.scale_up.expander, has_prices=isinstance(provider, Pricing), has_remote=False)
    )
    if wrong:
        raise ConfigError(wrong)
    cloud = RehearsedCloud(provider) if config.loop.dry_run else Cloud(provider)
    return Autoscaler(config, source, cloud, events, interner, now)
