"""Taints by which agents of the clouds announce that a machine will leave."""

from collections.abc import Mapping

import msgspec

from cloudprovider.interface import NoticeKind

LONG_S, SHORT_S = 120.0, 30.0
"""Seconds from a notice without a moment to the end: on AWS, and on GCE and Azure."""
GKE_ENDING = "cloud.google.com/impending-node-termination"
AZURE_DRAINING = "cloudprovider.azure.microsoft.com/draining"
_HANDLER = "aws-node-termination-handler/"


class NoticeTaint(msgspec.Struct, frozen=True):
    """What a taint announces, and how many seconds before the end."""

    kind: NoticeKind
    lead_s: float = LONG_S


NOTICE_TAINTS: Mapping[str, NoticeTaint] = {
    f"{_HANDLER}spot-itn": NoticeTaint(NoticeKind.SPOT_INTERRUPTION),
    f"{_HANDLER}asg-lifecycle-termination": NoticeTaint(NoticeKind.TERMINATION),
    f"{_HANDLER}scheduled-maintenance": NoticeTaint(NoticeKind.SCHEDULED_MAINTENANCE),
    f"{_HANDLER}rebalance-recommendation": NoticeTaint(NoticeKind.REBALANCE_RECOMMENDATION),
    GKE_ENDING: NoticeTaint(NoticeKind.TERMINATION, SHORT_S),
    AZURE_DRAINING: NoticeTaint(NoticeKind.SPOT_INTERRUPTION, SHORT_S),
    "karpenter.sh/disrupted": NoticeTaint(NoticeKind.TERMINATION),
}
"""By key."""
