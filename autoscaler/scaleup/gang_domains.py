"""Where a gang with a topology constraint may run: on nodes that share the value of a label, such as one zone.

Nodes that exist and nodes on their way are in a domain by their label. A group takes part in the domain in which its
next nodes come, with as many of them as come there in a row: the cloud, not the autoscaler, picks the zone of a node in
a group with several. With the host name as label every new node is a domain of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from autoscaler.objects.node import HOSTNAME
from autoscaler.scaleup.context import ScaleUpContext
from autoscaler.scaleup.gangs import Gang
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.columns import ABSENT, Codes
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template

NOWHERE = -2
"""A code that no node has."""
_MOST_DOMAINS = 50
"""Without a group that can enlarge them; of more, those with the most room are looked at."""


class Domain(msgspec.Struct, frozen=True):
    """Nodes with the same value of a label."""

    code: int = NOWHERE
    """Of the value, among the nodes of the trial."""
    groups: Mapping[str, int] = {}
    """How many of the next nodes of a group are in it, by group id; nodes of other groups are not."""


def domains(gang: Gang, placer: Placer, situation: ScaleUpContext) -> Sequence[Domain]:
    """Return the domains in which a gang might start; with pods that have a node, the domain of these is the only one.

    Of the domains that no group can enlarge, the largest stands for those that are too small.
    """
    trial, key = placer.trial, gang.topology_key
    codes = trial.labels(key)
    names: dict[int, str] = {}
    growing: dict[int, dict[str, int]] = {}
    for group in () if key == HOSTNAME else situation.groups.all:
        value, count = _next(key, group, situation, trial)
        if value is not None and count > 0:
            code = trial.vocabulary.code(key, value)
            names[code] = value
            growing.setdefault(code, {})[group.id] = count
    if gang.home is not None:
        return (Domain(gang.home, growing.get(gang.home, {})),)
    rooms = _rooms(gang, placer, codes)
    largest = sorted(rooms, key=lambda code: -rooms[code])[:_MOST_DOMAINS]
    for code in [code for code in largest if rooms[code] >= gang.missing] or largest[:1]:
        names[code] = trial.node(int((codes == code).argmax())).labels[key]
    known = [Domain(code, growing.get(code, {})) for code in sorted(names, key=lambda code: names[code])]
    new = [group.id for group in situation.groups.all if group.id in situation.templates] if key == HOSTNAME else []
    return (*known, *(Domain(groups={group_id: 1}) for group_id in new))


def _next(key: str, group: Group, situation: ScaleUpContext, trial: Trial) -> tuple[str | None, int]:
    """Return the label of a group's next node, and how many in a row have the same; None: nobody knows."""
    template = situation.templates.get(group.id)
    if template is None:
        return None, 0
    value, count = template.node.labels.get(key), group.room
    zones = template.zones
    if zones is not None and zones.turns:
        first, cycle = zones.due + situation.planned.get(group.id, 0), len(zones.order) + len(zones.turns)
        coming = [zones.coming(number).node.labels.get(key) for number in range(first, first + cycle)]
        value = coming[0]
        count = next((row for row, other in enumerate(coming) if other != value), group.room)
    elif _differs(key, group, template, trial):
        return None, 0
    if group.settings.zero_or_max_node_scaling and count < group.room:
        return value, 0
    return value, min(count, group.room)


def _differs(key: str, group: Group, template: Template, trial: Trial) -> bool:
    """Whether nodes of a group have another label than its template, so that the next node may have any."""
    codes, owners = trial.view.columns.labels(key), trial.view.groups.of_node
    mine = (codes != ABSENT) & (codes != trial.vocabulary.code(key, template.node.labels.get(key)))
    return any(owners.get(trial.view.nodes[position].name) == group.id for position in np.flatnonzero(mine).tolist())


def _rooms(gang: Gang, placer: Placer, codes: Codes) -> Mapping[int, int]:
    """Return how many pods of a gang the nodes of each domain might take at most."""
    rooms: Counter[int] = Counter()
    for cls, count in Counter(pod.cls for pod in gang.pods).items():
        copies = placer.copies(cls, slice(0, placer.trial.count))
        here: Counter[int] = Counter()
        for position in np.flatnonzero((copies > 0) & (codes != ABSENT)).tolist():
            here[int(codes[position])] += int(copies[position])
        rooms.update({code: min(room, count) for code, room in here.items()})
    return rooms


def within(domain: Domain, situation: ScaleUpContext) -> ScaleUpContext:
    """Return a situation in which groups may only get nodes in a domain."""
    rooms = {group.id: group.room for group in situation.groups.all}
    free = {group_id for group_id, count in domain.groups.items() if count >= rooms[group_id]}
    similar = {
        group_id: tuple(other for other in others if other in free)
        for group_id, others in situation.similar.items()
        if group_id in free
    }
    return msgspec.structs.replace(situation, within=domain.groups, similar=similar)
