"""Volumes: the nodes that a pod's claims, disks and attach limits allow.

Source: the scheduler's plug-ins VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone. A node that does
not exist yet has no CSINode; the attach limits of its template hold for it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np

from autoscaler.objects.pod import PodClass
from autoscaler.objects.storage import VolumeAttachment, migrated_disk, migrated_driver
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import UNBOUNDED, Bound, gate
from autoscaler.scheduling.claims import binding_demands, zone_demands
from autoscaler.scheduling.class_selection import having
from autoscaler.scheduling.domains import DomainTallies, DomainTally
from autoscaler.scheduling.index_keys import claim_key, disk_key, disks_of, shared_claims
from autoscaler.scheduling.node_requirements import ReachGuard
from autoscaler.scheduling.profile import Profile
from autoscaler.snapshot.cluster import Related
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Positions, Trial

_ONE_POD = "ReadWriteOncePod"

Handle = tuple[str, str]
"""A CSI driver and one of its volumes."""


def has_volumes(cls: PodClass) -> bool:
    """Whether volumes can keep the class off a node."""
    return bool(cls.claims or disks_of(cls.volumes) or _disks(cls))


def _disks(cls: PodClass) -> list["Handle"]:
    """Return the disks that a class names itself and that a CSI driver attaches."""
    return [disk for volume in cls.volumes if (disk := migrated_disk(volume)) is not None]


class RestrictionGuard:
    """Keeps a class from disks and claims that cannot be shared. Source: VolumeRestrictions."""

    def __init__(self, cls: PodClass, tallies: DomainTallies) -> None:
        disks, claims = disks_of(cls.volumes), tallies.trial.view.related.claims
        self._exclusive = frozenset(
            key for key in shared_claims(cls) if key in claims and _ONE_POD in claims[key].spec.access_modes
        )
        """Claims that only one pod may use, on any node."""
        clashing = [disk_key(disk, alone=not alone) for disk, alone in disks.items()]
        self._alone = any(disks.values())
        self._clashing = tallies.counted((having(clashing),)).tally(None) if disks else None
        users = map(claim_key, self._exclusive)
        self._users = tallies.counted((having(users),)).tally(None) if self._exclusive else None

    def _uses(self, other: PodClass) -> bool:
        return not self._exclusive.isdisjoint(shared_claims(other))

    @property
    def users(self) -> DomainTally | None:
        """The pods that use claims which only one pod may use; None where there are none."""
        return self._users if self._users is not None and self._users.total > 0 else None

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        size = window.stop - window.start
        if self.users is not None:
            return np.zeros(size, dtype=np.bool_)
        if self._clashing is None:
            return np.ones(size, dtype=np.bool_)
        free: Mask = self._clashing.at(window) == 0
        return free

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """Whether pods of the class use a claim that only one pod may; see `placement.Guard`."""
        return self._uses(cls)

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come: one per node where disks are not shared, one at all where claims are not."""
        per_node = 1 if self._alone else UNBOUNDED
        bound = gate(self.mask(window), bool(self.mask(slice(fresh, fresh + 1))[0]), per_node)
        return msgspec.structs.replace(bound, total=1) if self._exclusive else bound

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        if self.users is not None:
            message = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            detail = f"another pod uses {', '.join(sorted(self._exclusive))}"
            return Rejection(NoFit.VOLUME_RESTRICTIONS, message, detail)
        if self._clashing is not None and self._clashing.at(slice(position, position + 1))[0] > 0:
            message = "node(s) had no available disk"
            return Rejection(NoFit.VOLUME_RESTRICTIONS, message, "a pod here uses the same disk")
        return None


