"""Makes the provider from the engine's context."""

from cloudprovider.gce.client import Compute, RestCompute
from cloudprovider.gce.faults import PERMISSIONS
from cloudprovider.gce.google import GoogleTransport, SystemWaiting, default_credentials, read_metadata
from cloudprovider.gce.provider import ListPricedGceProvider, PricedGceProvider
from cloudprovider.gce.reader import Reader
from cloudprovider.gce.refs import Place, last_part, region_of
from cloudprovider.gce.settings import Settings, read_settings
from cloudprovider.interface import Misconfigured, NotFound, ProviderContext, ProviderError
from cloudprovider.prices import read_price_file


def create(context: ProviderContext) -> ListPricedGceProvider | PricedGceProvider:
    """Find credentials and groups. Raises `Misconfigured` with a line for every problem, and the cloud's errors."""
    settings = read_settings(context)
    prices = None if context.price_file is None else read_price_file(context.price_file)
    credentials, project = default_credentials()
    place = _discovery_place(settings, project, context)
    transport = GoogleTransport(credentials, context.user_agent, settings.threads)
    client = RestCompute(transport, SystemWaiting(), settings.cloud.endpoint)
    check(client, settings, place, context.now())
    if prices is None:
        return ListPricedGceProvider(client, settings, place)
    return PricedGceProvider(client, settings, place).priced_by(prices)


def check(client: Compute, settings: Settings, discover_in: Place | None, now: float) -> None:
    """Check that the named groups exist and that we may scale them; raises `Misconfigured`."""
    try:
        meant = Reader(client, settings, discover_in).meant(now)
    except NotFound as error:
        raise Misconfigured(f"nodes: a project, zone or region does not exist: {error}") from error
    except ProviderError as error:
        if error.code == PERMISSIONS:
            raise Misconfigured(f"cloud-provider: gce may not list managed instance groups: {error}") from error
        raise
    there = {manager.ref: manager for manager, _ in meant}
    problems = [
        f"nodes: {ref.id}: {there[ref].rival if ref in there else 'there is no such managed instance group'}"
        for ref in settings.groups
        if ref not in there or there[ref].rival
    ]
    if problems:
        raise Misconfigured("\n".join(problems))


def _discovery_place(settings: Settings, project: str | None, context: ProviderContext) -> Place | None:
    """Return where to look for groups: the place in the cloud configuration, else where this process runs."""
    if not settings.discoveries:
        return None
    try:
        project = settings.cloud.project or project or read_metadata(context.environment, "project/project-id")
        zone = settings.cloud.zone or last_part(read_metadata(context.environment, "instance/zone"))
    except ProviderError as error:
        raise Misconfigured(
            "cloud-config: project-id and local-zone are needed to look for groups, because this does not run on"
            f" Compute Engine: {error}"
        ) from error
    return discovery_place(project, zone, regional=settings.regional)


def discovery_place(project: str, zone: str, *, regional: bool) -> Place:
    """Return the zone, or with `regional` its region. A region may also be named directly."""
    if not regional:
        return Place(project, zone)
    is_zone = zone.count("-") > 1
    return Place(project, region_of(zone) if is_zone else zone, regional=True)
