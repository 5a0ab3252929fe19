"""Selects scale sets as node groups, with their sizes: `--nodes` and `--node-group-auto-discovery`."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from cloudprovider.number import parse_count
from cloudprovider.problems import Problems
from cloudprovider.sizes import MOST_NODES, SizedName

_FLAG = "node-group-auto-discovery"
_FORM = "label:key=value,… with min=n and max=n if you like"


class Selector(msgspec.Struct, frozen=True):
    """Tags that a scale set must have to be a node group, and sizes for those whose tags give none."""

    tags: Mapping[str, str] = {}
    min_size: int | None = None
    max_size: int | None = None


def read_selector(specs: Sequence[str], problems: Problems) -> Selector | None:
    """Return the selector that all specifications make together; None if there are none.

    As in Cluster Autoscaler, a scale set must match every specification. The narrowest sizes win.
    """
    tags: dict[str, str] = {}
    low: list[int] = []
    high: list[int] = []
    for spec in specs:
        kind, colon, body = spec.partition(":")
        if kind != "label" or not colon:
            problems.add(_FLAG, f"{spec!r} is not {_FORM}")
            continue
        before = len(tags)
        for pair in body.split(","):
            key, _, value = pair.partition("=")
            if not key or not value or "=" in value:
                problems.add(_FLAG, f"{pair!r} in {spec!r} is not key=value")
            elif key in ("min", "max"):
                (low if key == "min" else high).extend(_sizes(value, spec, problems))
            elif tags.setdefault(key, value) != value:
                problems.add(_FLAG, f"no scale set has both {key}={tags[key]} and {key}={value}")
        if len(tags) == before and not set(_keys(body)) - {"min", "max"}:
            problems.add(_FLAG, f"{spec!r} names no tag, so it would match nothing")
    selector = Selector(tags, max(low, default=None), min(high, default=None))
    if selector.min_size is not None and selector.max_size is not None and selector.min_size > selector.max_size:
        problems.add(_FLAG, f"the minimum {selector.min_size} is above the maximum {selector.max_size}")
    return selector if specs else None


def sized_by_tags(name: str, tags: Mapping[str, str], selector: Selector) -> SizedName | str | None:
    """Return a matching scale set's sizes or the reason why it cannot be a node group; None if it does not match.

    Its own tags `min` and `max` override the sizes of the selector.
    """
    if any(tags.get(key) != value for key, value in selector.tags.items()):
        return None
    low, high = tags.get("min", selector.min_size), tags.get("max", selector.max_size)
    if low is None or high is None:
        return f"it has no tag {'min' if low is None else 'max'}, and the flag gives none either"
    least, most = parse_count(str(low), MOST_NODES), parse_count(str(high), MOST_NODES)
    if least is None or most is None or least > most:
        return f"its sizes are min={low} and max={high}"
    return SizedName(name, least, most)


def _keys(body: str) -> Iterator[str]:
    return (pair.partition("=")[0] for pair in body.split(","))


def _sizes(text: str, spec: str, problems: Problems) -> Iterator[int]:
    if (size := parse_count(text, MOST_NODES)) is None:
        problems.add(_FLAG, f"{text!r} in {spec!r} is not a number of nodes")
    else:
        yield size
