"""Models of the share of a machine that the system reserves: kernel, disk layout and kubelet.

The figures are those that Cluster Autoscaler reckons with for GCE, so that both expect the same room on a new node.
"""

import math
from collections.abc import Mapping

from cloudprovider.gce.kube_env import KubeEnv
from cloudprovider.number import parse_float
from cloudprovider.quantity import parse_quantity

KIB, MIB, GIB = 1024, 1024**2, 1024**3
LOCAL_SSD_BYTES = 375 * GIB

_EVICTION_MEMORY = 100 * MIB
_EVICTION_STORAGE_SHARE = 0.1
_SSD_OVERHEAD_KIB = {
    "cos": {
        1: 7289472,
        2: 13725224,
        3: 20031312,
        4: 26332924,
        5: 32634536,
        6: 38946604,
        7: 45254008,
        8: 51556096,
        16: 52837800,
        24: 78686620,
    },
    "ubuntu": {
        1: 7219840,
        2: 13651496,
        3: 19953488,
        4: 26255100,
        5: 32556712,
        6: 38860588,
        7: 45163896,
        8: 51465984,
        16: 52747688,
        24: 78601704,
    },
}
"""Space that a file system over local SSDs takes, by distribution and number of SSDs."""


def kernel_memory(os: str, distribution: str, arch: str, physical: int) -> int:
    """Bytes of memory that the kernel keeps."""
    if os != "linux":
        return 0
    kept = physical // 64 + 16 * MIB
    if physical > 3 * GIB:
        kept += 64 * MIB  # bounce buffers for devices that reach 32 bits only
    if physical <= 8 * GIB:
        kept += 8 * MIB
    correction = int(min(0.00175 * physical, 248 * MIB))
    if distribution == "cos":
        kept += correction
        if arch == "arm64":
            kept = math.floor(kept * 0.9971 + 0.5)
    elif distribution == "ubuntu":
        kept += correction + 4 * MIB
    return kept


def boot_disk_overhead(distribution: str, arch: str, disk: int) -> int:
    """Bytes of a boot disk that pods cannot have."""
    spare = int(min(100 * MIB, math.ceil(0.001 * disk)))
    match distribution:
        case "cos":
            kept = math.ceil(0.015635 * disk) + math.ceil(4.148 * GIB) + spare
            return kept + 64 * MIB if arch == "arm64" else kept
        case "ubuntu":
            return math.ceil(0.03083 * disk) + math.ceil(0.171 * GIB) + spare
        case _:
            return math.ceil(0.1133 * GIB) + math.ceil(0.010 * GIB)


def local_ssd_overhead(distribution: str, disks: int) -> int:
    """Bytes that a file system over local SSDs takes, by the next larger measured number of SSDs."""
    measured = _SSD_OVERHEAD_KIB.get(distribution, {})
    return next((kept for count, kept in measured.items() if count >= disks), max(measured.values(), default=0)) * KIB


def allocatable(capacity: Mapping[str, int], env: KubeEnv) -> dict[str, float]:
    """Return the allocatable amounts of a capacity. Nothing is deducted if the kubelet's share is not known."""
    if env.kube_reserved is None:
        return dict(capacity)
    left: dict[str, float] = {}
    for name, amount in capacity.items():
        rest = float(amount) - float(parse_quantity(env.kube_reserved.get(name, "0")))
        if name == "memory":
            rest -= _eviction_memory(env.eviction_hard)
        elif name == "ephemeral-storage":
            rest -= int(_eviction_storage_share(env.eviction_hard) * amount)
        left[name] = max(rest, 0.0)
    return left


def _eviction_memory(eviction: Mapping[str, str]) -> int:
    try:
        return int(parse_quantity(eviction["memory.available"]))
    except (KeyError, ValueError):
        return _EVICTION_MEMORY


def _eviction_storage_share(eviction: Mapping[str, str]) -> float:
    text = eviction.get("nodefs.available", "")
    try:
        share = parse_float(text.removesuffix("%")) / 100 if text.endswith("%") else math.nan
    except ValueError:
        share = math.nan
    return share if 0 <= share <= 1 else _EVICTION_STORAGE_SHARE
