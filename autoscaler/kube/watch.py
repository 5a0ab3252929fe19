"""Reflectors: each keeps a store up to date with one kind on the API server, by list and watch.

A list comes in chunks. The watch then resumes from the last version, even after broken streams and restarts of the
server. The reflector lists again only if the server has forgotten the version. It never gives up.
"""

import copy
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

import msgspec

from autoscaler.clock import Clock
from autoscaler.errors import Gone, Refused, RetryLater, one_line
from autoscaler.kube.call import JSON, Call
from autoscaler.kube.store import Delta, Store
from autoscaler.kube.undecoded import UndecodedObjects
from autoscaler.logs import Log
from autoscaler.objects.decode import Decoder, Named, Undecoded, WatchEventType
from autoscaler.stopwatch import stopwatch

T = TypeVar("T", bound=Named)

_PAGE_ITEMS = 500
_LIST_TIMEOUT_S = 60.0
_WATCH_S = (300, 600)
_MAX_SILENCE_S = 90.0
_FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 30.0
_HEALTHY_S = 60.0
_ABSENT_PAUSE_S = 60.0
_FORBIDDEN = 403
NAME_FIELD = "metadata.name="
"""Field selector of one object, without its name."""
_METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=1,{JSON}"
_METADATA_WATCH = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=1,{JSON}"

log = Log(__name__)

StopWait = Callable[[threading.Event, float], bool]
"""Waits for the event or this many seconds, like `threading.Event.wait`; returns True if the event is set."""


class Stream(Protocol):
    """An open watch."""

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the lines of each read until the server ends the stream; raises `RetryLater` if it breaks."""
        ...

    def abort(self) -> None:
        """Wake a blocked reader; called from another thread."""
        ...

    def close(self) -> None:
        """Close the connection; called from the reading thread."""
        ...


class ListsAndWatches(Protocol):
    """The methods of the client that a reflector uses."""

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = ...) -> bytes:
        """Read one chunk of a list."""
        ...

    def watch(self, path: str, query: Mapping[str, str], accept: str, read_timeout_s: float) -> Stream:
        """Open a watch; it ends after `read_timeout_s` seconds without a byte, as if the server had ended it."""
        ...


class KindSource(msgspec.Struct, Generic[T], frozen=True):
    """Which objects to follow, and how to decode them."""

    path: str
    """The path of the collection, such as /api/v1/pods."""
    decoder: Decoder[T]
    field_selector: str = ""
    label_selector: str = ""
    partial_metadata: bool = False
    """Ask only for names, labels and owners; a server without support sends whole objects."""
    optional: bool = False
    """If the server does not have the kind, or does not let us read it, the store stays empty and the retries are
    rare.
    """
    older_paths: tuple[str, ...] = ()
    """Paths to try in order after `path`, for an optional kind that the server may serve only in an older version."""

    rare: bool = False
    """Whether most servers lack the kind, so that its absence is no news."""

    @property
    def subject(self) -> str:
        """The path of what is followed: of the collection, or of the one object that is selected by its name."""
        name = self.field_selector.removeprefix(NAME_FIELD)
        return self.path if name == self.field_selector else f"{self.path}/{name}"

    @property
    def selectors(self) -> dict[str, str]:
        """The query parameters that list and watch share."""
        query = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {name: value for name, value in query.items() if value}


class ReflectorStats(msgspec.Struct):
    """A reflector's counters since it started; what `Reflector.stats` returns is a copy."""

    relists: int = 0
    """Number of completed lists, including the first."""
    watch_restarts: int = 0
    """Number of watches opened after the first one of each list."""
    undecoded: int = 0
    """Number of objects that cannot be decoded at present."""
    undecoded_examples: Mapping[str, str] = {}
    """Errors of some of those objects, by `namespace/name`."""
    failures: int = 0
    """Number of lists and watches that failed for any reason."""
    events: int = 0
    decode_s: float = 0.0
    """Seconds spent on decoding and storing."""
    last_received_mono: float | None = None
    """Monotonic second of the last page, event, bookmark or accepted watch: the store was up to date then.

    None if there was no such response, or the server does not have the kind.
    """
    last_error: str | None = None
    """The current error; None while lists and watches succeed."""
    failing_since_mono: float | None = None
    """Monotonic second since which lists and watches fail; None while they succeed."""


class _VersionExpired(Exception):
    """The version we hold is no longer valid: list again. The message says why."""


