"""The stored reservations of one target, and their form in a ConfigMap.

Times are Unix seconds in whole milliseconds. The clock of an entry that waits for a slot stands still, so the entry
keeps its length.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from autoscaler.objects.meta import unix_seconds

SCHEMA_VERSION = 1
LEDGER_ROWS = 5000
"""Maximum number of rows in a ledger; those that expire last are kept."""
LARGEST_BYTES = 900 * 1024
"""Maximum size of the stored text in bytes; the API server's limit for an object is 1 MiB."""
_KEY_DIGITS = 16

Ledger = Mapping[str, int]
"""Expiry in Unix seconds by key."""


class AnnouncementSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """The client that announced the work, for people."""

    kind: str
    repository: str = ""
    job: int = 0
    attempt: int = 0
    request: str = ""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """One reservation, for one pod."""

    id: str
    accepted: float
    length_s: float
    activated: float | None = None
    """When the reservation got its slot; None if it waits for one."""
    job: str = ""
    """Ledger key of its job; empty if it has none."""
    source: AnnouncementSource = AnnouncementSource("api")

    @property
    def expires(self) -> float | None:
        """When the reservation expires; None while it waits for a slot."""
        return None if self.activated is None else round(self.activated + self.length_s, 3)

    def shown(self, now: float) -> tuple[float, float]:
        """Return its effective and expiration time; for one that waits, as if it began now."""
        begin = round(now if self.activated is None else self.activated, 3)
        return begin, round(begin + self.length_s, 3)


class TargetState(msgspec.Struct, frozen=True, kw_only=True):
    """The reservations of a target in order of arrival, and the ledgers that prevent double counting."""

    entries: tuple[Reservation, ...] = ()
    deliveries: Ledger = {}
    jobs: Ledger = {}


class Unreadable(ValueError):
    """A stored state cannot be parsed; it must not be overwritten."""


def ledger_key(*parts: object) -> str:
    """Return the key of a delivery or a job in a ledger."""
    text = "\x1f".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_DIGITS]


def known(ledger: Ledger, key: str, now: float) -> bool:
    """Whether a ledger remembers the key at a time (Unix seconds)."""
    return ledger.get(key, 0) > now


def timestamp(wall: float) -> str:
    """Return Unix seconds as RFC 3339 text with milliseconds."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _StoredEntry(msgspec.Struct, kw_only=True):
    id: str
    state: str
    effective: str
    activated: str | None = None
    expiration: str | None = None
    length: int
    job: str = ""
    source: AnnouncementSource = AnnouncementSource("api")


class _Stored(msgspec.Struct, kw_only=True, rename={"schema_version": "schemaVersion"}):
    schema_version: int
    entries: list[_StoredEntry] = []
    deliveries: dict[str, int] = {}
    jobs: dict[str, int] = {}


class _Version(msgspec.Struct, rename={"schema_version": "schemaVersion"}):
    schema_version: int


def read_state(text: str) -> TargetState:
    """Read the stored text; raises `Unreadable`, also for a newer schema."""
    try:
        version = msgspec.json.decode(text, type=_Version).schema_version
        if version > SCHEMA_VERSION:
            raise Unreadable(f"schemaVersion {version} is newer than {SCHEMA_VERSION}")
        stored = msgspec.json.decode(text, type=_Stored)
        entries = tuple(
            Reservation(
                id=entry.id,
                accepted=unix_seconds(entry.effective),
                length_s=entry.length / 1000,
                activated=None if entry.activated is None else unix_seconds(entry.activated),
                job=entry.job,
                source=entry.source,
            )
            for entry in stored.entries
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unreadable(str(error)) from error
    return TargetState(entries=entries, deliveries=stored.deliveries, jobs=stored.jobs)


def write_state(state: TargetState) -> str:
    """Return the text to store; if it is too large, the oldest rows of the ledgers are left out."""
    entries = [_stored(entry) for entry in state.entries]
    rows = LEDGER_ROWS
    while True:
        stored = _Stored(
            schema_version=SCHEMA_VERSION,
            entries=entries,
            deliveries=newest(state.deliveries, rows),
            jobs=newest(state.jobs, rows),
        )
        text = msgspec.json.encode(stored)
        if len(text) <= LARGEST_BYTES or not rows:
            return text.decode()
        rows //= 2


def newest(ledger: Ledger, rows: int) -> dict[str, int]:
    """Return the rows of a ledger that expire last."""
    if len(ledger) <= rows:
        return dict(ledger)
    return dict(sorted(ledger.items(), key=lambda row: row[1])[len(ledger) - rows :])


def entries_that_fit(entries: tuple[Reservation, ...]) -> int:
    """Return how many entries, from the oldest on, can be stored with empty ledgers once all have slots."""
    left = LARGEST_BYTES - 100
    for number, entry in enumerate(entries):
        running = entry if entry.activated is not None else msgspec.structs.replace(entry, activated=entry.accepted)
        left -= len(msgspec.json.encode(_stored(running))) + 1
        if left < 0:
            return number
    return len(entries)


def _stored(entry: Reservation) -> _StoredEntry:
    return _StoredEntry(
        id=entry.id,
        state="queued" if entry.activated is None else "active",
        effective=timestamp(entry.accepted),
        activated=None if entry.activated is None else timestamp(entry.activated),
        expiration=None if entry.expires is None else timestamp(entry.expires),
        length=round(entry.length_s * 1000),
        job=entry.job,
        source=entry.source,
    )
