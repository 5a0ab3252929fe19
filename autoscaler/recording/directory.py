"""A directory with the newest recordings, which are written in parallel to the passes.

A file appears complete or not at all, and their number never exceeds the maximum. A slow disk does not delay passes:
while one recording is being written, others are dropped and counted. Recordings that a full disk rejects are counted
too.
"""

import contextlib
import os
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from autoscaler.logs import Log
from autoscaler.observe.metrics.labels import Recorded
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.ports import Executor

log = Log(__name__)

_NAME = re.compile(r"pass-(?P<number>\d{8})-\d{8}T\d{6}Z\.json")
_PART_SUFFIX = ".part"


class RecordingDirectory:
    """Stores recordings in a directory. Only the deciding thread may call `put`."""

    def __init__(self, directory: Path, keep: int, executor: Executor, metrics: Metrics) -> None:
        """Stores at most `keep` files; the first write creates the directory."""
        self._directory = directory
        self._keep = keep
        self._executor = executor
        self._metrics = metrics
        self._writing = threading.Lock()
        self._number: int | None = None
        self._failing = False

    def put(self, wall_s: float, encode_pass: Callable[[], bytes | None]) -> None:
        """Write the result of `encode_pass` on the executor, unless it is None. `wall_s` is the time of the pass."""
        if not self._writing.acquire(blocking=False):
            self._metrics.recorded(Recorded.DROPPED)
            return
        self._executor.submit(lambda: self._write(wall_s, encode_pass))

    def _write(self, wall_s: float, encode_pass: Callable[[], bytes | None]) -> None:
        try:
            body = encode_pass()
            if body is not None:
                self._write_file(wall_s, body)
                self._metrics.recorded(Recorded.WRITTEN, len(body))
                self._failing = False
        except OSError as error:
            self._metrics.recorded(Recorded.FAILED)
            if not self._failing:
                log.warning("recorder.not_written", directory=self._directory, error=error.strerror or error)
            self._failing = True
        except Exception:  # noqa: BLE001  # top of a work of its own: the next pass is recorded all the same
            self._metrics.recorded(Recorded.FAILED)
            log.crashed("recorder.crashed")
        finally:
            self._writing.release()

    def _write_file(self, wall_s: float, body: bytes) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        number = self._next_number()
        for surplus in self._recordings()[: -(self._keep - 1) or None]:
            surplus.unlink(missing_ok=True)
        time = datetime.fromtimestamp(wall_s, UTC).strftime("%Y%m%dT%H%M%SZ")
        path = self._directory / f"pass-{number:08d}-{time}.json"
        part_file = path.with_suffix(_PART_SUFFIX)
        try:
            with part_file.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            part_file.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                part_file.unlink(missing_ok=True)
            raise

    def _next_number(self) -> int:
        """Return the number of the next file; complete files of earlier processes stay until they are the oldest."""
        if self._number is None:
            for part_file in self._directory.glob(f"pass-*{_PART_SUFFIX}"):
                part_file.unlink(missing_ok=True)
            numbers = [int(match["number"]) for path in self._recordings() if (match := _NAME.fullmatch(path.name))]
            self._number = max(numbers, default=0)
        self._number = (self._number + 1) % 100_000_000
        return self._number

    def _recordings(self) -> list[Path]:
        """Return the recordings in the directory, oldest first."""
        return sorted(path for path in self._directory.iterdir() if _NAME.fullmatch(path.name))
