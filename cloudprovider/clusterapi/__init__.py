"""Groups of Machines that Cluster API manages, in this cluster or another."""

from cloudprovider.clusterapi.provider import CapiProvider, PricedCapiProvider, create

__all__ = ["CapiProvider", "PricedCapiProvider", "create"]
