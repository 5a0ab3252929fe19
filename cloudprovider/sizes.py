"""The sizes of node groups as `--nodes=min:max:name` gives them."""

from collections.abc import Iterator, Sequence

import msgspec

from cloudprovider.fields import Problems


class SizedName(msgspec.Struct, frozen=True):
    """A node group named by the operator, and within what it may scale."""

    name: str
    """What the provider knows the group by; it may hold colons."""
    min_size: int
    max_size: int


def read_sizes(specs: Sequence[str], problems: Problems) -> Iterator[SizedName]:
    """Yield what `min:max:name` specifications say; malformed ones and names given twice go to `problems`."""
    seen: set[str] = set()
    for text in specs:
        low, high, name = (*text.split(":", 2), "", "")[:3]
        if not (name and is_size(low) and is_size(high) and int(low) <= int(high)):
            problems.add("nodes", f"{text!r} is not min:max:name with 0 <= min <= max")
        elif name in seen:
            problems.add("nodes", f"{name!r} is given twice")
        else:
            seen.add(name)
            yield SizedName(name, int(low), int(high))


def is_size(text: str) -> bool:
    """Whether a text is a number of machines: digits, and nothing else."""
    return text.isascii() and text.isdecimal()
