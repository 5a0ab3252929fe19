"""Auto Scaling, EC2, EKS and SQS in memory, as the SDK's clients show them: answers are what boto3 returns."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from cloudprovider.aws.connection import Clients
from cloudprovider.aws.provider import AwsProvider, open_aws
from cloudprovider.interface import ProviderContext

REGION = "eu-west-1"
ZONE = f"{REGION}a"
GIB = 1024
STARTED = 1_785_000_000.0


def an_error(code: str, message: str = "said so", status: int = 400, **headers: str) -> ClientError:
    """Return what the SDK raises for an error that a service answers."""
    meta = {"HTTPStatusCode": status, "HTTPHeaders": {key.replace("_", "-"): text for key, text in headers.items()}}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": meta}, "Operation")


class FakeAws:
    """All services of one account. Machines are in service as soon as `deliver` is called, unless it is told so."""

    def __init__(self, page: int = 100) -> None:
        self.now = STARTED
        self.page = page
        self.groups: dict[str, dict[str, Any]] = {}
        self.activities: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.configurations: dict[str, str] = {}
        self.templates: dict[tuple[str, str], dict[str, Any]] = {}
        self.newest: dict[str, int] = {}
        """Numbers of the versions that `$Latest` and `$Default` stand for, by template; 1 unless given."""
        self.types: dict[str, dict[str, Any]] = {}
        self.images: dict[str, dict[str, Any]] = {"ami-arm": {"Architecture": "arm64", "VirtualizationType": "hvm"}}
        self.meeting: Sequence[str] = ()
        self.nodegroups: dict[tuple[str, str], dict[str, Any]] = {}
        self.queue: dict[str, str] = {}
        """Bodies of messages, by receipt; reading shows them again until they are deleted."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.failing: dict[str, list[Exception | None]] = {}
        """Errors that the next calls of an operation end with; None: it works."""
        self.lost_answers = False
        """Whether a call that fails so has taken effect."""
        self._machines = 0
        for name, cpus, gib in (("m5.large", 2, 8), ("m5.xlarge", 4, 16), ("r5.large", 2, 16)):
            self.add_type(name, cpus, gib)

    # What tests arrange

    def clients(self) -> Clients:
        """Return what a provider connects to."""
        return Clients(region=REGION, reading=self, writing=self, ec2=self, eks=self, sqs=self)

    def open(
        self, *nodes: str, discovery: Sequence[str] = (), price_file: str | None = None, queue_url: str = ""
    ) -> AwsProvider:
        """Return a provider that has been refreshed once."""
        context = ProviderContext(
            node_specs=nodes,
            discovery_specs=discovery,
            price_file=price_file,
            flags={"aws-notice-queue-url": queue_url},
            now=lambda: self.now,
        )
        provider = open_aws(context, self.clients())
        provider.refresh(self.now)
        return provider

    def add_type(
        self, name: str, cpus: int, gib: int, arch: str = "x86_64", gpus: Mapping[str, int] | None = None
    ) -> None:
        """Offer an instance type."""
        self.types[name] = {
            "InstanceType": name,
            "VCpuInfo": {"DefaultVCpus": cpus},
            "MemoryInfo": {"SizeInMiB": gib * GIB},
            "ProcessorInfo": {"SupportedArchitectures": [arch]},
            "GpuInfo": {"Gpus": [{"Manufacturer": maker, "Count": count} for maker, count in (gpus or {}).items()]},
        }

    def add_group(
        self,
        name: str = "web",
        size: int = 0,
        *,
        least: int = 0,
        most: int = 10,
        tags: Mapping[str, str] | None = None,
        **launch: Any,
    ) -> dict[str, Any]:
        """Create a group whose machines are all in service; `launch` replaces its launch configuration."""
        self.configurations["m5.large"] = "m5.large"
        self.groups[name] = {
            "AutoScalingGroupName": name,
            "MinSize": least,
            "MaxSize": most,
            "DesiredCapacity": size,
            "AvailabilityZones": [ZONE, f"{REGION}b"],
            "Instances": [],
            "Tags": [{"Key": key, "Value": value} for key, value in (tags or {}).items()],
            **(launch or {"LaunchConfigurationName": "m5.large"}),
        }
        self.deliver(name)
        return self.groups[name]

    def deliver(self, name: str = "web", lifecycle: str = "InService") -> list[str]:
        """Start what a group is short of; return the instance ids."""
        group, made = self.groups[name], []
        while self._live(group) < group["DesiredCapacity"]:
            self._machines += 1
            made.append(f"i-{self._machines:017x}")
            group["Instances"].append(
                {
                    "InstanceId": made[-1],
                    "AvailabilityZone": ZONE,
                    "LifecycleState": lifecycle,
                    "HealthStatus": "Healthy",
                    **self.launched_from(group),
                }
            )
        return made

    def launched_from(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a machine that a group starts now says of its origin."""
        if "LaunchConfigurationName" in group:
            name = group["LaunchConfigurationName"]
            return {"LaunchConfigurationName": name, "InstanceType": self.configurations.get(name, "")}
        mixed = (group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
        ref = group.get("LaunchTemplate") or mixed.get("LaunchTemplateSpecification")
        if not ref:
            return {}
        name = str(ref.get("LaunchTemplateId") or ref.get("LaunchTemplateName"))
        version = str(ref.get("Version") or "$Default")
        data = self.templates.get((name, version)) or {}
        overrides = [
            override["InstanceType"] for override in mixed.get("Overrides") or () if "InstanceType" in override
        ]
        return {
            "LaunchTemplate": {**ref, "Version": self.number_of(name, version)},
            "InstanceType": (overrides or [data.get("InstanceType", "m5.large")])[0],
        }

    def number_of(self, template: str, version: str) -> str:
        """Return the number of a template's version; `newest` has those that stand for others."""
        return version if version.isdecimal() else str(self.newest.get(template, 1))

    def machine(self, instance: str) -> dict[str, Any]:
        """Return a machine, to change it."""
        return next(
            one for group in self.groups.values() for one in group["Instances"] if one["InstanceId"] == instance
        )

    def ids(self, name: str = "web") -> list[str]:
        """Return the instance ids of a group."""
        return [instance["InstanceId"] for instance in self.groups[name]["Instances"]]

    def bury(self) -> None:
        """Let machines that are being ended vanish."""
        for group in self.groups.values():
            group["Instances"] = [
                instance for instance in group["Instances"] if instance["LifecycleState"] != "Terminating"
            ]

    def tried(self, name: str, status: str, message: str = "", after_s: float = 1.0, about: str = "") -> None:
        """Note an attempt to start a machine."""
        self.activities[name].insert(
            0,
            {
                "Description": f"Launching a new EC2 instance{': ' if about else ''}{about}",
                "StatusCode": status,
                "StatusMessage": message,
                "StartTime": datetime.fromtimestamp(self.now + after_s, UTC),
            },
        )

    def fail(self, operation: str, *errors: Exception | None, lost_answer: bool = False) -> None:
        """Make the next calls of an operation fail."""
        self.failing[operation] = list(errors)
        self.lost_answers = lost_answer

    def count(self, operation: str = "") -> int:
        """Return how often an operation was called, or all of them."""
        return sum(operation in ("", name) for name, _ in self.calls)

    # What the provider calls

    def describe_auto_scaling_groups(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("describe_auto_scaling_groups", parameters)
        names, filters = parameters.get("AutoScalingGroupNames"), parameters.get("Filters", ())
        if names is not None:
            assert 0 < len(names) <= 100, "AWS takes 1 to 100 names"
        found = [
            group
            for name, group in self.groups.items()
            if (names is None or name in names) and all(_matches(group, wanted) for wanted in filters)
        ]
        return self._paged("AutoScalingGroups", found, parameters)

    def describe_scaling_activities(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("describe_scaling_activities", parameters)
        return {"Activities": self.activities[parameters["AutoScalingGroupName"]]}

    def describe_launch_configurations(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("describe_launch_configurations", parameters)
        names = parameters["LaunchConfigurationNames"]
        assert 0 < len(names) <= 50, "AWS takes 1 to 50 names"
        found = [
            {"LaunchConfigurationName": name, "InstanceType": kind}
            for name, kind in self.configurations.items()
            if name in names
        ]
        return {"LaunchConfigurations": found}

    def set_desired_capacity(self, **parameters: Any) -> Mapping[str, Any]:
        effect = self._called("set_desired_capacity", parameters, writes=True)
        group, size = self.groups[parameters["AutoScalingGroupName"]], parameters["DesiredCapacity"]
        if not group["MinSize"] <= size <= group["MaxSize"]:
            raise an_error("ValidationError", f"New SetDesiredCapacity value {size} is out of bounds")
        group["DesiredCapacity"] = size
        for instance in group["Instances"]:
            if self._live(group) > size:
                instance["LifecycleState"] = "Terminating"  # AWS chooses, and it may well be the oldest
        if effect is not None:
            raise effect
        return {}

    def terminate_instance_in_auto_scaling_group(self, **parameters: Any) -> Mapping[str, Any]:
        effect = self._called("terminate_instance_in_auto_scaling_group", parameters, writes=True)
        assert parameters["ShouldDecrementDesiredCapacity"] is True
        for group in self.groups.values():
            for instance in group["Instances"]:
                if instance["InstanceId"] == parameters["InstanceId"]:
                    assert instance["LifecycleState"] != "Terminating", "ended twice"
                    instance["LifecycleState"] = "Terminating"
                    group["DesiredCapacity"] -= 1
                    if effect is not None:
                        raise effect
                    return {"Activity": {}}
        raise an_error("ValidationError", f"Instance Id not found - {parameters['InstanceId']}")

    def describe_launch_template_versions(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("describe_launch_template_versions", parameters)
        name = str(parameters.get("LaunchTemplateId") or parameters.get("LaunchTemplateName"))
        data = self.templates.get((name, parameters["Versions"][0]))
        if data is None:
            raise an_error("InvalidLaunchTemplateName.NotFoundException", "no such template")
        number = int(self.number_of(name, parameters["Versions"][0]))
        return {"LaunchTemplateVersions": [{"VersionNumber": number, "LaunchTemplateData": data}]}

    def describe_instance_types(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("describe_instance_types", parameters)
        wanted = parameters["Filters"][0]["Values"]
        return self._paged("InstanceTypes", [self.types[name] for name in wanted if name in self.types], parameters)

    def describe_images(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("describe_images", parameters)
        return {"Images": [self.images[name] for name in parameters["ImageIds"] if name in self.images]}

    def get_instance_types_from_instance_requirements(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("get_instance_types_from_instance_requirements", parameters)
        return {"InstanceTypes": [{"InstanceType": name} for name in self.meeting]}

    def describe_nodegroup(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("describe_nodegroup", parameters)
        found = self.nodegroups.get((parameters["clusterName"], parameters["nodegroupName"]))
        if found is None:
            raise an_error("ResourceNotFoundException", "no such node group", 404)
        return {"nodegroup": found}

    def receive_message(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("receive_message", parameters)
        assert 1 <= parameters["MaxNumberOfMessages"] <= 10
        assert 0 <= parameters["WaitTimeSeconds"] <= 20
        shown = list(self.queue.items())[: parameters["MaxNumberOfMessages"]]
        return {"Messages": [{"MessageId": key, "ReceiptHandle": key, "Body": body} for key, body in shown]}

    def delete_message_batch(self, **parameters: Any) -> Mapping[str, Any]:
        self._called("delete_message_batch", parameters)
        entries = parameters["Entries"]
        assert 1 <= len(entries) <= 10
        assert len({entry["Id"] for entry in entries}) == len(entries)
        for entry in entries:
            self.queue.pop(entry["ReceiptHandle"], None)
        return {"Successful": [{"Id": entry["Id"]} for entry in entries], "Failed": []}

    def _called(self, operation: str, parameters: dict[str, Any], *, writes: bool = False) -> Exception | None:
        """Note a call; return the error to raise once it has taken effect."""
        self.calls.append((operation, parameters))
        errors = self.failing.get(operation)
        if not errors:
            return None
        error = errors.pop(0)
        if error is None or (writes and self.lost_answers):
            return error
        raise error

    def _paged(self, key: str, found: list[Any], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        start = int(parameters.get("NextToken", 0))
        end = start + self.page
        return {key: found[start:end], **({"NextToken": str(end)} if end < len(found) else {})}

    def _live(self, group: Mapping[str, Any]) -> int:
        states = ("Pending", "Pending:Wait", "InService")
        return sum(instance["LifecycleState"] in states for instance in group["Instances"])


def _matches(group: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
    if wanted["Name"] == "tag-key":
        return any(key in tags for key in wanted["Values"])
    return tags.get(wanted["Name"].removeprefix("tag:")) in wanted["Values"]
