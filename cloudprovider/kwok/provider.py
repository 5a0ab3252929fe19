"""The kwok provider: scales groups of fake nodes that a kwok controller keeps Ready.

Behaves as Cluster Autoscaler's provider of that name, with these differences. A group's id is the plain value of the
label or annotation. The first refresh makes the nodes that a template asks for (its desired count, and one for each
further node of the ConfigMap) where the group has none; where it has some, as after a restart, their number is the
target size. Every node has a host name label of its own. Only the replica that refreshed, which is the leader,
deletes the nodes on a clean exit.
"""

import random
from collections.abc import Sequence

from cloudprovider.interface import (
    Misconfigured,
    NodeApi,
    NodeRef,
    ProviderContext,
    ProviderError,
    Transient,
)
from cloudprovider.kwok.config import GROUP_ANNOTATION, KwokConfig, KwokGroupSpec, read_config, read_groups
from cloudprovider.kwok.config import MANAGED_ANNOTATION as _MANAGED
from cloudprovider.kwok.config import MANAGED_VALUE as _FAKE
from cloudprovider.kwok.group import KwokGroup
from cloudprovider.kwok.roster import Roster, name_of
from cloudprovider.prices import PriceListed, Prices, read_price_file

_CONFIG_MAP_VARIABLE = "KWOK_PROVIDER_CONFIGMAP"
_NAMESPACE_VARIABLE = "POD_NAMESPACE"
_CONFIG_MAP = "kwok-provider-config"


class KwokProvider:
    """A `CloudProvider` with `KnowsInstances`. Errors of the object API pass through as they are."""

    name = "kwok"

    def __init__(self, groups: Sequence[KwokGroupSpec], api: NodeApi, rng: random.Random | None = None) -> None:
        self._roster = Roster(api, [group.id for group in groups])
        chance = rng or random.Random()
        self._groups = {group.id: KwokGroup(group, self._roster, chance) for group in groups}
        self._still_to_make: dict[str, int] | None = None

    def refresh(self, now: float) -> None:
        """List the fake nodes; the first time, make those that the templates ask for."""
        self._roster.refresh()
        if self._still_to_make is None:
            self._still_to_make = {
                group.id: group.initial_size for group in self._groups.values() if group.target_size() == 0
            }
        # An entry goes when its nodes are made, so that a refresh which failed half-way is made good by the next.
        for group_id, wanted in list(self._still_to_make.items()):
            group = self._groups[group_id]
            if wanted > group.target_size():
                group.increase(wanted - group.target_size())
            del self._still_to_make[group_id]

    def groups(self) -> Sequence[KwokGroup]:
        """All groups, in the order of their templates."""
        return tuple(self._groups.values())

    def group_of(self, node: NodeRef) -> str | None:
        """Return the group of a fake node: a known one, else one that says so in its annotations."""
        if name_of(node) is None:
            return None
        owner = self._roster.owner(node)
        if owner is None and node.annotations.get(_MANAGED) == _FAKE:
            owner = node.annotations.get(GROUP_ANNOTATION)
        return owner if owner in self._groups else None

    def has_instance(self, node: NodeRef) -> bool:
        """Whether a fake node's object exists; nodes that are not fake are none of this provider's business."""
        return name_of(node) is None or self._roster.owner(node) is not None

    def close(self) -> None:
        """Delete the fake nodes known since the last refresh; `Transient` names those that could not be deleted."""
        failed: list[str] = []
        for group in self._groups.values():
            for name in self._roster.live(group.id):
                try:
                    self._roster.api.delete_node(name)
                except ProviderError as error:
                    failed.append(f"{name}: {error}")
                else:
                    self._roster.deleted(name)
        if failed:
            raise Transient(f"{len(failed)} fake nodes are left: {'; '.join(failed)}")


class KwokGpuProvider(KwokProvider):
    """A `KwokProvider` that also has `Accelerators`: its configuration names a GPU label."""

    def __init__(
        self,
        groups: Sequence[KwokGroupSpec],
        api: NodeApi,
        gpu_label: str,
        gpu_types: Sequence[str],
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(groups, api, rng)
        self._gpu_label = gpu_label
        self._gpu_types = tuple(gpu_types)

    @property
    def gpu_label(self) -> str:
        """The configured label."""
        return self._gpu_label

    def gpu_types(self) -> Sequence[str]:
        """Return the configured types."""
        return self._gpu_types


class PricedKwokProvider(PriceListed, KwokProvider):
    """A `KwokProvider` that also has `Pricing`."""


class PricedKwokGpuProvider(PriceListed, KwokGpuProvider):
    """A `KwokGpuProvider` that also has `Pricing`."""


def create(context: ProviderContext) -> KwokProvider | PricedKwokProvider | KwokGpuProvider | PricedKwokGpuProvider:
    """Read the ConfigMaps and form the groups. Changes nothing in the cluster until the first refresh.

    `KWOK_PROVIDER_CONFIGMAP` names the configuration (`kwok-provider-config` by default) and `POD_NAMESPACE` its
    namespace. Discovery and size flags are ignored, as by the original. Raises `Misconfigured`.
    """
    api = context.node_api
    if api is None:
        raise Misconfigured("cloud-provider: kwok needs access to a cluster, where its nodes live")
    namespace = context.environment.get(_NAMESPACE_VARIABLE) or context.namespace
    name = context.environment.get(_CONFIG_MAP_VARIABLE) or _CONFIG_MAP
    config = read_config(api, namespace, name)
    prices = None if context.price_file is None else read_price_file(context.price_file)
    return _provider(config, read_groups(api, namespace, config), api, prices)


def _provider(config: KwokConfig, groups: Sequence[KwokGroupSpec], api: NodeApi, prices: Prices | None) -> KwokProvider:
    if config.gpu_label is None:
        return KwokProvider(groups, api) if prices is None else PricedKwokProvider(groups, api).priced_by(prices)
    if prices is None:
        return KwokGpuProvider(groups, api, config.gpu_label, config.gpu_types)
    return PricedKwokGpuProvider(groups, api, config.gpu_label, config.gpu_types).priced_by(prices)
