"""Options of the process: what it connects to, when it runs, and what it shows."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec

from autoscaler.config.syntax import (
    Address,
    Count,
    CountFromOne,
    Gates,
    NodeSpecs,
    Number,
    OptionalDirectory,
    OptionalFile,
    OptionalText,
    Real,
    StringArray,
    StringSlice,
    Support,
    Switch,
    Text,
    choice,
    optional,
)
from autoscaler.logs import LogFormat
from cloudprovider.structure import Seconds

_NO_LOG_FILES = "There are no log files: everything goes to standard error."
_UNBUFFERED = "Nothing is buffered."
_OF_A_LIBRARY = "A library of Cluster Autoscaler added it; the autoscaler never used it."


class Compatibility(StrEnum):
    """Which version of Cluster Autoscaler to decide like."""

    V1_31 = "1.31"
    V1_32 = "1.32"
    V1_33 = "1.33"
    V1_34 = "1.34"
    V1_35 = "1.35"
    V1_36 = "1.36"
    V1_37 = "1.37"
    HEAD = "head"


class ResourceLock(StrEnum):
    """Object kinds that can hold the leader's lease."""

    LEASES = "leases"


class ConfigSource(msgspec.Struct, frozen=True):
    """Where the configuration starts from."""

    compatibility: Annotated[
        Compatibility, choice(Compatibility), "Use the decisions and defaults of that version.", Support.OURS
    ] = Compatibility.HEAD
    config: Annotated[OptionalFile, "Configuration file (YAML); flags override it.", Support.OURS] = None


def _providers() -> Iterable[str]:
    from cloudprovider.catalog import registered

    return sorted({entry.name for entry in registered()})


class Provider(msgspec.Struct, frozen=True):
    """The cloud and its node groups."""

    cloud_provider: Annotated[str | None, optional("text", _providers), "Name of the cloud provider."] = None
    cloud_config: Annotated[OptionalFile, "The provider's configuration file."] = None
    nodes: Annotated[NodeSpecs, "Node groups by name, each with its minimum and maximum size."] = ()
    node_group_auto_discovery: Annotated[StringArray, "Selectors by which the provider finds node groups."] = ()
    cluster_name: Annotated[
        OptionalText, "Name of the cluster, for providers that need it.", Support.ACCEPTED, "No provider uses it yet."
    ] = None
    price_file: Annotated[
        OptionalFile, "Prices of instance types and of resources (YAML), for providers without prices.", Support.OURS
    ] = None
    user_agent: Annotated[Text, "User agent of HTTP calls."] = "cluster-autoscaler"
    async_node_groups: Annotated[
        Switch,
        "Create and delete node groups in the background.",
        Support.NOT_APPLICABLE,
        "No provider creates node groups, neither here nor in Cluster Autoscaler's own distribution.",
    ] = False
    aws_use_static_instance_list: Annotated[
        Switch,
        "AWS: use the built-in list of instance types.",
        Support.ACCEPTED,
        "There is no built-in list: the provider reads only the types in use, and tags can describe them as well.",
    ] = False
    aws_notice_queue_url: Annotated[
        OptionalText,
        "AWS: SQS queue that receives EventBridge events about instances that will leave.",
        Support.OURS,
    ] = None
    bulk_mig_instances_listing_enabled: Annotated[
        Switch, "GCE: list the instances of a zone in one call, for groups without changes."
    ] = False
    gce_concurrent_refreshes: Annotated[CountFromOne, "GCE: groups refreshed at the same time."] = 1
    gce_mig_instances_min_refresh_wait_time_s: Annotated[
        Seconds, "GCE: shortest time between two listings of a group's instances."
    ] = 5.0
    regional: Annotated[
        Switch, "GCE: the cluster is regional; the provider finds groups in all zones of the region."
    ] = False
    clusterapi_cloud_config_authoritative: Annotated[
        Switch, "Cluster API: never fall back to --kubeconfig for the management cluster."
    ] = False
    cloud_provider_gce_lb_src_cidrs: Annotated[
        StringSlice, "GCE: ranges opened for load balancers.", Support.NOT_APPLICABLE, _OF_A_LIBRARY
    ] = ()
    cloud_provider_gce_l7lb_src_cidrs: Annotated[
        StringSlice, "GCE: ranges opened for HTTP load balancers.", Support.NOT_APPLICABLE, _OF_A_LIBRARY
    ] = ()

    def flags(self) -> dict[str, bool | float | str]:
        """Return the values of the flags that are for certain providers only, by flag name."""
        return {
            "aws-use-static-instance-list": self.aws_use_static_instance_list,
            "aws-notice-queue-url": self.aws_notice_queue_url or "",
            "bulk-mig-instances-listing-enabled": self.bulk_mig_instances_listing_enabled,
            "gce-concurrent-refreshes": self.gce_concurrent_refreshes,
            "gce-mig-instances-min-refresh-wait-time": self.gce_mig_instances_min_refresh_wait_time_s,
            "regional": self.regional,
            "clusterapi-cloud-config-authoritative": self.clusterapi_cloud_config_authoritative,
        }


