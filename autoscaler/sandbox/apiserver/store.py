"""The objects of one kind: sorted as etcd would list them, with a bounded history for watches and old snapshots.

Not thread-safe by itself: `Storage` holds the lock.
"""

from bisect import bisect_right
from collections.abc import Iterator
from heapq import merge
from itertools import islice

import msgspec
from sortedcontainers import SortedDict

from autoscaler.sandbox.apiserver.errors import expired
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.records import ChangeType, Key, StoreChange, Stored
from autoscaler.sandbox.apiserver.selectors import FieldSelector, ParsedSelector, labels_match

_LAST = "\U0010ffff"


class StoreSelection(msgspec.Struct, frozen=True):
    """Which objects a list or watch is about; `None` as namespace means all of them."""

    namespace: str | None = None
    labels: ParsedSelector = ()
    fields: FieldSelector = ()

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to match but the namespace."""
        return not self.labels and not self.fields

    def matches(self, record: Stored) -> bool:
        """Whether the object belongs."""
        if self.namespace is not None and record.key[0] != self.namespace:
            return False
        return labels_match(self.labels, record.labels) and all(term.matches(record.fields) for term in self.fields)

    def equal_to(self, path: str) -> str | None:
        """The value this selection pins a field to, if it does."""
        return next((term.value for term in self.fields if term.path == path and not term.negated), None)


class ListPage(msgspec.Struct, frozen=True):
    """A chunk of a list as of `revision`; `last` is where to continue after, if there is more."""

    records: list[Stored]
    revision: int
    last: Key | None = None
    remaining: int | None = None


class ObjectStore:
    """One kind's objects and their recent changes."""

    def __init__(self, kind: Kind, history_limit: int) -> None:
        self.kind = kind
        self._limit = history_limit
        self._records: SortedDict[Key, Stored] = SortedDict()
        self._index: dict[str, dict[Key, None]] = {}
        self._history: list[StoreChange] = []
        self.floor = 0
        """Changes up to this revision are forgotten."""

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: Key) -> Stored | None:
        """Return one object."""
        return self._records.get(key)

    def records(self, selection: StoreSelection) -> Iterator[Stored]:
        """The selected objects as they are now, in key order."""
        yield from self._candidates(selection, None, {})

    def in_namespace(self, namespace: str | None) -> list[Stored]:
        """Everything there, as a list that outlives changes."""
        return list(self.records(StoreSelection(namespace)))

    def any_in(self, namespace: str) -> bool:
        """Whether the namespace holds an object of this kind."""
        return next(self._keys(namespace, None), None) is not None

    def apply(self, change: StoreChange) -> None:
        """Make a change visible and remember it."""
        before, now = change.before, change.now
        if before is not None:
            self._unindex(before)
        if change.type is ChangeType.DELETED:
            del self._records[now.key]
        else:
            self._put(now)
        self._history.append(change)
        if len(self._history) > 2 * self._limit:
            self.compact(self._history[-self._limit - 1].revision)

    def load(self, record: Stored) -> None:
        """Put an object in place without history: for filling an empty store. Watches from before are too old."""
        self._put(record)
        self.compact(record.revision)

    def compact(self, revision: int) -> None:
        """Forget changes up to and including this revision."""
        if revision > self.floor:
            self.floor = revision
            del self._history[: self._position(revision)]

    def since(self, revision: int) -> list[StoreChange]:
        """Changes after `revision`; raises ApiError 410 when they are forgotten."""
        if revision < self.floor:
            raise expired(f"too old resource version: {revision} ({self.floor})")
        return self._history[self._position(revision) :]

    def page(self, selection: StoreSelection, revision: int, after: Key | None, limit: int | None) -> ListPage:
        """List as of `revision`, after a key, at most `limit` objects; raises ApiError 410 when forgotten."""
        changed_since: dict[Key, Stored | None] = {}
        for change in self.since(revision):
            changed_since.setdefault(change.key, change.before)
        candidates = self._candidates(selection, after, changed_since)
        if limit is None:
            return ListPage(list(candidates), revision)
        records = list(islice(candidates, limit))
        if next(candidates, None) is None:
            return ListPage(records, revision)
        last = records[-1].key
        remaining = self._count_after(selection.namespace, last) if selection.is_plain and not changed_since else None
        return ListPage(records, revision, last, remaining)

    def _position(self, revision: int) -> int:
        return bisect_right(self._history, revision, key=lambda change: change.revision)

    def _keys(self, namespace: str | None, after: Key | None) -> Iterator[Key]:
        if namespace is None:
            return self._records.irange(after, None, inclusive=(False, True))
        start = after if after is not None else (namespace, "")
        return self._records.irange(start, (namespace, _LAST), inclusive=(False, True))

    def _candidates(
        self, selection: StoreSelection, after: Key | None, changed_since: dict[Key, Stored | None]
    ) -> Iterator[Stored]:
        for key in self._candidate_keys(selection, after, changed_since):
            record = changed_since[key] if key in changed_since else self._records[key]
            if record is not None and (selection.is_plain or selection.matches(record)):
                yield record

    def _candidate_keys(
        self, selection: StoreSelection, after: Key | None, changed_since: dict[Key, Stored | None]
    ) -> Iterator[Key]:
        """Keys to look at, in order, each once: through an index where the selection allows it."""
        indexed = selection.equal_to(self.kind.index) if self.kind.index is not None else None
        name = selection.equal_to("metadata.name")
        if not changed_since and name is not None and selection.namespace is not None:
            keys: Iterator[Key] = iter([(selection.namespace, name)])
            return (key for key in keys if key in self._records and (after is None or key > after))
        if not changed_since and indexed:
            indexed_keys = sorted(self._index.get(indexed, ()))
            return (key for key in indexed_keys if after is None or key > after)
        keys = self._keys(selection.namespace, after)
        if not changed_since:
            return keys
        namespace = selection.namespace
        removed = sorted(
            key
            for key in changed_since
            if key not in self._records
            and (namespace is None or key[0] == namespace)
            and (after is None or key > after)
        )
        return merge(keys, removed)

    def _count_after(self, namespace: str | None, last: Key) -> int:
        end = len(self._records) if namespace is None else self._records.bisect_right((namespace, _LAST))
        return int(end - self._records.bisect_right(last))

    def _put(self, record: Stored) -> None:
        self._records[record.key] = record
        if self.kind.index is not None:
            self._index.setdefault(record.fields[self.kind.index], {})[record.key] = None

    def _unindex(self, record: Stored) -> None:
        if self.kind.index is None:
            return
        value = record.fields[self.kind.index]
        keys = self._index[value]
        del keys[record.key]
        if not keys:
            del self._index[value]
