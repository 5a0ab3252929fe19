"""The known state of the groups. A refresh replaces it as a whole; every write adjusts it at once."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cloudprovider.gce.refs import GroupRef
from cloudprovider.gce.settings import Limits
from cloudprovider.gce.wire import Manager
from cloudprovider.interface import GroupSettings, Instance, NodeTemplate, NotFound

_REMEMBERED_S = 3600.0


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group as it was last read, with later writes."""

    manager: Manager
    limits: Limits
    machines: Mapping[str, Instance]
    """By provider id."""
    listed_at: float
    """When the machines were read, Unix seconds."""
    template: NodeTemplate | None = None
    settings: GroupSettings = GroupSettings()
    certain: bool = True
    """False: the outcome of a call is unknown, so target and machines must be read again before their next use."""

    @property
    def ref(self) -> GroupRef:
        """The group."""
        return self.manager.ref

    @property
    def target(self) -> int:
        """The target size."""
        return self.manager.target


class Snapshot(msgspec.Struct, frozen=True):
    """All groups at one moment."""

    groups: Mapping[GroupRef, GroupState] = {}
    owners: Mapping[str, GroupRef] = {}
    """Groups by provider id of their machines."""
    departed: Mapping[str, tuple[GroupRef, float]] = {}
    """Groups of recently deleted machines, and when the machines were last seen."""


class Fleet:
    """Holds the current snapshot. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes: Counter[GroupRef] = Counter()
        self.snapshot = Snapshot()

    def state(self, ref: GroupRef) -> GroupState:
        """Return a group's known state; `NotFound` if it no longer exists."""
        group = self.snapshot.groups.get(ref)
        if group is None:
            raise NotFound(f"there is no managed instance group {ref.id}")
        return group

    def writes(self) -> Counter[GroupRef]:
        """Return the number of writes to each group. `install` needs it from before the reads."""
        with self._lock:
            return Counter(self._writes)

    def install(self, states: Iterable[GroupState], writes_before: Counter[GroupRef], now: float) -> None:
        """Replace all states. A group that was written to during the reads keeps its known state."""
        with self._lock:
            old = self.snapshot
            groups = {state.ref: state for state in states}
            for ref, state in old.groups.items():
                if ref in groups and self._writes[ref] != writes_before[ref]:
                    groups[ref] = state
            owners = {provider_id: ref for ref, state in groups.items() for provider_id in state.machines}
            left = {provider_id: (ref, now) for provider_id, ref in old.owners.items() if provider_id not in owners}
            departed = {
                provider_id: (ref, since)
                for provider_id, (ref, since) in {**old.departed, **left}.items()
                if provider_id not in owners and ref in groups and now - since <= _REMEMBERED_S
            }
            self.snapshot = Snapshot(groups, owners, departed)

    def change(self, ref: GroupRef, **changes: Any) -> GroupState:
        """Change a group's state after a write or a later read, and return it."""
        with self._lock:
            old = self.snapshot
            if ref not in old.groups:
                raise NotFound(f"there is no managed instance group {ref.id}")
            state = msgspec.structs.replace(old.groups[ref], **changes)
            self._writes[ref] += 1
            owners = {**old.owners, **dict.fromkeys(state.machines, ref)}
            self.snapshot = Snapshot({**old.groups, ref: state}, owners, old.departed)
            return state
