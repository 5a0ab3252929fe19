"""Secrets in mounted files, and how often a client may fail to prove that it knows them."""

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
    """Secrets by their files, read again each time: a mounted file is replaced without notice.

    While a file cannot be used, what it held before stays in force.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `ConfigError` with a line for every file that cannot be used."""
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
    """Turns a source away for a minute that was wrong twenty times within one. Safe to share between threads."""

    def __init__(self, mono: Callable[[], float]) -> None:
        """`mono` returns seconds of a clock that never jumps."""
        self._mono = mono
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._until: dict[str, float] = {}

    def left_s(self, source: str) -> float:
        """Return for how long a source is turned away; 0 where it is not."""
        with self._lock:
            return max(0.0, self._until.get(source, 0.0) - self._mono())

    def failed(self, source: str) -> None:
        """Note that a source was wrong."""
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
