"""Reads the groups from the cloud: their names, target sizes and machines."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from cloudprovider.gce.blueprints import Blueprints
from cloudprovider.gce.client import Compute
from cloudprovider.gce.fleet import GroupState
from cloudprovider.gce.refs import GroupRef, Place
from cloudprovider.gce.settings import Limits, Settings
from cloudprovider.gce.template import node_template
from cloudprovider.gce.wire import Manager, managed_instance, manager_from, zone_instance
from cloudprovider.interface import GroupSettings, Instance, NodeTemplate, NotFound, ProviderError
from cloudprovider.options import read_options
from cloudprovider.problems import Problems

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
_ZONES_FRESH_S = 3600.0
Machines = Mapping[str, Instance]


class Reader:
    """Owned by the thread that refreshes. Errors of the client pass through."""

    def __init__(self, client: Compute, settings: Settings, discover_in: Place | None) -> None:
        self._client = client
        self._settings = settings
        self._discover_in = discover_in
        self._blueprints = Blueprints(client)
        self._zones: tuple[Sequence[str], float] | None = None
        self._left_out: dict[GroupRef, str] = {}

    def meant(self, now: float) -> Sequence[tuple[Manager, Limits]]:
        """Return the managers of all selected groups: the named ones first and in order, then the discovered ones.

        Discovered groups that something else scales too are left out.
        """
        named, searched = self._settings.groups, self._searched(now)
        places = list(dict.fromkeys([*(ref.place for ref in named), *searched]))
        listed = self._run(lambda place: read_managers(self._client, place), places)
        known = {manager.ref: manager for managers in listed for manager in managers}
        limits = {ref: given for ref, given in named.items() if ref in known}
        for ref in sorted(known.keys() - named.keys()):
            matching = (
                discovery.limits
                for discovery in self._settings.discoveries
                if ref.place in searched and discovery.finds(ref.name)
            )
            first = next(matching, None)
            if first is not None and not self._is_left_out(known[ref]):
                limits[ref] = first
        return [(known[ref], given) for ref, given in limits.items()]

    def read(self, before: Mapping[GroupRef, GroupState], now: float) -> Sequence[GroupState]:
        """Return the state of every existing group. `before` has the previously known states."""
        meant = self.meant(now)
        managers = [manager for manager, _ in meant]
        self._blueprints.prepare(managers, now, self._run)
        kept = {ref: known for ref, known in before.items() if self._is_fresh(known, now)}
        machines = self._machines([manager for manager in managers if manager.ref not in kept])
        states: list[GroupState] = []
        for manager, limits in meant:
            known = kept.get(manager.ref)
            if known is None and manager.ref not in machines:
                continue  # deleted since it was listed
            template, overrides = self._described(manager)
            states.append(
                GroupState(
                    manager=manager,
                    limits=limits,
                    machines=machines[manager.ref] if known is None else known.machines,
                    listed_at=now if known is None else known.listed_at,
                    template=template,
                    settings=overrides,
                )
            )
        return states

    def _is_left_out(self, manager: Manager) -> bool:
        if self._left_out.get(manager.ref, "") != manager.rival:
            self._left_out[manager.ref] = manager.rival
            if manager.rival:
                log.warning("gce.group_left_out", extra={"fields": {"group": manager.ref.id, "why": manager.rival}})
        return bool(manager.rival)

    def _is_fresh(self, known: GroupState, now: float) -> bool:
        """Whether a list of machines is too young to be read again. A clock that was set back makes it old."""
        return known.certain and 0 <= now - known.listed_at < self._settings.min_list_age_s

    def _searched(self, now: float) -> Sequence[Place]:
        place = self._discover_in
        if place is None or not self._settings.discoveries:
            return ()
        if not place.regional:
            return (place,)
        if self._zones is None or not 0 <= now - self._zones[1] < _ZONES_FRESH_S:
            self._zones = (tuple(self._client.zones(place)), now)
        return (*(Place(place.project, zone) for zone in self._zones[0]), place)

    def _machines(self, managers: Sequence[Manager]) -> dict[GroupRef, Machines]:
        """Return the machines of each group. Groups that no longer exist are left out."""
        by_group: dict[GroupRef, Machines] = {
            manager.ref: {} for manager in managers if not (manager.target or manager.machines)
        }
        if self._settings.bulk:
            by_group |= self._in_bulk(
                [manager for manager in managers if manager.ref not in by_group and not manager.in_change]
            )
        left = [manager.ref for manager in managers if manager.ref not in by_group]
        listed = self._run(lambda ref: read_machines(self._client, ref), left)
        return by_group | {ref: machines for ref, machines in zip(left, listed, strict=True) if machines is not None}

    def _in_bulk(self, managers: Sequence[Manager]) -> dict[GroupRef, Machines]:
        """Return the machines of the groups for which the zones list the expected number of machines."""
        zones = list(
            dict.fromkeys(Place(manager.ref.place.project, zone) for manager in managers for zone in manager.zones)
        )
        by_group: dict[GroupRef, dict[str, Instance]] = {}
        for instances in self._run(self._client.instances, zones):
            with understood("instances of a zone"):
                for ref, instance in filter(None, map(zone_instance, instances)):
                    by_group.setdefault(ref, {})[instance.provider_id] = instance
        return {
            manager.ref: by_group.get(manager.ref, {})
            for manager in managers
            if len(by_group.get(manager.ref, {})) == manager.machines
        }

    def _described(self, manager: Manager) -> tuple[NodeTemplate | None, GroupSettings]:
        blueprint = self._blueprints.of(manager)
        if blueprint is None:
            return None, GroupSettings()
        template = node_template(blueprint, manager.ref.place, manager.zones, manager.ref.id)
        return template, read_options(blueprint.env.options, "", Problems())

    def _run(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        """Work on several items concurrently, within the operator's limit; raises the first error."""
        threads = min(self._settings.threads, len(items))
        if threads < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(threads, thread_name_prefix="gce-refresh") as pool:
            return list(pool.map(work, items))


def read_managers(client: Compute, place: Place) -> Sequence[Manager]:
    """List the managers of a zone or region."""
    listed = client.managers(place)
    with understood(f"instance group managers of {place.name}"):
        return [manager_from(data, place) for data in listed]


def read_manager(client: Compute, ref: GroupRef) -> Manager:
    """Read one manager."""
    data = client.manager(ref)
    with understood(f"instance group manager {ref.name}"):
        return manager_from(data, ref.place)


def read_machines(client: Compute, ref: GroupRef) -> Machines | None:
    """List a group's machines; None if the group no longer exists."""
    try:
        listed = client.managed_instances(ref)
    except NotFound:
        return None
    with understood(f"managed instances of {ref.name}"):
        instances = filter(None, map(managed_instance, listed))
        return {instance.provider_id: instance for instance in instances}


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Raise `ProviderError` if an answer does not have the form that the API promises."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ProviderError(f"{what}: the answer makes no sense: {type(error).__name__}: {error}") from error
