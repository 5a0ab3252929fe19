"""Managers and instances in the API's form, decoded as far as they are used."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cloudprovider.gce.faults import creation_error
from cloudprovider.gce.refs import GroupRef, Place, last_part, provider_id_of
from cloudprovider.interface import Instance, MachineVersion, State

_STATES = {
    "CREATING": State.CREATING,
    "RECREATING": State.CREATING,
    "CREATING_WITHOUT_RETRIES": State.CREATING,
    "ABANDONING": State.DELETING,
    "DELETING": State.DELETING,
}
_IN_CHANGE = ("creating", "creatingWithoutRetries", "recreating", "deleting", "abandoning")
_BOOTING = ("PROVISIONING", "STAGING")
_CREATED_BY = "created-by"
_MADE_FROM = "instance-template"


class Manager(msgspec.Struct, frozen=True, kw_only=True):
    """An instance group manager."""

    ref: GroupRef
    target: int
    """Desired size, including machines to be suspended."""
    suspended: int
    """Number of machines to be suspended."""
    base_name: str
    template: str
    """URL of the instance template of new machines."""
    versions: tuple[MachineVersion, ...]
    """The templates of new machines, canaries included; empty if the group replaces older machines itself."""
    zones: tuple[str, ...]
    """Names of the zones that its machines may be in."""
    machines: int
    """Number of its machines in any state."""
    in_change: bool
    """Whether machines are being created or deleted."""
    redistributes: bool
    """Whether it removes machines by itself to even out zones."""
    autoscaled: bool
    """Whether Compute Engine's own autoscaler sets its size."""

    @property
    def rival(self) -> str:
        """What else changes the group's size or deletes its machines, and the remedy; empty if nothing does."""
        if self.autoscaled:
            return "Compute Engine scales it too; remove that autoscaler"
        if self.redistributes:
            return "it deletes machines by itself to even out its zones; set its instance redistribution type to NONE"
        return ""


def manager_from(data: Mapping[str, Any], place: Place) -> Manager:
    """Decode an instance group manager of a zone or region."""
    actions = {name: int(count) for name, count in (data.get("currentActions") or {}).items()}
    spread = (data.get("distributionPolicy") or {}).get("zones") or []
    zones = tuple(last_part(str(entry.get("zone", ""))) for entry in spread) if place.regional else (place.name,)
    policy = data.get("updatePolicy") or {}
    suspended = int(data.get("targetSuspendedSize") or 0)
    return Manager(
        ref=GroupRef(place, str(data["name"])),
        target=int(data.get("targetSize") or 0) + suspended,
        suspended=suspended,
        base_name=str(data.get("baseInstanceName") or data["name"]),
        template=_template(data),
        versions=() if policy.get("type") == "PROACTIVE" else _versions(data),
        zones=zones,
        machines=sum(actions.values()),
        in_change=any(actions.get(name) for name in _IN_CHANGE),
        redistributes=place.regional and policy.get("instanceRedistributionType", "PROACTIVE") != "NONE",
        autoscaled=bool((data.get("status") or {}).get("autoscaler")),
    )


def _template(data: Mapping[str, Any]) -> str:
    """Return the template of the version without its own size. The other versions are canaries."""
    versions: Sequence[Mapping[str, Any]] = data.get("versions") or []
    main = next((version for version in versions if not version.get("targetSize")), versions[0] if versions else {})
    return str(data.get("instanceTemplate") or main.get("instanceTemplate") or "")


def _versions(data: Mapping[str, Any]) -> tuple[MachineVersion, ...]:
    templates = [version.get("instanceTemplate") for version in data.get("versions") or [data]]
    return tuple(version for template in templates if (version := _version(template)) is not None)


def _version(template: Any) -> MachineVersion | None:
    """Return the version that is an instance template; its URL may have the project's name or its number."""
    name = last_part(str(template or ""))
    return MachineVersion(f"instance template {name}") if name else None


def managed_instance(data: Mapping[str, Any]) -> Instance | None:
    """Decode an instance from its group's list; None if it has no URL yet."""
    provider_id = provider_id_of(str(data.get("instance") or ""))
    if provider_id is None:
        return None
    state = _STATES.get(str(data.get("currentAction") or ""), State.RUNNING)
    version = _version((data.get("version") or {}).get("instanceTemplate"))
    if state is not State.CREATING:
        return Instance(provider_id, state, version=version)
    errors = ((data.get("lastAttempt") or {}).get("errors") or {}).get("errors") or []
    return Instance(provider_id, state, creation_error(errors, str(data.get("instanceStatus") or "")), version=version)


def zone_instance(data: Mapping[str, Any]) -> tuple[GroupRef, Instance] | None:
    """Decode an instance from its zone's list, with the group that created it; None if no group did.

    The reference to the group has the project's number, not its name. The instance's project is used instead, because
    a group is in the project of its machines.
    """
    provider_id = provider_id_of(str(data.get("selfLink") or ""))
    items = (data.get("metadata") or {}).get("items") or []
    values = {item.get("key"): str(item.get("value") or "") for item in items}
    creator = GroupRef.parse(values.get(_CREATED_BY, ""))
    if provider_id is None or creator is None:
        return None
    project = provider_id.split("/")[2]
    state = State.CREATING if data.get("status") in _BOOTING else State.RUNNING
    place = msgspec.structs.replace(creator.place, project=project)
    version = _version(values.get(_MADE_FROM))
    return GroupRef(place, creator.name), Instance(provider_id, state, version=version)
