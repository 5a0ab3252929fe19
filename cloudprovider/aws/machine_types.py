"""Resources of instance types: CPUs, memory and accelerators."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from cloudprovider.aws.api import AwsApi
from cloudprovider.aws.expiring import Expiring, ServicePause
from cloudprovider.aws.launch import Launch, TemplateRef, configuration_text
from cloudprovider.interface import MachineVersion, ProviderError

_FLOATING_S = 20 * 60.0
_MIB = 1024**2
_GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "habana": "habana.ai/gaudi"}
"""Extended resources by manufacturer, in lower case."""


class Shape(msgspec.Struct, frozen=True):
    """A kind of machine."""

    instance_type: str
    """Empty where AWS chooses it."""
    cpus: int
    memory_bytes: int
    arch: str
    accelerators: Mapping[str, int] = {}
    """Numbers by extended resource."""


class MachineTypes:
    """Finds shapes and caches the answers: fixed versions and types for good, the rest for 20 minutes."""

    def __init__(self, api: AwsApi) -> None:
        self._api = api
        self._configurations: Expiring[str] = Expiring()
        self._templates: Expiring[Mapping[str, Any]] = Expiring()
        self._chosen: Expiring[Shape] = Expiring()
        self._types: Expiring[Shape] = Expiring()
        self._rest = ServicePause()

    def shapes(self, launches: Mapping[str, Launch], now: float) -> Mapping[str, Shape | ProviderError]:
        """Return a shape by group, or the reason why there is none. Never raises `ProviderError`.

        An unreachable service is asked once for all groups, and not again within a minute.
        """
        names = {launch.configuration for launch in launches.values() if launch.configuration}
        refused = self._rest.attempt(lambda: self._read_configurations(names, now), now)
        candidates = {group: self._candidates(launch, now, refused) for group, launch in launches.items()}
        wanted = {name for types in candidates.values() if isinstance(types, tuple) for name in types}
        refused = self._rest.attempt(lambda: self._read_types(wanted, now), now)
        return {group: self._shape(types, now, refused) for group, types in candidates.items()}

    def versions(self, launch: Launch, now: float) -> tuple[MachineVersion, ...]:
        """Return what new machines may be made from; empty if that is not known. Never raises `ProviderError`."""
        if launch.configuration:
            instance_type = self._configurations.get(launch.configuration, now) or ""
            return (MachineVersion(configuration_text(launch.configuration), instance_type=instance_type),)
        if launch.template is None:
            return ()
        refs = (launch.template, *launch.overriding)
        numbered = self._rest.attempt(lambda: [str(self._numbered(ref, now)) for ref in refs], now)
        if isinstance(numbered, ProviderError):
            return ()
        types = launch.types or ("" if launch.requirements else self._type_of(launch.template, now),)
        return tuple(MachineVersion(text, instance_type=name) for text in numbered for name in types)

    def _numbered(self, ref: TemplateRef, now: float) -> TemplateRef:
        """Return the number that `$Latest` or `$Default` stands for."""
        if ref.is_fixed:
            return ref
        number = self._template_version(ref, now).get("VersionNumber")
        if number is None:
            raise ProviderError(f"{ref} has no number")
        return msgspec.structs.replace(ref, version=str(number))

    def _type_of(self, ref: TemplateRef, now: float) -> str:
        """Return the type that a template names, if the template has been read and leaves AWS no choice."""
        data = (self._templates.get(ref, now) or {}).get("LaunchTemplateData") or {}
        return "" if data.get("InstanceRequirements") else str(data.get("InstanceType") or "")

    def _read_configurations(self, names: Iterable[str], now: float) -> None:
        unknown = sorted(name for name in names if self._configurations.get(name, now) is None)
        for configuration in self._api.launch_configurations(unknown):
            self._configurations.put(
                configuration["LaunchConfigurationName"], str(configuration.get("InstanceType") or ""), now, None
            )

    def _read_types(self, names: Iterable[str], now: float) -> None:
        unknown = sorted(name for name in names if self._types.get(name, now) is None)
        for description in self._api.instance_types(unknown):
            self._types.put(description["InstanceType"], _shape_of(description), now, None)

    def _candidates(
        self, launch: Launch, now: float, refused: ProviderError | None
    ) -> tuple[str, ...] | Shape | ProviderError:
        """Return the types that a group may start, or the shape that AWS's requirements guarantee."""
        if launch.types:
            return tuple(launch.types)
        if launch.configuration:
            instance_type = self._configurations.get(launch.configuration, now)
            missing = ProviderError(f"launch configuration {launch.configuration} does not exist")
            return (instance_type,) if instance_type else refused or missing
        ref = launch.template
        if ref is None:
            return ProviderError("it has neither launch configuration nor launch template")
        return self._rest.attempt(lambda: self._of_template(ref, launch.requirements, now), now)

    def _of_template(
        self, ref: TemplateRef, overriding: Mapping[str, Any] | None, now: float
    ) -> tuple[str, ...] | Shape:
        data: Mapping[str, Any] = self._template_version(ref, now).get("LaunchTemplateData") or {}
        requirements = overriding or data.get("InstanceRequirements")
        if requirements:
            return self._meeting(requirements, data.get("ImageId"), now)
        if data.get("InstanceType"):
            return (str(data["InstanceType"]),)
        raise ProviderError(f"{ref} names no instance type")

    def _template_version(self, ref: TemplateRef, now: float) -> Mapping[str, Any]:
        found = self._templates.get(ref, now)
        if found is None:
            found = self._api.launch_template(ref.key, ref.version)
            if found is None:
                raise ProviderError(f"{ref} does not exist")
            self._templates.put(ref, found, now, None if ref.is_fixed else _FLOATING_S)
        return found

    def _meeting(self, requirements: Mapping[str, Any], image_id: str | None, now: float) -> Shape:
        """Return the smallest shape that AWS may choose."""
        key = (repr(requirements), image_id)
        shape = self._chosen.get(key, now)
        if shape is None:
            image = (self._api.image(image_id) if image_id else None) or {}
            instance_type = next(self._api.types_meeting(requirements, image), "")
            shape = Shape(
                instance_type=instance_type,
                cpus=int(_least(requirements, "VCpuCount")),
                memory_bytes=int(_least(requirements, "MemoryMiB")) * _MIB,
                arch=_arch([str(image.get("Architecture", ""))]),
                accelerators=_required_accelerators(requirements),
            )
            self._chosen.put(key, shape, now, _FLOATING_S)
        return shape

    def _shape(
        self, types: tuple[str, ...] | Shape | ProviderError, now: float, refused: ProviderError | None
    ) -> Shape | ProviderError:
        if not isinstance(types, tuple):
            return types
        known = [shape for name in types if (shape := self._types.get(name, now)) is not None]
        if len(known) < len(types):
            unknown = ", ".join(name for name in types if self._types.get(name, now) is None)
            return refused or ProviderError(f"EC2 does not know the instance types {unknown} here")
        return _least_of(known)