class Reflector(Generic[T]):
    """Keeps `store` up to date from its own thread, from `start` to `stop`."""

    def __init__(
        self,
        source: KindSource[T],
        store: Store[T],
        client: ListsAndWatches,
        clock: Clock,
        wait: StopWait = threading.Event.wait,
        rng: random.Random | None = None,
        silence_s: float = _MAX_SILENCE_S,
    ) -> None:
        """`wait` and `rng` (backoff jitter, watch lengths) are for tests and reproducible runs.

        A watch without events for `silence_s` seconds is reopened, because the connection may be dead.
        """
        self._source = source
        self._path = source.path
        self._is_absent = False
        self._store = store
        self._client = client
        self._clock = clock
        self._wait = wait
        self._rng = rng if rng is not None else random.Random()
        self._silence_s = silence_s
        self._version: str | None = None
        self._watches_since_list = 0
        self._lines_read = 0
        self._consecutive_failures = 0
        self._stats = ReflectorStats()
        self._undecoded = UndecodedObjects(source.subject, store, source.decoder)
        self._synced = threading.Event()
        self._stopping = threading.Event()
        self._stream: Stream | None = None
        self._stream_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"watch {source.subject}", daemon=True)

    @property
    def path(self) -> str:
        """The path of what is followed."""
        return self._source.subject

    @property
    def stats(self) -> ReflectorStats:
        """The counters, as of now."""
        return copy.copy(self._stats)

    @property
    def has_synced(self) -> bool:
        """Whether the store has held a complete list at least once."""
        return self._synced.is_set()

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait for the first complete list; return False after `timeout_s` seconds."""
        return self._synced.wait(timeout_s)

    def start(self) -> None:
        """Start to list and watch."""
        self._thread.start()

    def interrupt(self) -> None:
        """End the watch, without waiting for the thread."""
        self._stopping.set()
        with self._stream_lock:
            if self._stream is not None:
                self._stream.abort()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End the watch; return False if the thread still waits for the network after `timeout_s` seconds."""
        self.interrupt()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                pause_s = self.step()
            except Exception as error:  # noqa: BLE001  # the top of a thread
                log.crashed("kube.watch_crashed", path=self.path)
                self._version = None
                pause_s = self._mark_failed(error)
            if self._wait(self._stopping, pause_s):
                return

    def step(self) -> float:
        """List if necessary, then watch until the stream ends; return the seconds to wait before the next step."""
        try:
            if self._version is None:
                try:
                    self._version = self._list()
                except (Gone, Refused) as error:
                    if not self._source.optional or (isinstance(error, Refused) and error.status != _FORBIDDEN):
                        raise
                    return self._mark_absent(error)
                self._watches_since_list = 0
            self._watch_changes()
        except RetryLater as error:  # resume from the last version
            return self._mark_failed(error, error.retry_after_s)
        except Refused as error:
            if error.status == 400:  # perhaps because of the version, if the server was reinstalled
                self._version = None
            return self._mark_failed(error)
        except (_VersionExpired, Gone) as error:
            just_listed = (
                self._version is None or self._watches_since_list <= 1
            )  # otherwise listing again would not help
            self._version = None
            pause_s = self._mark_failed(error)
            return pause_s if just_listed else 0.0
        except msgspec.MsgspecError as error:
            self._version = None
            return self._mark_failed(error)
        return 0.0

    def _mark_absent(self, error: Exception) -> float:
        """Record that the server does not have the kind or does not let us read it; return the pause before the
        retry.
        """
        paths = (self._source.path, *self._source.older_paths)
        self._path = paths[(paths.index(self._path) + 1) % len(paths)]
        if self._path != self._source.path:
            return 0.0  # an older version may have objects
        if not self._is_absent and not (self._source.rare and isinstance(error, Gone)):
            log.warning("kube.kind_absent", path=self.path, error=one_line(error))
        self._is_absent = self._store.absent = True
        self._stats.last_received_mono = None
        self._store.replace(())
        self._synced.set()
        return _ABSENT_PAUSE_S

    def _list(self) -> str:
        expired = 0
        while True:
            try:
                return self._list_once(paged=expired < 2)
            except Gone:
                # A continue token expired: the list took too long. A server on which that happens again gets
                # one unpaged request instead of an endless loop. Not found at all: let the backoff handle it.
                expired += 1
                if expired > 2:
                    raise

    def _list_once(self, *, paged: bool) -> str:
        accept = _METADATA_LIST if self._source.partial_metadata else JSON
        call = Call(timeout_s=_LIST_TIMEOUT_S, accept=accept, urgent=True)
        query = self._source.selectors
        if paged:
            query["limit"] = str(_PAGE_ITEMS)
        items: list[T] = []
        undecoded: list[Undecoded] = []
        while True:
            if self._stopping.is_set():
                raise RetryLater("stopped while listing")
            body = self._client.get(self._path, query, call)
            started = stopwatch()
            page = self._source.decoder.page(body)
            items.extend(page.items)
            undecoded.extend(page.undecoded)
            self._add_decode_time(started)
            if not page.continue_token:
                break
            query["continue"] = page.continue_token
        started = stopwatch()
        self._store.replace([*items, *self._undecoded.in_place_of(undecoded)])
        self._count_undecoded()
        self._add_decode_time(started)
        if self._is_absent:
            log.info("kube.kind_present", path=self._path)
        self._is_absent = self._store.absent = False
        self._stats.relists += 1
        self._synced.set()
        return page.resource_version

    def _watch_changes(self) -> None:
        """Apply events until the server ends the watch; raises the error if the watch fails."""
        seconds = self._rng.randint(*_WATCH_S)
        query = self._source.selectors | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            "timeoutSeconds": str(seconds),
        }
        accept = _METADATA_WATCH if self._source.partial_metadata else JSON
        opened = self._clock.now().mono
        lines_before = self._lines_read
        self._watches_since_list += 1
        self._stats.watch_restarts += self._watches_since_list > 1
        stream = self._client.watch(self._path, query, accept, self._silence_s)
        self._mark_reached()
        try:
            with self._stream_lock:
                self._stream = stream
            if self._stopping.is_set():  # too late for `stop` to see the stream
                return
            for lines in stream.batches():
                self._apply_lines(lines)
        except RetryLater:
            if self._lines_read > lines_before:
                self._consecutive_failures = 0
            raise
        finally:
            with self._stream_lock:
                self._stream = None
            stream.close()
        lasted_s = self._clock.now().mono - opened
        ended_at_once = self._lines_read == lines_before and lasted_s < min(_HEALTHY_S, self._silence_s)
        if ended_at_once and not self._stopping.is_set():
            raise RetryLater(f"watch {self.path}: the server ended it at once")
        self._consecutive_failures = 0

    def _apply_lines(self, lines: list[bytes]) -> None:
        """Decode and store one batch; the lines before a bad one are kept."""
        started = stopwatch()
        deltas: list[Delta[T]] = []
        applied = 0
        decode = self._source.decoder.change
        try:
            for line in lines:
                change = decode(line)
                if change.verb is WatchEventType.ERROR:
                    raise _VersionExpired(f"watch {self.path}: the server says {change.code}: {change.message}")
                if change.undecoded is not None:
                    self._store.apply(deltas)  # one of the lines may hold the object
                    deltas, applied = [], applied + len(deltas)
                if (delta := self._undecoded.delta_of(change)) is not None:
                    deltas.append(delta)
                self._version = change.resource_version or self._version
                self._lines_read += 1
        finally:
            self._store.apply(deltas)
            self._stats.events += applied + len(deltas)
            self._count_undecoded()
            self._add_decode_time(started)

    def _count_undecoded(self) -> None:
        if self._undecoded or self._stats.undecoded:
            self._stats.undecoded = len(self._undecoded)
            self._stats.undecoded_examples = self._undecoded.examples()

    def _mark_reached(self) -> None:
        if self._stats.last_error is not None:
            log.info("kube.watch_recovered", path=self.path)
            self._stats.last_error = self._stats.failing_since_mono = None
        self._stats.last_received_mono = self._clock.now().mono

    def _mark_failed(self, error: Exception, retry_after_s: float | None = None) -> float:
        """Record a failure; return the pause before the retry: exponential with jitter, or longer if the server
        asks for it.
        """
        text = one_line(error)
        if self._stats.last_error is None and not self._stopping.is_set():
            log.warning("kube.watch_failing", path=self.path, error=text)
        if self._stats.last_error is None:
            self._stats.failing_since_mono = self._clock.now().mono
        self._stats.failures += 1
        self._stats.last_error = text
        max_pause_s = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._consecutive_failures, 16))
        self._consecutive_failures += 1
        pause_s = max_pause_s * self._rng.uniform(0.5, 1.0)
        return max(pause_s, min(retry_after_s or 0.0, _MAX_PAUSE_S))

    def _add_decode_time(self, started: float) -> None:
        self._stats.decode_s += stopwatch() - started
        self._stats.last_received_mono = self._clock.now().mono
