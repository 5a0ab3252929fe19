"""An azure provider over a resource manager in memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from cloudprovider.azure.group import ScaleSetGroup
from cloudprovider.azure.provider import AzureProvider, open_provider
from cloudprovider.interface import NodeRef, ProviderContext, State
from tests.fakes.azure import ENVIRONMENT, FakeAzure, FakeScaleSet, StaticTokens, provider_id


class AzureWorld:
    """The provider has refreshed once. Time stands still unless somebody passes it."""

    def __init__(
        self,
        *scale_sets: FakeScaleSet,
        nodes: Sequence[str] = (),
        discovery: Sequence[str] = (),
        environment: Mapping[str, str] = {},
        sizes: Sequence[Mapping[str, Any]] | None = None,
        refresh: bool = True,
    ) -> None:
        self.azure = FakeAzure(*scale_sets)
        if sizes is not None:
            self.azure.sizes = list(sizes)
        for scale_set in scale_sets:
            while len(scale_set.machines) < scale_set.capacity:
                self.azure.add_machine(scale_set).ready_at = 0.0
        self.context = ProviderContext(
            node_specs=nodes,
            discovery_specs=discovery,
            environment={**ENVIRONMENT, **environment},
            now=lambda: self.azure.now,
        )
        self.provider: AzureProvider = open_provider(self.context, lambda *_: (self.azure, StaticTokens()))
        if refresh:
            self.refresh()

    def refresh(self, after_s: float = 0.0) -> list[str]:
        """Let time pass, refresh, and return what that asked for."""
        self.azure.now += after_s
        before = len(self.azure.requests)
        self.provider.refresh(self.azure.now)
        return self.azure.asked(before)

    def group(self, name: str) -> ScaleSetGroup:
        return next(group for group in self.provider.groups() if group.id == name)

    def states(self, name: str) -> dict[str, State | None]:
        """Return the states of a group's instances by the last part of their ids."""
        return {instance.provider_id.rpartition("/")[2]: instance.state for instance in self.group(name).instances()}


def node(scale_set: str, machine: object) -> NodeRef:
    """Return the node of a machine of a uniform scale set."""
    return NodeRef(f"aks-{scale_set}-{machine}", provider_id(scale_set, machine))
