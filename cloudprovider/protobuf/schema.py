"""Tables of field numbers.

A message is written as entries `number name type`, with semicolons between. `[]` repeats, `{}` maps from strings,
`positive` is an integer whose 0 means unset. A `~` stands before a message whose fields JSON has among those of the
message around it. The other types are the scalars of `codec` and the messages of the same table.
"""

from collections.abc import Mapping

import msgspec


class Field(msgspec.Struct, frozen=True):
    """One field: its JSON name and type."""

    name: str
    type: str
    inline: bool = False
    """JSON has the fields of the message that this holds in its place."""


Messages = Mapping[str, Mapping[int, Field]]
"""Fields by number, by message."""


def messages(texts: Mapping[str, str]) -> Messages:
    """Read a table."""
    return {message: _fields(text) for message, text in texts.items()}


def _fields(text: str) -> Mapping[int, Field]:
    entries = (entry.split() for entry in text.split(";") if entry)
    return {int(number): Field(name, kind.removeprefix("~"), kind.startswith("~")) for number, name, kind in entries}
