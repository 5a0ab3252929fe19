"""A section of the configuration file, read anew when the file changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from autoscaler.config.load import Sections, load_sections
from autoscaler.errors import ConfigError

S = TypeVar("S")


class SectionFile(Generic[S]):
    """Notices changes of a file's content: a mounted ConfigMap changes by its links, not by its times."""

    def __init__(self, path: str, cutoff: int, section: Callable[[Sections], S]) -> None:
        """`section` picks out what is wanted; `cutoff` is the priority below which pods are expendable."""
        self._path = Path(path)
        self._cutoff = cutoff
        self._section = section
        self._known = self._content()

    def changed(self) -> S | None:
        """Return what the file says now; None where it says what it said. Raises `ConfigError`, once for a content."""
        content = self._content()
        if content == self._known:
            return None
        self._known = content
        if content is None:
            raise ConfigError(f"{self._path}: cannot be read")
        return self._section(load_sections(content, str(self._path), self._cutoff))

    def _content(self) -> str | None:
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