def _shape_of(data: Mapping[str, Any]) -> Shape:
    """Return the shape of an element of DescribeInstanceTypes."""
    accelerators: dict[str, int] = {}
    for gpu in (data.get("GpuInfo") or {}).get("Gpus") or ():
        resource = _GPU_RESOURCES.get(str(gpu.get("Manufacturer", "")).lower())
        if resource is not None:
            accelerators[resource] = accelerators.get(resource, 0) + int(gpu.get("Count") or 0)
    return Shape(
        instance_type=str(data["InstanceType"]),
        cpus=int((data.get("VCpuInfo") or {}).get("DefaultVCpus") or 0),
        memory_bytes=int((data.get("MemoryInfo") or {}).get("SizeInMiB") or 0) * _MIB,
        arch=_arch((data.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()),
        accelerators=accelerators,
    )


def _least_of(shapes: Sequence[Shape]) -> Shape:
    """Return the smallest resources of all the types: a pod that fits these fits any of the types."""
    first = shapes[0]
    return Shape(
        instance_type=first.instance_type,
        cpus=min(shape.cpus for shape in shapes),
        memory_bytes=min(shape.memory_bytes for shape in shapes),
        arch=first.arch,
        accelerators={name: min(shape.accelerators.get(name, 0) for shape in shapes) for name in first.accelerators},
    )


def _arch(supported: Sequence[str]) -> str:
    return "arm64" if any(architecture.startswith("arm64") for architecture in supported) else "amd64"


def _least(requirements: Mapping[str, Any], name: str) -> float:
    return float((requirements.get(name) or {}).get("Min") or 0)


def _required_accelerators(requirements: Mapping[str, Any]) -> dict[str, int]:
    count = int(_least(requirements, "AcceleratorCount"))
    makers: Sequence[str] = requirements.get("AcceleratorManufacturers") or ()
    if not count or len(makers) != 1 or "gpu" not in (requirements.get("AcceleratorTypes") or ()):
        return {}
    resource = _GPU_RESOURCES.get(makers[0].lower())
    return {resource: count} if resource else {}
