"""Why a pod cannot be scheduled, in the scheduler's words: `0/3 nodes are available: 3 Insufficient cpu.`"""

from collections import Counter
from collections.abc import Iterable

from autoscaler.objects.pod import PodClass
from autoscaler.reasons import NoFit
from autoscaler.scheduling.placement import Placer

_EVICTION_HELPS = frozenset(
    (NoFit.PORTS, NoFit.RESOURCES, NoFit.SPREAD, NoFit.POD_AFFINITY, NoFit.VOLUME_LIMITS, NoFit.VOLUME_RESTRICTIONS)
)
_NO_HELP = "Preemption is not helpful for scheduling"
_NO_VICTIMS = "No preemption victims found for incoming pod"


def unschedulable(placer: Placer, cls: PodClass) -> str:
    """Count the nodes by what the first filter that refused them says; then what preemption could do."""
    nodes = placer.trial.base
    if nodes == 0:
        return "no nodes available to schedule pods"
    reasons: Counter[str] = Counter()
    prospects: Counter[str] = Counter()
    for position in range(nodes):
        rejections = placer.why(cls, position)
        if not rejections:
            continue
        first = rejections[0].reason
        reasons.update(one.message for one in rejections if one.reason is first)
        prospects[_NO_VICTIMS if first in _EVICTION_HELPS else _NO_HELP] += 1
    outlook = f"0/{nodes} nodes are available: {_counted(prospects.items())}."
    if cls.preemption_policy == "Never":
        outlook = "not eligible due to preemptionPolicy=Never."
    return f"0/{nodes} nodes are available: {_counted(reasons.items())}. preemption: {outlook}"


def _counted(reasons: Iterable[tuple[str, int]]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons))
