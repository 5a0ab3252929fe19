"""Pauses: what the autoscaler leaves alone for a while, because a person or a circuit breaker says so.

They are entries of one ConfigMap, so that they survive restarts and a change of leader. Each entry is YAML:

    scope: disruption              # all, scale-down (the default), disruption or drift
    groups: [web, batch]           # default: every group
    until: 2026-01-05T14:00:00Z    # default: until somebody removes the entry
    reason: release freeze
    by: jane

The annotations `pause.autoscaler/until`, `-scope`, `-reason` and `-by` say the same on the ConfigMap, for the whole
cluster, and on a node, for that node. What cannot be read pauses disruption: nobody knows what else it should say.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256

import msgspec

from autoscaler.objects.meta import rfc3339, unix_seconds
from autoscaler.objects.node import Node
from autoscaler.objects.workload import ConfigMap
from autoscaler.printable import in_one_line
from autoscaler.reasons import PauseScope, ReplacementTrigger, UnremovableNode, UnremovableReason
from autoscaler.snapshot.groups import Groups
from cloudprovider.document import parse_yaml
from cloudprovider.problems import Problems
from cloudprovider.structure import Strict, StructReader

PREFIX = "pause.autoscaler/"
UNTIL, SCOPE, REASON, BY = (PREFIX + name for name in ("until", "scope", "reason", "by"))
"""Annotations on nodes and on the ConfigMap; a pause needs `until`."""
ANNOTATED = "annotations"
"""Name of the pause that the annotations of the ConfigMap state; no entry of a command has it."""
MOST_PAUSES = 200
_MOST_CHARACTERS = 16384
_MOST_SHOWN = 256
_LONGEST_KEY = 200
_NARROWEST_FIRST = (PauseScope.DRIFT, PauseScope.DISRUPTION, PauseScope.SCALE_DOWN, PauseScope.ALL)
"""Each scope covers those before it."""


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """One pause. Times are Unix seconds."""

    name: str
    """Its key in the ConfigMap."""
    scope: PauseScope = PauseScope.SCALE_DOWN
    groups: tuple[str, ...] = ()
    """Ids of node groups; none: every group, and nodes of no group."""
    reason: str = ""
    by: str = ""
    """Who set it, for people."""
    since: float | None = None
    until: float | None = None
    """When it ends; None: when somebody lifts it."""
    problem: str = ""
    """Why it cannot be read; then it pauses disruption everywhere."""

    def covers(self, scope: PauseScope, group: str | None = None) -> bool:
        """Whether it pauses all of `scope`, for a group or, with None, for the whole cluster."""
        everywhere = not self.groups
        wide = _NARROWEST_FIRST.index(self.scope) >= _NARROWEST_FIRST.index(scope)
        return wide and (everywhere or group in self.groups)

    def over(self, wall: float) -> bool:
        """Whether it has ended."""
        return self.until is not None and self.until <= wall

    @property
    def words(self) -> str:
        """What it says, for people."""
        what = {PauseScope.ALL: "everything", PauseScope.SCALE_DOWN: "scale-down"}.get(self.scope, self.scope.value)
        where = f" of {', '.join(self.groups[:3])}{' ...' if len(self.groups) > 3 else ''}" if self.groups else ""
        until = "until it is resumed" if self.until is None else f"until {rfc3339(self.until)}"
        why = "".join((f" by {self.by}" if self.by else "", f": {self.reason}" if self.reason else ""))
        return self.problem or f"{what}{where} is paused {until}{why}"


class Pauses(msgspec.Struct, frozen=True):
    """The pauses in force."""

    all: tuple[Pause, ...] = ()

    def covering(self, scope: PauseScope, group: str | None = None) -> Pause | None:
        """Return the pause of all of `scope` that lasts longest; `group` as in `Pause.covers`."""
        found = [pause for pause in self.all if pause.covers(scope, group)]
        return max(found, key=lambda pause: float("inf") if pause.until is None else pause.until, default=None)


class _Entry(Strict, frozen=True, kw_only=True):
    scope: PauseScope = PauseScope.SCALE_DOWN
    groups: tuple[str, ...] = ()
    until: str | None = None
    since: str | None = None
    reason: str = ""
    by: str = ""


def read_pauses(config_map: ConfigMap | None, wall: float) -> Pauses:
    """Return the pauses that a ConfigMap states and that have not ended, in the order of their names."""
    if config_map is None:
        return Pauses()
    stated = [read_entry(name, config_map.data[name]) for name in sorted(config_map.data)[:MOST_PAUSES]]
    if len(config_map.data) > MOST_PAUSES:
        stated.append(_unreadable("...", f"there are more than {MOST_PAUSES} entries"))
    if config_map.undecoded:
        stated.append(_unreadable("...", "its ConfigMap cannot be decoded any more"))
    annotated = annotated_pause(ANNOTATED, config_map.metadata.annotations)
    return Pauses(tuple(pause for pause in (*stated, *([annotated] if annotated else ())) if not pause.over(wall)))


@lru_cache(maxsize=512)
def read_entry(name: str, text: str) -> Pause:
    """Return the pause that an entry of the ConfigMap states; one that cannot be read says why in `problem`."""
    try:
        data = parse_yaml(text, _MOST_CHARACTERS)
    except ValueError as error:
        return _unreadable(name, f"is not YAML: {error}")
    problems = Problems()
    entry = StructReader(problems).read(_Entry, {} if data is None else data)
    if entry is None:
        return _unreadable(name, "; ".join(problems.lines))
    return _pause(name, entry)


def annotated_pause(name: str, annotations: Mapping[str, str]) -> Pause | None:
    """Return the pause that annotations state; None without any of ours."""
    stated = {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}
    return _from_annotations(name, tuple(sorted(stated.items()))) if stated else None


@lru_cache(maxsize=512)
def _from_annotations(name: str, stated: tuple[tuple[str, str], ...]) -> Pause:
    problems = Problems()
    entry = StructReader(problems).read(_Entry, dict(stated))
    if entry is not None and entry.until is None:
        problems.add("until", "is required in annotations")
    if entry is None or problems.lines:
        return _unreadable(name, "; ".join(problems.lines))
    return _pause(name, entry)


def _pause(name: str, entry: _Entry) -> Pause:
    try:
        since, until = (None if text is None else unix_seconds(text) for text in (entry.since, entry.until))
    except ValueError as error:
        return _unreadable(name, str(error))
    return Pause(
        name=shown(name),
        scope=entry.scope,
        groups=entry.groups,
        reason=shown(entry.reason),
        by=shown(entry.by),
        since=since,
        until=until,
    )


_SCOPES = {ReplacementTrigger.NOTICED: PauseScope.ALL, ReplacementTrigger.DRIFTED: PauseScope.DRIFT}


def scope_of(trigger: ReplacementTrigger) -> PauseScope:
    """Return what has to be paused so that no node is replaced for a reason.

    A machine about which there is a notice is lost in any case: its pods move unless everything is paused.
    """
    return _SCOPES.get(trigger, PauseScope.DISRUPTION)


def paused_groups(pauses: Pauses, groups: Groups) -> dict[str, str]:
    """Return why groups may not grow, by group id."""
    found = {group.id: pauses.covering(PauseScope.ALL, group.id) for group in groups.all} if pauses.all else {}
    return {group: pause.words for group, pause in found.items() if pause is not None}


def kept_by_pause(pauses: Pauses, scope: PauseScope, node: Node, group: str, wall: float) -> UnremovableNode | None:
    """Return why a node may not go now: its group, the whole cluster, or it alone is paused."""
    own = annotated_pause(node.name, node.annotations)
    if own is not None and own.covers(scope) and not own.over(wall):
        pauses = Pauses((*pauses.all, own))
    pause = pauses.covering(scope, group)
    if pause is None:
        return None
    left_s = None if pause.until is None else pause.until - wall
    return UnremovableNode(node.name, UnremovableReason.PAUSED, pause.words, time_left_s=left_s)


def _unreadable(name: str, problem: str) -> Pause:
    text = f"the pause {shown(name)} cannot be read, so disruption is paused: {shown(problem)}"
    return Pause(name=shown(name), scope=PauseScope.DISRUPTION, problem=text)


def shown(text: str) -> str:
    """Return foreign text as people see it: in one line, and not too long."""
    return in_one_line(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}...")


def entry_of(pause: Pause) -> str:
    """Return the text of a pause's entry in the ConfigMap: JSON, which is YAML too."""
    fields: dict[str, object] = {"scope": pause.scope.value}
    if pause.groups:
        fields["groups"] = list(pause.groups)
    fields |= {
        key: rfc3339(moment) for key, moment in (("since", pause.since), ("until", pause.until)) if moment is not None
    }
    fields |= {key: text for key, text in (("reason", pause.reason), ("by", pause.by)) if text}
    return msgspec.json.encode(fields).decode()


def pause_name(scope: PauseScope, groups: Iterable[str] = ()) -> str:
    """Return the name of a pause that has none of its own: one of the same scope and groups takes its place."""
    listed = sorted(set(groups))
    if not listed:
        return scope.value
    alone = listed[0] if len(listed) == 1 else ""
    plain = alone.isascii() and alone.replace("-", "").replace("_", "").replace(".", "").isalnum()
    tail = alone if plain and len(alone) <= _LONGEST_KEY else sha256("\n".join(listed).encode()).hexdigest()[:10]
    return f"{scope.value}.{tail}"
