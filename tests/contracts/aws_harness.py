"""The AWS provider on moto's Auto Scaling, EC2 and EKS, which live in this process."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import boto3
from moto import mock_aws
from msgspec.structs import replace

from cloudprovider.aws.connection import Clients, connect
from cloudprovider.aws.provider import AwsProvider, open_aws
from cloudprovider.interface import CloudProvider, Instance, NodeRef, ProviderContext

REGION = "eu-west-1"
TAGS = "k8s.io/cluster-autoscaler/node-template"
ENVIRONMENT = {
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Counted:
    """A client whose calls are counted."""

    def __init__(self, client: Any, count: Callable[[], None]) -> None:
        self._client = client
        self._count = count

    def __getattr__(self, operation: str) -> Callable[..., Mapping[str, Any]]:
        call: Callable[..., Mapping[str, Any]] = getattr(self._client, operation)

        def counted(**parameters: Any) -> Mapping[str, Any]:
            self._count()
            return call(**parameters)

        return counted


@cache
def _scaling() -> Any:
    return boto3.client("autoscaling", REGION)


@cache
def _ec2() -> Any:
    return boto3.client("ec2", REGION)


@cache
def _connected() -> Clients:
    """Connect once: to read the services' descriptions takes longer than a check."""
    return connect(ENVIRONMENT, {}, "test")


def make_group(name: str, least: int, most: int, tags: Mapping[str, str]) -> None:
    """Create a group that starts machines from a launch template of its own."""
    data = {"InstanceType": "m5.xlarge", "ImageId": "ami-12c6146b"}
    _ec2().create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
    _scaling().create_auto_scaling_group(
        AutoScalingGroupName=name,
        MinSize=least,
        MaxSize=most,
        DesiredCapacity=least,
        LaunchTemplate={"LaunchTemplateName": name, "Version": "1"},
        AvailabilityZones=[f"{REGION}a"],
        Tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
    )


class AwsHarness:
    """Two groups. Starts moto by itself, for the life of the harness."""

    group_ids: Sequence[str] = ("web", "batch")

    def __init__(self) -> None:
        self._cloud = mock_aws()
        self._cloud.start()
        make_group("web", 1, 6, {})
        make_group(
            "batch", 0, 6, {"scaled": "", "owner": "us", f"{TAGS}/autoscaling-options/scaledownunneededtime": "2m"}
        )
        make_group("other", 0, 6, {"scaled": "", "owner": "them"})
        self._now, self._calls = 1_000.0, 0
        context = ProviderContext(
            node_specs=["1:6:web"],
            discovery_specs=["asg:tag=scaled,owner=us"],
            environment=ENVIRONMENT,
            now=lambda: self._now,
        )
        self._provider: AwsProvider = open_aws(context, self._counted(_connected()))
        self._provider.refresh(self._now)

    def _counted(self, clients: Clients) -> Clients:
        services = ("reading", "writing", "ec2", "eks")
        return replace(clients, **{name: Counted(getattr(clients, name), self._called) for name in services})

    def _called(self) -> None:
        self._calls += 1

    @property
    def provider(self) -> CloudProvider:
        return self._provider

    def settle(self) -> None:
        self._now += 600.0
        self._provider.refresh(self._now)

    def node_for(self, instance: Instance) -> NodeRef:
        return NodeRef(f"ip-{instance.provider_id.rpartition('/')[2]}", instance.provider_id)

    def remote_calls(self) -> int:
        return self._calls

    def __enter__(self) -> "AwsHarness":
        return self

    def __exit__(self, *_: object) -> None:
        self._cloud.stop()
