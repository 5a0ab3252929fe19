"""What every reason means and what helps, in one table: docs/reasons.md is written from it.

It is long because there are many reasons, and one file so that their words can be read side by side.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from autoscaler.reasons import (
    BlockingReason,
    BufferReason,
    DeleteReason,
    Headcount,
    HeadroomTrouble,
    Lack,
    LeadBasis,
    NoFit,
    NoReservation,
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
    """One reason explained to people; `remedy` is empty where nothing needs to be done."""

    text: str
    remedy: str = ""


TABLE: Mapping[type[StrEnum], Mapping[StrEnum, Meaning]] = {
    NoFit: {
        NoFit.UNSCHEDULABLE: Meaning(
            "The node is cordoned.", "Uncordon it; for new nodes see `--scale-from-unschedulable`."
        ),
        NoFit.NODE_NAME: Meaning(
            "The pod names one node in `spec.nodeName`, and this is another.", "No new node can help; leave it out."
        ),
        NoFit.TAINT: Meaning(
            "The node has a taint that the pod does not tolerate.",
            "Add the toleration, or name a taint that goes away after boot with `--startup-taint`.",
        ),
        NoFit.NODE_AFFINITY: Meaning(
            "The node's labels do not match the pod's node selector or required node affinity.",
            "Correct the selector, or the labels of the group's template.",
        ),
        NoFit.PORTS: Meaning(
            "A pod on the node has the host port already.", "Do without host ports, or allow one node for each pod."
        ),
        NoFit.RESOURCES: Meaning(
            "Too little is left of a resource, or of pod slots; the detail has the figures.",
            "On every group: the pod is larger than any node there is; add a group with larger nodes.",
        ),
        NoFit.VOLUME_RESTRICTIONS: Meaning(
            "Another pod uses the volume in a way that excludes this one, such as ReadWriteOncePod.",
            "Let that pod finish, or use another access mode.",
        ),
        NoFit.VOLUME_LIMITS: Meaning(
            "The node has as many volumes of that CSI driver as it can attach.", "Spread the pods over more nodes."
        ),
        NoFit.VOLUME_BINDING: Meaning(
            "A claim is missing or unbound, or its volume cannot be reached from the node.",
            "Look at the claim; bound to a zone, it needs a group in that zone.",
        ),
        NoFit.VOLUME_ZONE: Meaning(
            "The claim's volume lies in another zone than the node.", "Allow a group in the volume's zone to grow."
        ),
        NoFit.SPREAD: Meaning(
            "One more pod in this domain would make the spread more uneven than `maxSkew` allows.",
            "Allow groups in the emptier domains to grow, or raise `maxSkew`.",
        ),
        NoFit.POD_AFFINITY: Meaning(
            "Required affinity has no pod near, or anti-affinity, this pod's or another's, has one.",
            "Compare the terms with the labels of the pods in the domain.",
        ),
        NoFit.DEVICES: Meaning(
            "The pod has claims for devices. Allocated ones keep it where they can be used; the allocation of others "
            "is not simulated: no node is bought for it, and none is removed that it would have to leave.",
            "Add the nodes it needs by hand, or let claims be ignored with `--compatibility=1.31`.",
        ),
        NoFit.TOO_MUCH_WORK: Meaning(
            "The pod has so many constraints that no node is tried for it: no node is bought for it, and none is "
            "removed that it would have to leave. If the required anti-affinity of a running pod alone is too much, "
            "it counts as keeping every other pod out of its domains.",
            "Give the pod fewer terms, or raise `--max-pod-evaluation-work`.",
        ),
        NoFit.ZONE_LATER: Meaning(
            "The pod suits the group in one of its zones, and the cloud puts the next node in another: it keeps the "
            "zones of a group in balance. No node is bought that would not serve the pod.",
            "Have one group for each zone, so that the zone can be chosen.",
        ),
        NoFit.ZONE_UNKNOWN: Meaning(
            "Neither the cloud nor a node tells which zone a new node of the group comes in; the pod would fit in one "
            "zone and not in another.",
            "Have one group for each zone, or state the zone in the group's template.",
        ),
    },
    Skip: {
        Skip.NOT_READY: Meaning(
            "Too many nodes of the group are not ready, or did not come after they were asked for.",
            "Look at why its nodes fail; it is taken back when they recover.",
        ),
        Skip.BACKED_OFF: Meaning(
            "A recent scale-up of the group failed; it is left alone for a while, longer each time.",
            "The detail has the provider's error; see `--initial-node-group-backoff-duration`.",
        ),
        Skip.MAX_SIZE: Meaning("The group has reached its maximum size.", "Raise the maximum."),
        Skip.LIMIT: Meaning(
            "A limit of the whole cluster on cores, memory or GPUs is reached.",
            "Raise `--cores-total`, `--memory-total` or `--gpu-total`.",
        ),
        Skip.ATOMIC_LIMIT: Meaning(
            "The group grows by all its nodes or none, and all are more than `--max-nodes-total` leaves.",
            "Raise the limit, or make the group smaller.",
        ),
        Skip.NO_TEMPLATE: Meaning(
            "Nothing tells what a node of the group looks like: it has none, and the provider cannot describe one.",
            "Let the provider describe its nodes, or start the group with one node.",
        ),
    },
    Waiting: {
        Waiting.TOO_YOUNG: Meaning(
            "The pod is younger than `--new-pod-scale-up-delay` or its own annotation asks for.", "Wait."
        ),
        Waiting.EXPENDABLE: Meaning(
            "The pod's priority is below `--expendable-pods-priority-cutoff`: it takes what is left over.",
            "Give it a higher priority, or lower the cut-off.",
        ),
        Waiting.DAEMONSET: Meaning(
            "A DaemonSet's pod belongs to one node that has no room; other nodes do not help it.",
            "Make room on that node, for example with a higher priority.",
        ),
        Waiting.FITS: Meaning("The pod fits on a node that exists or is on its way."),
        Waiting.TERMINATING: Meaning("The pod is being deleted."),
        Waiting.NOT_JUDGED: Meaning(
            "The scheduler has not looked at the pod yet.",
            "Lasting: is its scheduler running? See also `--bypassed-scheduler-names`.",
        ),
        Waiting.NOMINATED: Meaning("The scheduler has made room for the pod on a node by preemption."),
        Waiting.GATED: Meaning("The pod has scheduling gates.", "Whoever set the gates has to remove them."),
        Waiting.FOREIGN_SCHEDULER: Meaning(
            "The pod's scheduler is not in `--allowed-scheduler-names`.", "Add the scheduler to the flag."
        ),
        Waiting.TAKES_HEADROOM: Meaning(
            "The pod fits where pause pods of lower priority are; they give way, and get new room if it is missing."
        ),
        Waiting.CONSUMES_REQUEST: Meaning(
            "The pod uses the capacity of a ProvisioningRequest: that one buys nodes, the pod does not.",
            "Look at the conditions of the request that the pod's annotation names.",
        ),
    },
    PodVerdict: {
        PodVerdict.HELPED: Meaning("Nodes were asked for, and the pod fits on them."),
        PodVerdict.NO_GROUP_FITS: Meaning(
            "No group that may grow could take the pod; there is one reason for each group.",
            "Remove what stands against it in one group: its reason says how.",
        ),
        PodVerdict.NEXT_PASS: Meaning(
            "Some group could take the pod, but another was chosen first, or fewer nodes than wanted were allowed.",
            "Wait for the next passes.",
        ),
        PodVerdict.NOT_CHOSEN: Meaning(
            "Some group could take the pod, and the expander wants none of them.",
            "Look at what `--expander` names: a remote expander may decline whatever it is offered.",
        ),
    },
    RequestReason: {
        RequestReason.ACCEPTED: Meaning("The request is served."),
        RequestReason.FOUND: Meaning("All pods of the request fit on nodes that exist or are on their way."),
        RequestReason.PROVISIONED: Meaning("Nodes for the pods that do not fit were asked for."),
        RequestReason.NOT_FOUND: Meaning(
            "Not all pods fit, and for an atomic request no group takes all of the rest at once.",
            "It is tried again, at most every `--provisioning-request-max-backoff-time`; or ask for less.",
        ),
        RequestReason.NO_PODS: Meaning(
            "The pods of the request cannot be made; the message says why.", "Create the PodTemplate first."
        ),
        RequestReason.NO_BOOKING: Meaning(
            "The request was provisioned, and its pods cannot be made any more.", "Keep its PodTemplate."
        ),
        RequestReason.RESERVATION_EXPIRED: Meaning(
            "The capacity was held for ten minutes.", "Create the pods sooner, or ask again."
        ),
        RequestReason.CONSUMED: Meaning("All pods that use the capacity are scheduled."),
        RequestReason.EXPIRED: Meaning("The request could not be met within seven days.", "Ask again."),
    },
    BufferReason: {
        BufferReason.RESOLVED: Meaning("Template and number of pods of the buffer are known."),
        BufferReason.UNRESOLVED: Meaning("The spec of the buffer cannot be followed; the message says why."),
        BufferReason.INJECTED: Meaning("Room is kept for the pods of the buffer."),
        BufferReason.NOT_READY: Meaning(
            "The status has no template or no number of pods yet.", "Does its controller run? See its condition."
        ),
        BufferReason.EMPTY: Meaning("The buffer is to keep room for no pod."),
        BufferReason.NO_TEMPLATE: Meaning("The PodTemplate in the status does not exist.", "Create it."),
        BufferReason.NO_PODS: Meaning("The PodTemplate cannot be read; the message says why.", "Mend it."),
        BufferReason.QUOTAS: Meaning(
            "The ResourceQuotas of the namespace were shared out; the message has the figures.", "Raise the quota."
        ),
    },
    Lack: {
        Lack.RESOURCE: Meaning(
            "Pods can have less of a resource than promised, or none: the kubelet keeps some back, or a device plug-in "
            "is missing.",
            "Correct the allocatable amounts of the group's template, or install the device plug-in.",
        ),
        Lack.LABEL: Meaning(
            "The nodes come without the label, or with another value.",
            "Correct the template's labels, or let the kubelet set the label.",
        ),
        Lack.TAINT: Meaning(
            "The nodes have a taint that the template does not know of.",
            "Add it to the template; name it with `--startup-taint` if it goes away after boot.",
        ),
    },
    ScaleUpResult: {
        ScaleUpResult.SUCCESSFUL: Meaning("Nodes were asked for."),
        ScaleUpResult.ERROR: Meaning("The decision, or a call to the provider, failed.", "The log has the error."),
        ScaleUpResult.NO_OPTIONS: Meaning(
            "Pods need nodes, and no group can help any of them.", "See the reasons pod by pod and group by group."
        ),
        ScaleUpResult.NOT_NEEDED: Meaning("No pod needs a new node."),
        ScaleUpResult.NOT_TRIED: Meaning("The pass ended before it came to scale-up."),
        ScaleUpResult.IN_COOLDOWN: Meaning(
            "All pods that need nodes are so new that more may follow; the next pass helps them together."
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
        UnremovableReason.UNDECODED: Meaning(
            "What the API server says of the node cannot be decoded; it is taken for what it was last known to be.",
            "The log and the status page name it and say what is wrong with it.",
        ),
        UnremovableReason.UNREADY_DISABLED: Meaning(
            "The node is unready, and `--scale-down-unready-enabled` is off.", "Switch the flag on, or mend the node."
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
            "As many nodes of the group as allowed are being removed already.", "Wait."
        ),
        UnremovableReason.ATOMIC: Meaning(
            "The group shrinks by all its nodes or none, and not all can go.", "Look at what keeps the others."
        ),
        UnremovableReason.MINIMAL_RESOURCES: Meaning(
            "Without the node the cluster would have less than its limits ask for.",
            "Lower the minimum of `--cores-total`, `--memory-total` or `--gpu-total`.",
        ),
        UnremovableReason.BEING_DELETED: Meaning("The node is on its way out already."),
        UnremovableReason.NOT_UNDERUTILIZED: Meaning(
            "The pods request more of the node than `--scale-down-utilization-threshold`.",
            "Nothing, or a higher threshold; the detail has the figure.",
        ),
        UnremovableReason.NOT_TRIED: Meaning(
            "The pass had found enough nodes to remove, or had no time left, before this one."
        ),
        UnremovableReason.RECENTLY_UNREMOVABLE: Meaning(
            "The node was found unremovable a short while ago and is not looked at again before "
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
            "A pod is annotated to be waited for (`safe-to-evict: on-completion`).", "It ends by itself."
        ),
        UnremovableReason.UNEXPECTED: Meaning("The removal could not be simulated.", "The log has the error."),
        UnremovableReason.GROUP_COOLING_DOWN: Meaning(
            "Something just happened to the group, and its delays are local.", "Wait."
        ),
        UnremovableReason.GROUP_HELD: Meaning(
            "The group lets no node go for now: an option of the group says so, or the provider, which replaces the "
            "group's machines by newer ones at the moment.",
            "Wait for the end of the replacement, or change the option.",
        ),
        UnremovableReason.NOT_STARTED: Meaning("The node has registered and is not ready yet.", "Wait."),
        UnremovableReason.OUTSIDE_WINDOW: Meaning(
            "The node could go, but not now: no `--scale-down-window` of its group is open.",
            "Wait for the next window; the detail says how long.",
        ),
        UnremovableReason.TOO_MANY_A_MINUTE: Meaning(
            "The node could go, but as many removals as `--max-node-deletions-per-minute` allows began a moment ago.",
            "Wait.",
        ),
        UnremovableReason.BEING_REPLACED: Meaning(
            "Other nodes are to come in its place; the detail says why and how far that is.", "Wait."
        ),
        UnremovableReason.REPLACES_OTHERS: Meaning(
            "The node has come for pods that are about to leave their old nodes."
        ),
        UnremovableReason.SILENT: Meaning(
            "The API server has said nothing about some kind of objects for longer than `--max-watch-silence`, and no "
            "node is removed by old news. Afterwards it has to be unneeded anew for its full time.",
            "Look at `kube.watch_failing` in the log: why does the watch bring nothing?",
        ),
        UnremovableReason.REFUSED: Meaning(
            "The provider said, before any pod was evicted, that it would not delete a machine of the node's group. "
            "The group is tried again after `--unremovable-node-recheck-timeout`.",
            "Look at the message: most often a permission is missing.",
        ),
    },
    BlockingReason: {
        BlockingReason.CONTROLLER_NOT_FOUND: Meaning(
            "The pod's controller does not exist: nothing would create it anew.", "Delete the pod, if it is a remnant."
        ),
        BlockingReason.MIN_REPLICAS: Meaning(
            "Its controller has fewer replicas than `--min-replica-count`.", "More replicas, or a lower count."
        ),
        BlockingReason.NOT_REPLICATED: Meaning(
            "The pod has no controller that would create it anew.",
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
        BlockingReason.SYSTEM: Meaning(
            "The pod is in `kube-system` and no disruption budget covers it.",
            "Give it a PodDisruptionBudget, or set `--skip-nodes-with-system-pods=false`.",
        ),
        BlockingReason.BUDGET: Meaning(
            "A disruption budget allows no disruption now.", "More healthy replicas, or a budget that allows one."
        ),
        BlockingReason.UNDECODED: Meaning(
            "What the API server says of the pod cannot be decoded: nobody knows what would be lost.",
            "The log and the status page name it and say what is wrong with it.",
        ),
    },
    ScaleDownResult: {
        ScaleDownResult.NO_UNNEEDED: Meaning("No node has been unneeded for long enough."),
        ScaleDownResult.NO_NODE_DELETED: Meaning("Nodes were due, and none could be removed."),
        ScaleDownResult.NODE_DELETE_STARTED: Meaning("The removal of nodes has begun."),
        ScaleDownResult.NOT_TRIED: Meaning("The pass ended before it came to scale-down, or scale-down is off."),
        ScaleDownResult.IN_COOLDOWN: Meaning("A scale-up, a removal or a failure was too recent.", "Wait."),
        ScaleDownResult.IN_PROGRESS: Meaning("Removals that began earlier are still under way."),
        ScaleDownResult.NO_CANDIDATES: Meaning("No node may be considered."),
        ScaleDownResult.ERROR: Meaning("The decision, or a call, failed.", "The log has the error."),
    },
    ReplacementTrigger: {
        ReplacementTrigger.REQUESTED: Meaning(
            "The node is annotated `replacement.autoscaler/requested: true`, with `--replace-annotated-nodes`.",
            "To call it off before its pods leave, remove the annotation.",
        ),
        ReplacementTrigger.EXPIRED: Meaning("The node is older than `--max-node-age`, or than its group's own."),
        ReplacementTrigger.CHEAPER: Meaning("Cheaper nodes hold the same pods, and `--consolidation` is on."),
    },
    ReplacementStage: {
        ReplacementStage.PROPOSED: Meaning("Nothing has been bought yet."),
        ReplacementStage.BOUGHT: Meaning("New nodes have been asked for, and are awaited."),
        ReplacementStage.READY: Meaning("Every pod has a place on a node that is ready: the old nodes may go."),
        ReplacementStage.DRAINING: Meaning("Old nodes are being removed."),
        ReplacementStage.DONE: Meaning("The old nodes are gone."),
        ReplacementStage.ABANDONED: Meaning(
            "It was given up: old nodes stay and rest, new ones that nobody needs go again."
        ),
    },
    ReplacementHold: {
        ReplacementHold.NODE_KEPT: Meaning(
            "Something keeps the node; the detail has the reason and the pod.", "See that reason."
        ),
        ReplacementHold.MAX_SIZE: Meaning(
            "Its group is at its minimum and at its maximum: no other node may come, and this one may not go.",
            "Raise the maximum or lower the minimum.",
        ),
        ReplacementHold.NO_CAPACITY: Meaning(
            "Some of its pods fit nowhere, and no group that may grow takes them: full, backed off or over a limit.",
            "Raise a maximum or a limit, or wait for the backoff to end.",
        ),
        ReplacementHold.NOT_READY: Meaning("The new nodes are on their way.", "Wait."),
        ReplacementHold.PODS_FIRST: Meaning(
            "The cluster grew for pending pods in this pass; they come first.", "Wait."
        ),
        ReplacementHold.TOO_MANY: Meaning(
            "As many replacements as `--max-replacements` allows are in progress.", "Wait."
        ),
        ReplacementHold.NOT_WRITTEN: Meaning(
            "The node could not be annotated, and nothing is bought before that.", "Look at the API server and RBAC."
        ),
        ReplacementHold.NOT_BOUGHT: Meaning(
            "The provider refused to grow the group.", "The detail has the provider's error."
        ),
        ReplacementHold.NEVER_CAME: Meaning(
            "New nodes did not come, or other pods took their room, three times.",
            "See the backoff of the group; the node is tried again after its rest.",
        ),
        ReplacementHold.TOO_DEAR: Meaning(
            "With what its pods still lack, the new nodes would no longer be cheaper than the old."
        ),
        ReplacementHold.TIMED_OUT: Meaning(
            "It was not done within `--replacement-timeout`.", "See what it waited for, in the detail."
        ),
        ReplacementHold.WITHDRAWN: Meaning("The annotation that asked for it was removed."),
    },
    UnknownStart: {
        UnknownStart.NO_GROUP_FITS: Meaning(
            "No node there is or could be bought takes the pod.", "Ask `autoscaler plan --explain pod/NS/NAME`."
        ),
        UnknownStart.MAX_SIZE: Meaning("The groups that suit the pod are at their maximum.", "Raise the maximum."),
        UnknownStart.RESOURCE_LIMIT: Meaning(
            "Another node would exceed a limit of the cluster.", "Raise the limit, such as `--cores-total`."
        ),
        UnknownStart.BACKOFF: Meaning("The groups that suit the pod failed lately and are left alone for a while."),
        UnknownStart.MAX_NODES_TOTAL: Meaning("`--max-nodes-total` is reached.", "Raise it."),
        UnknownStart.NO_USABLE_CAPACITY: Meaning(
            "The ratio has nothing to go by: the nodes have no CPU beyond their own overhead.",
            "Use the placement estimator.",
        ),
        UnknownStart.NOT_COMPUTED: Meaning(
            "More pods wait than estimates are made for, and this one is not among the first.",
            "Raise `--estimate-max-pods`.",
        ),
        UnknownStart.NOT_CONSIDERED: Meaning("The pass left the pod alone, or ended before it came to it."),
    },
    DeleteReason: {
        DeleteReason.PREEMPTED: Meaning("The scheduler made room for a pod of higher priority."),
        DeleteReason.EVICTED: Meaning("It was evicted, or its node could not keep it."),
        DeleteReason.SCALE_DOWN: Meaning("Its node was removed."),
        DeleteReason.EXPIRED: Meaning("Its deadline was over."),
        DeleteReason.OLD_GENERATION: Meaning("It was generated by an earlier generation."),
        DeleteReason.USER: Meaning("Somebody else asked for its deletion."),
        DeleteReason.UNKNOWN: Meaning("It was gone from one look to the next."),
    },
    RemovedAs: {
        RemovedAs.UNDERUTILIZED: Meaning("Its pods were moved elsewhere first."),
        RemovedAs.EMPTY: Meaning("It ran nothing that had to move."),
        RemovedAs.UNREADY: Meaning("It was not ready."),
    },
    Headcount: {
        Headcount.IDLE_COUNT: Meaning("The policy's `idleCount`."),
        Headcount.SCALE_FACTOR: Meaning("The policy's `scaleFactor` times the active pods, rounded up."),
        Headcount.SCALE_FACTOR_LIMIT: Meaning("The policy's `scaleFactorLimit` caps that."),
        Headcount.MAX_PODS: Meaning("The pool's `maxPods` caps what the policy wants.", "Raise it if more is meant."),
        Headcount.COOL_DOWN: Meaning("Fewer are wanted now; those there stay until the `idleTime` is over."),
        Headcount.NO_POLICY: Meaning("No policy holds at this time.", "Put a policy without periods first."),
    },
    LeadBasis: {
        LeadBasis.LEARNED: Meaning(
            "By how long nodes of the groups in question took to boot, and their pods to start."
        ),
        LeadBasis.CONFIGURED: Meaning("By `leadTime`."),
        LeadBasis.NOTHING_LEARNED: Meaning(
            "Fewer than five boots are known: capacity is asked for when the window begins.",
            "Keep boot times over restarts with `--persist-boot-times`, or write a `leadTime`.",
        ),
    },
    NoReservation: {
        NoReservation.DUPLICATE: Meaning("The delivery, or the job, was taken before; it counts once."),
        NoReservation.PING: Meaning("GitHub only asked whether somebody answers."),
        NoReservation.EVENT: Meaning("It is another event than `workflow_job`.", "Send only workflow jobs."),
        NoReservation.ACTION: Meaning("The job neither began to wait nor ended."),
        NoReservation.SKIPPED: Meaning("The job was skipped and never waited for a runner."),
        NoReservation.CHECK_RUN: Meaning("It is a check run that looks like a job: no runner had it."),
        NoReservation.EMPTY_LABELS: Meaning(
            "The job asks for no labels, so that it would fit every target.", "Set `allowEmptyLabels` on one target."
        ),
        NoReservation.NO_TARGET: Meaning(
            "No target has the repository, or all labels of the job.", "Correct `github` of the target."
        ),
        NoReservation.AMBIGUOUS_TARGET: Meaning(
            "Several targets fit equally well.", "Make one pattern more exact, or the labels different."
        ),
        NoReservation.JOB_COMPLETED: Meaning("The end of the job was announced before its beginning."),
        NoReservation.UNKNOWN_JOB: Meaning("A job ended for which nothing is reserved; it is remembered for a while."),
        NoReservation.NOTHING_RESERVED: Meaning("There was nothing to remove."),
        NoReservation.QUEUE_LIMIT: Meaning(
            "As many reservations wait as may, or as can be stored.", "Raise `maxReplicas` or `maxQueued`."
        ),
        NoReservation.QUEUE_FULL: Meaning(
            "Too many operations wait to be stored; the sender is told to try again.", "Look why the store is slow."
        ),
        NoReservation.MAX_QUEUE_AGE: Meaning(
            "The reservation waited for a slot longer than `maxDuration`.", "Raise `maxReplicas`."
        ),
        NoReservation.STATE_UNREADABLE: Meaning(
            "The stored state is not to be understood, and left alone.",
            "Repair or delete the ConfigMap, or run the version that wrote it.",
        ),
        NoReservation.TARGET_GONE: Meaning("The target left the configuration while operations waited for it."),
        NoReservation.GIVEN_UP: Meaning(
            "The store failed for longer than `giveUpAfter`.", "Look at the API server and at the permissions."
        ),
        NoReservation.NOT_STORED: Meaning(
            "It was not stored in time; it may be later, and sending it again is harmless.",
            "Look why the store is slow.",
        ),
    },
    Unplaceable: {
        Unplaceable.MAX_SIZE: Meaning("Every group that would do is at its maximum.", "Raise the maximum."),
        Unplaceable.BACKED_OFF: Meaning("The groups that would do failed lately and are left alone for a while."),
        Unplaceable.LIMIT: Meaning("The limits of cores, memory or GPUs allow no more.", "Raise them."),
        Unplaceable.MAX_NODES_TOTAL: Meaning("`--max-nodes-total` is reached.", "Raise it."),
        Unplaceable.NOT_READY: Meaning("The groups that would do are not healthy enough to grow."),
        Unplaceable.NO_FIT: Meaning(
            "A new node of no group could take the pod.", "Compare the template with the groups: size, labels, taints."
        ),
        Unplaceable.NOT_CHOSEN: Meaning("A group could take it and another was chosen first; the next pass goes on."),
        Unplaceable.HELD_BACK: Meaning("This pass buys nothing; the next one may."),
        Unplaceable.ERROR: Meaning("The scale-up failed.", "The log has the error."),
        Unplaceable.NO_TEMPLATE: Meaning(
            "The PodTemplate of the target is missing or useless.", "Create it, with requests and without a node name."
        ),
    },
    HeadroomTrouble: {
        HeadroomTrouble.GET_DEPLOYMENT: Meaning(
            "The Deployment cannot be read.", "See the log; often the role of the pool's namespace is not bound."
        ),
        HeadroomTrouble.APPLY_STATE: Meaning(
            "The Deployment cannot be written; it is tried again.", "See the log; the namespace may be missing."
        ),
        HeadroomTrouble.NAME_CONFLICT: Meaning(
            "A Deployment of that name belongs to somebody else; it is left alone.",
            "Rename the pool, or the Deployment; after a change of `clusterName`, run `autoscaler headroom cleanup`.",
        ),
        HeadroomTrouble.PRIORITY_CLASS: Meaning(
            "The PriorityClass is missing, or may not be read.", "Create it, or allow the daemon to."
        ),
        HeadroomTrouble.PRIORITY_CLASS_MISMATCH: Meaning(
            "The PriorityClass has another value than configured; values cannot be changed, so what is there counts.",
            "Delete the class, or configure its value.",
        ),
        HeadroomTrouble.PRIORITY_UNSUITABLE: Meaning(
            "The value of the PriorityClass would make pause pods useless or harmful; the pool is left alone.",
            "It must be at least `--expendable-pods-priority-cutoff`, below 0, and below the work's own priority.",
        ),
        HeadroomTrouble.DELETION_COST: Meaning(
            "Pods could not be told to go first, so that several nodes may keep a few.", "Allow to patch pods there."
        ),
        HeadroomTrouble.PAUSED: Meaning("Somebody paused the Deployment; it is left alone.", "Resume its rollout."),
    },
}

OF_PODS: Sequence[type[StrEnum]] = (Waiting, PodVerdict, ScaleUpResult)
"""Kinds of reasons that a pending pod can have as its verdict."""
OF_GROUPS: Sequence[type[StrEnum]] = (NoFit, Skip)
"""Kinds of reasons why a node group does not help a pod."""
OF_NODES: Sequence[type[StrEnum]] = (UnremovableReason,)
"""Kinds of reasons why a node stays."""
OF_POOLS: Sequence[type[StrEnum]] = (Headcount, HeadroomTrouble)
"""Kinds of reasons why a pool of headroom has the pods that it has, or has not."""
OF_TARGETS: Sequence[type[StrEnum]] = (Unplaceable,)
"""Kinds of reasons why there is no room for reservations of a target."""
OF_STARTS: Sequence[type[StrEnum]] = (UnknownStart,)
"""Kinds of reasons why the start of a pod cannot be estimated."""


def meaning(reason: str, kinds: Sequence[type[StrEnum]]) -> Meaning | None:
    """Return what a word means in the first of the kinds that has it; None: it is none of theirs."""
    return next((TABLE[kind][kind(reason)] for kind in kinds if reason in kind.__members__.values()), None)


def markdown() -> str:
    """Write docs/reasons.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# Reasons",
        "",
        "Generated from `autoscaler/observe/reason_table.py`; do not edit.",
        "",
        "The same words stand in the log, the metrics, the events, the status page, the JSON API and the output of",
        "`autoscaler plan`. They are Cluster Autoscaler's, or the scheduler's, where those have one.",
    )
    for kind, meanings in TABLE.items():
        title = (kind.__doc__ or "").partition("\n")[0].removesuffix(".")
        yield from ("", f"## {title}", "", "| Reason | Meaning | What helps |", "|---|---|---|")
        yield from (f"| `{reason}` | {meaning.text} | {meaning.remedy} |" for reason, meaning in meanings.items())
