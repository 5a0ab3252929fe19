"""The AWS provider: scales EC2 Auto Scaling groups, including those of EKS managed node groups."""

from collections.abc import Sequence

from cloudprovider.aws.api import AwsApi
from cloudprovider.aws.asg import instance_id, placeholder_group
from cloudprovider.aws.cloud_config import read_cloud_config
from cloudprovider.aws.connection import Clients, connect
from cloudprovider.aws.failures import AccessDenied
from cloudprovider.aws.fleet import Fleet
from cloudprovider.aws.group import AwsGroup
from cloudprovider.aws.notices import EventQueue
from cloudprovider.aws.selection import read_selection
from cloudprovider.interface import Misconfigured, NodeRef, ProviderContext
from cloudprovider.prices import PriceListed, Prices, read_price_file
from cloudprovider.problems import Problems

_GPU_LABEL = "k8s.amazonaws.com/accelerator"
_GPU_TYPES = (
    "nvidia-a10g",
    "nvidia-l4",
    "nvidia-l40s",
    "nvidia-tesla-a100",
    "nvidia-tesla-k80",
    "nvidia-tesla-p100",
    "nvidia-tesla-t4",
    "nvidia-tesla-v100",
)
_FARGATE = "fargate-"
_QUEUE = "aws-notice-queue-url"


class AwsProvider:
    """A `CloudProvider` with `KnowsInstances`, `Accelerators` and `TellsNotices`."""

    name = "aws"

    def __init__(self, fleet: Fleet, queue: EventQueue | None = None) -> None:
        self._fleet = fleet
        self._queue = queue
        self._groups: dict[str, AwsGroup] = {}

    def refresh(self, now: float) -> None:
        """Read the groups; see `Fleet.refresh` for how often."""
        self._fleet.refresh(now)
        self._groups = {
            name: self._groups.get(name) or AwsGroup(name, self._fleet) for name in sorted(self._fleet.view.groups)
        }

    def groups(self) -> Sequence[AwsGroup]:
        """All groups, by name; none before the first refresh."""
        return tuple(self._groups.values())

    def group_of(self, node: NodeRef) -> str | None:
        """Return the group of a machine or placeholder; None for machines on standby and those of no group."""
        instance = instance_id(node.provider_id)
        if instance is None:
            return None
        view, group = self._fleet.view, placeholder_group(instance)
        return view.owners.get(instance) if group is None else group if group in view.groups else None

    def has_instance(self, node: NodeRef) -> bool:
        """Whether a node's machine is in a group. Fargate nodes are in no group and are assumed to exist."""
        if node.name.startswith(_FARGATE):
            return True
        instance = instance_id(node.provider_id)
        view = self._fleet.view
        return instance in view.owners or any(instance in group.by_id for group in view.groups.values())

    @property
    def gpu_label(self) -> str:
        """The label that node bootstrap scripts set."""
        return _GPU_LABEL

    def gpu_types(self) -> Sequence[str]:
        """Return the values that Cluster Autoscaler knows."""
        return _GPU_TYPES

    def notices(self) -> EventQueue | None:
        """Return the queue of `--aws-notice-queue-url`."""
        return self._queue

    def close(self) -> None:
        """Do nothing, because connections close by themselves."""


class PricedAwsProvider(PriceListed, AwsProvider):
    """An `AwsProvider` that also has `Pricing`: the operator gave a price list."""


def create(context: ProviderContext) -> AwsProvider | PricedAwsProvider:
    """Read the flags and files, connect, and describe the groups once to find problems.

    Raises `Misconfigured`, also for credentials that AWS rejects, and other `ProviderError`s if AWS is unreachable.
    """
    problems = Problems()
    read_selection(context.node_specs, context.discovery_specs, problems)
    problems.raise_if_any()
    endpoints = {} if context.config_file is None else read_cloud_config(context.config_file)
    clients = connect(context.environment, endpoints, context.user_agent, queue=bool(context.flags.get(_QUEUE)))
    return open_aws(context, clients)


def open_aws(context: ProviderContext, clients: Clients) -> AwsProvider | PricedAwsProvider:
    """Make the provider on clients that are connected; raises as `create`."""
    problems = Problems()
    selection = read_selection(context.node_specs, context.discovery_specs, problems)
    problems.raise_if_any()
    prices: Prices | None = None if context.price_file is None else read_price_file(context.price_file)
    fleet = Fleet(AwsApi(clients), selection, context.now)
    try:
        fleet.check()
    except AccessDenied as error:
        raise Misconfigured(f"cloud-provider: aws: {error}") from error
    url = str(context.flags.get(_QUEUE, ""))
    queue = EventQueue(fleet.api, url, fleet) if url else None
    return AwsProvider(fleet, queue) if prices is None else PricedAwsProvider(fleet, queue).priced_by(prices)
