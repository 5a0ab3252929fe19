"""The ports through which a pass observes and acts."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.node_removal import NodeRemoval
from autoscaler.actuation.status_writes import Statuses
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.objects.node import Node
from autoscaler.scaleup.grpc_expander import RemoteExpander
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups


class ClusterSource(Protocol):
    """The source of a pass's view of the cluster."""

    def observe(self, read_groups: Callable[[Sequence[Node]], Groups]) -> ClusterView:
        """Return the cluster as it is now; raises `RetryLater` if its state is unknown."""
        ...


class PassPorts(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, the cloud, and the targets of effects and events."""

    source: ClusterSource
    cloud: Cloud
    removal: NodeRemoval
    statuses: Statuses
    events: PassEventWriter
    remote: RemoteExpander | None = None
    """The client of the grpc expander; needed only if that expander is configured."""
