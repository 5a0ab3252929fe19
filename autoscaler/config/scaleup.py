"""Options of everything that adds nodes: pods, scale-up, limits, balancing, group health, templates, features."""

from enum import StrEnum
from typing import Annotated

import msgspec

from autoscaler.config.expanders import EXPANDERS
from autoscaler.config.syntax import (
    CoreRange,
    Count,
    CountFromOne,
    GibRange,
    GpuRanges,
    Number,
    OptionalFile,
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
    names,
)
from cloudprovider.structure import Seconds

_PLACED_SOON = "Placing 10,000 pending pods takes well under a second, so no limit is needed."
_COUNTED_SOON = "Counting nodes takes a fraction of a second, so no limit is needed."


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
        Number, "Pods of lower priority neither cause a scale-up nor keep a node."
    ] = -10
    new_pod_scale_up_delay_s: Annotated[Seconds, "Pods younger than this do not cause a scale-up."] = 0.0
    allowed_scheduler_names: Annotated[StringSlice, "Consider only pods of these schedulers."] = ()
    bypassed_scheduler_names: Annotated[
        StringSlice, "Pods of these schedulers count as pending before their scheduler has tried to place them."
    ] = ()
    max_pod_evaluation_work: Annotated[
        CountFromOne,
        "The autoscaler skips pods with more constraint work than this. Each part of a constraint counts "
        "once for every node, or every class of placed pods, that it is compared with. The selectors of "
        "all pods together may use a hundred times as much.",
        Support.OURS,
    ] = 10_000_000
    enable_proactive_scaleup: Annotated[
        Switch,
        "Count pods that ReplicaSets, Jobs and StatefulSets of policy Parallel have yet to create.",
    ] = False
    pod_injection_limit: Annotated[
        Count, "Maximum number of such additions, and of pods that need nodes including them."
    ] = 5000
    room_for_deferred_resizes: Annotated[
        Switch,
        "If a pod cannot grow in place because its node is full, keep room for it on another. Nothing is evicted.",
        Support.OURS,
    ] = False
    enable_graceful_degradation: Annotated[
        Switch, "Stop placing pending pods when it takes too long.", Support.NOT_APPLICABLE, _PLACED_SOON
    ] = False
    pending_pods_batching_timeout_s: Annotated[
        Seconds, "Time limit for placing pending pods.", Support.NOT_APPLICABLE, _PLACED_SOON
    ] = 240.0


