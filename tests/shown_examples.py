"""Writes into the pages what their commands on scenarios print: `python -m tests.shown_examples`.

A command counts if it stands alone in a block of shell commands and a block of text follows; prose may stand between.
"""

import contextlib
import io
import os
import re
import shlex
from pathlib import Path
from unittest import mock

from autoscaler.cli.main import main

ROOT = Path(__file__).parents[1]
_COMMAND = r"(?<=```sh\n)((?:\.venv/bin/)?autoscaler ((?:plan|explain) --scenario [^\n]*)\n```\n"
_EXAMPLE = re.compile(_COMMAND + r"(?:[^`#\n]*\n)*```text\n).*?(?=```)", re.DOTALL)


def pages() -> list[Path]:
    """Return the pages with such commands."""
    return [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if shown(page)]


def shown(page: Path) -> list[str]:
    """Return the commands whose output a page shows."""
    return [found[2] for found in _EXAMPLE.finditer(page.read_text())]


def refreshed(page: Path) -> str:
    """Return the page with what the commands print now, in a terminal of 100 columns."""
    return _EXAMPLE.sub(lambda found: found[1] + _output(found[2]), page.read_text())


def _output(command: str) -> str:
    printed = io.StringIO()
    with (
        contextlib.chdir(ROOT),
        mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        contextlib.redirect_stdout(printed),
    ):
        assert main(shlex.split(command)) == 0, command
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().strip().splitlines())


if __name__ == "__main__":
    for path in pages():
        path.write_text(refreshed(path))
