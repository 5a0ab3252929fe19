"""Makes the daemon's provider: a bad configuration is found at once, a cloud that is away is tried again."""

from collections.abc import Callable

from autoscaler.app.build import refuse_unsuitable
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError, RetryLater
from autoscaler.observe.logs import Log
from cloudprovider.catalog import factory
from cloudprovider.interface import CloudProvider, Misconfigured, ProviderContext, ProviderError

log = Log(__name__)


def provider_maker(
    config: Config, context: ProviderContext, given: CloudProvider | None, *, has_remote: bool
) -> Callable[[], CloudProvider]:
    """Return what makes the provider; an unknown name or a bad file is found now. Raises `ConfigError`."""
    if given is not None:
        return lambda: given
    name = config.provider.cloud_provider
    if name is None:
        raise ConfigError("cloud-provider: none is chosen; set --cloud-provider (autoscaler provider list shows them)")
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
