"""Reads standard input for a command that gets `-` as a file name.

Standard input is copied to a temporary file, so that every reader of files can read it, even several times.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from autoscaler.errors import ConfigError
from cloudprovider.file import MOST_BYTES

_SIGN = "-"
_WRITTEN = frozenset({"--to", "--html"})
"""Options that name a file to write."""
_PIECE_BYTES = 1 << 20


@contextlib.contextmanager
def standard_input_as_file(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the command line with the path of a temporary file in place of each `-`; delete the file at the end.

    In the text of a `ConfigError`, the file is called standard input.
    """
    places = [number for number, word in enumerate(words) if _is_read(word, words[number - 1] if number else "")]
    if not places:
        yield list(words)
        return
    import tempfile

    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="autoscaler-"))
            path = Path(folder) / "stdin"
            with path.open("wb") as file:
                _copy(sys.stdin.buffer, file)
        except OSError as error:
            raise ConfigError(f"-: standard input cannot be stored in a temporary file: {error.strerror}") from error
        try:
            yield [f"{word[:-1]}{path}" if number in places else word for number, word in enumerate(words)]
        except ConfigError as error:
            raise ConfigError(problem.replace(str(path), "standard input") for problem in error.problems) from error


def _is_read(word: str, before: str) -> bool:
    option, equals, value = word.rpartition("=")
    if equals and option.startswith("--"):
        return value == _SIGN and option not in _WRITTEN
    return word == _SIGN and before not in _WRITTEN


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    size = 0
    while piece := source.read(_PIECE_BYTES):
        size += len(piece)
        if size > MOST_BYTES:
            raise ConfigError(f"-: standard input has more than {MOST_BYTES >> 30} GiB")
        target.write(piece)