class Loop(msgspec.Struct, frozen=True):
    """When passes run, and when the process counts as stuck."""

    scan_interval_s: Annotated[
        Seconds,
        "Time between two passes.",
        Support.BETTER,
        "The default is longer, because changes start a pass at once; 10s with --compatibility=1.31.",
    ] = 15.0
    min_pass_interval_s: Annotated[Seconds, "Shortest time between two passes.", Support.OURS] = 1.0
    frequent_loops_enabled: Annotated[
        Switch, "Start the next pass early after activity or when pods become unschedulable."
    ] = True
    max_inactivity_s: Annotated[Seconds, "The health check fails after this time without a pass."] = 600.0
    max_failing_time_s: Annotated[Seconds, "The health check fails after this time without a successful pass."] = 900.0
    max_startup_time_s: Annotated[Seconds, "Time that the health check allows until the first successful pass."] = (
        1200.0
    )
    max_pass_time_s: Annotated[
        Seconds,
        "If a pass takes longer, the process ends, with the stacks of its threads in the log; 0 means never.",
        Support.OURS,
    ] = 900.0
    max_stall_time_s: Annotated[
        Seconds,
        "If no Python code can run for this long, the process ends in the same way; 0 means never.",
        Support.OURS,
    ] = 60.0
    max_termination_time_s: Annotated[
        Seconds,
        "If an orderly shutdown takes longer, the process ends in the same way. Set it below the pod's "
        "terminationGracePeriodSeconds.",
        Support.OURS,
    ] = 25.0
    dry_run: Annotated[Switch, "Decide and report, but write nothing.", Support.OURS] = False


class Kube(msgspec.Struct, frozen=True):
    """How to reach the API server."""

    kubeconfig: Annotated[OptionalFile, "kubeconfig file; without it the pod's service account is used."] = None
    kubernetes: Annotated[OptionalText, "Address of the API server, instead of the one in the kubeconfig."] = None
    namespace: Annotated[Text, "Namespace of the autoscaler, its ConfigMaps and its lease."] = "kube-system"
    kube_client_qps: Annotated[Real, "Writes per second to the API server."] = 5.0
    kube_client_burst: Annotated[Count, "Writes that may exceed that rate in a burst."] = 10
    max_watch_silence_s: Annotated[
        Seconds,
        "If the API server reports nothing about a kind for this long, no node is removed, and if the "
        "kind is nodes or pods, none is bought either; 0 means no limit.",
        Support.OURS,
    ] = 180.0
    kube_api_content_type: Annotated[
        Text,
        "Media type of API requests.",
        Support.NOT_APPLICABLE,
        "The autoscaler chooses the media type for speed of decoding.",
    ] = "application/vnd.kubernetes.protobuf"


class Leader(msgspec.Struct, frozen=True):
    """Election of the one replica that acts."""

    leader_elect: Annotated[Switch, "Act only while holding the lease."] = True
    leader_elect_lease_duration_s: Annotated[
        Seconds, "How long other replicas wait before they take over a lease that nobody renews."
    ] = 15.0
    leader_elect_renew_deadline_s: Annotated[
        Seconds, "The leader stops if it cannot renew the lease for this long."
    ] = 10.0
    leader_elect_retry_period_s: Annotated[Seconds, "Time between attempts to acquire or renew the lease."] = 2.0
    leader_elect_resource_lock: Annotated[ResourceLock, choice(ResourceLock), "Kind of the lock object."] = (
        ResourceLock.LEASES
    )
    leader_elect_resource_name: Annotated[Text, "Name of the lock object."] = "cluster-autoscaler"
    leader_elect_resource_namespace: Annotated[
        OptionalText, "Ignored, as in Cluster Autoscaler: --namespace is used.", Support.SAME
    ] = None


