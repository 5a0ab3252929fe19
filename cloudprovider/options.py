"""Overrides of flags, read from the tags or annotations of a node group as in Cluster Autoscaler's providers."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from cloudprovider.duration import parse_duration_s
from cloudprovider.interface import GroupSettings
from cloudprovider.number import parse_bool, parse_float
from cloudprovider.problems import Problems
from cloudprovider.quoted import quoted

T = TypeVar("T")


def read_options(values: Mapping[str, str], path: str, problems: Problems) -> GroupSettings:
    """Return the overrides in `values`, by option name. Invalid ones go to `problems`, and the flag applies."""
    options = {name.lower(): value.strip().lower() for name, value in values.items() if value.strip()}

    def read(name: str, parse: Callable[[str], T]) -> T | None:
        text = options.get(name)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            problems.add(f"{path}{name}", f"{quoted(text)} {error}")
            return None

    return GroupSettings(
        scale_down_utilization_threshold=read("scaledownutilizationthreshold", _share),
        scale_down_gpu_utilization_threshold=read("scaledowngpuutilizationthreshold", _share),
        scale_down_unneeded_time_s=read("scaledownunneededtime", _time_s),
        scale_down_unready_time_s=read("scaledownunreadytime", _time_s),
        max_node_provision_time_s=read("maxnodeprovisiontime", _time_s),
        max_node_startup_time_s=read("maxnodestartuptime", _time_s),
        ignore_daemonsets_utilization=read("ignoredaemonsetsutilization", parse_bool),
    )


def _share(text: str) -> float:
    value = parse_float(text)
    if not 0 <= value <= 1:
        raise ValueError("is not within 0 and 1")
    return value


def _time_s(text: str) -> float:
    seconds = parse_duration_s(text)
    if seconds < 0:
        raise ValueError("is negative")
    return seconds
