"""Prints results: tables for people, JSON and YAML for programs, Markdown for the documentation."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TextIO

import msgspec
import yaml

from autoscaler.cli.table import Block, Table, Terminal, laid_out
from autoscaler.printable import spelled_out
from cloudprovider.number import parse_count

_NARROWEST, _WIDEST = 40, 10_000
_NEXT_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


class OutputFormat(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"


class Colour(StrEnum):
    """The values of `--color`."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


_WIDE = "; wide: a table that leaves nothing out"
DATA_FORMATS = (OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.YAML)


def add_output(parser: argparse.ArgumentParser, formats: Sequence[OutputFormat] = DATA_FORMATS) -> None:
    """Give a subcommand `-o` and, if it has tables, `--color`.

    The values are the `OutputFormat` in `args.output`, by default the first of `formats`, and the `Colour` in
    `args.color`.
    """
    parser.add_argument(
        "-o",
        "--output",
        type=OutputFormat,
        choices=formats,
        default=formats[0],
        metavar="|".join(formats),
        help=f"how to print the answer (default {formats[0]}{_WIDE if OutputFormat.WIDE in formats else ''})",
    )
    if OutputFormat.TABLE in formats:
        _add_colour(parser)


def _add_colour(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        type=Colour,
        choices=tuple(Colour),
        default=Colour.AUTO,
        metavar="|".join(Colour),
        help="when to print tables in colour (default auto: on a terminal, unless NO_COLOR is set)",
    )


def to_json(value: object, compact: bool = False) -> str:
    """Encode a value, msgspec structs included, as JSON without a final line break; `compact` puts it on one line."""
    encoded = msgspec.json.encode(value)
    return (encoded if compact else msgspec.json.format(encoded, indent=2)).decode()


def to_yaml(value: object) -> str:
    """Encode a value, msgspec structs included, as YAML."""
    # In ASCII: invisible characters need escapes in any case, and YAML has escapes only between quotes.
    return yaml.dump(msgspec.to_builtins(value), Dumper=yaml.CSafeDumper, sort_keys=False)


def to_text(value: object, form: OutputFormat, *, compact: bool = False) -> str:
    """Encode a value as YAML, or else as JSON, `compact` or not."""
    return to_yaml(value) if form is OutputFormat.YAML else to_json(value, compact)


def to_markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write rows as a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def write(text: str, out: TextIO | None = None) -> None:
    """Print a finished text, by default to standard output, without characters that would confuse a terminal."""
    print(spelled_out(text.removesuffix("\n")), file=out or sys.stdout)


def write_document(value: object, form: OutputFormat) -> None:
    """Print one of several answers: a line of JSON, or a YAML document."""
    head = "---\n" if form is OutputFormat.YAML else ""
    write(head + to_text(value, form, compact=True))


def show(blocks: Iterable[Block], colour: Colour = Colour.AUTO, out: TextIO | None = None) -> None:
    """Print text and tables for people, by default to standard output."""
    out = out or sys.stdout
    terminal = terminal_of(out, os.environ, colour)
    for block in blocks:
        for line in laid_out(block, terminal):
            print(line, file=out)


def terminal_of(out: TextIO, environ: Mapping[str, str], colour: Colour = Colour.AUTO) -> Terminal:
    """Return the reader's screen. `COLUMNS` overrides the terminal's width, and `--color` overrides `NO_COLOR`.

    A stream that is no terminal has colours only with `--color`, and a width only with `COLUMNS`.
    """
    on_terminal = out.isatty()
    columns = parse_count(environ.get("COLUMNS", ""), _WIDEST)
    if not columns and on_terminal:
        with suppress(OSError):
            columns = os.get_terminal_size(out.fileno()).columns
    plain = environ.get("NO_COLOR") or environ.get("TERM") == "dumb"
    coloured = colour is Colour.ALWAYS or (colour is Colour.AUTO and on_terminal and not plain)
    return Terminal(max(columns, _NARROWEST) if columns else None, coloured)


def write_records(
    records: Sequence[Mapping[str, object]], form: OutputFormat, colour: Colour = Colour.AUTO, out: TextIO | None = None
) -> None:
    """Print records that have the same keys, in any format."""
    keys = list(records[0]) if records else []
    rows = [list(map(_cell, record.values())) for record in records]
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        write(to_text(records, form), out)
    elif form is OutputFormat.MARKDOWN:
        write(to_markdown(keys, rows), out)
    else:
        show([Table(list(map(_head, keys)), rows)], colour, out)


def _head(key: str) -> str:
    """Return a key as the heading of a column: `EXPECTED SECONDS` for `expectedSeconds`."""
    return _NEXT_WORD.sub(" ", key).upper()


def _cell(value: object) -> object:
    """Return a value as people read it: an empty text for None, lists without brackets."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
