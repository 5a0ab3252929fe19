"""Makes the companions that are configured, and the HTTP routes on which they show themselves."""

import msgspec

from autoscaler.actuation.headroom import ClusterHeadroom, RehearsedHeadroom
from autoscaler.app.reload import HeadroomFile
from autoscaler.clock import Clock
from autoscaler.config.headroom import Headroom
from autoscaler.config.tree import Config
from autoscaler.kube.client import Client
from autoscaler.kube.writes import ClusterWrites
from autoscaler.loop.companion import Companions
from autoscaler.loop.headroom import HeadroomKeeper
from autoscaler.observe.headroom_metrics import HEADROOM, HeadroomMetrics
from autoscaler.observe.headroom_status import headroom_routes
from autoscaler.observe.metrics import Metrics
from autoscaler.observe.web import Routes
from autoscaler.ports import EventSink


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """What companions may use of the daemon."""

    client: Client
    """For reading; writes go through `writes`, which ask for leadership."""
    writes: ClusterWrites
    events: EventSink
    metrics: Metrics
    clock: Clock


class Company(msgspec.Struct, frozen=True):
    """The companions of a process."""

    companions: Companions
    routes: Routes = {}
    """Read-only routes that they add; of every replica, leading or not."""


def make_company(config: Config, around: Neighbours) -> Company:
    """Make the companions whose section of the configuration is there; usually none."""
    if config.headroom is None:
        return Company(Companions((), around.metrics.companion_failed))
    keeper = _headroom(config, config.headroom, around)
    return Company(Companions((keeper,), around.metrics.companion_failed), headroom_routes(lambda: keeper.status))


def _headroom(config: Config, headroom: Headroom, around: Neighbours) -> HeadroomKeeper:
    cutoff = config.pods.expendable_pods_priority_cutoff
    objects = RehearsedHeadroom if config.loop.dry_run else ClusterHeadroom
    file = None if config.source.config is None else HeadroomFile(config.source.config, cutoff)
    return HeadroomKeeper(
        headroom,
        objects(around.client, around.writes),
        around.events,
        HeadroomMetrics(around.metrics.companion(HEADROOM)),
        around.clock,
        cutoff,
        changed=(lambda: None) if file is None else file.changed,
    )
