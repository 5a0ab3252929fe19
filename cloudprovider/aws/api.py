"""The calls to AWS, with paging and batching. Answers are plain data; see `failures`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from cloudprovider.aws.connection import Clients
from cloudprovider.aws.failures import asked

_GROUPS = 100
_CONFIGURATIONS = 50
_TYPES = 100
_ACTIVITIES = 50
_MESSAGES = 10

Data = Mapping[str, Any]


class AwsApi:
    """Every call blocks for seconds at most, and raises kinds of `ProviderError` only. Safe from any thread."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self.region = clients.region

    def groups_named(self, names: Sequence[str]) -> list[Data]:
        """Return the existing groups among these names."""
        batches = ({"AutoScalingGroupNames": batch, "MaxRecords": _GROUPS} for batch in _batches(names, _GROUPS))
        return _all(self._clients.reading.describe_auto_scaling_groups, "AutoScalingGroups", batches)

    def groups_tagged(self, tags: Mapping[str, str]) -> list[Data]:
        """Return the groups that have all these tags; an empty value matches any value."""
        if not tags:
            return []
        filters = [
            {"Name": f"tag:{key}", "Values": [value]} if value else {"Name": "tag-key", "Values": [key]}
            for key, value in tags.items()
        ]
        call = self._clients.reading.describe_auto_scaling_groups
        return list(_pages(call, "AutoScalingGroups", Filters=filters, MaxRecords=_GROUPS))

    def latest_activities(self, group: str) -> Sequence[Data]:
        """Return what a group did lately, newest first."""
        call = self._clients.reading.describe_scaling_activities
        answer = asked(call, AutoScalingGroupName=group, MaxRecords=_ACTIVITIES)
        return answer.get("Activities") or ()

    def set_desired(self, group: str, size: int) -> None:
        """Change a group's desired capacity. Its cool-down is ignored."""
        call = self._clients.writing.set_desired_capacity
        asked(call, AutoScalingGroupName=group, DesiredCapacity=size, HonorCooldown=False)

    def terminate(self, instance_id: str) -> None:
        """End a machine and lower its group's desired capacity by one."""
        call = self._clients.writing.terminate_instance_in_auto_scaling_group
        asked(call, InstanceId=instance_id, ShouldDecrementDesiredCapacity=True)

    def launch_configurations(self, names: Sequence[str]) -> list[Data]:
        """Return the existing launch configurations among these names."""
        batches = (
            {"LaunchConfigurationNames": batch, "MaxRecords": _CONFIGURATIONS}
            for batch in _batches(names, _CONFIGURATIONS)
        )
        return _all(self._clients.reading.describe_launch_configurations, "LaunchConfigurations", batches)

    def launch_template(self, key: Mapping[str, str], version: str) -> Data | None:
        """Return a launch template's version; `key` is its id or its name."""
        answer = asked(self._clients.ec2.describe_launch_template_versions, **key, Versions=[version])
        versions = answer.get("LaunchTemplateVersions") or ()
        return versions[0] if versions else None

    def instance_types(self, names: Sequence[str]) -> list[Data]:
        """Return what machines of these types have; types that the region does not know are left out."""
        batches = ({"Filters": [{"Name": "instance-type", "Values": batch}]} for batch in _batches(names, _TYPES))
        return _all(self._clients.ec2.describe_instance_types, "InstanceTypes", batches)

    def image(self, image_id: str) -> Data | None:
        """Return a machine image."""
        images = asked(self._clients.ec2.describe_images, ImageIds=[image_id]).get("Images") or ()
        return images[0] if images else None

    def types_meeting(self, requirements: Data, image: Data) -> Iterator[str]:
        """Yield the types that meet requirements and run the image."""
        for description in _pages(
            self._clients.ec2.get_instance_types_from_instance_requirements,
            "InstanceTypes",
            ArchitectureTypes=[image.get("Architecture", "x86_64")],
            VirtualizationTypes=[image.get("VirtualizationType", "hvm")],
            InstanceRequirements=dict(requirements),
        ):
            yield description["InstanceType"]

    def nodegroup(self, cluster: str, name: str) -> Data:
        """Return a managed node group."""
        answer = asked(self._clients.eks.describe_nodegroup, clusterName=cluster, nodegroupName=name)
        nodegroup: Data = answer.get("nodegroup") or {}
        return nodegroup

    def messages(self, queue_url: str, wait_s: int) -> Sequence[Data]:
        """Return messages of a queue; they return after its visibility timeout unless they are deleted."""
        assert self._clients.sqs is not None
        call = self._clients.sqs.receive_message
        answer = asked(call, QueueUrl=queue_url, MaxNumberOfMessages=_MESSAGES, WaitTimeSeconds=wait_s)
        return answer.get("Messages") or ()

    def delete_messages(self, queue_url: str, receipts: Sequence[str]) -> None:
        """Delete messages. Those that AWS fails to delete return later."""
        assert self._clients.sqs is not None
        for batch in _batches(receipts, _MESSAGES):
            entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(batch)]
            asked(self._clients.sqs.delete_message_batch, QueueUrl=queue_url, Entries=entries)


def _batches(names: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield list(names[start : start + size])


def _all(call: Callable[..., Data], key: str, batches: Iterable[Data]) -> list[Data]:
    return [element for parameters in batches for element in _pages(call, key, **parameters)]


def _pages(call: Callable[..., Data], key: str, **parameters: Any) -> Iterator[Data]:
    token: dict[str, Any] = {}
    while True:
        answer = asked(call, **parameters, **token)
        yield from answer.get(key) or ()
        if not answer.get("NextToken"):
            return
        token = {"NextToken": answer["NextToken"]}
