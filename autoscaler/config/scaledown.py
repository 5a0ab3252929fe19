"""Options of everything that removes nodes, and the flags that later versions removed."""

from enum import StrEnum
from typing import Annotated

import msgspec

from autoscaler.config.drain_grace import DrainGraces
from autoscaler.config.syntax import (
    Count,
    CountFromOne,
    DrainPriorities,
    GroupLimits,
    Number,
    OptionalNumber,
    OptionalText,
    Real,
    Support,
    Switch,
    WholeSeconds,
    choice,
)
from autoscaler.config.windows import MaintenanceWindows
from cloudprovider.structure import Seconds

_FORMER_PLANNER = "It has had no effect in Cluster Autoscaler since 1.32 either."


class ScaleDownProfile(StrEnum):
    """How many removals run side by side by default."""

    CAREFUL = "careful"
    FAST = "fast"


class ScaleDown(msgspec.Struct, frozen=True):
    """Which nodes are unneeded, and when they may be removed."""

    scale_down_enabled: Annotated[Switch, "Remove nodes that are not needed."] = True
    scale_down_profile: Annotated[
        ScaleDownProfile,
        choice(ScaleDownProfile),
        "careful drains one node at a time, as Cluster Autoscaler does. fast removes up to 50 nodes at a time and "
        "drains up to 20 of them: it sets the defaults of max-scale-down-parallelism, max-drain-parallelism and "
        "max-bulk-soft-taint-count. Unneeded times, delays and budgets stay the same.",
        Support.OURS,
    ] = ScaleDownProfile.CAREFUL
    scale_down_unneeded_time_s: Annotated[Seconds, "How long a node must be unneeded before it is removed."] = 600.0
    scale_down_unready_time_s: Annotated[Seconds, "How long an unready node must be unneeded before it is removed."] = (
        1200.0
    )
    scale_down_unready_enabled: Annotated[Switch, "Remove unready nodes too."] = True
    scale_down_utilization_threshold: Annotated[
        Real, "Requested / allocatable below which a node is a candidate (0 to 1)."
    ] = 0.5
    scale_down_gpu_utilization_threshold: Annotated[Real, "The same for the GPUs of a node that has any (0 to 1)."] = (
        0.5
    )
    ignore_daemonsets_utilization: Annotated[Switch, "Exclude DaemonSet pods from the utilisation."] = False
    ignore_mirror_pods_utilization: Annotated[Switch, "Exclude mirror pods from the utilisation."] = False
    count_headroom_in_utilization: Annotated[
        Switch,
        "Count pause pods in the utilisation. By default they do not count, because the scheduler preempts them.",
        Support.OURS,
    ] = False
    scale_down_delay_after_add_s: Annotated[Seconds, "How long scale-down waits after a scale-up."] = 600.0
    scale_down_delay_after_delete_s: Annotated[Seconds, "How long scale-down waits after a node was removed."] = 0.0
    scale_down_delay_after_failure_s: Annotated[Seconds, "How long scale-down waits after it failed."] = 180.0
    scale_down_delay_type_local: Annotated[Switch, "Apply these delays per group, not to the whole cluster."] = False
    unremovable_node_recheck_timeout_s: Annotated[Seconds, "How long an unremovable node is not checked again."] = 300.0
    scale_down_simulation_timeout_s: Annotated[
        Seconds, "Time limit for simulating removals in one pass of the daemon."
    ] = 30.0
    node_deletion_candidate_ttl_s: Annotated[
        Seconds,
        "How long the unneeded time of a node survives a restart; 0 means not at all.",
        Support.BETTER,
        "On by default, so that a restart or a change of leaders loses no time; 0 with --compatibility=1.31.",
    ] = 1800.0
    scale_down_window: Annotated[
        MaintenanceWindows,
        "Start to remove nodes only within these windows, such as 0 22 * * 1-5;8h;Europe/Berlin (cron, "
        "UTC by default). If a group has windows of its own, only those apply to it.",
        Support.OURS,
    ] = ()
    max_node_deletions_per_minute: Annotated[
        GroupLimits,
        "Maximum number of removals that start within any minute, in the cluster or in one group.",
        Support.OURS,
    ] = ()
    max_scale_down_parallelism: Annotated[Count, "Maximum number of nodes being removed at the same time."] = 10
    max_drain_parallelism: Annotated[Count, "Maximum number of nodes being drained at the same time."] = 1
    max_bulk_soft_taint_count: Annotated[
        Count, "Maximum number of soft taints changed in one pass; 0 switches them off."
    ] = 10
    max_bulk_soft_taint_time_s: Annotated[Seconds, "Time limit for soft taints in one pass."] = 3.0
    scale_down_non_empty_candidates_count: Annotated[
        Number, "Candidates of the former planner.", Support.NOT_APPLICABLE, _FORMER_PLANNER
    ] = 30
    scale_down_candidates_pool_ratio: Annotated[
        Real, "Share of nodes that the former planner considered.", Support.NOT_APPLICABLE, _FORMER_PLANNER
    ] = 0.1
    scale_down_candidates_pool_min_count: Annotated[
        Number, "Minimum number of nodes that the former planner considered.", Support.NOT_APPLICABLE, _FORMER_PLANNER
    ] = 50

    @property
    def named_groups(self) -> frozenset[str]:
        """Groups that windows and limits of their own name, whether there are such groups or not."""
        windows, limits = self.scale_down_window, self.max_node_deletions_per_minute
        named = (*(window.group for window in windows), *(limit.group for limit in limits))
        return frozenset(group for group in named if group is not None)


