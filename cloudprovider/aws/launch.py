"""The source of a group's machines: a launch configuration, a launch template, or a mixed instances policy."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cloudprovider.interface import MachineVersion


class TemplateRef(msgspec.Struct, frozen=True):
    """A version of a launch template."""

    by: str
    """`LaunchTemplateId` or `LaunchTemplateName`."""
    value: str
    version: str
    """A number, `$Latest` or `$Default`."""

    @property
    def key(self) -> Mapping[str, str]:
        """The name of the template in EC2's calls."""
        return {self.by: self.value}

    @property
    def is_fixed(self) -> bool:
        """Whether the version never changes, as numbered versions do not."""
        return self.version.isdecimal()

    def __str__(self) -> str:
        """Return the text that messages show, and by which versions of machines are compared."""
        return f"launch template {self.value}, version {self.version}"


class Launch(msgspec.Struct, frozen=True):
    """Where a group's kind of machine is defined."""

    configuration: str | None = None
    template: TemplateRef | None = None
    overriding: Sequence[TemplateRef] = ()
    """Templates that single instance types have instead."""
    types: Sequence[str] = ()
    """Instance types that override the template's; any of them may be started."""
    requirements: Mapping[str, Any] | None = None
    """Attributes of instance types that override the template's."""
    weighted: bool = False
    """The group's sizes count units of capacity, not machines."""


def read_launch(group: Mapping[str, Any]) -> Launch:
    """Return the launch settings of an element of DescribeAutoScalingGroups."""
    units = group.get("DesiredCapacityType") not in (None, "", "units")
    policy = group.get("MixedInstancesPolicy")
    if not policy:
        return Launch(
            configuration=group.get("LaunchConfigurationName") or None,
            template=template_ref(group.get("LaunchTemplate")),
            weighted=units,
        )
    mixed = policy.get("LaunchTemplate") or {}
    overrides = mixed.get("Overrides") or ()
    return Launch(
        template=template_ref(mixed.get("LaunchTemplateSpecification")),
        overriding=tuple(
            dict.fromkeys(
                ref for override in overrides if (ref := template_ref(override.get("LaunchTemplateSpecification")))
            )
        ),
        types=tuple(dict.fromkeys(override["InstanceType"] for override in overrides if override.get("InstanceType"))),
        requirements=next(
            (override["InstanceRequirements"] for override in overrides if override.get("InstanceRequirements")), None
        ),
        weighted=units or any(override.get("WeightedCapacity") not in (None, "", "1") for override in overrides),
    )


def machine_version(machine: Mapping[str, Any]) -> MachineVersion | None:
    """Return what an instance of a group was launched from; None for one that others attached to the group."""
    ref, configuration = template_ref(machine.get("LaunchTemplate")), machine.get("LaunchConfigurationName")
    source = str(ref) if ref is not None else configuration_text(configuration) if configuration else ""
    return MachineVersion(source, instance_type=str(machine.get("InstanceType") or "")) if source else None


def configuration_text(name: str) -> str:
    """Return the text by which versions of machines are compared."""
    return f"launch configuration {name}"


def template_ref(data: Mapping[str, Any] | None) -> TemplateRef | None:
    """Return the version of a launch template that an answer of AWS names, if any."""
    if not data:
        return None
    by = "LaunchTemplateId" if data.get("LaunchTemplateId") else "LaunchTemplateName"
    return TemplateRef(by, str(data.get(by) or ""), str(data.get("Version") or "$Default"))
