"""An Auto Scaling group as AWS last described it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from cloudprovider.aws.launch import Launch, machine_version, read_launch
from cloudprovider.aws.selection import Selection
from cloudprovider.interface import ErrorClass, Instance, InstanceError, MachineVersion, State
from cloudprovider.number import parse_count

PREFIX = "aws:///"
PLACEHOLDER = "i-placeholder-"
UNFULFILLABLE = "placeholder-cannot-be-fulfilled"


class Stage(StrEnum):
    """The stages of a machine's life that matter for sizes."""

    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"
    ASIDE = "aside"
    """On standby or in the warm pool. It counts in no size, and belongs to the operator until it is in service."""


class Machine(msgspec.Struct, frozen=True):
    """An EC2 instance of a group."""

    id: str
    zone: str
    stage: Stage
    version: MachineVersion | None = None
    impaired: str = ""
    """Why AWS holds it for unhealthy; empty if it does not."""

    @property
    def provider_id(self) -> str:
        """The `spec.providerID` of its node."""
        return f"{PREFIX}{self.zone}/{self.id}"


class Asg(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A group as AWS describes it, within the sizes that the operator allows."""

    name: str
    min_size: int
    max_size: int
    desired: int
    machines: Sequence[Machine]
    zones: Sequence[str]
    tags: Mapping[str, str]
    launch: Launch
    ended: bool = False
    """The group itself is being deleted."""
    unmet: str | None = None
    """Why AWS does not deliver the missing machines; None if it still may."""

    @cached_property
    def by_id(self) -> Mapping[str, Machine]:
        """Machines by instance id."""
        return {machine.id: machine for machine in self.machines}

    @property
    def live(self) -> int:
        """Machines that the desired capacity counts."""
        return sum(machine.stage in (Stage.CREATING, Stage.RUNNING) for machine in self.machines)

    @property
    def missing(self) -> int:
        """How many machines were requested but do not exist."""
        return max(0, self.desired - self.live)

    @property
    def is_moving(self) -> bool:
        """Whether the next description is likely to differ from this one."""
        return self.missing > 0 or any(machine.stage in (Stage.CREATING, Stage.DELETING) for machine in self.machines)

    def instances(self) -> tuple[Instance, ...]:
        """Return the machines, and a placeholder for each missing machine."""
        error = None if self.unmet is None else InstanceError(ErrorClass.OUT_OF_RESOURCES, UNFULFILLABLE, self.unmet)
        first, zone = self.live, next(iter(self.zones), "")
        placeholders = tuple(
            Instance(f"{PREFIX}{zone}/{PLACEHOLDER}{self.name}-{number}", State.CREATING, error)
            for number in range(first, self.desired)
        )
        there = (machine for machine in self.machines if machine.stage is not Stage.ASIDE)
        machines = (
            Instance(
                machine.provider_id,
                State(machine.stage.value),
                version=machine.version,
                impaired=machine.impaired if machine.stage is Stage.RUNNING else "",
            )
            for machine in there
        )
        return (*machines, *placeholders)


def read_asg(data: Mapping[str, Any], selection: Selection) -> Asg:
    """Return a group from an element of DescribeAutoScalingGroups.

    AWS enforces the group's own sizes, so sizes given with `--nodes` can only narrow them.
    """
    name = str(data.get("AutoScalingGroupName", ""))
    least, most = int(data.get("MinSize") or 0), int(data.get("MaxSize") or 0)
    given = selection.named.get(name)
    if given is not None and given.min_size <= most and least <= given.max_size:
        least, most = max(least, given.min_size), min(most, given.max_size)
    return Asg(
        name=name,
        min_size=least,
        max_size=most,
        desired=int(data.get("DesiredCapacity") or 0),
        machines=tuple(_machine(element) for element in data.get("Instances") or ()),
        zones=tuple(data.get("AvailabilityZones") or ()),
        tags={str(tag["Key"]): str(tag.get("Value") or "") for tag in data.get("Tags") or () if tag.get("Key")},
        launch=read_launch(data),
        ended=bool(data.get("Status")),
    )


def instance_id(provider_id: str) -> str | None:
    """Return the instance id of `aws:///<zone>/<instance>`, also for a placeholder; None for other providers' ids."""
    if not provider_id.startswith(PREFIX):
        return None
    _, _, rest = provider_id.removeprefix(PREFIX).partition("/")
    # Names of groups may have slashes; what follows a machine's id is of no interest.
    return rest if rest.startswith(PLACEHOLDER) else rest.partition("/")[0] or None


def placeholder_group(instance: str) -> str | None:
    """Return the group of a placeholder; None for a machine."""
    if not instance.startswith(PLACEHOLDER):
        return None
    group, _, number = instance.removeprefix(PLACEHOLDER).rpartition("-")
    return group if parse_count(number) is not None else None


def _machine(data: Mapping[str, Any]) -> Machine:
    zone, state = str(data.get("AvailabilityZone") or ""), str(data.get("LifecycleState") or "")
    impaired = "HealthStatus Unhealthy" if data.get("HealthStatus") == "Unhealthy" else ""
    return Machine(str(data.get("InstanceId") or ""), zone, _stage(state), machine_version(data), impaired)


def _stage(lifecycle: str) -> Stage:
    match lifecycle.split(":")[0]:
        case "Pending":
            return Stage.CREATING
        case "Terminating" | "Terminated" | "Detaching" | "Detached":
            return Stage.DELETING
        case "EnteringStandby" | "Standby" | "Warmed":
            return Stage.ASIDE
        case _:
            return Stage.RUNNING
