"""The sentences that people read in events; wording as Cluster Autoscaler's, so that alerts on them keep working."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from autoscaler.objects.pod import PodClass
from autoscaler.reasons import Lack
from autoscaler.scaledown.replacement import Replacement
from autoscaler.scaleup.plan import Increase, Resized, ScaleUpPlan
from autoscaler.scaleup.shortfall import Lacking, Shortfall
from cloudprovider.interface import InstanceError

NODES_TOTAL_REACHED = "pod didn't trigger scale-up: max total nodes in cluster reached"
"""On a pod for which nothing is tried because the cluster may not have more nodes."""


def short_of_template(found: Shortfall) -> str:
    """When nodes of a group turn out to offer less than they were bought for."""
    listed = ", ".join(_lacked(one) for one in found.lacking)
    return f"Nodes of group {found.group} offer less than its template says (seen on {found.node}): {listed}"


def _lacked(one: Lacking) -> str:
    match one.kind:
        case Lack.RESOURCE:
            return f"{one.name} {one.real} instead of {one.promised}"
        case Lack.LABEL:
            return f"label {one.name} {f'{one.real} instead of {one.promised}' if one.real else 'is missing'}"
        case Lack.TAINT:
            return f"taint {one.name}"


def resizing(increase: Increase) -> str:
    """Before a group is resized."""
    size = increase.before + increase.delta
    return (
        f"Scale-up: setting group {increase.group} size to {size} instead of {increase.before} "
        f"(max: {increase.max_size})"
    )


def resized(done: Resized, max_size: int) -> str:
    """After a group was resized."""
    return f"Scale-up: group {done.group} size set to {done.after} instead of {done.before} (max: {max_size})"


def resize_failed(failed: Resized) -> str:
    """After a resize failed."""
    return f"Scale-up failed for group {failed.group}: {failed.error.message if failed.error else 'unknown error'}"


def resize_errors(errors: Sequence[InstanceError]) -> str:
    """All that failed in one scale-up as one message; the kinds of error are named where there are several."""
    ordered = sorted(dict.fromkeys((error.code, error.message) for error in errors))
    if len(ordered) < 2:
        return "".join(message for _, message in ordered)
    several = len({code for code, _ in ordered}) > 1
    others = ", ".join(json.dumps(f"[{code}] {text}" if several else text) for code, text in ordered[1:])
    return f"{ordered[0][1]} ...and other concurrent errors: [{others}]"


def triggered(increases: Iterable[Increase]) -> str:
    """On a pod for which nodes were asked."""
    shown = " ".join(
        f"{{{one.group} {one.before}->{one.before + one.delta} (max: {one.max_size})}}" for one in increases
    )
    return f"pod triggered scale-up: [{shown}]"


def not_triggered(plan: ScaleUpPlan, cls: PodClass) -> str:
    """On a pod for which nothing could be done: how many groups had which reason against it.

    Like the scheduler, which stops there, a group counts with the first filter that rejects the pod, and with
    everything which that filter says.
    """
    reasons: Counter[str] = Counter()
    for rejections in plan.rejected.get(cls, {}).values():
        reasons.update(one.message for one in rejections if one.reason is rejections[0].reason)
    reasons.update(skipped.message for skipped in plan.skipped)
    if plan.capped_by_nodes_total and not reasons:
        return NODES_TOTAL_REACHED
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return f"pod didn't trigger scale-up: {listed}"


def replacement(one: Replacement) -> str:
    """Return how far a replacement has come, with what it saves where prices are known."""
    nodes = ", ".join(one.nodes)
    text = f"Replacement of node {nodes} ({one.trigger}): {one.stage}"
    if one.hold is not None:
        text += f", {one.hold}: {one.detail}"
    if one.price_before is not None and one.price_after is not None:
        text += f"; price per hour {one.price_before:g} -> {one.price_after:g}"
    return text
