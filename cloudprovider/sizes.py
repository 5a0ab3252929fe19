"""The sizes of node groups as `--nodes=min:max:name` gives them."""

from collections.abc import Iterator, Sequence

import msgspec

from cloudprovider.number import parse_count
from cloudprovider.problems import Problems
from cloudprovider.quoted import quoted

MOST_NODES = (1 << 31) - 1
"""More than any cloud has; clouds and the gRPC protocol count in 32 bits."""


class SizedName(msgspec.Struct, frozen=True):
    """A node group named by the operator, and the sizes that it may scale between."""

    name: str
    """The provider's name of the group; it may contain colons."""
    min_size: int
    max_size: int


def read_sizes(specs: Sequence[str], problems: Problems) -> Iterator[SizedName]:
    """Yield the sizes of `min:max:name` specifications; malformed ones and repeated names go to `problems`."""
    seen: set[str] = set()
    for text in specs:
        low, high, name = (*text.split(":", 2), "", "")[:3]
        least, most = parse_count(low, MOST_NODES), parse_count(high, MOST_NODES)
        if not name or least is None or most is None or least > most:
            problems.add("nodes", f"{quoted(text)} is not min:max:name with 0 <= min <= max")
        elif name in seen:
            problems.add("nodes", f"{name!r} is given twice")
        else:
            seen.add(name)
            yield SizedName(name, least, most)
