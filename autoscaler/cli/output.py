"""Prints results: tables for people, JSON and YAML for programs, Markdown for the documentation."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TextIO

import msgspec
import yaml

from autoscaler.printable import in_one_line, spelled_out


class OutputFormat(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"


DATA_FORMATS = (OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.YAML)


def add_output(parser: argparse.ArgumentParser, formats: Sequence[OutputFormat] = DATA_FORMATS) -> None:
    """Give a subcommand `-o`; the answer is the `Format` in `args.output`, the first of `formats` by default."""
    parser.add_argument(
        "-o",
        "--output",
        type=OutputFormat,
        choices=formats,
        default=formats[0],
        metavar="|".join(formats),
        help=f"how to print the answer (default {formats[0]})",
    )


def to_json(value: object, compact: bool = False) -> str:
    """Encode a value, msgspec structs included, as JSON without a final line break; `compact` keeps it on one line."""
    encoded = msgspec.json.encode(value)
    return (encoded if compact else msgspec.json.format(encoded, indent=2)).decode()


def to_yaml(value: object) -> str:
    """Encode a value, msgspec structs included, as YAML."""
    # In ASCII, because what cannot be seen would have to be escaped in any case, and YAML does so between quotes only.
    return yaml.dump(msgspec.to_builtins(value), Dumper=yaml.CSafeDumper, sort_keys=False)


def to_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lay out rows in left-aligned columns, wide enough for their content."""
    lines = [[in_one_line(str(cell)) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def to_markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write rows as a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def write(text: str, out: TextIO | None = None) -> None:
    """Print a finished text, to standard output unless told otherwise, without what would upset a terminal."""
    print(spelled_out(text.removesuffix("\n")), file=out or sys.stdout)


def write_records(records: Sequence[Mapping[str, object]], form: OutputFormat, out: TextIO | None = None) -> None:
    """Print records that have the same keys, in any format; a table on a terminal wraps when rich is there."""
    out = out or sys.stdout
    header = list(records[0]) if records else []
    rows = [list(map(_cell, record.values())) for record in records]
    if form is OutputFormat.JSON:
        write(to_json(records), out)
    elif form is OutputFormat.YAML:
        write(to_yaml(records), out)
    elif form is OutputFormat.MARKDOWN:
        write(to_markdown(header, rows), out)
    elif not (out.isatty() and _write_rich_table(header, rows, out)):
        write(to_table(header, rows), out)


def _cell(value: object) -> object:
    """Return a value as people read it: nothing for None, lists without brackets."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _write_rich_table(header: Sequence[str], rows: Sequence[Sequence[object]], out: TextIO) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False  # an optional extra: plain columns will do
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(in_one_line(str(cell))) for cell in row))
    Console(file=out).print(table)
    return True
