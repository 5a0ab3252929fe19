"""EC2 Auto Scaling groups and EKS managed node groups, found and described as for Cluster Autoscaler's provider aws."""

from cloudprovider.aws.provider import AwsProvider, PricedAwsProvider, create

__all__ = ["AwsProvider", "PricedAwsProvider", "create"]
