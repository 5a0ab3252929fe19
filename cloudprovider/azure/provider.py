"""The azure provider: scales virtual machine scale sets of one resource group.

Behaves as Cluster Autoscaler's provider of that name; `docs/providers/azure.md` has what differs.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from cloudprovider.azure import ids
from cloudprovider.azure.arm import Arm, TokenSource
from cloudprovider.azure.compute import Compute
from cloudprovider.azure.credentials import tokens_for
from cloudprovider.azure.discovery import Selector, read_selector, sized_by_tags
from cloudprovider.azure.fleet import Fleet
from cloudprovider.azure.group import ScaleSetGroup
from cloudprovider.azure.http import HttpTransport, Transport
from cloudprovider.azure.ids import Owner
from cloudprovider.azure.resources import ScaleSet
from cloudprovider.azure.settings import Settings, read_settings
from cloudprovider.azure.sizes import Sizes
from cloudprovider.azure.template import GPU_LABEL, Templates
from cloudprovider.interface import Misconfigured, NodeRef, ProviderContext, ProviderError, Throttled, Transient
from cloudprovider.prices import PriceListed, read_price_file
from cloudprovider.problems import Problems
from cloudprovider.sizes import SizedName, read_sizes

_log = logging.getLogger(__name__)

Connect = Callable[[Settings, ProviderContext], tuple[Transport, TokenSource]]
_GPU_TYPES = ("nvidia", "nvidia-tesla-a100", "nvidia-tesla-k80", "nvidia-tesla-p100", "nvidia-tesla-v100")


class AzureProvider:
    """A `CloudProvider` with `KnowsInstances` and `Accelerators`."""

    name = "azure"

    def __init__(self, fleet: Fleet, settings: Settings, named: Sequence[SizedName], selector: Selector | None) -> None:
        self._fleet = fleet
        self._settings = settings
        self._named = {size.name: size for size in named}
        self._selector = selector
        self._sizes = Sizes(fleet.compute)
        self._templates = Templates(self._sizes, settings.predict_labels)
        self._groups: Mapping[str, ScaleSetGroup] = {}
        self._by_owner: Mapping[Owner, str] = {}
        self._ignored: Mapping[str, str] = {}
        self._sized: Mapping[str, SizedName] = {}

    def refresh(self, now: float) -> None:
        """Update the scale sets. Makes no calls while the answers are fresh and nothing is changing."""
        self._fleet.refresh(now, self._choose)
        held = self._fleet.all
        self._sizes.refresh((holding.scale_set.location for holding in held.values()), now)
        sized = {name: self._sized[name] for name in held if name in self._sized}
        self._groups = {name: ScaleSetGroup(size, self._fleet, self._templates) for name, size in sized.items()}
        settings = self._settings
        self._by_owner = {
            Owner(settings.subscription_id.lower(), settings.resource_group.lower(), name.lower()): name
            for name in held
        }

    def groups(self) -> Sequence[ScaleSetGroup]:
        """All groups: those of `--nodes` in that order, then those found by their tags, by name."""
        return tuple(self._groups.values())

    def group_of(self, node: NodeRef) -> str | None:
        """Return the scale set that a node's provider id names, or that lists its machine."""
        key = ids.key(node.provider_id)
        owner = ids.owner_of(key)
        name = self._fleet.owner(key) if owner is None else self._by_owner.get(owner)
        return name if name in self._groups else None

    def has_instance(self, node: NodeRef) -> bool:
        """Whether the machine exists. The scale set is listed again, at most once a pass, before the answer is no."""
        name, key = self.group_of(node), ids.key(node.provider_id)
        if name is None or self._fleet.lists(key):
            return True
        if self._fleet.listed_since_refresh(name):
            return False
        return any(machine.key == key for machine in self._fleet.relisted(name).machines)

    @property
    def gpu_label(self) -> str:
        """The label of AKS."""
        return GPU_LABEL

    def gpu_types(self) -> Sequence[str]:
        """Return the known values of the label."""
        return _GPU_TYPES

    def close(self) -> None:
        """Close the connections."""
        self._fleet.compute.close()

    def _choose(self, scale_sets: Sequence[ScaleSet]) -> Sequence[str]:
        sized, ignored = chosen(scale_sets, self._named, self._selector)
        for name, why in ignored.items():
            if self._ignored.get(name) != why:
                _log.warning("azure.scale_set_ignored", extra={"fields": {"group": name, "why": why}})
        self._ignored, self._sized = ignored, {size.name: size for size in sized}
        return tuple(self._sized)


class PricedAzureProvider(PriceListed, AzureProvider):
    """An `AzureProvider` that also has `Pricing`."""


def chosen(
    scale_sets: Sequence[ScaleSet], named: Mapping[str, SizedName], selector: Selector | None
) -> tuple[Sequence[SizedName], Mapping[str, str]]:
    """Return the scale sets that are node groups, and the reasons why other matching ones are not.

    Sizes of `--nodes` override those of tags.
    """
    names = {scale_set.name for scale_set in scale_sets}
    sized = [size for name, size in named.items() if name in names]
    ignored: dict[str, str] = {}
    for scale_set in sorted(scale_sets, key=lambda scale_set: scale_set.name) if selector is not None else ():
        if scale_set.name in named or selector is None:
            continue
        match sized_by_tags(scale_set.name, scale_set.tags or {}, selector):
            case SizedName() as size:
                sized.append(size)
            case str() as why:
                ignored[scale_set.name] = why
    return sized, ignored


def create(context: ProviderContext) -> AzureProvider | PricedAzureProvider:
    """Read the configuration, sign in and list the scale sets once.

    `Misconfigured` has a line for every problem: fields that are missing or wrong, groups of `--nodes` that do not
    exist, credentials that are refused. Where Azure is away: `Transient` or `Throttled`.
    """
    return open_provider(context, _connect)


def open_provider(context: ProviderContext, connect: Connect) -> AzureProvider | PricedAzureProvider:
    """Make a provider that reaches Azure through what `connect` returns; raises as `create`."""
    problems = Problems()
    settings = read_settings(context.config_file, context.environment, problems)
    named = list(read_sizes(context.node_specs, problems))
    selector = read_selector(context.discovery_specs, problems)
    if not context.node_specs and selector is None:
        problems.add("nodes", "name scale sets, or let --node-group-auto-discovery find them by their tags")
    problems.raise_if_any()
    prices = None if context.price_file is None else read_price_file(context.price_file)
    transport, tokens = connect(settings, context)
    arm = Arm(settings.cloud.resource_manager, transport, tokens, context.user_agent, context.now)
    fleet = Fleet(Compute(arm, settings), settings, context.now)
    _check(fleet, settings, named)
    if prices is None:
        return AzureProvider(fleet, settings, named, selector)
    return PricedAzureProvider(fleet, settings, named, selector).priced_by(prices)


def _connect(settings: Settings, context: ProviderContext) -> tuple[Transport, TokenSource]:
    tokens = tokens_for(settings.identity, settings.cloud, context.now)
    return HttpTransport(settings.cloud.resource_manager, context.environment), tokens


def _check(fleet: Fleet, settings: Settings, named: Sequence[SizedName]) -> None:
    try:
        existing = {scale_set.name for scale_set in fleet.listed()}
    except (Transient, Throttled):
        raise
    except ProviderError as error:
        raise Misconfigured(f"cloud-config: {error}") from error
    problems = Problems()
    for size in named:
        if size.name not in existing:
            known = ", ".join(sorted(existing)) or "none"
            problems.add("nodes", f"{settings.resource_group} has no scale set {size.name}; it has: {known}")
    problems.raise_if_any()
