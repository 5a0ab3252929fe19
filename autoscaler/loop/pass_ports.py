"""The ports through which a pass observes and acts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.node_removal import NodeRemover
from autoscaler.actuation.status_writes import ClusterStatuses
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodClass
from autoscaler.observe.status import Advice
from autoscaler.scaleup.grpc_expander import RemoteExpander
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups


class ClusterSource(Protocol):
    """The source of a pass's view of the cluster."""

    def observe(self, read_groups: Callable[[Sequence[Node]], Groups]) -> ClusterView:
        """Return the cluster as it is now; raises `RetryLater` if its state is unknown."""
        ...


Advise = Callable[[EndedPass], Mapping[PodClass, Advice]]
"""Returns cause and fix for the pods that a pass leaves stuck, by class, as far as it knows them."""


def no_advice(_: EndedPass) -> Mapping[PodClass, Advice]:
    """Know nothing."""
    return {}


class PassPorts(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, the cloud, and the targets of effects and events."""

    source: ClusterSource
    cloud: Cloud
    removal: NodeRemover
    statuses: ClusterStatuses
    events: PassEventWriter
    advise: Advise = no_advice
    remote: RemoteExpander | None = None
    """The client of the grpc expander; needed only if that expander is configured."""
