"""Makes the companions that are configured, and the HTTP routes on which they show themselves."""

import msgspec

from autoscaler.clock import Clock
from autoscaler.config.tree import Config
from autoscaler.kube.client import Client
from autoscaler.kube.writes import ClusterWrites
from autoscaler.loop.companion import Companions
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
    return Company(Companions((), around.metrics.companion_failed))
