"""The behaviours in which versions of Cluster Autoscaler differ, each by name.

Decision modules read these fields and never a version; `--compatibility` only fills them.
The default is what the newest version does. Versions are the first releases that had the newer behaviour.
"""

from typing import Annotated, get_args, get_type_hints

import msgspec


class BehaviourChange(msgspec.Struct, frozen=True):
    """One difference: what the field means when true, its value in 1.31, and the version that changed it."""

    meaning: str
    in_1_31: bool
    since: str | None = None
    """None: no version of Cluster Autoscaler; this program only."""


class Rules(msgspec.Struct, frozen=True):
    """Which of two behaviours to follow, one field per difference; the defaults are the newest version's.

    In 1.31 each field had the other value. A field states its meaning when true and the version that changed it;
    without one, Cluster Autoscaler never did.
    """

    # The pass.
    scale_down_after_scale_up: Annotated[
        bool, "A pass that scaled up continues with scale-down instead of ending.", "1.34"
    ] = True
    return_scale_up_error: Annotated[
        bool, "A failed scale-up fails the pass; otherwise it only shows in the status.", "1.34"
    ] = False
    return_min_size_error: Annotated[bool, "A failed enforcement of group minimums fails the pass.", "1.34"] = False
    max_nodes_total_result_limited: Annotated[
        bool, "Reaching max-nodes-total has its own result and event, not `NoOptionsAvailable`.", "1.33"
    ] = True
    startup_health_limit: Annotated[
        bool, "Until the first successful pass the health check allows max-startup-time.", "1.36"
    ] = True

    # Pods and the simulated cluster.
    nominated_pods_are_placed: Annotated[
        bool,
        "Nominated pods are a class of their own, placed on their node when the view is built; otherwise only "
        "non-expendable ones are, when expendable pods are dropped.",
        "1.35",
    ] = True
    stale_nominations_end: Annotated[
        bool,
        "A pod nominated to a node that has gone, or is being removed, needs room elsewhere; Cluster Autoscaler leaves "
        "it alone.",
    ] = True
    hints_by_priority: Annotated[
        bool,
        "Pods are placed on existing nodes by priority, pods with a hint first; otherwise in the given order.",
        "1.37",
    ] = True

    tolerated_cordons_are_open: Annotated[
        bool,
        "A pending pod that tolerates a cordon may use cordoned nodes, as in the scheduler; otherwise "
        "cordoned nodes are not tried.",
    ] = True
    pods_wait_for_affinity: Annotated[
        bool,
        "A pod whose affinity needs later pods is tried again once these have room; otherwise each pod "
        "is tried once, in order.",
    ] = True
    device_claims_count: Annotated[
        bool,
        "A pod with ResourceClaims fits only where they are allocated, or can be. "
        "Allocated devices count as a node's utilisation, and a node with missing devices is not ready. "
        "Otherwise claims and devices are ignored.",
        "1.35",
    ] = True

    declared_features_count: Annotated[
        bool,
        "A pod that needs a feature of its node fits only where `status.declaredFeatures` names it; otherwise such "
        "features are ignored.",
        "1.36",
    ] = True
    needed_csi_drivers_run: Annotated[
        bool,
        "If a CSIDriver has preventPodSchedulingIfMissing, pods with its volumes fit only where the driver runs, and a "
        "young node on which it does not run yet is not ready; otherwise the field is ignored.",
        "1.37",
    ] = True
    gangs_are_whole: Annotated[
        bool, "Nodes are bought for a gang of pods only if its minimum can start; otherwise pod by pod."
    ] = True

    # Node groups and their state.
    template_from_all_nodes: Annotated[
        bool, "Any node may be the example of its group; otherwise only ready ones.", "1.35"
    ] = True
    nodes_correct_templates: Annotated[
        bool,
        "If the newest nodes of a group have less than its template says, they replace it: at once for "
        "CPU and memory, then for everything, and for as long as templates are remembered. Otherwise the "
        "first healthy node is the template.",
    ] = True
    zones_in_balance: Annotated[
        bool,
        "A new node of a group with several zones is expected in the zone with the fewest nodes; "
        "otherwise in the zone of the group's template.",
    ] = True
    template_node_label: Annotated[bool, "Simulated nodes have the label that marks template nodes.", "1.32"] = True
    impaired_volumes_taint_ignored: Annotated[bool, "Templates omit the taint `NodeWithImpairedVolumes`.", "1.32"] = (
        True
    )
    notice_taints_ignored: Annotated[bool, "Templates omit taints that announce the end of a machine."] = True
    suspended_nodes: Annotated[bool, "A node with condition Suspended=True is neither ready nor unready.", "1.36"] = (
        True
    )
    node_startup_time_from_options: Annotated[
        bool, "max-node-startup-time applies, per group too; otherwise 15 minutes always.", "1.35"
    ] = True
    upcoming_needs_request: Annotated[
        bool,
        "Missing nodes are not upcoming if their group has no scale-up request, or is in backoff because "
        "machines failed.",
        "1.36",
    ] = True
    scaling_up_by_upcoming: Annotated[
        bool,
        "A group is scaling up when it has upcoming nodes and a request; otherwise when its target exceeds "
        "its registered nodes that have started.",
        "1.32",
    ] = True
    revert_timed_out_scale_up: Annotated[
        bool, "When a scale-up times out, the target size is lowered by the number of missing nodes.", "1.36"
    ] = True
    empty_groups_have_sizes: Annotated[
        bool,
        "The target of a group without nodes and machines is lowered like any other, once its machines "
        "are overdue; Cluster Autoscaler does not lower it.",
    ] = True
    backoff_needs_template: Annotated[bool, "A group without a template is not backed off.", "1.36"] = True
    non_atomic_scale_up_to_max: Annotated[
        bool, "The group option to keep a partially failed zero-or-max scale-up is honoured.", "1.34"
    ] = True

    # Scale-up.
    limits_count_group_targets: Annotated[
        bool,
        "Resources in use are the sum over groups of target size times template, plus nodes of no group (a group "
        "without template makes the scale-up fail); otherwise the sum over nodes and upcoming nodes.",
        "1.35",
    ] = False
    next_group_after_failed_increase: Annotated[
        bool, "A failed increase does not end the scale-up: its pods get other nodes in the same pass."
    ] = True
    balance_within_limits: Annotated[
        bool, "Balancing excludes groups that limits forbid, and caps each increase.", "1.36"
    ] = True
    all_gpu_vendors: Annotated[bool, "GPUs of every known vendor count; otherwise NVIDIA and DirectX only.", "1.35"] = (
        True
    )
    topology_fallback_in_estimator: Annotated[
        bool, "A pod that misses only on a host-name spread is tried on all new nodes, not just the last.", "1.33"
    ] = True
    least_waste_plain_containers: Annotated[
        bool, "least-waste sums plain containers only, without init containers and overhead.", "1.33"
    ] = False
    limit_reason_names_quota: Annotated[
        bool, "The reason of a group at a limit names the quota; otherwise only the resources.", "1.35"
    ] = True
    grpc_messages_as_bytes: Annotated[
        bool, "gRPC expander and provider exchange serialised objects, not typed ones.", "1.34"
    ] = True
    grpc_empty_answer_declines: Annotated[
        bool, "An empty answer of the gRPC expander means none of the options; otherwise all stay.", "1.32"
    ] = True

    # ProvisioningRequests.
    requests_force_scale_up: Annotated[
        bool, "A ProvisioningRequest is served even when pods are held back by their age or max-nodes-total.", "1.33"
    ] = True
    check_capacity_no_retry: Annotated[
        bool, "A check-capacity request with noRetry fails for good when there is no room.", "1.32"
    ] = True
    consumed_bookings_end: Annotated[bool, "A booking ends as soon as all pods of its request are scheduled."] = True

    # Scale-down.
    unmeasured_node_is_unused: Annotated[
        bool, "A node without CPU or memory amounts counts as unused; otherwise it stays.", "1.32"
    ] = False
    node_at_threshold_is_needed: Annotated[
        bool, "A node exactly at its utilisation threshold is needed; otherwise only above it.", "1.32"
    ] = False
    system_pods_block_forever: Annotated[
        bool,
        "kube-system pods without a PodDisruptionBudget block their node for ever; otherwise until "
        "blocking-system-pod-distruption-timeout.",
        "1.33",
    ] = False
    on_completion_pods: Annotated[
        bool, "safe-to-evict: on-completion keeps the node until the pod has finished.", "1.36"
    ] = True
    do_not_disrupt_counts: Annotated[
        bool,
        "The annotations karpenter.sh/do-not-disrupt (on pods, namespaces and nodes), "
        "node-autoscaling.kubernetes.io/safe-to-evict: false and "
        "cluster-autoscaler.kubernetes.io/safe-to-evict-after count; otherwise they are ignored.",
    ] = True
    ghost_node_in_removal: Annotated[
        bool,
        "A node under test stays as a tainted ghost while its pods are placed, then leaves the view; otherwise "
        "it stays in the view, empty and untainted.",
        "1.32",
    ] = True
    atomic_scale_down_registered_size: Annotated[
        bool,
        "A zero-or-max group may be removed with all its registered nodes; otherwise only with all of its target.",
        "1.34",
    ] = True
    evicted_pods_need_room: Annotated[
        bool,
        "Pods evicted by removals under way, and not yet recreated, take room; Cluster Autoscaler forgets them at "
        "once.",
    ] = True
    bare_pods_are_expected: Annotated[
        bool,
        "Pods without a controller on nodes being drained are expected to return, as in Cluster Autoscaler; "
        "otherwise only those that a controller recreates.",
    ] = False
    drains_are_independent: Annotated[
        bool,
        "Nodes whose pods share a PodDisruptionBudget that does not allow to evict them together are drained one "
        "after the other; otherwise side by side, up to max-drain-parallelism.",
    ] = True
    costly_nodes_go_first: Annotated[
        bool,
        "Among nodes that may go, unready nodes go first, then dearer ones, older ones, and those with fewer pods; "
        "otherwise as listed.",
    ] = True
    minimums_count_deleting_nodes: Annotated[
        bool, "Nodes being deleted still count towards the lower resource limits.", "1.36"
    ] = True
    scale_down_reports_no_candidates: Annotated[bool, "A scale-down without candidates has its own result.", "1.32"] = (
        True
    )
    parallel_tainting: Annotated[bool, "Nodes to delete are tainted five at a time; otherwise one by one.", "1.32"] = (
        True
    )
    reason_for_every_node: Annotated[
        bool, "Every node that stays has a reason, also at its group's minimum, where Cluster Autoscaler has none."
    ] = True

    # What the outside sees.
    status_by_json: Annotated[
        bool,
        "The status ConfigMap has its keys in alphabetical order, times in whole seconds, and structures that are "
        "empty; otherwise keys as declared, fractions of seconds, and nothing that is empty.",
        "1.35",
    ] = True
    wide_duration_buckets: Annotated[
        bool, "function_duration_seconds has 150 buckets from 0.1 to 1800 seconds; otherwise 30.", "1.36"
    ] = True


def changes() -> dict[str, BehaviourChange]:
    """Return every difference by field name, in the order of the fields."""
    newest, hints = Rules(), get_type_hints(Rules, include_extras=True)
    texts = {name: get_args(hints[name])[1:] for name in Rules.__struct_fields__}
    return {
        name: BehaviourChange(meaning, not getattr(newest, name), *since) for name, (meaning, *since) in texts.items()
    }


def rules_at(version: str) -> Rules:
    """Return the behaviours of a version from 1.31 on, such as `1.34`."""
    return Rules(**{name: change.in_1_31 != _had(version, change) for name, change in changes().items()})


def _had(version: str, change: BehaviourChange) -> bool:
    """Whether the version already had the newer behaviour."""
    return change.since is not None and _number(change.since) <= _number(version)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def rules_of_1_31() -> Rules:
    """Return the behaviours of version 1.31."""
    return rules_at("1.31")
