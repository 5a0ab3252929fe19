"""The flags, derived from the fields of the tree."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from autoscaler.config.syntax import Support
from autoscaler.config.tree import Config
from cloudprovider.structure import Syntax, key_of


class Flag(msgspec.Struct, frozen=True):
    """One option: its names, its place in the tree, and how to read it."""

    name: str
    section: str
    field: str
    key: str
    """Path in a configuration file, such as `scaleDown.maxDrainParallelism`."""
    default: Any
    help: str
    support: Support
    syntax: Syntax
    bounds: msgspec.Meta | None = None
    why: str = ""
    """Why it is not simply the same as in Cluster Autoscaler; a sentence, or nothing."""

    @property
    def meaning(self) -> str:
        """What it does there and, where that differs, here."""
        return f"{self.help} {self.why}".strip()

    @property
    def unit(self) -> str:
        """What its text looks like, such as `duration`."""
        return self.syntax.unit

    @property
    def is_switch(self) -> bool:
        """Whether the name alone, without a value, means true."""
        return isinstance(self.default, bool)

    def show(self, value: Any) -> str:
        """Write a value of this flag as its text; one that is not set is empty."""
        return "" if value is None else self.syntax.show(value)

    def read(self, text: str) -> Any:
        """Read one occurrence; `ValueError` says what is wrong with it."""
        return self.syntax.read(text, self.bounds)


@cache
def flags() -> Mapping[str, Flag]:
    """Return every flag by name, in the order of the tree."""
    tree = Config()
    return {
        flag.name: flag for section in Config.__struct_fields__ for flag in _of_section(section, getattr(tree, section))
    }


def _of_section(section: str, defaults: object) -> list[Flag]:
    hints = get_type_hints(type(defaults), include_extras=True) if isinstance(defaults, msgspec.Struct) else {}
    section_flags = []
    for field, hint in hints.items():
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        syntax = next((mark for mark in marks if isinstance(mark, Syntax)), None)
        if syntax is None:
            continue
        # The text of the help; then, if the flag is not simply the same as in Cluster Autoscaler, why.
        text, *why = (mark for mark in marks if isinstance(mark, str) and not isinstance(mark, Support))
        name = field.removesuffix("_s").replace("_", "-")
        own_key = key_of(field)
        section_flags.append(
            Flag(
                name=name,
                section=section,
                field=field,
                key=own_key if section == "source" else f"{key_of(section)}.{own_key}",
                default=getattr(defaults, field),
                help=text,
                support=next((mark for mark in marks if isinstance(mark, Support)), Support.SAME),
                syntax=syntax,
                bounds=next((mark for mark in marks if isinstance(mark, msgspec.Meta)), None),
                why="".join(why),
            )
        )
    return section_flags


def value_of(config: Config, flag: Flag) -> Any:
    """Return the value that a configuration has for a flag."""
    return getattr(getattr(config, flag.section), flag.field)


def without_effect(config: Config) -> tuple[str, ...]:
    """Return the flags that somebody set to something else than the default and that change nothing here.

    The daemon names them in one warning, so that no flag is ignored silently.
    """
    idle = (Support.ACCEPTED, Support.NOT_APPLICABLE)
    known = flags()
    return tuple(
        name
        for name in config.given
        if known[name].support in idle and value_of(config, known[name]) != known[name].default
    )
