"""All groups as AWS last described them, corrected by later changes.

What is known is one immutable `View`, replaced in one assignment, so that readers on any thread need no lock.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from cloudprovider.aws.activities import why_unmet
from cloudprovider.aws.api import AwsApi
from cloudprovider.aws.asg import Asg, Machine, Stage, read_asg
from cloudprovider.aws.expiring import Notices
from cloudprovider.aws.selection import Selection
from cloudprovider.aws.templates import Templates
from cloudprovider.interface import MachineVersion, Misconfigured, NodeTemplate, NotFound, ProviderError

_QUIET_S = 60.0
_MOVING_S = 10.0
_BEFORE_SEEN_S = 300.0
"""If machines are missing that this process did not request, launch attempts since this long ago count."""
_REMEMBERED_S = 600.0
"""How long a terminated machine counts as deleting, even if an older description says otherwise."""


class View(msgspec.Struct, frozen=True):
    """What is known of all groups."""

    groups: Mapping[str, Asg] = {}
    owners: Mapping[str, str] = {}
    """Group by instance id."""
    templates: Mapping[str, NodeTemplate] = {}
    versions: Mapping[str, tuple[MachineVersion, ...]] = {}


class Fleet:
    """Reads the groups and keeps their last known state."""

    def __init__(self, api: AwsApi, selection: Selection, now: Callable[[], float]) -> None:
        self.api = api
        self.now = now
        self.view = View()
        self._selection = selection
        self._lock = threading.Lock()
        self._notices = Notices(logging.getLogger(__name__))
        self._templates = Templates(api, self._notices)
        self._read_at: float | None = None
        self._changes: dict[str, int] = {}
        self._stale = False
        self._short_since: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._doubtful: set[str] = set()

    def check(self) -> None:
        """Raise `Misconfigured` with a line for each named group that cannot be scaled."""
        groups = {group.name: group for group in self._describe()}
        lines: list[str] = []
        for name, sized in self._selection.named.items():
            group = groups.get(name)
            if group is None:
                lines.append(f"nodes: there is no Auto Scaling group {name!r} in {self.api.region}")
            elif group.launch.weighted:
                lines.append(f"nodes: {name}: {_WEIGHTED}")
            elif sized.min_size > group.max_size or sized.max_size < group.min_size:
                sizes = f"{sized.min_size}:{sized.max_size}"
                lines.append(f"nodes: {name}: {sizes} is outside the group's own {group.min_size}:{group.max_size}")
        if lines:
            raise Misconfigured("\n".join(lines))

    def refresh(self, now: float) -> None:
        """Read everything again: each minute, sooner while a group is changing, at once after we changed a group."""
        if not self._is_due(now):
            return
        with self._lock:
            before, self._stale = dict(self._changes), False
        try:
            groups = {group.name: group for group in self._describe() if self._is_usable(group)}
            self._tell_missing(groups)
            groups = {name: self._judged(group, now) for name, group in groups.items()}
        except ProviderError:
            self._stale = True
            raise
        templates = self._templates.of(groups.values(), now)
        versions = self._templates.versions(groups.values(), now)
        with self._lock:
            # What other threads did meanwhile counts more than a description that may be older.
            mine = {name for name, count in self._changes.items() if count != before.get(name)}
            groups |= {name: self.view.groups[name] for name in mine if name in self.view.groups}
            self._doubtful &= mine
            self._ended = {
                machine_id: ended_at for machine_id, ended_at in self._ended.items() if now - ended_at < _REMEMBERED_S
            }
            self.view = View(groups, _owners(groups.values()), templates, versions)
            self._read_at = now

    def known(self, name: str) -> Asg:
        """Return a group's last known state. Reads it again if a call may have changed it; raises `ProviderError`."""
        return self.read(name) if name in self._doubtful else self._known(name)

    def read(self, name: str) -> Asg:
        """Read a group's current state from AWS; raises `ProviderError`."""
        groups = [read_asg(description, self._selection) for description in self.api.groups_named([name])]
        if not groups or groups[0].ended:
            raise NotFound(f"Auto Scaling group {name} does not exist any more")
        group = replace(self._with_ended(groups[0]), unmet=self._known(name).unmet)
        with self._lock:
            self._doubtful.discard(name)
            self._put(group)
        return group

    def grown(self, group: Asg, desired: int) -> None:
        """Note that a group's desired capacity was raised. Only later attempts tell whether AWS can meet it."""
        with self._lock:
            self._short_since[group.name] = self.now()
            self._put(replace(group, desired=desired, unmet=None))

    def shrunk(self, group: Asg, desired: int) -> Asg:
        """Note that a group's desired capacity was lowered; return the changed group."""
        with self._lock:
            return self._put(replace(group, desired=desired))

    def ended(self, group: Asg, instance: str, *, counted: bool) -> Asg:
        """Note that a machine is being deleted; lower the desired capacity if it `counted`. Return the new group."""
        with self._lock:
            self._ended[instance] = self.now()
            desired = group.desired - 1 if counted else group.desired
            return self._put(replace(self._with_ended(group), desired=desired))

    def has_ended(self, instance: str) -> bool:
        """Whether we recently terminated this machine."""
        return instance in self._ended

    def doubt(self, name: str) -> None:
        """Note that a call for a group may have taken effect. The group is read again before its state is used."""
        with self._lock:
            self._doubtful.add(name)
            self._changed(name)

    def _is_due(self, now: float) -> bool:
        if self._read_at is None or self._stale:
            return True
        moving = any(group.is_moving for group in self.view.groups.values())
        return not 0 <= now - self._read_at < (_MOVING_S if moving else _QUIET_S)

    def _describe(self) -> Iterable[Asg]:
        named = self.api.groups_named(sorted(self._selection.named))
        tagged = self.api.groups_tagged(self._selection.tags)
        groups = {
            description["AutoScalingGroupName"]: read_asg(description, self._selection)
            for description in (*named, *tagged)
        }
        wanted = (group for group in groups.values() if self._is_selected(group))
        return [self._with_ended(group) for group in sorted(wanted, key=lambda group: group.name)]

    def _is_selected(self, group: Asg) -> bool:
        return not group.ended and (group.name in self._selection.named or self._selection.takes(group.tags))

    def _is_usable(self, group: Asg) -> bool:
        if group.launch.weighted:
            self._notices.give("aws.group_left_out", group.name, _WEIGHTED)
        return not group.launch.weighted

    def _tell_missing(self, groups: Mapping[str, Asg]) -> None:
        for name in self._selection.named:
            if name in groups:
                self._notices.over("aws.group_missing", name)
            else:
                self._notices.give("aws.group_missing", name, "it does not exist any more, or is being deleted")

    def _judged(self, group: Asg, now: float) -> Asg:
        """Return a group with the reason why its missing machines do not start."""
        if not group.missing:
            self._short_since.pop(group.name, None)
            return group
        since = self._short_since.setdefault(group.name, now - _BEFORE_SEEN_S)
        try:
            return replace(group, unmet=why_unmet(self.api.latest_activities(group.name), since))
        except ProviderError as error:
            self._notices.give("aws.activities_unknown", group.name, str(error))
            return group

    def _with_ended(self, group: Asg) -> Asg:
        """Mark the machines that we terminated as deleting, even if AWS's description is older."""
        if not any(machine.id in self._ended for machine in group.machines):
            return group
        return replace(group, machines=tuple(self._truly(machine) for machine in group.machines))

    def _truly(self, machine: Machine) -> Machine:
        return replace(machine, stage=Stage.DELETING) if machine.id in self._ended else machine

    def _known(self, name: str) -> Asg:
        group = self.view.groups.get(name)
        if group is None:
            raise NotFound(f"Auto Scaling group {name} does not exist any more")
        return group

    def _put(self, group: Asg) -> Asg:
        groups = {**self.view.groups, group.name: group}
        others = {machine_id: owner for machine_id, owner in self.view.owners.items() if owner != group.name}
        self.view = replace(self.view, groups=groups, owners={**others, **_owners([group])})
        self._changed(group.name)
        return group

    def _changed(self, name: str) -> None:
        self._changes[name] = self._changes.get(name, 0) + 1
        self._stale = True


_WEIGHTED = "it counts units of capacity instead of machines (weights, or DesiredCapacityType), which cannot be scaled"


def _owners(groups: Iterable[Asg]) -> dict[str, str]:
    return {
        machine.id: group.name for group in groups for machine in group.machines if machine.stage is not Stage.ASIDE
    }
