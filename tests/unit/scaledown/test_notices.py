"""What the objects of a cluster say about machines that will leave."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from autoscaler.objects.node import Node
from autoscaler.scaledown.notices import NOTICE, NodeNotice, annotation_of, notice_of
from cloudprovider.interface import NoticeKind
from tests.builders import a_node

ALL = tuple(NoticeKind)
AT = 1_785_585_662.0  # 2026-08-01T12:01:02Z


def azure(message: str, kind: str = "VMEventScheduled", status: str = "True") -> dict[str, Any]:
    """Return a condition as the node problem detector of AKS writes it."""
    return {"type": kind, "status": status, "reason": kind, "message": message}


def noticed(
    *,
    taints: Sequence[str] = (),
    conditions: Sequence[dict[str, Any]] = (),
    labels: Mapping[str, str] | None = None,
    notice: str | None = None,
) -> Node:
    """Return a node with such signs."""
    annotations = None if notice is None else {NOTICE: notice}
    return a_node("a", taints=taints, conditions=conditions, labels=labels, annotations=annotations)


PREEMPT = "Preempt Scheduled: Sat, 01 Aug 2026 12:01:02 GMT. DurationInSeconds: -1. For more information, see …"


@pytest.mark.parametrize(
    ("node", "kind", "deadline", "lead_s"),
    [
        (noticed(taints=["aws-node-termination-handler/spot-itn=x"]), NoticeKind.SPOT_INTERRUPTION, None, 120),
        (
            noticed(taints=["aws-node-termination-handler/rebalance-recommendation"]),
            NoticeKind.REBALANCE_RECOMMENDATION,
            None,
            120,
        ),
        (
            noticed(taints=["aws-node-termination-handler/scheduled-maintenance"]),
            NoticeKind.SCHEDULED_MAINTENANCE,
            None,
            120,
        ),
        (noticed(taints=["aws-node-termination-handler/asg-lifecycle-termination"]), NoticeKind.TERMINATION, None, 120),
        (noticed(taints=["cloud.google.com/impending-node-termination"]), NoticeKind.TERMINATION, None, 30),
        (
            noticed(
                taints=["cloud.google.com/impending-node-termination"], labels={"cloud.google.com/gke-spot": "true"}
            ),
            NoticeKind.SPOT_INTERRUPTION,
            None,
            30,
        ),
        (
            noticed(taints=["cloudprovider.azure.microsoft.com/draining=spot-eviction"]),
            NoticeKind.SPOT_INTERRUPTION,
            None,
            30,
        ),
        (noticed(taints=["karpenter.sh/disrupted"]), NoticeKind.TERMINATION, None, 120),
        (noticed(conditions=[azure(PREEMPT)]), NoticeKind.SPOT_INTERRUPTION, AT, 30),
        (noticed(conditions=[azure(PREEMPT, "PreemptionScheduled")]), NoticeKind.SPOT_INTERRUPTION, AT, 30),
        (noticed(conditions=[azure("Preempt Started: .")]), NoticeKind.SPOT_INTERRUPTION, None, 30),
        (
            noticed(conditions=[azure("Terminate Scheduled: Sat, 01 Aug 2026 12:01:02 GMT")]),
            NoticeKind.TERMINATION,
            AT,
            30,
        ),
        (
            noticed(conditions=[azure("Redeploy Scheduled: Sat, 1 Aug 2026 12:01:02 GMT")]),
            NoticeKind.SCHEDULED_MAINTENANCE,
            AT,
            30,
        ),
        (noticed(conditions=[azure("Reboot Scheduled: soon")]), NoticeKind.SCHEDULED_MAINTENANCE, None, 30),
        (
            noticed(conditions=[azure("SpotRebalanceRecommendation Advisory: Sat, 01 Aug 2026 12:01:02 GMT.")]),
            NoticeKind.REBALANCE_RECOMMENDATION,
            None,
            30,
        ),
        (
            noticed(labels={"cloud.google.com/scheduled-maintenance-time": "1785585662"}),
            NoticeKind.SCHEDULED_MAINTENANCE,
            AT,
            120,
        ),
        (noticed(notice="spot-interruption"), NoticeKind.SPOT_INTERRUPTION, None, 120),
        (noticed(notice="spot-interruption@2026-08-01T12:01:02Z"), NoticeKind.SPOT_INTERRUPTION, AT, 120),
        (noticed(notice="termination@whenever"), NoticeKind.TERMINATION, None, 120),
    ],
)
def test_signs_of_all_clouds_are_read(node: Node, kind: NoticeKind, deadline: float | None, lead_s: float) -> None:
    notice = notice_of(node, ALL)
    assert notice is not None
    assert (notice.kind, notice.deadline, notice.lead_s) == (kind, deadline, lead_s)


@pytest.mark.parametrize(
    "node",
    [
        noticed(),
        noticed(taints=["aws-node-termination-handler/asg-launch-lifecycle"]),
        noticed(taints=["cloudprovider.azure.microsoft.com/draining=maintenance"]),
        noticed(conditions=[azure(PREEMPT, status="False")]),
        noticed(conditions=[azure("Freeze Scheduled: Sat, 01 Aug 2026 12:01:02 GMT")]),
        noticed(conditions=[azure("")]),
        noticed(conditions=[azure("VM has no scheduled event")]),
        noticed(labels={"cloud.google.com/scheduled-maintenance-time": "tomorrow"}),
        noticed(labels={"cloud.google.com/scheduled-maintenance-time": "9" * 40}),
        noticed(notice="spot"),
        noticed(notice="@2026-08-01T12:01:02Z"),
        noticed(notice="x" * 100_000),
    ],
)
def test_other_things_are_no_notice(node: Node) -> None:
    assert notice_of(node, ALL) is None


def test_only_chosen_kinds_count() -> None:
    node = noticed(taints=["aws-node-termination-handler/rebalance-recommendation"], notice="termination")
    assert notice_of(node, ()) is None
    found = notice_of(node, [NoticeKind.REBALANCE_RECOMMENDATION])
    assert found is not None
    assert found.kind is NoticeKind.REBALANCE_RECOMMENDATION


def test_the_most_urgent_sign_counts_and_of_equal_ones_the_earliest_moment() -> None:
    late, early = azure(PREEMPT.replace("12:01", "12:09")), azure(PREEMPT, "PreemptionScheduled")
    node = noticed(
        taints=["aws-node-termination-handler/spot-itn", "aws-node-termination-handler/scheduled-maintenance"],
        conditions=[late, early],
    )
    assert notice_of(node, ALL) == NodeNotice(
        kind=NoticeKind.SPOT_INTERRUPTION, sign="condition PreemptionScheduled", deadline=AT, lead_s=30.0
    )


def test_without_a_moment_the_end_is_counted_from_the_first_sight() -> None:
    notice = notice_of(noticed(taints=["aws-node-termination-handler/spot-itn"]), ALL)
    assert notice is not None
    assert notice.deadline_since(AT) == AT + 120
    assert notice.urgent


@pytest.mark.parametrize("deadline", [None, AT])
@pytest.mark.parametrize("kind", ALL)
def test_what_we_write_is_what_we_read(kind: NoticeKind, deadline: float | None) -> None:
    found = notice_of(noticed(notice=annotation_of(kind, deadline)), ALL)
    assert found is not None
    assert (found.kind, found.deadline) == (kind, deadline)
