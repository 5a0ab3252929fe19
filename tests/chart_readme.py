"""Writes the tables of values in the README of the chart from its values.yaml: `python -m tests.chart_readme`.

In values.yaml `## Heading` starts a table, and `# -- Text` describes the value below it, with whatever is inside.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[1] / "charts" / "node-autoscaler"
README = CHART / "README.md"
VALUES = CHART / "values.yaml"
_MARKS = ("<!-- values -->", "<!-- end -->")


def described() -> Iterator[tuple[str, str, str]]:
    """Yield heading, dotted name and description of every described value, in the order of the file."""
    heading, text = "", ""
    path: list[tuple[int, str]] = []
    for line in VALUES.read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif found := re.match(r" *# -- (.*)", line):
            text = found[1]
        elif found := re.match(r"( *)([A-Za-z-]+):", line):
            path = [*(one for one in path if one[0] < len(found[1])), (len(found[1]), found[2])]
            if text:
                yield heading, ".".join(name for _, name in path), text
            text = ""


def defaults() -> dict[str, Any]:
    """Return every default by its dotted name."""
    return dict(_flattened(yaml.safe_load(VALUES.read_text())))


def _flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        yield prefix + name, value
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")


def _shown(default: Any) -> str:
    text = json.dumps(default)
    if default in ("", None, {}, []):
        return ""
    return f"`{text if not isinstance(default, str) else default}`" if len(text) <= 40 else "see `values.yaml`"


def readme() -> str:
    """Return the README with tables of the present values."""
    lines: list[str] = []
    shown = ""
    present = defaults()
    for heading, name, text in described():
        if heading != shown:
            lines += ["", f"### {heading}", "", "| Value | Default | Meaning |", "| --- | --- | --- |"]
            shown = heading
        lines.append(f"| `{name}` | {_shown(present[name])} | {text} |".replace("|  |", "| |"))
    before, after = README.read_text().split(_MARKS[0])[0], README.read_text().split(_MARKS[1])[1]
    return before + _MARKS[0] + "\n" + "\n".join(lines) + "\n\n" + _MARKS[1] + after


if __name__ == "__main__":
    README.write_text(readme())
