"""Managed instance groups of Google Compute Engine."""

from cloudprovider.gce.factory import create
from cloudprovider.gce.provider import GceProvider, ListPricedGceProvider, PricedGceProvider

__all__ = ["GceProvider", "ListPricedGceProvider", "PricedGceProvider", "create"]