class Drain(msgspec.Struct, frozen=True):
    """Which pods may be evicted, and how a node is drained."""

    skip_nodes_with_system_pods: Annotated[
        Switch, "kube-system pods without a PodDisruptionBudget keep their node."
    ] = True
    skip_nodes_with_local_storage: Annotated[Switch, "Pods with local storage keep their node."] = True
    skip_nodes_with_custom_controller_pods: Annotated[
        Switch, "Pods of controllers that are not built in keep their node."
    ] = True
    min_replica_count: Annotated[Count, "Pods of a controller with fewer replicas keep their node."] = 0
    do_not_disrupt_limit_s: Annotated[
        Seconds,
        "How long after its start a pod may keep its node by an annotation such as karpenter.sh/do-not-disrupt or "
        "cluster-autoscaler.kubernetes.io/safe-to-evict: false; 0 means no limit.",
        Support.OURS,
    ] = 0.0
    blocking_system_pod_distruption_timeout_s: Annotated[
        Seconds, "Age at which a kube-system pod without a PodDisruptionBudget stops keeping its node."
    ] = 3600.0
    max_graceful_termination_sec: Annotated[WholeSeconds, "Maximum termination grace period of pods."] = 600
    drain_priority_config: Annotated[
        DrainPriorities, "Termination grace period by pod priority; lowest priority is drained first."
    ] = ()
    max_pod_eviction_time_s: Annotated[Seconds, "How long the autoscaler tries to evict a pod."] = 120.0
    daemonset_eviction_for_empty_nodes: Annotated[Switch, "Evict DaemonSet pods from nodes that run nothing else."] = (
        False
    )
    daemonset_eviction_for_occupied_nodes: Annotated[Switch, "Evict DaemonSet pods from nodes that are drained."] = True
    cordon_node_before_terminating: Annotated[Switch, "Cordon a node before it is removed."] = True
    node_delete_delay_after_taint_s: Annotated[Seconds, "Wait between tainting a node and removing it."] = 5.0
    dynamic_node_delete_delay_after_taint_enabled: Annotated[
        Switch, "Adjust that wait to the measured latency of the API server."
    ] = False
    node_deletion_delay_timeout_s: Annotated[Seconds, "How long an annotation may delay the removal of a node."] = 120.0
    node_deletion_batcher_interval_s: Annotated[
        Seconds, "Combine removals of one group within this time into one call; 0 means no batches."
    ] = 0.0


