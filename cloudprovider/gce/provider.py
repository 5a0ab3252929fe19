"""The provider for Google Compute Engine: scales managed instance groups.

Behaves as Cluster Autoscaler's provider of that name, with these differences. It supports regional groups as well as
zonal ones. It reads the target again before every order. It distinguishes deleted machines from unknown ones. A group
that no longer exists is left out, and does not affect the others.
"""

import random
from collections.abc import Sequence

from cloudprovider.gce.client import Compute
from cloudprovider.gce.fleet import Fleet
from cloudprovider.gce.group import MigGroup
from cloudprovider.gce.pricing import GPU_LABEL, ListPriced
from cloudprovider.gce.reader import Reader
from cloudprovider.gce.refs import GroupRef, Place
from cloudprovider.gce.settings import Limits, Settings
from cloudprovider.interface import NodeRef
from cloudprovider.prices import PriceListed

_GPU_TYPES = (
    "nvidia-tesla-k80",
    "nvidia-tesla-p100",
    "nvidia-tesla-v100",
    "nvidia-tesla-p4",
    "nvidia-tesla-t4",
    "nvidia-tesla-a100",
    "nvidia-a100-80gb",
    "nvidia-l4",
    "nvidia-h100-80gb",
    "nvidia-h100-mega-80gb",
    "nvidia-h200-141gb",
    "nvidia-b200",
)


class GceProvider:
    """A `CloudProvider` with `KnowsInstances` and `Accelerators`."""

    name = "gce"

    def __init__(
        self, client: Compute, settings: Settings, discover_in: Place | None = None, rng: random.Random | None = None
    ) -> None:
        self._client = client
        self._reader = Reader(client, settings, discover_in)
        self._fleet = Fleet()
        self._rng = rng or random.SystemRandom()
        self._groups: dict[tuple[GroupRef, Limits], MigGroup] = {}

    @property
    def gpu_label(self) -> str:
        """The label that GKE and kube-up give to nodes with GPUs."""
        return GPU_LABEL

    def gpu_types(self) -> Sequence[str]:
        """Return Compute Engine's current and former types."""
        return _GPU_TYPES

    def refresh(self, now: float) -> None:
        """Read the sizes and machines of all groups, with a list call for each zone or region and each used group."""
        writes = self._fleet.writes()
        self._fleet.install(self._reader.read(self._fleet.snapshot.groups, now), writes, now)
        meant = [(state.ref, state.limits) for state in self._fleet.snapshot.groups.values()]
        self._groups = {
            key: self._groups.get(key) or MigGroup(*key, self._fleet, self._client, self._rng) for key in meant
        }

    def groups(self) -> Sequence[MigGroup]:
        """The existing named groups in the order of their flags, then the discovered groups by place and name."""
        return tuple(self._groups.values())

    def group_of(self, node: NodeRef) -> str | None:
        """Return the group of a machine that exists or existed within the last hour."""
        snapshot, provider_id = self._fleet.snapshot, node.provider_id or node.name
        ref = snapshot.owners.get(provider_id) or snapshot.departed.get(provider_id, (None,))[0]
        return None if ref is None else ref.id

    def has_instance(self, node: NodeRef) -> bool:
        """Whether a group has the machine."""
        return (node.provider_id or node.name) in self._fleet.snapshot.owners

    def close(self) -> None:
        """Let connections go."""
        self._client.close()


class ListPricedGceProvider(ListPriced, GceProvider):
    """A `GceProvider` that also has `Pricing`, by Google's list prices."""


class PricedGceProvider(PriceListed, GceProvider):
    """A `GceProvider` that also has `Pricing`, by the operator's list."""
