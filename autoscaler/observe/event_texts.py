"""The texts of events, in Cluster Autoscaler's wording, so that existing alerts work."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from autoscaler.objects.capacity import consumed_request
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import Lack
from autoscaler.registry.occurrence import Occurrence
from autoscaler.scaledown.drift_memory import DriftFailure
from autoscaler.scaledown.plan import Removal
from autoscaler.scaledown.replacement import Replacement
from autoscaler.scaleup.plan import Increase, Resized, ScaleUpPlan
from autoscaler.scaleup.shortfall import Lacking, Shortfall
from cloudprovider.duration import show_duration
from cloudprovider.interface import ErrorClass, InstanceError

NODES_TOTAL_REACHED = "max total nodes in cluster reached"
"""For a pod that gets no help because the cluster may not have more nodes."""

NO_NODES = "Cluster has no nodes."
NO_READY_NODES = "Cluster has no ready nodes."
UNHEALTHY = "Cluster is unhealthy"
NODE_MARKED = "marked the node as toBeDeleted/unschedulable"
NODE_REMOVED = "nodes removed by cluster autoscaler"
EVICTING = "deleting pod for node scale down"

_CLASSES = {ErrorClass.OUT_OF_RESOURCES: "OutOfResource", ErrorClass.OTHER: "Other"}


def timed_out(late: Occurrence) -> str:
    """When machines that were asked for have not become nodes in time."""
    return f"Nodes added to group {late.group} failed to register within {show_duration(late.lasted_s or 0.0)}"


def not_created(failed: Occurrence) -> str:
    """When the cloud could not create machines."""
    error = failed.error
    cause = "unknown error" if error is None else f"{_CLASSES[error.error_class]}.{error.code}"
    sources = ", ".join(failed.messages)
    return f"Failed adding {failed.nodes} nodes to group {failed.group} due to {cause}; source errors: {sources}"


def not_reverted(failed: Resized, after: str) -> str:
    """When the target of a scale-up could not be lowered after it had failed in some way."""
    message = failed.error.message if failed.error else "unknown error"
    return f"Failed to decrease target size for group {failed.group} after {after}: {message}"


def unregistered_removed(machine: str) -> str:
    """When a machine that never registered was deleted."""
    return f"Removed unregistered node {machine}"


def unregistered_not_removed(machine: str, error: InstanceError) -> str:
    """When a machine that never registered could not be deleted."""
    return f"Failed to remove node {machine}: {error.message}"


def nodes_total_reached(limit: int) -> str:
    """When the cluster may not have more nodes."""
    return f"Max total nodes in cluster reached: {limit}"


def short_of_template(shortfall: Shortfall) -> str:
    """When nodes of a group turn out to offer less than they were bought for."""
    differences = ", ".join(_lacking_text(lacking) for lacking in shortfall.lacking)
    return (
        f"Nodes of group {shortfall.group} offer less than its template says (seen on {shortfall.node}): {differences}"
    )


def _lacking_text(lacking: Lacking) -> str:
    match lacking.kind:
        case Lack.RESOURCE:
            return f"{lacking.name} {lacking.real} instead of {lacking.promised}"
        case Lack.LABEL:
            difference = f"{lacking.real} instead of {lacking.promised}" if lacking.real else "is missing"
            return f"label {lacking.name} {difference}"
        case Lack.TAINT:
            return f"taint {lacking.name}"


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


def triggered(pods: str, increases: Iterable[Increase]) -> str:
    """On pods (`pod`, or `of_buffer`) for which nodes were asked."""
    shown = " ".join(
        f"{{{increase.group} {increase.before}->{increase.before + increase.delta} (max: {increase.max_size})}}"
        for increase in increases
    )
    return f"{pods} triggered scale-up: [{shown}]"


def not_triggered(pods: str, reasons: Iterable[str], fix: str = "") -> str:
    """On pods (`pod`, or `of_buffer`) for which nothing could be done; several kinds of them have several reasons.

    `fix` is what would help, in sentences.
    """
    text = f"{pods} didn't trigger scale-up: {','.join(dict.fromkeys(reasons))}"
    return f"{text}. {fix[0].upper()}{fix[1:]}" if fix else text


def consumes_request(pod: Pod) -> str:
    """On pods that use the capacity of a ProvisioningRequest."""
    name = f"{pod.namespace}/{consumed_request(pod.cls.annotations)}"
    return f"Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest {name}"


def of_buffer(count: int) -> str:
    """Return what the pods that represent a CapacityBuffer are called."""
    return f"capacity buffer {count} fake pods"


def rejections_text(plan: ScaleUpPlan, cls: PodClass) -> str:
    """Return why nothing could be done for a pod: the number of groups per reason.

    The scheduler stops at the first filter that rejects a pod. So a group counts with that filter, and with everything
    that the filter says.
    """
    reasons: Counter[str] = Counter()
    for rejections in plan.rejected.get(cls, {}).values():
        reasons.update(rejection.message for rejection in rejections if rejection.reason is rejections[0].reason)
    reasons.update(skipped.message for skipped in plan.skipped)
    if plan.capped_by_nodes_total and not reasons:
        return NODES_TOTAL_REACHED
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


def protection_over(stated: str, limit_s: float) -> str:
    """Say that a pod has kept its node for as long as the operator allows; `stated` is what protected it."""
    return f"the pod is moved: {stated}, and --do-not-disrupt-limit={show_duration(limit_s)} from its start is over"


def drift_stopped(failure: DriftFailure) -> str:
    """Return why no drifted node is replaced any more, and how to go on."""
    return f"Stopped to replace drifted nodes: {failure.reason}. To go on, run: autoscaler resume drift"


def replacement(replaced: Replacement) -> str:
    """Return the progress of a replacement, and its saving if prices are known."""
    nodes = ", ".join(replaced.nodes)
    why = f"{replaced.trigger}: {replaced.cause}" if replaced.cause else replaced.trigger
    text = f"Replacement of node {nodes} ({why}): {replaced.stage}"
    if replaced.hold is not None:
        text += f", {replaced.hold}: {replaced.detail}"
    if replaced.price_before is not None and replaced.price_after is not None:
        text += f"; price per hour {replaced.price_before:g} -> {replaced.price_after:g}"
    if replaced.disturbance is not None:
        text += f"; disturbance {replaced.disturbance:.3g} pods"
    return text


def node_not_marked(error: str) -> str:
    """When a node could not be tainted for deletion."""
    return f"failed to mark the node as toBeDeleted/unschedulable: {error}"


def removing(removal: Removal) -> str:
    """When the removal of a node begins."""
    name = removal.node.name
    if not removal.drained:
        return f'Scale-down: removing empty node "{name}"'
    used = "unknown" if removal.utilization is None else f"{removal.utilization:g}"
    pods = ",".join(pod.name for pod in removal.pods)
    return f"Scale-down: removing node {name}, utilization: {used}, pods to reschedule: {pods}"


def removed(removal: Removal) -> str:
    """When the cloud deletes a node's machine."""
    name = removal.node.name
    return (
        f"Scale-down: node {name} removed with drain" if removal.drained else f"Scale-down: empty node {name} removed"
    )


def removal_aborted(removal: Removal, message: str) -> str:
    """When a removal in progress was aborted."""
    return f"failed to {'drain and delete node' if removal.drained else 'delete empty node'}: {message}"


def not_evicted(error: str) -> str:
    """On pods that must be evicted and could not be evicted in time."""
    return f"failed to delete pod for ScaleDown: {error}"


def budget_overruled(removal: Removal, pod: Pod, forbids: str) -> str:
    """When a pod was deleted although a disruption budget forbids it."""
    return (
        f"deleted pod {pod.key} of node {removal.node.name} although {forbids} allows no more disruptions: "
        f"{removal.overrules}"
    )


def taint_removed(node: Node, taint: str) -> str:
    """When a taint that an earlier process left was removed."""
    return f"removed {taint} taint from node {node.name}"


def taint_not_removed(node: Node, taint: str, error: str) -> str:
    """When a taint that an earlier process left could not be removed."""
    return f"failed to clean {taint} on node {node.name}: {error}"