class Observe(msgspec.Struct, frozen=True):
    """Status, metrics, logs and recordings."""

    address: Annotated[Address, "Listen address of the HTTP server."] = ":8085"
    reservations_address: Annotated[
        Text, "Listen address for announced work; overrides `reservations.listen` unless empty.", Support.OURS
    ] = ""
    write_status_configmap: Annotated[Switch, "Write the status ConfigMap."] = True
    price_currency: Annotated[Text, "Currency of the prices, as it is shown to people.", Support.OURS] = "USD"
    status_config_map_name: Annotated[Text, "Name of the status ConfigMap."] = "cluster-autoscaler-status"
    pause_config_map_name: Annotated[
        Text, "Name of the ConfigMap that states what is paused; `autoscaler pause` writes it.", Support.OURS
    ] = "cluster-autoscaler-pause"
    emit_per_nodegroup_metrics: Annotated[Switch, "Publish metrics for each node group."] = False
    record_duplicated_events: Annotated[Switch, "Send repeated events again instead of dropping them."] = False
    v: Annotated[Number, "Verbosity: 0 decisions, 4 details, 5 and more debugging."] = 0
    vmodule: Annotated[
        OptionalText,
        "Verbosity by file, such as pattern=N,...",
        Support.NOT_APPLICABLE,
        "It names files of Cluster Autoscaler's source; --v works.",
    ] = None
    logging_format: Annotated[LogFormat, choice(LogFormat), "Format of log lines."] = LogFormat.TEXT
    debugging_snapshot_enabled: Annotated[Switch, "Serve the data of one pass at /snapshotz."] = False
    profiling: Annotated[
        Switch,
        "Serve profiles of the process.",
        Support.ACCEPTED,
        "There is no profiling endpoint; Python profilers attach from outside.",
    ] = False
    max_node_skip_eval_time_tracker_enabled: Annotated[
        Switch, "Publish how long nodes were not considered for scale-down."
    ] = False
    node_removal_latency_tracking_enabled: Annotated[Switch, "Publish how long the removal of unneeded nodes took."] = (
        False
    )
    record_dir: Annotated[
        OptionalDirectory, "Directory that keeps the last passes as scenario files.", Support.OURS
    ] = None
    serve_recordings: Annotated[
        Switch,
        "Serve the newest recording, with all cluster data that decisions read, at /api/v1/recordings/latest.",
        Support.OURS,
    ] = False
    anonymize: Annotated[Switch, "Replace every user-chosen name in recordings with a pseudonym.", Support.OURS] = False
    record_passes: Annotated[CountFromOne, "How many passes --record-dir keeps.", Support.OURS] = 20


class Logging(msgspec.Struct, frozen=True):
    """Other options of klog, so that existing command lines work."""

    logtostderr: Annotated[Switch, "Log to standard error.", Support.NOT_APPLICABLE, _NO_LOG_FILES] = True
    alsologtostderr: Annotated[
        Switch, "Log to standard error besides files.", Support.NOT_APPLICABLE, _NO_LOG_FILES
    ] = False
    stderrthreshold: Annotated[
        Text, "Least severity copied from log files to standard error; there are no log files."
    ] = "2"
    skip_headers: Annotated[
        Switch, "Omit the header of log lines.", Support.NOT_APPLICABLE, "Log lines have their own format."
    ] = False
    skip_log_headers: Annotated[Switch, "Omit the header of log files.", Support.NOT_APPLICABLE, _NO_LOG_FILES] = False
    add_dir_header: Annotated[
        Switch, "Add the source directory to log lines.", Support.NOT_APPLICABLE, "Log lines have their own format."
    ] = False
    one_output: Annotated[Switch, "Write each line to one log file only.", Support.NOT_APPLICABLE, _NO_LOG_FILES] = (
        False
    )
    log_dir: Annotated[OptionalDirectory, "Directory of log files.", Support.NOT_APPLICABLE, _NO_LOG_FILES] = None
    log_file: Annotated[OptionalFile, "Log file.", Support.NOT_APPLICABLE, _NO_LOG_FILES] = None
    log_file_max_size: Annotated[Count, "Largest log file in megabytes.", Support.NOT_APPLICABLE, _NO_LOG_FILES] = 1800
    log_backtrace_at: Annotated[
        OptionalText,
        "file:line whose log lines carry a stack.",
        Support.NOT_APPLICABLE,
        "It names lines of Cluster Autoscaler's source.",
    ] = None
    log_flush_frequency_s: Annotated[
        Seconds, "Time between flushes of the log.", Support.NOT_APPLICABLE, _UNBUFFERED
    ] = 5.0
    log_json_info_buffer_size: Annotated[Text, "Buffer of JSON log lines.", Support.NOT_APPLICABLE, _UNBUFFERED] = "0"
    log_json_split_stream: Annotated[
        Switch, "Errors to stderr, the rest to stdout.", Support.NOT_APPLICABLE, _NO_LOG_FILES
    ] = False
    log_text_info_buffer_size: Annotated[Text, "Buffer of text log lines.", Support.NOT_APPLICABLE, _UNBUFFERED] = "0"
    log_text_split_stream: Annotated[
        Switch, "Errors to stderr, the rest to stdout.", Support.NOT_APPLICABLE, _NO_LOG_FILES
    ] = False
    feature_gates: Annotated[
        Gates,
        "Switches of Kubernetes libraries.",
        Support.NOT_APPLICABLE,
        "The autoscaler does not use these libraries.",
    ] = ()