class Attachments:
    """CSI volumes attached to the view's nodes, by driver; shared by all classes of a trial."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._related = trial.view.related
        self._handles: dict[PodClass, frozenset[Handle]] = {}
        self._own: dict[PodClass, Counter[str]] = {}
        self._attached: dict[str, Positions] = {}
        self._users: dict[Handle, dict[int, int]] = {}
        self._limits: dict[str, Positions] = {}
        self._template_limits: dict[str, list[int]] = {}
        self._runs: dict[str, Mask] = {}
        view = trial.view
        self._left_attached: dict[Handle, set[int]] = {}
        """Where volumes are attached by their VolumeAttachment, whether a pod uses them there or not."""
        for attachment in self._related.volume_attachments.values():
            self._count_attachment(attachment)
        claiming = np.array([bool(cls.claims or cls.volumes) for cls in view.classes], dtype=np.bool_)
        chosen = claiming[view.pod_classes] if len(claiming) else claiming
        pairs = np.stack([view.pod_classes[chosen], view.pod_nodes[chosen]])
        for number, position in pairs.T.tolist():
            self.moved(view.classes[number], np.array([position]), np.ones(1, dtype=np.int64))
        for cls, positions, counts in trial.moves():
            self.moved(cls, positions, counts)
        trial.watch(self)

    def _count_attachment(self, attachment: VolumeAttachment) -> None:
        spec = attachment.spec
        position = self._trial.view.positions.get(spec.node_name)
        volume = self._related.volumes.get(spec.source.persistent_volume_name)
        if position is None or not spec.attacher or volume is None or volume.spec.csi is None:
            return
        there = self._left_attached.setdefault((spec.attacher, volume.spec.csi.volume_handle), set())
        if position not in there:
            there.add(position)
            self.attached(spec.attacher)[position] += 1

    def handles(self, cls: PodClass) -> frozenset[Handle]:
        """Return the volumes that every pod of the class attaches to its node: those that its pods share."""
        known = self._handles.get(cls)
        if known is None:
            handles = (_handle(key, self._related) for key in shared_claims(cls))
            claimed = (handle for handle in handles if handle is not None)
            known = self._handles[cls] = frozenset((*claimed, *_disks(cls)))
        return known

    def own(self, cls: PodClass) -> Counter[str]:
        """Return how many volumes each pod of the class attaches that no other pod uses, by driver."""
        known = self._own.get(cls)
        if known is None:
            handles = (_handle(f"{cls.namespace}/{name}", self._related) for name in cls.own_claims)
            known = self._own[cls] = Counter(handle[0] for handle in handles if handle is not None)
        return known

    def counts(self, cls: PodClass) -> bool:
        """Whether pods of the class attach anything; see `overlay.Watcher`."""
        return bool(self.handles(cls) or self.own(cls))

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        """Follow a placement; see `overlay.Watcher`."""
        for handle in self.handles(cls):
            users = self._users.setdefault(handle, {})
            attached, there = self.attached(handle[0]), self._left_attached.get(handle, ())
            for position, count in zip(positions.tolist(), counts.tolist(), strict=True):
                before = users.get(position, 0)
                users[position] = before + count
                if position not in there:
                    attached[position] += (before + count > 0) - (before > 0)
        for driver, volumes in self.own(cls).items():
            self.attached(driver)[positions] += volumes * counts

    def runs(self, driver: str, window: slice) -> Mask:
        """Return the nodes of the window on which a driver runs; added nodes of which nothing is known pass too."""
        trial, csi_nodes = self._trial, self._related.csi_nodes
        known = self._runs.get(driver)
        if known is None:
            having = {name for name, one in csi_nodes.items() if driver in one.driver_names}
            known = self._runs[driver] = np.array([node.name in having for node in trial.view.nodes], dtype=np.bool_)
        if window.stop <= trial.base:
            return known[window]
        by_kind = [one.csi_drivers is None or driver in one.csi_drivers for one in trial.templates]
        kinds = trial.kinds[max(window.start, trial.base) : window.stop]
        return np.concatenate([known[window.start : trial.base], np.array(by_kind, dtype=np.bool_)[kinds]])

    def attached(self, driver: str) -> Positions:
        """Return how many different volumes of a driver each node has; there may be zeros beyond the last node."""
        known = self._attached.get(driver)
        if known is None or len(known) < self._trial.count:
            grown = np.zeros(self._trial.count + self._trial.count // 2, dtype=np.int64)
            if known is not None:
                grown[: len(known)] = known
            known = self._attached[driver] = grown
        return known

    def attached_of(self, handles: frozenset[Handle], window: slice) -> Positions:
        """Return how many of these volumes each node of the window has."""
        counts = np.zeros(window.stop - window.start, dtype=np.int64)
        for handle in handles:
            for position, pods in self._users.get(handle, {}).items():
                if window.start <= position < window.stop:
                    counts[position - window.start] += pods > 0
        return counts

    def limits(self, driver: str, window: slice) -> Positions:
        """Return how many volumes of a driver each node of the window can attach."""
        trial, csi_nodes = self._trial, self._related.csi_nodes
        known = self._limits.get(driver)
        if known is None:
            known = self._limits[driver] = np.full(trial.base, UNBOUNDED, dtype=np.int64)
            for position, node in enumerate(trial.view.nodes if csi_nodes else ()):
                if (csi_node := csi_nodes.get(node.name)) is not None:
                    known[position] = _limit(csi_node.attach_limits, driver)
        if window.stop <= trial.base:
            return known[window]
        by_kind = self._template_limits.setdefault(driver, [])
        by_kind.extend(_limit(template.attach_limits, driver) for template in trial.templates[len(by_kind) :])
        kinds = trial.kinds[max(window.start, trial.base) : window.stop]
        return np.concatenate([known[window.start : trial.base], np.array(by_kind, dtype=np.int64)[kinds]])


def _limit(limits: Mapping[str, int], driver: str) -> int:
    return max(0, min(limits.get(driver, UNBOUNDED), UNBOUNDED))


def _handle(key: str, related: Related) -> Handle | None:
    """Return what a claim attaches; one without a volume yet counts for the driver that will make it."""
    claim = related.claims.get(key)
    if claim is None:
        return None
    volume = related.volumes.get(claim.spec.volume_name)
    if volume is not None:
        csi = volume.spec.csi
        return migrated_disk(volume.spec) if csi is None else (csi.driver, csi.volume_handle)
    storage = related.storage_classes.get(claim.storage_class)
    return None if storage is None or not storage.provisioner else (migrated_driver(storage.provisioner), key)


class LimitGuard:
    """Keeps a class off nodes that cannot attach all its volumes. Source: NodeVolumeLimits.

    `needed`: CSI drivers whose volumes go only to nodes on which they run.
    """

    def __init__(self, cls: PodClass, attachments: Attachments, needed: frozenset[str]) -> None:
        self._attachments = attachments
        by_driver: dict[str, set[Handle]] = {}
        for handle in sorted(attachments.handles(cls)):
            by_driver.setdefault(handle[0], set()).add(handle)
        self._shared: Mapping[str, frozenset[Handle]] = {name: frozenset(own) for name, own in by_driver.items()}
        self._own = attachments.own(cls)
        self._drivers = sorted({*self._shared, *self._own})
        self._needed = needed.intersection(self._drivers)

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        return self._room(window) > 0

    def _room(self, window: slice) -> Positions:
        """Return for how many pods of the class each node of the window can attach the volumes."""
        room = np.full(window.stop - window.start, UNBOUNDED, dtype=np.int64)
        for driver in self._drivers:
            np.minimum(room, self._room_of(driver, window), out=room)
        return room

    def _room_of(self, driver: str, window: slice) -> Positions:
        mine, own = self._shared.get(driver, frozenset()), self._own[driver]
        new = len(mine) - self._attachments.attached_of(mine, window)
        free = self._attachments.limits(driver, window) - self._attachments.attached(driver)[window] - new
        room: Positions = np.maximum(free, 0) // own if own else np.where((new == 0) | (free >= 0), UNBOUNDED, 0)
        return np.where(self._attachments.runs(driver, window), room, 0) if driver in self._needed else room

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """Volumes are attached to one node only; see `placement.Guard`."""
        return False

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come: as many as find room for volumes of their own; all share the other ones."""
        return Bound(self._room(window), int(self._room(slice(fresh, fresh + 1))[0]))

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        here = slice(position, position + 1)
        if (missing := self.missing_driver(position)) is not None:
            detail = f"CSIDriver {missing} has preventPodSchedulingIfMissing"
            return Rejection(NoFit.VOLUME_LIMITS, f"{missing} CSI driver is not installed on the node", detail)
        for driver in self._drivers:
            if not self._room_of(driver, here)[0]:
                limit = int(self._attachments.limits(driver, here)[0])
                detail = f"driver {driver} attaches at most {limit} volumes here"
                return Rejection(NoFit.VOLUME_LIMITS, "node(s) exceed max volume count", detail)
        return None

    def missing_driver(self, position: int) -> str | None:
        """Return the first driver that ought to run on a node and does not."""
        here = slice(position, position + 1)
        return next((driver for driver in sorted(self._needed) if not self._attachments.runs(driver, here)[0]), None)


def volume_guards(
    cls: PodClass, tallies: DomainTallies, profile: Profile, attachments: Callable[[], Attachments]
) -> Iterator[RestrictionGuard | LimitGuard | ReachGuard]:
    """Yield the guards of a class that has volumes, in the order the scheduler asks them."""
    trial = tallies.trial
    if profile.asks(NoFit.VOLUME_RESTRICTIONS):
        yield RestrictionGuard(cls, tallies)
    if profile.asks(NoFit.VOLUME_LIMITS) and (cls.claims or _disks(cls)):
        needed = trial.view.related.needed_csi_drivers if profile.needs_drivers else frozenset[str]()
        yield LimitGuard(cls, attachments(), needed)
    if not cls.claims:
        return
    if profile.asks(NoFit.VOLUME_BINDING):
        yield ReachGuard(trial, binding_demands(cls, trial.view.related))
    if profile.asks(NoFit.VOLUME_ZONE):
        yield ReachGuard(trial, list(zone_demands(cls, trial.view.related)))
