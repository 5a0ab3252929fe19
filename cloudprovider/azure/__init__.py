"""Virtual machine scale sets of Azure, found and configured as by Cluster Autoscaler's azure provider."""

from cloudprovider.azure.provider import AzureProvider, PricedAzureProvider, create

__all__ = ["AzureProvider", "PricedAzureProvider", "create"]
