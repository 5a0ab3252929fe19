"""Situations of nodes that stay."""

from autoscaler.explain.remedies.remedy import Obstacle
from autoscaler.objects.node import HOSTNAME
from autoscaler.reasons import BlockingReason, ScaleDownResult, UnremovableReason
from tests.manifests import Json, a_budget, a_group, a_node, a_pod, a_template, named, running
from tests.situations.scenes import NODE, OURS, OWNERS, SAFE, UNREADY_STATUS, Situation, a_volume, near, standing

SYSTEM = {"namespace": "kube-system", "creationTimestamp": "2026-01-05T11:30:00Z"}
GPU_NODES = [
    a_node(name, more={"nvidia.com/gpu": "4"}, meta={"labels": {"cloud.google.com/gke-accelerator": "t4"}})
    for name in ("n", "m")
]
AT_ONCE = {"unremovable-node-recheck-timeout": "0s"}
WHOLE = {"options": {"zero-or-max-node-scaling": True}}
STAYS = {"annotations": {OURS + "scale-down-disabled": "true"}}
AWAY = [{"key": "elsewhere", "effect": "NoSchedule"}]
UNREACHABLE = [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]
ONLY_HERE = {"key": HOSTNAME, "operator": "In", "values": ["n"]}


def labelled(name: str) -> Json:
    """Return metadata with the label that every node has."""
    return {"labels": {HOSTNAME: name}}


