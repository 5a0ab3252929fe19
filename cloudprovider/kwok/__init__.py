"""Groups of fake nodes kept Ready by a kwok controller, configured as for Cluster Autoscaler's kwok provider."""

from cloudprovider.kwok.provider import KwokGpuProvider, KwokProvider, create

__all__ = ["KwokGpuProvider", "KwokProvider", "create"]
