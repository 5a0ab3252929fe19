"""The table that explains every reason and its remedy; docs/reasons.md is generated from it.

One long file, so that the texts can be compared side by side.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from autoscaler.reasons import (
    BlockingReason,
    BufferReason,
    DeleteReason,
    DriftKind,
    Headcount,
    HeadroomTrouble,
    Lack,
    LeadBasis,
    NoFit,
    NoReservation,
    PauseScope,
    PodVerdict,
    RemovedAs,
    ReplacementHold,
    ReplacementStage,
    ReplacementTrigger,
    RequestReason,
    ScaleDownResult,
    ScaleUpResult,
    Skip,
    UnknownStart,
    Unplaceable,
    UnremovableReason,
    Waiting,
)


class Meaning(msgspec.Struct, frozen=True):
    """The explanation of one reason; `remedy` is empty if nothing needs to be done."""

    text: str
    remedy: str = ""


TABLE: Mapping[type[StrEnum], Mapping[StrEnum, Meaning]] = {
    NoFit: {
        NoFit.UNSCHEDULABLE: Meaning(
            "The node is cordoned.", "Uncordon it; for new nodes see `--scale-from-unschedulable`."
        ),
        NoFit.NODE_NAME: Meaning(
            "The pod names another node in `spec.nodeName`.", "No new node can help; remove `spec.nodeName`."
        ),
        NoFit.TAINT: Meaning(
            "The node has a taint that the pod does not tolerate.",
            "Add the toleration. If the taint goes away after boot, name it with `--startup-taint`.",
        ),
        NoFit.NODE_AFFINITY: Meaning(
            "The node's labels do not match the pod's node selector or required node affinity.",
            "Correct the selector, or the labels of the group's template.",
        ),
        NoFit.PORTS: Meaning(
            "Another pod on the node already uses the host port.", "Do not use host ports, or allow one node per pod."
        ),
        NoFit.RESOURCES: Meaning(
            "The node has too little of a resource, or of pod slots; the detail has the figures.",
            "If every group says so, the pod is larger than any node: add a group with larger nodes.",
        ),
        NoFit.VOLUME_RESTRICTIONS: Meaning(
            "Another pod uses the volume in a way that excludes this one, such as ReadWriteOncePod.",
            "Let that pod finish, or use another access mode.",
        ),
        NoFit.VOLUME_LIMITS: Meaning(
            "The node already has as many volumes of the CSI driver as it can attach, or a new one can attach fewer "
            "than the pod needs. Or the driver does not run on the node, and its CSIDriver has "
            "`preventPodSchedulingIfMissing`.",
            "Spread the pods over more nodes, or use machines that can attach more volumes; make the driver run on the "
            "group's nodes.",
        ),
        NoFit.VOLUME_BINDING: Meaning(
            "A claim is missing or unbound, or the node cannot reach its volume.",
            "Look at the claim. If it is bound to a zone, it needs a group in that zone.",
        ),
        NoFit.VOLUME_ZONE: Meaning(
            "The claim's volume is in another zone than the node.", "Allow a group in the volume's zone to grow."
        ),
        NoFit.SPREAD: Meaning(
            "One more pod in this domain would make the spread more uneven than `maxSkew` allows.",
            "Allow groups in the emptier domains to grow, or raise `maxSkew`.",
        ),
        NoFit.POD_AFFINITY: Meaning(
            "Required affinity finds no matching pod in the domain, or anti-affinity of this or another pod finds one.",
            "Compare the terms with the labels of the pods in the domain.",
        ),
        NoFit.DEVICES: Meaning(
            "The pod has claims for devices. Allocated claims keep the pod where their devices can be used; other "
            "claims find no free devices there. The detail names the claim, its request and device class, and how "
            "many devices match, are free, and have the capacity, counters and no taint against it.",
            "Compare the request and the selectors with the ResourceSlices of the group's nodes. New nodes have the "
            "devices of the group's other nodes; a group without any nodes has those that its cloud describes.",
        ),
        NoFit.FEATURES: Meaning(
            "The node does not declare a feature that the pod needs in `status.declaredFeatures`: its kubelet is too "
            "old, or the feature is off there. New nodes declare what the group's other nodes do. For a group without "
            "nodes that is what its template says, else what all nodes of the cluster declare.",
            "Upgrade the group's nodes, or switch the feature on in their kubelets.",
        ),
        NoFit.TOO_MUCH_WORK: Meaning(
            "The pod has so many constraints that the autoscaler tries no node for it: it buys no node for the "
            "pod, and removes no node that the pod would have to leave. If the required anti-affinity of a "
            "running pod alone is too much, that pod counts as keeping every other pod out of its domains.",
            "Give the pod fewer terms, or raise `--max-pod-evaluation-work`.",
        ),
        NoFit.ZONE_LATER: Meaning(
            "The pod fits in one zone of the group, but the cloud puts the next node in another, because it "
            "balances the zones of a group. The autoscaler buys no node that would not help the pod.",
            "Use one group per zone, so that you can choose the zone.",
        ),
        NoFit.ZONE_UNKNOWN: Meaning(
            "Neither the cloud nor a node shows the zone of the group's next node, and the pod fits only in some "
            "zones.",
            "Use one group per zone, or set the zone in the group's template.",
        ),
    },
    Skip: {
        Skip.NOT_READY: Meaning(
            "Too many nodes of the group are not ready, or did not appear after they were requested.",
            "Find out why its nodes fail; the group can grow again when they recover.",
        ),
        Skip.BACKED_OFF: Meaning(
            "A recent scale-up of the group failed. The autoscaler leaves the group alone for a while, longer "
            "each time.",
            "The detail has the provider's error; see `--initial-node-group-backoff-duration`.",
        ),
        Skip.MAX_SIZE: Meaning("The group has reached its maximum size.", "Raise the maximum."),
        Skip.LIMIT: Meaning(
            "The cluster is at its limit on cores, memory or GPUs, or a CapacityQuota is; the message names it.",
            "Raise `--cores-total`, `--memory-total`, `--gpu-total`, or the limit of the quota.",
        ),
        Skip.ATOMIC_LIMIT: Meaning(
            "The group grows by all its nodes or none, and all are more than `--max-nodes-total` allows.",
            "Raise the limit, or make the group smaller.",
        ),
        Skip.NO_TEMPLATE: Meaning(
            "The group has no template: it has no nodes, and the provider cannot describe one.",
            "Let the provider describe its nodes, or start the group with one node.",
        ),
        Skip.PAUSED: Meaning(
            "A person paused the group, or the whole cluster, with `scope: all`.",
            "Wait for the end of the pause, or run `autoscaler resume`.",
        ),
    },
    Waiting: {
        Waiting.TOO_YOUNG: Meaning(
            "The pod is younger than `--new-pod-scale-up-delay` or than the delay in its own annotation.", "Wait."
        ),
        Waiting.EXPENDABLE: Meaning(
            "The pod's priority is below `--expendable-pods-priority-cutoff`, so it only uses free room.",
            "Give it a higher priority, or lower the cut-off.",
        ),
        Waiting.DAEMONSET: Meaning(
            "A DaemonSet's pod belongs to one node, which has no room; other nodes cannot help it.",
            "Make room on that node, for example with a higher priority.",
        ),
        Waiting.FITS: Meaning("The pod fits on an existing or upcoming node."),
        Waiting.TERMINATING: Meaning("The pod is being deleted."),
        Waiting.NOT_JUDGED: Meaning(
            "The scheduler has not tried to place the pod yet.",
            "If this persists, check whether its scheduler runs. See also `--bypassed-scheduler-names`.",
        ),
        Waiting.NOMINATED: Meaning(
            "The pod has a node in `status.nominatedNodeName`: the scheduler has made room for it there, or "
            "is about to bind it. The autoscaler keeps the room. If the node goes first, the pod needs room elsewhere."
        ),
        Waiting.GATED: Meaning(
            "The pod has scheduling gates.", "The controller that set the gates has to remove them."
        ),
        Waiting.FOREIGN_SCHEDULER: Meaning(
            "The pod's scheduler is not in `--allowed-scheduler-names`.", "Add the scheduler to the flag."
        ),
        Waiting.TAKES_HEADROOM: Meaning(
            "The pod fits in the room of pause pods of lower priority. The scheduler preempts them, and the "
            "autoscaler replaces the room if necessary."
        ),
        Waiting.CONSUMES_REQUEST: Meaning(
            "The pod uses the capacity of a ProvisioningRequest. The request buys nodes; the pod does not.",
            "Look at the conditions of the request that the pod's annotation names.",
        ),
    },
    PodVerdict: {
        PodVerdict.HELPED: Meaning("Nodes were requested, and the pod fits on them."),
        PodVerdict.NO_GROUP_FITS: Meaning(
            "No group that may grow can take the pod; there is one reason per group.",
            "Do what the advice beside it says; `autoscaler explain pod/NAMESPACE/NAME` has alternatives.",
        ),
        PodVerdict.NEXT_PASS: Meaning(
            "A group can take the pod, but another group was chosen first, or a limit allowed fewer nodes than wanted.",
            "Wait for the next passes.",
        ),
        PodVerdict.NOT_CHOSEN: Meaning(
            "A group can take the pod, but the expander selected none.",
            "Check `--expander`: a remote expander may reject every option.",
        ),
        PodVerdict.GANG_TOO_LARGE: Meaning(
            "The pod belongs to a gang, of which a minimum of pods has to start together. All nodes that may be bought "
            "would be too few for it, so none is bought.",
            "Raise the maximum of a group, or lower the minimum of the gang.",
        ),
        PodVerdict.GANG_INCOMPLETE: Meaning(
            "The pod belongs to a gang, and fewer pods of it than its minimum exist and ask for a node.",
            "Wait for the controller to create the other pods, or lower the minimum of the gang.",
        ),
    },
    RequestReason: {
        RequestReason.ACCEPTED: Meaning("The request is served."),
        RequestReason.FOUND: Meaning("All pods of the request fit on existing or upcoming nodes."),
        RequestReason.PROVISIONED: Meaning("Nodes were requested for the pods that do not fit."),
        RequestReason.NOT_FOUND: Meaning(
            "Not all pods fit. For an atomic request, no group takes all remaining pods at once.",
            "It is tried again after delays up to `--provisioning-request-max-backoff-time`; or request less.",
        ),
        RequestReason.NO_PODS: Meaning(
            "The pods of the request cannot be built; the message says why.", "Create the PodTemplate first."
        ),
        RequestReason.NO_BOOKING: Meaning(
            "The request was provisioned, but its pods can no longer be built.", "Keep its PodTemplate."
        ),
        RequestReason.RESERVATION_EXPIRED: Meaning(
            "The capacity was held for ten minutes.", "Create the pods sooner, or request again."
        ),
        RequestReason.CONSUMED: Meaning("All pods that use the capacity are scheduled."),
        RequestReason.EXPIRED: Meaning("The request could not be met within seven days.", "Request again."),
    },
    BufferReason: {
        BufferReason.RESOLVED: Meaning("The template and the number of pods of the buffer are known."),
        BufferReason.UNRESOLVED: Meaning("The spec of the buffer cannot be resolved; the message says why."),
        BufferReason.INJECTED: Meaning("The autoscaler keeps room for the pods of the buffer."),
        BufferReason.NOT_READY: Meaning(
            "The status has no template or no number of pods yet.",
            "Check whether the buffer's controller runs, and its condition.",
        ),
        BufferReason.EMPTY: Meaning("The buffer has no pods to keep room for."),
        BufferReason.NO_TEMPLATE: Meaning("The PodTemplate in the status does not exist.", "Create it."),
        BufferReason.NO_PODS: Meaning("The PodTemplate cannot be read; the message says why.", "Correct it."),
        BufferReason.QUOTAS: Meaning(
            "The ResourceQuotas of the namespace limit the buffer; the message has the figures.", "Raise the quota."
        ),
    },
    Lack: {
        Lack.RESOURCE: Meaning(
            "Pods can use less of a resource than the template promises, or none: the kubelet reserves some, or "
            "a device plug-in is missing.",
            "Correct the allocatable amounts of the group's template, or install the device plug-in.",
        ),
        Lack.LABEL: Meaning(
            "New nodes lack the label, or have another value.",
            "Correct the template's labels, or let the kubelet set the label.",
        ),
        Lack.TAINT: Meaning(
            "The nodes have a taint that the template does not have.",
            "Add it to the template. If the taint goes away after boot, name it with `--startup-taint`.",
        ),
    },
    ScaleUpResult: {
        ScaleUpResult.SUCCESSFUL: Meaning("Nodes were requested."),
        ScaleUpResult.ERROR: Meaning("The decision, or a call to the provider, failed.", "The log has the error."),
        ScaleUpResult.NO_OPTIONS: Meaning(
            "Pods need nodes, and no group can help any of them.", "See the reasons per pod and per group."
        ),
        ScaleUpResult.NOT_NEEDED: Meaning("No pod needs a new node."),
        ScaleUpResult.NOT_TRIED: Meaning("The pass ended before scale-up."),
        ScaleUpResult.IN_COOLDOWN: Meaning(
            "All pods that need nodes are so new that more may follow; the next pass handles them together."
        ),
        ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL: Meaning(
            "The cluster has as many nodes as `--max-nodes-total` allows.", "Raise the limit."
        ),
    },
    UnremovableReason: {
        UnremovableReason.DISABLED: Meaning(
            "The node has the annotation `cluster-autoscaler.kubernetes.io/scale-down-disabled: true`.",
            "Remove the annotation.",
        ),
        UnremovableReason.DO_NOT_DISRUPT: Meaning(
            'The node has the annotation `karpenter.sh/do-not-disrupt: "true"`.', "Remove the annotation."
        ),
        UnremovableReason.UNDECODED: Meaning(
            "The node cannot be decoded. The autoscaler uses its last known state.",
            "The log and the status page name the node and the error.",
        ),
        UnremovableReason.UNREADY_DISABLED: Meaning(
            "The node is unready, and `--scale-down-unready-enabled` is off.", "Switch the flag on, or repair the node."
        ),
        UnremovableReason.NOT_AUTOSCALED: Meaning("The node belongs to no node group."),
        UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH: Meaning(
            "The node is unneeded, but not yet for `--scale-down-unneeded-time`.", "Wait."
        ),
        UnremovableReason.NOT_UNREADY_LONG_ENOUGH: Meaning(
            "The node is unready and unneeded, but not yet for `--scale-down-unready-time`.", "Wait."
        ),
        UnremovableReason.MIN_SIZE: Meaning("The group is at its minimum size.", "Lower the minimum."),
        UnremovableReason.MAX_DELETIONS: Meaning(
            "The maximum number of the group's nodes is already being removed.", "Wait."
        ),
        UnremovableReason.ATOMIC: Meaning(
            "The group shrinks by all its nodes or none, and some cannot be removed.",
            "See the reasons of the group's other nodes.",
        ),
        UnremovableReason.MINIMAL_RESOURCES: Meaning(
            "Without the node the cluster would fall below its minimum resources.",
            "Lower the minimum of `--cores-total`, `--memory-total` or `--gpu-total`.",
        ),
        UnremovableReason.BEING_DELETED: Meaning("The node is already being removed."),
        UnremovableReason.NOT_UNDERUTILIZED: Meaning(
            "The pods request more of the node than `--scale-down-utilization-threshold`.",
            "Nothing needs to be done, or raise the threshold; the detail has the figure.",
        ),
        UnremovableReason.NOT_TRIED: Meaning(
            "The pass had already found enough nodes to remove, or ran out of time, before it reached this node."
        ),
        UnremovableReason.RECENTLY_UNREMOVABLE: Meaning(
            "The node was unremovable a short while ago. The autoscaler checks it again after "
            "`--unremovable-node-recheck-timeout`.",
            "Wait.",
        ),
        UnremovableReason.NO_PLACE: Meaning(
            "Some of its pods fit on no other node.", "Look at their requests, affinity and spread constraints."
        ),
        UnremovableReason.BLOCKED_BY_POD: Meaning(
            "A pod may not be moved; its own reason follows below.", "See that reason."
        ),
        UnremovableReason.ON_COMPLETION: Meaning(
            "A pod has the annotation `safe-to-evict: on-completion`, so the node waits for it.", "It ends by itself."
        ),
        UnremovableReason.UNEXPECTED: Meaning("The removal could not be simulated.", "The log has the error."),
        UnremovableReason.GROUP_COOLING_DOWN: Meaning(
            "The group changed recently, and scale-down delays apply per group.", "Wait."
        ),
        UnremovableReason.GROUP_HELD: Meaning(
            "The group allows no removal at present, because of an option of the group or because the provider "
            "is replacing its machines with newer ones.",
            "Wait for the end of the replacement, or change the option.",
        ),
        UnremovableReason.NOT_STARTED: Meaning("The node has registered and is not ready yet.", "Wait."),
        UnremovableReason.OUTSIDE_WINDOW: Meaning(
            "The node is removable, but no `--scale-down-window` of its group is open.",
            "Wait for the next window; the detail says how long.",
        ),
        UnremovableReason.PAUSED: Meaning(
            "The node is removable, and removals are paused for the cluster, its group or itself.",
            "The detail says by whom and until when; `autoscaler resume` ends the pause.",
        ),
        UnremovableReason.TOO_MANY_A_MINUTE: Meaning(
            "The node is removable, but as many removals as `--max-node-deletions-per-minute` allows started "
            "within the last minute.",
            "Wait.",
        ),
        UnremovableReason.SHARED_BUDGET: Meaning(
            "The node is removable, but a PodDisruptionBudget does not allow to evict its pods together with those of "
            "the nodes that are being drained.",
            "Wait until those nodes are gone, or let the PodDisruptionBudget allow more disruptions.",
        ),
        UnremovableReason.DISRUPTION_BUDGET: Meaning(
            "The node is removable, but as many nodes as a `--disruption-budget` allows are being removed or "
            "replaced; the detail names the budget.",
            "Wait, or let the budget allow more.",
        ),
        UnremovableReason.BEING_REPLACED: Meaning(
            "The autoscaler is replacing the node; the detail has the reason and the stage.", "Wait."
        ),
        UnremovableReason.REPLACES_OTHERS: Meaning("The node was bought for pods that will leave their old nodes."),
        UnremovableReason.SILENT: Meaning(
            "The API server has reported nothing about some kind of object for longer than "
            "`--max-watch-silence`. The autoscaler removes no node on outdated information. Afterwards the "
            "node's unneeded time starts again.",
            "Look at `kube.watch_failing` in the log: why does the watch report nothing?",
        ),
        UnremovableReason.REFUSED: Meaning(
            "Before any pod was evicted, the provider reported that it would not delete a machine of the node's "
            "group. The autoscaler tries the group again after `--unremovable-node-recheck-timeout`.",
            "Look at the message: in most cases a permission is missing.",
        ),
    },
    BlockingReason: {
        BlockingReason.CONTROLLER_NOT_FOUND: Meaning(
            "The pod's controller does not exist, so nothing would recreate the pod.",
            "Delete the pod if it is a leftover.",
        ),
        BlockingReason.MIN_REPLICAS: Meaning(
            "Its controller has fewer replicas than `--min-replica-count`.", "Add replicas, or lower the count."
        ),
        BlockingReason.NOT_REPLICATED: Meaning(
            "The pod has no controller that would recreate it.",
            "Run it under a controller, or annotate it `cluster-autoscaler.kubernetes.io/safe-to-evict: true`.",
        ),
        BlockingReason.LOCAL_STORAGE: Meaning(
            "The pod keeps data on the node (`hostPath`, or `emptyDir` on disk).",
            "Name the volumes that may be lost in `cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes`, "
            "or set `--skip-nodes-with-local-storage=false`.",
        ),
        BlockingReason.NOT_SAFE_TO_EVICT: Meaning(
            "The pod is annotated `cluster-autoscaler.kubernetes.io/safe-to-evict: false`.", "Remove the annotation."
        ),
        BlockingReason.DO_NOT_DISRUPT: Meaning(
            "The pod, or its namespace, has the annotation `karpenter.sh/do-not-disrupt`, or the pod has "
            '`node-autoscaling.kubernetes.io/safe-to-evict: "false"`.',
            'Wait until the detail says, annotate the pod `karpenter.sh/do-not-disrupt: "false"`, or set '
            "`--do-not-disrupt-limit`.",
        ),
        BlockingReason.SYSTEM: Meaning(
            "The pod is in `kube-system` and no PodDisruptionBudget covers it.",
            "Give it a PodDisruptionBudget, or set `--skip-nodes-with-system-pods=false`.",
        ),
        BlockingReason.GANG: Meaning(
            "The pod belongs to a gang that would run with fewer pods than its stated minimum.",
            "Wait until the job has ended, or annotate the pod `cluster-autoscaler.kubernetes.io/safe-to-evict: true`.",
        ),
        BlockingReason.BUDGET: Meaning(
            "A PodDisruptionBudget allows no disruption now.",
            "Add healthy replicas, or change the budget so that it allows a disruption.",
        ),
        BlockingReason.UNDECODED: Meaning(
            "The pod cannot be decoded, so the autoscaler does not know whether an eviction would lose data.",
            "The log and the status page name the pod and the error.",
        ),
    },
    ScaleDownResult: {
        ScaleDownResult.NO_UNNEEDED: Meaning("No node has been unneeded for long enough."),
        ScaleDownResult.NO_NODE_DELETED: Meaning("Nodes were due, but none could be removed."),
        ScaleDownResult.NODE_DELETE_STARTED: Meaning("The removal of nodes has started."),
        ScaleDownResult.NOT_TRIED: Meaning("The pass ended before scale-down, or scale-down is off."),
        ScaleDownResult.IN_COOLDOWN: Meaning("A scale-up, a removal or a failure was too recent.", "Wait."),
        ScaleDownResult.IN_PROGRESS: Meaning("Removals that started earlier are still in progress."),
        ScaleDownResult.NO_CANDIDATES: Meaning("No node may be considered."),
        ScaleDownResult.ERROR: Meaning("The decision, or a call, failed.", "The log has the error."),
    },
    PauseScope: {
        PauseScope.ALL: Meaning("No group grows and no node is removed.", "Run `autoscaler resume`."),
        PauseScope.SCALE_DOWN: Meaning("No node is removed or replaced; groups grow.", "Run `autoscaler resume`."),
        PauseScope.DISRUPTION: Meaning(
            "No pod is moved: nodes with pods are neither removed nor replaced. Empty nodes still go.",
            "Run `autoscaler resume`.",
        ),
        PauseScope.DRIFT: Meaning(
            "No node is replaced for differing from what its group would make.",
            "Mend what the reason of the pause names, then run `autoscaler resume`.",
        ),
    },
    ReplacementTrigger: {
        ReplacementTrigger.NOTICED: Meaning(
            "The cloud has announced that the machine leaves within minutes, and `--node-notices` has the kind of "
            "notice. The detail names it and where it stands."
        ),
        ReplacementTrigger.ADVISED: Meaning(
            "The cloud has announced maintenance of the machine or recommends another one, and `--node-notices` has "
            "the kind of notice. The detail names it and where it stands."
        ),
        ReplacementTrigger.UNHEALTHY: Meaning(
            "The node has had a condition for longer than `--node-repair-policy` tolerates.",
            "Look at the node's conditions.",
        ),
        ReplacementTrigger.REQUESTED: Meaning(
            "The node has the annotation `replacement.autoscaler/requested: true`, and "
            "`--replace-annotated-nodes` is on.",
            "To cancel before its pods leave, remove the annotation.",
        ),
        ReplacementTrigger.DRIFTED: Meaning(
            "The node differs from the nodes that its group makes now, in something that `--drift` names."
        ),
        ReplacementTrigger.EXPIRED: Meaning("The node is older than `--max-node-age`, or than its group's own."),
        ReplacementTrigger.CHEAPER: Meaning("The same pods fit on cheaper nodes, and `--consolidation` is on."),
    },
    DriftKind: {
        DriftKind.TEMPLATE: Meaning(
            "The machine was made from another version of its group's template: a launch template or configuration, "
            "an instance template, a model, or a version of Kubernetes."
        ),
        DriftKind.IMAGE: Meaning("The machine was made from another image than new machines."),
        DriftKind.INSTANCE_TYPE: Meaning("The machine is of a type that its group does not make any more."),
        DriftKind.LABELS: Meaning("The node lacks a label that its group's template declares, or has another value."),
        DriftKind.TAINTS: Meaning("The node lacks a taint that its group's template declares, or has another value."),
    },
    ReplacementStage: {
        ReplacementStage.PROPOSED: Meaning("Nothing has been bought yet."),
        ReplacementStage.BOUGHT: Meaning("New nodes were requested and are upcoming."),
        ReplacementStage.READY: Meaning("Every pod has a place on a ready node: the old nodes can be removed."),
        ReplacementStage.DRAINING: Meaning("Old nodes are being removed."),
        ReplacementStage.DONE: Meaning("The old nodes are gone."),
        ReplacementStage.ABANDONED: Meaning(
            "The replacement failed or was cancelled. The old nodes stay and are left alone for a while; "
            "scale-down removes unneeded new nodes."
        ),
    },
    ReplacementHold: {
        ReplacementHold.NODE_KEPT: Meaning(
            "The node is unremovable; the detail has the reason and the pod.", "See that reason."
        ),
        ReplacementHold.GRACE_OVER: Meaning(
            "A PodDisruptionBudget has kept the node for longer than `--drain-grace` allows.",
            "Let the PodDisruptionBudget allow a disruption, or add `overrule` to the grace.",
        ),
        ReplacementHold.MAX_SIZE: Meaning(
            "Its group is both at its minimum and at its maximum: no node may be added, and this one may not be "
            "removed.",
            "Raise the maximum or lower the minimum.",
        ),
        ReplacementHold.NO_CAPACITY: Meaning(
            "Some of its pods fit nowhere, and no group that may grow takes them: each is full, in backoff or "
            "over a limit.",
            "Raise a maximum or a limit, or wait for the backoff to end.",
        ),
        ReplacementHold.NOT_READY: Meaning("The new nodes are upcoming.", "Wait."),
        ReplacementHold.PODS_FIRST: Meaning(
            "The cluster grew for pending pods in this pass; they come first.", "Wait."
        ),
        ReplacementHold.TOO_MANY: Meaning(
            "As many replacements as `--max-replacements` or `--max-node-repairs` allows are in progress.", "Wait."
        ),
        ReplacementHold.TOO_MANY_UNHEALTHY: Meaning(
            "More nodes of the cluster, of the group or of the zone are unhealthy than "
            "`--node-repair-max-unhealthy-percentage` allows: new nodes would probably be unhealthy too.",
            "Find what the unhealthy nodes share. Repair goes on by itself once enough of them are healthy.",
        ),
        ReplacementHold.ALL_UNREACHABLE: Meaning(
            "No node of the cluster, of the group or of the zone reports its status: the network may be broken, and "
            "pods may run on.",
            "Look at the zone and at the network to the control plane.",
        ),
        ReplacementHold.API_SILENT: Meaning(
            "The API server has not sent anything for too long: the health of nodes is unknown.",
            "Look at the API server and at the network to it.",
        ),
        ReplacementHold.DISRUPTION_BUDGET: Meaning(
            "As many nodes as a `--disruption-budget` allows are being removed or replaced; the detail names the "
            "budget.",
            "Wait, or let the budget allow more.",
        ),
        ReplacementHold.PAUSED: Meaning(
            "Such replacements are paused: by a person, or by the autoscaler after failures.",
            "The detail says by whom and until when; `autoscaler resume` ends the pause.",
        ),
        ReplacementHold.NOT_WRITTEN: Meaning(
            "The autoscaler could not annotate the node, and buys nothing before that.",
            "Look at the API server and RBAC.",
        ),
        ReplacementHold.NOT_BOUGHT: Meaning(
            "The provider refused to grow the group.", "The detail has the provider's error."
        ),
        ReplacementHold.NEVER_CAME: Meaning(
            "Three times, new nodes did not appear or other pods took their room.",
            "See the backoff of the group; the autoscaler tries the node again later.",
        ),
        ReplacementHold.ON_TRIAL: Meaning(
            "The node differs from new nodes; another of its group goes first, or its successors have yet to prove "
            "themselves. The detail says in what it differs.",
            "Wait for `--drift-settle-time`.",
        ),
        ReplacementHold.NEW_NODES_FAILED: Meaning(
            "Nodes that replaced a drifted node failed, so the autoscaler pauses drift.",
            "See the event DriftStopped; repair what new nodes are made from, then run `autoscaler resume drift`.",
        ),
        ReplacementHold.TOO_DEAR: Meaning(
            "With the room that its pods still need, the new nodes would no longer be cheaper than the old ones."
        ),
        ReplacementHold.TIMED_OUT: Meaning(
            "The replacement did not finish within `--replacement-timeout`.", "The detail says what it waited for."
        ),
        ReplacementHold.WITHDRAWN: Meaning(
            "What asked for the replacement is gone, such as the annotation `replacement.autoscaler/requested`."
        ),
        ReplacementHold.OUTLIVED: Meaning(
            "The machine is still there a minute after it was to leave. The node is in service again.",
            "Find out who wrote the notice, and remove it if it is wrong.",
        ),
    },
    UnknownStart: {
        UnknownStart.NO_GROUP_FITS: Meaning(
            "No existing node and no new node of any group takes the pod.",
            "Run `autoscaler plan --explain pod/NS/NAME`.",
        ),
        UnknownStart.MAX_SIZE: Meaning("The groups that suit the pod are at their maximum size.", "Raise the maximum."),
        UnknownStart.RESOURCE_LIMIT: Meaning(
            "Another node would exceed a limit of the cluster.", "Raise the limit, such as `--cores-total`."
        ),
        UnknownStart.BACKOFF: Meaning("The groups that suit the pod failed recently and are in backoff."),
        UnknownStart.PAUSED: Meaning("The groups that suit the pod are paused.", "Run `autoscaler resume`."),
        UnknownStart.MAX_NODES_TOTAL: Meaning("The cluster has reached `--max-nodes-total`.", "Raise it."),
        UnknownStart.GANG: Meaning(
            "The pod belongs to a gang that cannot start with all that may be bought, or that lacks pods.",
            "The gang's pods say why; see `GangDoesNotFit` and `GangAwaitsPods`.",
        ),
        UnknownStart.NO_USABLE_CAPACITY: Meaning(
            "The ratio cannot be computed: the nodes have no CPU beyond their own overhead.",
            "Use the placement estimator.",
        ),
        UnknownStart.NOT_COMPUTED: Meaning(
            "More pods are pending than the autoscaler makes estimates for, and this pod is not among the first.",
            "Raise `--estimate-max-pods`.",
        ),
        UnknownStart.NOT_CONSIDERED: Meaning("The pass ignored the pod, or ended before it reached the pod."),
    },
    DeleteReason: {
        DeleteReason.PREEMPTED: Meaning("The scheduler preempted it for a pod of higher priority."),
        DeleteReason.EVICTED: Meaning("It was evicted, or its node could not keep it."),
        DeleteReason.SCALE_DOWN: Meaning("Its node was removed."),
        DeleteReason.EXPIRED: Meaning("Its deadline passed."),
        DeleteReason.OLD_GENERATION: Meaning("It belonged to an earlier generation of generated pods."),
        DeleteReason.USER: Meaning("Another client deleted it."),
        DeleteReason.UNKNOWN: Meaning("It disappeared between two observations."),
    },
    RemovedAs: {
        RemovedAs.UNDERUTILIZED: Meaning("Its pods were moved elsewhere first."),
        RemovedAs.EMPTY: Meaning("It had no pods that had to move."),
        RemovedAs.UNREADY: Meaning("It was not ready."),
    },
    Headcount: {
        Headcount.IDLE_COUNT: Meaning("The policy's `idleCount`."),
        Headcount.SCALE_FACTOR: Meaning("The policy's `scaleFactor` times the active pods, rounded up."),
        Headcount.SCALE_FACTOR_LIMIT: Meaning("The policy's `scaleFactorLimit` caps that number."),
        Headcount.MAX_PODS: Meaning("The pool's `maxPods` caps what the policy wants.", "Raise it if you want more."),
        Headcount.COOL_DOWN: Meaning("Fewer pods are wanted now; the existing pods stay until the `idleTime` is over."),
        Headcount.NO_POLICY: Meaning("No policy applies at this time.", "Put a policy without periods first."),
    },
    LeadBasis: {
        LeadBasis.LEARNED: Meaning(
            "It follows from the boot times of the groups' nodes and the start times of their pods."
        ),
        LeadBasis.CONFIGURED: Meaning("It is the configured `leadTime`."),
        LeadBasis.NOTHING_LEARNED: Meaning(
            "Fewer than five boots are known, so capacity is requested when the window begins.",
            "Keep boot times over restarts with `--persist-boot-times`, or set a `leadTime`.",
        ),
    },
    NoReservation: {
        NoReservation.DUPLICATE: Meaning("The delivery, or the job, was accepted before; it counts once."),
        NoReservation.PING: Meaning("GitHub only tested the webhook."),
        NoReservation.EVENT: Meaning("The event is not a `workflow_job`.", "Send only workflow jobs."),
        NoReservation.ACTION: Meaning("The job was neither queued nor completed."),
        NoReservation.SKIPPED: Meaning("The job was skipped and never waited for a runner."),
        NoReservation.CHECK_RUN: Meaning("It is a check run that looks like a job: it has no runner."),
        NoReservation.EMPTY_LABELS: Meaning(
            "The job requests no labels, so every target would match it.", "Set `allowEmptyLabels` on one target."
        ),
        NoReservation.NO_TARGET: Meaning(
            "No target has the repository and all labels of the job.", "Correct `github` of the target."
        ),
        NoReservation.AMBIGUOUS_TARGET: Meaning(
            "Several targets match equally well.", "Make one pattern more specific, or use different labels."
        ),
        NoReservation.JOB_COMPLETED: Meaning("The end of the job was announced before its beginning."),
        NoReservation.UNKNOWN_JOB: Meaning(
            "A job without a reservation ended; the autoscaler remembers it for a while."
        ),
        NoReservation.NOTHING_RESERVED: Meaning("There was nothing to remove."),
        NoReservation.QUEUE_LIMIT: Meaning(
            "The queue has as many reservations as it may hold, or as can be stored.",
            "Raise `maxReplicas` or `maxQueued`.",
        ),
        NoReservation.QUEUE_FULL: Meaning(
            "Too many operations wait to be stored; the answer asks the sender to try again.",
            "Find out why the store is slow.",
        ),
        NoReservation.MAX_QUEUE_AGE: Meaning(
            "The reservation waited for a slot longer than `maxDuration`.", "Raise `maxReplicas`."
        ),
        NoReservation.STATE_UNREADABLE: Meaning(
            "The stored state cannot be read, and stays unchanged.",
            "Repair or delete the ConfigMap, or run the version that wrote it.",
        ),
        NoReservation.TARGET_GONE: Meaning(
            "The target was removed from the configuration while operations waited for it."
        ),
        NoReservation.GIVEN_UP: Meaning(
            "The store failed for longer than `giveUpAfter`.", "Look at the API server and at the permissions."
        ),
        NoReservation.NOT_STORED: Meaning(
            "It was not stored in time; it may be stored later, and sending it again is harmless.",
            "Find out why the store is slow.",
        ),
    },
    Unplaceable: {
        Unplaceable.MAX_SIZE: Meaning("Every suitable group is at its maximum size.", "Raise the maximum."),
        Unplaceable.BACKED_OFF: Meaning("The suitable groups failed recently and are in backoff."),
        Unplaceable.LIMIT: Meaning("The limits of cores, memory or GPUs allow no more.", "Raise them."),
        Unplaceable.MAX_NODES_TOTAL: Meaning("The cluster has reached `--max-nodes-total`.", "Raise it."),
        Unplaceable.NOT_READY: Meaning("The suitable groups are not healthy enough to grow."),
        Unplaceable.NO_FIT: Meaning(
            "No group's new node could take the pod.", "Compare the template with the groups: size, labels, taints."
        ),
        Unplaceable.NOT_CHOSEN: Meaning(
            "A group could take it, but another was chosen first; the next pass continues."
        ),
        Unplaceable.HELD_BACK: Meaning("This pass buys nothing; the next one may."),
        Unplaceable.ERROR: Meaning("The scale-up failed.", "The log has the error."),
        Unplaceable.NO_TEMPLATE: Meaning(
            "The PodTemplate of the target is missing or unusable.", "Create it, with requests and without a node name."
        ),
    },
    HeadroomTrouble: {
        HeadroomTrouble.GET_DEPLOYMENT: Meaning(
            "The Deployment cannot be read.", "See the log; often the role is not bound in the pool's namespace."
        ),
        HeadroomTrouble.APPLY_STATE: Meaning(
            "The Deployment cannot be written; the autoscaler tries again.",
            "See the log; the namespace may be missing.",
        ),
        HeadroomTrouble.NAME_CONFLICT: Meaning(
            "The autoscaler does not own the Deployment of that name, and does not change it.",
            "Rename the pool or the Deployment; after a change of `clusterName`, run `autoscaler headroom cleanup`.",
        ),
        HeadroomTrouble.PRIORITY_CLASS: Meaning(
            "The PriorityClass is missing, or the daemon may not read it.", "Create it, or grant the permission."
        ),
        HeadroomTrouble.PRIORITY_CLASS_MISMATCH: Meaning(
            "The PriorityClass has another value than configured. Values cannot be changed, so the existing one "
            "counts.",
            "Delete the class, or configure its value.",
        ),
        HeadroomTrouble.PRIORITY_UNSUITABLE: Meaning(
            "The value of the PriorityClass would make pause pods useless or harmful, so the pool is not changed.",
            "It must be at least `--expendable-pods-priority-cutoff`, below 0, and below the work's own priority.",
        ),
        HeadroomTrouble.DELETION_COST: Meaning(
            "The autoscaler could not mark the pods to delete first, so several nodes may each keep a few.",
            "Grant the permission to patch pods there.",
        ),
        HeadroomTrouble.PAUSED: Meaning(
            "Somebody paused the Deployment; the autoscaler does not change it.", "Resume its rollout."
        ),
    },
}

OF_PODS: Sequence[type[StrEnum]] = (Waiting, PodVerdict, ScaleUpResult)
"""Enumerations whose members may be the verdict on a pending pod."""
OF_GROUPS: Sequence[type[StrEnum]] = (NoFit, Skip)
"""Enumerations of reasons why a node group does not help a pod."""
OF_NODES: Sequence[type[StrEnum]] = (UnremovableReason,)
"""Enumerations of reasons why a node stays."""
OF_POOLS: Sequence[type[StrEnum]] = (Headcount, HeadroomTrouble)
"""Enumerations of reasons for the number of pods in a headroom pool."""
OF_TARGETS: Sequence[type[StrEnum]] = (Unplaceable,)
"""Enumerations of reasons why a target's reservations have no room."""


def meaning(reason: str, kinds: Sequence[type[StrEnum]]) -> Meaning | None:
    """Return the meaning of a word in the first of `kinds` that has it; None if none has it."""
    return next((TABLE[kind][kind(reason)] for kind in kinds if reason in kind.__members__.values()), None)


def markdown() -> str:
    """Return the content of docs/reasons.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# Reasons",
        "",
        "Generated from `autoscaler/observe/reason_table.py`; do not edit.",
        "",
        "Logs, metrics, events, status page, JSON API and the output of `autoscaler plan` use the same reasons.",
        "They are Cluster Autoscaler's or the scheduler's, where those have one.",
    )
    for kind, meanings in TABLE.items():
        title = (kind.__doc__ or "").partition("\n")[0].removesuffix(".")
        yield from ("", f"## {title}", "", "| Reason | Meaning | Remedy |", "|---|---|---|")
        yield from (f"| `{reason}` | {meaning.text} | {meaning.remedy} |" for reason, meaning in meanings.items())
