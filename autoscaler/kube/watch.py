"""Reflectors: each keeps a store up to date with one kind on the API server, by list and watch.

A list comes in chunks; the watch then resumes from the last version seen, over torn streams and restarts of the
server, and only a version the server has forgotten makes the reflector list again. It never gives up.
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
_METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=1,{JSON}"
_METADATA_WATCH = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=1,{JSON}"

log = Log(__name__)

StopWait = Callable[[threading.Event, float], bool]
"""Waits for the event or that many seconds, like `threading.Event.wait`; True once the event is set."""


class Stream(Protocol):
    """A watch that is open."""

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the lines of each read until the server ends the stream; `RetryLater` when it breaks."""
        ...

    def abort(self) -> None:
        """Wake a blocked reader, from another thread."""
        ...

    def close(self) -> None:
        """Give the connection up, from the reading thread."""
        ...


class ListsAndWatches(Protocol):
    """What a reflector needs of the client."""

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = ...) -> bytes:
        """Read one chunk of a list."""
        ...

    def watch(self, path: str, query: Mapping[str, str], accept: str, read_timeout_s: float) -> Stream:
        """Open a watch; so many seconds without a byte end it, as the server would."""
        ...


class KindSource(msgspec.Struct, Generic[T], frozen=True):
    """Which objects to follow, and how to read them."""

    path: str
    """The collection, such as /api/v1/pods."""
    decoder: Decoder[T]
    field_selector: str = ""
    label_selector: str = ""
    partial_metadata: bool = False
    """Ask for names, labels and owners only; a server that cannot do so sends whole objects."""
    optional: bool = False
    """A server that does not know the kind, or does not let us read it, has no object of it: asked again rarely."""
    older_paths: tuple[str, ...] = ()
    """Where to look in turn after `path` for an optional kind that may be served in an older version only."""

    @property
    def selectors(self) -> dict[str, str]:
        """The query parameters that list and watch share."""
        query = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {name: value for name, value in query.items() if value}


class ReflectorStats(msgspec.Struct):
    """A reflector's counters since it started; what `Reflector.stats` returns is a copy."""

    relists: int = 0
    """Completed lists, the first included."""
    watch_restarts: int = 0
    """Watches opened after the first one of each list."""
    decode_errors: int = 0
    undecoded: int = 0
    """How many objects there are now that cannot be decoded."""
    undecoded_examples: Mapping[str, str] = {}
    """What is wrong with some of them, by `namespace/name`."""
    failures: int = 0
    """Lists and watches that failed, for whatever reason."""
    events: int = 0
    decode_s: float = 0.0
    """Seconds spent on decoding and storing."""
    last_received_mono: float | None = None
    """Monotonic second of the last page, event, bookmark or watch that was granted: how fresh the store is known to be.

    None: never heard of, or the server does not have it.
    """
    last_error: str | None = None
    """Why it does not work at the moment; None when it does."""
    failing_since_mono: float | None = None
    """Monotonic second from which on it does not work; None when it does."""


class _VersionExpired(Exception):
    """The version we hold is of no more use: list again. The message says why."""


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
        """`wait` and `rng` (backoff jitter, watch lengths) are for tests and for runs that must repeat.

        A watch that brings nothing for `silence_s` is opened anew: its kind may be quiet, or the connection be dead.
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
        self._undecoded = UndecodedObjects(source.path, store, source.decoder)
        self._synced = threading.Event()
        self._stopping = threading.Event()
        self._stream: Stream | None = None
        self._stream_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"watch {source.path}", daemon=True)

    @property
    def path(self) -> str:
        """The collection it follows."""
        return self._source.path

    @property
    def stats(self) -> ReflectorStats:
        """The counters, as of now."""
        return copy.copy(self._stats)

    @property
    def has_synced(self) -> bool:
        """Whether the store has held a complete list at least once."""
        return self._synced.is_set()

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait for the first complete list; False if it is not there in time."""
        return self._synced.wait(timeout_s)

    def start(self) -> None:
        """Begin to list and watch."""
        self._thread.start()

    def interrupt(self) -> None:
        """End the watch, without waiting for the thread."""
        self._stopping.set()
        with self._stream_lock:
            if self._stream is not None:
                self._stream.abort()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End the watch; False if the thread is still held up by the network after `timeout_s`."""
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
        """List if need be, then watch until the stream ends; returns the seconds to wait before the next step."""
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
            if error.status == 400:  # the version, perhaps: from another life of the server
                self._version = None
            return self._mark_failed(error)
        except (_VersionExpired, Gone) as error:
            just_listed = (
                self._version is None or self._watches_since_list <= 1
            )  # else listing again would help no more
            self._version = None
            pause_s = self._mark_failed(error)
            return pause_s if just_listed else 0.0
        except msgspec.MsgspecError as error:
            self._version = None
            self._stats.decode_errors += 1
            return self._mark_failed(error)
        return 0.0

    def _mark_absent(self, error: Exception) -> float:
        """Take note that the server has no such kind, or not for us; returns the pause before it is asked again."""
        paths = (self._source.path, *self._source.older_paths)
        self._path = paths[(paths.index(self._path) + 1) % len(paths)]
        if self._path != self._source.path:
            return 0.0  # an older version may have objects
        if not self._is_absent:
            log.warning("kube.kind_absent", path=self._source.path, error=one_line(error))
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
        """Apply events until the server ends the watch. Raises what ended it otherwise."""
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
        """Decode and store one batch; what came before a bad line is kept."""
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
                    self._store.apply(deltas)  # the object may be among them
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
        """Note a failure; returns the pause before the next try: exponential, jittered, longer if the server asks."""
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
