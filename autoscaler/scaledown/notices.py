"""Reads notices that the machine of a node will leave: from taints, conditions and labels, and from the annotation in
which this autoscaler keeps what a cloud told it.

Agents of the clouds write the others: the node termination handler of AWS, the node problem detector and the cloud
controller of Azure, the maintenance handler of GKE, and Karpenter. What an agent takes back is no notice any more.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.meta import rfc3339, unix_seconds
from autoscaler.objects.node import Node, NodeCondition
from autoscaler.objects.notice_taints import AZURE_DRAINING, GKE_ENDING, LONG_S, NOTICE_TAINTS, SHORT_S
from autoscaler.reasons import ReplacementTrigger
from autoscaler.scaledown.replacement import STAYED_S, Replacement
from autoscaler.scaledown.replacement_cause import Cause, CauseContext
from cloudprovider.interface import Notice, NoticeKind
from cloudprovider.moment import http_date
from cloudprovider.number import parse_count

NOTICE = "replacement.autoscaler/notice"
"""Annotation on a node: a kind of notice, such as `spot-interruption`, or `spot-interruption@2026-01-05T12:00:00Z` with
the moment at which the machine leaves.
"""

URGENT = frozenset((NoticeKind.SPOT_INTERRUPTION, NoticeKind.TERMINATION))
"""Kinds after which a machine leaves whatever the cluster does."""

_AT_ONCE = 1000
"""Nodes that leave at the same time."""
_SPOT, _TERMINATION = NoticeKind.SPOT_INTERRUPTION, NoticeKind.TERMINATION
_REBALANCE, _MAINTENANCE = NoticeKind.REBALANCE_RECOMMENDATION, NoticeKind.SCHEDULED_MAINTENANCE
_GKE_SPOT = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
_GKE_MAINTENANCE = "cloud.google.com/scheduled-maintenance-time"
_AZURE_SPOT = "PreemptionScheduled"
_AZURE_EVENT = "VMEventScheduled"
_AZURE_WORDS: Mapping[str, NoticeKind] = {
    "preempt": _SPOT,
    "terminate": _TERMINATION,
    "redeploy": _MAINTENANCE,
    "reboot": _MAINTENANCE,
    "spotrebalancerecommendation": _REBALANCE,
}
"""What happens to the machine; a freeze lasts seconds and is no reason to leave."""
_AZURE_TIME = re.compile(r"[A-Za-z]{3},\s+\d{1,2}\s+[A-Za-z]{3}\s+\d{4}\s+\d{2}:\d{2}:\d{2}\s+(?:GMT|UTC)", re.ASCII)
_LONGEST = 256
_ORDER = (_SPOT, _TERMINATION, _MAINTENANCE, _REBALANCE)


class NodeNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What the objects say about the end of one node's machine."""

    kind: NoticeKind
    sign: str
    """Where it stands, for people."""
    deadline: float | None = None
    """When the machine leaves, Unix seconds; None: nobody says, and it is `lead_s` after the notice."""
    lead_s: float = LONG_S

    @property
    def urgent(self) -> bool:
        """Whether the machine leaves whatever the cluster does."""
        return self.kind in URGENT

    def deadline_since(self, wall: float) -> float:
        """Return when the machine leaves if the notice was first seen at this Unix second."""
        return wall + self.lead_s if self.deadline is None else self.deadline


def annotation_of(kind: NoticeKind, deadline: float | None) -> str:
    """Return the value of the annotation."""
    return kind.value if deadline is None else f"{kind.value}@{rfc3339(deadline)}"


def changes_annotation(node: Node, notice: Notice) -> bool:
    """Whether a notice changes what the annotation says: it is more urgent, or takes back what stands there."""
    held = next(_annotated(node), None)
    if notice.withdrawn:
        return held is not None and held.kind is notice.kind
    return held is None or _ORDER.index(notice.kind) <= _ORDER.index(held.kind)


def notice_of(node: Node, kinds: Collection[NoticeKind]) -> NodeNotice | None:
    """Return the most urgent notice of these kinds; of equal ones, the one that ends first."""
    found = [notice for read in _READERS for notice in read(node) if notice.kind in kinds]
    return min(found, key=_urgency, default=None)


def noticed(context: CauseContext) -> Iterator[Cause]:
    """Yield the nodes of groups whose machine leaves soon, those that leave first at the beginning."""
    return _listed(context, [kind for kind in context.config.notices.node_notices if kind in URGENT])


def advised(context: CauseContext) -> Iterator[Cause]:
    """Yield the nodes of groups whose machine will be maintained, or should rather be another one."""
    return _listed(context, [kind for kind in context.config.notices.node_notices if kind not in URGENT])


