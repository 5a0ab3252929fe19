"""Measures how long removable nodes wait, and how long nodes are not evaluated for scale-down.

Source: Cluster Autoscaler's trackers `node_removal_latency_seconds` and `max_node_skip_eval_duration_seconds`.
"""

from collections.abc import Iterable, Iterator

import msgspec

from autoscaler.observe.report import PassReport
from autoscaler.reasons import ScaleDownResult, UnremovableReason

NO_REASON = "none"
_NOT_YET = (UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH, UnremovableReason.NOT_UNREADY_LONG_ENOUGH)


class NodeWait(msgspec.Struct, frozen=True):
    """A completed wait of a node."""

    deleted: bool
    """Whether its removal began; otherwise the node is needed again."""
    reason: str
    """The last reason for the delay: a `reasons.UnremovableReason`, or `NO_REASON`."""
    seconds: float


class RemovalWaits:
    """Follows nodes from the time at which they have been unneeded for long enough."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._reason: dict[str, str] = {}

    def pass_ended(self, report: PassReport) -> Iterator[NodeWait]:
        """Yield the waits that ended with a pass. During a cool-down it is unknown which nodes could be removed."""
        if report.scale_down.result is ScaleDownResult.IN_COOLDOWN:
            return
        going = {removal.node.name for removal in report.scale_down.begun}
        eligible = dict(_eligible(report))
        for name in (*self._since, *(going - self._since.keys())):
            if name in going or name not in eligible:
                since = self._since.pop(name, report.now.mono)
                yield NodeWait(name in going, self._reason.pop(name, NO_REASON), report.now.mono - since)
        for name, reason in eligible.items():
            if name not in going:
                self._since.setdefault(name, report.now.mono)
                self._reason[name] = reason


def _eligible(report: PassReport) -> Iterator[tuple[str, str]]:
    for name in (removal.node.name for removal in report.scale_down.unneeded):
        unremovable = report.scale_down.unremovable.get(name)
        if unremovable is None or unremovable.reason not in _NOT_YET:
            yield name, NO_REASON if unremovable is None else unremovable.reason


class SkippedNodes:
    """Follows nodes that the removal simulation skipped, because its time ran out or it had found enough."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._last_pass: float | None = None
        """Time of the last evaluation."""

    def longest_s(self, managed: Iterable[str], report: PassReport) -> float:
        """Return the longest time in seconds that a node of a group has not been evaluated; 0 if all have been."""
        now = report.now.mono
        before = now if self._last_pass is None else self._last_pass
        seen = {
            name
            for name, unremovable in report.scale_down.unremovable.items()
            if unremovable.reason is not UnremovableReason.NOT_TRIED
        }
        seen |= {removal.node.name for removal in report.scale_down.unneeded}
        self._since = {name: self._since.get(name, before) for name in managed if name not in seen}
        self._last_pass = now
        return max((now - since for since in self._since.values()), default=0.0)
