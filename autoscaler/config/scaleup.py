"""Options of everything that adds nodes: pods, scale-up, limits, balancing, group health, templates, features."""

from enum import StrEnum
from typing import Annotated

import msgspec

from autoscaler.config.syntax import (
    CoreRange,
    Count,
    CountFromOne,
    FlagDifference,
    GibRange,
    GpuRanges,
    Names,
    Number,
    OptionalNumber,
    OptionalText,
    Percent,
    Range,
    Real,
    StringArray,
    StringSlice,
    Support,
    Switch,
    choice,
)
from cloudprovider.structure import Seconds


class Estimator(StrEnum):
    """Ways to count the nodes that pods need."""

    BINPACKING = "binpacking"


class GroupsPerPass(StrEnum):
    """How many expansion options one pass may take."""

    ALL = "all"
    ONE = "one"


class TieBreak(StrEnum):
    """What decides between options that the expanders rate alike."""

    STABLE = "stable"
    RANDOM = "random"


class Pods(msgspec.Struct, frozen=True):
    """Which pods count as pending."""

    expendable_pods_priority_cutoff: Annotated[
        Number, "Pods of lower priority neither cause a scale-up nor hold a node."
    ] = -10
    new_pod_scale_up_delay_s: Annotated[Seconds, "Pods younger than this do not cause a scale-up."] = 0.0
    allowed_scheduler_names: Annotated[StringSlice, "Only pods of these schedulers are considered at all."] = ()
    bypassed_scheduler_names: Annotated[
        StringSlice, "Pods of these schedulers count as pending before their scheduler has looked at them."
    ] = ()
    max_pod_evaluation_work: Annotated[
        CountFromOne,
        "Pods with more constraints than this are not tried: each part of a constraint counts once for every node, or "
        "every class of placed pods, that it is compared with. Selectors of all pods together may make a hundred times "
        "as much.",
        Support.OURS,
    ] = 10_000_000
    enable_proactive_scaleup: Annotated[
        Switch,
        "Add the pods that controllers have yet to create.",
        Support.ACCEPTED,
        FlagDifference("Pods are counted once they exist."),
    ] = False
    pod_injection_limit: Annotated[
        Count,
        "Most pods to which such additions may raise the list.",
        Support.ACCEPTED,
        FlagDifference("Nothing is added so far."),
    ] = 5000
    enable_graceful_degradation: Annotated[
        Switch,
        "Cut the placing of pending pods short when it takes too long.",
        Support.NOT_APPLICABLE,
        FlagDifference("Placing 10,000 pending pods takes well under a second, so there is nothing to cut short."),
    ] = False
    pending_pods_batching_timeout_s: Annotated[
        Seconds,
        "How long placing pending pods may then take.",
        Support.NOT_APPLICABLE,
        FlagDifference("Placing 10,000 pending pods takes well under a second, so there is nothing to cut short."),
    ] = 240.0


