"""Informers of the actors: mirrors of the storage that advance only on request.

Between two calls of `Feed.poll` every actor sees the same cluster, whatever other clients write meanwhile. Mirrored
objects are shared: nobody may change them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.wire import key_of
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.journal import WatchEvent
from autoscaler.sandbox.apiserver.records import ChangeType, Key
from autoscaler.sandbox.apiserver.storage import Storage

ObjectHandler = Callable[[JsonObject | None, JsonObject | None], None]
"""Receives an object that appeared (first is None), changed, or disappeared (second is None); must not write."""
ValueOf = Callable[[JsonObject], str | None]

_NO_OBJECTS: Mapping[Key, JsonObject] = {}


class ObjectIndex:
    """Objects by a value that each has, such as the name of its node."""

    def __init__(self, value_of: ValueOf) -> None:
        self._value_of = value_of
        self._groups: dict[str, dict[Key, JsonObject]] = {}

    def of(self, value: str) -> Mapping[Key, JsonObject]:
        """Return the objects with this value, in the order in which they got it."""
        return self._groups.get(value, _NO_OBJECTS)

    def change(self, key: Key, old: JsonObject | None, new: JsonObject | None) -> None:
        """Take in a change."""
        before = self._value_of(old) if old is not None else None
        after = self._value_of(new) if new is not None else None
        if before is not None and before != after:
            group = self._groups[before]
            del group[key]
            if not group:
                del self._groups[before]
        if new is not None and after is not None:
            self._groups.setdefault(after, {})[key] = new


class Informer:
    """The objects of one kind as of the last poll, by namespace and name."""

    def __init__(self, storage: Storage, resource: str) -> None:
        self.objects: dict[Key, JsonObject] = {}
        self._storage = storage
        self._resource = resource
        self._subscription = storage.watch(resource)
        self._handlers: list[ObjectHandler] = []
        self._indexes: dict[ValueOf, ObjectIndex] = {}
        self._backlog: deque[WatchEvent] = deque()

    def subscribe(self, handler: ObjectHandler) -> None:
        """Call `handler` for each change from now on, and now for each known object."""
        self._handlers.append(handler)
        for obj in tuple(self.objects.values()):
            handler(None, obj)

    def index(self, value_of: ValueOf) -> ObjectIndex:
        """Return the index by this function, which is made once and kept up to date."""
        existing = self._indexes.get(value_of)
        if existing is None:
            existing = self._indexes[value_of] = ObjectIndex(value_of)
            for key, obj in self.objects.items():
                existing.change(key, None, obj)
        return existing

    def in_namespace(self, namespace: str) -> Iterator[JsonObject]:
        """Yield the objects there."""
        return iter(self.index(_namespace_of).of(namespace).values())

    def poll(self) -> None:
        """Catch up with the storage."""
        try:
            events = self._subscription.poll()
        except ApiError as error:
            if error.code != 410:
                raise
            events = self._relist()
        while events:
            self._backlog.extend(events)
            events = self._subscription.poll()
        # One by one: a change that a handler fails on is lost, but not the changes after it.
        while self._backlog:
            self._apply(self._backlog.popleft())

    def _apply(self, event: WatchEvent) -> None:
        if event.type is ChangeType.DELETED:
            self._change(event.change.key, None)
        else:
            self._change(event.change.key, event.object())

    def _change(self, key: Key, new: JsonObject | None) -> None:
        old = self.objects.get(key)
        if new is not None:
            self.objects[key] = new
        elif self.objects.pop(key, None) is None:
            return
        for index in self._indexes.values():
            index.change(key, old, new)
        for handler in self._handlers:
            handler(old, new)

    def _relist(self) -> list[WatchEvent]:
        """Start again after the history has passed us; objects that no longer exist are dropped at once."""
        self._subscription = self._storage.watch(self._resource)
        self._backlog.clear()
        events = self._subscription.poll()
        present = {event.change.key for event in events}
        for key in [key for key in self.objects if key not in present]:
            self._change(key, None)
        return events


class SharedInformers:
    """One mirror per kind, shared by all actors."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._informers: dict[str, Informer] = {}
        self._revision: int | None = None

    def informer(self, resource: str) -> Informer:
        """Return the mirror of a kind."""
        existing = self._informers.get(resource)
        if existing is None:
            existing = self._informers[resource] = Informer(self._storage, resource)
            self._revision = None
        return existing

    @property
    def behind(self) -> bool:
        """Whether something was written since the last poll."""
        return self._storage.revision != self._revision

    def poll(self) -> None:
        """Bring every mirror up to date; this costs almost nothing if nothing was written."""
        revision = self._storage.revision
        if revision != self._revision:
            for informer in self._informers.values():
                informer.poll()
            self._revision = revision


def _namespace_of(obj: JsonObject) -> str:
    return key_of(obj)[0]