class ScaleUp(msgspec.Struct, frozen=True):
    """How many nodes to add, and to which group."""

    expander: Annotated[
        tuple[str, ...],
        names(EXPANDERS),
        "Rules that choose between node groups, applied in order until one group remains.",
    ] = ("least-waste",)
    estimator: Annotated[Estimator, choice(Estimator), "How to count the nodes that pods need."] = Estimator.BINPACKING
    max_nodes_per_scaleup: Annotated[Count, "Maximum number of nodes that one scale-up adds; 0 means no limit."] = 1000
    max_nodegroup_binpacking_duration_s: Annotated[
        Seconds, "Time limit for counting the nodes of one group.", Support.NOT_APPLICABLE, _COUNTED_SOON
    ] = 10.0
    max_binpacking_time_s: Annotated[
        Seconds, "Time limit for counting the nodes of all groups.", Support.NOT_APPLICABLE, _COUNTED_SOON
    ] = 300.0
    groups_per_pass: Annotated[
        GroupsPerPass, choice(GroupsPerPass), "How many different groups one pass may scale up.", Support.OURS
    ] = GroupsPerPass.ALL
    tie_break: Annotated[
        TieBreak, choice(TieBreak), "How to choose between options that the expanders rate equally.", Support.OURS
    ] = TieBreak.STABLE
    weigh_soft_constraints: Annotated[
        Switch,
        "Between options that the expanders rate equally, choose the one that the pods prefer: by preferred affinity, "
        "ScheduleAnyway constraints and PreferNoSchedule taints. It is the expander `preferred` at the end of the "
        "chain, or before `random`.",
        Support.OURS,
    ] = True
    soft_constraint_price_margin: Annotated[
        Real,
        "An option that costs more for each pod than the cheapest by more than this share is not preferred to others.",
        Support.OURS,
    ] = 0.05
    cost_stability_margin: Annotated[
        Real,
        "The cost expander uses more node groups only if that saves more than this share of the price.",
        Support.OURS,
    ] = 0.05
    expander_seed: Annotated[
        OptionalNumber,
        "Seed of random choices. By default the daemon draws a seed at start; plans and simulations always repeat.",
        Support.OURS,
    ] = None
    parallel_scale_up: Annotated[Switch, "Resize several groups at the same time."] = False
    scale_up_from_zero: Annotated[Switch, "Scale up even when the cluster has no ready node."] = True
    enforce_node_group_min_size: Annotated[Switch, "Scale up groups that are below their minimum size."] = False
    salvo_scale_up: Annotated[
        Switch,
        "Several scale-ups in one pass.",
        Support.BETTER,
        "Always on: it equals --groups-per-pass=all, the default. If set, it also overrides --compatibility=1.31.",
    ] = False
    salvo_scale_up_budget_s: Annotated[
        Seconds,
        "Time limit for these scale-ups.",
        Support.NOT_APPLICABLE,
        "The autoscaler plans all groups of a pass together, in a fraction of a second.",
    ] = 60.0
    fastpath_binpacking_enabled: Annotated[
        Switch,
        "Count nodes of the largest group arithmetically.",
        Support.NOT_APPLICABLE,
        "The exact count is fast enough.",
    ] = False
    scaleup_simulation_for_skipped_node_groups_enabled: Annotated[
        Switch,
        "Check pods against skipped groups too, so that events name only groups that could have helped.",
        Support.ACCEPTED,
        "Events name every skipped group.",
    ] = False
    grpc_expander_url: Annotated[OptionalText, "Address of the gRPC expander, host:port."] = None
    grpc_expander_cert: Annotated[
        OptionalFile, "PEM file with the certificate of the gRPC expander or of its certificate authority."
    ] = None


