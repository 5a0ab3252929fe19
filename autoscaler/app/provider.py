"""Creates the daemon's provider: reports a bad configuration at once, and retries an unreachable cloud."""

from collections.abc import Callable, Mapping

from autoscaler.app.build import refuse_unsuitable
from autoscaler.app.provider_clusters import ProviderClusters
from autoscaler.clock import Clock
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError, RetryLater
from autoscaler.logs import Log
from cloudprovider.catalog import factory
from cloudprovider.interface import (
    CloudProvider,
    GroupSettings,
    Misconfigured,
    ProviderContext,
    ProviderError,
)

log = Log(__name__)


def provider_context(
    config: Config, clock: Clock, clusters: ProviderClusters, environment: Mapping[str, str]
) -> ProviderContext:
    """Return the input of a provider's factory."""
    provider, down = config.provider, config.scale_down
    return ProviderContext(
        config_file=provider.cloud_config,
        node_specs=provider.nodes,
        discovery_specs=provider.node_group_auto_discovery,
        price_file=provider.price_file,
        flags=provider.flags(),
        defaults=GroupSettings(
            scale_down_utilization_threshold=down.scale_down_utilization_threshold,
            scale_down_gpu_utilization_threshold=down.scale_down_gpu_utilization_threshold,
            scale_down_unneeded_time_s=down.scale_down_unneeded_time_s,
            scale_down_unready_time_s=down.scale_down_unready_time_s,
            max_node_provision_time_s=config.health.max_node_provision_time_s,
            max_node_startup_time_s=config.health.max_node_startup_time_s,
            ignore_daemonsets_utilization=down.ignore_daemonsets_utilization,
        ),
        cluster_name=provider.cluster_name or "",
        namespace=config.kube.namespace,
        user_agent=provider.user_agent,
        now=lambda: clock.now().wall,
        node_api=clusters.node_api(),
        object_api=clusters.object_api(),
        connect=clusters.connect,
        environment=environment,
    )


def provider_maker(
    config: Config, context: ProviderContext, given: CloudProvider | None, *, has_remote: bool
) -> Callable[[], CloudProvider]:
    """Return the function that creates the provider. Raises `ConfigError` for an unknown name or a bad file."""
    if given is not None:
        return lambda: given
    name = config.provider.cloud_provider or ""
    try:
        made = factory(name)
        first: list[CloudProvider] = [made(context)]
    except Misconfigured as error:
        raise ConfigError(str(error).splitlines()) from error
    except ProviderError as error:
        log.error("provider.unavailable", error=str(error), next="trying again")
        first = []
    for provider in first:
        refuse_unsuitable(config, provider, has_remote=has_remote)

    def make() -> CloudProvider:
        if first:
            return first.pop()
        try:
            return made(context)
        except Misconfigured as error:
            raise ConfigError(str(error).splitlines()) from error
        except ProviderError as error:
            raise RetryLater(f"provider {name}: {error}") from error

    return make