class ReplacementOptions(msgspec.Struct, frozen=True):
    """Replacing nodes that are needed, after new nodes are ready."""

    max_node_age_s: Annotated[
        Seconds, "Age at which a node is replaced; 0 means never. A group may have its own.", Support.OURS
    ] = 0.0
    replace_annotated_nodes: Annotated[
        Switch, "Replace nodes annotated replacement.autoscaler/requested: true.", Support.OURS
    ] = False
    max_replacements: Annotated[
        CountFromOne, "Maximum number of replacements in progress at the same time.", Support.OURS
    ] = 1
    replacement_timeout_s: Annotated[
        Seconds, "How long a replacement may take before it is abandoned and its node stays.", Support.OURS
    ] = 3600.0
    replacement_retry_delay_s: Annotated[
        Seconds, "How long a node is left alone after its replacement was abandoned; doubles each time.", Support.OURS
    ] = 1800.0
    drain_grace: Annotated[
        DrainGraces,
        "How long PodDisruptionBudgets may hold up the replacement of a node, such as expiry=24h;overrule. Afterwards "
        "a warning names budget and pod, or with overrule the pod is deleted. A group may have its own.",
        Support.OURS,
    ] = ()
    consolidation: Annotated[Switch, "Replace nodes with cheaper ones for the same pods.", Support.OURS] = False
    consolidation_margin: Annotated[
        Real, "Share of the old nodes' price that a consolidation must save (0 to 1).", Support.OURS
    ] = 0.15
    consolidation_min_saving: Annotated[
        Real, "Minimum price per hour that a consolidation must save.", Support.OURS
    ] = 0.0
    consolidation_min_saving_per_pod: Annotated[
        Real,
        "Minimum price per hour that a consolidation must save for each pod that it moves; pods of high priority or "
        "deletion cost, of StatefulSets, and of Jobs that have run for hours count more.",
        Support.OURS,
    ] = 0.001
    consolidation_min_node_age_s: Annotated[Seconds, "Nodes younger than this are not consolidated.", Support.OURS] = (
        3600.0
    )
    consolidation_max_nodes: Annotated[
        CountFromOne, "Maximum number of nodes that one consolidation replaces.", Support.OURS
    ] = 10
    consolidation_interval_s: Annotated[Seconds, "Time between two searches for a consolidation.", Support.OURS] = 300.0
    consolidation_steps: Annotated[
        CountFromOne, "Limit on the work of one search: places tried for pods.", Support.OURS
    ] = 100_000


class RemovedFlags(msgspec.Struct, frozen=True):
    """Flags of older versions, so that old command lines work."""

    max_empty_bulk_delete: Annotated[OptionalNumber, "Older name of max-scale-down-parallelism."] = None
    parallel_drain: Annotated[
        Switch,
        "false selected the former planner.",
        Support.NOT_APPLICABLE,
        "The former planner no longer exists, as in Cluster Autoscaler since 1.32.",
    ] = True
    node_autoprovisioning_enabled: Annotated[
        Switch,
        "Create node groups.",
        Support.NOT_APPLICABLE,
        "Cluster Autoscaler removed it in 1.33; it worked for no provider of its distribution.",
    ] = False
    max_autoprovisioned_node_group_count: Annotated[
        Count,
        "Maximum number of created node groups.",
        Support.NOT_APPLICABLE,
        "Cluster Autoscaler removed it in 1.33.",
    ] = 15
    gce_expander_ephemeral_storage_support: Annotated[
        Switch,
        "GCE: count ephemeral storage.",
        Support.NOT_APPLICABLE,
        "The autoscaler always counts ephemeral storage.",
    ] = False
    filter_out_schedulable_pods_uses_packing: Annotated[
        Switch,
        "Pack pods onto existing nodes.",
        Support.NOT_APPLICABLE,
        "The autoscaler always packs pods onto existing nodes.",
    ] = True
    configmap: Annotated[
        OptionalText,
        "ConfigMap with node group sizes.",
        Support.NOT_APPLICABLE,
        "Cluster Autoscaler removed it in 1.3; sizes come from the provider.",
    ] = None
    unregistered_node_removal_time_s: Annotated[
        Seconds,
        "Older name of max-node-provision-time.",
        Support.NOT_APPLICABLE,
        "Cluster Autoscaler removed it; --max-node-provision-time replaces it.",
    ] = 900.0