class ScaleUp(msgspec.Struct, frozen=True):
    """How many nodes to add, and to which group."""

    expander: Annotated[Names, "Rules that choose between node groups, applied in turn until one group is left."] = (
        "least-waste",
    )
    estimator: Annotated[Estimator, choice(Estimator), "How the nodes that pods need are counted."] = (
        Estimator.BINPACKING
    )
    max_nodes_per_scaleup: Annotated[Count, "Most nodes that one scale-up adds; 0 means no limit."] = 1000
    max_nodegroup_binpacking_duration_s: Annotated[
        Seconds,
        "Longest time spent on counting nodes for one group.",
        Support.NOT_APPLICABLE,
        FlagDifference("Counting nodes takes a fraction of a second and is never cut short."),
    ] = 10.0
    max_binpacking_time_s: Annotated[
        Seconds,
        "Longest time spent on counting nodes for all groups.",
        Support.NOT_APPLICABLE,
        FlagDifference("Counting nodes takes a fraction of a second and is never cut short."),
    ] = 300.0
    groups_per_pass: Annotated[
        GroupsPerPass, choice(GroupsPerPass), "Whether one pass may scale several different groups.", Support.OURS
    ] = GroupsPerPass.ALL
    tie_break: Annotated[
        TieBreak, choice(TieBreak), "Choice between options that the expanders rate alike.", Support.OURS
    ] = TieBreak.STABLE
    cost_stability_margin: Annotated[
        Real,
        "The cost expander spreads a scale-up over more node groups only to save more than this share of its price.",
        Support.OURS,
    ] = 0.05
    expander_seed: Annotated[
        OptionalNumber,
        "Seed of random choices. Without it the daemon draws one when it starts; plans and simulations repeat anyway.",
        Support.OURS,
    ] = None
    parallel_scale_up: Annotated[Switch, "Resize several groups at the same time."] = False
    scale_up_from_zero: Annotated[Switch, "Scale up even when the cluster has no ready node."] = True
    enforce_node_group_min_size: Annotated[Switch, "Raise groups that are below their minimum size."] = False
    salvo_scale_up: Annotated[
        Switch,
        "Several scale-ups in one pass.",
        Support.BETTER,
        FlagDifference(
            "Always on: it is --groups-per-pass=all, the default. Given, it also overrides --compatibility=1.31."
        ),
    ] = False
    salvo_scale_up_budget_s: Annotated[
        Seconds,
        "Longest time for those.",
        Support.NOT_APPLICABLE,
        FlagDifference("All groups of a pass are planned together, in a fraction of a second."),
    ] = 60.0
    fastpath_binpacking_enabled: Annotated[
        Switch,
        "Count nodes of the largest group arithmetically.",
        Support.NOT_APPLICABLE,
        FlagDifference("The exact count is fast enough."),
    ] = False
    scaleup_simulation_for_skipped_node_groups_enabled: Annotated[
        Switch,
        "Check pods against skipped groups too, to blame only those that could have helped.",
        Support.ACCEPTED,
        FlagDifference("Events blame every skipped group."),
    ] = False
    grpc_expander_url: Annotated[OptionalText, "Address of the gRPC expander, host:port."] = None
    grpc_expander_cert: Annotated[
        OptionalText, "PEM file with the certificate of the gRPC expander, or of the authority that vouches for it."
    ] = None


class ResourceLimits(msgspec.Struct, frozen=True):
    """Limits of the whole cluster."""

    cores_total: Annotated[CoreRange, "Least and most cores in the cluster."] = Range(0, 320000)
    memory_total: Annotated[GibRange, "Least and most memory in the cluster, in GiB."] = Range(0, 6400000)
    gpu_total: Annotated[GpuRanges, "Least and most GPUs of one type in the cluster."] = ()
    max_nodes_total: Annotated[Count, "Most nodes in the cluster, of every group and of none; 0 means no limit."] = 0
    capacity_quotas_enabled: Annotated[
        Switch,
        "Obey CapacityQuota objects.",
        Support.ACCEPTED,
        FlagDifference("CapacityQuota objects are not read yet: asked to obey them, it does not start."),
    ] = False


class Balancing(msgspec.Struct, frozen=True):
    """Keeping similar node groups at similar sizes."""

    balance_similar_node_groups: Annotated[Switch, "Spread a scale-up over similar node groups."] = False
    balancing_label: Annotated[
        StringArray, "Groups are similar when these labels are equal; replaces the usual comparison."
    ] = ()
    balancing_ignore_label: Annotated[StringArray, "Label that may differ between similar groups."] = ()
    max_allocatable_difference_ratio: Annotated[
        Real, "Largest relative difference in allocatable resources of similar groups."
    ] = 0.05
    max_free_difference_ratio: Annotated[Real, "Largest relative difference in free resources of similar groups."] = (
        0.05
    )
    memory_difference_ratio: Annotated[Real, "Largest relative difference in memory capacity of similar groups."] = (
        0.015
    )


class HealthOptions(msgspec.Struct, frozen=True):
    """When the cluster, a group, or a new node counts as failed."""

    ok_total_unready_count: Annotated[Count, "So many unready nodes are fine, whatever their share."] = 3
    max_total_unready_percentage: Annotated[Percent, "Above this share of unready nodes nothing is scaled."] = 45.0
    max_node_provision_time_s: Annotated[Seconds, "How long a requested node may take to register."] = 900.0
    max_node_startup_time_s: Annotated[Seconds, "How long a registered node may take to become ready."] = 900.0
    initial_node_group_backoff_duration_s: Annotated[
        Seconds, "How long a group is left alone after its first failed scale-up."
    ] = 300.0
    max_node_group_backoff_duration_s: Annotated[Seconds, "Longest time that a failing group is left alone."] = 1800.0
    node_group_backoff_reset_timeout_s: Annotated[Seconds, "Failures older than this are forgotten."] = 10800.0
    force_delete_failed_nodes: Annotated[Switch, "Delete instances that failed to start by force."] = False
    force_delete_unregistered_nodes: Annotated[
        Switch, "Delete unregistered instances by force, even below the group's minimum."
    ] = False


