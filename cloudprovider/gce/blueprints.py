"""Instance templates and machine types, read once an hour. Templates never change, and types rarely do."""

import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from cloudprovider.gce.client import Compute
from cloudprovider.gce.kube_env import read_kube_env
from cloudprovider.gce.machine_types import MachineType, custom_machine_type, machine_type_from
from cloudprovider.gce.refs import Place, last_part, template_path
from cloudprovider.gce.template import Blueprint, node_template
from cloudprovider.gce.wire import Manager
from cloudprovider.interface import ProviderError

_FRESH_S = 3600.0
_RETRY_S = 60.0


log = logging.getLogger(__name__)

Key = tuple[str, Place]
"""Path of a template, and the zone whose machine types count."""


class Found(msgspec.Struct, frozen=True):
    """The result of reading a template."""

    blueprint: Blueprint | None = None
    problem: str = ""


class _Kept(msgspec.Struct, frozen=True):
    found: Found
    until: float


class Blueprints:
    """Blueprints by template and zone. Owned by the thread that refreshes."""

    def __init__(self, client: Compute) -> None:
        self._client = client
        self._kept: dict[Key, _Kept] = {}
        self._machines: dict[tuple[Place, str], tuple[MachineType, float]] = {}

    def prepare(
        self,
        managers: Iterable[Manager],
        now: float,
        run: Callable[[Callable[[Key], Found], Sequence[Key]], Sequence[Found]],
    ) -> None:
        """Read missing and old blueprints, several at a time with `run`; forget unused ones.

        If a read fails, the old blueprint stays in use, and the read is tried again in a minute.
        """
        wanted = list(dict.fromkeys(key for manager in managers if (key := _key(manager)) is not None))
        due = [key for key in wanted if key not in self._kept or self._kept[key].until <= now]
        self._machines = {key: kept for key, kept in self._machines.items() if kept[1] > now}
        for key, found in zip(due, run(lambda key: self._read(key, now), due), strict=True):
            before = self._kept[key].found if key in self._kept else Found()
            if found.problem and found.problem != before.problem:
                fields = {"template": key[0], "why": found.problem, "next": "trying again in a minute"}
                log.warning("gce.no_template", extra={"fields": fields})
            wait_s = _RETRY_S if found.problem else _FRESH_S
            self._kept[key] = _Kept(Found(found.blueprint or before.blueprint, found.problem), now + wait_s)
        self._kept = {key: self._kept[key] for key in wanted}

    def of(self, manager: Manager) -> Blueprint | None:
        """Return a group's blueprint; None if its template cannot be read or understood."""
        key = _key(manager)
        return None if key is None or key not in self._kept else self._kept[key].found.blueprint

    def _read(self, key: Key, now: float) -> Found:
        path, zone = key
        try:
            properties = self._client.template(path).get("properties") or {}
            env = read_kube_env(properties.get("metadata") or {})
            machine = self._machine(zone, last_part(str(properties["machineType"])), now)
            # The metadata holds credentials of nodes, and has been read.
            rest = {name: value for name, value in properties.items() if name != "metadata"}
            blueprint = Blueprint(properties=rest, env=env, machine=machine)
            node_template(blueprint, zone, (zone.name,), path)  # one that contradicts itself raises here, and only here
        except (ProviderError, ValueError, KeyError, TypeError, AttributeError) as error:
            return Found(problem=f"{type(error).__name__}: {error}")
        return Found(blueprint)

    def _machine(self, zone: Place, name: str, now: float) -> MachineType:
        kept = self._machines.get((zone, name))
        if kept is not None:
            return kept[0]
        machine = custom_machine_type(name) or machine_type_from(self._client.machine_type(zone, name))
        self._machines[zone, name] = (machine, now + _FRESH_S)
        return machine


def _key(manager: Manager) -> Key | None:
    path = template_path(manager.template)
    if path is None or not manager.zones:
        return None
    return path, Place(manager.ref.place.project, manager.zones[0])