NODES = [
    Situation(
        "no controller",
        NODE,
        standing(running(owner="")),
        BlockingReason.NOT_REPLICATED,
        "pod default/web-0",
        cause="is kept by pod default/web-0: no controller would make the pod again",
        advice="Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict: true, or run it "
        "under a controller; without one it does not come back. The node is checked again in 4m50s.",
    ),
    Situation(
        "a controller of an unknown kind",
        NODE,
        standing(running(owner="Custom/web")),
        BlockingReason.NOT_REPLICATED,
        "pod default/web-0",
        cause="is kept by pod default/web-0: controllers of kind Custom are not trusted to make pods again",
        advice="Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict: true, or run it "
        "under a controller; without one it does not come back. The node is checked again in 4m50s.",
    ),
    *(
        Situation(
            f"a {kind} that is not there",
            NODE,
            standing(running(owner=f"{kind}/gone")),
            BlockingReason.CONTROLLER_NOT_FOUND,
            "pod default/web-0",
            cause=f"is kept by pod default/web-0: there is no {kind} gone",
            advice="Delete pod default/web-0. The node is checked again in 4m50s.",
        )
        for kind in ("ReplicaSet", "StatefulSet", "Job", "DaemonSet", "ReplicationController")
    ),
    Situation(
        "too few replicas",
        NODE,
        standing(running(), options={"min-replica-count": "4"}),
        BlockingReason.MIN_REPLICAS,
        "controller ReplicaSet default/web",
        cause="is kept by pod default/web-0: ReplicaSet web has 3 replicas, fewer than 4",
        advice="Scale ReplicaSet default/web to 4 replicas. The node is checked again in 4m50s.",
    ),
    Situation(
        "an emptyDir",
        NODE,
        standing(running(**a_volume(emptyDir={}))),
        BlockingReason.LOCAL_STORAGE,
        "pod default/web-0",
        cause="is kept by pod default/web-0: volume data is on the node's disk",
        advice="Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: data "
        "if the data may be lost. The node is checked again in 4m50s.",
    ),
    Situation(
        "a hostPath",
        NODE,
        standing(running(**a_volume(hostPath={"path": "/x"}))),
        BlockingReason.LOCAL_STORAGE,
        "pod default/web-0",
        cause="is kept by pod default/web-0: volume data is on the node's disk",
        advice="Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: data "
        "if the data may be lost. The node is checked again in 4m50s.",
    ),
    Situation(
        "not safe to evict",
        NODE,
        standing(running(meta={"annotations": {SAFE: "false"}})),
        BlockingReason.NOT_SAFE_TO_EVICT,
        "pod default/web-0",
        cause="is kept by pod default/web-0: annotated cluster-autoscaler.kubernetes.io/safe-to-evict: false",
        advice="Remove the annotation cluster-autoscaler.kubernetes.io/safe-to-evict from pod default/web-0. The "
        "node is checked again in 4m50s.",
    ),
    Situation(
        "a system pod",
        NODE,
        standing(running(meta=SYSTEM)),
        BlockingReason.SYSTEM,
        "pod kube-system/web-0",
        cause="is kept by pod kube-system/web-0: a pod of kube-system without a disruption budget",
        advice="Create a PodDisruptionBudget for pod kube-system/web-0 that allows 1 disruption. The node is "
        "checked again in 4m50s.",
    ),
    Situation(
        "a spent budget",
        NODE,
        standing(running(), podDisruptionBudgets=[a_budget(0)]),
        BlockingReason.BUDGET,
        "budget default/web",
        cause="is kept by pod default/web-0: budget default/web allows no more disruptions",
        advice="Make PodDisruptionBudget default/web allow 1 disruption, by more healthy replicas or a wider "
        "budget. The node is checked again in 4m50s.",
    ),
    Situation(
        "a budget that another node's pod spends",
        "node/m",
        standing(
            running(),
            running("web-1", "m"),
            nodes=[a_node(), a_node("m")],
            podDisruptionBudgets=[a_budget(1)],
            options={"max-drain-parallelism": "2", **AT_ONCE},
        ),
        BlockingReason.BUDGET,
        "budget default/web",
        cause="is kept by pod default/web-1: budget default/web allows no more disruptions",
        advice="Make PodDisruptionBudget default/web allow 2 disruptions, by more healthy replicas or a wider budget.",
    ),
    Situation(
        "two pods, each for its own reason",
        NODE,
        standing(running(owner=""), running("db-0", owner="ReplicaSet/web", **a_volume(emptyDir={}))),
        BlockingReason.NOT_REPLICATED,
        "pod default/web-0",
        cause="is kept by pod default/web-0: no controller would make the pod again; is kept by pod default/db-0: "
        "volume data is on the node's disk",
        advice="Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict: true, or run it "
        "under a controller; without one it does not come back. Annotate pod default/db-0 with "
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: data if the data may be lost. The "
        "node is checked again in 4m50s.",
    ),
    Situation(
        "one pod, for two reasons",
        NODE,
        standing(running(**a_volume(emptyDir={})), podDisruptionBudgets=[a_budget(0)]),
        BlockingReason.LOCAL_STORAGE,
        "pod default/web-0",
        cause="is kept by pod default/web-0: volume data is on the node's disk; is kept by pod default/web-0: "
        "budget default/web allows no more disruptions",
        advice="Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: data "
        "if the data may be lost. Make PodDisruptionBudget default/web allow 1 disruption, by more healthy "
        "replicas or a wider budget. The node is checked again in 4m50s.",
    ),
    Situation(
        "a pod that is to run to its end",
        NODE,
        standing(running(meta={"annotations": {SAFE: "on-completion"}})),
        UnremovableReason.ON_COMPLETION,
        "pod default/web-0",
        cause="is kept until pod default/web-0 has finished",
        advice="Wait until the pod has finished, or remove the annotation "
        "cluster-autoscaler.kubernetes.io/safe-to-evict from pod default/web-0.",
    ),
    Situation(
        "no room for its pod",
        NODE,
        standing(running(cpu="2"), running("rest-0", "home", cpu="63"), options=AT_ONCE),
        UnremovableReason.NO_PLACE,
        "pod default/web-0",
        cause="is kept by pod default/web-0: it needs 2 CPU, node home has 1 free",
        advice="Lower the CPU request of pod default/web-0 from 2 to 1 so that node home takes it.",
    ),
    Situation(
        "a pod that only this node suits",
        NODE,
        standing(
            running(nodeSelector={"disk": "ssd"}),
            nodes=[a_node(meta={"labels": {"disk": "ssd"}})],
            options=AT_ONCE,
        ),
        UnremovableReason.NO_PLACE,
        "pod default/web-0",
        cause="is kept by pod default/web-0: it wants disk=ssd, which node home does not have",
        advice="Remove disk from the nodeSelector of pod default/web-0 so that node home takes it.",
    ),
    Situation(
        "annotated to stay",
        NODE,
        standing(nodes=[a_node(meta={"annotations": {OURS + "scale-down-disabled": "true"}})]),
        UnremovableReason.DISABLED,
        "node n",
        cause="is annotated to stay",
        advice="Remove the annotation cluster-autoscaler.kubernetes.io/scale-down-disabled from node n.",
    ),
    Situation(
        "annotated to stay, and blocked",
        NODE,
        standing(running(owner=""), nodes=[a_node(meta={"annotations": {OURS + "scale-down-disabled": "true"}})]),
        UnremovableReason.DISABLED,
        "node n",
        cause="is annotated to stay",
        advice="Remove the annotation cluster-autoscaler.kubernetes.io/scale-down-disabled from node n. Annotate "
        "pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict: true, or run it under a "
        "controller; without one it does not come back.",
    ),
    Situation(
        "unready, and such are left alone",
        NODE,
        standing(nodes=[a_node(status=UNREADY_STATUS)], options={"scale-down-unready-enabled": "false"}),
        UnremovableReason.UNREADY_DISABLED,
        "flag scale-down-unready-enabled",
        cause="is not ready, and --scale-down-unready-enabled is off",
        advice="Repair the node, or set --scale-down-unready-enabled=true to have unready nodes removed.",
    ),
    Situation(
        "of no group",
        "node/home",
        standing(),
        UnremovableReason.NOT_AUTOSCALED,
        "node home",
        flips=False,
        cause="belongs to no node group",
        advice="Remove the node by hand, or make it part of a node group.",
    ),
    Situation(
        "the group's minimum",
        NODE,
        standing(group={"minSize": 1}),
        UnremovableReason.MIN_SIZE,
        "group g",
        cause="is needed for the minimum size of group g, which is 1",
        advice="Lower the minimum size of group g to 0.",
    ),
    Situation(
        "the group's minimum, after another node",
        "node/m",
        standing(nodes=[a_node(), a_node("m")], group={"minSize": 1}),
        UnremovableReason.MIN_SIZE,
        "group g",
        cause="is needed for the minimum size of group g, which is 1",
        advice="Lower the minimum size of group g to 0.",
    ),
    Situation(
        "in use",
        NODE,
        standing(running(cpu="2500m")),
        UnremovableReason.NOT_UNDERUTILIZED,
        "flag scale-down-utilization-threshold",
        cause="is in use: 62% of its cpu is requested, the threshold is 50%",
        advice="Nothing to do; to have it removed all the same, set --scale-down-utilization-threshold=0.63.",
    ),
    Situation(
        "in use by the group's own threshold",
        NODE,
        standing(running(cpu="2"), group={"options": {"scale-down-utilization-threshold": 0.4}}),
        UnremovableReason.NOT_UNDERUTILIZED,
        "group g",
        cause="is in use: 50% of its cpu is requested, the threshold is 40%",
        advice="Nothing to do; to have it removed all the same, set scale-down-utilization-threshold of group g to "
        "0.51.",
    ),
    Situation(
        "GPUs in use",
        NODE,
        standing(running(more={"nvidia.com/gpu": "3"}), nodes=GPU_NODES, nodeToGroup={"n": "g"}),
        UnremovableReason.NOT_UNDERUTILIZED,
        "flag scale-down-gpu-utilization-threshold",
        cause="is in use: 75% of its GPU is requested, the threshold is 50%",
        advice="Nothing to do; to have it removed all the same, set --scale-down-gpu-utilization-threshold=0.76.",
    ),
    Situation(
        "unneeded for too short a time",
        NODE,
        standing(options={"scale-down-unneeded-time": "2m"}),
        UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH,
        "flag scale-down-unneeded-time",
        cause="has been unneeded for 10s of 120s",
        advice="Wait 1m50s; it may go then if it is still unneeded.",
    ),
    Situation(
        "unneeded for too short a time, as the group has it",
        NODE,
        standing(group={"options": {"scale-down-unneeded-time": "2m"}}),
        UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH,
        "group g",
        cause="has been unneeded for 10s of 120s",
        advice="Wait 1m50s; it may go then if it is still unneeded.",
    ),
    Situation(
        "unready for too short a time",
        NODE,
        standing(nodes=[a_node(status=UNREADY_STATUS)], options={"scale-down-unready-time": "2m"}),
        UnremovableReason.NOT_UNREADY_LONG_ENOUGH,
        "flag scale-down-unready-time",
        cause="has been unneeded for 10s of 120s",
        advice="Wait 1m50s; it may go then if it is still unneeded.",
    ),
    Situation(
        "the cluster's fewest cores",
        NODE,
        standing(options={"cores-total": "68:1000"}),
        UnremovableReason.MINIMAL_RESOURCES,
        "flag cores-total",
        cause="is needed for the CPU that --cores-total keeps in the cluster",
        advice="Set --cores-total=64:1000.",
    ),
    Situation(
        "the cluster's least memory",
        NODE,
        standing(options={"memory-total": "17:1000"}),
        UnremovableReason.MINIMAL_RESOURCES,
        "flag memory-total",
        cause="is needed for the memory that --memory-total keeps in the cluster",
        advice="Set --memory-total=1:1000.",
    ),
    Situation(
        "outside its window",
        NODE,
        standing(options={"scale-down-window": "5 12 * * *;1h"}),
        UnremovableReason.OUTSIDE_WINDOW,
        "flag scale-down-window",
        cause="is unneeded outside --scale-down-window",
        advice="Wait 4m49s until the window opens.",
    ),
    Situation(
        "a pod that is not to be disrupted",
        NODE,
        standing(running(meta={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})),
        BlockingReason.DO_NOT_DISRUPT,
        "pod default/web-0",
        cause="is kept by pod default/web-0: annotated karpenter.sh/do-not-disrupt: true",
        advice="Annotate pod default/web-0 with karpenter.sh/do-not-disrupt: false. "
        "The node is checked again in 4m50s.",
    ),
    Situation(
        "a pod of a namespace that is not to be disrupted",
        NODE,
        standing(
            running(),
            namespaces=[{"metadata": {"name": "default", "annotations": {"karpenter.sh/do-not-disrupt": "true"}}}],
        ),
        BlockingReason.DO_NOT_DISRUPT,
        "pod default/web-0",
        cause="is kept by pod default/web-0: namespace default is annotated karpenter.sh/do-not-disrupt: true",
        advice="Annotate pod default/web-0 with karpenter.sh/do-not-disrupt: false. "
        "The node is checked again in 4m50s.",
    ),
    Situation(
        "a pod that is not safe to evict, in the words of all autoscalers",
        NODE,
        standing(running(meta={"annotations": {"node-autoscaling.kubernetes.io/safe-to-evict": "false"}})),
        BlockingReason.DO_NOT_DISRUPT,
        "pod default/web-0",
        cause="is kept by pod default/web-0: annotated node-autoscaling.kubernetes.io/safe-to-evict: false",
        advice="Remove the annotation node-autoscaling.kubernetes.io/safe-to-evict from pod default/web-0. "
        "The node is checked again in 4m50s.",
    ),
    Situation(
        "a node that is not to be disrupted",
        NODE,
        standing(nodes=[a_node(meta={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})]),
        UnremovableReason.DO_NOT_DISRUPT,
        "node n",
        cause="is annotated to stay",
        advice="Remove the annotation karpenter.sh/do-not-disrupt from node n.",
    ),
    Situation(
        "paused for a while",
        NODE,
        standing(pauseConfigMap=named("pauses", "") | {"data": {"freeze": "{until: 2026-01-05T12:05:00Z, by: jane}"}}),
        UnremovableReason.PAUSED,
        "node n",
        cause="has to wait: scale-down is paused until 2026-01-05T12:05:00Z by jane",
        advice="Wait 4m49s, or run autoscaler resume.",
    ),
    Situation(
        "paused by its own annotation, which has no end",
        NODE,
        standing(
            running(),
            nodes=[a_node(meta={"annotations": {"pause.autoscaler/reason": "debugging"}})],
        ),
        UnremovableReason.PAUSED,
        "node n",
        cause="has to wait: the pause n cannot be read, so disruption is paused: until: is required in annotations",
        advice="Run autoscaler resume.",
        flips=False,
    ),
    Situation(
        "too many within a minute",
        NODE,
        standing(options={"max-node-deletions-per-minute": "1"}),
        UnremovableReason.TOO_MANY_A_MINUTE,
        "flag max-node-deletions-per-minute",
        cause="has to wait, since as many nodes as --max-node-deletions-per-minute allows went within a minute",
        advice="Wait 50s; the next removal may begin then.",
    ),
    Situation(
        "as many drained as may be",
        "node/m",
        standing(running(), running("web-1", "m"), nodes=[a_node(), a_node("m")]),
        UnremovableReason.MAX_DELETIONS,
        "flag max-drain-parallelism",
        cause="has to wait, since as many nodes as --max-drain-parallelism allows are being removed",
        advice="Wait until the others are gone, or set --max-drain-parallelism=2 to remove more at once.",
    ),
    Situation(
        "as many removed as may be",
        "node/m",
        standing(nodes=[a_node(), a_node("m")], options={"max-scale-down-parallelism": "1"}),
        UnremovableReason.MAX_DELETIONS,
        "flag max-scale-down-parallelism",
        cause="has to wait, since as many nodes as --max-scale-down-parallelism allows are being removed",
        advice="Wait until the others are gone, or set --max-scale-down-parallelism=2 to remove more at once.",
    ),
    Situation(
        "part of a whole",
        "node/m",
        standing(running(owner=""), nodes=[a_node(), a_node("m")], group=WHOLE),
        UnremovableReason.ATOMIC,
        "pod default/web-0",
        cause="can only go with all of group g, and another node is kept by pod default/web-0: no controller "
        "would make the pod again",
        advice="Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict: true, or run it "
        "under a controller; without one it does not come back. The node is checked again in 4m50s.",
    ),
    Situation(
        "the scale-up a moment ago",
        NODE,
        standing(
            a_pod("db-0", "80"),
            replicaSets=OWNERS,
            nodeGroups=[a_group(targetSize=1), a_group("big", a_template("99"))],
            options={"scale-down-delay-after-add": "2m"},
        ),
        ScaleDownResult.IN_COOLDOWN,
        "flag scale-down-delay-after-add",
        cause="has to wait for --scale-down-delay-after-add",
        advice="Wait 1m50s; it may go then.",
    ),
    Situation(
        "the scale-up of its group a moment ago",
        NODE,
        standing(
            a_pod("db-0", "4"),
            running("rest-0", "home", cpu="63500m"),
            running(),
            replicaSets=OWNERS,
            options={"scale-down-delay-after-add": "2m", "scale-down-delay-type-local": "true"},
        ),
        UnremovableReason.GROUP_COOLING_DOWN,
        "flag scale-down-delay-after-add",
        cause="has to wait for --scale-down-delay-after-add",
        advice="Wait 1m50s; it may go then.",
    ),
    Situation(
        "its group holds its nodes",
        NODE,
        standing(group={"options": {"scale-down-enabled": False}}),
        UnremovableReason.GROUP_HELD,
        "group g",
        cause="belongs to group g, which allows no removals",
        advice="Wait if a replacement is in progress, or set scale-down-enabled of group g to true.",
    ),
    Situation(
        "scale-down is off",
        NODE,
        standing(options={"scale-down-enabled": "false"}),
        Obstacle.SCALE_DOWN_DISABLED,
        "flag scale-down-enabled",
        cause="stays, since scale-down is off",
        advice="Set --scale-down-enabled=true.",
    ),
    Situation(
        "in use, and blocked besides",
        NODE,
        standing(running(cpu="2500m", owner="")),
        UnremovableReason.NOT_UNDERUTILIZED,
        "flag scale-down-utilization-threshold",
        cause="is in use: 62% of its cpu is requested, the threshold is 50%",
        advice="Nothing to do; to have it removed all the same, set --scale-down-utilization-threshold=0.63. "
        "Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict: true, or run it "
        "under a controller; without one it does not come back.",
    ),
    Situation(
        "the group's minimum, and not safe to evict",
        NODE,
        standing(running(meta={"annotations": {SAFE: "false"}}), group={"minSize": 1}),
        UnremovableReason.MIN_SIZE,
        "group g",
        cause="is needed for the minimum size of group g, which is 1",
        advice="Lower the minimum size of group g to 0. Remove the annotation "
        "cluster-autoscaler.kubernetes.io/safe-to-evict from pod default/web-0.",
    ),
    Situation(
        "two pods of one spent budget",
        NODE,
        standing(running(), running("web-1"), podDisruptionBudgets=[a_budget(0)]),
        BlockingReason.BUDGET,
        "budget default/web",
        cause="is kept by pod default/web-0: budget default/web allows no more disruptions; is kept by pod "
        "default/web-1: budget default/web allows no more disruptions",
        advice="Make PodDisruptionBudget default/web allow 1 disruption, by more healthy replicas or a wider "
        "budget. The node is checked again in 4m50s.",
    ),
    Situation(
        "too few replicas of a ReplicationController",
        NODE,
        standing(
            running(owner="ReplicationController/web"),
            replicationControllers=[named("web", replicas=1)],
            options={"min-replica-count": "2"},
        ),
        BlockingReason.MIN_REPLICAS,
        "controller ReplicationController default/web",
        cause="is kept by pod default/web-0: ReplicationController web has 1 replicas, fewer than 2",
        advice="Scale ReplicationController default/web to 2 replicas. The node is checked again in 4m50s.",
    ),
    Situation(
        "unready for too short a time, as the group has it",
        NODE,
        standing(nodes=[a_node(status=UNREADY_STATUS)], group={"options": {"scale-down-unready-time": "2m"}}),
        UnremovableReason.NOT_UNREADY_LONG_ENOUGH,
        "group g",
        cause="has been unneeded for 10s of 120s",
        advice="Wait 1m50s; it may go then if it is still unneeded.",
    ),
    Situation(
        "the scale-up a moment ago, found by flag",
        NODE,
        standing(
            a_pod("db-0", "80"),
            replicaSets=OWNERS,
            nodeGroups=[a_group(targetSize=1), a_group("big", a_template("99"))],
            options={"scale-down-delay-after-add": "1m", "scale-down-unneeded-time": "30s"},
        ),
        ScaleDownResult.IN_COOLDOWN,
        "flag scale-down-delay-after-add",
        cause="has to wait for --scale-down-delay-after-add",
        advice="Wait 50s; it may go then.",
    ),
    Situation(
        "the only other node is tainted",
        NODE,
        standing(running(), nodes=[a_node(), a_node("m", taints=AWAY, meta=STAYS)], home="", options=AT_ONCE),
        UnremovableReason.NO_PLACE,
        "pod default/web-0",
        cause="is kept by pod default/web-0: it does not tolerate taint elsewhere:NoSchedule of node m",
        advice="Add a toleration for elsewhere:NoSchedule to pod default/web-0 so that node m takes it.",
    ),
    Situation(
        "the only other node is cordoned",
        NODE,
        standing(running(), nodes=[a_node(), a_node("m", unschedulable=True, meta=STAYS)], home="", options=AT_ONCE),
        UnremovableReason.NO_PLACE,
        "pod default/web-0",
        cause="is kept by pod default/web-0: it needs a node, and node m is cordoned",
        advice="Uncordon node m.",
    ),
    Situation(
        "the only other node is out of reach",
        NODE,
        standing(running(), nodes=[a_node(), a_node("m", taints=UNREACHABLE, meta=STAYS)], home="", options=AT_ONCE),
        UnremovableReason.NO_PLACE,
        "pod default/web-0",
        flips=False,
        cause="is kept by pod default/web-0: it does not tolerate taint node.kubernetes.io/unreachable:NoSchedule "
        "of node m",
        advice="Add a node that takes pod default/web-0; the others do not, or are to go too.",
    ),
    Situation(
        "a pod of its kind on the only other node",
        NODE,
        standing(
            running(affinity={"podAntiAffinity": near("web", HOSTNAME)}),
            running("web-1", "m", affinity={"podAntiAffinity": near("web", HOSTNAME)}),
            nodes=[a_node(meta=labelled("n")), a_node("m", meta=STAYS | labelled("m"))],
            home="",
            options=AT_ONCE,
        ),
        UnremovableReason.NO_PLACE,
        "pod default/web-0",
        cause="is kept by pod default/web-0: it must not share kubernetes.io/hostname=m with pod default/web-1",
        advice="Make the required pod anti-affinity of pod default/web-0 a preferred one so that node m takes it.",
    ),
    Situation(
        "a volume on the node's own disk",
        NODE,
        standing(
            running(**a_volume(persistentVolumeClaim={"claimName": "data"})),
            nodes=[a_node(meta=labelled("n"))],
            options=AT_ONCE,
            persistentVolumeClaims=[named("data", volumeName="pv") | {"status": {"phase": "Bound"}}],
            persistentVolumes=[
                {
                    "metadata": {"name": "pv"},
                    "spec": {
                        "claimRef": {"name": "data", "namespace": "default"},
                        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [ONLY_HERE]}]}},
                    },
                }
            ],
        ),
        UnremovableReason.NO_PLACE,
        "pod default/web-0",
        flips=False,
        cause="is kept by pod default/web-0: it can use PersistentVolume pv only where kubernetes.io/hostname=n",
        advice="Add a node that takes pod default/web-0; the others do not, or are to go too.",
    ),
    Situation(
        "two emptyDirs, one of them safe",
        NODE,
        standing(
            running(
                annotations={SAFE + "-local-volumes": "cache"},
                volumes=[{"name": "cache", "emptyDir": {}}, {"name": "data", "emptyDir": {}}],
            )
        ),
        BlockingReason.LOCAL_STORAGE,
        "pod default/web-0",
        cause="is kept by pod default/web-0: volume data is on the node's disk",
        advice="Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: "
        "cache,data if the data may be lost. The node is checked again in 4m50s.",
    ),
    Situation(
        "a pod of no controller, and no room for it",
        NODE,
        standing(running(cpu="1500m", owner=""), running("rest-0", "home", cpu="63"), options=AT_ONCE),
        BlockingReason.NOT_REPLICATED,
        "pod default/web-0",
        cause="is kept by pod default/web-0: no controller would make the pod again; is kept by pod "
        "default/web-0: it needs 1.5 CPU, node home has 1 free",
        advice="Annotate pod default/web-0 with cluster-autoscaler.kubernetes.io/safe-to-evict: true, or run it "
        "under a controller; without one it does not come back. Lower the CPU request of pod default/web-0 "
        "from 1.5 to 1 so that node home takes it.",
    ),
]