class ResourceLimits(msgspec.Struct, frozen=True):
    """Limits of the whole cluster."""

    cores_total: Annotated[CoreRange, "Minimum and maximum number of cores in the cluster."] = Range(0, 320000)
    memory_total: Annotated[GibRange, "Minimum and maximum memory of the cluster, in GiB."] = Range(0, 6400000)
    gpu_total: Annotated[GpuRanges, "Minimum and maximum number of GPUs of one type in the cluster."] = ()
    max_nodes_total: Annotated[
        Count, "Maximum number of nodes in the cluster, inside and outside node groups; 0 means no limit."
    ] = 0
    capacity_quotas_enabled: Annotated[
        Switch, "Obey CapacityQuota objects, which limit the nodes that they select, and keep their status."
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

    ok_total_unready_count: Annotated[Count, "Number of unready nodes that is acceptable, whatever their share."] = 3
    max_total_unready_percentage: Annotated[
        Percent, "If more than this share of the nodes is unready, nothing is scaled."
    ] = 45.0
    max_node_provision_time_s: Annotated[Seconds, "How long a requested node may take to register."] = 900.0
    max_node_startup_time_s: Annotated[Seconds, "How long a registered node may take to become ready."] = 900.0
    initial_node_group_backoff_duration_s: Annotated[
        Seconds, "How long a group is left alone after its first failed scale-up."
    ] = 300.0
    max_node_group_backoff_duration_s: Annotated[Seconds, "Longest time for which a failing group is left alone."] = (
        1800.0
    )
    node_group_backoff_reset_timeout_s: Annotated[Seconds, "Failures older than this are forgotten."] = 10800.0
    force_delete_failed_nodes: Annotated[Switch, "Delete instances that failed to start by force."] = False
    force_delete_unregistered_nodes: Annotated[
        Switch, "Delete unregistered instances by force, even below the group's minimum."
    ] = False


class TemplateOptions(msgspec.Struct, frozen=True):
    """Templates of new nodes, and when a new node is ready."""

    node_info_cache_expire_time_s: Annotated[
        Seconds, "How long a template taken from a node may be used after that node is gone."
    ] = 315360000.0
    force_ds: Annotated[Switch, "Put every suitable DaemonSet on templates, not only those of the example node."] = (
        False
    )
    startup_taint: Annotated[StringArray, "Taint that new nodes carry until they are ready; templates omit it."] = ()
    startup_taint_prefix: Annotated[StringArray, "Prefix of startup taints."] = ()
    ignore_taint: Annotated[StringArray, "Older name of startup-taint."] = ()
    status_taint: Annotated[StringArray, "Taint that comes and goes on working nodes; templates omit it."] = ()
    scale_from_unschedulable: Annotated[Switch, "Allow a cordoned node as the example of its group."] = False
    scheduler_config_file: Annotated[OptionalFile, "KubeSchedulerConfiguration with one profile."] = None


class Features(msgspec.Struct, frozen=True):
    """Further APIs, and tuning of parts that work differently here."""

    enable_provisioning_requests: Annotated[Switch, "Handle ProvisioningRequest objects."] = False
    provisioning_request_initial_backoff_time_s: Annotated[
        Seconds, "First delay after a failed ProvisioningRequest."
    ] = 60.0
    provisioning_request_max_backoff_time_s: Annotated[Seconds, "Longest delay after failed ProvisioningRequests."] = (
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
        Seconds, "Time limit for one batch of check-capacity requests, in the daemon only."
    ] = 10.0
    check_capacity_provisioning_request_max_batch_size: Annotated[
        Count, "Maximum number of check-capacity requests in one batch."
    ] = 10
    capacity_buffer_controller_enabled: Annotated[Switch, "Run the controller of CapacityBuffer objects."] = False
    capacity_buffer_pod_injection_enabled: Annotated[Switch, "Keep room for the pods of CapacityBuffer objects."] = (
        False
    )
    capacity_buffer_ready_replicas_enabled: Annotated[
        Switch,
        "Keep status.readyReplicas of CapacityBuffer objects up to date: the pods for which ready nodes have room. "
        "The definition of the objects must have the field.",
    ] = False
    capacity_buffer_pod_dry_run_enabled: Annotated[
        Switch,
        "Let the API server complete the pods of buffers that refer to a controller, by a dry run of their creation.",
    ] = True
    enable_dynamic_resource_allocation: Annotated[
        Switch,
        "Simulate the allocation of ResourceClaims, keep pods where theirs are allocated, and measure "
        "utilisation of nodes by their ResourceSlices; otherwise ignore both.",
    ] = True
    gang_scheduling_enabled: Annotated[
        Switch,
        "Buy nodes for a gang of pods only if its minimum can start, and then all at once; otherwise pods of a gang "
        "are pods like any other.",
        Support.OURS,
    ] = True
    enable_csi_node_aware_scheduling: Annotated[
        Switch,
        "Take into account how many volumes new nodes can attach, by CSI driver: as many as the CSINode of a node of "
        "their group says, or the cloud.",
        "On by default. Limits of existing nodes always count.",
    ] = True
    enable_inter_pod_affinity_hostname_fast_path: Annotated[
        Switch, "Faster affinity to single nodes.", Support.NOT_APPLICABLE, "Affinity to single nodes is always fast."
    ] = False
    cluster_snapshot_parallelism: Annotated[
        Count, "Threads that fill the snapshot.", Support.NOT_APPLICABLE, "One thread keeps the snapshot up to date."
    ] = 16
    predicate_parallelism: Annotated[
        CountFromOne,
        "Threads that check predicates.",
        Support.NOT_APPLICABLE,
        "One thread checks predicates for whole columns of nodes.",
    ] = 4
    scheduler_verbosity: Annotated[
        Number,
        "Log verbosity of the scheduler library.",
        Support.NOT_APPLICABLE,
        "The autoscaler does not use the scheduler's library.",
    ] = -1
