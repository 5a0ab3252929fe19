"""Builds the template of a scale set's new nodes."""

from collections.abc import Mapping

from cloudprovider.azure.resources import Disk, Profile, ScaleSet
from cloudprovider.azure.sizes import Size, Sizes
from cloudprovider.azure.tags import attach_limits_of, is_label_value, labels_of, pool_of, resources_of, taints_of
from cloudprovider.interface import NodeTemplate, TaintSpec
from cloudprovider.quantity import parse_quantity

GPU_LABEL = "kubernetes.azure.com/accelerator"
_SPOT_LABEL = "kubernetes.azure.com/scalesetpriority"
_PODS = "110"
_NVIDIA = "nvidia.com/gpu"
_MIB = 2**20
# What AKS withholds from pods, as it documents it: thousandths of a CPU by number of CPUs, and of memory what the
# kubelet may take (20 MiB for each pod and 50 MiB, at most a quarter) and what it keeps free (100 MiB).
_WITHHELD_MILLI = ((64, 740), (32, 420), (16, 260), (8, 180), (4, 140), (2, 100), (0, 60))
_POD_MIB, _KUBELET_MIB, _FREE_MIB = 20, 50, 100


class Templates:
    """Makes templates from machine sizes and tags."""

    def __init__(self, sizes: Sizes, predict_labels: bool) -> None:
        self._sizes = sizes
        self._predict_labels = predict_labels

    def of(self, scale_set: ScaleSet) -> NodeTemplate | None:
        """Return the template; None if neither Azure nor tags give a node's CPU and memory."""
        tags = scale_set.tags or {}
        name = (scale_set.sku.name if scale_set.sku is not None else None) or ""
        size = self._sizes.find(scale_set.location, name)
        profile = scale_set.properties.virtual_machine_profile or Profile()
        disk = (profile.storage.os_disk if profile.storage is not None else None) or Disk()
        tagged = resources_of(tags)
        capacity = {"pods": _PODS, **_amounts(size, disk), **tagged}
        if "cpu" not in capacity or "memory" not in capacity:
            return None
        pool = pool_of(tags)
        labels = _generic_labels(scale_set, name, size, is_windows=_is_windows(profile, disk))
        if self._predict_labels:
            labels |= _predicted_labels(pool, profile, disk, size)
        labels = {key: value for key, value in labels.items() if is_label_value(value)} | labels_of(tags)
        allocatable = _allocatable(capacity, is_managed=bool(pool), tagged=tagged)
        return NodeTemplate(
            labels=labels,
            taints=_taints(tags, pool, profile),
            capacity=capacity,
            allocatable=allocatable,
            zones={zone: _zone_labels(zone) for zone in _zones(scale_set)},
            attach_limits=attach_limits_of(tags),
        )


def _amounts(size: Size | None, disk: Disk) -> dict[str, str]:
    amounts: dict[str, str] = {}
    if size is not None:
        amounts |= {"cpu": str(size.cpus), "memory": f"{size.memory_mib}Mi"}
        if size.accelerators:
            amounts[size.accelerator] = str(size.accelerators)
    if disk.size_gb:
        amounts["ephemeral-storage"] = f"{disk.size_gb}Gi"
    return amounts


def _allocatable(capacity: Mapping[str, str], is_managed: bool, tagged: Mapping[str, str]) -> Mapping[str, str]:
    """Return the allocatable resources. Amounts from tags are already allocatable amounts."""
    if not is_managed:
        return capacity
    memory_mib = int(parse_quantity(capacity["memory"]) / _MIB)
    kubelet_mib = min(_POD_MIB * int(parse_quantity(capacity["pods"])) + _KUBELET_MIB, memory_mib // 4)
    milli = int(parse_quantity(capacity["cpu"]) * 1000)
    withheld = next(held for cpus, held in _WITHHELD_MILLI if milli >= cpus * 1000)
    left = {
        "cpu": f"{max(0, milli - withheld)}m",
        "memory": f"{max(0, memory_mib - kubelet_mib - _FREE_MIB)}Mi",
    }
    return {**capacity, **{name: amount for name, amount in left.items() if name not in tagged}}


def _generic_labels(scale_set: ScaleSet, size_name: str, size: Size | None, is_windows: bool) -> dict[str, str]:
    location = scale_set.location.lower()
    return {
        "kubernetes.io/arch": size.architecture if size is not None else "amd64",
        "kubernetes.io/os": "windows" if is_windows else "linux",
        "node.kubernetes.io/instance-type": size_name,
        "topology.kubernetes.io/region": location,
        "topology.kubernetes.io/zone": "0",
        "topology.disk.csi.azure.com/zone": "",
        **next((_zone_labels(zone) for zone in _zones(scale_set)), {}),
    }


def _zones(scale_set: ScaleSet) -> list[str]:
    """Return the zones in the form of node labels, sorted."""
    location = scale_set.location.lower()
    zones = (f"{location}-{zone}" for zone in sorted(scale_set.zones or ()))
    return [zone for zone in zones if is_label_value(zone)]


def _zone_labels(zone: str) -> dict[str, str]:
    return {"topology.kubernetes.io/zone": zone, "topology.disk.csi.azure.com/zone": zone}


def _predicted_labels(pool: str, profile: Profile, disk: Disk, size: Size | None) -> dict[str, str]:
    """Return labels that AKS puts on its nodes."""
    labels: dict[str, str] = {}
    if pool:
        labels |= _both("agentpool", pool)
        if _is_spot(profile):
            labels[_SPOT_LABEL] = "spot"
    if profile.storage is not None and profile.storage.os_disk is not None:
        is_local = (disk.diff_disk_settings or {}).get("option") == "Local"
        labels |= _both("storageprofile", "ephemeral" if is_local else "managed")
        tier = (disk.managed_disk or {}).get("storageAccountType")
        if isinstance(tier, str):
            labels |= _both("storagetier", tier)
    if size is not None and size.accelerator == _NVIDIA:
        labels |= _both("accelerator", "nvidia")
    return labels


def _both(name: str, value: str) -> dict[str, str]:
    """Return a label under its old name and its new one."""
    return {name: value, f"kubernetes.azure.com/{name}": value}


def _taints(tags: Mapping[str, str], pool: str, profile: Profile) -> tuple[TaintSpec, ...]:
    """Return the taints of the tags, and the taint that AKS puts on every spot node."""
    taints = tuple(taints_of(tags))
    if pool and _is_spot(profile) and all(taint.key != _SPOT_LABEL for taint in taints):
        taints += (TaintSpec(_SPOT_LABEL, "spot", "NoSchedule"),)
    return taints


def _is_spot(profile: Profile) -> bool:
    return (profile.priority or "").lower() in {"spot", "low"}


def _is_windows(profile: Profile, disk: Disk) -> bool:
    return (profile.system is not None and profile.system.windows is not None) or disk.os_type == "Windows"
