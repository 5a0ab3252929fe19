"""The headroom of the configuration file, read anew when the file changes."""

from pathlib import Path

from autoscaler.config.headroom import Headroom
from autoscaler.config.load import load_headroom
from autoscaler.errors import ConfigError


class HeadroomFile:
    """Notices changes of a file's content: a mounted ConfigMap changes by its links, not by its times."""

    def __init__(self, path: str, cutoff: int) -> None:
        self._path = Path(path)
        self._cutoff = cutoff
        self._known = self._content()

    def changed(self) -> Headroom | None:
        """Return what the file says now; None where it says what it said. Raises `ConfigError`, once for a content."""
        content = self._content()
        if content == self._known:
            return None
        self._known = content
        if content is None:
            raise ConfigError(f"{self._path}: cannot be read")
        return load_headroom(content, str(self._path), self._cutoff)

    def _content(self) -> str | None:
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
