"""Machine types: how many CPUs and how much memory, and which accelerators and disks come with them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from cloudprovider.number import parse_count

_MIB = 1024**2
_SHARED_CORE = ("micro", "small", "medium")
_SHARED_CORE_CPUS = 2
_ARCHITECTURES = {"X86_64": "amd64", "ARM64": "arm64"}
_NVIDIA = "nvidia-"


class MachineType(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of a machine type."""

    name: str
    cpus: int
    memory_bytes: int
    gpus: int = 0
    """Graphics processors that are part of the type; further ones may be attached by the instance template."""
    arch: str | None = None
    """None if the cloud does not say."""


def custom_machine_type(name: str) -> MachineType | None:
    """Read a custom type's name, `[family-]custom-<cpus>-<MiB>[-ext]`; None for predefined types.

    Raises `ValueError` if the name says custom but is malformed.
    """
    parts = name.split("-")
    if "custom" not in parts[:2]:
        return None
    cpus, memory = (*parts[parts.index("custom") + 1 :], "", "")[:2]
    if parts[0] == "e2" and cpus in _SHARED_CORE:
        cpus = str(_SHARED_CORE_CPUS)
    count, mebibytes = parse_count(cpus), parse_count(memory)
    if count is None or mebibytes is None:
        raise ValueError(f"machine type {name} is not <family>-custom-<cpus>-<memory in MiB>")
    return MachineType(name=name, cpus=count, memory_bytes=mebibytes * _MIB)


def machine_type_from(data: Mapping[str, Any]) -> MachineType:
    """Read a machine type as the API describes it."""
    return MachineType(
        name=str(data.get("name", "")),
        cpus=int(data["guestCpus"]),
        memory_bytes=int(data["memoryMb"]) * _MIB,
        gpus=sum(
            int(accelerator.get("guestAcceleratorCount") or 0)
            for accelerator in data.get("accelerators") or []
            if str(accelerator.get("guestAcceleratorType", "")).startswith(_NVIDIA)
        ),
        arch=_ARCHITECTURES.get(str(data.get("architecture", ""))),
    )


def attached_gpus(properties: Mapping[str, Any]) -> int:
    """Count the graphics processors that an instance template attaches."""
    return sum(
        int(accelerator.get("acceleratorCount") or 0)
        for accelerator in properties.get("guestAccelerators") or []
        if str(accelerator.get("acceleratorType", "")).rpartition("/")[2].startswith(_NVIDIA)
    )
