"""What passes remember of drift. A restart forgets it, and each group begins with one node again."""

from collections.abc import Mapping

import msgspec

from autoscaler.clock import Instant


class DriftTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The trial of the nodes that replace one drifted node."""

    replacement: str
    """The id of the replacement: the name of the old node."""
    group: str
    made: str
    """What the group made when the trial began (`drift.fingerprint`)."""
    workloads: frozenset[str] = frozenset()
    """Uids of the controllers whose pods were ready on the old node."""
    nodes: tuple[str, ...] = ()
    """The new nodes, once the old one is gone."""
    until: Instant | None = None
    """When the trial ends; None: the replacement is still in progress."""


class DriftFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why no drifted node is replaced any more, until a pause says it instead."""

    group: str
    reason: str
    """For people; nothing parses it."""
    since: Instant
    written: Instant | None = None
    """When the pause was written; None: not yet."""


class DriftMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that outlives a pass, as far as drift is concerned."""

    trials: tuple[DriftTrial, ...] = ()
    proven: Mapping[str, str] = {}
    """By group, what it made when its new nodes proved themselves (`drift.fingerprint`)."""
    failure: DriftFailure | None = None