def cooling(causes: Iterable[Cause], context: CauseContext) -> Mapping[str, Instant]:
    """Return until when groups cool down, by group id: each for a time after a pass last saw a spot interruption of one
    of its nodes.
    """
    options, now = context.config.notices, context.now
    if _SPOT not in options.node_notices or options.notice_cooldown_s <= 0:
        return {}
    of_node = context.view.groups.of_node
    interrupted = {
        of_node[cause.node.name]: now.later(options.notice_cooldown_s)
        for cause in causes
        if cause.trigger is ReplacementTrigger.NOTICED
        if cause.node.name in of_node and notice_of(cause.node, (_SPOT,)) is not None
    }
    return {group: until for group, until in context.memory.cooling.items() if until.mono > now.mono} | interrupted


def _listed(context: CauseContext, kinds: Collection[NoticeKind]) -> Iterator[Cause]:
    view = context.view
    if not kinds:
        return
    began = _began(context.memory.in_progress)
    found: list[tuple[tuple[int, float], Cause]] = []
    for node in view.nodes:
        ours = node.name in view.groups.of_node or node.name in began
        notice = notice_of(node, kinds) if ours else None
        if notice is None:
            continue
        since = began.get(node.name)
        deadline = context.now.later(notice.deadline_since((since or context.now).wall) - context.now.wall)
        if since is not None or deadline.mono + STAYED_S >= context.now.mono:
            found.append(((_ORDER.index(notice.kind), deadline.mono), _cause(node, notice, deadline, context)))
    for _, cause in sorted(found, key=lambda entry: (entry[0], entry[1].node.name)):
        yield cause


def _began(replacements: Iterable[Replacement]) -> Mapping[str, Instant]:
    """Return since when nodes have been replaced because of a notice."""
    ours = (replacement for replacement in replacements if replacement.trigger is ReplacementTrigger.NOTICED)
    return {name: replacement.began for replacement in ours for name in replacement.nodes}


def _cause(node: Node, notice: NodeNotice, deadline: Instant, context: CauseContext) -> Cause:
    moment = "" if notice.deadline is None else f", at {rfc3339(notice.deadline)}"
    detail = f"{notice.kind} by {notice.sign}{moment}"
    if not notice.urgent:
        return Cause(trigger=ReplacementTrigger.ADVISED, node=node, detail=detail)
    return Cause(
        trigger=ReplacementTrigger.NOTICED,
        node=node,
        detail=detail,
        leave_at=context.now,
        deadline=deadline,
        limit=_AT_ONCE,
    )


def _urgency(notice: NodeNotice) -> tuple[int, bool, float]:
    return _ORDER.index(notice.kind), notice.deadline is None, notice.deadline_since(0.0)


def _annotated(node: Node) -> Iterator[NodeNotice]:
    kind, _, time = node.annotations.get(NOTICE, "")[:_LONGEST].partition("@")
    if kind not in _KINDS:
        return
    try:
        deadline = unix_seconds(time) if time else None
    except ValueError:
        deadline = None
    yield NodeNotice(kind=NoticeKind(kind), sign=f"annotation {NOTICE}", deadline=deadline)


def _tainted(node: Node) -> Iterator[NodeNotice]:
    for taint in node.taints:
        known = NOTICE_TAINTS.get(taint.key)
        if known is None or (taint.key == AZURE_DRAINING and taint.value != "spot-eviction"):
            continue
        kind = known.kind
        if taint.key == GKE_ENDING and any(node.labels.get(label) == "true" for label in _GKE_SPOT):
            kind = _SPOT
        yield NodeNotice(kind=kind, sign=f"taint {taint.key}", lead_s=known.lead_s)


def _conditioned(node: Node) -> Iterator[NodeNotice]:
    for condition in node.conditions:
        if condition.type in (_AZURE_EVENT, _AZURE_SPOT) and condition.status == "True":
            kind = _SPOT if condition.type == _AZURE_SPOT else _azure_kind(condition)
            if kind is not None:
                deadline = _azure_time(condition.message) if kind is not _REBALANCE else None
                sign = f"condition {condition.type}"
                yield NodeNotice(kind=kind, sign=sign, deadline=deadline, lead_s=SHORT_S)


def _azure_kind(condition: NodeCondition) -> NoticeKind | None:
    words = condition.message[:_LONGEST].split(maxsplit=1)
    return _AZURE_WORDS.get(words[0].lower()) if words else None


def _azure_time(message: str) -> float | None:
    match = _AZURE_TIME.search(message[:_LONGEST])
    moment = None if match is None else http_date(match.group())
    return None if moment is None else moment.timestamp()


def _labelled(node: Node) -> Iterator[NodeNotice]:
    text = node.labels.get(_GKE_MAINTENANCE)
    seconds = None if text is None else parse_count(text, _LATEST)
    if seconds is not None:
        yield NodeNotice(kind=_MAINTENANCE, sign=f"label {_GKE_MAINTENANCE}", deadline=float(seconds))


_KINDS = frozenset(NoticeKind)
_LATEST = 253_402_300_799
"""The last second of the year 9999."""
_READERS: tuple[Callable[[Node], Iterator[NodeNotice]], ...] = (_annotated, _tainted, _conditioned, _labelled)
