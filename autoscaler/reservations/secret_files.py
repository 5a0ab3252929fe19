"""Reads secrets from mounted files, and limits failed authentications of a client."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from autoscaler.errors import ConfigError
from autoscaler.logs import Log
from autoscaler.reservations.signature import SHORTEST_SECRET

log = Log(__name__)

_FAILURES, _WINDOW_S = 20, 60.0
_MOST_SOURCES = 1024
_LARGEST_SECRET = 64 * 1024


class SecretFiles:
    """Secrets by their files. Each use reads the file again, because a mounted file changes without notice.

    If a file becomes unusable, its last contents stay in force.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `ConfigError` with a line for every unusable file."""
        problems = []
        self._held: dict[str, bytes] = {}
        for path in paths:
            try:
                self._held[path] = _read(path)
            except ValueError as error:
                problems.append(f"config: reservations.auth: {path}: {error}")
        if problems:
            raise ConfigError(problems)

    def __iter__(self) -> Iterator[bytes]:
        """Yield all secrets."""
        for path, held in list(self._held.items()):
            try:
                secret = _read(path)
            except ValueError as error:
                log.warning("reservations.secret_not_read", file=path, error=error)
                secret = held
            self._held[path] = secret
            yield secret


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            secret = file.read(_LARGEST_SECRET).rstrip(b"\r\n")
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(f"holds fewer than {SHORTEST_SECRET} bytes")
    return secret


class FailureLimiter:
    """Rejects a source for a minute after twenty failures within one minute. Threads may share it."""

    def __init__(self, mono: Callable[[], float]) -> None:
        """`mono` returns monotonic seconds."""
        self._mono = mono
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._until: dict[str, float] = {}

    def left_s(self, source: str) -> float:
        """Return how long the source is rejected, in seconds; 0 if it is not."""
        with self._lock:
            return max(0.0, self._until.get(source, 0.0) - self._mono())

    def failed(self, source: str) -> None:
        """Record a failure of a source."""
        now = self._mono()
        with self._lock:
            recent = self._failures.setdefault(source, deque())
            self._failures.move_to_end(source)
            recent.append(now)
            while recent and now - recent[0] > _WINDOW_S:
                recent.popleft()
            if len(recent) >= _FAILURES:
                self._until[source] = now + _WINDOW_S
                recent.clear()
            while len(self._failures) > _MOST_SOURCES:
                oldest, _ = self._failures.popitem(last=False)
                self._until.pop(oldest, None)