class TemplateOptions(msgspec.Struct, frozen=True):
    """What a new node of a group looks like, and what makes it ready."""

    node_info_cache_expire_time_s: Annotated[
        Seconds, "How long a template taken from a node may be used after that node is gone."
    ] = 315360000.0
    force_ds: Annotated[Switch, "Put every suitable DaemonSet on templates, not just those the example node runs."] = (
        False
    )
    startup_taint: Annotated[
        StringArray, "Taint that new nodes carry until they are ready; left out of templates."
    ] = ()
    startup_taint_prefix: Annotated[StringArray, "Prefix of such taints."] = ()
    ignore_taint: Annotated[StringArray, "Older name of startup-taint."] = ()
    status_taint: Annotated[StringArray, "Taint that comes and goes on working nodes; left out of templates."] = ()
    scale_from_unschedulable: Annotated[Switch, "A cordoned node may be the example of its group."] = False
    scheduler_config_file: Annotated[OptionalText, "KubeSchedulerConfiguration with one profile."] = None


class Features(msgspec.Struct, frozen=True):
    """Further APIs, and tuning of parts that work differently here."""

    enable_provisioning_requests: Annotated[Switch, "Handle ProvisioningRequest objects."] = False
    provisioning_request_initial_backoff_time_s: Annotated[
        Seconds, "First wait after a failed ProvisioningRequest."
    ] = 60.0
    provisioning_request_max_backoff_time_s: Annotated[Seconds, "Longest wait after failed ProvisioningRequests."] = (
        600.0
    )
    provisioning_request_max_backoff_cache_size: Annotated[
        Count, "How many waiting ProvisioningRequests are remembered."
    ] = 1000
    check_capacity_batch_processing: Annotated[Switch, "Handle several check-capacity requests in one pass."] = False
    check_capacity_processor_instance: Annotated[
        OptionalText, "Handle only check-capacity requests for this instance."
    ] = None
    check_capacity_provisioning_request_batch_timebox_s: Annotated[
        Seconds, "Longest time for one batch of check-capacity requests; of the daemon alone."
    ] = 10.0
    check_capacity_provisioning_request_max_batch_size: Annotated[
        Count, "Most check-capacity requests in one batch."
    ] = 10
    capacity_buffer_controller_enabled: Annotated[Switch, "Run the controller of CapacityBuffer objects."] = False
    capacity_buffer_pod_injection_enabled: Annotated[Switch, "Keep room for the pods of CapacityBuffer objects."] = (
        False
    )
    capacity_buffer_ready_replicas_enabled: Annotated[
        Switch,
        "Keep status.readyReplicas of CapacityBuffer objects up to date.",
        Support.ACCEPTED,
        FlagDifference("The field is not written yet."),
    ] = False
    capacity_buffer_pod_dry_run_enabled: Annotated[
        Switch,
        "Complete buffer pods by a dry run on the API server.",
        Support.ACCEPTED,
        FlagDifference("Templates are taken as they are written."),
    ] = True
    enable_dynamic_resource_allocation: Annotated[
        Switch,
        "Keep pods with ResourceClaims where these are allocated, and judge nodes by their ResourceSlices; otherwise "
        "both are ignored.",
        FlagDifference("Claims not allocated yet cannot be simulated: no node is bought for them, and reasons say so."),
    ] = True
    enable_csi_node_aware_scheduling: Annotated[
        Switch,
        "Take the volume limits of new nodes into account.",
        Support.ACCEPTED,
        FlagDifference("Limits of existing nodes always count; new nodes are taken to have none."),
    ] = False
    enable_inter_pod_affinity_hostname_fast_path: Annotated[
        Switch,
        "Faster affinity to single nodes.",
        Support.NOT_APPLICABLE,
        FlagDifference("Affinity to single nodes is always fast."),
    ] = False
    cluster_snapshot_parallelism: Annotated[
        Count,
        "Threads that fill the snapshot.",
        Support.NOT_APPLICABLE,
        FlagDifference("The snapshot is kept up to date by one thread."),
    ] = 16
    predicate_parallelism: Annotated[
        CountFromOne,
        "Threads that check predicates.",
        Support.NOT_APPLICABLE,
        FlagDifference("Predicates are checked for whole columns of nodes, by one thread."),
    ] = 4
    scheduler_verbosity: Annotated[
        Number,
        "Log verbosity of the scheduler library.",
        Support.NOT_APPLICABLE,
        FlagDifference("The scheduler's library is not used."),
    ] = -1
