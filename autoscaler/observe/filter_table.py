"""The table of the scheduler's filters and of what is modelled of each; docs/scheduler-filters.md is generated from it.

Plug-ins and their order are those of kube-scheduler 1.37 with default feature gates, and what gates add.
"""

from collections.abc import Iterator

import msgspec

from autoscaler.reasons import NoFit


class FilterCoverage(msgspec.Struct, frozen=True):
    """One plug-in that decides where a pod may go, or whether it is scheduled at all."""

    plugin: str
    since: str
    """The first version of kube-scheduler that asks it, by default unless this says otherwise."""
    modelled: str
    where: tuple[str, ...] = ()
    """Modules, relative to `autoscaler/`; empty: nothing is modelled."""
    missing: str = ""
    """What is not modelled, and why; empty: nothing that decides."""


_EARLY = "1.31 or earlier"

COVERAGE = (
    FilterCoverage(
        "SchedulingGates", _EARLY, "A pod with scheduling gates waits for those who set them.", ("scaleup/pending.py",)
    ),
    FilterCoverage(NoFit.UNSCHEDULABLE, _EARLY, "Cordoned nodes, and the toleration for them.", ("scheduling/fit.py",)),
    FilterCoverage(NoFit.NODE_NAME, _EARLY, "Everything.", ("scheduling/fit.py", "scheduling/masks.py")),
    FilterCoverage(
        NoFit.TAINT,
        _EARLY,
        "`NoSchedule` and `NoExecute`; all operators, also `Lt` and `Gt` (alpha since 1.35).",
        ("objects/matching.py", "scheduling/masks.py"),
    ),
    FilterCoverage(
        NoFit.NODE_AFFINITY,
        _EARLY,
        "Node selectors, required affinity with labels and `metadata.name`, and `addedAffinity` of the profile.",
        ("objects/matching.py", "scheduling/masks.py"),
    ),
    FilterCoverage(NoFit.PORTS, _EARLY, "Host ports of containers and sidecars.", ("scheduling/ports.py",)),
    FilterCoverage(
        "DeferredPodScheduling",
        "only with the gate `InPlacePodVerticalScalingSchedulerPreemption`",
        "Nothing.",
        missing="It lets the scheduler preempt pods for a deferred resize. A pod whose resize is deferred keeps its "
        "node, and reserves there what it asks for.",
    ),
    FilterCoverage(
        NoFit.RESOURCES,
        _EARLY,
        "Containers, sidecars, init containers, overhead, extended resources, unfinished resizes in place (1.33), "
        "requests of the pod as a whole (1.34), `ignoredResources` and `ignoredResourceGroups` of the profile.",
        ("objects/requests.py", "scheduling/fit.py", "scheduling/masks.py"),
        "CPU and memory that devices bring along or take (`DRANodeAllocatableResources`): alpha, off by default.",
    ),
    FilterCoverage(
        NoFit.VOLUME_RESTRICTIONS,
        _EARLY,
        "Disks that one node or one pod may use, and `ReadWriteOncePod`.",
        ("scheduling/volumes.py",),
    ),
    FilterCoverage(
        NoFit.VOLUME_LIMITS,
        _EARLY,
        "Limits of CSINodes, volumes still attached (VolumeAttachments), disks of migrated plug-ins, and "
        "`preventPodSchedulingIfMissing` (1.37).",
        ("scheduling/volumes.py",),
        "The plug-ins of single clouds, such as EBSLimits: CSI drivers attach those disks today.",
    ),
    FilterCoverage(
        NoFit.VOLUME_BINDING,
        _EARLY,
        "Bound and unbound claims, existing volumes, allowed topologies, and free storage (CSIStorageCapacity).",
        ("scheduling/claims.py", "scheduling/node_requirements.py"),
    ),
    FilterCoverage(NoFit.VOLUME_ZONE, _EARLY, "Zones and regions of bound volumes.", ("scheduling/claims.py",)),
    FilterCoverage(
        NoFit.SPREAD,
        _EARLY,
        "`DoNotSchedule` with `minDomains`, both policies, `matchLabelKeys`, and default constraints of the profile "
        "for pods of a controller.",
        ("scheduling/topology.py", "scheduling/domains.py"),
        "Default constraints of pods that only Services select: Services are not read.",
    ),
    FilterCoverage(
        NoFit.POD_AFFINITY,
        _EARLY,
        "Required affinity and anti-affinity, of the pod and of those that run, with namespace selectors, "
        "`matchLabelKeys` and `mismatchLabelKeys`.",
        ("scheduling/affinity.py", "scheduling/term_index.py"),
    ),
    FilterCoverage(
        NoFit.DEVICES,
        "1.34 (1.32 with its gate)",
        "Claims and templates of claims: see [devices](devices.md).",
        ("scheduling/devices.py", "scheduling/device_allocation.py"),
        "Binding conditions, which delay the start of a pod on a node that fits. Optional node operations: alpha, off "
        "by default.",
    ),
    FilterCoverage(
        NoFit.FEATURES,
        "1.36 (1.35 with its gate)",
        "Restart rules for all containers (1.35), and user namespaces on the host network (1.36).",
        ("objects/declared_features.py", "objects/matching.py"),
        "`VolumeBindMountOptions`: alpha, off by default, and every mount of every pod would have to be read. Other "
        "features concern changes of running pods only.",
    ),
    FilterCoverage(
        "GangScheduling",
        "1.37 (1.35 with its gate)",
        "Nodes are bought for a gang only if its minimum can start: see [gangs](gangs.md).",
        ("scaleup/gangs.py", "scaleup/gang_planner.py"),
    ),
    FilterCoverage(
        "plug-ins of others, extenders",
        _EARLY,
        "Nothing.",
        missing="Their code runs elsewhere. The autoscaler names those that it finds in the file of "
        "`--scheduler-config-file`.",
    ),
)


def markdown() -> str:
    """Return the content of docs/scheduler-filters.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# Filters of the scheduler",
        "",
        "Generated from `autoscaler/observe/filter_table.py`; do not edit.",
        "",
        "A node is bought, or removed, by where kube-scheduler would place the pods. These are the plug-ins of",
        "kube-scheduler 1.37 that can keep a pod off a node, or from being scheduled at all, in its order. A filter",
        "that the profile in `--scheduler-config-file` disables is not asked. Plug-ins that only score are left out.",
        "",
        "| Plug-in | In kube-scheduler since | Modelled | In `autoscaler/` | Not modelled |",
        "|---|---|---|---|---|",
    )
    for row in COVERAGE:
        where = ", ".join(f"`{path}`" for path in row.where)
        yield f"| {row.plugin} | {row.since} | {row.modelled} | {where} | {row.missing} |"
