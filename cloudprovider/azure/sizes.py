"""Machine sizes: the resources of a scale set's machines, from Azure's own list."""

import logging
import re
from collections.abc import Iterable, Mapping
from math import inf

import msgspec

from cloudprovider.azure.compute import Compute
from cloudprovider.azure.resources import MachineSize
from cloudprovider.interface import ProviderError, Throttled, Transient

_log = logging.getLogger(__name__)

_FRESH_S = 86_400.0
_AGAIN_S = 3600.0
"""How long a refusal, for example for a missing permission, is not tried again."""
_SOON_S = 60.0
_KIND = "virtualmachines"
_FPGA = re.compile(r"standard_np\d", re.ASCII)
_AMD = re.compile(r"standard_(nv\d+as_v4|nv\d+ad\w*_v710_v5|nd\d+\w*_mi300x_v5)", re.ASCII)
_FPGA_RESOURCE = "xilinx.com/fpga-xilinx_u250_gen3x16_xdma_shell_2_1-0"


class Size(msgspec.Struct, frozen=True):
    """The resources of a machine size."""

    cpus: int
    memory_mib: int
    accelerators: int = 0
    accelerator: str = ""
    """Resource name of the accelerators."""
    architecture: str = "amd64"


class Sizes:
    """The sizes of every location with node groups. They are read once a day. Owned by the thread that refreshes."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._sizes: Mapping[str, Mapping[str, Size]] = {}
        self._next_s: dict[str, float] = {}

    def refresh(self, locations: Iterable[str], now: float) -> None:
        """Read the sizes of locations that are due. If that fails, only tags give the resources of nodes."""
        for location in sorted({location.lower() for location in locations}):
            if now < self._next_s.get(location, -inf):
                continue
            try:
                sizes = sizes_by_name(self._compute.sizes(location))
            except ProviderError as error:
                self._next_s[location] = now + (_SOON_S if isinstance(error, Transient | Throttled) else _AGAIN_S)
                _log.warning("azure.sizes_unknown", extra={"fields": {"location": location, "error": error}})
            else:
                self._next_s[location] = now + _FRESH_S
                self._sizes = {**self._sizes, location: sizes}

    def find(self, location: str, name: str) -> Size | None:
        """Return a size. A promotional size equals the size without the suffix."""
        known = self._sizes.get(location.lower(), {})
        name = name.lower()
        return known.get(name) or known.get(name.removesuffix("_promo"))


def sizes_by_name(machine_sizes: Iterable[MachineSize]) -> Mapping[str, Size]:
    """Return sizes by name in lower case. Sizes without known resources are left out."""
    sizes: dict[str, Size] = {}
    for machine_size in machine_sizes:
        if (machine_size.resource_type or "").lower() != _KIND or not machine_size.name:
            continue
        has = {capability.name: capability.value for capability in machine_size.capabilities or () if capability.value}
        size = _size(machine_size.name.lower(), has)
        if size is not None:
            sizes[machine_size.name.lower()] = size
    return sizes


def _size(name: str, has: Mapping[str, str]) -> Size | None:
    try:
        # Of some sizes only a part of the processors can be used.
        cpus = int(has.get("vCPUsAvailable") or has["vCPUs"])
        memory_mib = int(float(has["MemoryGB"]) * 1024)
        accelerators = int(has.get("GPUs", "0"))
    except (KeyError, ValueError):
        return None
    architecture = "arm64" if has.get("CpuArchitectureType", "").lower() == "arm64" else "amd64"
    return Size(cpus, memory_mib, accelerators, _accelerator(name) if accelerators else "", architecture)


def _accelerator(name: str) -> str:
    if _FPGA.match(name):
        return _FPGA_RESOURCE
    return "amd.com/gpu" if _AMD.match(name) else "nvidia.com/gpu"
