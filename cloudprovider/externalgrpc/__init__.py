"""Clouds behind gRPC, by Cluster Autoscaler's protocol: a client for such servers, and a server for any adapter."""

from cloudprovider.externalgrpc.provider import create

__all__ = ["create"]
