"""Reads the tags of a scale set that describe its nodes.

Names of tags cannot contain a slash, so after a prefix `_` stands for `/`, and `~2` for `_`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from cloudprovider.interface import GroupSettings, TaintSpec
from cloudprovider.number import parse_count
from cloudprovider.options import read_options
from cloudprovider.problems import Problems
from cloudprovider.quantity import parse_quantity

_PREFIX = "k8s.io_cluster-autoscaler_node-template_"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POOL_NAMES = ("aks-managed-poolName", "poolName")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def labels_of(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of new nodes. Invalid label values are left out."""
    return {name: value for name, value in _named(tags, "label_") if is_label_value(value)}


def taints_of(tags: Mapping[str, str]) -> Sequence[TaintSpec]:
    """Return the taints of new nodes, from `<value>:<effect>`. Values without an effect are left out."""
    taints = []
    for name, text in sorted(_named(tags, "taint_")):
        value, colon, effect = text.rpartition(":")
        if colon and effect in _EFFECTS and is_label_value(value):
            taints.append(TaintSpec(name, value, effect))
    return tuple(taints)


def resources_of(tags: Mapping[str, str]) -> dict[str, str]:
    """Return amounts of resources, which override those of the machine size."""
    return {name: value for name, value in _named(tags, "resources_") if _is_amount(value)}


def attach_limits_of(tags: Mapping[str, str]) -> dict[str, int]:
    """Return how many volumes a new node can attach, by CSI driver. Invalid numbers are left out."""
    counts = ((driver, parse_count(text)) for driver, text in _named(tags, "csi-driver_"))
    return {driver: count for driver, count in counts if count is not None}


def settings_of(tags: Mapping[str, str]) -> GroupSettings:
    """Return overrides of flags. For invalid values, the flag applies."""
    prefix = f"{_PREFIX}autoscaling-options_"
    options = {tag.removeprefix(prefix): value for tag, value in tags.items() if tag.startswith(prefix)}
    return read_options(options, prefix, Problems())


def pool_of(tags: Mapping[str, str]) -> str:
    """Return the node pool of a managed cluster (AKS); empty if the scale set belongs to none."""
    return next((tags[name] for name in _POOL_NAMES if tags.get(name)), "")


def is_label_value(text: str) -> bool:
    """Whether this is a valid value of a label."""
    return _LABEL_VALUE.fullmatch(text) is not None


def _named(tags: Mapping[str, str], kind: str) -> Iterator[tuple[str, str]]:
    prefix = _PREFIX + kind
    for tag, value in tags.items():
        name = tag.removeprefix(prefix)
        if name and name != tag:
            yield name.replace("_", "/").replace("~2", "_"), value


def _is_amount(text: str) -> bool:
    try:
        return parse_quantity(text) >= 0
    except ValueError:
        return False
