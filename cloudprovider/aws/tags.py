"""Reads the tags that describe a group's nodes and its scaling options."""

import re
from collections.abc import Iterator, Mapping

from cloudprovider.interface import GroupSettings, TaintSpec
from cloudprovider.number import parse_count
from cloudprovider.options import read_options
from cloudprovider.problems import Problems
from cloudprovider.quantity import parse_quantity

_NODE_TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
_LABEL, _TAINT, _RESOURCE, _OPTION, _DRIVER = (
    f"{_NODE_TEMPLATE}{kind}/" for kind in ("label", "taint", "resources", "autoscaling-options", "csi-driver")
)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_EFFECTS = frozenset({"NoSchedule", "NoExecute", "PreferNoSchedule"})


def labels_of(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the valid labels of `.../node-template/label/<label>`."""
    return {key: value for key, value in _under(_LABEL, tags) if _VALUE.fullmatch(value)}


def taints_of(tags: Mapping[str, str]) -> tuple[TaintSpec, ...]:
    """Return the well-formed taints of `.../node-template/taint/<key>` = `<value>:<effect>`."""
    split = ((key, *text.rpartition(":")) for key, text in _under(_TAINT, tags))
    return tuple(
        TaintSpec(key, value, effect)
        for key, value, colon, effect in split
        if colon and effect in _EFFECTS and _VALUE.fullmatch(value)
    )


def resources_of(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the valid quantities of `.../node-template/resources/<name>`."""
    return {name: text for name, text in _under(_RESOURCE, tags) if _is_amount(text)}


def attach_limits_of(tags: Mapping[str, str]) -> dict[str, int]:
    """Return the valid limits of `.../node-template/csi-driver/<driver>`: how many volumes a node can attach."""
    counts = ((driver, parse_count(text)) for driver, text in _under(_DRIVER, tags))
    return {driver: count for driver, count in counts if count is not None}


def settings_of(tags: Mapping[str, str]) -> GroupSettings:
    """Return the overrides of `.../node-template/autoscaling-options/<key>`. Invalid values are ignored."""
    return read_options(dict(_under(_OPTION, tags)), _OPTION, Problems())


def unusable(tags: Mapping[str, str]) -> Iterator[str]:
    """Yield the tags with our prefix whose values are invalid and have no effect."""
    labels, resources, limits = labels_of(tags), resources_of(tags), attach_limits_of(tags)
    tainted = {taint.key for taint in taints_of(tags)}
    for prefix, used in ((_LABEL, labels), (_TAINT, tainted), (_RESOURCE, resources), (_DRIVER, limits)):
        yield from (f"{prefix}{key}={value}" for key, value in _under(prefix, tags) if key not in used)
    for key, value in _under(_OPTION, tags):
        if settings_of({_OPTION + key: value}) == GroupSettings():
            yield f"{_OPTION}{key}={value}"


def _under(prefix: str, tags: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in tags.items():
        if key.startswith(prefix) and key != prefix:
            yield key.removeprefix(prefix), value


def _is_amount(text: str) -> bool:
    try:
        return parse_quantity(text) >= 0
    except ValueError:
        return False
