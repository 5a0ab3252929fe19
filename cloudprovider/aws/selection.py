"""Selects the Auto Scaling groups: `--nodes=min:max:name` and `--node-group-auto-discovery=asg:tag=...`."""

from collections.abc import Mapping, Sequence

import msgspec

from cloudprovider.problems import Problems
from cloudprovider.sizes import SizedName, read_sizes

_FORM = "asg:tag=KEY[=VALUE],KEY[=VALUE],..."


class Selection(msgspec.Struct, frozen=True):
    """The groups that the operator named, and the tags by which others are found."""

    named: Mapping[str, SizedName]
    tags: Mapping[str, str]
    """A group must have every tag; an empty value matches any value."""

    def takes(self, tags: Mapping[str, str]) -> bool:
        """Whether a group with these tags is selected."""
        return bool(self.tags) and all(
            key in tags and (not value or tags[key] == value) for key, value in self.tags.items()
        )


def read_selection(node_specs: Sequence[str], discovery_specs: Sequence[str], problems: Problems) -> Selection:
    """Read both flags. The tags of several discovery specifications must all be there, as in Cluster Autoscaler."""
    named = {size.name: size for size in read_sizes(node_specs, problems)}
    tags: dict[str, str] = {}
    for spec in discovery_specs:
        for key, value in _tags(spec, problems).items():
            if tags.get(key) and value and tags[key] != value:
                problems.add("node-group-auto-discovery", f"no group has both {tags[key]!r} and {value!r} as {key}")
            tags[key] = value or tags.get(key, "")
    if not node_specs and not discovery_specs:
        problems.add("", f"no node groups: set --nodes=min:max:name or --node-group-auto-discovery={_FORM}")
    return Selection(named, tags)


def _tags(spec: str, problems: Problems) -> dict[str, str]:
    kind, _, rest = spec.partition(":")
    parameter, _, listed = rest.partition("=")
    pairs = [pair.partition("=") for pair in listed.split(",")]
    if kind != "asg" or parameter != "tag" or not all(key for key, _, _ in pairs):
        problems.add("node-group-auto-discovery", f"{spec!r} is not {_FORM}")
        return {}
    return {key: value for key, _, value in pairs}
