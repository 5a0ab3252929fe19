"""The API for provider authors: implement `CloudProvider`, return `NodeGroup`s of `Instance`s."""

from cloudprovider.interface import (
    CloudProvider,
    Instance,
    InstanceError,
    NodeGroup,
    NodeRef,
    NodeTemplate,
    ProviderContext,
    ProviderError,
)

__all__ = [
    "CloudProvider",
    "Instance",
    "InstanceError",
    "NodeGroup",
    "NodeRef",
    "NodeTemplate",
    "ProviderContext",
    "ProviderError",
]
