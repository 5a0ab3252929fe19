"""Decides whether and where kube-scheduler would place a pod of a class.

A search goes round robin, as Cluster Autoscaler's does: from a start position to the end and then from the
beginning, and the first node that passes every filter wins. Resources, selectors and taints are answered from columns;
what depends on other pods is answered by guards, which follow the trial. A class without guards is placed by counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from autoscaler.objects import quantity
from autoscaler.objects.matching import selector_matches, undeclared, untolerated, wants_node
from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodClass
from autoscaler.objects.requests import Requests, add_amounts
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling import fit, masks
from autoscaler.scheduling.affinity import AntiAffinityOfOthers, AvoidGuard, affinity_guards, affinity_peers
from autoscaler.scheduling.bounds import Bound, strictest
from autoscaler.scheduling.constraint_cost import WorkGuard, WorkLimit
from autoscaler.scheduling.device_allocation import Chosen
from autoscaler.scheduling.device_claims import extended_resources
from autoscaler.scheduling.device_ledger import DeviceLedger
from autoscaler.scheduling.devices import DeviceGuard
from autoscaler.scheduling.domains import DomainTallies
from autoscaler.scheduling.ports import PortGuard
from autoscaler.scheduling.preferences import NodePreferences
from autoscaler.scheduling.profile import Profile
from autoscaler.scheduling.term_index import TermIndex
from autoscaler.scheduling.topology import spread_guards
from autoscaler.scheduling.volumes import Attachments, has_volumes, volume_guards
from autoscaler.snapshot.columns import MOST, Amounts, Mask
from autoscaler.snapshot.overlay import Positions, Trial

_BLOCK = 512
"""Nodes examined in one step of a search: most searches end in the first block."""

_ORDER = {reason: number for number, reason in enumerate(NoFit)}


class Guard(Protocol):
    """A filter that depends on other pods."""

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        ...

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many pods of the class may come to added nodes of one template; None where that varies.

        `window` are the nodes that exist, `fresh` is the position of one without pods.
        """
        ...

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """Whether a pod of the class (not the guarded one) on one node may open or close other nodes."""
        ...

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass; None where it does."""
        ...


DEFAULT_PROFILE = Profile()


def accepts(cls: PodClass, node: Node, profile: Profile = DEFAULT_PROFILE) -> bool:
    """Whether name, labels, taints and declared features of a node suit the class, cordon aside."""
    if cls.node_name and cls.node_name != node.name and profile.asks(NoFit.NODE_NAME):
        return False
    if profile.asks(NoFit.TAINT) and untolerated(cls, node.taints) is not None:
        return False
    if profile.asks(NoFit.FEATURES) and undeclared(cls, node):
        return False
    if not profile.asks(NoFit.NODE_AFFINITY):
        return True
    added = profile.added_affinity
    return wants_node(cls, node.labels, node.name) and (
        added is None or selector_matches(added, node.labels, node.name)
    )


class Placer:
    """Places pods on a trial; remembers per class what does not change while the trial lives."""

    def __init__(self, trial: Trial, profile: Profile = DEFAULT_PROFILE) -> None:
        self.trial = trial
        self._profile = profile
        self._needs: dict[PodClass, Amounts] = {}
        self._accepted: dict[PodClass, Mask] = {}
        self._accepted_templates: dict[PodClass, list[bool]] = {}
        self._guards: dict[PodClass, tuple[Guard, ...]] = {}
        self._goes_to_cordoned: dict[PodClass, bool] = {}
        tallies = DomainTallies(trial)
        self._work = WorkLimit(tallies, profile.most_work)
        self._others = AntiAffinityOfOthers(tallies, self._work.keeps_too_much_away)
        self._attachments: Attachments | None = None
        self._ledger: DeviceLedger | None = None
        counting = profile.device_claims and profile.asks(NoFit.DEVICES)
        self._extended = extended_resources(trial.view.related.device_classes) if counting else {}
        self._some_resize = any(other.held_for_resize for other in trial.view.classes)

    @cached_property
    def preferences(self) -> NodePreferences:
        """What tells nodes apart that pass every filter."""
        return NodePreferences(self._others.tallies)

    @property
    def profile(self) -> Profile:
        """What the scheduler asks."""
        return self._profile

    def by_affinity(self, classes: Iterable[PodClass]) -> TermIndex:
        """Return an index of the required affinity of classes, all of which have some."""
        index = TermIndex(self._others.tallies.classes)
        for cls in classes:
            index.note(cls, [affinity_peers(cls, self.trial.view.related.namespaces)])
        return index

    def has_too_many_constraints(self, cls: PodClass) -> bool:
        """Whether the class has more constraints than are evaluated; then no node is tried."""
        return self._work.exceeded(cls)

    def accepted(self, cls: PodClass, window: slice) -> Mask:
        """Return the nodes of the window that suit the class by themselves, room and cordon aside; see `accepts`."""
        trial = self.trial
        known = self._accepted.get(cls)
        if known is None:
            known = self._accepted[cls] = self._accepting(cls)[: trial.base]
        if window.stop <= trial.base:
            return known[window]
        verdicts = self._accepted_templates.setdefault(cls, [])
        verdicts.extend(accepts(cls, template.node, self._profile) for template in trial.templates[len(verdicts) :])
        kinds = trial.kinds[max(window.start, trial.base) : window.stop]
        added: Mask = np.array(verdicts, dtype=np.bool_)[kinds]
        return added if window.start >= trial.base else np.concatenate([known[window.start :], added])

    def _accepting(self, cls: PodClass) -> Mask:
        profile, trial = self._profile, self.trial
        mask = np.ones(trial.count, dtype=np.bool_)
        if self._work.on_nodes(cls) > profile.most_work:
            return ~mask
        if profile.asks(NoFit.NODE_NAME) and cls.node_name:
            mask &= masks.named(cls.node_name, trial)
        if profile.asks(NoFit.TAINT):
            mask &= masks.tolerated(cls, trial)
        if profile.asks(NoFit.NODE_AFFINITY):
            mask &= masks.wanted(cls, trial)
            if profile.added_affinity is not None:
                mask &= masks.selected(profile.added_affinity, trial)
        if cls.features and profile.asks(NoFit.FEATURES):
            mask &= masks.declaring(cls, trial)
        return mask

    def need(self, cls: PodClass) -> Amounts:
        """Return the requests of a class that count, by row; more pod slots than any node has where some have no row.

        Those are of resources that no node has. Resources for which devices may stand are left to their guard.
        """
        rows, profile = self.trial.vocabulary.rows, self._profile
        known = self._needs.get(cls)
        if known is not None and len(known) == len(rows):
            return known
        known = self.trial.vocabulary.vector(cls)
        if profile.changes_requests:
            known = known.copy()
            for resource, row in rows.items():
                if not profile.asks(NoFit.RESOURCES) or profile.ignores(resource):
                    known[row] = 0
        if delegated := self._extended.keys() & cls.requests:
            known = known.copy()
            known[[rows[resource] for resource in delegated if resource in rows]] = 0
        missing = {name for name, amount in cls.requests.items() if amount > 0 and name not in rows} - delegated
        if profile.asks(NoFit.RESOURCES) and not all(map(profile.ignores, missing)):
            known = known.copy()
            known[rows[quantity.PODS]] = MOST
        self._needs[cls] = known
        return known

    def may_guard(self, cls: PodClass) -> bool:
        """Whether the class, by itself, can have guards; placed pods may keep it away even if not."""
        return bool(
            self.has_too_many_constraints(cls)
            or cls.host_ports
            or cls.spread
            or cls.pod_affinity
            or cls.pod_anti_affinity
            or has_volumes(cls)
            or self.claims_devices(cls)
            or self._profile.default_spread_of(cls)
        )

    def claims_devices(self, cls: PodClass) -> bool:
        """Whether the class has claims for devices that count, or devices may stand for what it requests."""
        profile = self._profile
        claiming = bool(cls.resource_claims) and profile.device_claims and profile.asks(NoFit.DEVICES)
        return claiming or self._stands_in(cls)

    def _stands_in(self, cls: PodClass) -> bool:
        """Whether devices may stand for what the class requests."""
        return bool(self._extended) and not self._extended.keys().isdisjoint(cls.requests)

    def delegated(self, cls: PodClass, position: int) -> frozenset[str]:
        """Return the resources that the class requests and a node does not offer, so that devices stand for them."""
        if not self._stands_in(cls):
            return frozenset()
        offered = self.trial.node(position).allocatable
        return frozenset(one for one in self._extended.keys() & cls.requests if not offered.get(one))

    def guards(self, cls: PodClass) -> Sequence[Guard]:
        """Return the filters of the class that depend on other pods; empty where counting is enough."""
        known = self._guards.get(cls)
        if known is None:
            aside = (WorkGuard(self.trial),) if self.has_too_many_constraints(cls) else ()
            known = self._guards[cls] = aside or tuple(self._build_guards(cls))
        if not self._profile.asks(NoFit.POD_AFFINITY):
            return known
        last = known[-1]
        concerned = not isinstance(last, AvoidGuard) or last.others is None or last.others.concerned
        return known if concerned else known[:-1]

    def _build_guards(self, cls: PodClass) -> Iterator[Guard]:
        """Yield all guards of a class; the last is the anti-affinity of placed pods."""
        trial, profile = self.trial, self._profile
        if cls.host_ports and profile.asks(NoFit.PORTS):
            yield PortGuard(cls, self._others.tallies)
        if has_volumes(cls):
            yield from volume_guards(cls, self._others.tallies, profile, self._attached)
        if self.claims_devices(cls):
            yield DeviceGuard(cls, trial, self._devices())
        if profile.asks(NoFit.SPREAD):
            yield from spread_guards(cls, self._others.tallies, profile.default_spread_of(cls))
        if profile.asks(NoFit.POD_AFFINITY):
            yield from affinity_guards(cls, self._others, trial.view.related.namespaces)

    def _attached(self) -> Attachments:
        if self._attachments is None:
            self._attachments = Attachments(self.trial)
        return self._attachments

    def _devices(self) -> DeviceLedger:
        if self._ledger is None:
            self._ledger = DeviceLedger(self.trial)
        return self._ledger

    def granted(self, cls: PodClass, position: int) -> Sequence[tuple[str, Chosen]]:
        """Return the devices that claims of one more pod get on a node: see `DeviceLedger.granted`."""
        return self._devices().granted(cls, position) if self.claims_devices(cls) else ()

    def passing(self, cls: PodClass, window: slice) -> Mask:
        """Return the nodes of the window that pass every filter and may be searched."""
        trial = self.trial
        mask = self.searched(cls, window) & self.accepted(cls, window)
        mask &= masks.roomy(self.need(cls), trial.free[:, window])
        if mask.any():
            for guard in self.guards(cls):
                mask &= guard.mask(window)
        return mask

    def searched(self, cls: PodClass, window: slice) -> Mask:
        """Return the nodes of the window that a search for the class tries."""
        goes = self._goes_to_cordoned.get(cls)
        if goes is None:
            suits = cls.tolerates_unschedulable or not self._profile.asks(NoFit.UNSCHEDULABLE)
            goes = self._goes_to_cordoned[cls] = suits and not self._profile.passes_over_cordoned
        return self.trial.alive[window] if goes else self.trial.open(window)

    def fits(self, cls: PodClass, position: int) -> bool:
        """Whether one more pod of the class passes every filter on this one node."""
        trial = self.trial
        vector = self.need(cls)
        if not bool(((trial.free[:, position] >= vector) | (vector <= 0)).all()):
            return False
        window = slice(position, position + 1)
        if not trial.alive[position] or not self.accepted(cls, window)[0]:
            return False
        if trial.cordoned(position) and not cls.tolerates_unschedulable and self._profile.asks(NoFit.UNSCHEDULABLE):
            return False
        return all(bool(guard.mask(window)[0]) for guard in self.guards(cls))

    def first(self, cls: PodClass, window: slice, start: int, among: Mask | None = None) -> int | None:
        """Return the first passing node from `start` on, wrapping within the window; `among` narrows the window."""
        start = start if window.start <= start < window.stop else window.start
        for low, high in ((start, window.stop), (window.start, start)):
            for block in range(low, high, _BLOCK):
                part = slice(block, min(block + _BLOCK, high))
                mask = self.passing(cls, part)
                if among is not None:
                    mask = mask & among[part]
                if mask.any():
                    return block + int(mask.argmax())
        return None

    def place(self, cls: PodClass, position: int) -> None:
        """Put one pod of the class on a node."""
        self.trial.place(cls, position)

    def place_many(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Put several pods of the class on nodes."""
        self.trial.place_many(cls, positions, counts)

    def copies(self, cls: PodClass, window: slice) -> Positions:
        """Return how many pods of a class without guards a search puts on each node of the window."""
        trial = self.trial
        counts = masks.copies(self.need(cls), trial.free[:, window])
        counts[~(self.searched(cls, window) & self.accepted(cls, window))] = 0
        return counts

    def bound(self, cls: PodClass, window: slice, fresh: int) -> Bound | None:
        """Return how many pods of the class added nodes of one template can take; None where only a try can show it."""
        guards, template = self.guards(cls), self.trial.template(fresh)
        if template is None or any(guard.affects_other_nodes(pod.cls) for guard in guards for pod in template.pods):
            return None
        others = strictest((guard.bound(window, fresh) for guard in guards), window)
        if others is None:
            return None
        present = np.minimum(self.copies(cls, window), others.present)
        room = int(self.copies(cls, slice(fresh, fresh + 1))[0])
        return Bound(present, min(room, others.fresh), others.total)

    def why(self, cls: PodClass, position: int) -> tuple[Rejection, ...]:
        """Return every reason that keeps one more pod of the class off a node, in the scheduler's order."""
        trial = self.trial
        if self.has_too_many_constraints(cls):
            return (WorkGuard.rejection,)
        free = {resource: int(trial.free[row, position]) for resource, row in trial.vocabulary.rows.items()}
        free |= {resource: cls.requests[resource] for resource in self.delegated(cls, position)}
        resizing = self._resizing(position) if self._some_resize else fit.NOTHING
        found = list(fit.rejections(cls, trial.node(position), free, self._profile, resizing))
        found.extend(rejection for guard in self.guards(cls) if (rejection := guard.why(position)) is not None)
        return tuple(sorted(found, key=lambda rejection: _ORDER[rejection.reason]))

    def _resizing(self, position: int) -> Requests:
        """Return what is reserved on a node only until resizes in place are finished."""
        held: dict[str, int] = {}
        for cls, count in self.trial.classes_on(position).items():
            add_amounts(held, {resource: value * count for resource, value in cls.held_for_resize.items()})
        return held


def round_robin(capacity: Positions, count: int, start: int) -> tuple[Positions, int, int]:
    """Deal `count` equal pods to nodes in turns.

    Each turn starts where the last pod went and skips full nodes: what placing them one by one with a search that
    resumes after the last match gives. Returns pods per node, how many found no room, and where the next search
    starts.
    """
    size = len(capacity)
    taken = np.zeros(size, dtype=np.int64)
    left = min(count, int(capacity.sum()))
    unplaced = count - left
    if left == 0:
        return taken, unplaced, start
    order = np.roll(np.arange(size), -start)
    room = capacity[order]
    while left:
        having = np.flatnonzero(room > 0)
        turns = min(left // len(having), int(room[having].min()))
        if turns == 0:
            having = having[:left]
            turns = 1
        taken[order[having]] += turns
        room[having] -= turns
        left -= turns * len(having)
        last = int(order[having[-1]])
    return taken, unplaced, (last + 1) % size
