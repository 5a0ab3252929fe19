"""Creates clients of the AWS services, in the region of the environment, the profile or the machine."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import boto3
import msgspec
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.utils import InstanceMetadataRegionFetcher

from cloudprovider.aws.cloud_config import Endpoints
from cloudprovider.aws.failures import failure
from cloudprovider.interface import Misconfigured
from cloudprovider.number import parse_count

_CONNECT_S, _READ_S = 5.0, 20.0
_METADATA_S = 2.0
_MOST_ATTEMPTS = 100
_ATTEMPTS = 3
_CONNECTIONS = 32
_NOT_IN_USER_AGENT = re.compile(r"[^\w.+/ -]", re.ASCII)

Answer = Mapping[str, Any]


class AutoScaling(Protocol):
    """The calls to Auto Scaling that the provider makes."""

    def describe_auto_scaling_groups(self, **parameters: Any) -> Answer:
        """Return groups with their machines."""
        ...

    def describe_scaling_activities(self, **parameters: Any) -> Answer:
        """Return what a group did, newest first."""
        ...

    def describe_launch_configurations(self, **parameters: Any) -> Answer:
        """Return launch configurations."""
        ...

    def set_desired_capacity(self, **parameters: Any) -> Answer:
        """Change a group's size."""
        ...

    def terminate_instance_in_auto_scaling_group(self, **parameters: Any) -> Answer:
        """End one machine."""
        ...


class Ec2(Protocol):
    """The calls to EC2 that the provider makes."""

    def describe_launch_template_versions(self, **parameters: Any) -> Answer:
        """Return versions of a launch template."""
        ...

    def describe_instance_types(self, **parameters: Any) -> Answer:
        """Return what machines of certain types have."""
        ...

    def describe_images(self, **parameters: Any) -> Answer:
        """Return machine images."""
        ...

    def get_instance_types_from_instance_requirements(self, **parameters: Any) -> Answer:
        """Return the types that meet requirements."""
        ...


class Eks(Protocol):
    """The calls to EKS that the provider makes."""

    def describe_nodegroup(self, **parameters: Any) -> Answer:
        """Return a managed node group."""
        ...


class Sqs(Protocol):
    """The calls to SQS that the provider makes."""

    def receive_message(self, **parameters: Any) -> Answer:
        """Return messages of a queue; wait if there are none."""
        ...

    def delete_message_batch(self, **parameters: Any) -> Answer:
        """Delete messages."""
        ...


class Clients(msgspec.Struct, frozen=True):
    """Clients of one region. Clients that read retry by themselves. The client that writes never retries."""

    region: str
    reading: AutoScaling
    writing: AutoScaling
    ec2: Ec2
    eks: Eks
    sqs: Sqs | None = None
    """None: no queue is configured."""


def connect(
    environment: Mapping[str, str],
    endpoints: Endpoints,
    user_agent: str,
    metadata_region: Callable[[], str | None] | None = None,
    *,
    queue: bool = False,
) -> Clients:
    """Make the clients. The only call is to the metadata service, if nothing else names the region.

    Credentials are found as the SDK finds them: environment, web identity, pod identity, profile, machine.
    `queue` tells whether a queue is read. Raises `Misconfigured`.
    """
    attempts = _attempts(environment)
    try:
        session = boto3.session.Session(region_name=_named_region(environment))
        region = session.region_name or (metadata_region or _metadata_region)()
        if not region:
            raise Misconfigured("cloud-provider: aws: the region is not known; set AWS_REGION")
        return Clients(
            region=region,
            reading=_client(session, "autoscaling", region, endpoints, user_agent, attempts),
            # An end that is asked for twice could lower the size twice.
            writing=_client(session, "autoscaling", region, endpoints, user_agent, 1),
            ec2=_client(session, "ec2", region, endpoints, user_agent, attempts),
            eks=_client(session, "eks", region, endpoints, user_agent, attempts),
            sqs=_client(session, "sqs", region, endpoints, user_agent, attempts) if queue else None,
        )
    except (BotoCoreError, ValueError) as error:
        raise Misconfigured(f"cloud-provider: aws: {failure(error)}") from error


def _named_region(environment: Mapping[str, str]) -> str | None:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or None


def _attempts(environment: Mapping[str, str]) -> int:
    text = environment.get("AWS_MAX_ATTEMPTS") or str(_ATTEMPTS)
    if not (attempts := parse_count(text, _MOST_ATTEMPTS)):
        raise Misconfigured(f"AWS_MAX_ATTEMPTS: {text!r} is not a whole number from 1 to {_MOST_ATTEMPTS}")
    return attempts


def _metadata_region() -> str | None:
    fetcher = InstanceMetadataRegionFetcher(timeout=_METADATA_S, num_attempts=1)
    region: str | None = fetcher.retrieve_region()
    return region


def _client(session: Any, service: str, region: str, endpoints: Endpoints, user_agent: str, attempts: int) -> Any:
    endpoint = endpoints.get((service, region))
    config = Config(
        user_agent_extra=_NOT_IN_USER_AGENT.sub("-", user_agent),
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=_CONNECTIONS,
    )
    return session.client(
        service,
        region_name=endpoint.signing_region if endpoint else region,
        endpoint_url=endpoint.url if endpoint else None,
        config=config,
    )
