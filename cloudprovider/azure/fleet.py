"""The scale sets of a resource group with their open requests, updated with as few calls as possible."""

import logging
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from cloudprovider.azure.compute import Compute
from cloudprovider.azure.errors import Failure
from cloudprovider.azure.holding import (
    AzureOperation,
    Holding,
    begun,
    once_relieved,
    with_machines,
    with_progress,
    with_scale_set,
)
from cloudprovider.azure.resources import ScaleSet
from cloudprovider.azure.settings import Settings
from cloudprovider.interface import NotFound, ProviderError, Throttled, Transient

_log = logging.getLogger(__name__)

_OLDEST_S = 900.0
"""How old answers may get while Azure refuses newer ones."""
_MOST_FAILURES = 2
"""After this many unanswered calls, each of which takes time, a refresh keeps the old answers."""
_REMEMBERED = 10_000
"""How many deleted machines to remember with their scale sets."""
_QUIET_S = 30.0
"""How long to make no calls when Azure throttles without saying for how long."""

Choice = Callable[[Sequence[ScaleSet]], Sequence[str]]


class Fleet:
    """The chosen scale sets by name.

    The state of a scale set is a value that is replaced as a whole, under a lock that is never held during a call.
    A change made during a refresh overrides what the refresh read of that scale set.
    """

    def __init__(self, compute: Compute, settings: Settings, now: Callable[[], float]) -> None:
        self.compute = compute
        self._settings = settings
        self._now = now
        self._lock = threading.Lock()
        self._held: Mapping[str, Holding] = {}
        self._by_key: Mapping[str, str] = {}
        self._vanished: dict[str, str] = {}
        self._listed: Sequence[ScaleSet] = ()
        self._listed_at = -inf
        self._refreshed_at = -inf
        self._quiet_until = -inf
        self._outdated = False
        self._failures = 0

    @property
    def all(self) -> Mapping[str, Holding]:
        """The known states by name of the scale set."""
        return self._held

    def now(self) -> float:
        """Return Unix seconds."""
        return self._now()

    def listed(self) -> Sequence[ScaleSet]:
        """List all scale sets of the resource group now. The next refresh starts from this list."""
        self._listed, self._listed_at = self.compute.scale_sets(), self._now()
        return self._listed

    def refresh(self, now: float, choose: Choice) -> None:
        """Update everything: first progress, then sizes, then the machines of scale sets that are changing.

        `choose` picks the scale sets that are node groups. If Azure throttles or is unreachable, answers stay in use
        for 15 minutes; without them, the error is raised.
        """
        before = self._held
        if now < self._quiet_until:
            return self._keep_old(now, Throttled("Azure asks for fewer calls", self._quiet_until - now))
        try:
            fresh = self._read(before, now, choose)
        except Throttled as error:
            self._quiet_until = now + (_QUIET_S if error.retry_after is None else error.retry_after)
            return self._keep_old(now, error)
        except Transient as error:
            return self._keep_old(now, error)
        self._refreshed_at = now
        self._publish(fresh, before)
        return None

    def change(self, name: str, by: Callable[[Holding], Holding]) -> Holding:
        """Replace a scale set's known state after a request; `NotFound` if it no longer exists."""
        with self._lock:
            held = self.get(name)
            changed = replace(by(held), writes=held.writes + 1)
            self._outdated = True
            self._set({**self._held, name: changed})
            return changed

    def known(self, name: str) -> Holding:
        """Return a scale set's known state. Reads it again if the answer to a change was lost."""
        held = self.get(name)
        return self.reread(name) if held.uncertain else held

    def reread(self, name: str) -> Holding:
        """Read a scale set and its machines now."""
        now = self._now()
        scale_set = self.compute.scale_set(name)
        machines = self.compute.machines(scale_set)

        def read(held: Holding) -> Holding:
            known = with_machines(with_scale_set(held, scale_set), machines, now)
            return once_relieved(replace(known, uncertain=False))

        return self.change(name, read)

    def relisted(self, name: str) -> Holding:
        """List the machines of a scale set now."""
        now, machines = self._now(), self.compute.machines(self.get(name).scale_set)
        return self.change(name, lambda held: with_machines(held, machines, now))

    def listed_since_refresh(self, name: str) -> bool:
        """Whether the machines of a scale set were listed in the last refresh or after it."""
        return self.get(name).listed_at >= self._refreshed_at

    def owner(self, key: str) -> str | None:
        """Return the scale set that lists or has listed a machine. Ids of flexible scale sets do not contain it."""
        return self._by_key.get(key) or self._vanished.get(key)

    def lists(self, key: str) -> bool:
        """Whether a machine is listed."""
        return key in self._by_key

    def get(self, name: str) -> Holding:
        """Return a scale set's known state; `NotFound` if it no longer exists."""
        if name not in self._held:
            raise NotFound(f"scale set {name} does not exist any more")
        return self._held[name]

    def _read(self, before: Mapping[str, Holding], now: float, choose: Choice) -> dict[str, Holding]:
        self._failures = 0
        known = {name: self._progressed(held, now) for name, held in before.items()}
        going_on = any(not held.is_settled for held in known.values()) or any(
            known[name].operations != held.operations for name, held in before.items()
        )
        if going_on or self._outdated or now - self._listed_at >= self._settings.scale_sets_ttl_s:
            self._outdated = False  # before the call: a change that is made during it may not be in the answer
            self._listed_at = -inf
            self._listed, self._listed_at = self.compute.scale_sets(), now
        by_name = {scale_set.name: scale_set for scale_set in self._listed}
        fresh: dict[str, Holding] = {}
        for name in choose(self._listed):
            old = known.get(name)
            held = begun(by_name[name]) if old is None else with_scale_set(old, by_name[name])
            fresh[name] = once_relieved(self._with_machines(held, old, now))
        return fresh

    def _progressed(self, held: Holding, now: float) -> Holding:
        over: dict[AzureOperation, Failure | None] = {}
        for operation in held.operations:
            if not operation.address:
                if operation.deletes.isdisjoint(machine.key for machine in held.machines):
                    over[operation] = None
                continue
            if self._failures >= _MOST_FAILURES:
                continue
            try:
                progress = self.compute.progress(operation.address)
            except Throttled:
                raise
            except Transient:
                self._failures += 1
                continue
            except ProviderError as error:
                _log.warning("azure.progress_unknown", extra={"fields": {"group": held.scale_set.name, "error": error}})
                over[operation] = None
                continue
            if progress.over:
                over[operation] = progress.failure
            if progress.failure is not None:
                fields = {
                    "group": held.scale_set.name,
                    "code": progress.failure.code,
                    "error": progress.failure.message,
                }
                _log.warning("azure.operation_failed", extra={"fields": fields})
        return with_progress(held, over, now)

    def _with_machines(self, held: Holding, old: Holding | None, now: float) -> Holding:
        """List the machines of a scale set if they may have changed."""
        resized = old is not None and old.scale_set.capacity != held.scale_set.capacity
        if held.is_settled and not resized and now - held.listed_at < self._patience_s(held.scale_set.name):
            return held
        is_old = now - held.listed_at > _OLDEST_S
        if self._failures >= _MOST_FAILURES and not is_old:
            return held
        try:
            machines = self.compute.machines(held.scale_set)
        except NotFound:
            machines = ()
        except Transient:
            self._failures += 1
            if is_old:
                raise
            return held
        return replace(with_machines(held, machines, now), uncertain=False)

    def _patience_s(self, name: str) -> float:
        """Lists of many scale sets are spread over the last fifth of the time, so that they do not all come at once."""
        return self._settings.machines_ttl_s * (1.0 - 0.2 * (zlib.crc32(name.encode()) % 100) / 100)

    def _keep_old(self, now: float, error: ProviderError) -> None:
        if now - self._refreshed_at > _OLDEST_S:
            raise error
        _log.warning("azure.not_refreshed", extra={"fields": {"error": error}})

    def _publish(self, fresh: Mapping[str, Holding], before: Mapping[str, Holding]) -> None:
        with self._lock:
            current = self._held
            written = {name for name, held in current.items() if name in before and held.writes != before[name].writes}
            self._set({name: current[name] if name in written else held for name, held in fresh.items()})

    def _set(self, held: Mapping[str, Holding]) -> None:
        by_key = {machine.key: name for name, holding in held.items() for machine in holding.machines}
        vanished = {key: name for key, name in self._by_key.items() if key not in by_key}
        self._vanished = dict(list({**self._vanished, **vanished}.items())[-_REMEMBERED:])
        self._by_key = by_key
        self._held = held
